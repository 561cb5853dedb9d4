"""Figures: what is computed from the answers of terms, and the intervals about it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from factored_mwem.answers.bases import Spread, Sums
from factored_mwem.answers.resolve import Resolved

Z = 1.959963984540054
"""A standard normal lies within this of 0 with probability 0.95."""


def computed(asked: Resolved, values: np.ndarray, first: int = 0) -> tuple[np.ndarray, Sums]:
    """(float64[group]: what a query asks, the sums of terms whose errors are its errors, to first order).

    Of a ratio r of a to b these are (a - r b) / b: the delta method. `first`: the number of its first term.
    """
    groups = len(asked.groups)
    i = first + np.arange(groups)
    if asked.kind == "count":
        return values[i], Sums(i[:, None], np.ones((groups, 1)))
    above, below = values[i], values[i + groups]
    below = np.where(below > 0, below, np.nan)
    ratio = above / below
    return ratio, Sums(np.stack([i, i + groups], axis=1), np.stack([1 / below, -ratio / below], axis=1))


def half_width(spread: Spread) -> np.ndarray:
    """float64[group]: half of a 95 % interval. Beside a normal's it follows the excess kurtosis (Cornish and
    Fisher 1938, to that order).
    """
    return np.sqrt(spread.variance) * (Z + spread.kurtosis / 24 * (Z**3 - 3 * Z))


class Steps:
    """A distribution over a column's codes that rises in steps: `upto: float64[code]`, the share up to each,
    and `places: float64[code, 2]`, the least and greatest value of each, `step` apart if that is above 0.
    """

    def __init__(self, upto: np.ndarray, places: np.ndarray, step: float) -> None:
        rising, falling = np.maximum.accumulate(upto), np.minimum.accumulate(upto[::-1])[::-1]
        self.upto = np.clip((rising + falling) / 2, 0.0, 1.0)  # noise may make shares fall
        self.places, self.step = places, step

    def at(self, share: float) -> tuple[int, float]:
        """(the code that a share of the records is reached in, the value): within a bin in proportion."""
        code = min(int(np.searchsorted(self.upto, share - 1e-12)), len(self.upto) - 1)
        low, high = self.places[code]
        before = self.upto[code - 1] if code else 0.0
        inside = (share - before) / max(self.upto[code] - before, 1e-12)
        inside = min(max(inside, 0.0), 1.0)
        if self.step and high > low:  # the values of a bin, one after the other
            rank = math.ceil(inside * round((high - low) / self.step + 1) - 1e-9) - 1
            return code, float(min(low + max(rank, 0) * self.step, high))
        return code, float(low + inside * (high - low))


def quantiles(asked: Resolved, values: np.ndarray, spread: Callable[[Sums], Spread]) -> np.ndarray:
    """float64[4, group]: (estimate, stderr, low, high) in the unit of a column's cuts.

    The interval is where the distribution reaches `at` less and plus the error of the share of records up to
    the estimate (Woodruff 1952).
    """
    assert asked.places is not None
    groups, each = len(asked.groups), len(asked.places) + 1
    table = values.reshape(groups, each)
    whole, below = np.arange(groups) * each, np.where(table[:, 0] > 0, table[:, 0], np.nan)
    steps = [Steps(row[1:] / max(row[0], 1e-9), asked.places, asked.step) for row in table]
    reached = np.array([step.at(asked.at)[0] for step in steps])
    shares = np.array([step.upto[code] for step, code in zip(steps, reached, strict=True)])
    rows = np.stack([whole + 1 + reached, whole], axis=1)
    errors = spread(Sums(rows, np.stack([1 / below, -shares / below], axis=1)))
    half, found = half_width(errors), np.full((4, groups), np.nan)
    for g, step in enumerate(steps):
        if not np.isnan(below[g]):
            found[0, g] = step.at(asked.at)[1]
        if np.isfinite(half[g]):
            low, high = (asked.at + errors.bias[g] + sign * half[g] for sign in (-1, 1))
            found[2, g], found[3, g] = (step.at(min(max(at, 0.0), 1.0))[1] for at in (low, high))
            found[1, g] = (found[3, g] - found[2, g]) / (2 * Z)
    return found
