"""Hidden spread: how much wider a learnt column may be than its domain says, or how much narrower. Public in,
public out, free.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.mechanisms.first_domain import Counted, First, in_json

MOST = 10.0
"""More is not told apart."""
SEEN = 1.5
"""Deviations of its noise from which the next bin counts where it lies further out."""
SURE = 2.0
"""Deviations of its noise from which what lies from a bin on outwards is very likely there."""
TWICE = 4 / 3
"""By how many times the square of its distance to the mean a row adds to the sum of squares that is moved
evenly out to twice that distance: the mean of (1 + t)^2 for t in [0, 1], less 1.
"""


def hidden_spread(
    first: First, counted: Counted, same: np.ndarray, kept: Attribute, noisy: np.ndarray
) -> float | None:
    """By what part the standard deviation of a column of numbers may be larger than that of its kept codes,
    for what may lie beyond both ends: as many rows as the bins hold that were taken out there, out to twice
    as far from the mean, and one standard deviation of their noise. Where no bin lies there, as many as the
    next one holds, if it holds SEEN deviations: of 0 and 1 alone that may be all there is. Not a bound: a row
    further out changes it more. `same: bool[first code]`, which are kept; `noisy: int64[code]`, the counts of
    `kept`. MOST of a single value, which any other would spread. None of what is no column of numbers.

    Measured on 1,164 columns of 40 tables at epsilon 1: where this is above .2, 75 % of the standard
    deviations are off by more than a tenth; below .1, 11 %.
    """
    if kept.type not in ("integer", "number") or not len(first.edges):
        return None
    places, shares, low, high = _places(kept, noisy)
    if low == high:
        return MOST
    unit = first.found.scale if kept.type == "number" and first.found.unit != "number" else 1.0
    size = max(abs(low), abs(high))  # of the largest numbers a square would be none
    places, low, high = places / size, low / size, high / size
    with np.errstate(over="ignore"):  # a bin that is infinitely far is not near
        edges = first.inner_edges / unit / size
    bins = first.attribute.bin_codes[first.inner]
    mean = float(shares @ places)
    variance = float(shares @ (places - mean) ** 2)
    rows, more = max(float(np.maximum(noisy, 0).sum()), 1.0), 0.0
    counts, squares = counted.counts[bins], counted.deviations[first.inner] ** 2
    for end, nearer in ((low, edges[1:]), (high, edges[:-1])):
        beyond = ~same[bins] & (nearer <= low if end == low else nearer >= high)
        near = beyond & (np.abs(edges[:-1] - mean) < 2 * abs(end - mean))
        if near.any():
            hidden = max(float(counts[near].sum()), 0.0) + math.sqrt(float(squares[near].sum()))
            more += hidden / rows * TWICE * (end - mean) ** 2
        elif beyond.any():
            distances = np.where(beyond, np.abs(nearer - mean), np.inf)
            at = int(np.argmin(distances))
            if counts[at] > SEEN * math.sqrt(squares[at]):
                more += float(counts[at]) / rows * float(distances[at]) * float(distances[at])
    return min(math.sqrt(1 + more / variance) - 1, MOST) if variance > 0 else MOST


class Reach(NamedTuple):
    """How far a column of bins very likely reaches: some values are `seen[0]` or less, and some `seen[1]` or
    more, each but for one noise in forty. What the bins hold further out may be noise alone; `doubtful`: of
    numbers, by what part the standard deviation is smaller if it is, or lies no further out than that;
    `beyond`: the share of rows that bins further out hold.
    """

    seen: tuple[Any, Any]
    doubtful: float | None
    beyond: float


def reach(
    first: First, counted: Counted, bins: np.ndarray, kept: Attribute, noisy: np.ndarray
) -> Reach | None:
    """How far the `bins` that are kept, of the first ones, and popular values very likely reach; None where
    neither says. `noisy: int64[code]`, the counts of `kept`.

    Measured on 1,158 columns of 40 tables at epsilon 1: 20 ends of 716 columns of bins do not reach as far;
    where `doubtful` is above .1, 24 % of the standard deviations are too large by more than a tenth, and 42 %
    too small, for noise hides what lies beyond; below, 2 % are too large.
    """
    found, edges = first.found, first.edges[[*bins, bins[-1] + 1]]
    counts, squares = counted.counts[first.attribute.bin_codes][bins], counted.deviations[bins] ** 2
    tick = 0 if found.unit == "number" else found.tick
    popular = [value for value in first.values.tolist() if value not in found.rare]
    lows, highs = [*popular], [*popular]
    if len(at := np.flatnonzero(np.cumsum(counts) > SURE * np.sqrt(np.cumsum(squares)))):
        lows.append((edges[at[0] + 1] - tick).item())
    if len(at := np.flatnonzero(np.cumsum(counts[::-1]) > SURE * np.sqrt(np.cumsum(squares[::-1])))):
        highs.append(edges[len(counts) - 1 - at[0]].item())
    if not lows or not highs:
        return None
    low, high = min(lows), max(highs)
    written = in_json(found, np.array([low, high], dtype=edges.dtype))
    further = np.maximum(noisy[kept.bin_codes], 0)[(edges[1:] - tick < low) | (edges[:-1] > high)].sum()
    beyond = float(further) / max(float(np.maximum(noisy, 0).sum()), 1.0)
    if kept.type not in ("integer", "number"):
        return Reach((written[0], written[1]), None, beyond)
    unit = found.scale if kept.type == "number" and found.unit != "number" else 1.0
    places, shares, *ends = _places(kept, noisy)
    size = max(map(abs, ends)) or 1.0
    nearer = np.clip(places, min(low, high) / unit, max(low, high) / unit) / size
    wide, narrow = (float(shares @ (x - shares @ x) ** 2) for x in (places / size, nearer))
    less = 1 - math.sqrt(min(narrow / wide, 1.0)) if wide > 0 else 0.0
    return Reach((written[0], written[1]), less, beyond)


def _places(kept: Attribute, noisy: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """(float64[code]: the value of each code of a number, of bins the middle; its share; the least and the
    greatest value).
    """
    values = kept.units if kept.categorical else kept.specials
    codes = np.arange(len(values)) if kept.categorical else kept.special_codes
    middles = np.zeros(0)
    if not kept.categorical and len(kept.bin_codes):
        middles, codes = kept.cuts[:-1] / 2 + kept.cuts[1:] / 2, np.concatenate([codes, kept.bin_codes])
    held = np.maximum(noisy[codes], 0)
    places = np.concatenate([values, middles]).astype(np.float64)
    ends = np.concatenate([values, kept.cuts[[0, -1]]]) if len(middles) else places
    return places, held / max(held.sum(), 1), float(ends.min()), float(ends.max())
