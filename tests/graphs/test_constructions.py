"""Frieze and Kannan's construction and multiplicative weights over pairs: sequences of updates under
adversaries are never longer than B(alpha), and each step takes off what the theorems say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.graphs import all_cuts, coefficients, cut_of, packed, random_cut, random_graph

from factored_mwem.errors import InputError, ResourceError
from factored_mwem.graphs.frieze_kannan import FriezeKannan
from factored_mwem.graphs.pair_weights import PairWeights
from factored_mwem.interactive.sequence import Update, check
from factored_mwem.workload.cuts import Cut

Make = Callable[[int, float, float], FriezeKannan | PairWeights]
MAKES: dict[str, Make] = {
    "sharp": FriezeKannan,
    "paper": lambda n, alpha, edges: FriezeKannan(n, alpha, edges, step="paper"),
    "even": lambda n, alpha, edges: FriezeKannan(n, alpha, edges, start=0.8 * edges),
    "weights": PairWeights,
    "even weights": lambda n, alpha, edges: PairWeights(n, alpha, edges, start=0.8 * edges),
}


Adversary = Callable[[Callable[[Cut], float]], Iterator[Cut]]


def adversary(kind: str, n: int, rng: np.random.Generator) -> Adversary:
    """Cuts to try next, by how far they are off: the worst of all; at random; too low and too high in
    turn.
    """
    every = list(all_cuts(n)) if n <= 4 else [random_cut(rng, n) for _ in range(400)]
    every = [cut for cut in every if cut.pairs]
    turn = [0]

    def next_cuts(gap: Callable[[Cut], float]) -> Iterator[Cut]:
        turn[0] += 1
        if kind == "random":
            yield from (every[i] for i in rng.permutation(len(every)))
            return
        order = sorted(every, key=lambda cut: -abs(gap(cut)))
        if kind == "alternating":
            order.sort(key=lambda cut: (gap(cut) > 0) == (turn[0] % 2 == 0))
        yield from order

    return next_cuts


def attack(
    made: FriezeKannan | PairWeights, graph: np.ndarray, alpha: float, kind: str, rng: np.random.Generator
) -> list[Update[Cut]]:
    """Updates until no cut of the adversary's is off by alpha; the value told is as wrong as it may be."""
    updates: list[Update[Cut]] = []
    choose = adversary(kind, len(graph), rng)
    limit = made.bound(alpha) + 5

    def gap(cut: Cut) -> float:
        return cut_of(graph, cut) - made.answer(cut)

    while len(updates) < limit:
        wrong = next((cut for cut in choose(gap) if abs(gap(cut)) >= alpha), None)
        if wrong is None:
            break
        off = gap(wrong)
        value = cut_of(graph, wrong) - math.copysign(alpha * 0.999, off)
        updates.append(Update(wrong, value, made.answer(wrong)))
        made.update(wrong, value)
    return updates


@pytest.mark.parametrize("kind", ["greedy", "random", "alternating"])
@pytest.mark.parametrize("name", list(MAKES))
def test_no_adversary_gets_more_updates_than_the_bound(name: str, kind: str) -> None:
    rng = np.random.default_rng(6)
    for n, alpha in ((4, 1.0), (4, 2.0), (9, 8.0)):
        graph = random_graph(rng, n, 0.6)
        edges = max(1.0, graph.sum() / 2)
        updates = attack(MAKES[name](n, alpha, edges), graph, alpha, kind, rng)
        found = check(MAKES[name](n, alpha, edges), updates, lambda cut, g=graph: cut_of(g, cut), alpha)
        assert found.sound, found.broken


@pytest.mark.parametrize("name", ["sharp", "paper"])
def test_the_squared_distance_falls_as_the_theorem_says(name: str) -> None:
    rng = np.random.default_rng(7)
    graph = random_graph(rng, 7, 0.5)
    alpha, pairs = 2.0, 21
    made = MAKES[name](7, alpha, graph.sum() / 2)
    assert isinstance(made, FriezeKannan)
    updates = 0
    for _ in range(2000):
        cut = random_cut(rng, 7)
        if abs(cut_of(graph, cut) - made.answer(cut)) < alpha or not cut.pairs:
            continue
        before = packed((graph - made.hypothesis.dense()) ** 2).sum()
        made.update(cut, cut_of(graph, cut))
        after = packed((graph - made.hypothesis.dense()) ** 2).sum()
        least = (
            alpha**2 / cut.pairs
            if name == "sharp"
            else 2 * alpha**2 / pairs - alpha**2 * cut.pairs / pairs**2
        )
        assert before - after >= least - 1e-9 >= alpha**2 / pairs - 1e-9
        updates += 1
    assert 3 < updates <= made.bound(alpha)


