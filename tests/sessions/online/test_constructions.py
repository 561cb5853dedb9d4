"""Every line of the papers about a construction, of vectors, graphs and keys: bounds, potentials."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.adversaries import Ask, Case, alternating, at_random, attack, greedy, least
from support.graphs import all_cuts, cut_of, packed, random_cut, random_graph
from support.marks import others_slow

from factored_mwem.errors import InputError
from factored_mwem.sessions.graph.constructions import CutFriezeKannan, PairWeights
from factored_mwem.sessions.online.constructions import (
    FriezeKannan,
    Median,
    MultiplicativeWeights,
    Update,
    check,
    size_for,
)
from factored_mwem.sessions.online.sparse import Lazy, Prior, SparseFriezeKannan
from factored_mwem.workload.cuts import Cut

ADVERSARIES: dict[str, Callable[[float], Ask]] = {
    "greedy": lambda alpha: greedy,
    "random": lambda alpha: at_random(np.random.default_rng(7), alpha),
    "alternating": alternating,
    "least": least,
}


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


def of_vectors(kind: str, which: int) -> Case[np.ndarray]:
    """Theorem 6: a drop of alpha^2 / 4 (in shares) at every step; algorithm 2: of alpha^2 / |X|, of a sharper
    step of alpha^2 / |q|^2.
    """
    n, alpha = (400, 60.0) if kind == "weights" else (40, 8.0)
    table = _tables(16, n)[which]
    norm = float(np.linalg.norm(table))
    makes: dict[str, Callable[[], Any]] = {
        "weights": lambda: MultiplicativeWeights(16, n, alpha),
        "kannan": lambda: FriezeKannan(16, norm, alpha),
        "sharper kannan": lambda: FriezeKannan(16, norm, alpha, sharper=True),
    }
    drops: dict[str, Callable[[np.ndarray], float]] = {
        "weights": lambda q: (alpha / n) ** 2 / 4,
        "kannan": lambda q: alpha**2 / 16,
        "sharper kannan": lambda q: alpha**2 / float(q @ q),
    }
    potential = lambda made: made.potential(table)  # noqa: E731
    return Case(makes[kind], lambda q: float(q @ table), list(_queries(16)), alpha, potential, drops[kind])


def of_median() -> Case[np.ndarray]:
    """Each update leaves half of the tables at most."""
    table = np.array([7.0, 3.0, 2.0])
    truth, potential = lambda q: float(q @ table), lambda made: made.potential(table)
    return Case(lambda: Median(3, 12, 12), truth, list(_queries(3, 20)), 2.0, potential, lambda q: 1.0)


def of_graphs(kind: str, n: int, alpha: float) -> Case[Cut]:
    """Theorem 5.1: the squared distance falls by alpha^2 / |q|^2, or as the paper's step has it."""
    rng = np.random.default_rng(6)
    graph = random_graph(rng, n, 0.6)
    edges, pairs = float(graph.sum() / 2), n * (n - 1) // 2
    every = list(all_cuts(n)) if n < 5 else [random_cut(rng, n) for _ in range(150)]
    makes: dict[str, Callable[[], Any]] = {
        "sharp": lambda: CutFriezeKannan(n, alpha, edges),
        "paper": lambda: CutFriezeKannan(n, alpha, edges, step="paper"),
        "even": lambda: CutFriezeKannan(n, alpha, edges, start=0.8 * edges),
        "pairs": lambda: PairWeights(n, alpha, edges),
        "even pairs": lambda: PairWeights(n, alpha, edges, start=0.8 * edges),
    }

    def potential(made: CutFriezeKannan) -> float:
        return float(packed((graph - made.mean - made.hypothesis.dense()) ** 2).sum())

    def drop(cut: Cut) -> float:
        least = 2 * alpha**2 / pairs - alpha**2 * cut.pairs / pairs**2
        assert least >= alpha**2 / pairs - 1e-9
        return least if kind == "paper" else alpha**2 / cut.pairs

    proof = () if "pairs" in kind else (potential, drop)
    cuts = [cut for cut in every if cut.pairs]
    return Case(makes[kind], lambda cut: cut_of(graph, cut), cuts, alpha, *proof)


