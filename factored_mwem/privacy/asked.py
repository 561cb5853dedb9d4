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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy.distances import SCORE_GRID
from factored_mwem.tables.source import Private

if TYPE_CHECKING:
    from factored_mwem.privacy.counts import Rows


class Cut(NamedTuple):
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


class Part(NamedTuple):
    """Some cells of a cut; `wanted` None: all of them, else the one of that number."""

    cut: Cut
    wanted: int | None = None


class Compared(NamedTuple):
    """Some cells of a cut, and the public answers to compare their counts with, in grains of SCORE_GRID a
    record: the greatest distance is what `Session.exceeds` tests.
    """

    cut: Cut
    wanted: tuple[int, ...]
    grains: tuple[int, ...]


class Counted(Private):
    """What PrivateQuestions reveals: the rows, of which one cut is counted at a time, in one pass."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def _cells(self, cut: Cut) -> np.ndarray:
        """int64[cell]: the exact counts."""
        if not cut.positions:
            return self._rows.marginal(())
        return self._rows.classed(cut.positions, cut.classes)

    def exact(self, what: Part) -> np.ndarray:
        """int64: what `Session.measure` adds noise to."""
        cells = self._cells(what.cut)
        return cells if what.wanted is None else cells[[what.wanted]]

    def gap(self, what: Compared, grains: int) -> int:
        """The greatest distance of a cell's count to what it is compared with, that `grains` higher."""
        counts = self._cells(what.cut)[list(what.wanted)]
        return int(np.abs(counts * SCORE_GRID - (np.array(what.grains, dtype=np.int64) + grains)).max())


def sensitivity_of(what: Part | Compared, unit: Unit, composition: Composition) -> int:
    """Squared L2 norm (pure: L1 norm) of what one person changes in the counts of a part, or in the greatest
    distance of cells.
    """
    if isinstance(what, Part) and what.wanted is None:
        return unit.of_marginal(composition)
    one = unit.of_counting_query
    return one**2 if composition is Composition.ZCDP else one
