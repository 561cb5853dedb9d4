"""The loop, once for all mechanisms: select what the model answers worst, measure it, update the model
(HLM12 Fig. 1); and the schedule, which says how many rounds there are and what each may spend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.privacy.answers import PrivateAnswers
from factored_mwem.privacy.counts import PrivateCounts
from factored_mwem.privacy.session import Eligible, Measurement, Session


@dataclass(frozen=True, slots=True)
class Round:
    """What one round may spend."""

    select: Fraction
    measure: Fraction


@dataclass(slots=True)
class Schedule:
    """Hands out rounds while the budget lasts; `note` tells it what a measurement showed, if adaptive.

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
        """`signal`: L1 gap of a measurement and the model before it; `noise`: what noise alone makes."""
        if self.adaptive and signal <= noise * self.quiet:
            # Never below the first price: what rounding left over after the last round is no budget for
            # another.
            self._price = min(self._price * 2, max(self.left, self._least))


@dataclass(frozen=True, slots=True)
class Progress:
    """A round: what it measured, how large the model is now, and the share of the budget that is spent.

    >>> import pyarrow as pa
    >>> from factored_mwem import release
    >>> rounds = []
    >>> bits = pa.table({name: [0, 1, 1] for name in "abc"})
    >>> _ = release(bits, 2, domain=dict.fromkeys("abc", 2), rounds=2, report=rounds.append)
    >>> all(0 < each.spent <= 1 for each in rounds)
    True
    """

    round: int
    rounds: int
    attributes: tuple[str, ...]
    components: int
    largest: int
    cliques: int
    cells: int
    spent: float

    @classmethod
    def of(
        cls, schedule: Schedule, attributes: Sequence[str], components: int, tables: Sequence[int]
    ) -> Progress:
        """`tables`: the cells of each of the model's tables."""
        sizes = (components, max(tables), len(tables), sum(tables))
        return cls(schedule.done, schedule.rounds, tuple(attributes), *sizes, schedule.spent)


Report = Callable[[Progress], None]


class Learner(Protocol):
    """A model that learns from measurements; all that it knows is public."""

    @property
    def private(self) -> PrivateCounts | PrivateAnswers:
        """The sealed numbers that its candidates are about."""

    def eligible(self, step: Round) -> Eligible:
        """The candidates of a round; none ends the loop."""

    def answers(self, eligible: Eligible) -> Any:
        """The model's answers, as `private` compares them with the truth."""

    def target(self, chosen: int) -> Any:
        """What to measure of a candidate: a view, or the number of a question."""

    def add(self, chosen: int, measured: Measurement) -> tuple[float, float] | None:
        """Learn from it. Returns the L1 gap it showed, and the gap that noise alone is expected to make
        (records); None if the price of rounds is not to follow it.
        """

    def progress(self, schedule: Schedule) -> Progress:
        """The round that is over, for a report."""


def rounds(session: Session, learner: Learner, schedule: Schedule, report: Report) -> int:
    """Run the rounds that the schedule hands out while anything is eligible; returns how many there were."""
    completed = 0
    for step in schedule if schedule.rounds else ():
        eligible = learner.eligible(step)
        if not len(eligible):
            break
        chosen = session.select(learner.private, learner.answers(eligible), eligible, cost=step.select)
        measured = session.measure(learner.private, learner.target(chosen), cost=step.measure)
        shown = learner.add(chosen, measured)
        if shown is not None:
            schedule.note(*shown)
        completed += 1
        report(learner.progress(schedule))
    return completed
