"""Lone columns: those that rounds have tied to no other. A rare flag is never what a model answers worst, for
it moves few rows; so when rounds get quiet, and before they get dearer, its best partner is looked for.

Which columns are alone is public, as the model is. A round for them offers fewer candidates and scores them
as every round does, so its sensitivity is that of `Session.select`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from factored_mwem.model.forest import Forest
from factored_mwem.workload.candidates import Candidates

PATIENCE = 2
"""Quiet rounds in a row after which the columns that are left stay alone for now."""
DEAR = 0.05
"""No columns are looked after once PATIENCE rounds cost more than this share of the whole budget."""


def alone(forest: Forest) -> list[int]:
    """The attributes that are in no component with others, in order."""
    return sorted(a for part in forest.components if len(part.attributes) == 1 for a in part.attributes)


@dataclass(slots=True)
class LoneColumns:
    """Whether rounds look for partners of lone columns now (`seeking`), and how many were `quiet` in a
    row.
    """

    views: Candidates
    seeking: bool = False
    quiet: int = 0

    def of_pairs(self, which: np.ndarray, forest: Forest) -> np.ndarray:
        """int64[k]: of the views `which`, the pairs that hold a lone column."""
        lone = np.zeros(len(self.views.levels.shape) + 1, dtype=bool)  # the last entry stands for padding
        lone[alone(forest)] = True
        return which[(self.views.orders[which] == 2) & lone[self.views.attributes[which]].any(axis=1)]

    def heard(self, forest: Forest, *, quiet: bool, price: float) -> bool:
        """Hear of a round whose price was this share of the budget. Returns whether the price of rounds is to
        follow what it showed; it stays as it is while lone columns are looked after.
        """
        if self.seeking:
            self.quiet = self.quiet + 1 if quiet else 0
            self.seeking = self.quiet < PATIENCE and bool(alone(forest))
            return not self.seeking
        self.seeking = quiet and price * PATIENCE <= DEAR and bool(alone(forest))
        self.quiet = 0
        return not self.seeking
