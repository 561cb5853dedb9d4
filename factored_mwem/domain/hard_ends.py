"""Hard ends: where a column that is full alike all along stops, as numbers from 1 to 300 do.

Everything here is a function of public facts and noisy counts.
"""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.domain.grids import ANYWHERE, seen_span

CLEAR = 8.0
"""Deviations of its noise that a block of bins holds of which it is known how full it is."""
APART, ALIKE = 2.0, 0.05
"""Deviations, and a part of what they hold, that bins together may be apart from as full as all: else the
column rises, falls or thins out, and noise hides where it ends.
"""
UNSURE = 1.0
"""Deviations that the last bin may hold more: an end a little too far out loses no rows."""


def within_hard_ends(
    edges: np.ndarray, counts: np.ndarray, deviations: np.ndarray, step: int, special: np.ndarray
) -> tuple[int, int, np.ndarray]:
    """(the first bin, the one behind the last, the edges of these), without those beyond a hard end, and the
    last at such an end as narrow as it is full. Values of whole numbers are `step` apart, and those that are
    `special` in no bin.
    """
    low, high, new = 0, len(counts), edges.copy()
    room, whole = np.diff(edges.astype(np.float64)), edges.dtype == np.int64
    if whole:
        room = np.maximum(room / step - np.histogram(special[special < edges[-1]], edges)[0], 1)
    if (end := hard_end(room, counts, deviations)) is not None:
        high, (begin, beyond) = end[0] + 1, edges[end[0] : end[0] + 2]
        if end[1] < room[end[0]]:
            new[high] = min(beyond, _further(begin, 1, end[1], step if whole else 0, special, beyond))
    if (end := hard_end(room[::-1], counts[::-1], deviations[::-1])) is not None:
        at = len(counts) - 1 - end[0]
        if at < high - 1:
            low, (begin, beyond) = at, edges[at : at + 2]
            if end[1] < room[at]:
                new[low] = max(begin, _further(beyond, -1, end[1], step if whole else 0, special, begin))
    return low, high, new[low : high + 1]


def _further(edge: float, way: int, filled: float, step: int, special: np.ndarray, end: float) -> float:
    """The place `way` of an edge up to which so much is filled; of floats, where `step` is 0, to three digits
    of the bin that goes to `end`, or all of it where floats have no such digits.
    """
    if not step:
        digits = 2 - math.floor(math.log10(abs(end - edge)))
        place = round(edge + way * (filled + 10.0**-digits / 2), digits)
        return place if (place - edge) * way > 0 else end
    wide = max(round(filled), 1) * step
    for offset in sorted(((special - edge) * way + (way > 0)).tolist()):
        if 0 < offset <= wide:
            wide += step
    return edge + way * wide


def hard_end(room: np.ndarray, counts: np.ndarray, deviations: np.ndarray) -> tuple[int, float] | None:
    """(the bin in which a column stops, how much of its room is filled), from left to right; None if it is
    not full alike before, or noise hides what it does. `room: float[bin]`, how many values may be in each, or
    how wide it is.

    The fewest bins at the end that are clear together are looked at. By least squares all are as full as
    those before, up to one, which may be full in part, and empty from there on. The very first, which
    another end may cut, says nothing.
    """
    at = _tail(counts, deviations)
    full = counts[1:at].sum() / room[1:at].sum() if at > 1 else 0.0
    most = full * room
    if not (full > 0 and _even(most[1:at], counts[1:at], deviations[1:at])):
        return None
    held, noise, most = counts[at:], deviations[at:], most[at:]
    partly = np.clip(held, 0, most)
    before, after = (np.cumsum([0.0, *((held - x) / noise) ** 2]) for x in (most, np.zeros(len(held))))
    missed = before[:-1] + ((held - partly) / noise) ** 2 + after[-1] - after[1:]
    last = int(np.argmin(np.where(partly > 0, missed, np.inf)))  # one that is empty: the one before is full
    beyond = slice(last + 1, None)
    if seen_span(held[beyond], noise[beyond], ANYWHERE):
        return None
    some = slice(last + 1, last + 2 + int(np.searchsorted(np.cumsum(room[at:][beyond]), room[at + last])))
    if last + 1 < len(held) and held[some].sum() + 2 * _together(noise[some]) >= most[some].sum() / 2:
        return None
    return at + last, float(min(partly[last] + UNSURE * noise[last], most[last]) / full)


def _tail(counts: np.ndarray, deviations: np.ndarray) -> int:
    """The first of the fewest bins at the end that are clear together; 0 if none are."""
    held, noise = (np.cumsum(x[::-1]) for x in (counts, deviations**2))
    clear = held > CLEAR * np.sqrt(noise)
    return len(counts) - 1 - int(np.argmax(clear)) if clear.any() else 0


def _even(most: np.ndarray, counts: np.ndarray, deviations: np.ndarray) -> bool:
    """Whether it is known that the bins from each to the last hold about what they would if full alike."""
    held, hold, noise = (np.cumsum(x[::-1]) for x in (counts, most, deviations**2))
    noise = np.sqrt(noise)
    alike = np.abs(held - hold) <= APART * noise + ALIKE * hold
    return bool(alike.all() and held[-1] > 2 * CLEAR * noise[-1])


def _together(noise: np.ndarray) -> float:
    return math.sqrt(float((noise**2).sum()))
