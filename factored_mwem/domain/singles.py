"""Singles: which values noisy counts show to be there, where a column has fewer than its bins could hold.

Codes, prices and clock times leave most whole numbers out. What is known of a group of neighbouring values is
how many rows they have together; of each value a count whose noise may be as large as that. From all of them
follows how counts are spread around the mean of their group (the distribution that makes what was seen most
likely), and from that how likely it is of each value that nobody has it, and its expected count. Everything
here is a function of public facts and noisy answers.

Source: Kiefer, Wolfowitz 1956 (nonparametric maximum likelihood of a mixture); Efron 2014 (empirical Bayes).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from factored_mwem.domain.grids import LIKELY

MOST_ALL, MOST = 2**12, 2**14
"""Single values of a column that are counted, where all are; and where only those are that lie in cells which
likely hold something. Noise is drawn for each.
"""
GROUP = 16
"""Single values at least that have a mean together."""
LUMPY = 5.0
"""Deviations of noise from which counts are believed to differ from their group's mean; else values are drawn
evenly, as from any bin.
"""
ABSENT = (0.01, 0.05, 0.15)
"""The share of what bins draw that is expected to lie at values that nobody has: the least of these at which
the expected error is no larger than that of drawing evenly.
"""
FEWER = 0.95
"""Where what was seen does not tell nothing from little, so large a part of the values counts as absent."""
EXPLAINED = 0.25
"""The share of what was counted that such values must have."""
LEVELS, LEAST, ROUNDS, SAMPLE = 40, 0.25, 40, 4096
"""Of the mixture: counts that are tried, the least of them in means, steps, and values it is made from."""


@dataclass(frozen=True, slots=True, eq=False)
class Singles:
    """`units: int64[value]`, ascending; `counts: int64[value]`, above 0, how often each comes."""

    units: np.ndarray
    counts: np.ndarray

    def within(self, low: int, high: int) -> Singles:
        return self.of((self.units >= low) & (self.units < high))

    def of(self, which: np.ndarray) -> Singles:
        return Singles(self.units[which], self.counts[which])


@dataclass(frozen=True, slots=True, eq=False)
class SingleCells:
    """Cells of one value each, within wider ones that noisy counts fixed. `edges: int64[cell + 1]`; `single:
    int64[single]`, which cells; `units: int64[single]`; `level: float64[single]`, the mean count of a value
    thereabouts.
    """

    edges: np.ndarray
    single: np.ndarray
    units: np.ndarray
    level: np.ndarray

    @classmethod
    def of(cls, edges: np.ndarray, noisy: np.ndarray, stddev: float, step: int) -> SingleCells | None:
        """The cells cut at every multiple of `step`: all, or those that likely hold something; None where
        there are too many values. `edges: int64[cell + 1]`, `noisy: int64[cell]`, with noise of `stddev`.
        """
        ends = -(-edges // step)
        values = np.diff(ends)
        cut = values > 0
        if values.sum() > MOST_ALL:
            cut &= noisy > LIKELY * stddev
        if not cut.any() or values[cut].sum() > MOST:
            return None
        firsts, lasts = ends[:-1][cut], ends[1:][cut]
        inner = [np.arange(first, last) * step for first, last in zip(firsts, lasts, strict=True)]
        fine = np.unique(np.concatenate([edges, *inner]))
        sizes = values[cut]
        _, group = np.unique((np.cumsum(sizes) - sizes) // GROUP, return_inverse=True)
        mean = np.bincount(group, noisy[cut]) / np.bincount(group, sizes)
        units = np.concatenate(inner)
        return cls(fine, np.searchsorted(fine, units), units, np.repeat(np.maximum(mean[group], 0.0), sizes))

    def seen(self, counts: np.ndarray, stddev: float, special: np.ndarray) -> Singles | None:
        """The values that are there and are not `special`; None where all may be, about evenly. `counts:
        float64[single]`, with noise of `stddev`, each about the same part of what it counts.
        """
        looked = np.flatnonzero((self.level > 0) & ~np.isin(self.units, special))
        counts, level = counts[looked], self.level[looked]
        if not len(looked) or counts.sum() <= 0:
            return None
        level = level * (counts.sum() / level.sum())
        spread = ((counts - level) ** 2).sum() / stddev**2 - len(counts)
        if spread < LUMPY * (2 * len(counts)) ** 0.5:
            return None
        which = _chosen(*_posterior(counts, level, stddev), level)
        if which is None or counts[which > 0].sum() < EXPLAINED * counts.sum():
            return None
        drawn = np.maximum(np.rint(which), 1).astype(np.int64)
        return Singles(self.units[looked], drawn).of(which > 0)


def _chosen(posterior: np.ndarray, tried: np.ndarray, level: np.ndarray) -> np.ndarray | None:
    """float64[value]: how often each is drawn, 0 for those that are not there; None where evenly is better.
    `posterior`, `tried: float64[value, count]`: how likely each count is, and that count.
    """
    absent, expected = posterior[:, 0], (posterior * tried).sum(axis=1)

    def error(drawn: np.ndarray) -> float:
        drawn = drawn * (expected.sum() / drawn.sum())
        return float((posterior * np.abs(tried - drawn[:, None])).sum())

    order, evenly = np.argsort(absent, kind="stable"), error(level)
    wrong = np.cumsum((absent * expected)[order]) / np.maximum(np.cumsum(expected[order]), 1e-9)
    for most in ABSENT:
        kept = order[(wrong <= most) & (absent[order] < 0.5)]
        drawn = np.where(np.isin(np.arange(len(level)), kept), expected, 0.0)
        if len(kept) and error(drawn) <= evenly:
            return drawn
    return None


def _posterior(counts: np.ndarray, level: np.ndarray, stddev: float) -> tuple[np.ndarray, np.ndarray]:
    """(float64[value, count]: how likely each count is, of which 0 is the first, and that count)."""
    most = max(float((counts / level).max()), 2.0)
    times = np.concatenate([[0.0], np.geomspace(LEAST, min(most, 1e6), LEVELS)])

    def likelihood(some: np.ndarray | slice) -> np.ndarray:
        squares = ((counts[some, None] - level[some, None] * times) / stddev) ** 2
        likely: np.ndarray = np.exp((squares.min(axis=1, keepdims=True) - squares) / 2)
        return likely

    sample = likelihood(slice(None, None, -(-len(counts) // SAMPLE)))
    prior = np.append(FEWER, np.full(LEVELS, (1 - FEWER) / LEVELS))
    for _ in range(ROUNDS):
        prior = (sample / (sample @ prior)[:, None]).mean(axis=0) * prior
    weights = likelihood(slice(None)) * prior
    weights /= weights.sum(axis=1, keepdims=True)
    return weights, level[:, None] * times


def around(edges: np.ndarray, units: np.ndarray) -> np.ndarray:
    """The edges but for those of bins without any of `units`: their neighbour takes them in."""
    held = np.flatnonzero(np.diff(np.searchsorted(units, edges)))
    return np.concatenate([edges[:1], edges[:-1][held[1:]], edges[-1:]]) if len(held) else edges
