"""Mechanism: answers to queries one by one. A hypothesis answers if a private test accepts it; otherwise the
query is measured, and the measurement improves the hypothesis.

The online mechanism of Gupta, Roth, Ullman 2011 (algorithm 1) but tests (sparse vector) and measurements have
noise of their own, where the paper has one noise for both; each is charged when it is made. Repeated queries
are answered from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, TypeVar

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import BudgetExceeded
from factored_mwem.pipeline.spending import Spent
from factored_mwem.privacy.session import Measurement, Session, SparseVector
from factored_mwem.sessions.online.constructions import Construction
from factored_mwem.sessions.online.prices import Prices

PRIOR = 0.5
"""How many yes and how many no are assumed before any answer (Jeffreys prior)."""
WEIGHT = 2.0
"""The number of similar queries that the experience with all queries counts for."""
FORGET = 0.97
"""The factor by which the weight of a query falls with each later similar one, because models get better."""
Source = Literal["model", "measured", "cached", "public"]
Q = TypeVar("Q")


@dataclass(frozen=True, slots=True, eq=False)
class OnlineQuery:
    """A query for the mechanism. `key`: equal for equal queries; `kind`: equal for queries that the rule
    treats alike; `believed: float64[group]`, the hypothesis' answers in records; `measures`: what
    `Session.measure` reads of `sealed`; `tests`: what `Session.exceeds` compares with `answer`; `learn`:
    updates the hypothesis by a measurement, and returns the answers of the groups and whether the update was
    possible.
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
class OnlineAnswer:
    """An answer: `values: float64[group]` in records, all within `bound` of the truth with the requested
    probability; its source; and whether it updated the hypothesis.
    """

    values: np.ndarray
    bound: float
    source: Source
    updated: bool = False


@dataclass(slots=True)
class _Seen:
    yes: float = 0.0
    no: float = 0.0

    def add(self, off: bool) -> None:
        self.yes, self.no = self.yes * FORGET + off, self.no * FORGET + (not off)


@dataclass(slots=True)
class Rule:
    """Decides whether a query is tested, or measured at once. It uses earlier noisy answers and test results
    only, which were paid for; so the rule costs nothing, and it makes no answer less accurate.

    A test ends when it says yes: then a new test and the measurement must be paid for. So a test is worth its
    risk while the probability of a yes is below m / (t + m), with m the cost of measuring and t the cost of
    beginning a test. That probability is estimated from similar queries: how often was the model off by more
    than the threshold? Measured answers show that, too, so an unknown model is measured first, and tested
    once it was right often enough.
    """

    _alike: dict[Hashable, _Seen] = field(default_factory=dict)
    _all: _Seen = field(default_factory=_Seen)

    def see(self, kind: Hashable, *, off: bool) -> None:
        """Record whether the model was `off` by more than the threshold, as far as noise can tell."""
        self._alike.setdefault(kind, _Seen()).add(off)
        self._all.add(off)

    def risk(self, kind: Hashable) -> float:
        """The probability that a test says yes."""
        seen = self._alike.get(kind, _Seen())
        whole = (self._all.yes + PRIOR) / (self._all.yes + self._all.no + 2 * PRIOR)
        return (seen.yes + WEIGHT * whole) / (seen.yes + seen.no + WEIGHT)

    def worth_a_test(self, kind: Hashable, measuring: float, testing: float) -> bool:
        """Whether testing is expected to cost less than measuring at once."""
        return self.risk(kind) * (testing + measuring) < measuring


