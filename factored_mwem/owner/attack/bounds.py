"""Lower bounds on the privacy loss: which event tells two tables apart best, searched for in one half of the
runs and judged on the other half, which the search never sees; and from how often it happened there to a
bound, with a stated probability of being wrong.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Counted = tuple[np.ndarray, int]
"""How often each event happened, and in how many runs."""
MOST_VALUES = 160
"""Thresholds tried for a feature; of more values, quantiles."""
ORDERS = 1 + np.geomspace(0.01, 300.0, 60)
"""Renyi orders at which a rho is bounded; any of them gives a valid bound, and so does the limit 1."""


@dataclass(frozen=True)
class Threshold:
    """A feature at least, at most, or equal to a value; `forward` where it is likelier on the second table
    than on the first.
    """

    feature: Hashable
    sign: str
    value: float
    forward: bool

    def happened(self, column: np.ndarray) -> int:
        """In how many runs; a feature that a run does not have is nan, and then it did not."""
        compare = {">=": np.greater_equal, "<=": np.less_equal, "=": np.equal}[self.sign]
        return int(compare(column, self.value).sum())

    def __str__(self) -> str:
        return f"{self.feature} {self.sign} {self.value:.6g}"


def search(first: pd.DataFrame, second: pd.DataFrame, kind: str, delta: float, failure: float) -> Threshold:
    """The event with the highest lower bound, were these runs (a feature a column) all there is; both
    directions are tried, and complements are among the events.
    """
    best, event = -1.0, Threshold(first.columns[0], ">=", 0.0, True)
    for name in first:
        columns = [np.sort(side[name].dropna().to_numpy()) for side in (first, second)]
        values = _thresholds(np.concatenate(columns))
        below = [np.searchsorted(column, values, side="left") for column in columns]
        upto = [np.searchsorted(column, values, side="right") for column in columns]
        counts = {">=": [len(c) - b for c, b in zip(columns, below, strict=True)], "<=": upto}
        counts["="] = [u - b for u, b in zip(upto, below, strict=True)]
        for sign, (one, other) in counts.items():
            for forward in (True, False):
                sides = (other, len(second)), (one, len(first))
                losses = bound_of(*(sides if forward else sides[::-1]), kind, delta, failure)
                if len(losses) and losses.max() > best:
                    best, at = float(losses.max()), float(values[losses.argmax()])
                    event = Threshold(name, sign, at, forward)
    return event


def judge(
    event: Threshold, first: pd.DataFrame, second: pd.DataFrame, kind: str, delta: float, failure: float
) -> float:
    """The lower bound that an event shows on runs it was not chosen by: wrong with probability at most
    `failure`.
    """
    more, less = (
        (np.array([event.happened(side[event.feature].to_numpy())]), len(side))
        for side in ((second, first) if event.forward else (first, second))
    )
    return float(bound_of(more, less, kind, delta, failure)[0])


def _thresholds(values: np.ndarray) -> np.ndarray:
    different = np.unique(values)
    if len(different) <= MOST_VALUES:
        return different
    return np.unique(np.quantile(values, np.linspace(0, 1, MOST_VALUES), method="nearest"))


def bound_of(more: Counted, less: Counted, kind: str, delta: float, failure: float) -> np.ndarray:
    """Bounds for many events at once: how often each happened on the table where it is likelier, and on the
    other. Each is wrong with probability at most `failure`, shared by its limits.
    """
    low, _ = limits(*more, failure / 2)
    _, high = limits(*less, failure / 2)
    return LOSS[kind](low, high, delta)


def limits(counts: np.ndarray, runs: int, failure: float) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper: float64) limits of a probability by Clopper and Pearson, of `counts` of an event in
    `runs`: each is wrong with probability at most `failure`, whatever the truth and `runs`.
    """
    lower = _lower_limits(runs, failure)
    counts = np.asarray(counts).astype(np.int64)
    return lower[counts], 1 - lower[runs - counts]


@lru_cache(maxsize=64)
def _lower_limits(runs: int, failure: float) -> np.ndarray:
    """float64[count, 0 to runs]: the probability at which so many or more happen with probability `failure`,
    by bisection from below; 0 for none.
    """
    counts = np.arange(1, runs + 1)
    low, high = np.zeros(runs), np.ones(runs)
    for _ in range(60):
        middle = (low + high) / 2
        less = at_least(counts, runs, middle) < failure
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.concatenate([[0.0], low])


def at_least(counts: np.ndarray, runs: int, p: np.ndarray) -> np.ndarray:
    """float64: the probability of `counts` (1 to `runs`) or more of `runs`, each of which happens with
    probability `p` in (0, 1): the regularised incomplete beta function, by its continued fraction (DLMF
    8.17.22).
    """
    a, b, p = np.broadcast_arrays(*map(np.float64, (counts, runs - counts + 1, p)))
    swapped = p > (a + 1) / (a + b + 2)  # where the fraction of the complement converges faster
    a, b, x = np.where(swapped, b, a), np.where(swapped, a, b), np.where(swapped, 1 - p, p)
    log_factor = _log_gamma(a + b) - _log_gamma(a + 1) - _log_gamma(b) + a * np.log(x) + b * np.log1p(-x)
    tiny, c = 1e-300, np.ones_like(x)
    d = 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 100 + 10 * math.isqrt(runs)):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / np.where(1 + step * d == 0, tiny, 1 + step * d), 1 + step / c
            c = np.where(c == 0, tiny, c)
            fraction = fraction * d * c
        if (np.abs(d * c - 1) < 1e-15).all():
            break
    tail = np.exp(log_factor) * fraction
    return np.where(swapped, 1 - tail, tail)


_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


def one_run(canaries: int, guesses: int, right: int, delta: float, failure: float) -> float:
    """A lower bound on epsilon from a single run, wrong with probability at most `failure`: of `canaries`,
    each of which a fair coin put in, `guesses` were guessed about, and `right` of them rightly.

    Under (epsilon, delta)-DP the right guesses are dominated by as many tosses of a coin of probability
    e^epsilon / (1 + e^epsilon), but for a share that delta allows (Steinke, Nasr, Jagielski 2023,
    arXiv 2305.08846, theorem 5.2).
    """
    low, high = 0.0, 50.0
    for _ in range(50):
        middle = (low + high) / 2
        possible = _of_one_run(canaries, guesses, right, middle, delta) >= failure
        low, high = (low, middle) if possible else (middle, high)
    return low


def _of_one_run(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """At most how probable so many right guesses are under (epsilon, delta)-DP."""
    if not right:
        return 1.0
    p = 1 / (1 + math.exp(-epsilon))
    tails = at_least(np.arange(1, right + 1), guesses, np.full(right, p))
    tails = np.concatenate([[1.0], tails])  # of 0 to `right`
    short = (tails[:-1] - tails[-1])[::-1] / np.arange(1, right + 1)  # by 1 to `right`
    return float(tails[-1] + 2 * canaries * delta * short.max())


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


def advantage_shown(p: np.ndarray, q: np.ndarray, delta: float) -> np.ndarray:
    """How much likelier the event is on the table where it is likelier; at least 0."""
    return np.maximum(p - q, 0.0)


LOSS = {"epsilon": epsilon_loss, "rho": rho_loss, "advantage": advantage_shown}
