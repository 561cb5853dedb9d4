"""Hidden spread: how much wider a learnt column may be than its domain says. Public in, public out, free."""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.mechanisms.first_domain import Counted, First

MOST = 10.0
"""More is not told apart."""
SEEN = 1.5
"""Deviations of its noise from which the next bin counts where it lies further out."""
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

    Measured on 388 columns of 40 tables at epsilon 1: where this is above .2, 82 % of the standard deviations
    are off by more than a tenth; below .1, 11 %.
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
