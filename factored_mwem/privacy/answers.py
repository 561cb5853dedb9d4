"""How a model hands its answers to be scored: a type of the asker, so that privacy knows no model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Where the model's answer to each base in `which` lies in `parts` (shares), as
    `kernels.scoring.distances` reads it.
    """

    which: np.ndarray
    total: float
    slots: np.ndarray
    strides: np.ndarray
    starts: np.ndarray
    parts: np.ndarray

    def part(self, rows: np.ndarray) -> Answers:
        """The answers of some of the bases."""
        return replace(
            self,
            which=self.which[rows],
            slots=self.slots[rows],
            strides=self.strides[rows],
            starts=self.starts[rows],
        )
