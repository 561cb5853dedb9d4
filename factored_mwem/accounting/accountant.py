"""Accountant: what may be spent and what was spent, exactly.

An entry is charged before its noise is drawn, and is never refunded.

Costs are rationals on a grid of 2^-80, rounded up from what the mechanism's scale and sensitivity imply, so
that anyone can recompute every cost and their sum from the entries alone. Record-wise a release touches
everybody in every entry, so costs add.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from factored_mwem.accounting.admissible import Shape, loss_of
from factored_mwem.accounting.conversion import Composition, epsilon_of, float_up, rho_of
from factored_mwem.errors import BudgetExceeded, InputError

GRID = 2**80
MIN_COST = Fraction(1, 2**60)
"""Smallest cost: with less the noise would be useless."""


TESTED = Fraction(5, 4)
"""Noise on a tested score, in scales of its threshold's: about 2^(1/3) (Lyu, Su, Li 2017, 4.2), exact."""
TEST = 1 + 2 / TESTED
"""Epsilon of a sparse vector test, in s / b."""


class Mechanism(StrEnum):
    """The ways in which noise is added; of scale b, for a sensitivity s, it costs factor s^of_sensitivity /
    b^of_scale: rho, or epsilon for Laplace, permute-and-flip and sparse vectors. See `price`.
    """

    GAUSSIAN = "discrete gaussian", Fraction(1, 2), 1, 2
    LAPLACE = "discrete laplace", Fraction(1), 1, 1
    EXPONENTIAL = "exponential mechanism (gumbel)", Fraction(1, 2), 2, 2
    PERMUTE_AND_FLIP = "permute-and-flip", Fraction(2), 1, 1
    THRESHOLD = "gaussian threshold", Fraction(1, 2), 1, 2
    LAPLACE_IN_RHO = "discrete laplace, in rho", Fraction(1, 2), 1, 2
    SPARSE_VECTOR = "sparse vector", TEST, 1, 1
    SPARSE_VECTOR_IN_RHO = "sparse vector, in rho", TEST**2 / 2, 2, 2
    SMOOTH_CAUCHY = "discrete cauchy, smooth sensitivity"
    SMOOTH_LAPLACE = "discrete laplace, smooth sensitivity"

    factor: Fraction
    """0 for noise of smooth sensitivity, which admissible.py prices."""
    of_sensitivity: int
    of_scale: int

    def __new__(
        cls, words: str, factor: Fraction = Fraction(0), of_sensitivity: int = 1, of_scale: int = 1
    ) -> Mechanism:
        member = str.__new__(cls, words)
        member._value_ = words
        member.factor, member.of_sensitivity, member.of_scale = factor, of_sensitivity, of_scale
        return member


SMOOTH = {Shape.CAUCHY: Mechanism.SMOOTH_CAUCHY, Shape.LAPLACE: Mechanism.SMOOTH_LAPLACE}
NO_PROMISE = 1e300
"""The price of constants that keep no promise at all."""
BETA_GRID = 2**60
"""For noise of smooth sensitivity, the field `sensitivity` of a charge holds beta, in units of 1 over this;
the sensitivity itself is private.
"""


def additive(composition: Composition) -> Mechanism:
    return Mechanism.GAUSSIAN if composition is Composition.ZCDP else Mechanism.LAPLACE


def selecting(composition: Composition) -> Mechanism:
    return Mechanism.EXPONENTIAL if composition is Composition.ZCDP else Mechanism.PERMUTE_AND_FLIP


def testing(composition: Composition) -> Mechanism:
    return Mechanism.SPARSE_VECTOR_IN_RHO if composition is Composition.ZCDP else Mechanism.SPARSE_VECTOR


