"""Cap: how much all releases of one dataset may cost together, and the rule by which their costs add up.

Whoever asks for a release has seen the earlier ones, so the rule must hold for costs that are chosen as one
goes: it is a privacy filter. A cap of (E, D) is kept in two phases.

1. Plain sums, as long as all releases count in epsilon: their epsilons sum to at most E, their deltas to D.
2. A release that counts in rho ends the first phase, whose sums were e and d by then; so does a pure one that
   costs less in rho. It fixes limits for itself and all that follow: deltas of at most K, and rhos of at most
   R, where R-zCDP is (E - e, F)-DP, d + K + F <= D. A pure release of epsilon counts as rho what is less,
   epsilon^2 / 2 or epsilon / a, with an order a that is fixed, too. While everything so far is pure and sums
   to at most E, it is admitted, too, whatever its rho.

A cap in rho has the second phase alone, with limits that are its own, and no order.

Why the result is (E, D)-DP, for neighbours x and x' and any strategy. P and Q are the probabilities of what
the strategy sees, t, on x and on x'; l is ln P/Q, a sum over the draws. D bounds the sum of (P - e^E Q)+ over
all t. Draws of releases that run at the same time may alternate; each keeps to what it reserved.

- Deltas. An (epsilon, delta) draw is an epsilon draw, but for a part of probability delta (Kairouz, Oh,
  Viswanath 2015, theorem 3.2), and likewise in zCDP (Bun, Steinke 2016, definition 8.1). The deltas of a
  whole path sum to at most d + K, so that is what those parts can add; from here on there are none.
- Choice. Let A be the t that end with pure draws alone, which sum to at most E: there l <= E, and they add
  nothing to the sum. For all other t, look at the moment at which the second phase began: what was drawn by
  then has l <= c, its epsilons; e - c more may still be drawn for the first phase. P' and Q' are of what
  follows, given that past. If (P' - e^(E - c) Q')+ sums to at most F, then so does the whole, whatever e, d
  and the limits were: they may depend on the past.
- What follows the moment. A strategy that stops before the rhos exceed R is the same strategy on all t that
  end within R, so they add no more than it does. Let Q'' be Q', but with the draws of the first phase from x:
  then Q'' <= e^(e - c) Q', and it remains that (P' - e^(E - e) Q'')+ sums to at most F, where only draws of
  the second phase differ.
- Orders. Given its past, a draw of rho has E[e^((b - 1) l)] <= e^((b - 1) b rho) for every b > 1, and a pure
  one at most e^((b - 1) min(epsilon, b epsilon^2 / 2)) (Bun, Steinke 2016, proposition 1.4). Costs are chosen
  before they are drawn, so E[e^((b - 1) l)] <= e^((b - 1) b R) in the end (Rogers, Roth, Ullman, Vadhan 2016;
  Whitehouse, Ramdas, Rogers, Wu 2023): for all b where epsilon^2 / 2 alone counts; for b = a, otherwise. The
  sum is then at most e^((b - 1)(b R - (E - e))) (1 - 1 / b)^b / (b - 1) (Canonne, Kamath, Steinke 2020,
  proposition 12). R is the largest for which that is F for the best b, and a is this b. Floating point finds
  a nearly, so with epsilon / a the limit is R less 2^-30 of it, and a is given up where that is too little.

What would not do: to add the epsilons of pure releases to epsilon(rho of the others, F), in any order, up to
E. That is sound for numbers fixed in advance. But one who may choose draws in rho until their loss happens to
be above its bound, and then turns to pure ones, has as many chances to see that as there are draws. For the
same reason the two phases cannot be compared with hindsight, each with all of D. tests/accounting/test_filter
computes what such strategies gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context
from fractions import Fraction

from factored_mwem.accounting.accountant import largest_rho
from factored_mwem.accounting.conversion import (
    Composition,
    best_order,
    epsilon_of,
    float_down,
    float_up,
    rho_at_order,
)
from factored_mwem.errors import InputError

LEARNT_SHARE = Fraction(0.1)
"""Share of what is left of a cap's delta that is kept for learnt categories if the release that sets the
limits leaves as much. It is a release's own default.
"""
SLACK = Fraction(1, 2**30)
"""The most that floating point may lose in finding the order, as a share of rho."""
LEAST_EPSILON = Fraction(1e-12)
LEAST_DELTA = Fraction(1e-200)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one release, reserved or spent: `amount` in rho or, if it counts in epsilon, in epsilon."""

    composition: Composition
    amount: Fraction
    delta: Fraction = Fraction(0)
    """The delta of learnt categories, or of (epsilon, delta) events."""

    @property
    def pure(self) -> bool:
        """Whether the cost counts in epsilon."""
        return self.composition is Composition.PURE

    @property
    def rho(self) -> Fraction:
        """The cost in rho; a pure one by Bun and Steinke 2016, Proposition 1.4."""
        return self.amount**2 / 2 if self.pure else self.amount


