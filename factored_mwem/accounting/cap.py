"""Cap: how much all releases of one dataset may cost together, and the rule by which their costs add up.

Whoever asks for a release has seen the earlier ones, so the rule must hold for costs that are chosen as one
goes: it is a privacy filter, with limits fixed before anything was seen. Two filters stand side by side, and
a sequence of releases is admitted while either admits it:

- all releases so far count in epsilon, their epsilons sum to at most E and their deltas, if any, to at
  most D' (Rogers, Roth, Ullman, Vadhan 2016);
- the rhos sum to at most R and the deltas to at most D', with epsilon(R, D - D') <= E (Whitehouse, Ramdas,
  Rogers, Wu 2023); a release of epsilon counts as epsilon^2 / 2 of rho (Bun and Steinke 2016, Proposition
  1.4).

Deltas are those of learnt categories and of (epsilon, delta) events. With a probability of at most their sum,
D', something happens that the rest of the bound does not cover (Kairouz, Oh, Viswanath 2015, theorem 3.2: an
(epsilon, delta) event is an epsilon event, but for a part of probability delta); that is counted once,
whichever filter holds at the end. What ends under the first has no other delta, what ends under the second
has D - D' of its conversion: D together. R and D' follow from the cap and the *first* release, which nobody
chose after seeing anything; they stay as they are from then on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context
from fractions import Fraction

from factored_mwem.accounting.accountant import largest_rho
from factored_mwem.accounting.conversion import Composition, epsilon_of, float_down, float_up
from factored_mwem.errors import InputError

LEARNT_SHARE = Fraction(0.1)
"""Share of a cap's delta that is kept for learnt categories if the first release leaves as much.

It is a release's own default.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one release may spend, or has spent: `amount` of rho or, if it counts so, of epsilon."""

    composition: Composition
    amount: Fraction
    delta: Fraction = Fraction(0)
    """Of learnt categories, or of (epsilon, delta) events."""

    @property
    def pure(self) -> bool:
        """Whether it counts in epsilon."""
        return self.composition is Composition.PURE

    @property
    def rho(self) -> Fraction:
        """Bun and Steinke 2016, Proposition 1.4, where it is pure."""
        return self.amount**2 / 2 if self.pure else self.amount


@dataclass(frozen=True, slots=True)
class Spent:
    """The exact sums of some costs; `amount` means something only where all are `pure`."""

    pure: bool = True
    amount: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    def plus(self, cost: Cost) -> Spent:
        pure = self.pure and cost.pure
        return Spent(pure, self.amount + cost.amount, self.rho + cost.rho, self.delta + cost.delta)

    @classmethod
    def of(cls, costs: Iterable[Cost]) -> Spent:
        return functools.reduce(Spent.plus, costs, cls())


@dataclass(frozen=True, slots=True)
class Limits:
    """What the rhos of the second filter, and the deltas of both, may sum to."""

    rho: Fraction
    delta: Fraction


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
        """The cap in floats, as a release's numbers are: so a cap of one release's cost admits it.

        InputError for no number.
        """
        for value in (epsilon, delta, rho):
            if value is not None and not math.isfinite(value):
                raise InputError(f"{value:g} is no cap")
        exact = [None if value is None else Fraction(value) for value in (epsilon, rho)]
        return cls(exact[0], Fraction(delta), exact[1])

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InputError("a cap is either --epsilon (with --delta) or --rho")
        amount = self.epsilon if self.epsilon is not None else self.rho
        assert amount is not None
        if not 0 < amount <= 10**9 or (self.rho is None and amount < Fraction(1e-12)):
            unit = "epsilon" if self.rho is None else "rho"
            raise InputError(f"{unit}={float(amount):g}: a cap must be a positive number")
        if not (self.delta == 0 or 1e-200 <= self.delta < 1):
            raise InputError(
                f"delta={float(self.delta):g}: must be 0, or from 1e-200 to below 1; 1e-9 is a common choice"
            )

    def limits(self, first: Cost) -> Limits:
        """The limits that the first release sets.

        A tenth of delta is for learnt categories if it leaves that, else what it takes itself.
        """
        if self.rho is not None:
            return Limits(self.rho, self.delta)
        if self.delta == 0 or self.epsilon is None:
            return Limits(Fraction(0), Fraction(0))
        for delta in (max(self.delta * LEARNT_SHARE, first.delta), first.delta):
            if delta < self.delta:
                limits = Limits(largest_rho(self.epsilon, self.delta - delta), delta)
                if first.rho <= limits.rho or first.pure:
                    return limits
        return Limits(largest_rho(self.epsilon, self.delta), Fraction(0))

    def admits(self, costs: Sequence[Cost], limits: Limits) -> bool:
        """Whether releases of these costs, in this order, stay within the cap."""
        return self.holds(Spent.of(costs), limits)

    def holds(self, total: Spent, limits: Limits) -> bool:
        """Whether releases that cost this much together stay within the cap."""
        if total.delta > limits.delta:
            return False
        if self.epsilon is not None and total.pure and total.amount <= self.epsilon:
            return True
        return total.rho <= limits.rho

    def spent(self, costs: Sequence[Cost], limits: Limits | None) -> float:
        """What the costs amount to, rounded up: epsilon at the cap's delta, or rho where the cap is one."""
        if not costs or limits is None:
            return 0.0
        total = Spent.of(costs)
        if self.rho is not None:
            return float_up(total.rho)
        summed = float_up(total.amount) if total.pure else math.inf
        return min(summed, epsilon_of(total.rho, self.delta - limits.delta) if self.delta else math.inf)

    def left(self, costs: Sequence[Cost], limits: Limits | None, *, pure: bool) -> float:
        """The largest epsilon of one more release, pure or at the cap's delta, with a declared domain.

        To four digits, rounded down. Where the cap is in rho, the rho that is left for one that is not pure.
        """
        whole = float(self.epsilon if self.epsilon is not None else self.rho or 0)
        if self.epsilon is not None and (not costs or limits is None):
            return whole if pure or self.delta else 0.0
        total, kept = Spent.of(costs), limits.rho if limits is not None else self.rho or Fraction(0)
        rho = max(kept - total.rho, Fraction(0))
        if pure:
            summed = self.epsilon - total.amount if self.epsilon and total.pure else Fraction(0)
            return _rest(max(float_down(summed), math.sqrt(2 * float(rho)) * (1 - 1e-9)), whole)
        if self.rho is not None:
            return _rest(float_down(rho), whole)
        return _rest(epsilon_of(rho, self.delta) * (1 - 1e-9) if self.delta and rho else 0.0, whole)


def _rest(value: float, whole: float) -> float:
    """What is left, to four digits, rounded down; what rounding leaves of a `whole` is nothing."""
    return 0.0 if value <= whole * 1e-6 else floor_digits(value)


def floor_digits(value: float) -> float:
    """Four digits, rounded down."""
    return float(Context(prec=4, rounding=ROUND_DOWN).create_decimal(value))
