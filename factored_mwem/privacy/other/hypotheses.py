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
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.rows import SCORE_GRID, Sealed
from factored_mwem.tables.inputs.source import Private


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

    __slots__ = ("_neighbours",)

    def __init__(self, contents: HypothesisScores, names: Sequence[str], neighbours: Neighbours) -> None:
        super().__init__(contents, names)
        self._neighbours = neighbours

    @classmethod
    def of(cls, rows: PrivateRows, predictions: np.ndarray, unit: Unit) -> PrivateScores:
        """How many of `rows` each hypothesis is right about, sealed at once: `predictions: int64[hypothesis,
        cell]` are codes of the last attribute, for every cell of the others. One pass.
        """
        sizes = rows._contents.levels.shape
        table = rows._contents.marginal(range(len(sizes))).reshape(-1, sizes[-1])
        right = np.array([table[np.arange(len(table)), codes].sum() for codes in predictions], dtype=np.int64)
        twice = 2 if unit.neighbours is Neighbours.ADD_REMOVE else 1
        return cls(HypothesisScores(right * twice), rows.names, unit.neighbours)

    def score_sensitivity(self, unit: Unit) -> int:
        """How far a score moves (rows), or half of the way where all move one way; see the top."""
        if unit.neighbours is not self._neighbours:
            raise AssertionError("scores of another relation")
        return unit.contributions