def of_keys(kind: str) -> Case[dict[int, float]]:
    """Sums of queries: |D - D^t|^2 falls by alpha^2 / m. Weights: the divergence by alpha^2 / (4 n^2)."""
    rng, n, alpha = np.random.default_rng(5), 100.0, 15.0
    data = rng.multinomial(100, [0.3, 0.2, 0.1, *[0.4 / 17] * 17])
    squares = float((data**2).sum())
    sets = [dict.fromkeys(keys, 1.0) for keys in itertools.combinations(range(20), 3)]
    some = [{int(x): float(rng.random()) for x in rng.choice(20, 3, replace=False)} for _ in range(100)]
    makes: dict[str, Callable[[], Any]] = {
        "lazy": lambda: Lazy(20, n, alpha),
        "prior": lambda: Prior(3, n, alpha),
        "keys": lambda: SparseFriezeKannan(3, squares, alpha),
    }
    one = [{x: 1.0} for x in range(20)]

    def distance(made: SparseFriezeKannan) -> float:
        return sum((d - made.answer(x)) ** 2 for d, x in zip(data, one, strict=True))

    def divergence(made: Lazy) -> float:
        return sum(d / n * math.log(d / made.answer(x)) for d, x in zip(data, one, strict=True) if d)

    proofs: dict[str, tuple[Any, Any]] = {
        "lazy": (divergence, lambda q: alpha**2 / 4 / n**2),
        "prior": (None, None),
        "keys": (distance, lambda q: alpha**2 / 3),
    }
    truth = lambda q: sum(w * float(data[x]) for x, w in q.items())  # noqa: E731
    return Case(makes[kind], truth, sets[::3] + some, alpha, *proofs[kind])


CASES: dict[str, Callable[[], Case[Any]]] = {
    **{
        f"{kind}, table {which}": partial(of_vectors, kind, which)
        for kind in ("weights", "kannan", "sharper kannan")
        for which in range(3)
    },
    "median": of_median,
    **{
        f"{kind}, {n} vertices, {alpha}": partial(of_graphs, kind, n, alpha)
        for kind in ("sharp", "paper", "even", "pairs", "even pairs")
        for n, alpha in ((4, 1.0), (5, 1.5), (9, 4.0))
    },
    **{kind: partial(of_keys, kind) for kind in ("lazy", "prior", "keys")},
}


@pytest.mark.parametrize("who", list(ADVERSARIES))
@pytest.mark.parametrize(
    "name",
    others_slow(CASES, lambda name: "table 1" not in name and "table 2" not in name and "9 vert" not in name),
)
def test_no_adversary_gets_more_updates_than_the_bound(name: str, who: str) -> None:
    """L <= B(alpha); the potential is never below zero and falls at every step by what the proof says. Every
    other case is answered with values as far from the truth as they may be.
    """
    case = CASES[name]()
    lie = 0.999 * ((list(CASES).index(name) + list(ADVERSARIES).index(who)) % 2)
    made, updates, potentials = attack(case, ADVERSARIES[who](case.alpha), lie=lie)
    checked = check(case.make(), updates, case.truth, case.alpha)
    assert checked.sound and 0 < len(updates) <= made.bound(case.alpha), checked.broken
    assert not check(case.make(), updates, lambda q: case.truth(q) + 2.5 * case.alpha, case.alpha).sound
    if case.least_drop is not None:
        least = np.array([case.least_drop(update.query) for update in updates])
        assert (-np.diff(potentials) >= least * (1 - 1e-9) - 1e-12).all() and min(potentials) >= 0


@pytest.mark.parametrize("name", list(CASES))
def test_only_the_side_of_a_value_counts(name: str) -> None:
    """Any value less than alpha from the truth, of a query off by alpha or more, does the same."""
    case, rng = CASES[name](), np.random.default_rng(3)
    one, others, updates = case.make(), [case.make() for _ in range(3)], 0
    for query in [*case.queries, *case.queries]:
        truth = case.truth(query)
        if abs(one.answer(query) - truth) < case.alpha:
            continue
        one.update(query, truth)
        updates += 1
        for other in others:
            other.update(query, truth + rng.uniform(-0.999, 0.999) * case.alpha)
            assert other.answer(query) == one.answer(query)
    assert updates > 0


