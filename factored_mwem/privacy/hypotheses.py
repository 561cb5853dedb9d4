"""How many rows each hypothesis of a public, finite class is right about; private.

A hypothesis is a public table: what it says of every cell of the features. A person's k rows move each
number of right answers by at most k, one way alone where they are added or removed: then all scores move by
between 0 and k, so less k / 2, which a noisy maximum does not see, by at most k / 2. There scores are told
twice over, so that k is still the number that prices them. Source: Kasiviswanathan, Lee, Nissim,
Raskhodnikova, Smith 2008; e^{epsilon score} for add-remove, e^{epsilon score / 2} for replace.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.privacy.counts import Rows, Sealed
from factored_mwem.privacy.distances import SCORE_GRID
from factored_mwem.tables.source import Private


class HypothesisScores(Private):
    """What PrivateScores reveals."""

    __slots__ = ("_right",)

    def __init__(self, right: np.ndarray) -> None:
        self._right = right

    def scores(self, answers: None) -> np.ndarray:
        """int64[hypothesis]: what a noisy maximum is taken of, in grains. Exact below 2^41 rows."""
        return self._right * SCORE_GRID


class PrivateScores(Sealed):
    """The scores of a class, for `Session.select`."""

    __slots__ = ("_neighbours", "names")

    def __init__(self, rows: Rows, names: Sequence[str], predictions: np.ndarray, unit: Unit) -> None:
        sizes = rows.levels.shape
        table = rows.marginal(range(len(sizes))).reshape(-1, sizes[-1])
        right = np.array([table[np.arange(len(table)), said].sum() for said in predictions], dtype=np.int64)
        super().__init__(HypothesisScores(right * (2 if unit.neighbours is Neighbours.ADD_REMOVE else 1)))
        self.names, self._neighbours = tuple(names), unit.neighbours

    def score_sensitivity(self, unit: Unit) -> int:
        """How far a score moves (rows), or half of the way where all move one way; see the top."""
        if unit.neighbours is not self._neighbours:
            raise AssertionError("scores of another relation")
        return unit.contributions