def test_steps_of_two_and_a_half_are_seen() -> None:
    """Planted: a step too long overshoots, and the potential no longer falls."""
    graph = np.zeros((5, 5))
    graph[0, 1] = graph[1, 0] = 1.0
    made = FriezeKannan(5, 2.5, 1.0)
    cut = Cut(np.array([1, 0, 0, 0, 0], bool), np.array([0, 1, 0, 0, 0], bool))
    before = packed((graph - made.hypothesis.dense()) ** 2).sum()
    made.update(cut, 1.0)
    assert packed((graph - made.hypothesis.dense()) ** 2).sum() > before


def test_frieze_kannan_by_hand() -> None:
    """THEORY: D and q the same two of |X| elements, alpha 1: with |X| = 6 pairs the paper's steps of 1/6 are
    made until 2 - 2 t / 6 < 1: four, of B = 12; the sharper ones, of 1/2, once more: 2, 1, then 0 is below 1.
    """
    graph = np.zeros((4, 4))
    for i, j in ((0, 2), (0, 3)):
        graph[i, j] = graph[j, i] = 1
    cut = Cut(np.array([1, 0, 0, 0], bool), np.array([0, 0, 1, 1], bool))
    for step, count in (("paper", 4), ("sharp", 2)):
        made = FriezeKannan(4, 1.0, 2.0, step=step)  # type: ignore[arg-type]
        assert made.bound(1.0) == 12
        updates = 0
        while abs(2 - made.answer(cut)) >= 1 - 1e-12:
            made.update(cut, 2.0)
            updates += 1
        assert updates == count


@pytest.mark.parametrize("name", list(MAKES))
def test_only_the_side_of_the_value_counts(name: str) -> None:
    rng = np.random.default_rng(8)
    graph = random_graph(rng, 6, 0.5)
    one, other = (MAKES[name](6, 2.0, 15.0) for _ in range(2))
    for _ in range(60):
        cut = random_cut(rng, 6)
        truth, answer = cut_of(graph, cut), one.answer(cut)
        if abs(truth - answer) < 2.0:
            continue
        one.update(cut, truth)
        other.update(cut, truth + rng.uniform(-1.99, 1.99))
        assert one.answer(cut) == other.answer(cut)


def test_weights_are_the_dense_rule_with_one_more_element() -> None:
    """exp(-eta r), r = q or 1 - q, normalised (THEORY D.3), on |X| + 1 elements."""
    rng = np.random.default_rng(9)
    n, alpha, edges = 6, 1.5, 9.0
    made, dense = PairWeights(n, alpha, edges), np.full(16, 1 / 16)
    for _ in range(80):
        cut = random_cut(rng, n)
        q = np.append(packed(coefficients(cut)), 0.0)
        assert made.answer(cut) == pytest.approx(edges * q @ dense)
        low = rng.random() < 0.5
        r = q if low else 1 - q
        dense = dense * np.exp(-alpha / (2 * edges) * r)
        dense /= dense.sum()
        made.update(cut, made.answer(cut) + (-1 if low else 1))
    assert np.allclose(made.weights(), edges * dense[:-1])
    assert made.bound(alpha) == 4 * edges**2 * math.log(16) / alpha**2


def test_weights_that_grow_without_end_stay_numbers() -> None:
    made = PairWeights(3, 1.9, 1.0)
    cut = Cut(np.array([1, 0, 0], bool), np.array([0, 1, 0], bool))
    for value in (2.0, -1.0):
        for _ in range(3000):
            made.update(cut, value)
        assert 0 <= made.answer(cut) <= 1 and np.isfinite(made.weights()).all()
    assert made.answer(cut) < 1e-6


def test_what_makes_no_sense_is_refused() -> None:
    for kind in (FriezeKannan, PairWeights):
        for alpha, edges in ((0.0, 1.0), (1.0, 0.0), (math.nan, 1.0)):
            with pytest.raises(InputError):
                kind(3, alpha, edges)
    with pytest.raises(ResourceError):
        PairWeights(20_000, 1.0, 1.0)
    empty = Cut(np.zeros(3, bool), np.zeros(3, bool))
    made = FriezeKannan(3, 1.0, 1.0)
    made.update(empty, 1.0)
    assert made.hypothesis.terms == 0 and made.answer(empty) == 0.0
