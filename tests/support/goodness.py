"""Goodness of fit with a power check: the claimed distribution must be accepted and 0.7 and 1.3 times its
scale rejected.

All bounds hold for every number of draws, not only in the limit: Dvoretzky, Kiefer, Wolfowitz (with
Massart's constant) for integers, Bretagnolle and Huber-Carol for choices, Chernoff for a single event. Every
function works on exact probabilities computed here, not on the package's formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

FAILURE = 1e-10
"""Most probability with which a right sampler is rejected, or a wrong one accepted, in one check."""
WRONG = (0.7, 1.3)
"""Multiples of the scale that must be told apart from it."""

Pmf = Callable[[float, np.ndarray], np.ndarray]


def gaussian(scale: float, x: np.ndarray) -> np.ndarray:
    """Exact probabilities of the discrete Gaussian (Canonne, Kamath, Steinke 2020, definition 1)."""
    far = np.arange(-math.ceil(40 * scale) - 40, math.ceil(40 * scale) + 41)
    return (
        np.exp(-(x.astype(float) ** 2) / (2 * scale**2))
        / np.exp(-(far.astype(float) ** 2) / (2 * scale**2)).sum()
    )


def tail(scale: float, at: int) -> float:
    """P[noise >= at]."""
    return float(gaussian(scale, np.arange(at, at + math.ceil(60 * scale))).sum())


def laplace(scale: float, x: np.ndarray) -> np.ndarray:
    """Exact probabilities of the discrete Laplace distribution."""
    return np.tanh(0.5 / scale) * np.exp(-np.abs(x) / scale)


@cache
def log_ratio(pmf: Pmf, scale: float, shift: int) -> float:
    """The largest log ratio of a distribution's probabilities to those of its shift."""
    x = np.arange(-60, 61)
    return float(np.abs(np.log(pmf(scale, x) / pmf(scale, x - shift))).max())


@cache
def renyi(pmf: Pmf, scale: float, shift: int, order: float) -> float:
    """The Renyi divergence of a distribution from its shift."""
    x = np.arange(-math.ceil(30 * scale), math.ceil(30 * scale) + 1)
    p, q = np.log(pmf(scale, x)), np.log(pmf(scale, x - shift))
    return float(np.log(np.exp(order * p + (1 - order) * q).sum()) / (order - 1))


def exponential(scale: float, scores: np.ndarray) -> np.ndarray:
    """Exact probabilities of the exponential mechanism that Gumbel noise of `scale` makes."""
    weights = np.exp((scores - scores.max()) / scale)
    return weights / weights.sum()


def permute_and_flip(scale: float, scores: np.ndarray) -> np.ndarray:
    """Exact probabilities of permute-and-flip (McKenna and Sheldon 2020): a fair order, then a coin for each
    until one falls on heads.

    Let every candidate arrive at a uniform time: i wins when its coin is heads and nobody before it had
    heads. Integrate over its time, by nodes that are exact for a polynomial of this degree.
    """
    heads = np.exp((scores - scores.max()) / scale)
    nodes, weights = np.polynomial.legendre.leggauss(len(heads) // 2 + 1)
    tails = 1 - np.outer((nodes + 1) / 2, heads)
    return heads * (weights / 2 @ (tails.prod(axis=1, keepdims=True) / tails))


def fits(draws: np.ndarray, pmf: Pmf, scale: float) -> bool:
    """Whether the integers `draws` may come from `pmf(scale, .)`; False with certainty 1 - FAILURE where they
    come from WRONG scales.

    AssertionError where there are too few draws for that certainty: a check without power is no check.
    """
    radius = math.sqrt(math.log(2 / FAILURE) / (2 * len(draws)))
    edge = math.ceil(40 * max(scale, 1))
    support = np.arange(-edge, edge + 1)
    claimed = np.cumsum(pmf(scale, support))
    for factor in WRONG:
        assert np.abs(np.cumsum(pmf(scale * factor, support)) - claimed).max() > 2 * radius, (
            f"{len(draws)} draws cannot tell {factor}x apart"
        )
    seen = np.searchsorted(np.sort(draws), support, side="right") / len(draws)
    return bool(np.abs(seen - claimed).max() <= radius)


def chooses(draws: np.ndarray, pmf: Pmf, scale: float, scores: np.ndarray, *, power: bool = True) -> bool:
    """The same for choices among `scores` at that scale; a mere rejection needs no `power`."""
    radius = math.sqrt(2 * (len(scores) * math.log(2) + math.log(1 / FAILURE)) / len(draws))
    claimed = pmf(scale, scores)
    for factor in WRONG if power else ():
        assert np.abs(pmf(scale * factor, scores) - claimed).sum() > 2 * radius, (
            f"{len(draws)} draws cannot tell {factor}x apart"
        )
    seen = np.bincount(draws, minlength=len(scores)) / len(draws)
    return bool(np.abs(seen - claimed).sum() <= radius)


def happens(count: int, of: int, probability: float, wrong: list[float]) -> bool:
    """Whether `count` of `of` independent events may have `probability`; it must be told apart from those in
    `wrong`.

    By Chernoff's bound, which holds for every `of` and needs a third of the events that Hoeffding's does near
    0 and 1: a share at least x (or at most, for x below p) has a probability of at most exp(-of KL(x, p)).
    """
    low, high = _likely(probability, of)
    for w in wrong:
        lowest, highest = _likely(w, of)
        assert highest < low or high < lowest, f"{of} events cannot tell {probability} from {wrong}"
    return low <= count <= high


@cache
def _likely(probability: float, of: int) -> tuple[int, int]:
    """The least and the most of `of` events that are not too unlikely."""
    share = np.arange(of + 1) / of
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(share > 0, share * np.log(share / probability), 0.0)
        gain += np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - probability)), 0.0)
    likely = np.flatnonzero(gain <= math.log(2 / FAILURE) / of)
    return int(likely[0]), int(likely[-1])