def test_the_median_of_five_tables() -> None:
    """|X| = 2, m = 4: five tables, and never more than log2 5 updates, whatever the table and the queries."""
    queries = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.25]])
    for ones in range(5):
        table = np.array([4.0 - ones, ones])
        for who in ADVERSARIES.values():
            assert len(Median(2, 4, 4).tables) == 5
            case = Case(lambda: Median(2, 4, 4), lambda q, t=table: float(q @ t), list(queries), 0.25)
            fresh, updates, _ = attack(case, who(0.25))
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
    for _ in range(4):
        fresh.update(np.array([0.0, 1.0]), 100.0)
    assert fresh.tables.tolist() == [[0.0, 4.0]]


def test_frieze_kannan_by_hand() -> None:
    """|X| = 4, D = q = (1, 1, 0, 0), alpha = 1: .25, .5, .75, then stop; potentials 2, 1.125, .5, .125."""
    table = query = np.array([1.0, 1.0, 0.0, 0.0])
    fresh, sparse = FriezeKannan(4, math.sqrt(2), 1.0), SparseFriezeKannan(4, 2.0, 1.0)
    seen, potentials, keys = [], [fresh.potential(table)], {0: 1.0, 1: 1.0}
    while abs(fresh.answer(query) - query @ table) >= 1:
        fresh.update(query, 2.0)
        sparse.update(keys, 2.0)
        assert sparse.answer(keys) == fresh.answer(query) and sparse.values[0] == fresh.vector[0]
        seen.append(float(fresh.vector[0]))
        potentials.append(fresh.potential(table))
    assert seen == [0.25, 0.5, 0.75]
    assert potentials == [2, 1.125, 0.5, 0.125]
    assert fresh.bound(1.0) == pytest.approx(8) and sparse.bound(1.0) == 8
    asks_nothing = FriezeKannan(3, 2.0, 1.0, sharper=True)
    asks_nothing.update(np.zeros(3), 5.0)
    assert asks_nothing.vector.tolist() == [0, 0, 0]


def test_the_bound_of_multiplicative_weights() -> None:
    """|X| = 16, alpha = .25: 177.4; in records the same."""
    assert MultiplicativeWeights(16, 1, 0.25).bound(0.25) == pytest.approx(177.4, abs=0.05)
    assert MultiplicativeWeights(16, 1000, 250).bound(250) == pytest.approx(177.4, abs=0.05)


shares = st.lists(st.floats(0.01, 1), min_size=6, max_size=6)
weights = st.lists(st.floats(0, 1), min_size=6, max_size=6)


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=40, deadline=None)
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
    truth = lambda q: float(q @ table)  # noqa: E731
    case = Case(lambda: MultiplicativeWeights(4, 10, alpha), truth, list(np.eye(4)), alpha)
    _, updates, _ = attack(case, greedy)

    def found(steps: list[Update[np.ndarray]], level: float = alpha) -> str:
        return " ".join(check(case.make(), steps, truth, level).broken)

    assert found(updates) == ""
    first = updates[0]
    assert "(4)" in found(updates[1:])  # not begun with a new hypothesis
    assert "(2)" in found(updates, level=8.0)
    assert "(3)" in found([Update(first.query, 10.0 - alpha - 0.1, first.answered)])
    assert "(4)" in found([first, first]) and "the bound" in found([first] * 400)


@pytest.mark.parametrize("alpha", [0.0, -1.0, 21.0])
def test_no_alpha_without_a_meaning(alpha: float) -> None:
    with pytest.raises(InputError):
        MultiplicativeWeights(4, 10, alpha)
    if alpha <= 0:
        with pytest.raises(InputError):
            FriezeKannan(4, 10, alpha)
