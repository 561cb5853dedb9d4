"""Local and smooth sensitivity against enumeration: every table within reach, every neighbour of it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from factored_mwem.privacy.other.order import Ordered
from factored_mwem.sessions.statistic.smooth import (
    local_of_order,
    local_of_spanning_tree,
    local_of_triangles,
    smooth_bound,
    spanning_tree,
    triangles,
)


def smoothed(local: np.ndarray, beta: float) -> float:
    return max(math.exp(-beta * k) * a for k, a in enumerate(local))


def enumerated(apart: np.ndarray, value: np.ndarray) -> np.ndarray:
    """[input, k]: A^(k) by its definition, of inputs that are closed under neighbours."""
    moves = np.abs(np.subtract.outer(value, value))
    local = np.where(apart <= 1, moves, 0).max(axis=1)
    return np.array([[local[row <= k].max() for k in range(apart.max() + 1)] for row in apart])


def by_places(inputs: list[tuple[int, ...]]) -> np.ndarray:
    """In how many places each two differ."""
    codes = np.array(inputs)
    return (codes[:, None, :] != codes[None, :, :]).sum(axis=2)


def check_is_enumerated(ours: np.ndarray, local: np.ndarray) -> None:
    """The last of ours stands for all further distances."""
    kept = np.minimum(np.arange(len(local)), len(ours) - 1)
    assert np.asarray(ours)[kept].tolist() == local.tolist()


def hamming(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Replacements between sorted tuples, as multisets."""
    return (Counter(a) - Counter(b)).total()


