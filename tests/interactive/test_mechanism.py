"""The mechanism over any construction and any sealed answers: what graphs and sketches plug in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.fakes import FakeNoise

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.errors import BudgetExceeded
from factored_mwem.interactive.constructions import FriezeKannan, MultiplicativeWeights
from factored_mwem.interactive.mechanism import Online, of_construction
from factored_mwem.interactive.prices import Prices
from factored_mwem.interactive.rule import Rule
from factored_mwem.interactive.sequence import Update, check
from factored_mwem.privacy.counts import Sealed
from factored_mwem.privacy.distances import SCORE_GRID
from factored_mwem.privacy.metered import Metered
from factored_mwem.privacy.session import Measurement, NoiseScale, Session

TABLE = np.array([70.0, 2, 1, 40, 3, 2, 60, 22])
ALPHA = 24.0


class Contents:
    def exact(self, what: int) -> np.ndarray:
        return np.array([round(float(QUERIES[what] @ TABLE))], dtype=np.int64)

    def gap(self, what: int, grains: int) -> int:
        return abs(int(self.exact(what)[0]) * SCORE_GRID - grains)


class Answers(Sealed):
    """Counts of sets of elements, by number."""

    def sensitivity(self, what: int, unit: Unit, composition: Composition) -> int:
        return unit.of_counting_query

    def subject(self, what: int) -> tuple[str, ...]:
        return ("x",)

    def positions(self, what: int) -> tuple[int, ...]:
        return (0,)


QUERIES = (np.random.default_rng(0).random((200, 8)) < 0.5).astype(float)


class Always(Rule):
    def worth_a_test(self, kind: Any, measuring: float, testing: float) -> bool:
        return True


def online(rule: Rule, budget: float = 500.0) -> Online:
    accountant = Accountant(Budget.of(budget, 0.0))
    noise = Metered(FakeNoise(Composition.PURE), accountant)
    return Online(Session(accountant, Unit(), noise), Prices(ALPHA, 0.01, Composition.PURE), rule)


@pytest.mark.parametrize("kind", ["weights", "norm"])
def test_updates_are_a_sequence_of_the_papers_within_its_bound(kind: str) -> None:
    """Without noise every update has a gap of alpha / 2 or more, so B(alpha / 2) bounds their number."""
    level = ALPHA / 2

    def make() -> MultiplicativeWeights | FriezeKannan:
        if kind == "weights":
            return MultiplicativeWeights(8, TABLE.sum(), level)
        return FriezeKannan(8, float(np.linalg.norm(TABLE)), level)

    construction, mechanism, sealed = make(), online(Always()), Answers(Contents())
    updates = []
    for i, query in enumerate(QUERIES):
        subject = of_construction(construction, query, sealed, i)
        told = mechanism.answer(subject)
        truth = float(query @ TABLE)
        assert abs(float(told.values[0]) - truth) <= level
        if told.source == "measured":
            updates.append(Update(query, float(told.values[0]), subject.answer))
    assert 0 < len(updates) < len(QUERIES)
    assert check(make(), updates, lambda q: float(q @ TABLE), level).sound
    charges = [e.stage for e in mechanism.session.accountant.entries]
    assert charges.count("measure") == len(updates)
    assert charges.count("test") == mechanism.tests <= len(updates) + 1


def test_the_same_query_is_answered_from_memory() -> None:
    construction, mechanism, sealed = (
        MultiplicativeWeights(8, TABLE.sum(), 12.0),
        online(Rule()),
        Answers(Contents()),
    )
    first = mechanism.answer(of_construction(construction, QUERIES[0], sealed, 0))
    spent = mechanism.session.accountant.spent
    again = mechanism.answer(of_construction(construction, QUERIES[0], sealed, 0))
    assert (again.source, again.values.tolist()) == ("cached", first.values.tolist())
    assert mechanism.session.accountant.spent == spent


def test_an_open_test_serves_on_where_nothing_else_can_be_paid() -> None:
    """What passes still costs nothing; a yes ends the session before anything more is drawn."""
    cost = float(Prices(ALPHA, 0.01, Composition.PURE).testing(1))
    mechanism, sealed = online(Always(), budget=cost * 1.01), Answers(Contents())
    exact = FriezeKannan(8, 1.0, 1.0)
    exact.vector = TABLE.copy()
    for i in range(20):
        assert mechanism.answer(of_construction(exact, QUERIES[i], sealed, i)).source == "model"
    nothing = FriezeKannan(8, 1.0, 1.0)
    with pytest.raises(BudgetExceeded, match="what is left"):
        mechanism.answer(of_construction(nothing, QUERIES[30], sealed, 30))
    with pytest.raises(BudgetExceeded, match="what is left"):
        mechanism.answer(of_construction(exact, QUERIES[31], sealed, 31))
    assert [e.stage for e in mechanism.session.accountant.entries] == ["test"]


@pytest.mark.parametrize(("value", "moved"), [(ALPHA / 2 - 1, False), (ALPHA / 2, True)])
def test_what_was_measured_nearer_than_the_level_is_no_update(value: float, moved: bool) -> None:
    """Measured without a test, an answer may be as near as any; the theorems know no such step."""
    construction, query = FriezeKannan(8, float(np.linalg.norm(TABLE)), ALPHA / 2), QUERIES[0]
    before = construction.answer(query)
    subject = of_construction(construction, query, Answers(Contents()), 0, level=ALPHA / 2)
    scale = NoiseScale(1.0, Composition.PURE)
    _, updated = subject.learn(Measurement((0,), np.array([round(before + value)]), scale))
    assert updated is moved and (construction.answer(query) != before) is moved
