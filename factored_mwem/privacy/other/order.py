"""Order statistics of private values and their smooth sensitivity, exactly, on an integer grid.

A statistic is the value at a public rank r of the sorted values, which are padded with 0 below rank 1 and
with `top` above the last: x_r. That is the median, every quantile, the minimum (r = 1) and, of top - x, the
maximum.

Neighbours. A row more is a value in place of one of the padding's, a row less the reverse, and so is a value
that becomes unreadable. So one person's g rows, added, removed or replaced, are at most g replacements in the
padded sequence: one bound serves both relations of `accounting/unit.py`.

Smooth sensitivity. After w replacements x_r can be any value from x_{r-w} to x_{r+w}, and if two tables are
j g and (j + 1) g replacements away, their statistics are at most x_e - x_i apart with i <= r <= e and e - i
= (j + 1) g, which is reached (Nissim, Raskhodnikova, Smith 2007, Claim 3.3, for g = 1). So S = max over i
<= r <= e of (x_e - x_i) exp(-beta max(0, e - i - g) / g). For g = 1 this is the smooth sensitivity itself.
For g > 1 it is at least that, and smooth: a gap of a neighbour's is inside one that is g wider here, and
costs at most one more step.

At least 1 unit is told, which is smooth, too. So what is more than ln(top) / beta steps away, and would count
for less than 1, is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from factored_mwem.kernels.smoothing import widest_gap

UP = 1 + 2.0**-40
"""Of S, for the rounding of its floats: their relative error is below 2^-48."""


class Ordered:
    """`counts: int64[cell]`, rows of each cell; cell c is worth c * `unit`; the last cell is the top."""

    __slots__ = ("_ends", "top", "unit")

    def __init__(self, counts: np.ndarray, unit: int) -> None:
        self._ends = np.cumsum(counts)
        self.unit, self.top = unit, (len(counts) - 1) * unit

    def __len__(self) -> int:
        return int(self._ends[-1])

    def at(self, ranks: np.ndarray) -> np.ndarray:
        """int64[rank]: the padded values at `ranks: int64`, from 1."""
        cells = np.minimum(np.searchsorted(self._ends, ranks, side="left"), len(self._ends) - 1)
        return np.where(ranks < 1, 0, cells * self.unit)

    def value(self, rank: int) -> int:
        """The statistic."""
        return int(self.at(np.array([rank]))[0])

    def smooth(self, rank: int, beta: float, group: int = 1) -> float:
        """S, at least 1, in units; `group`: the most rows of one person."""
        steps = steps_of(self.top, beta, group)
        below = min(steps, max(rank, 0))  # at rank 0 it is 0, and below that no less
        above = min(steps, max(len(self) + 1 - rank, 0))
        left = self.at(rank - np.arange(below + 1))
        right = self.at(rank + np.arange(above + 1))
        return max(1.0, widest_gap(left, right, group, beta) * UP)


def steps_of(top: int, beta: float, group: int) -> int:
    """How many ranks away what is looked at may be: a public fact."""
    return group * (2 + math.ceil(math.log(max(top, 2)) / beta))


def smooth_bound(local: Sequence[float], beta: float, most: float | None = None) -> float:
    """max over k of e^{-beta k} A^(k) of `local`, rounded up; with `most`, the global sensitivity, which
    stands for all k beyond. Source: Nissim, Raskhodnikova, Smith 2007, section 3.1.
    """
    bounds = [math.exp(-beta * k) * a for k, a in enumerate(local)]
    if most is not None:
        bounds.append(math.exp(-beta * len(bounds)) * most)
    return max(bounds, default=0.0) * UP