@dataclass(slots=True, eq=False)
class Online:
    """The mechanism over any hypothesis: `session` pays, `prices` say how accurate answers are."""

    session: Session
    prices: Prices
    rule: Rule = field(default_factory=Rule)
    known: dict[Hashable, OnlineAnswer] = field(default_factory=dict)
    """Answers that are given again from memory."""
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("model", "measured", "cached", "public"), 0)
    )
    tests: int = 0
    """Begun so far."""
    _test: SparseVector | None = None

    def answer(self, query: OnlineQuery) -> OnlineAnswer:
        """The answer to one query. Raises BudgetExceeded, before anything is drawn, if the budget left is not
        enough; queries that were answered before are still answered then.
        """
        answer = self.known.get(query.key)
        if answer is not None:
            answer = replace(answer, source="cached", updated=False)
        else:
            answer = self._fresh(query)
            self.known[query.key] = answer
        self.counts[answer.source] += 1
        return answer

    def _fresh(self, query: OnlineQuery) -> OnlineAnswer:
        if self._worth_a_test(query) and self._passes(query):
            return OnlineAnswer(query.believed, self.prices.alpha, "model")
        cost = self._measuring(query)
        self._check_left(cost)
        measured = self.session.measure(query.sealed, query.measures, cost=cost)
        values, updated = query.learn(measured)
        off = float(np.abs(values - query.believed).max()) >= self.prices.level
        self.rule.see(query.kind, off=off)
        return OnlineAnswer(values, self.prices.alpha, "measured", updated)

    def _worth_a_test(self, query: OnlineQuery) -> bool:
        """Whether to test, by public facts alone: prices, the budget left, and earlier answers."""
        measuring, testing, left = self._measuring(query), self._testing(query), self.session.left
        if self._test is not None and left < measuring:
            return True  # no other answer is possible, and this one costs nothing
        if self._test is None and left < testing:
            return False
        return self.rule.worth_a_test(query.kind, float(measuring), float(testing))

    def _passes(self, query: OnlineQuery) -> bool:
        """Whether a test finds the hypothesis near enough; begins one where none is open."""
        beyond = None
        while beyond is None:
            if self._test is None:
                cost = self._testing(query)
                self._check_left(cost)
                self._test = self.session.begin(self._moves(query), cost=cost)
                self.tests += 1
            beyond = self.session.exceeds(
                self._test, query.sealed, query.tests, answer=query.answer, threshold=self.prices.level
            )
            if beyond is not False:
                self._test = None
        if not beyond:
            self.rule.see(query.kind, off=False)
        return not beyond

    def _moves(self, query: OnlineQuery) -> int:
        return int(query.sealed.sensitivity(query.tests, self.session.unit, Composition.PURE))

    def _testing(self, query: OnlineQuery) -> Fraction:
        return self.prices.testing(self._moves(query))

    def _measuring(self, query: OnlineQuery) -> Fraction:
        session = self.session
        moves = query.sealed.sensitivity(query.measures, session.unit, session.composition)
        return self.prices.measuring(int(moves), len(query.believed))

    def _check_left(self, cost: Fraction) -> None:
        if self.session.left < cost:
            words = self.session.accountant.budget.in_words
            raise BudgetExceeded(
                f"what is left, {words(self.session.left)}, is not enough for another answer, which costs "
                f"{words(cost)}; ask for a larger --alpha or begin a session with more --epsilon",
                asked=cost,
                left=self.session.left,
            )


class Standing:
    """The state of an open session: accuracy, counts of answers, budget. Public, and free."""

    __slots__ = ()
    _online: Online
    _spent: Spent

    @property
    def alpha(self) -> float:
        """How far an answer may be off: in records, of a graph in edges."""
        return self._online.prices.alpha

    @property
    def counts(self) -> dict[str, int]:
        """Answers so far, by source."""
        return dict(self._online.counts)

    @property
    def spent(self) -> float:
        """The epsilon spent so far, at the session's delta."""
        return self._spent.epsilon

    @property
    def left(self) -> float:
        """What is left of the promised epsilon."""
        return self._spent.left


def of_construction(
    construction: Construction[Q],
    query: Q,
    sealed: Any,
    what: Any,
    *,
    kind: Hashable = None,
    level: float = 0.0,
) -> OnlineQuery:
    """A query with one true number, `what` of `sealed`, for any construction. The construction learns only
    whether the measured value lies above or below its answer, and only if the two differ by `level` records
    or more. (A value measured without a test may be nearer than the theorems allow for an update, and a step
    could then lead away from it.)
    """
    answer = construction.answer(query)

    def learn(measured: Measurement) -> tuple[np.ndarray, bool]:
        values = measured.noisy.astype(np.float64)
        off = bool(abs(float(values[0]) - answer) >= level)
        if off:
            construction.update(query, float(values[0]))
        return values, off

    return OnlineQuery(what, kind, np.array([answer]), sealed, what, what, learn, answer)
