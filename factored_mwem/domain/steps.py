"""Steps: how far apart the values of a column lie, by those that were found or by noisy counts of all."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

STEPS_APART, FULL_STEP = range(2, 400), 16
"""How far apart all values may lie, if each remainder by such a step has FULL_STEP values at least: prices
that end in 99, degrees or inches that were converted.
"""
SURE, SMALL = 8.0, 3.0
"""By how many deviations of its noise the count of one remainder must stand out; and how many times the noise
of all other values it must hold, while these hold no more than that noise.
"""
MOST_APART = 2**10
"""Multiples of a step in a column's cells at most."""
FEWEST_APART, EXACT = 5, 1e-9
"""Numbers that show a step that all are multiples of, at least; and how far off one may be, in steps."""


def step_of(values: Iterable[float]) -> float | None:
    """What all `values` are multiples of, in few digits where it has few: miles that were converted from
    knots. None where no step, or fewer than FEWEST_APART of them, show it.

    >>> step_of([3 * 1.15078, 4 * 1.15078, 7 * 1.15078, 10 * 1.15078, 25 * 1.15078])
    1.15078
    >>> step_of([0.3, 1.7, 2.9, 3.14159265, 4.0]) is None
    True
    """
    sizes = np.unique(np.abs([value for value in values if value]))
    if len(sizes) < FEWEST_APART:
        return None
    step = float(sizes[0])
    for size in sizes[1:].tolist():
        left = size
        while left > sizes[-1] / MOST_APART / 2:  # Euclid's, with what rounding leaves for nothing
            step, left = left, abs(step - round(step / left) * left)
    times = np.rint(sizes / step)
    if times[0] < 1:
        return None
    step = float(np.mean(sizes / times))
    if times[-1] > MOST_APART or np.abs(sizes / step - times).max() > EXACT * times[-1]:
        return None
    short = (float(f"{step:.{digits}g}") for digits in range(1, 18))
    return next((few for few in short if np.allclose(times * few, sizes, rtol=1e-14, atol=0.0)), step)


def steps_apart(units: np.ndarray, counts: np.ndarray, stddev: float) -> np.ndarray | None:
    """bool[value]: those that lie a step apart, whose counts stand out most; None where no step shows that
    the counts of all others are noise, and small beside those.
    """
    best, most = None, SURE
    for step in STEPS_APART:
        if len(units) < FULL_STEP * step:
            break
        last = units % step
        sizes, sums = np.bincount(last, minlength=step), np.bincount(last, counts, minlength=step)
        out = sums / (stddev * np.sqrt(np.maximum(sizes, 1)))
        at = int(np.argmax(out))
        noise = stddev * float(len(units) - sizes[at]) ** 0.5
        left = float(counts.sum() - sums[at])
        if out[at] > most and left < noise < sums[at] / SMALL:
            best, most = last == at, float(out[at])
    return best
