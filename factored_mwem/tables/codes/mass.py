"""Mass: popular values, and bins of about equal mass at round places, from exact counts of values.

Pure functions of arrays. Their arguments are read off the data, and so are their results: NOT PRIVATE.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

MOST_BINS = 128
"""About the most bins of a column."""
FEWEST_BINS = 8
"""The fewest bins of a column with more values, however few its rows."""
RARE = 10
"""A value that fewer rows hold is not listed, and gets no bin of its own, because it may show who they
are.
"""
GAP = 4
"""A gap without rows is cut out of a bin if it is so many times wider than most bins."""
MARGIN = 10
"""A bin beside it keeps at most such a part of it, and grows by no more than that."""


def popular(counts: np.ndarray) -> np.ndarray:
    """bool[value]: the values that hold at least a MOST_BINS-th of the rows that no more popular value holds,
    and no fewer than RARE.

    In bins of equal mass such a value would fill a bin alone, and its rows would be spread over the values up
    to its neighbours. The remaining values are examined again without it: if 96 % of the rows are zero,
    spikes among the other 4 % count as if there were no zeros.
    """
    order = np.argsort(-counts, kind="stable")
    ranked = counts[order]
    left = np.cumsum(ranked[::-1])[::-1]
    enough = (ranked * MOST_BINS >= left) & (ranked >= RARE) & (np.arange(len(counts)) < MOST_BINS)
    popular_ones = np.zeros(len(counts), dtype=bool)
    popular_ones[order] = np.logical_and.accumulate(enough)
    return popular_ones


def mass_edges(units: np.ndarray, counts: np.ndarray, unit: str, most_bins: int = MOST_BINS) -> np.ndarray:
    """Cuts of about `most_bins` bins of equal mass at round places, from the least unit to the greatest,
    which is inside; finer and finer towards both ends, as long as RARE rows are left, so that tails keep
    their shape. Units ascend; numbers in float64 are of unit "number", else all are whole.
    """
    below, rows = np.cumsum(counts), int(counts.sum())
    bins = min(max(rows // RARE, FEWEST_BINS), most_bins)
    goal = rows / bins
    tails = [goal / 2**i for i in range(1, 30) if goal / 2**i >= RARE]
    ranks = [(goal * i, goal) for i in range(1, bins)]
    ranks += [(rank, tail) for tail in tails for rank in (tail, rows - tail)]
    places = {_between(units, below, rank, size / 4, unit) for rank, size in ranks}
    least, most = units[[0, -1]].tolist()
    end = most + 1 if unit != "number" else math.nextafter(most, math.inf)
    cuts = [least, *sorted(place for place in places if least < place < end), end]
    return np.array(_without_gaps(units, counts, cuts, unit), dtype=units.dtype)


def _between(units: np.ndarray, below: np.ndarray, rank: float, slack: float, unit: str) -> Any:
    """The roundest place with about `rank` rows below it, `slack` more or less."""
    low, high = np.searchsorted(below, [rank - slack, rank + slack]).tolist()
    high = min(high, len(units) - 1)
    if low >= high:  # a value that holds them all: on its nearer side
        before = below[high] - rank > rank - (below[high - 1] if high else 0)
        low, high = (max(high - 1, 0), high) if before else (high, min(high + 1, len(units) - 1))
    return roundest(units[low].item(), units[high].item(), unit) if low < high else units[high].item()


def _without_gaps(units: np.ndarray, counts: np.ndarray, cuts: list[Any], unit: str) -> list[Any]:
    """The cuts, and more around a stretch without rows that takes most of a bin, where it is a wide one."""
    edges, begins = list[Any](), np.searchsorted(units, cuts).tolist()
    wide = GAP * sorted(high - low for low, high in itertools.pairwise(cuts))[(len(cuts) - 1) // 2]
    for low, high, first, last in zip(cuts, cuts[1:], begins, begins[1:], strict=False):
        edges.append(low)
        points = [low, *units[first:last].tolist(), high]
        gaps = [after - before for before, after in itertools.pairwise(points)]
        i = gaps.index(max(gaps))
        if len(points) == 2 or gaps[i] <= max(wide, (high - low) / 2):
            continue
        before, after, rows = points[i], points[i + 1], counts[first:last]
        if i:
            edges.append(roundest(before, before + _margin(gaps[i], before - low, rows[:i], unit), unit))
        if i + 2 < len(points):
            edges.append(roundest(after - _margin(gaps[i], high - after, rows[i:], unit), after, unit))
    return sorted({*edges, cuts[-1]})


def _margin(gap: Any, width: Any, rows: np.ndarray, unit: str) -> Any:
    """How much of a gap a bin of that width keeps: little, but of one with RARE rows or fewer enough to hide
    where they end.
    """
    part = gap if rows.sum() <= RARE else min(max(width, gap / 10**6), gap)
    return part / MARGIN if unit == "number" else -int(-part // MARGIN)


def roundest(low: Any, high: Any, unit: str) -> Any:
    """The roundest x with low < x <= high: of numbers the one of fewest digits, of moments the begin of a
    year, else of a month, a day, an hour, a minute or a second. `high` itself if there is none. Multiples
    of 5 and 2 are rounder than others.

    >>> roundest(1_437, 1_612, "integer"), roundest(0.3127, 0.3391, "number")
    (1500, 0.32)
    """
    if unit in ("date", "datetime"):
        moment = np.datetime64(high, "D" if unit == "date" else "us")
        begins = (
            int(moment.astype(f"M8[{part}]").astype(moment.dtype).astype(np.int64)) for part in "YMDhms"
        )
        return next((begin for begin in begins if begin > low), high)
    if low < 0 <= high:
        return type(high)(0)
    width, size = high - low, max(abs(low), abs(high))
    if width < 1e-290:
        return high
    for exponent in range(math.floor(math.log10(size)) + 1, math.floor(math.log10(width)) - 1, -1):
        for digit in (5, 2, 1):
            if unit == "integer":
                place: Any = high // (digit * 10**exponent) * (digit * 10**exponent)
            else:
                steps = math.floor(high / (digit * 10.0**exponent) * (1 + 1e-15))
                place = round(float(steps * digit * 10.0**exponent), max(-exponent, 0))
            if low < place <= high:
                return place
    return high
