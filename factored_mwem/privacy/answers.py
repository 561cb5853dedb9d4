"""What a mechanism hands to `Session.select`: the model's answers, and which candidates may be chosen. Types
of the asker, so that privacy knows no model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Where the model's answer to each base in `which` lies in `parts` (shares), as `kernels.scoring`
    reads it.
    """

    which: np.ndarray
    total: float
    slots: np.ndarray
    strides: np.ndarray
    starts: np.ndarray
    parts: np.ndarray

    def part(self, rows: np.ndarray) -> Answers:
        """The answers of some of the bases."""
        which, slots, strides, starts = (
            self.which[rows],
            self.slots[rows],
            self.strides[rows],
            self.starts[rows],
        )
        return replace(self, which=which, slots=slots, strides=strides, starts=starts)


@dataclass(frozen=True, slots=True, eq=False)
class Eligible:
    """The candidates `which: int64[k]` of a round; `penalty: float64[k]`, the noise (records) expected of
    measuring each; `weights: float64[k]` in (0, 1], how much an error counts, or None where all count the
    same. Public.
    """

    which: np.ndarray
    penalty: np.ndarray
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.which)
