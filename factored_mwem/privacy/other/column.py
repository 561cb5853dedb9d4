"""The values of one private column, on a public grid: what statistics of it are made of.

A row without a readable value counts for nothing. Cells of the grid are 0..C - 1. Of sums, a value counts
as 2 c - (C - 1), so that it is at most C - 1 either way, whatever the bounds; of sums of squares, as twice
the square of that less (C - 1)^2, at most (C - 1)^2 either way. So one person's k rows move a count by at
most k, a sum by at most k (C - 1), and twice that where they are exchanged for another's; a sum of squares
alike.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

import numpy as np

from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.other.order import Ordered
from factored_mwem.privacy.rows import SCORE_GRID, Rows, Sealed, SealedQuery
from factored_mwem.tables.inputs.source import Private

GRAINS = 2**20
"""Units of noise to a cell: smooth bounds are at least one unit, so they may be far below a cell."""
MOST_CELLS = 2**16
"""Of the grid: sums of squares of 2^30 rows stay below 2^62."""


class Moment(Enum):
    """What can be measured: the number of values, their sum, the sum of their squares."""

    COUNT, SUM, SQUARES = range(3)


class Rank(NamedTuple):
    """The value at a rank, from 1, for smooth sensitivity; `from_top`: its distance to the top."""

    rank: int
    from_top: bool = False


class ColumnValues(Private):
    """What PrivateColumn reveals."""

    __slots__ = ("_counts", "_down", "_up")

    def __init__(self, rows: Rows, cells: int) -> None:
        self._counts = rows.singles[0][:cells]  # null, where there is a code for it, is the last
        self._up, self._down = Ordered(self._counts, GRAINS), Ordered(self._counts[::-1], GRAINS)

    def exact(self, what: Moment) -> np.ndarray:
        """int64[1]: what `Session.measure` adds noise to."""
        last = len(self._counts) - 1
        cell = 2 * np.arange(last + 1, dtype=np.int64) - last
        worth = (np.ones_like(cell), cell, 2 * cell**2 - last**2)[what.value]
        return np.array([int(self._counts @ worth)], dtype=np.int64)

    def value(self, what: Rank) -> int:
        """See `smooth.Smooth`."""
        return self._ordered(what).value(what.rank)

    def smooth(self, what: Rank, beta: float, group: int) -> float:
        """See `smooth.Smooth`."""
        return self._ordered(what).smooth(what.rank, beta, group)

    def scores(self, answers: np.ndarray) -> np.ndarray:
        """int64[cell]: how far the rank that is asked for, the share `answers: float64[1]` of all, is from
        the ranks that a value of the grid has, below zero, in grains of a row: with u : v as the share to
        the rest, the larger one 1, it is v below - u (n - below) where that is above zero, u above - v (n -
        above) where that is, else nothing. A row more moves each by at most 1, a row in the place of
        another by at most 2; the number of rows need not be known. Source: Smith 2011, OpenDP; here a value
        that many rows have is at all of their ranks.
        """
        share = float(answers[0])
        larger = max(share, 1 - share)
        u, v = (math.floor(part / larger * SCORE_GRID) for part in (share, 1 - share))
        ends = np.cumsum(self._counts)
        rows, below = ends[-1], ends - self._counts
        early, late = v * below - u * (rows - below), u * (rows - ends) - v * ends
        return -np.maximum(np.maximum(early, late), 0)

    def _ordered(self, what: Rank) -> Ordered:
        return self._down if what.from_top else self._up


class PrivateColumn(Sealed):
    """The values of the first attribute of some rows, whose codes below `cells` are a grid."""

    __slots__ = ("cells",)

    def __init__(self, contents: ColumnValues, name: str, cells: int) -> None:
        super().__init__(contents, [name])
        self.cells = cells

    @classmethod
    def of(cls, rows: PrivateRows, cells: int) -> PrivateColumn:
        """The values in `rows`, sealed at once. One pass."""
        if not 2 <= cells <= MOST_CELLS:
            raise AssertionError("a grid of so many cells")
        return cls(ColumnValues(rows._contents, cells), rows.names[0], cells)

    def score_sensitivity(self, unit: Unit) -> int:
        """How far a score moves (rows): a row below or above counts for at most one, and may change sides."""
        return unit.l1_of_score

    def query(self, what: Moment, unit: Unit) -> SealedQuery:
        """See the top."""
        last = self.cells - 1
        most = (unit.of_counting_query, unit.of_parity * last, unit.of_parity * last**2)[what.value]
        return SealedQuery.each(self.names, (0,), most)
