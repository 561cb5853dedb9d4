"""Isolated columns: those that rounds have tied to no other. A rare flag is never what a model answers worst,
for it moves few rows; so when rounds show only noise, before their price rises, its best partner is sought.

Which columns are isolated is public, as the model is. A round for them offers fewer candidates and scores
them as every round does, so its sensitivity is that of `Session.select`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from factored_mwem.model.forest import Forest
from factored_mwem.workload.candidates import Candidates

PATIENCE = 2
"""Rounds in a row that show only noise, after which the columns that are left stay isolated for now."""
DEAR = 0.05
"""No columns are looked after once PATIENCE rounds cost more than this share of the whole budget."""


def isolated(forest: Forest) -> list[int]:
    """The attributes that are in no component with others, in order."""
    return sorted(a for part in forest.components if len(part.attributes) == 1 for a in part.attributes)


@dataclass(slots=True)
class IsolatedColumns:
    """Whether rounds seek partners of isolated columns now, and how many in a row showed only noise."""

    views: Candidates
    seeking: bool = False
    quiet: int = 0

    def of_pairs(self, which: np.ndarray, forest: Forest) -> np.ndarray:
        """int64[k]: of the views `which`, the pairs that hold an isolated column."""
        without = np.zeros(len(self.views.levels.shape) + 1, dtype=bool)  # the last entry stands for padding
        without[isolated(forest)] = True
        return which[(self.views.orders[which] == 2) & without[self.views.attributes[which]].any(axis=1)]

    def observe(self, forest: Forest, *, quiet: bool, price: float) -> bool:
        """Take note of a round that cost `price`, a share of the budget. Returns whether the price of rounds
        is to follow what the round showed: not while partners are being looked for.
        """
        if self.seeking:
            self.quiet = self.quiet + 1 if quiet else 0
            self.seeking = self.quiet < PATIENCE and bool(isolated(forest))
            return not self.seeking
        self.seeking = quiet and price * PATIENCE <= DEAR and bool(isolated(forest))
        self.quiet = 0
        return not self.seeking
