"""Schedule: rounds while the budget lasts, and what each may spend."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from factored_mwem.accounting.accountant import Accountant


@dataclass(frozen=True, slots=True)
class Round:
    """What one round may spend."""

    select: Fraction
    measure: Fraction


@dataclass(slots=True)
class Schedule:
    """Hands out rounds while the budget lasts. `note` tells it what a measurement showed; fixed schedules
    ignore that.

    Adaptive (HLM12 section 2.3.3): start with cheap questions; when a measurement shows no more than `quiet`
    times its noise, double the price of a question. Every round is checked against what is left, so the sum
    never exceeds the budget whatever the data answer.
    """

    accountant: Accountant
    rounds: int
    select_share: Fraction
    adaptive: bool = False
    quiet: float = math.sqrt(2)
    reserve: Fraction = Fraction(0)
    done: int = 0
    _price: Fraction = field(default=Fraction(0))
    _least: Fraction = field(default=Fraction(0))

    def __post_init__(self) -> None:
        self._price = self._least = self.left / max(self.rounds, 1)

    @property
    def left(self) -> Fraction:
        """What rounds may still spend; the `reserve` is for what comes after them."""
        return max(self.accountant.left - self.reserve, Fraction(0))

    def __iter__(self) -> Iterator[Round]:
        while self.done < self.rounds if not self.adaptive else self.left >= self._price > 0:
            if self.adaptive:
                # What would be left over after this round could not pay for another: spend it now.
                price = self.left if self.left < 2 * self._price else self._price
            else:
                price = self.left / (self.rounds - self.done)
            self.done += 1
            yield Round(select=price * self.select_share, measure=price * (1 - self.select_share))

    @property
    def price(self) -> Fraction:
        """What the next round may spend, as things are."""
        return self._price

    @property
    def spent(self) -> float:
        """The share of the whole budget that is spent."""
        return float(self.accountant.spent / self.accountant.budget.amount)

    def note(self, signal: float, noise: float) -> None:
        """`signal`: L1 gap between a measurement and the model before it; `noise`: the gap that noise alone
        is expected to make.
        """
        if self.adaptive and signal <= noise * self.quiet:
            # Never below the first price: what rounding left over after the last round is no budget for
            # another.
            self._price = min(self._price * 2, max(self.left, self._least))