def order_statistics(rows: int, top: int, rank: int) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Every multiset of values up to `top`, and its A by definition."""
    tables = list(itertools.combinations_with_replacement(range(top + 1), rows))
    apart = np.array([[hamming(a, b) for b in tables] for a in tables])
    truth = enumerated(apart, np.array([t[rank - 1] for t in tables]))
    return zip(tables, truth, strict=True)


def test_the_worked_median() -> None:
    """x = (0, .25, .5, .75, 1): A = (.25, .5, .75, 1, 1, 1), S of beta 1 is .25, of .1 e^{-.3}."""
    local = local_of_order([0, 25, 50, 75, 100], 3, 100)
    assert local.tolist() == [25, 50, 75, 100, 100, 100]
    assert smooth_bound(local, 1) == pytest.approx(25, rel=1e-9)
    assert smooth_bound(local, 0.1) == pytest.approx(100 * math.exp(-0.3), rel=1e-9)
    ordered = Ordered(np.bincount([0, 25, 50, 75, 100], minlength=101), 1)
    assert ordered.smooth(3, 0.1) == pytest.approx(74.0818, rel=1e-5)
    assert local_of_order([0] * 5, 3, 100)[0] == 0


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_order_statistics_are_those_of_enumeration(n: int) -> None:
    """Every rank of every multiset of four values: minimum, maximum, median, quantiles."""
    top = 3 if n > 3 else 5
    for rank in range(1, n + 1):
        for table, local in order_statistics(n, top, rank):
            ours = local_of_order(table, rank, top)
            assert ours[: n + 1].tolist() == local.tolist(), (table, rank)
            ordered = Ordered(np.bincount(table, minlength=top + 1).astype(np.int64), 8)
            for beta in (0.05, 0.4, 2.0):
                expected = max(1.0, 8 * smoothed(local, beta))
                assert ordered.smooth(rank, beta) == pytest.approx(expected, rel=1e-11)
                assert ordered.smooth(rank, beta) >= expected


def test_seven_values_by_enumeration() -> None:
    for table, local in order_statistics(7, 3, 4):
        assert local_of_order(table, 4, 3).tolist() == local.tolist()


def test_divide_and_conquer_finds_what_all_pairs_have() -> None:
    rng = np.random.default_rng(7)
    for _ in range(300):
        cells, n, group = rng.integers(2, 40), rng.integers(0, 60), int(rng.integers(1, 6))
        table = np.sort(rng.choice(cells, n)) if rng.random() < 0.5 else np.sort(rng.integers(0, 2, n))
        rank, beta = int(rng.integers(1, n + 3)), float(rng.choice([0.01, 0.1, 0.7, 3]))
        ordered = Ordered(np.bincount(table, minlength=cells).astype(np.int64), 16)
        top = ordered.top

        x = {i: 0 if i < 1 else top for i in range(-80, 150)}
        x.update({i + 1: int(value) * 16 for i, value in enumerate(table)})
        pairs = itertools.product(range(rank - 70, rank + 1), range(rank, rank + 70))
        best = max((x[e] - x[i]) * math.exp(-beta * max(0, e - i - group) / group) for i, e in pairs)
        assert ordered.smooth(rank, beta, group) == pytest.approx(max(1.0, best), rel=1e-11)


@pytest.mark.parametrize("group", [1, 2])
def test_smooth_over_all_neighbours_of_both_relations(group: int) -> None:
    """S(x) <= e^beta S(x') and S >= the local sensitivity, where `group` rows come, go or are replaced."""
    top, unit = 3, 64
    tables = [t for n in range(6) for t in itertools.combinations_with_replacement(range(top + 1), n)]
    made = {t: Ordered(np.bincount(t, minlength=top + 1).astype(np.int64), unit) for t in tables}
    every = itertools.combinations(tables, 2)
    pairs = [(a, b) for a, b in every if max(hamming(a, b), hamming(b, a)) <= group]
    assert len(pairs) > 500
    for rank, beta in itertools.product((1, 2, 3, 5), (0.1, 0.5, 1.5)):
        bound = {t: o.smooth(rank, beta, group) for t, o in made.items()}
        for a, b in pairs:
            assert abs(math.log(bound[a] / bound[b])) <= beta + 1e-9
            assert abs(made[a].value(rank) - made[b].value(rank)) <= min(bound[a], bound[b])


def test_the_planted_bug_of_an_unsmoothed_bound_is_seen() -> None:
    """The local sensitivity itself is no smooth bound: neighbours exist where it jumps from 1 to `top`."""
    tight, wide = (local_of_order(table, 3, 100) for table in ([0, 0, 0, 0, 50], [0, 0, 0, 50, 50]))
    assert tight[0] == 0 < wide[0]
    assert smoothed(wide, 1) <= math.e * smoothed(tight, 1)


def adjacency(graph: tuple[int, ...], n: int) -> np.ndarray:
    matrix = np.zeros((n, n), dtype=bool)
    matrix[np.triu_indices(n, 1)] = graph
    return matrix | matrix.T


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_triangles_are_those_of_enumeration(n: int) -> None:
    every = list(itertools.product((0, 1), repeat=n * (n - 1) // 2))
    matrices = [adjacency(g, n) for g in every]
    value = np.array([triangles(m) for m in matrices])
    triples = list(itertools.combinations(range(n), 3))
    assert value.tolist() == [sum(m[i, j] and m[j, k] and m[i, k] for i, j, k in triples) for m in matrices]
    local = enumerated(by_places(every), value)
    for i in range(0, len(every), 1 if n < 5 else 7):
        check_is_enumerated(local_of_triangles(matrices[i]), local[i])


def test_triangles_of_a_complete_graph() -> None:
    """K_n: the local sensitivity is n - 2, and so is the smooth one."""
    for n in (3, 5, 9):
        complete = adjacency((1,) * (n * (n - 1) // 2), n)
        assert local_of_triangles(complete).tolist() == [n - 2]
        assert triangles(complete) == math.comb(n, 3)
        assert smooth_bound(local_of_triangles(complete), 0.3) == pytest.approx(n - 2)


def test_the_worked_spanning_tree() -> None:
    """A triangle of weights 6, 1, 4, at most 6: A = (5, 6, 6)."""
    found = local_of_spanning_tree([(0, 1), (1, 2), (0, 2)], [6, 1, 4], 6, 3)
    assert found.tolist() == [5, 6]  # 6 stays


@pytest.mark.parametrize(
    ("vertices", "edges"),
    [
        (2, [(0, 1)]),
        (3, [(0, 1), (1, 2)]),
        (3, [(0, 1), (1, 2), (0, 2)]),
        (4, [(0, 1), (1, 2), (2, 3), (0, 3)]),
        (4, [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]),
    ],
)
def test_spanning_trees_are_those_of_enumeration(vertices: int, edges: list[tuple[int, int]]) -> None:
    top = 3
    every = list(itertools.product(range(top + 1), repeat=len(edges)))
    value = np.array([spanning_tree(edges, w, vertices) for w in every])
    local = enumerated(by_places(every), value)
    for i in range(0, len(every), 1 if len(edges) < 5 else 5):
        check_is_enumerated(local_of_spanning_tree(edges, every[i], top, vertices), local[i])


def test_a_spanning_tree_by_all_cuts() -> None:
    """Random graphs of six vertices: the same by looking at every cut, whose number is no polynomial."""
    rng = np.random.default_rng(3)
    for _ in range(15):
        pairs = list(itertools.combinations(range(6), 2))
        edges = [(i, i + 1) for i in range(5)] + [p for p in pairs if p[1] > p[0] + 1 and rng.random() < 0.4]
        weights, top = rng.integers(0, 20, len(edges)).tolist(), 20
        ours = local_of_spanning_tree(edges, weights, top, 6)
        for k, a in enumerate(ours.tolist()):
            best = 0
            for cut in range(1, 32):
                side = [(cut >> v) & 1 for v in range(6)]
                w = sorted(x for x, (p, q) in zip(weights, edges, strict=True) if side[p] != side[q])
                w += [top] * (k + 2)
                best = max(best, w[k], w[k + 1] - w[0])
            assert a == best


def test_the_generic_bound_stands_for_all_further_distances() -> None:
    """max(max_{k < K} e^{-beta k} A^(k), GS e^{-beta K}) is at least S, and smooth where A was cut off."""
    local = local_of_order([0, 25, 50, 75, 100], 3, 100)
    for kept, beta in itertools.product(range(6), (0.01, 0.2, 1.0)):
        assert smooth_bound(local[:kept], beta, most=100) >= smoothed(local, beta)
    assert smooth_bound([], 0.5, most=7) == pytest.approx(7)
