"""Tails: how far the mechanisms' noise is from 0 at most, but for a probability that is said. Public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.session import NoiseScale

TRIED = np.linspace(1e-4, 1 - 1e-4, 4000)
"""Parameters of Chernoff's bound, of which each gives a bound that holds."""
FINE = 5.0
"""From this standard deviation on a discrete Gaussian is a rounded one."""


def noise_within(scale: NoiseScale, failure: float, draws: int = 1) -> float:
    """What the mean of `draws` of whole-numbered noise is off 0 at most, but with probability `failure`.

    Gaussian: P[X >= m] <= P[N >= m - 1] for every whole m (Canonne, Kamath, Steinke 2020, tail bounds), so
    the normal quantile and one unit hold a draw. Several draws are had at scales of thousands of units alone,
    where the discrete Gaussian is the rounded one but for a probability below 10^-100 (Poisson summation),
    and rounding moves their mean by half a unit at most.
    Laplace(b): P[|X| >= m] = 2 e^(-m/b) / (1 + e^(-1/b)), so b ln(1 / failure) and one unit hold a draw; of
    several, see `sum_within`.
    """
    if draws == 1 and scale.composition is Composition.PURE:
        return scale.value * math.log(1 / failure) + 1
    return sum_within([scale.value / draws] * draws, scale.composition, failure) + 1


def sum_within(scales: Sequence[float], composition: Composition, failure: float) -> float:
    """What a sum of independent continuous noises is off 0 at most, but with probability `failure`.

    Gaussians add up to one. Laplace: Chernoff's bound, P[|sum| >= w] <= 2 e^(-t w) / prod (1 - t^2 b^2) for
    every t below all 1 / b; it holds for discrete noise as well, whose moments E[e^tX] are no larger.
    """
    if composition is Composition.ZCDP:
        return -NormalDist().inv_cdf(failure / 2) * math.hypot(*scales)
    t = TRIED / max(scales)
    moments = -sum(np.log1p(-((t * b) ** 2)) for b in scales)
    return float(((math.log(2 / failure) + moments) / t).min())


def both_within(one: NoiseScale, draws: int, other: NoiseScale, failure: float) -> float:
    """What |X| + |Y| is at most, but with probability `failure`: X is the mean of so many `draws` of noise at
    scale `one`, which is far finer than its unit, and Y whole-numbered noise at scale `other`.

    |X| + |Y| is the larger of |X + Y| and |X - Y|, and each is a sum of independent noises, as both are
    symmetric: each gets half of the probability. A discrete Gaussian of standard deviation 5 is the rounded
    one but for a probability below 10^-200; so both together are rounded by less than a unit. Where that does
    not hold, or gains nothing, each of the two has half of the probability for itself.
    """
    apart = noise_within(one, failure / 2, draws) + noise_within(other, failure / 2)
    if one.composition is Composition.ZCDP and other.value < FINE:
        return apart
    scales = [one.value / draws] * draws + [other.value]
    return min(apart, sum_within(scales, one.composition, failure / 2) + 1)


def winner_within(scale: float, failure: float, candidates: int) -> float:
    """How far a noisy maximum's winner scores below the best at most, but with probability `failure`.

    A candidate that is x below the best wins only if its noise is x above that of the best one: a probability
    of 1 / (1 + e^(x/b)) for Gumbel noise and of e^(-x/b) / 2 for exponential noise, by which permute-and-flip
    may be drawn; and there are so many candidates.
    """
    return scale * math.log(candidates / failure)
