"""Questions asked one by one: exact counts of private rows in the cells of a public cut, and how far a
model's answers are from them.

A cut puts every record into exactly one cell, by public classes of the codes of some attributes. So all of
its cells together are a marginal: one person changes them by no more than any other, however many they are.
Sensitivity, for k rows of a person:
- all cells: k (add-remove) or 2 k (replace) in L1 norm, k^2 or 2 k^2 squared in L2, see `Unit.of_marginal`;
- one cell alone: k under either relation, for of rows that are exchanged the cell loses k or gains k at most;
- the greatest distance between some cells' counts and the public answers of a model: each moves by k at most,
  and a maximum by no more than the most of what it is taken of.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.rows import SCORE_GRID, Rows, Sealed, SealedQuery
from factored_mwem.tables.inputs.source import Private


class TableCut(NamedTuple):
    """A cut of all records into cells, row-major over `positions`, ascending attributes of the modelled
    domain; `classes[j]: int64[code]`: the class, from 0 on, of each code of `positions[j]`. Public.
    """

    positions: tuple[int, ...]
    classes: tuple[np.ndarray, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Classes of each attribute."""
        return tuple(int(classes.max()) + 1 for classes in self.classes)

    @property
    def cells(self) -> int:
        return math.prod(self.sizes)


class CutCells(NamedTuple):
    """Some cells of a cut; `wanted` None: all of them, else the one of that number."""

    cut: TableCut
    wanted: int | None = None


class CutGap(NamedTuple):
    """Some cells of a cut, and the public answers to compare their counts with, in grains of SCORE_GRID a
    record: the greatest distance is what `Session.exceeds` tests.
    """

    cut: TableCut
    wanted: tuple[int, ...]
    grains: tuple[int, ...]


class CutCounts(Private):
    """What PrivateQuestions reveals: the rows, of which one cut is counted at a time, in one pass."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def _cells(self, cut: TableCut) -> np.ndarray:
        """int64[cell]: the exact counts."""
        if not cut.positions:
            return self._rows.marginal(())
        return self._rows.classed(cut.positions, cut.classes)

    def exact(self, what: CutCells) -> np.ndarray:
        """int64: what `Session.measure` adds noise to."""
        cells = self._cells(what.cut)
        return cells if what.wanted is None else cells[[what.wanted]]

    def gap(self, what: CutGap, grains: int) -> int:
        """The greatest distance of a cell's count to what it is compared with, that `grains` higher."""
        counts = self._cells(what.cut)[list(what.wanted)]
        return int(np.abs(counts * SCORE_GRID - (np.array(what.grains, dtype=np.int64) + grains)).max())


class PrivateQuestions(Sealed):
    """The private rows: `Session.measure` takes CutCells, `Session.exceeds` a CutGap."""

    __slots__ = ()

    @classmethod
    def of(cls, rows: PrivateRows) -> PrivateQuestions:
        """The same rows, still sealed."""
        return cls(CutCounts(rows._contents), rows.names)

    def query(self, what: CutCells | CutGap, unit: Unit) -> SealedQuery:
        """All cells of a cut are a marginal; one cell, or the greatest distance, moves as one count."""
        at = what.cut.positions
        names = tuple(self.names[a] for a in at)
        if isinstance(what, CutCells) and what.wanted is None:
            return SealedQuery.of_marginal(names, at, unit)
        return SealedQuery.each(names, at, unit.of_counting_query)