@dataclass(frozen=True, slots=True)
class CapLimits:
    """The limits that the first release of the second phase fixes; see the module docstring."""

    after: int
    """The number of releases of the first phase."""
    epsilon: Fraction
    """The sum of their epsilons: e."""
    rho: Fraction
    """R, of all others."""
    delta: Fraction
    """K, of all others."""
    rest: Fraction
    """F, the delta at which rho is converted; 0 where the cap is in rho."""
    order: Fraction | None
    """a; without one, pure releases count as epsilon^2 / 2."""


@dataclass(frozen=True, slots=True)
class CapUse:
    """Exact sums over some releases, in order."""

    releases: int = 0
    pure: bool = True
    """Whether all of them are."""
    epsilon: Fraction = Fraction(0)
    """The sum of the epsilons of pure releases."""
    delta: Fraction = Fraction(0)
    """The sum of the deltas of the current phase."""
    rho: Fraction = Fraction(0)
    """The sum of the rhos of the second phase, without releases that count by the order."""
    by_order: Fraction = Fraction(0)
    """Epsilons of those that do."""

    def plus(self, cost: Cost, limits: CapLimits | None) -> CapUse:
        """With one more release."""
        pure, epsilon = self.pure and cost.pure, self.epsilon + (cost.amount if cost.pure else 0)
        total = replace(self, releases=self.releases + 1, pure=pure, epsilon=epsilon)
        if limits is None or self.releases < limits.after:
            return replace(total, delta=self.delta + cost.delta)
        delta = cost.delta + (self.delta if self.releases > limits.after else 0)
        if cost.pure and limits.order is not None and cost.amount / limits.order < cost.rho:
            return replace(total, delta=delta, by_order=self.by_order + cost.amount)
        return replace(total, delta=delta, rho=self.rho + cost.rho)

    @classmethod
    def of(cls, costs: Iterable[Cost], limits: CapLimits | None) -> CapUse:
        total = cls()
        for cost in costs:
            total = total.plus(cost, limits)
        return total

    def left(self, limits: CapLimits, *, by_order: bool) -> Fraction:
        """The rho left for one more release, which counts by the order or does not; it may be negative."""
        counted, most = self.rho, limits.rho
        if limits.order is not None and (by_order or self.by_order):
            counted, most = counted + self.by_order / limits.order, most * (1 - SLACK)
        return most - counted


