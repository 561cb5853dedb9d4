"""From how often an event happened on two neighbouring tables to a lower bound on the privacy loss, with a
stated probability of being wrong.
"""

from __future__ import annotations

import math

import numpy as np

ORDERS = np.concatenate([[1.0], 1 + np.geomspace(0.01, 300.0, 60)])
"""Renyi orders at which a rho is bounded; any of them gives a valid bound."""


def lower_limit(count: int, runs: int, failure: float) -> float:
    """The Clopper-Pearson lower limit of a probability: too high with probability at most `failure`, whatever
    the truth and `runs`.
    """
    if count == 0:
        return 0.0
    low, high = 0.0, count / runs
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _log_tail(count, runs, middle) > math.log(failure) else (middle, high)
    return low


def upper_limit(count: int, runs: int, failure: float) -> float:
    """The Clopper-Pearson upper limit: too low with probability at most `failure`."""
    return 1.0 - lower_limit(runs - count, runs, failure)


def _log_tail(count: int, runs: int, p: float) -> float:
    """log P[Binomial(runs, p) >= count], for 0 < count, from the exact terms."""
    if p <= 0:
        return -math.inf
    i = np.arange(count, runs + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, runs + 1)))])
    terms = logs[runs] - logs[i] - logs[runs - i] + i * math.log(p) + (runs - i) * math.log1p(-p)
    return float(np.logaddexp.reduce(terms))


def rough_limits(counts: np.ndarray, runs: int, failure: float) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper: float64) limits for many counts at once, a little wider than Clopper and Pearson's:
    Chernoff's, for the search of events.
    """
    share, budget = counts / runs, math.log(1 / failure) / runs
    found = []
    for end in (0.0, 1.0):
        inside, outside = share.copy(), np.full(len(share), end)
        for _ in range(50):
            middle = (inside + outside) / 2
            near = divergence(share, middle) <= budget
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        found.append(outside)
    return found[0], found[1]


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
    rho, for every alpha > 1, and in the limit
    1. The relaxation conditions each law on an event of probability 1 - delta: it takes at most delta off
      `p`, and divides `q` by at most 1 - delta.
    """
    p, q = np.atleast_1d(p - delta), np.atleast_1d(q / (1 - delta))
    told = (p > q) & (q < 1)
    p, q = np.where(told, p, 0.5), np.where(told, q, 0.5)
    best = divergence(p, q)
    with np.errstate(divide="ignore"):
        log_p, log_q, log_not_p, log_not_q = np.log(p), np.log(q), np.log1p(-p), np.log1p(-q)
        for alpha in ORDERS[1:]:
            both = np.logaddexp(
                alpha * log_p + (1 - alpha) * log_q, alpha * log_not_p + (1 - alpha) * log_not_q
            )
            best = np.maximum(best, both / (alpha - 1) / alpha)
    return np.where(told, best, 0.0)


LOSS = {"epsilon": epsilon_loss, "rho": rho_loss}
