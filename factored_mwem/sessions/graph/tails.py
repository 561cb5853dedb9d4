"""Tails: how far noise on all pairs of a graph can move a linear query, and all cuts at once.

Theorem 6.5 of Gupta, Roth and Ullman (2012): for Y = sum of q_i Y_i over N pairs with q_i in [0, 1] and Y_i
Laplace noise of scale b, Pr[Y >= a] <= exp(-a^2 / (6 N b^2)) where a <= N b, else exp(-a / (6 b)). It rests
on nothing but the moment generating function 1 / (1 - b^2 t^2). That of discrete Laplace noise of the same
scale is 1 / (1 - sinh(t / 2)^2 / sinh(1 / (2 b))^2), which is no larger for |t| < 1 / b because sinh(x) / x
grows: so the theorem holds for the noise that is drawn, as it stands. Discrete Gaussian noise is sub-Gaussian
with its own sigma (Canonne, Kamath, Steinke 2020): Pr[Y >= a] <= exp(-a^2 / (2 N sigma^2)).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.session import NoiseScale


def tail(alpha: float, pairs: int, scale: NoiseScale) -> float:
    """An upper bound of Pr[sum of q_i Y_i >= alpha] over `pairs` pairs (one-sided)."""
    if alpha <= 0:
        return 1.0
    b = scale.value
    if scale.composition is Composition.ZCDP:
        return math.exp(-(alpha**2) / (2 * pairs * b**2)) if pairs else 0.0
    if alpha <= pairs * b:
        return math.exp(-(alpha**2) / (6 * pairs * b**2))
    return math.exp(-alpha / (6 * b))


def bound(pairs: int, scale: NoiseScale, log_failures: float) -> float:
    """The alpha at which `tail` is exp(-log_failures) or less: the theorem solved for alpha."""
    if not pairs:
        return 0.0
    b = scale.value
    if scale.composition is Composition.ZCDP:
        return b * math.sqrt(2 * pairs * log_failures)
    if 6 * log_failures <= pairs:
        return b * math.sqrt(6 * pairs * log_failures)
    return 6 * b * log_failures


def single_bound(scale: NoiseScale, log_failures: float) -> float:
    """The alpha that the noise on one number exceeds with probability exp(-log_failures) at most."""
    if scale.composition is Composition.ZCDP:
        return bound(1, scale, log_failures)
    return scale.value * log_failures + 1  # Pr[Y >= a] <= exp(-a / b) for whole a


def queries_bound(universe: int, scale: NoiseScale, queries: float, beta: float) -> float:
    """Lemma 6.1: with probability 1 - beta no one of so many linear queries with coefficients in [0, 1] over
    `universe` pairs is off by more: b sqrt(6 |X| log(2 k / beta)) where 6 log(2 k / beta) <= |X|; beyond,
    the theorem's other case, 6 b log(2 k / beta), takes the place of the lemma's extra factor.
    """
    return bound(universe, scale, math.log(2 * queries / beta))


def cut_bound(pairs: int, vertices: int, scale: NoiseScale, beta: float) -> float:
    """With probability 1 - beta none of the 4^n cuts is off by more than its own bound, which depends on its
    number of pairs: O(sqrt(|S| |T| n) / epsilon), as after Lemma 6.1.
    """
    return bound(pairs, scale, vertices * math.log(4) + math.log(2 / beta))


def rounding_bound(pairs: int, vertices: int, beta: float) -> float:
    """With probability 1 - beta no cut of a graph drawn by independent coins is further from its expectation:
    sqrt(N log(2 4^n / beta) / 2) over N pairs (Hoeffding), for all cuts at once.
    """
    return math.sqrt(pairs * (vertices * math.log(4) + math.log(2 / beta)) / 2)


MOST_POINTS = 2**21
"""Most whole numbers over which the distribution of a sum is computed."""


def _law(scale: NoiseScale, points: int) -> np.ndarray:
    """float64[points]: the probabilities of 0, 1, ..., -2, -1 under the noise on one number."""
    whole = np.abs(np.fft.fftfreq(points, 1 / points))
    squared = scale.composition is Composition.ZCDP
    each = np.exp(-(whole**2) / (2 * scale.value**2) if squared else -whole / scale.value)
    return each / each.sum()


@lru_cache(maxsize=64)
def stddev(scale: NoiseScale) -> float:
    """The standard deviation of the noise on one number, as it is drawn, which is whole: of Laplace noise
    with p = exp(-1 / b), sqrt(2 p) / (1 - p), below sqrt(2) b; of Gaussian noise the sum over whole numbers.
    """
    b = scale.value
    if scale.composition is Composition.ZCDP:
        if b > 10:  # the two differ by less than one part in 10^800
            return b
        whole = np.fft.fftfreq(2**9, 1 / 2**9)
        return float(np.sqrt((_law(scale, 2**9) * whole**2).sum()))
    return math.sqrt(2 * math.exp(-1 / b)) / -math.expm1(-1 / b)


@lru_cache(maxsize=1024)
def reach_of_sum(pairs: int, scale: NoiseScale, failures: float) -> float:
    """The least whole a with Pr[|Y_1 + ... + Y_N| > a] <= failures over N pairs: of the law of the sum, by a
    Fourier transform over 64 of its standard deviations to either side.

    Beyond MOST_POINTS whole numbers the law is that of less noise, stretched: two laws of the same shape,
    of which the grid is 2^14 times finer than either is wide.
    """
    if not pairs:
        return 0.0
    wide = stddev(scale) * math.sqrt(pairs)
    most = MOST_POINTS / 128
    if wide > most:
        less = NoiseScale(scale.value * most / wide, scale.composition)
        if less.value < 1:  # hundreds of millions of pairs: the sum of any noise has the shape of a Gaussian
            pairs, less = 1, NoiseScale(most, Composition.ZCDP)
        stretch = wide / (stddev(less) * math.sqrt(pairs))
        return math.ceil((reach_of_sum(pairs, less, failures) + 1) * stretch)
    points = 2 ** max(10, math.ceil(math.log2(128 * wide)))
    law = np.fft.irfft(np.fft.rfft(_law(scale, points)).real ** pairs, points)
    within = law[0] + 2 * np.cumsum(law[1 : points // 2])
    return float(np.searchsorted(np.concatenate([law[:1], within]), 1 - failures))