def price(mechanism: Mechanism, *, scale: float, sensitivity: int, delta: Fraction = Fraction(0)) -> Fraction:
    """Cost of noise of `scale`, rounded up: rho, or epsilon for Laplace and permute-and-flip.

    `sensitivity` is the squared L2 norm for all kinds in rho that add noise, the L1 norm for Laplace, the
    largest change of a score for selection and tests. Gaussian: s^2 / (2 sigma^2) (Canonne, Kamath, Steinke
    2020). Laplace: s / b; in rho, a coordinate that moves by d is d / b of epsilon, so d^2 / (2 b^2) of rho
    (Bun, Steinke 2016, prop. 1.4), and these add up to what a Gaussian of that scale costs. Selection with
    noise of scale b is an exponential mechanism of epsilon = 2 s / b, which costs epsilon^2 / 8 of rho
    (Cesar, Rogers 2021). A sparse vector test with noise of scale b on its threshold and 5 b / 4 on each
    score: s / b + 2 s / (5 b / 4) of epsilon, whatever the number of scores below (Dwork, Roth 2014, theorem
    3.23; Lyu, Su, Li 2017, theorem 2), and epsilon^2 / 2 of rho (Bun, Steinke 2016, prop. 1.4). Noise of
    smooth sensitivity: `scale` is its public multiplier, `sensitivity` beta in parts of BETA_GRID; epsilon at
    `delta`, see admissible.py.
    """
    if mechanism in SMOOTH.values():
        shape = next(shape for shape, smooth in SMOOTH.items() if smooth is mechanism)
        cost = Fraction(min(loss_of(shape, scale, sensitivity / BETA_GRID, float(delta)), NO_PROMISE))
    else:
        cost = (
            mechanism.factor * sensitivity**mechanism.of_sensitivity / Fraction(scale) ** mechanism.of_scale
        )
    return Fraction(math.ceil(cost * GRID), GRID)


def scale_for(mechanism: Mechanism, cost: Fraction, *, sensitivity: int) -> float:
    """The least noise (up to one part in 10^12) that `cost` pays for."""
    if cost < MIN_COST:
        raise BudgetExceeded(
            f"noise ({mechanism}) would be of no use, so little of the budget is left; ask for less or raise "
            "--epsilon",
            asked=MIN_COST,
            left=max(cost, Fraction(0)),
        )
    ratio = mechanism.factor * sensitivity**mechanism.of_sensitivity / cost
    scale = math.sqrt(ratio) if mechanism.of_scale == 2 else float(ratio)
    while price(mechanism, scale=scale, sensitivity=sensitivity) > cost:
        scale *= 1 + 2**-40
    return scale


RARER, SINGLE = "rarer values", "single values"
"""The last entries in `target` of the charges for looking at all columns together (`privacy/popular.py`,
`privacy/single_values.py`), whose noise is in parts of a row.
"""


@dataclass(frozen=True, slots=True)
class Charge:
    """One event, complete enough for a third party to price it."""

    stage: str
    mechanism: Mechanism
    target: tuple[str, ...]
    scale: float
    sensitivity: int
    delta: Fraction = Fraction(0)

    @property
    def cost(self) -> Fraction:
        return price(self.mechanism, scale=self.scale, sensitivity=self.sensitivity, delta=self.delta)


