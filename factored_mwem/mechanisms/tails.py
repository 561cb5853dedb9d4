"""Tails: how far the mechanisms' noise is from 0 at most, but for a probability that is said. Public."""

from __future__ import annotations

import math
from statistics import NormalDist

from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.session import NoiseScale

STEPS = 200
"""Of a bisection: beyond what a float can tell."""


def noise_within(scale: NoiseScale, failure: float, draws: int = 1) -> float:
    """What the mean of so many `draws` of whole-numbered noise is away from 0, but with probability
    `failure`.

    Gaussian: P[X >= m] <= P[N >= m - 1] for every whole m (Canonne, Kamath, Steinke 2020, tail bounds), so
    the normal quantile and one unit hold a draw. Several draws are had at scales of thousands of units alone,
    where the discrete Gaussian is the rounded one but for a probability below 10^-100 (Poisson summation),
    and rounding moves their mean by half a unit at most. Laplace(b): P[|X| >= m] = 2 e^(-m/b) / (1 +
    e^(-1/b)), so b ln(1 / failure) and one unit hold a draw; of several, Chernoff's bound, for whose best
    parameter t there is a closed form: the discrete noise's moments E[e^tX] are at most those of the
    continuous one, 1 / (1 - t^2 b^2).
    """
    if scale.composition is Composition.ZCDP:
        return -NormalDist().inv_cdf(failure / 2) * scale.value / math.sqrt(draws) + 1
    if draws == 1:
        return scale.value * math.log(1 / failure) + 1
    low, high = 0.0, draws * (math.log(2 / failure) + 1) * 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _laplace_tail(middle, draws) <= failure else (middle, high)
    return high / draws * scale.value + 1


def _laplace_tail(total: float, draws: int) -> float:
    """At least the probability that so many draws of Laplace(1) add up to `total` or more either way."""
    t = total / (draws + math.hypot(draws, total))
    return 2 * math.exp(-draws * math.log1p(-t * t) - t * total)


def winner_within(scale: float, failure: float, candidates: int) -> float:
    """How far the score of a noisy maximum's winner lies below the best one at most, but with probability
    `failure`.

    A candidate that is x below the best wins only if its noise is x above that of the best one: a probability
    of 1 / (1 + e^(x/b)) for Gumbel noise and of e^(-x/b) / 2 for exponential noise, by which permute-and-flip
    may be drawn; and there are so many candidates.
    """
    return scale * math.log(candidates / failure)
