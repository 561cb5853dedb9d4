"""The mechanism over any construction and any sealed answers: what graphs and sketches plug in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.fakes import FakeNoise

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.errors import BudgetExceeded
from factored_mwem.privacy.metered import Metered
from factored_mwem.privacy.rows import SCORE_GRID, Sealed, SealedQuery
from factored_mwem.privacy.session import Measurement, NoiseScale, Session
from factored_mwem.sessions.online.constructions import (
    Construction,
    FriezeKannan,
    MultiplicativeWeights,
    Update,
    check,
)
from factored_mwem.sessions.online.mechanism import Online, Rule, of_construction
from factored_mwem.sessions.online.prices import Prices
from factored_mwem.sessions.sketch import Lazy, Prior, SparseFriezeKannan

TABLE = np.array([70.0, 2, 1, 40, 3, 2, 60, 22])
ALPHA = 24.0


class Contents:
    def exact(self, what: int) -> np.ndarray:
        return np.array([round(float(QUERIES[what] @ TABLE))], dtype=np.int64)

    def gap(self, what: int, grains: int) -> int:
        return abs(int(self.exact(what)[0]) * SCORE_GRID - grains)


class Answers(Sealed):
    """Counts of sets of elements, by number."""

    def query(self, what: int, unit: Unit) -> SealedQuery:
        return SealedQuery.each(("x",), (0,), unit.of_counting_query)


QUERIES = (np.random.default_rng(0).random((1200, 8)) < 0.5).astype(float)


class Always(Rule):
    def worth_a_test(self, kind: Any, measuring: float, testing: float) -> bool:
        return True


def online(rule: Rule, budget: float = 500.0) -> Online:
    accountant = Accountant(Budget.of(budget, 0.0))
    noise = Metered(FakeNoise(Composition.PURE), accountant)
    return Online(Session(accountant, Unit(), noise), Prices(ALPHA, 0.01, Composition.PURE), rule)


LEVEL, N = ALPHA / 2, float(TABLE.sum())
MAKES: dict[str, Callable[[], Construction[Any]]] = {
    "weights": lambda: MultiplicativeWeights(8, N, LEVEL),
    "norm": lambda: FriezeKannan(8, float(np.linalg.norm(TABLE)), LEVEL),
    "lazy": lambda: Lazy(2**20, N, LEVEL),
    "prior": lambda: Prior(8, N, LEVEL),
    "keys": lambda: SparseFriezeKannan(8, float(TABLE @ TABLE), LEVEL),
}
SPARSE = ("lazy", "prior", "keys")


@pytest.mark.parametrize("kind", MAKES)
def test_updates_are_a_sequence_of_the_papers_within_its_bound(kind: str) -> None:
    """Every update has a gap of alpha / 2 or more, so B(alpha / 2) bounds their number."""
    construction, mechanism, sealed = MAKES[kind](), online(Always(), 50_000.0), Answers(Contents())
    updates, sources = [], []
    for i, row in enumerate(QUERIES):
        query = dict.fromkeys(np.flatnonzero(row).tolist(), 1.0) if kind in SPARSE else row
        asked = of_construction(construction, query, sealed, i)
        answer = mechanism.answer(asked)
        assert abs(float(answer.values[0]) - float(row @ TABLE)) <= LEVEL
        sources.append(answer.source)
        if answer.source == "measured":
            updates.append(Update(query, float(answer.values[0]), asked.answer))

    def truth(query: Any) -> float:
        return float(TABLE[list(query)].sum() if kind in SPARSE else query @ TABLE)

    assert 0 < len(updates) < len(QUERIES) and sources[-40:].count("model") > 30
    assert check(MAKES[kind](), updates, truth, LEVEL).sound
    charges = [e.stage for e in mechanism.session.accountant.entries]
    assert charges.count("measure") == len(updates)
    assert charges.count("test") == mechanism.tests <= len(updates) + 1


def test_the_same_query_is_answered_from_memory() -> None:
    mechanism = online(Rule())
    asked = of_construction(MAKES["weights"](), QUERIES[0], Answers(Contents()), 0)
    first = mechanism.answer(asked)
    spent = mechanism.session.accountant.spent
    again = mechanism.answer(asked)
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
    for i, construction in ((30, FriezeKannan(8, 1.0, 1.0)), (31, exact)):
        with pytest.raises(BudgetExceeded, match="what is left"):
            mechanism.answer(of_construction(construction, QUERIES[i], sealed, i))
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