@dataclass(frozen=True, slots=True)
class Cap:
    """What all releases together may cost: (epsilon, delta), or `rho` and a `delta` for learnt categories.

    >>> from factored_mwem import Cap
    >>> Cap.of(3.0, 0.0)
    Cap(epsilon=Fraction(3, 1), delta=Fraction(0, 1), rho=None)
    """

    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None = None

    @classmethod
    def of(cls, epsilon: float | None, delta: float, rho: float | None = None) -> Cap:
        """The cap from floats, like the numbers of a release. Raises InputError unless there is either an
        epsilon or a rho, positive and finite, and a delta of 0, or from 1e-200 to below 1.
        """
        for value in (epsilon, delta, rho):
            if value is not None and not math.isfinite(value):
                raise InputError(f"{value:g}: a cap must be a finite number")
        exact = [None if value is None else Fraction(value) for value in (epsilon, rho)]
        return cls(exact[0], Fraction(delta), exact[1])

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InputError("a cap is either --epsilon (with --delta) or --rho")
        if not 0 < self.amount <= 10**9 or (self.rho is None and self.amount < LEAST_EPSILON):
            unit = "epsilon" if self.rho is None else "rho"
            raise InputError(f"{unit}={float(self.amount):g}: a cap must be a positive number")
        if not (self.delta == 0 or LEAST_DELTA <= self.delta < 1):
            raise InputError(
                f"delta={float(self.delta):g}: must be 0, or from 1e-200 to below 1; 1e-9 is a common choice"
            )

    @property
    def amount(self) -> Fraction:
        """The cap as a number, in epsilon or in rho."""
        return self.epsilon or self.rho or Fraction(0)

    def limits(self, before: Sequence[Cost], first: Cost) -> CapLimits | None:
        """The limits that a release sets after those `before` it, all of the first phase; None if it stays
        in that. `first` is public before it is drawn, so any rule would be sound.
        """
        if self.epsilon is None:
            return CapLimits(0, Fraction(0), self.amount, self.delta, Fraction(0), None)
        spent = CapUse.of(before, None)
        epsilon, delta = self.epsilon - spent.epsilon, self.delta - spent.delta
        if epsilon < LEAST_EPSILON or delta < LEAST_DELTA or first.delta > delta:
            return None
        if first.pure and first.amount <= epsilon:
            cheaper = _cheaper_in_rho(float(first.amount), float(epsilon), float_down(delta))
            if not cheaper or first.delta > delta * LEARNT_SHARE:
                return None
        # A tenth of delta is for learnt categories if the first leaves that, else what it takes itself.
        for kept in (max(delta * LEARNT_SHARE, first.delta), first.delta, Fraction(0)):
            if kept < delta:
                rho = largest_rho(epsilon, delta - kept)
                if first.pure or first.rho <= rho:
                    break
        order = best_order(rho, float_down(epsilon), delta - kept, SLACK / 2)
        return CapLimits(len(before), spent.epsilon, rho, kept, delta - kept, order)

    def admits(self, costs: Sequence[Cost], limits: CapLimits | None) -> bool:
        """Whether releases of these costs, in this order, stay within the cap."""
        return self.holds(CapUse.of(costs, limits), limits)

    def holds(self, total: CapUse, limits: CapLimits | None) -> bool:
        """Whether releases that cost this much together stay within the cap."""
        summed = self.epsilon is not None and total.pure and total.epsilon <= self.epsilon
        if limits is None or total.releases <= limits.after:
            return total.releases == 0 or (summed and total.delta <= self.delta)
        return total.delta <= limits.delta and (summed or total.left(limits, by_order=False) >= 0)

    def keeps(self, limits: CapLimits, first_phase: CapUse) -> bool:
        """Whether the limits are within the cap, after a first phase; by another's rounding, too."""
        if self.epsilon is None:
            return limits == CapLimits(0, Fraction(0), self.amount, self.delta, Fraction(0), None)
        near, epsilon = 1 + Fraction(1, 10**9), self.epsilon - limits.epsilon
        if first_phase.epsilon > limits.epsilon or limits.rest <= 0 or epsilon <= 0:
            return False
        if first_phase.delta + limits.delta + limits.rest > self.delta:
            return False
        if epsilon_of(limits.rho, limits.rest) > epsilon * near:
            return False
        if limits.order is None:
            return True
        most = rho_at_order(limits.order, float(epsilon), limits.rest)
        return limits.rho * (1 - SLACK) <= most * near

    def spent(self, costs: Sequence[Cost], limits: CapLimits | None) -> float:
        """The sum of the costs, rounded up: epsilon at the cap's delta, or rho for a cap in rho.

        The least of three valid bounds: the plain sum, the sum with a conversion, and the cap itself while it
        is kept.
        """
        total = CapUse.of(costs, limits)
        if self.epsilon is None:
            return float_up(total.rho)
        bounds = [float_up(self.epsilon)] if self.holds(total, limits) else [math.inf]
        if total.pure:
            bounds.append(float_up(total.epsilon))
        if limits is not None:
            summed = float_up(limits.epsilon + total.by_order)
            bounds.append(math.nextafter(summed + epsilon_of(total.rho, limits.rest), math.inf))
        return min(bounds)

    def left(self, costs: Sequence[Cost], limits: CapLimits | None, *, pure: bool) -> float:
        """The largest epsilon of one more release, pure or at the cap's delta, with a declared domain.

        To four digits, rounded down. Where the cap is in rho, the rho that is left for one that is not pure.
        """
        if self.epsilon is None and limits is None:
            limits = self.limits((), Cost(Composition.ZCDP, Fraction(0)))
        total = CapUse.of(costs, limits)
        summed = self.epsilon - total.epsilon if self.epsilon is not None and total.pure else Fraction(0)
        if limits is None:
            return self._left_of_sums(total, summed, pure=pure)
        rho = max(total.left(limits, by_order=False), Fraction(0))
        if not pure:
            return self._rounded(float_down(rho) if self.epsilon is None else self._converted(rho))
        more = [float_down(summed), math.sqrt(2 * float(rho)) * (1 - 1e-9)]
        if limits.order is not None:
            more.append(float_down(total.left(limits, by_order=True) * limits.order))
        return self._rounded(max(more))

    def _left_of_sums(self, total: CapUse, summed: Fraction, *, pure: bool) -> float:
        """What is left in the first phase, where the next release may begin the second."""
        delta, more = self.delta - total.delta, 0.0
        begins = delta >= LEAST_DELTA and summed >= LEAST_EPSILON
        # A pure release of more epsilon than is left counts as that epsilon, and the rest about as delta.
        if begins and (delta * 10**5 > summed if pure else total.delta > 0):
            rho = largest_rho(summed, delta)
            more = math.sqrt(2 * float(rho)) * (1 - 1e-9) if pure else self._converted(rho)
        return self._rounded(max(more, float_down(summed) if pure or (begins and not total.delta) else 0.0))

    def _converted(self, rho: Fraction) -> float:
        """The epsilon of a release at the cap's delta, from its rho, rounded down."""
        return epsilon_of(rho, self.delta) * (1 - 1e-9) if self.delta and rho else 0.0

    def _rounded(self, value: float) -> float:
        """A budget left, to four digits, rounded down; a remainder due to rounding counts as 0."""
        return 0.0 if value <= self.amount * Fraction(1, 10**6) else floor_digits(value)


def _cheaper_in_rho(cost: float, epsilon: float, delta: float) -> bool:
    """Whether a pure release leaves more rho to those that follow it if it is counted in rho: by the closed
    form for (epsilon, delta) (Bun, Steinke 2016, proposition 1.3).
    """
    logs = -math.log(delta)

    def rho(left: float) -> float:
        return (left / (math.sqrt(left + logs) + math.sqrt(logs))) ** 2

    return rho(epsilon) - cost**2 / 2 > rho(max(epsilon - cost, 0.0))


def floor_digits(value: float) -> float:
    """Four digits, rounded down."""
    return float(Context(prec=4, rounding=ROUND_DOWN).create_decimal(value))
