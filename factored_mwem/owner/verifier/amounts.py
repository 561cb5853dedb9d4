"""Amounts: what the charges of a run come to, computed a second time from what each of them says, on purpose
without the prices and conversions of accounting/. NOT PRIVATE.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from factored_mwem.accounting.accountant import Accountant, Charge, Mechanism
from factored_mwem.owner.verifier.comparison import Finding
from factored_mwem.request.promise import Promise

OF_MECHANISM: dict[Mechanism, Callable[[float, float, float], float]] = {
    Mechanism.GAUSSIAN: lambda s, b, _: s / (2 * b * b),
    Mechanism.THRESHOLD: lambda s, b, _: s / (2 * b * b),
    Mechanism.LAPLACE: lambda s, b, _: s / b,
    Mechanism.LAPLACE_IN_RHO: lambda s, b, _: s / (2 * b * b),
    Mechanism.EXPONENTIAL: lambda s, b, _: (2 * s / b) ** 2 / 8,
    Mechanism.PERMUTE_AND_FLIP: lambda s, b, _: 2 * s / b,
    Mechanism.SPARSE_VECTOR: lambda s, b, _: s / b + 2 * s / (1.25 * b),
    Mechanism.SPARSE_VECTOR_IN_RHO: lambda s, b, _: (s / b + 2 * s / (1.25 * b)) ** 2 / 2,
    Mechanism.SMOOTH_CAUCHY: lambda s, b, _: _smooth_cauchy(s / 2**60 + 2**-26, b),
    Mechanism.SMOOTH_LAPLACE: lambda s, b, delta: _smooth_laplace(s / 2**60 + 2**-26, b, delta),
}
"""What a charge costs by its sensitivity, scale and delta, as every manifest states it."""


def _smooth_cauchy(beta: float, b: float) -> float:
    u, place = 2 * math.pi * b, 1 / (2 * b * b)
    far = max(place, math.cosh(beta) - 1 + place * math.exp(-beta))
    return math.acosh(1 + far) * (1 + u / math.sinh(u) if u < 700 else 1)


def _smooth_laplace(beta: float, b: float, delta: float) -> float:
    far = math.log(2 / (1 + math.exp(-1)) / delta)
    return 1 / b + max(beta, far * math.expm1(beta) - beta / math.sinh(1))


def cost_of(charge: Charge) -> float:
    """Rho, or epsilon where noise is pure."""
    price = OF_MECHANISM[charge.mechanism]
    return price(float(charge.sensitivity), charge.scale, float(charge.delta))


def epsilon_at(rho: float, delta: float) -> float:
    """The least epsilon that rho-zCDP implies at delta by any one order (Canonne, Kamath, Steinke 2020,
    proposition 12); `log` is the logarithm of the order less 1.
    """
    if rho <= 0:
        return 0.0
    if delta <= 0:
        return math.inf

    def at(log: float) -> float:
        less = math.exp(log)
        rest = -math.log(delta) - math.log1p(less) - less * math.log1p(math.exp(-log))
        return rho * (1 + less) + rest / less

    best = min((-20 + step / 4 for step in range(281)), key=at)
    low, high = best - 0.5, best + 0.5
    for _ in range(80):
        third = (high - low) / 3
        low, high = (low + third, high) if at(low + third) > at(high - third) else (low, high - third)
    return max(0.0, at(low))


def amount(promise: Promise, accountant: Accountant) -> Finding:
    """What all charges come to, beside what is promised, and beside what the accountant says they come to."""
    entries = accountant.entries
    cost, delta = math.fsum(map(cost_of, entries)), sum((entry.delta for entry in entries), Fraction(0))
    in_rho = any(entry.mechanism in IN_RHO for entry in entries)
    rest = Fraction(promise.delta) - delta
    epsilon = epsilon_at(cost, float(rest)) if in_rho else cost
    said, said_delta = accountant.guarantee()
    share, wrong = epsilon / promise.epsilon, f"the charges come to epsilon {epsilon:.6g} of what is promised"
    if rest < 0 or said_delta < delta or epsilon > said * NEAR:
        share, wrong = math.inf, f"the charges come to epsilon {epsilon:.6g}, and {said:.6g} is stated"
    return Finding(WHOLE, share, wrong)


NEAR = 1 + 2.0**-30
WHOLE = "all charges"
IN_RHO = {
    Mechanism.GAUSSIAN, Mechanism.THRESHOLD, Mechanism.LAPLACE_IN_RHO, Mechanism.EXPONENTIAL,
    Mechanism.SPARSE_VECTOR_IN_RHO,
}  # fmt: skip
