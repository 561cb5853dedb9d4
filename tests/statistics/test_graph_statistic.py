"""Triangles and spanning trees through the door: true values, charges, an audit of small graphs, refusals."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from support.fakes import FakeNoise

from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import InputError
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.run import Booking
from factored_mwem.privacy import graph_values
from factored_mwem.privacy.noise import spread_scale
from factored_mwem.statistics import GraphStatistic, spanning_tree_cost, triangle_count
from factored_mwem.statistics.graph_statistic import WeighedGraph, cost_of_tree, count_triangles
from factored_mwem.statistics.grid import Grid

PAIRS = list(itertools.combinations(range(4), 2))
LOOP = [(0, 1), (1, 2), (0, 2)]


def fake() -> FakeNoise:
    return FakeNoise(Composition.PURE)


def counted(graph: Any, noise: FakeNoise, epsilon: float = 1.0) -> GraphStatistic:
    return count_triangles(graph, epsilon, 0.0, Booking(), noise=noise)


def spanned(weights: Any, upper: float, noise: FakeNoise, epsilon: float = 1.0) -> GraphStatistic:
    tree = WeighedGraph(LOOP, weights, Grid.of(0, upper), 3, epsilon)
    return cost_of_tree(tree, Booking(), noise=noise)


def test_true_values_without_noise() -> None:
    karate = nx.karate_club_graph()
    made = counted(karate, fake())
    assert made.value == sum(nx.triangles(karate).values()) / 3 == 45
    assert made.statement.promise.unit == "one edge added or removed"
    weighted = nx.Graph()
    weighted.add_weighted_edges_from([(0, 1, 6), (1, 2, 1), (0, 2, 4)])
    tree = spanned([6, 1, 4], 6, fake())
    assert tree.value == nx.minimum_spanning_tree(weighted).size(weight="weight") == 5
    assert tree.statement.recompute() == tree.statement.promise.spent_epsilon <= 1
    assert [made.statement.promise.neighbours, tree.statement.promise.neighbours] == ["add-remove", "replace"]


def loss(one: FakeNoise, other: FakeNoise) -> float:
    """The largest log ratio of two discrete Cauchys, over all places that matter."""
    (a, bound, _), (b, other_bound, _) = one.calls[0].values, other.calls[0].values  # type: ignore[misc]
    s, t = (float(spread_scale(x, one.calls[0].scale)) for x in (bound, other_bound))
    around = np.round(np.geomspace(1, 2.0**60, 4000))
    y = np.concatenate([center + sign * around for center in (a, b) for sign in (-1, 1)])
    return float(np.abs(np.log(s / t) - np.log(s * s + (y - a) ** 2) + np.log(t * t + (y - b) ** 2)).max())


def worst_of_triangles() -> float:
    drawn = {}
    for chosen in itertools.product((0, 1), repeat=len(PAIRS)):
        matrix = np.zeros((4, 4), dtype=bool)
        for (i, j), there in zip(PAIRS, chosen, strict=True):
            matrix[i, j] = matrix[j, i] = there
        drawn[chosen] = fake()
        counted(matrix, drawn[chosen], 0.7)
    return max(
        loss(drawn[a], drawn[b])
        for a, b in itertools.permutations(drawn, 2)
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1
    )


def worst_of_trees() -> float:
    drawn = {}
    for weights in itertools.product((0, 1, 4), repeat=3):
        drawn[weights] = fake()
        spanned(weights, 4, drawn[weights], 0.7)
    return max(
        loss(drawn[a], drawn[b])
        for a, b in itertools.permutations(drawn, 2)
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1
    )


@pytest.mark.parametrize("worst", [worst_of_triangles, worst_of_trees])
def test_no_pair_of_small_graphs_is_told_apart(worst: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the audit sees the local sensitivity in the place of the smooth one, and half of the noise."""
    assert worst() <= 0.7
    real = graph_values.smooth_bound
    for planted in (lambda local, beta: float(local[0]), lambda local, beta: real(local, beta) / 2):
        monkeypatch.setattr(graph_values, "smooth_bound", planted)
        assert worst() > 0.7


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"edges": [(0, 1)], "weights": [1]}, "connected"),
        ({"edges": [(0, 1), (1, 1)], "weights": [1, 1]}, "two different ones"),
        ({"edges": [(0, 1), (1, 5)], "weights": [1, 1]}, "vertices are 0 to 2"),
        ({"weights": [1]}, "as many weights"),
        ({"upper": 0}, "less than"),
        ({"epsilon": 1e-9}, "too little"),
    ],
)
def test_refusals_of_trees(given: dict[str, Any], words: str) -> None:
    asked = {"edges": LOOP, "weights": [1, 2, 3], "upper": 3, "vertices": 3, **given}
    with pytest.raises(InputError, match=words):
        spanning_tree_cost(**asked)


def test_refusals_of_triangles_and_odd_weights() -> None:
    with pytest.raises(InputError, match="symmetric"):
        triangle_count(np.array([[0, 1], [0, 0]]))
    made = spanned([math.nan, -math.inf, 99], 6, fake())
    assert made.value == 6


@pytest.mark.parametrize("odd", ["CANARY", 10**400, math.inf, None, "nan", [1]])
def test_a_weight_that_is_no_number_is_the_largest_and_nothing_is_said_of_it(odd: Any) -> None:
    """One private weight must not decide whether the run succeeds, nor be quoted."""
    assert spanned([1, odd, 4], 6, fake()).value == 5
    assert spanned([1, odd, odd], 6, fake()).value == 7


@pytest.mark.parametrize("graph", [[[1], [1, 2]], np.zeros((0, 0), dtype=bool), [[0, "x"], ["y"]]])
def test_what_is_no_graph_is_refused_in_one_line(graph: Any) -> None:
    noise = fake()
    with pytest.raises(InputError, match=r"graph|adjacency") as refused:
        counted(graph, noise)
    assert not noise.calls and refused.value.__suppress_context__ | (refused.value.__context__ is None)
    with pytest.raises(InputError, match="edges"):
        cost_of_tree(WeighedGraph([(0, 1), (2,)], [1, 2], Grid.of(0, 6), 3), Booking(), noise=noise)  # type: ignore[list-item]


def test_a_ledger_of_other_neighbours_refuses_a_tree(tmp_path: Path) -> None:
    """Another weight is an exchange: a cap that is about edges added or removed says nothing of it."""
    file = LedgerFile.create(tmp_path / "books")
    file.add("roads", Cap.of(3.0, 0.0), Neighbours.ADD_REMOVE, 1)
    with pytest.raises(InputError, match="neighbours"):
        spanning_tree_cost(LOOP, [6, 1, 4], upper=6, vertices=3, ledger=file.path, dataset="roads")
