"""Means of few runs with what they may be off by, and marks that stay open where that decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from replay.figure import FAILS, HOLDS, OPEN

SURE = 0.95
"""Probability of an interval, by Student's t."""

Truth = bool | None
"""None: the runs do not decide."""


class Interval(NamedTuple):
    """A mean, its standard error, and the ends of its interval: 0 and infinity where one run alone says
    nothing about them.
    """

    mean: float
    error: float
    low: float
    high: float

    @classmethod
    def of(cls, found: Sequence[float]) -> Interval:
        """Of runs of something that is never negative; nan where there are none."""
        runs = np.asarray(found, dtype=np.float64)
        middle = float(runs.mean()) if len(runs) else math.nan
        if len(runs) < 2:
            return cls(middle, math.nan, 0.0, math.inf)
        from scipy.special import stdtrit

        error = float(runs.std(ddof=1) / math.sqrt(len(runs)))
        reach = float(stdtrit(len(runs) - 1, (1 + SURE) / 2)) * error
        return cls(middle, error, max(middle - reach, 0.0), middle + reach)

    def below(self, limit: float) -> Truth:
        """Whether it lies below, for sure; None where the interval has the limit inside."""
        if math.isnan(self.mean) or math.isnan(limit):
            return None
        return True if self.high < limit else False if self.low >= limit else None


def both(*truths: Truth) -> Truth:
    """Whether all are true."""
    return False if False in truths else None if None in truths else True


def some(truths: Iterable[Truth]) -> Truth:
    """Whether any is true."""
    found = list(truths)
    return True if True in found else None if None in found else False


def at_least(number: int, truths: Iterable[Truth]) -> Truth:
    """Whether so many are true."""
    found = list(truths)
    if found.count(True) >= number:
        return True
    return None if found.count(True) + found.count(None) >= number else False


def decided(truth: Truth) -> str:
    """The mark."""
    return OPEN if truth is None else HOLDS if truth else FAILS
