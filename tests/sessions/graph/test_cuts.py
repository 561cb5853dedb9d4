"""Cuts: the convention, sums of cuts against dense matrices, kernels against definitions."""

from __future__ import annotations

import numpy as np
import pytest
from support.graphs import (
    adjacency,
    all_cuts,
    coefficients,
    complete,
    cut_of,
    edges_of,
    packed,
    random_cut,
    random_graph,
)

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError
from factored_mwem.kernels.cuts import bilinear, cut_multiply, cut_sum, pack, unpack
from factored_mwem.sessions.graph.constructions import CutSum
from factored_mwem.workload.cuts import UNITS, Cut, RankOne, ordered

RNG = np.random.default_rng(1)


def test_a_triangle_has_three_edges_and_six_ordered_ones() -> None:
    """THEORY: K3, S = T = V."""
    cut = Cut(*np.ones((2, 3), dtype=np.bool_))
    assert edges_of(complete(3)).exact(cut).tolist() == [3] and cut.pairs == 3
    assert ordered(complete(3), cut.sources, cut.targets) == 6


def test_a_complete_bipartite_graph_has_all_its_edges_in_one_cut() -> None:
    vertices = Vertices.of(["a", "b", "x", "y"])
    graph, path = adjacency(4, [(0, 2), (0, 3), (1, 2), (1, 3)]), adjacency(4, [(0, 1), (1, 2), (2, 3)])
    for edges, sides, count in (
        (graph, ("ab", "xy"), 4),
        (graph, ["ab"], 4),
        (graph, ("ab", "ab"), 0),
        (path, ["ax"], 3),
    ):
        cut = Cut.of(vertices, *map(list, sides))
        assert edges_of(edges).exact(cut).tolist() == [count]


def test_every_cut_of_four_vertices_by_definition() -> None:
    graph, weights = random_graph(RNG, 4, 0.6), RNG.normal(size=6)
    matrix, back, edges = np.zeros((4, 4)), np.empty(6), edges_of(graph)
    unpack(weights, 4, matrix)
    pack(matrix, back)
    assert (back == weights).all() and (matrix == matrix.T).all()
    for cut in all_cuts(4):
        assert cut.pairs == coefficients(cut).sum() / 2
        assert edges.exact(cut)[0] == cut_of(graph, cut)
        assert cut_sum(weights, cut.sources, cut.targets) == pytest.approx(cut_of(matrix, cut), abs=1e-12)
        both = Cut(cut.sources & cut.targets, cut.sources & cut.targets)
        inside = ordered(graph, cut.sources, cut.targets) - edges.exact(both)[0]
        assert edges.exact(cut)[0] == inside  # as the module says of the two conventions
        changed = weights.copy()
        change = cut_multiply(changed, cut.sources, cut.targets, 1.5, 0.0)
        held = packed(coefficients(cut)) == 1
        assert np.allclose(changed[~held], weights[~held])
        assert change == pytest.approx((changed - weights).sum())


def test_a_sum_of_cuts_equals_the_dense_matrix() -> None:
    """THEORY: the representation equals dense evaluation; symmetric; cuts may overlap and be empty."""
    for n in (2, 5, 23):
        total, dense = CutSum(n), np.zeros((n, n))
        for _ in range(40):
            cut, coefficient = random_cut(RNG, n), RNG.normal()
            total.add(cut, coefficient)
            dense += coefficient * coefficients(cut)
        assert np.allclose(total.dense(), dense) and np.allclose(total.dense(), total.dense().T)
        asked = [random_cut(RNG, n) for _ in range(30)]
        found = np.array([total.answer(cut) for cut in asked])
        assert np.allclose(found, [cut_of(dense, cut) for cut in asked], atol=1e-9)
        query = RankOne.of(RNG.random(n), RNG.random(n))
        u, v = query.first / UNITS, query.second / UNITS
        assert total.rank_one(query) == pytest.approx(u @ dense @ v)


def test_shared_pairs_are_whole_numbers() -> None:
    total = CutSum(50)
    cuts = [random_cut(RNG, 50) for _ in range(8)]
    dense = {cut: coefficients(cut) for cut in cuts}
    for cut in cuts:
        total.add(cut, 1.0)
    for asked in cuts:
        shared = total.shared(asked)
        assert shared.tolist() == [(dense[c] * dense[asked]).sum() / 2 for c in cuts]
    assert [total.shared(c)[i] for i, c in enumerate(cuts)] == [c.pairs for c in cuts]


def test_rank_one_queries_are_bilinear_on_their_grid() -> None:
    graph = random_graph(RNG, 9, 0.5)
    u, v = RNG.random(9), RNG.random(9)
    query = RankOne.of(u, v)
    exact = query.first @ graph.astype(np.int64) @ query.second
    assert edges_of(graph).exact(query).tolist() == [exact]
    assert abs(exact / UNITS**2 - u @ graph @ v) <= graph.sum() * 1.1 / UNITS
    assert bilinear(packed(graph), query.first, query.second) == exact
    outer = np.outer(query.first, query.second)
    assert query.largest == packed(outer + outer.T).max()
    sides, four = ([1, 1, 0, 0], [0, 0, 1, 1]), edges_of(complete(4))
    cut = Cut(*np.array(sides, bool))
    assert four.exact(RankOne.of(*sides))[0] == UNITS**2 * four.exact(cut)[0]
    for wrong in ([2, 0], [-1, 0], [np.nan, 0]):
        with pytest.raises(InputError):
            RankOne.of(wrong, [0, 1])


def test_a_cut_is_the_same_whichever_side_comes_first() -> None:
    s, t = np.array([True, False, False]), np.array([False, True, True])
    assert Cut(s, t) == Cut(t, s) and hash(Cut(s, t)) == hash(Cut(t, s)) and Cut(s, t) != Cut(s, s)
    for wrong in ("ann", ["nobody"], [7]):
        with pytest.raises(InputError):
            Cut.of(Vertices.of(3), wrong)
