"""Lower bounds on the privacy loss: which event tells two tables apart best, searched for in one half of the
runs and judged on the other half, which the search never sees; and from how often it happened there to a
bound, with a stated probability of being wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import betaincinv

MOST_VALUES = 160
"""Thresholds tried for a feature; of more values, quantiles."""
ORDERS = 1 + np.geomspace(0.01, 300.0, 60)
"""Renyi orders at which a rho is bounded; any of them gives a valid bound, and so does the limit 1."""


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


def search(first: pd.DataFrame, second: pd.DataFrame, kind: str, delta: float, failure: float) -> Event:
    """The event with the highest lower bound, were these runs (a feature a column) all there is; both
    directions are tried, and complements are among the events.
    """
    best, event = -1.0, Event(first.columns[0], ">=", 0.0, True)
    for name in first:
        columns = [np.sort(side[name].dropna().to_numpy()) for side in (first, second)]
        values = _thresholds(np.concatenate(columns))
        below = [np.searchsorted(column, values, side="left") for column in columns]
        upto = [np.searchsorted(column, values, side="right") for column in columns]
        counts = {">=": [len(c) - b for c, b in zip(columns, below, strict=True)], "<=": upto}
        counts["="] = [u - b for u, b in zip(upto, below, strict=True)]
        for sign, (one, other) in counts.items():
            for forward in (True, False):
                sides = (
                    (other, len(second), one, len(first))
                    if forward
                    else (one, len(first), other, len(second))
                )
                losses = bound_of(*sides, kind, delta, failure)
                if len(losses) and losses.max() > best:
                    best, at = float(losses.max()), float(values[losses.argmax()])
                    event = Event(name, sign, at, forward)
    return event


def judge(
    event: Event, first: pd.DataFrame, second: pd.DataFrame, kind: str, delta: float, failure: float
) -> float:
    """The lower bound that an event shows on runs it was not chosen by: wrong with probability at most
    `failure`.
    """
    (more, runs), (less, others) = (
        (np.array([event.happened(side[event.feature].to_numpy())]), len(side))
        for side in ((second, first) if event.forward else (first, second))
    )
    return float(bound_of(more, runs, less, others, kind, delta, failure)[0])


def _thresholds(values: np.ndarray) -> np.ndarray:
    different = np.unique(values)
    if len(different) <= MOST_VALUES:
        return different
    return np.unique(np.quantile(values, np.linspace(0, 1, MOST_VALUES), method="nearest"))


def bound_of(
    more: np.ndarray, runs: int, less: np.ndarray, others: int, kind: str, delta: float, failure: float
) -> np.ndarray:
    """Bounds for many events at once, `more` of `runs` being how often each happened on the table where it is
    likelier, `less` of `others` on the other: each wrong with probability at most `failure`, shared by its
    limits.
    """
    low, _ = limits(more, runs, failure / 2)
    _, high = limits(less, others, failure / 2)
    return LOSS[kind](low, high, delta)


def limits(counts: np.ndarray, runs: int, failure: float) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper: float64) limits of a probability by Clopper and Pearson, of `counts` of an event in
    `runs`: each is wrong with probability at most `failure`, whatever the truth and `runs`.
    """
    counts = np.asarray(counts, dtype=np.float64)
    some, others = np.maximum(counts, 0.5), np.maximum(runs - counts, 0.5)  # no count of 0 is looked at
    low = np.where(counts > 0, betaincinv(some, runs - some + 1, failure), 0.0)
    return low, np.where(counts < runs, 1 - betaincinv(others, runs - others + 1, failure), 1.0)


def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Kullback-Leibler divergence of Bernoulli(p) from Bernoulli(q), in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        yes = np.where(p > 0, p * np.log(p / q), 0.0)
        no = np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0.0)
    return yes + no


def epsilon_loss(p: np.ndarray, q: np.ndarray, delta: float) -> np.ndarray:
    """The least epsilon for which (epsilon, delta)-DP allows an event of probability `p` on one table and `q`
    on the other; at least 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p - delta > q, np.log(np.maximum(p - delta, 0.0) / q), 0.0)


def rho_loss(p: np.ndarray, q: np.ndarray, delta: float) -> np.ndarray:
    """The least rho for which delta-approximate rho-zCDP allows that; at least 0.

    By data processing the Renyi divergence of order alpha between the two Bernoulli laws is at most alpha
    rho, for every alpha > 1, and in the limit 1. The relaxation conditions each law on an event of
    probability 1 - delta: it takes at most delta off `p`, and divides `q` by at most 1 - delta.
    """
    p, q = np.atleast_1d(p - delta), np.atleast_1d(q / (1 - delta))
    apart = (p > q) & (q < 1)
    p, q = np.where(apart, p, 0.5), np.where(apart, q, 0.5)
    best = divergence(p, q)
    with np.errstate(divide="ignore"):
        log_p, log_q, log_not_p, log_not_q = np.log(p), np.log(q), np.log1p(-p), np.log1p(-q)
        for a in ORDERS:
            both = np.logaddexp(a * log_p + (1 - a) * log_q, a * log_not_p + (1 - a) * log_not_q)
            best = np.maximum(best, both / (a - 1) / a)
    return np.where(apart, best, 0.0)


LOSS = {"epsilon": epsilon_loss, "rho": rho_loss}
