"""Which event tells two tables apart best: searched for in one half of the runs, judged on the other half,
which the search never sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.bounds import LOSS, lower_limit, rough_limits, upper_limit

MOST_VALUES = 160
"""Thresholds tried for a feature; of more values, quantiles."""


@dataclass(frozen=True)
class Event:
    """A feature at least, at most, or equal to a value; `forward` where it is likelier on the second table
    than on the first.
    """

    feature: str
    sign: str
    value: float
    forward: bool

    def happened(self, column: np.ndarray) -> int:
        """In how many runs; a feature that a run does not have is nan, and then it did not."""
        compare = {">=": np.greater_equal, "<=": np.less_equal, "=": np.equal}[self.sign]
        return int(compare(column, self.value).sum())

    def __str__(self) -> str:
        return f"{self.feature} {self.sign} {self.value:.6g}"


@dataclass(frozen=True)
class Features:
    """What was seen in many runs on one table: `values: float64[run, name]`."""

    names: tuple[str, ...]
    values: np.ndarray

    def column(self, name: str) -> np.ndarray:
        return self.values[:, self.names.index(name)]

    def halves(self) -> tuple[Features, Features]:
        """The first half of the runs, and the others."""
        middle = len(self.values) // 2
        return Features(self.names, self.values[:middle]), Features(self.names, self.values[middle:])


def search(first: Features, second: Features, kind: str, delta: float, failure: float) -> Event:
    """The event with the highest lower bound, were these runs all there is; both directions are tried, and
    complements are among the events.
    """
    best, found = -1.0, Event(first.names[0], ">=", 0.0, True)
    runs = (len(first.values), len(second.values))
    for name in first.names:
        columns = [np.sort(side.column(name)[~np.isnan(side.column(name))]) for side in (first, second)]
        values = _thresholds(np.concatenate(columns))
        below = [np.searchsorted(column, values, side="left") for column in columns]
        upto = [np.searchsorted(column, values, side="right") for column in columns]
        counts = {">=": [len(c) - b for c, b in zip(columns, below, strict=True)], "<=": upto}
        counts["="] = [u - b for u, b in zip(upto, below, strict=True)]
        for sign, (one, other) in counts.items():
            for forward in (True, False):
                more, less = (other, one) if forward else (one, other)
                losses = bound_of(more, less, runs[:: -1 if forward else 1], kind, delta, failure)
                if len(losses) and losses.max() > best:
                    best, found = (
                        float(losses.max()),
                        Event(name, sign, float(values[losses.argmax()]), forward),
                    )
    return found


def bound_of(
    more: np.ndarray,
    less: np.ndarray,
    runs: tuple[int, ...],
    kind: str,
    delta: float,
    failure: float,
) -> np.ndarray:
    """Rough bounds for many events at once, `more` and `less` being their counts among `runs` on the table
    where they are likelier, and on the other.
    """
    low, _ = rough_limits(np.asarray(more, dtype=np.float64), runs[0], failure / 2)
    _, high = rough_limits(np.asarray(less, dtype=np.float64), runs[1], failure / 2)
    return LOSS[kind](low, high, delta)


def _thresholds(values: np.ndarray) -> np.ndarray:
    found = np.unique(values)
    if len(found) <= MOST_VALUES:
        return found
    return np.unique(np.quantile(values, np.linspace(0, 1, MOST_VALUES), method="nearest"))


def judge(event: Event, first: Features, second: Features, kind: str, delta: float, failure: float) -> float:
    """The lower bound that an event shows on runs it was not chosen by: wrong with probability at most
    `failure`, shared by its two limits.
    """
    likelier, other = (second, first) if event.forward else (first, second)
    low = lower_limit(event.happened(likelier.column(event.feature)), len(likelier.values), failure / 2)
    high = upper_limit(event.happened(other.column(event.feature)), len(other.values), failure / 2)
    return float(LOSS[kind](np.array([low]), np.array([high]), delta)[0])
