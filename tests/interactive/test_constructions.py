"""Every line of the papers that says something about a construction: bounds, potentials, identities."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.adversaries import Ask, alternating, at_random, attack, greedy, least

from factored_mwem.errors import InputError
from factored_mwem.interactive.constructions import FriezeKannan, Median, MultiplicativeWeights
from factored_mwem.interactive.constructions.median import size_for
from factored_mwem.interactive.sequence import Update, check

ADVERSARIES: dict[str, Callable[[float], Ask]] = {
    "greedy": lambda alpha: greedy,
    "random": lambda alpha: at_random(np.random.default_rng(7), alpha),
    "alternating": alternating,
    "least": least,
}
LIES = [0.0, 0.999]


def _tables(elements: int, total: int) -> list[np.ndarray]:
    """Tables that are hard in different ways: a point, a random one, a flat half."""
    rng = np.random.default_rng(elements)
    point, half = np.zeros(elements), np.zeros(elements)
    point[-1], half[: elements // 2] = total, total / (elements // 2)
    return [point, rng.multinomial(total, rng.dirichlet(np.ones(elements) / 4)).astype(float), half]


def _queries(elements: int, count: int = 60) -> np.ndarray:
    rng = np.random.default_rng(elements + 1)
    sets = (rng.random((count // 2, elements)) < 0.5).astype(float)
    return np.concatenate([sets, rng.random((count // 2, elements)), np.eye(elements)])


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("who", list(ADVERSARIES))
@pytest.mark.parametrize("which", range(3))
def test_multiplicative_weights_hold_their_bound_and_lose_potential(which: int, who: str, lie: float) -> None:
    """L <= B(alpha), and a drop of alpha^2 / 4 (in shares) at every step: theorem 6."""
    n, alpha, queries = 400, 60.0, _queries(16)
    table = _tables(16, n)[which]
    fresh = MultiplicativeWeights(16, n, alpha)
    updates, potentials = attack(fresh, table, queries, alpha, ADVERSARIES[who](alpha), lie=lie)
    assert check(MultiplicativeWeights(16, n, alpha), updates, lambda q: float(q @ table), alpha).sound
    assert 0 < len(updates) <= fresh.bound(alpha)
    drops = -np.diff(potentials)
    assert (drops >= (alpha / n) ** 2 / 4 - 1e-12).all()
    assert min(potentials) >= 0
    assert potentials[0] <= math.log(16) + 1e-12


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("who", list(ADVERSARIES))
@pytest.mark.parametrize("sharper", [False, True])
@pytest.mark.parametrize("which", range(3))
def test_frieze_kannan_holds_its_bound_and_loses_potential(
    which: int, sharper: bool, who: str, lie: float
) -> None:
    """L <= B(alpha), and a drop of alpha^2 / |X| at every step, of a sharper one alpha^2 / |q|^2."""
    n, alpha, queries = 40, 8.0, _queries(16)
    table = _tables(16, n)[which]
    norm = float(np.linalg.norm(table))
    fresh = FriezeKannan(16, norm, alpha, sharper=sharper)
    updates, potentials = attack(fresh, table, queries, alpha, ADVERSARIES[who](alpha), lie=lie)
    again = FriezeKannan(16, norm, alpha, sharper=sharper)
    assert check(again, updates, lambda q: float(q @ table), alpha).sound
    squared = np.array([16 if not sharper else update.query @ update.query for update in updates])
    assert (-np.diff(potentials) >= alpha**2 / squared - 1e-9).all()


@pytest.mark.parametrize("who", list(ADVERSARIES))
def test_the_median_halves_and_keeps_the_table(who: str) -> None:
    """Each update leaves half of the tables at most; the true one, where it is among them, stays."""
    n, size, alpha = 12, 12, 2.0
    table = np.array([7.0, 3.0, 2.0])
    fresh, queries = Median(3, n, size), _queries(3, 20)
    updates, potentials = attack(fresh, table, queries, alpha, ADVERSARIES[who](alpha), lie=0.9)
    assert len(updates) > 0
    assert (-np.diff(potentials) >= 1).all()
    assert (fresh.tables == table).all(axis=1).any()
    assert check(Median(3, n, size), updates, lambda q: float(q @ table), alpha).sound


def test_the_median_of_five_tables() -> None:
    """|X| = 2, m = 4: five tables, and never more than log2 5 updates, whatever the table and the queries."""
    queries = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.25]])
    for ones in range(5):
        table = np.array([4.0 - ones, ones])
        for who in ADVERSARIES.values():
            fresh = Median(2, 4, 4)
            assert len(fresh.tables) == 5
            updates, _ = attack(fresh, table, queries, 0.25, who(0.25))
            assert len(updates) <= math.ceil(math.log2(5))
            assert len(updates) <= fresh.bound(0.25) == math.log2(5)
            assert (fresh.tables == table).all(axis=1).any()


def test_the_median_lists_all_multisets_once() -> None:
    found = Median(3, 4, 4).tables
    assert len(found) == math.comb(6, 2) == len(np.unique(found, axis=0))
    assert (found.sum(axis=1) == 4).all()
    with pytest.raises(InputError, match="toys"):
        Median(20, 40, 40)
    assert size_for(100, 50, 10) == math.ceil(100 * math.log(50))
    assert Median(3, 4, 4).bound(1.0) <= 4 * math.log2(3)  # m log |X|, as theorem A.2 has it


def test_the_median_ignores_what_no_table_says() -> None:
    fresh = Median(2, 4, 4)
    for _ in range(3):
        fresh.update(np.array([0.0, 1.0]), 100.0)
    assert fresh.tables.tolist() == [[0.0, 4.0]]
    fresh.update(np.array([0.0, 1.0]), 100.0)
    assert len(fresh.tables) == 1


def test_frieze_kannan_by_hand() -> None:
    """|X| = 4, D = q = (1, 1, 0, 0), alpha = 1: .25, .5, .75, then stop; potentials 2, 1.125, .5, .125."""
    table = query = np.array([1.0, 1.0, 0.0, 0.0])
    fresh = FriezeKannan(4, math.sqrt(2), 1.0)
    seen, potentials = [], [fresh.potential(table)]
    while abs(fresh.answer(query) - query @ table) >= 1:
        fresh.update(query, 2.0)
        seen.append(float(fresh.vector[0]))
        potentials.append(fresh.potential(table))
    assert seen == [0.25, 0.5, 0.75]
    assert potentials == [2, 1.125, 0.5, 0.125]
    assert (-np.diff(potentials) == [0.875, 0.625, 0.375]).all()
    assert fresh.bound(1.0) == pytest.approx(8)


def test_frieze_kannan_has_no_step_for_a_query_that_asks_nothing() -> None:
    fresh = FriezeKannan(3, 2.0, 1.0, sharper=True)
    fresh.update(np.zeros(3), 5.0)
    assert fresh.vector.tolist() == [0, 0, 0]


def test_the_bound_of_multiplicative_weights() -> None:
    """|X| = 16, alpha = .25: 177.4; in records the same."""
    assert MultiplicativeWeights(16, 1, 0.25).bound(0.25) == pytest.approx(177.4, abs=0.05)
    assert MultiplicativeWeights(16, 1000, 250).bound(250) == pytest.approx(177.4, abs=0.05)


def test_only_the_side_of_a_value_counts() -> None:
    """Any value less than alpha from the truth, of a query off by alpha or more, does the same."""
    rng, table = np.random.default_rng(3), np.array([30.0, 5.0, 1.0, 4.0])
    queries = _queries(4, 20)
    makers: list[Callable[[], MultiplicativeWeights | FriezeKannan | Median]] = [
        lambda: MultiplicativeWeights(4, 40, 6.0),
        lambda: FriezeKannan(4, 40, 6.0),
        lambda: Median(4, 40, 10),
    ]
    for make in makers:
        one, updates = make(), 0
        others = [make() for _ in range(3)]
        for query in np.tile(queries, (40, 1)):
            truth = float(query @ table)
            if abs(one.answer(query) - truth) < 6.0:
                continue
            one.update(query, truth)
            updates += 1
            for other in others:
                other.update(query, truth + rng.uniform(-5.999, 5.999))
        assert updates > 2
        for other in others:
            assert other.potential(table) == one.potential(table)
            assert all(other.answer(q) == one.answer(q) for q in queries)


shares = st.lists(st.floats(0.01, 1), min_size=6, max_size=6)
weights = st.lists(st.floats(0, 1), min_size=6, max_size=6)


@settings(max_examples=200, deadline=None)
@given(start=shares, table=shares, query=weights, alpha=st.floats(0.01, 2), up=st.booleans())
def test_lemma_8(start: list[float], table: list[float], query: list[float], alpha: float, up: bool) -> None:
    """Psi_t - Psi_{t+1} >= eta (r(D^t) - r(D)) - eta^2, of any hypothesis, table, query and direction."""
    fresh = MultiplicativeWeights(6, 1.0, alpha)
    fresh.shares = np.array(start) / sum(start)
    exact, q = np.array(table) / sum(table), np.array(query)
    r = 1 - q if up else q
    before, gap = fresh.potential(exact), float(r @ fresh.shares - r @ exact)
    fresh.update(q, math.inf if up else -math.inf)
    assert before - fresh.potential(exact) >= fresh.step * gap - fresh.step**2 - 1e-12
    assert fresh.shares.sum() == pytest.approx(1, abs=1e-12)
    assert (fresh.shares > 0).all()


@settings(max_examples=100, deadline=None)
@given(start=shares, query=weights, alpha=st.floats(0.01, 2))
def test_1_minus_q_down_is_q_up(start: list[float], query: list[float], alpha: float) -> None:
    """exp(-eta (1 - Q)) is exp(eta Q) in proportion; and asking 1 - q with n - v is asking q with v."""
    one, other = MultiplicativeWeights(6, 5.0, alpha), MultiplicativeWeights(6, 5.0, alpha)
    one.shares = other.shares = np.array(start) / sum(start)
    q = np.array(query)
    by_hand = one.shares * np.exp(alpha / (2 * 5.0) * q)  # eta = alpha / 2n
    by_hand /= by_hand.sum()
    one.update(q, math.inf)
    np.testing.assert_allclose(one.shares, by_hand, rtol=1e-13)
    other.update(1 - q, -math.inf)
    np.testing.assert_allclose(other.shares, by_hand, rtol=1e-13)


def test_proposition_7() -> None:
    """Psi >= 0; at first at most log |X|, which a point reaches and nothing else."""
    fresh = MultiplicativeWeights(8, 10, 1.0)
    assert fresh.potential(np.eye(8)[3]) == pytest.approx(math.log(8))
    for table in _tables(8, 10)[1:]:
        assert 0 <= fresh.potential(table) < math.log(8)
    assert fresh.potential(np.ones(8)) == pytest.approx(0, abs=1e-12)


def test_sequences_that_are_none_are_seen() -> None:
    """One planted fault for each of the four properties, and one too many updates."""
    table, alpha = np.array([10.0, 0.0, 0.0, 0.0]), 2.0
    queries = np.eye(4)
    made = MultiplicativeWeights(4, 10, alpha)
    updates, _ = attack(made, table, queries, alpha, greedy)

    def found(steps: list[Update[np.ndarray]], level: float = alpha) -> str:
        checked = check(MultiplicativeWeights(4, 10, alpha), steps, lambda q: float(q @ table), level)
        return " ".join(checked.broken)

    assert found(updates) == ""
    first = updates[0]
    assert "(4)" in found(updates[1:])  # not begun with a new hypothesis
    assert "(2)" in found(updates, level=8.0)
    assert "(3)" in found([Update(first.query, 10.0 - alpha - 0.1, first.answered)])
    assert "(4)" in found([first, first])
    longer = [first] * 400
    assert "the bound" in found(longer)


@pytest.mark.parametrize("alpha", [0.0, -1.0, 21.0])
def test_no_alpha_without_a_meaning(alpha: float) -> None:
    with pytest.raises(InputError):
        MultiplicativeWeights(4, 10, alpha)
    if alpha <= 0:
        with pytest.raises(InputError):
            FriezeKannan(4, 10, alpha)
