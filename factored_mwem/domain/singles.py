"""Singles: which values noisy counts show to be there, where a column has fewer than its bins could hold.

Codes, prices and clock times leave most whole numbers out. What is known of a group of neighbouring values is
how many rows they have together; of each value a count whose noise may be as large as that. From all of them
follows how counts are spread around the mean of their group (the distribution that makes what was seen most
likely), and from that how likely it is of each value that nobody has it, and its expected count. Everything
here is a function of public facts and noisy answers.

Source: Kiefer, Wolfowitz 1956 (nonparametric maximum likelihood of a mixture); Efron 2014 (empirical Bayes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from factored_mwem.domain.grids import ANYWHERE, LIKELY, seen_span
from factored_mwem.domain.steps import EXACT, MOST_APART, SMALL, SURE, steps_apart

MOST_ALL, MOST, MOST_IN_CLASSES = 2**12, 2**14, 2**17
"""Single values of a column that are counted, where all are; where only those are that lie in cells which
likely hold something; and where they are counted in classes first. Noise is drawn for each count.
"""
CLASSES = 4093
"""Values are of one class where their steps from 0 leave the same remainder by this prime: what is regular
about codes does not put them together.
"""
GROUP = 16
"""Single values at least that have a mean together."""
LUMPY = 5.0
"""Deviations of noise from which counts are believed to differ from their group's mean; else values are drawn
evenly, as from any bin.
"""
ABSENT = (0.01, 0.05, 0.15, 0.4)
"""The share of what bins draw that is expected to lie at values that nobody has: one of these is chosen, or
drawing evenly, by what that costs.
"""
HARM = 3.0
"""What a row with a value that nobody has costs, beside the distance of what is drawn from what is there."""
FEWER = 0.95
"""Where what was seen does not tell nothing from little, so large a part of the values counts as absent."""
EXPLAINED = 0.1
"""The share of what was counted that such values must have."""
BASES = (100, 10)
"""Of the last digits that values may follow; each has FULL values for each at least."""
FULL = 4
NOBODY = 0.9
"""How likely it must be that digits have no value at all."""
CLOCK, CLOCK_SHARE = range(60, 100), 0.1
"""Last digits that no time of a clock has, and the share of what they would hold else that noise may show."""
FEWEST_ON_STEP, BESIDE = 12, 1.5
"""Values that were found, at least, whose differences show a step that the others keep, too; and how many
times the noise of all values beside it they may seem to hold.
"""
STEPS_OUT, APART_SHARE = 2**20, 0.1
"""How many steps from 0 multiples of a step may lie, and the part of what cells hold that they must have."""
PARTS = 16
"""Of how often values are drawn, in rows: weights are whole numbers."""
LEVELS, LEAST, ROUNDS, SAMPLE = 40, 0.25, 40, 4096
"""Of the mixture: counts that are tried, the least of them in means, steps, and values it is made from."""


@dataclass(frozen=True, slots=True, eq=False)
class Singles:
    """`units: int64[value]`, ascending; `counts: int64[value]`, above 0, how often each comes."""

    units: np.ndarray
    counts: np.ndarray

    @classmethod
    def none(cls) -> Singles:
        return cls(*np.zeros((2, 0), dtype=np.int64))

    def within(self, low: int, high: int) -> Singles:
        return self.of((self.units >= low) & (self.units < high))

    def of(self, which: np.ndarray) -> Singles:
        return Singles(self.units[which], self.counts[which])


class Signal(NamedTuple):
    """The `total` of counts, and how often a value comes, the mean over what was counted: `each`."""

    total: float
    each: float

    @property
    def values(self) -> float:
        """About how many values hold most of it."""
        return self.total / self.each


@dataclass(frozen=True, slots=True, eq=False)
class SingleCells:
    """Cells of one value each, within wider ones that noisy counts fixed. `edges: int64[cell + 1]`; `single:
    int64[single]`, which cells; `units: int64[single]`; `level: float64[single]`, the mean count of a value
    thereabouts, of which its digits make it so many `times`: float64[single]. `comb`: (one value, how far
    apart all are), where that is known.
    """

    edges: np.ndarray
    single: np.ndarray
    units: np.ndarray
    level: np.ndarray
    times: np.ndarray
    comb: tuple[float, float] | None = None

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
        if not cut.any() or values[cut].sum() > MOST_IN_CLASSES:
            return None
        firsts, lasts = ends[:-1][cut], ends[1:][cut]
        inner = [np.arange(first, last) * step for first, last in zip(firsts, lasts, strict=True)]
        fine = np.unique(np.concatenate([edges, *inner]))
        sizes = values[cut]
        _, group = np.unique((np.cumsum(sizes) - sizes) // GROUP, return_inverse=True)
        mean = np.bincount(group, noisy[cut]) / np.bincount(group, sizes)
        units = np.concatenate(inner)
        level = np.repeat(np.maximum(mean[group], 0.0), sizes)
        return cls(fine, np.searchsorted(fine, units), units, level, np.ones(len(units)))

    @classmethod
    def apart(
        cls, edges: np.ndarray, noisy: np.ndarray, step: float, known: Sequence[float]
    ) -> SingleCells | None:
        """The cells with one for each multiple of `step`, or the `known` value there: of numbers that are no
        whole numbers of anything else. No two share a cell: None where floats so far from 0 could not tell
        them apart, where there is none, or more than MOST_APART. `edges: float64[cell + 1]`.
        """
        if np.abs(edges[[0, -1]]).max() > STEPS_OUT * step:
            return None
        first, last = math.ceil(edges[0] / step), math.ceil(edges[-1] / step)
        if not 0 < last - first <= MOST_APART:
            return None
        units, there = np.arange(first, last) * step, np.array(known)
        times = np.rint(there / step).astype(np.int64) - first
        same = (times >= 0) & (times < len(units)) & (np.abs((times + first) * step - there) < EXACT * step)
        units[times[same]] = there[same]
        ends = np.concatenate([units - EXACT * step, units + EXACT * step])
        fine = np.unique(np.concatenate([edges, ends[(ends > edges[0]) & (ends < edges[-1])]]))
        fine = fine[~np.isin(fine, edges[1:-1]) | (np.abs(fine / step - np.rint(fine / step)) > EXACT)]
        place = np.clip(np.searchsorted(edges, units, side="right") - 1, 0, len(noisy) - 1)
        level = np.maximum(noisy, 0)[place] / np.bincount(place, minlength=len(noisy))[place]
        single = np.clip(np.searchsorted(fine, units, side="right") - 1, 0, len(fine) - 2)
        if (np.diff(single) < 1).any():
            return None
        return cls(fine, single, units, level, np.ones(len(units)), (0.0, step))

    def all_there_is(self, counts: np.ndarray, stddev: float) -> bool:
        """Whether the counts of values that lie apart stand out, and are no small part of what their cells
        hold: rows give but a part of their weight to one column.
        """
        total = float(counts.sum())
        return total > max(SURE * stddev * len(counts) ** 0.5, APART_SHARE * float(self.level.sum()))

    def only(self, which: np.ndarray) -> SingleCells:
        """Those of the single values: bool[single]."""
        return replace(
            self,
            single=self.single[which],
            units=self.units[which],
            level=self.level[which],
            times=self.times[which],
        )

    def signal(
        self,
        counts: np.ndarray,
        stddev: float,
        special: np.ndarray,
        classes: np.ndarray | None,
        least: float,
    ) -> Signal | None:
        """What the counts say of how many values there are; None where not, by so many deviations at `least`,
        that they are few. `counts: float64[single]`, or of the `classes: int64[single]` that values are in.
        """
        level = np.where(np.isin(self.units, special), 0.0, self.level)
        level = level if classes is None else np.bincount(classes, level, minlength=len(counts))
        looked = level > 0
        counts, level, total = counts[looked], level[looked], float(counts[looked].sum())
        if total <= 0:
            return None
        level = level * (total / level.sum())
        excess = float(((counts - level) ** 2).sum()) - len(counts) * stddev**2
        if excess < least * (2 * len(counts)) ** 0.5 * stddev**2:
            return None
        return Signal(total, (excess + float((level**2).sum())) / total)

    def on_steps(
        self, counts: np.ndarray, stddev: float, special: np.ndarray, found: np.ndarray, popular: float
    ) -> SingleCells | None:
        """The same with no level but at the steps that all values that were `found` keep; None where these
        show none, or the counts beside it are not noise, all and anywhere, and small beside the others. Of
        `special` values nothing was counted: they are in so many `popular` rows.
        """
        step = int(np.gcd.reduce(np.diff(np.sort(found)))) if found.dtype == np.int64 and len(found) else 0
        if len(found) < FEWEST_ON_STEP or step < 2:
            return None
        on, looked = (self.units - found[0]) % step == 0, self.level > 0
        noise = stddev * float((looked & ~on).sum()) ** 0.5
        held = popular + float(counts[on].sum())
        beside = counts[looked & ~on]
        if beside.sum() > BESIDE * noise or SMALL * noise > held or seen_span(beside, stddev, ANYWHERE):
            return None
        looked &= ~np.isin(self.units, special)
        room = float(self.level[looked & on].sum())
        if room <= 0:
            return None
        times = np.where(looked, on * (float(self.level[looked].sum()) / room), 1.0)
        return replace(self, level=self.level * times, times=times, comb=(float(found[0]), float(step)))

    def by_digits(self, counts: np.ndarray, stddev: float, special: np.ndarray) -> SingleCells:
        """The same with levels that follow the last digits of values, where those tell much: minutes of a
        clock, round numbers. `counts: float64[single]`, with noise of `stddev`; not of the `special` values.
        """
        looked = np.flatnonzero((self.level > 0) & ~np.isin(self.units, special))
        total = counts[looked].sum()
        if total <= 0 or self.units.dtype != np.int64:
            return self
        level = self.level[looked] * (total / self.level[looked].sum())
        times = np.ones(len(self.units))
        times[looked] = _by_digits(self.units[looked], counts[looked], level, stddev)
        return replace(self, level=self.level * times, times=times)

    def within(self, edges: np.ndarray, counts: np.ndarray, special: np.ndarray) -> SingleCells:
        """The same with the means of other, known bins: `edges: [bin + 1]`, `counts: int64[bin]`, of what is
        not `special`. Values beyond have none.
        """
        place = np.searchsorted(edges, self.units, side="right") - 1
        inside = (place >= 0) & (place < len(counts)) & ~np.isin(self.units, special)
        place = np.clip(place, 0, len(counts) - 1)
        room = np.bincount(place[inside], self.times[inside], minlength=len(counts))
        times = np.where(room[place] > 0, self.times, 1.0)  # digits that nobody has, where nothing else is
        room = np.bincount(place[inside], times[inside], minlength=len(counts))
        mean = np.maximum(counts, 0) / np.maximum(room, LEAST)
        return replace(self, level=np.where(inside, mean[place] * times, 0.0))

    def seen(
        self,
        counts: np.ndarray,
        stddev: np.ndarray | float,
        special: np.ndarray,
        bins: np.ndarray | None = None,
        few: bool = False,
    ) -> Singles | None:
        """The values that are there and are not `special`; None where all may be, about evenly. `counts:
        float64[single]`, with noise of `stddev`, each about the same part of what it counts. Of `bins: [bin +
        1]`, which hold something, each has one value at least. `few`: known to be few, those that are special
        among them.
        """
        looked = np.flatnonzero((self.level > 0) & ~np.isin(self.units, special))
        counts, units, noise = (
            counts[looked],
            self.units[looked],
            np.broadcast_to(stddev, counts.shape)[looked],
        )
        total = float(counts.sum())
        if few:  # what is left may be less than the noise of its sum
            total = max(total, float((noise**2).sum() ** 0.5))
        if not len(looked) or total <= 0:
            return None
        level = self.level[looked] * (total / self.level[looked].sum())
        drawn = level if (self.times != 1).any() or self.units.dtype != np.int64 else None
        spread = (((counts - level) / noise) ** 2).sum() - len(counts)
        if few or spread >= LUMPY * (2 * len(counts)) ** 0.5:
            posterior, tried = _posterior(counts, level, noise)
            single = _chosen(posterior, tried, level)
            if single is not None and (few or counts[single > 0].sum() >= EXPLAINED * total):
                drawn = (
                    single if bins is None else _filled(single, units, (posterior * tried).sum(axis=1), bins)
                )
        if drawn is None:
            return None
        weights = np.maximum(np.rint(drawn * PARTS), 1).astype(np.int64)
        return Singles(units, weights).of(drawn > 0)


def on_comb(singles: Singles, comb: tuple[float, float], bins: np.ndarray, special: np.ndarray) -> Singles:
    """With each value of a comb in those `bins` that hold none of the `singles`, where there are not too
    many: else their rows would be drawn from everything between. Not the `special` ones.
    """
    (at, step), empty = comb, np.histogram(singles.units, bins)[0] == 0
    ends = np.ceil((bins.astype(np.float64) - at) / step)
    if not 0 < np.diff(ends)[empty].sum() <= MOST_ALL:
        return singles
    parts = zip(ends[:-1][empty], ends[1:][empty], strict=True)
    units = np.concatenate([np.arange(first, last) * step + at for first, last in parts]).astype(bins.dtype)
    apart = (np.abs(units[:, None] - special[None, :]) > step / 4).all(axis=1)
    units = units[apart & (units >= bins[0]) & (units < bins[-1])]
    both = np.concatenate([singles.units, units])
    order = np.argsort(both)
    return Singles(both[order], np.concatenate([singles.counts, np.full(len(units), PARTS)])[order])


def _filled(drawn: np.ndarray, units: np.ndarray, expected: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """The same with values in each bin that holds none, whose rows would be drawn evenly: in proportion to
    the square of what is expected of each, so the likely ones, but none that noise alone made likeliest takes
    them all.
    """
    _, place = np.unique(np.searchsorted(bins, units, side="right"), return_inverse=True)
    held, squares = np.bincount(place, expected), np.bincount(place, expected**2)
    share = expected**2 * (np.maximum(held, 1.0) / np.maximum(squares, 1e-300))[place]
    return np.where(np.bincount(place, drawn)[place] == 0, share, drawn)


def _by_digits(units: np.ndarray, counts: np.ndarray, level: np.ndarray, stddev: float) -> np.ndarray:
    """float64[value]: how many times its level a value comes by its last digits alone, as expected from all
    of them; 1 where they don't stand out; 0 where most likely nothing has these digits.
    """
    apart = steps_apart(units, counts, stddev)
    if apart is not None:
        return apart * (level.sum() / (level * apart).sum())
    for base in BASES:
        digits, last, size = np.unique(units % base, return_inverse=True, return_counts=True)
        if len(units) < FULL * len(size):
            continue
        held, noise = np.bincount(last, level), stddev * np.sqrt(size)
        each = np.bincount(last, counts)
        if (((each - held) / noise) ** 2).sum() - len(size) < LUMPY * (2 * len(size)) ** 0.5:
            continue
        posterior, tried = _posterior(each, held, noise)
        times = (posterior * tried).sum(axis=1) / held
        nobody = posterior[:, 0] > NOBODY
        if base == CLOCK.stop and (late := digits >= CLOCK.start).any():
            nobody |= late & (each[late].sum() < CLOCK_SHARE * held[late].sum())
        factor: np.ndarray = np.where(nobody, 0.0, times)[last]
        if (level * factor).sum() > 0:
            return factor * (level.sum() / (level * factor).sum())
    return np.ones(len(units))


def _chosen(posterior: np.ndarray, tried: np.ndarray, level: np.ndarray) -> np.ndarray | None:
    """float64[value]: how often each is drawn, 0 for those that are not there; None where evenly is better.
    `posterior`, `tried: float64[value, count]`: how likely each count is, and that count.
    """
    absent, expected = posterior[:, 0], (posterior * tried).sum(axis=1)
    total = expected.sum()

    def wrong(drawn: np.ndarray) -> float:
        """The expected distance, and HARM times what lies at values that nobody has."""
        drawn = drawn * (total / drawn.sum())
        distance = float((posterior * np.abs(tried - drawn[:, None])).sum()) / 2
        return distance + HARM * float((absent * drawn).sum())

    order = np.argsort(absent, kind="stable")
    share = np.cumsum((absent * expected)[order]) / np.maximum(np.cumsum(expected[order]), 1e-9)
    best, least = None, wrong(level)
    for most in ABSENT:
        kept = order[(share <= most) & (absent[order] < 0.5)]
        drawn = np.where(np.isin(np.arange(len(level)), kept), expected, 0.0)
        if len(kept) and (error := wrong(drawn)) < least:
            best, least = drawn, error
    return best


def _posterior(
    counts: np.ndarray, level: np.ndarray, stddev: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """(float64[value, count]: how likely each count is, of which 0 is the first, and that count)."""
    most = max(float((counts / level).max()), 2.0)
    times = np.concatenate([[0.0], np.geomspace(LEAST, min(most, 1e6), LEVELS)])
    noise = np.broadcast_to(stddev, counts.shape)[:, None]
    tried = np.maximum(level[:, None] * times, np.where(times > 0, noise, 0.0))

    def likelihood(some: np.ndarray | slice) -> np.ndarray:
        squares = ((counts[some, None] - tried[some]) / noise[some]) ** 2
        likely: np.ndarray = np.exp((squares.min(axis=1, keepdims=True) - squares) / 2)
        return likely

    sample = likelihood(slice(None, None, -(-len(counts) // SAMPLE)))
    prior = np.append(FEWER, np.full(LEVELS, (1 - FEWER) / LEVELS))
    for _ in range(ROUNDS):
        prior = (sample / (sample @ prior)[:, None]).mean(axis=0) * prior
    weights = likelihood(slice(None)) * prior
    weights /= weights.sum(axis=1, keepdims=True)
    return weights, tried


def around(edges: np.ndarray, units: np.ndarray) -> np.ndarray:
    """The edges but for those of bins without any of `units`: their neighbour takes them in. Those beyond
    all of `units` are one at each end: most likely nothing is there.
    """
    held = np.flatnonzero(np.diff(np.searchsorted(units, edges)))
    return edges[np.unique([0, *held, held[-1] + 1, len(edges) - 1])] if len(held) else edges
