"""Metered noise: a draw must have a charge of its own, at the same scale. What a mistake in a mechanism would
leave undrawn or unpaid ends the run instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from factored_mwem.accounting.accountant import SMOOTH, TESTED, Accountant
from factored_mwem.accounting.admissible import Shape
from factored_mwem.privacy.noise import Noise, NoisyThreshold


class Metered:
    """The noise of a release, outermost. AssertionError if a draw does not fit what was just charged, or
    does not belong to a test that was paid for and has not said yes.
    """

    def __init__(self, noise: Noise, accountant: Accountant) -> None:
        self.composition = noise.composition
        self._noise, self._accountant, self._draws = noise, accountant, 0
        self._test: NoisyThreshold | None = None
        self._scale = 0.0

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        self._check(scale)
        return self._noise.select(scores, scale=scale)

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        self._check(scale)
        return self._noise.add(values, scale=scale)

    def threshold(
        self, counts: dict[str, int], *, scale: float, threshold: int, listed: Sequence[str] = ()
    ) -> dict[str, int]:
        self._check(scale)
        return self._noise.threshold(counts, scale=scale, threshold=threshold, listed=listed)

    def begin(self, *, scale: float) -> NoisyThreshold:
        self._check(scale)
        self._test, self._scale = self._noise.begin(scale=scale), scale
        return self._test

    def exceeds(self, score: int, begun: NoisyThreshold, *, scale: float) -> bool | None:
        if begun is not self._test or Fraction(scale) < Fraction(self._scale) * TESTED:
            raise AssertionError("a test that is over, that was not charged, or at another scale")
        said = self._noise.exceeds(score, begun, scale=scale)
        if said is not False:
            self._test = None
        return said

    def spread(self, value: int, bound: float, *, shape: Shape, scale: float) -> int:
        self._check(scale)
        if self._accountant.entries[-1].mechanism is not SMOOTH[shape]:
            raise AssertionError("noise is drawn of another shape than was charged")
        return self._noise.spread(value, bound, shape=shape, scale=scale)

    def _check(self, scale: float) -> None:
        charges = self._accountant.entries
        if len(charges) != self._draws + 1 or charges[-1].scale != scale:
            raise AssertionError("noise is drawn that was not charged, or at another scale")
        self._draws += 1

    def end(self) -> None:
        """After the last draw: every charge was drawn, and their sum is what was spent, within budget."""
        a = self._accountant
        cost, delta = (
            sum((c.cost for c in a.entries), Fraction(0)),
            sum((c.delta for c in a.entries), Fraction(0)),
        )
        within = cost <= a.budget.amount and delta <= a.budget.discovery_delta
        if len(a.entries) != self._draws or (a.spent, a.spent_delta) != (cost, delta) or not within:
            raise AssertionError("the charges are not what was spent, or more than the budget")
