"""The IC mechanism: all queries known beforehand, the worst one found in private, then measured, again and
again, until it is good enough (Gupta, Roth, Ullman 2011, section 7; Roth 2011, lecture 9). `known.py` runs it
on a private table.

The distinguisher is the session's private selection, which is never worse than the exponential mechanism
(McKenna, Sheldon 2020): with probability 1 - gamma its query is at most F = (2 / eps_0) log(k / gamma)
records better answered than the worst. Constants are those that the proof of theorem 7.3 needs, alpha >= 8 F
and alpha >= 8 log(2 B / beta) / eps_0; lecture 9 prints a quarter of the first, with which its own argument
gives 3 alpha / 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Eligible, Session
from factored_mwem.sessions.online.constructions import Construction
from factored_mwem.sessions.online.prices import fixed_point

Q = TypeVar("Q")
STOP = 0.75
"""The mechanism ends when the measured query is off by less than this share of alpha."""


def epsilon_0(epsilon: float, bound: float) -> float:
    """The cost of each of the 2 B(alpha / 2) readings, if all together cost epsilon: theorem 7.3, pure."""
    return epsilon / (2 * bound)


def epsilon_0_approximate(epsilon: float, delta: float, bound: float) -> float:
    """The cost of each, if all together are (epsilon, delta)-private by advanced composition: theorem 7.3,
    approximate. `construct` needs no such constant: its charges add up as rho.
    """
    return epsilon / (4 * math.sqrt(bound * math.log(1 / delta)))


def found_within(epsilon_each: float, queries: int, gamma: float) -> float:
    """F(eps_0), in records."""
    return 2 * math.log(queries / gamma) / epsilon_each


def least_alpha(
    bound: Callable[[float], float], each: Callable[[float], float], queries: int, beta: float
) -> float:
    """The smallest alpha, in records, to which the mechanism is accurate with probability 1 - beta: the
    larger of 8 log(2 B / beta) / eps_0 and 8 F, B = B(alpha / 2), gamma = beta / (2 B), eps_0 = `each(B)`.

    A thousand queries of a million records over 64 cells, by multiplicative weights, as a share of the
    records: under epsilon 1, and under epsilon 1 with a delta of 1e-9.

    >>> from factored_mwem.sessions.online.constructions import MultiplicativeWeights
    >>> bound = MultiplicativeWeights(64, 1e6, alpha=1.0).bound
    >>> round(least_alpha(bound, lambda b: epsilon_0(1.0, b), 1000, beta=0.05) / 1e6, 2)
    0.33
    >>> round(least_alpha(bound, lambda b: epsilon_0_approximate(1.0, 1e-9, b), 1000, beta=0.05) / 1e6, 2)
    0.21
    """

    def wanted(alpha: float) -> float:
        most = max(1.0, bound(alpha / 2))
        cost, gamma = each(most), beta / (2 * most)
        return max(8 * math.log(2 * most / beta) / cost, 8 * found_within(cost, queries, gamma))

    return fixed_point(wanted)


@dataclass(frozen=True, slots=True)
class Ended:
    """How the mechanism ended: after how many `updates`, and whether the worst query it found was `near`
    enough; if not, the bound on updates was reached.
    """

    updates: int
    near: bool


def construct(
    session: Session,
    sealed: Sealed,
    construction: Construction[Q],
    queries: Sequence[Q],
    alpha: float,
    *,
    cost: Fraction,
    most: int | None = None,
    stop: float | None = None,
) -> Ended:
    """Make `construction`, one for alpha / 2, accurate to `alpha` records for all `queries`; question i of
    `sealed`, of one answer, is query i. Cost: at most `cost`, of epsilon or rho, for two readings of equal
    cost before each of `most` updates, B(alpha / 2) of them by default. It stops when the measured query is
    off by less than `stop` records, STOP of alpha by default.
    """
    most = max(1, math.floor(construction.bound(alpha / 2))) if most is None else most
    stop, each = STOP * alpha if stop is None else stop, cost / (2 * most)
    eligible = Eligible(np.arange(len(queries)), np.zeros(len(queries)))
    for updates in range(most):
        believed = np.array([construction.answer(query) for query in queries])
        worst = session.select(sealed, believed, eligible, cost=each)
        value = float(session.measure(sealed, worst, cost=each).noisy[0])
        if abs(value - believed[worst]) < stop:
            return Ended(updates, near=True)
        construction.update(queries[worst], value)
    return Ended(most, near=False)
