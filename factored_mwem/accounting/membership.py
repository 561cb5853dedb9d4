"""Membership: how much better than a coin a guess is that a person is in the table, by accounting alone.

The advantage of a guess is the total variation distance (TV) between the outputs on two neighbouring tables:
who is shown the output on one of them, which a fair coin chose, and guesses which one, is right with
probability (1 + advantage) / 2 at most, whatever else they know (Yeom, Giacomelli, Fredrikson, Jha 2018;
Kairouz, Oh, Viswanath 2015). The bound holds for all neighbours: for every person, whatever others are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from factored_mwem.accounting.accountant import Budget, Charge
from factored_mwem.accounting.conversion import Composition, epsilon_of, float_up
from factored_mwem.accounting.unit import Neighbours

CONVERTED = 1
"""Below this rho Pinsker's bound is the least of the three, and no conversion is made."""
DELTAS = tuple(Fraction(i, 20) for i in range(1, 20))
"""The deltas at which the curve of (epsilon, delta) is evaluated."""
ULPS = 1 + 1e-14
"""More than the rounding of a few floating-point operations."""
QUESTIONS = {
    Neighbours.ADD_REMOVE: "whether a person is in the table",
    Neighbours.REPLACE: "which of two persons, or of two answers of one person, is in the table",
}
"""What the attacker guesses: how a fair coin fell."""


def advantage(entries: Iterable[Charge], budget: Budget) -> float:
    """An upper bound, 0 to 1, rounded up, on a membership guess's advantage, from a list of entries alone."""
    entries = list(entries)
    cost = sum((entry.cost for entry in entries), Fraction(0))
    return _bound(cost, sum((entry.delta for entry in entries), Fraction(0)), budget.composition)


def advantage_of_budget(budget: Budget) -> float:
    """The bound for a release that spends all of its budget: known before there is one."""
    return _bound(budget.amount, budget.discovery_delta, budget.composition)


def guess_of(advantage: float) -> float:
    """How often a guess from a fair coin is right at most, 1/2 to 1, rounded up."""
    return min(1.0, math.nextafter((1 + advantage) / 2, 1.0))


def _bound(cost: Fraction, delta: Fraction, composition: Composition) -> float:
    """The bound for a cost of epsilon or rho, and the deltas of thresholds.

    What is delta-approximately rho-zCDP is, on both tables, with probability 1 - delta an output whose
    divergences are bounded by rho, and anything else (Bun, Steinke 2016, definition 8.1): TV is at most
    (1 - delta) TV of the former + delta. Deltas add (lemma 8.2).
    """
    near = _pure(cost) if composition is Composition.PURE else _concentrated(cost)
    return min(1.0, (near + float_up(delta) * max(0.0, 1 - near)) * ULPS)


def _pure(epsilon: Fraction) -> float:
    """TV <= (e^epsilon - 1) / (e^epsilon + 1) = tanh(epsilon / 2), which randomised response attains."""
    return math.tanh(float_up(epsilon) / 2) * ULPS if epsilon < 10**3 else 1.0


def _concentrated(rho: Fraction) -> float:
    """The least of what rho-zCDP implies.

    The Kullback-Leibler divergence, the Renyi divergences' limit at order 1, is at most rho. So TV <=
    sqrt(rho / 2) (Pinsker) and TV <= sqrt(1 - e^-rho) (Bretagnolle, Huber 1979). And TV <= (e^epsilon - 1 +
    2 delta) / (e^epsilon + 1) for every (epsilon, delta) that rho implies, as both directions are bounded
    (Kairouz, Oh, Viswanath 2015, theorem 2.1 at equal errors).
    """
    if rho >= 10**3:
        return 1.0
    least = float_up(rho)
    bounds = [math.sqrt(least / 2), math.sqrt(-math.expm1(-least))]
    if rho > CONVERTED:
        bounds += [_of_curve(epsilon_of(rho, delta), float_up(delta)) for delta in DELTAS]
    return min(1.0, min(bounds) * ULPS)


def _of_curve(epsilon: float, delta: float) -> float:
    """(e^epsilon - 1 + 2 delta) / (e^epsilon + 1) = tanh(epsilon / 2) + delta (1 - tanh(epsilon / 2))."""
    near = math.tanh(epsilon / 2)
    return near + delta * (1 - near)