def can_be_kept(epsilon: float, delta: float) -> None:
    """Raises InputError unless some budget amounts to (epsilon, delta)."""
    if not 1e-12 <= epsilon <= 1e100:
        raise InputError(
            f"epsilon={epsilon}: must be a positive number, at least 1e-12; 1 is a common choice"
        )
    if not 0 <= delta < 1 or 0 < delta < 1e-200:
        raise InputError(
            f"delta={delta}: must be 0, which is pure differential privacy, or from 1e-200 to below 1; "
            "1e-9 is a common choice"
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """The promise, (epsilon, delta), and what it amounts to inside: `amount` of rho or of epsilon.

    Under pure composition with a delta, epsilons add and deltas add (Dwork, Roth 2014, theorem 3.16).
    """

    epsilon: float
    delta: float
    composition: Composition
    amount: Fraction
    discovery_delta: Fraction
    """The part of delta that is kept for charges with a delta: thresholded categories, or (epsilon, delta)
    events.
    """

    @classmethod
    def of(cls, epsilon: float, delta: float, *, discovery_share: Fraction = Fraction(0)) -> Budget:
        """The budget for a promise; `discovery_share` of delta is kept. Raises as `can_be_kept`."""
        can_be_kept(epsilon, delta)
        if delta == 0:
            return cls(epsilon, delta, Composition.PURE, grid_down(Fraction(epsilon)), Fraction(0))
        kept = Fraction(delta) * discovery_share
        return cls(epsilon, delta, Composition.ZCDP, largest_rho(epsilon, Fraction(delta) - kept), kept)

    @classmethod
    def basic(cls, epsilon: float, delta: float) -> Budget:
        """For (epsilon, delta) events: epsilons add, and so do deltas. Raises InputError as `of`."""
        checked = cls.of(epsilon, delta)
        amount = grid_down(Fraction(epsilon))
        return cls(checked.epsilon, checked.delta, Composition.PURE, amount, Fraction(delta))

    def part(self, amount: Fraction, delta: Fraction | None = None) -> Budget:
        """The same promise, but only `amount` may be spent, rounded down to the grid of costs, and of the
        delta that is kept only `delta`.
        """
        kept = self.discovery_delta if delta is None else min(delta, self.discovery_delta)
        return replace(self, amount=min(grid_down(amount), self.amount), discovery_delta=kept)

    @property
    def unit(self) -> str:
        return "rho" if self.composition is Composition.ZCDP else "epsilon"

    def in_words(self, amount: Fraction) -> str:
        """An amount of rho or of epsilon as an epsilon at the promise's delta."""
        if self.composition is Composition.PURE:
            return f"epsilon {float(amount):.6g}"
        epsilon = epsilon_of(amount, Fraction(self.delta) - self.discovery_delta)
        return f"epsilon {epsilon:.6g} at delta {self.delta:g}"


def grid_down(value: Fraction) -> Fraction:
    """The value on the grid of costs, rounded down."""
    return Fraction(math.floor(value * GRID), GRID)


@lru_cache(maxsize=64)
def largest_rho(epsilon: float | Fraction, delta: Fraction) -> Fraction:
    """The largest rho, on the grid of costs, that stays within (epsilon, delta). Releases and caps both use
    it, so that one fits into the other. Cached, because a release needs it several times, it may take
    seconds, and a ledger is locked meanwhile.
    """
    return grid_down(rho_of(float(epsilon), delta))


@dataclass(slots=True)
class Accountant:
    """The entries so far and their exact sum.

    `opening` runs before the first entry: a ledger file then reserves the whole budget. What a part of it may
    spend is decided when the part is made (`part`); its entries are entries of the `whole`, too.
    """

    budget: Budget
    opening: Callable[[], None] = lambda: None
    whole: Accountant | None = None
    entries: list[Charge] = field(default_factory=list)
    spent: Fraction = Fraction(0)
    spent_delta: Fraction = Fraction(0)

    def charge(self, entry: Charge) -> None:
        """Record a charge before its noise is drawn. Raises BudgetExceeded, and records nothing, if the
        budget does not cover it.
        """
        cost, what = entry.cost, f"{entry.stage} ({entry.mechanism})"
        if self.spent + cost > self.budget.amount:
            price, left = self.budget.in_words(cost), self.budget.in_words(self.left)
            why = f"{what} costs {price}, but {left} of the budget is left; ask for less or raise --epsilon"
            raise BudgetExceeded(why, asked=cost, left=self.left)
        left_delta = self.budget.discovery_delta - self.spent_delta
        if entry.delta > left_delta:
            why = f"{what} costs delta {float(entry.delta):.6g}, but {float(left_delta):.6g} of it is left"
            raise BudgetExceeded(f"{why}; raise --delta", asked=entry.delta, left=left_delta)
        if self.whole is not None:
            self.whole.charge(entry)  # first: what is refused there was not spent here
        elif not self.entries:
            self.opening()
        self.spent += cost
        self.spent_delta += entry.delta
        self.entries.append(entry)

    def part(self, amount: Fraction, delta: Fraction | None = None) -> Accountant:
        """An accountant that may spend `amount` of this one, and of its delta `delta`, and nothing beyond."""
        return Accountant(self.budget.part(amount, delta), whole=self)

    @property
    def root(self) -> Accountant:
        """The outermost accountant that this one is a part of."""
        return self if self.whole is None else self.whole.root

    @property
    def left(self) -> Fraction:
        return self.budget.amount - self.spent

    def stage_cost(self, stage: str) -> Fraction:
        return sum((e.cost for e in self.entries if e.stage == stage), Fraction(0))

    def guarantee(self) -> tuple[float, float]:
        """(epsilon, delta) that the entries amount to, rounded up: never more than the promise."""
        return guarantee(self.entries, self.budget)


def guarantee(entries: Iterable[Charge], budget: Budget) -> tuple[float, float]:
    """(epsilon, delta) of a list of entries alone, as an auditor computes it.

    The deltas of delta-approximate zCDP add to the conversion's own, so rho converts at what is left of it.
    """
    entries = list(entries)
    cost = sum((e.cost for e in entries), Fraction(0))
    delta = sum((e.delta for e in entries), Fraction(0))
    if budget.composition is Composition.PURE:
        return float_up(cost), float_up(delta)
    return epsilon_of(cost, Fraction(budget.delta) - delta), budget.delta
