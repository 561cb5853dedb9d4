"""Sparse constructions in the interactive framework: its checker, and its online mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from support.fakes import FakeNoise

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.interactive.construction import Construction
from factored_mwem.interactive.mechanism import Online, of_construction
from factored_mwem.interactive.prices import Prices
from factored_mwem.interactive.rule import Rule
from factored_mwem.interactive.sequence import Update, check
from factored_mwem.privacy.counts import Sealed
from factored_mwem.privacy.session import SCORE_GRID, Session
from factored_mwem.sparse import Lazy, Prior, SparseFriezeKannan

Query = dict[str, float]
DATA = {f"key {i}": n for i, n in enumerate((600, 200, 100, 50, 30, 20))}
N, ALPHA = 1000.0, 150.0
KINDS: dict[str, Callable[[], Construction[Query]]] = {
    "lazy": lambda: Lazy(2**20, N, ALPHA),
    "prior": lambda: Prior(4, N, ALPHA),
    "frieze-kannan": lambda: SparseFriezeKannan(4, float(sum(n**2 for n in DATA.values())), ALPHA),
}


def truth(query: Query) -> float:
    return math.fsum(q * DATA.get(key, 0) for key, q in query.items())


def ask(rng: np.random.Generator) -> Query:
    """Some keys that the data has, and one that it lacks."""
    keys = [f"key {i}" for i in rng.choice(6, rng.integers(1, 4), replace=False)]
    return dict.fromkeys([*keys, f"none {rng.integers(10**9)}"], 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_checker_finds_update_sequences(kind: str) -> None:
    rng, one, updates = np.random.default_rng(0), KINDS[kind](), []
    for _ in range(3000):
        query = ask(rng)
        answered = one.answer(query)
        if abs(answered - truth(query)) >= ALPHA:
            value = truth(query) + 0.9 * ALPHA * float(np.sign(answered - truth(query)))
            updates.append(Update(query, value, answered))
            one.update(query, value)
    found = check(KINDS[kind](), updates, truth, ALPHA)
    assert found.sound and 0 < found.updates <= found.bound, found.broken[:3]
    assert not check(KINDS[kind](), updates, lambda q: truth(q) + ALPHA, ALPHA).sound  # of another table


class Keys:
    """What a sealed column of keys would reveal."""

    def exact(self, query: tuple[str, ...]) -> np.ndarray:
        return np.array([truth(dict.fromkeys(query, 1.0))], dtype=np.int64)

    def gap(self, query: tuple[str, ...], grains: int) -> int:
        return abs(int(self.exact(query)[0]) * SCORE_GRID - grains)


class PrivateKeys(Sealed):
    """A column of keys that is asked for sums of counts: one row more moves each by one."""

    __slots__ = ()

    def sensitivity(self, what: tuple[str, ...], unit: Unit, composition: Composition) -> int:
        one = unit.of_counting_query
        return one**2 if composition is Composition.ZCDP else one

    def subject(self, what: tuple[str, ...]) -> tuple[str, ...]:
        return ("key",)

    def positions(self, what: tuple[str, ...]) -> tuple[int, ...]:
        return ()


class Always(Rule):
    """Every query is tested before it is measured, as in the theorem."""

    def worth_a_test(self, kind: object, measuring: float, testing: float) -> bool:
        return True


@pytest.mark.parametrize("kind", KINDS)
def test_the_online_mechanism_answers_by_them_within_alpha(kind: str) -> None:
    """Without noise, every query tested first: all answers are within alpha, the measured ones are an update
    sequence and so no more than the bound, and in the end nearly all answers are the construction's.
    """
    budget = Budget(1000.0, 1e-6, Composition.ZCDP, Fraction(1000), Fraction(0))
    session = Session(Accountant(budget), Unit(), FakeNoise())
    prices = Prices(2 * ALPHA, 0.001, Composition.ZCDP)
    online, one, sealed = Online(session, prices, Always()), KINDS[kind](), PrivateKeys(Keys())
    rng, sources = np.random.default_rng(1), []
    for _ in range(1500):
        query = ask(rng)
        told = online.answer(of_construction(one, query, sealed, tuple(query)))
        assert abs(float(told.values[0]) - truth(query)) <= prices.alpha
        sources.append(told.source)
    assert 0 < sources.count("measured") <= one.bound(prices.level)
    assert sources[-100:].count("model") > 90
    assert session.accountant.spent > 0
