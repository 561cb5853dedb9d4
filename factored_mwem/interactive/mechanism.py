"""Mechanism: answers to queries one by one, by a hypothesis where a private test lets it pass, else measured;
whatever is measured makes the hypothesis better.

The online mechanism of Gupta, Roth, Ullman 2011 (algorithm 1) with a sparse vector test and measurements of
their own noise in the place of one noise for both, charged as they come. What is answered twice is answered
from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, TypeVar

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import BudgetExceeded
from factored_mwem.interactive.construction import Construction
from factored_mwem.interactive.prices import Prices
from factored_mwem.interactive.rule import Rule
from factored_mwem.privacy.session import Measurement, Session, SparseVector

Source = Literal["model", "measured", "cached", "public"]
Q = TypeVar("Q")


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A query as the mechanism takes it. `key`: the same for the same query; `kind`: of queries alike, for
    the rule; `believed: float64[group]`, the hypothesis' answers in records; `measures`: what
    `Session.measure` reads of `sealed`; `tests`: what `Session.exceeds` compares with `answer`; `learn`:
    tells the hypothesis, and gives the answers of the groups, and whether it could be told.
    """

    key: Hashable
    kind: Hashable
    believed: np.ndarray
    sealed: Any
    measures: Any
    tests: Any
    learn: Callable[[Measurement], tuple[np.ndarray, bool]]
    answer: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """An answer: `values: float64[group]` in records, all within `bound` of the truth with the probability
    that was asked for; where it is from; and whether it made the hypothesis better.
    """

    values: np.ndarray
    bound: float
    source: Source
    updated: bool = False


@dataclass(slots=True, eq=False)
class Online:
    """The mechanism over any hypothesis: `session` pays, `prices` say how accurate answers are."""

    session: Session
    prices: Prices
    rule: Rule = field(default_factory=Rule)
    known: dict[Hashable, Told] = field(default_factory=dict)
    """What is answered from memory."""
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("model", "measured", "cached", "public"), 0)
    )
    tests: int = 0
    """Begun so far."""
    _test: SparseVector | None = None

    def answer(self, subject: Subject) -> Told:
        """The answer to one query. BudgetExceeded, before anything is drawn, where what is left is not
        enough; what was answered before is still answered then.
        """
        told = self.known.get(subject.key)
        if told is not None:
            told = replace(told, source="cached", updated=False)
        else:
            told = self._asked(subject)
            self.known[subject.key] = told
        self.counts[told.source] += 1
        return told

    def _asked(self, subject: Subject) -> Told:
        if self._worth_a_test(subject) and self._passes(subject):
            return Told(subject.believed, self.prices.alpha, "model")
        cost = self._measuring(subject)
        self._check_left(cost)
        measured = self.session.measure(subject.sealed, subject.measures, cost=cost)
        values, updated = subject.learn(measured)
        off = float(np.abs(values - subject.believed).max()) >= self.prices.level
        self.rule.see(subject.kind, off=off)
        return Told(values, self.prices.alpha, "measured", updated)

    def _worth_a_test(self, subject: Subject) -> bool:
        """By public facts alone: prices, what is left, and what was told before."""
        measuring, testing, left = self._measuring(subject), self._testing(subject), self.session.left
        if self._test is not None and left < measuring:
            return True  # nothing else can be had, and it costs nothing
        if self._test is None and left < testing:
            return False
        return self.rule.worth_a_test(subject.kind, float(measuring), float(testing))

    def _passes(self, subject: Subject) -> bool:
        """Whether a test finds the hypothesis near enough; begins one where none is open."""
        said = None
        while said is None:
            if self._test is None:
                cost = self._testing(subject)
                self._check_left(cost)
                self._test = self.session.begin(self._moves(subject), cost=cost)
                self.tests += 1
            said = self.session.exceeds(
                self._test,
                subject.sealed,
                subject.tests,
                answer=subject.answer,
                threshold=self.prices.level,
            )
            if said is not False:
                self._test = None
        if not said:
            self.rule.see(subject.kind, off=False)
        return not said

    def _moves(self, subject: Subject) -> int:
        return int(subject.sealed.sensitivity(subject.tests, self.session.unit, Composition.PURE))

    def _testing(self, subject: Subject) -> Fraction:
        return self.prices.testing(self._moves(subject))

    def _measuring(self, subject: Subject) -> Fraction:
        session = self.session
        moves = subject.sealed.sensitivity(subject.measures, session.unit, session.composition)
        return self.prices.measuring(int(moves), len(subject.believed))

    def _check_left(self, cost: Fraction) -> None:
        if self.session.left < cost:
            words = self.session.accountant.budget.in_words
            raise BudgetExceeded(
                f"what is left, {words(self.session.left)}, is not enough for another answer, which costs "
                f"{words(cost)}; ask for a larger --alpha or begin a session with more --epsilon",
                asked=cost,
                left=self.session.left,
            )


def of_construction(
    construction: Construction[Q],
    query: Q,
    sealed: Any,
    what: Any,
    *,
    kind: Hashable = None,
    level: float = 0.0,
) -> Subject:
    """A query with one true number, `what` of `sealed`, as any construction takes it: of what is measured it
    is told the side alone on which it lies, and only where that is off by `level` (records): what is measured
    without a test may be nearer than any update of the theorems, and a step could lead it away.
    """
    answer = construction.answer(query)

    def learn(measured: Measurement) -> tuple[np.ndarray, bool]:
        values = measured.noisy.astype(np.float64)
        off = bool(abs(float(values[0]) - answer) >= level)
        if off:
            construction.update(query, float(values[0]))
        return values, off

    return Subject(what, kind, np.array([answer]), sealed, what, what, learn, answer)
