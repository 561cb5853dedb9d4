"""Prices: what tests and measurements must cost for answers right to alpha with probability 1 - beta.

Both follow from public facts. A measured count with discrete Laplace noise of scale b is off by more than A
with probability 2 e^{-(floor(A) + 1) / b} / (1 + e^{-1/b}); with discrete Gaussian noise, at most as often as
a normal one by floor(A) (Canonne, Kamath, Steinke 2020). A model's answer that a sparse vector test lets pass
is off by at most the threshold and the difference of the two noises; `passing_tail` is that difference's
tail, whoever chose the queries: each slot of a test has noise of its own, the threshold's is older.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from factored_mwem.accounting.accountant import TESTED, additive, price, testing
from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import InputError
from factored_mwem.privacy.rows import SCORE_GRID

SAFE = 1 + 1e-3
"""Factor on tails that are summed as if the noise were continuous, though it lies on a grid of SCORE_GRID
steps a record.
"""
TIGHT = 1 - 1e-9
"""Factor by which scales are smaller than the equations say, to be on the safe side."""


def measuring_tail(scale: float, off: float, composition: Composition) -> float:
    """An upper bound on the probability that a measured count is off by more than `off` records."""
    if composition is Composition.ZCDP:
        return 2 * NormalDist().cdf(-math.floor(off) / scale)
    return 2 * math.exp(-(math.floor(off) + 1) / scale) / (1 + math.exp(-1 / scale))


def passing_tail(scale: float, off: float) -> float:
    """An upper bound on the probability that a test accepts an answer that lies `off` records beyond its
    threshold: P[rho - nu > off] of rho ~ Laplace(scale) and nu ~ Laplace(5/4 scale), in records.
    """
    other = scale * float(TESTED)
    if off <= 0:
        return 1.0
    sums = other**2 * math.exp(-off / other) - scale**2 * math.exp(-off / scale)
    return min(1.0, sums / (2 * (other**2 - scale**2)) * SAFE)


@functools.cache
def _measuring_scale(alpha: float, beta: float, composition: Composition) -> float:
    return largest(lambda b: measuring_tail(b, alpha, composition) <= beta, alpha)


@functools.cache
def _testing_scale(off: float, beta: float) -> float:
    return largest(lambda b: passing_tail(b, off) <= beta, off)


def largest(fits: Callable[[float], bool], high: float) -> float:
    """The largest number up to `high`, to one part in 10^9, for which `fits` is true; it is true for all
    smaller ones, too.
    """
    low = 0.0
    for _ in range(80):
        middle = (low + high) / 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low * TIGHT


def fixed_point(wanted: Callable[[float], float]) -> float:
    """The least alpha with wanted(alpha) <= alpha, rounded up; `wanted` must not grow with alpha."""
    low, high = 0.0, 1.0
    while wanted(high) > high:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if wanted(middle) > middle else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class Prices:
    """What answers within `alpha` records cost, each with probability 1 - `beta`, at this composition.

    `threshold`: the share of alpha beyond which a test says that a model's answer is too far off.
    """

    alpha: float
    beta: float
    composition: Composition
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.beta < 0.5:
            raise InputError(f"beta={self.beta:g}: must lie between 0 and 1/2; 0.001 is a common choice")
        if not self.alpha >= 2:
            raise InputError(
                f"alpha is {self.alpha:.3g} records, which is too small for any noise; it must be at least 2"
            )

    @property
    def level(self) -> float:
        """The threshold, in records."""
        return self.threshold * self.alpha

    def measuring(self, sensitivity: int, groups: int) -> Fraction:
        """The cost of measuring `groups` counts, all of which are within alpha with probability 1 - beta;
        `sensitivity` as a mechanism of the composition has it.
        """
        scale = _measuring_scale(self.alpha, self.beta / groups, self.composition)
        return price(additive(self.composition), scale=scale, sensitivity=sensitivity)

    def testing(self, sensitivity: int) -> Fraction:
        """The cost of a test of answers that one person changes by at most `sensitivity` records."""
        grains = _testing_scale(self.alpha - self.level, self.beta) * SCORE_GRID
        return price(testing(self.composition), scale=grains, sensitivity=sensitivity * SCORE_GRID)
