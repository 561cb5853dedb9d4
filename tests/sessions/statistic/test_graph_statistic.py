"""Triangles and spanning trees through the door: true values, charges, an audit of small graphs, refusals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from support.drawing import drawing
from support.fakes import FakeNoise
from support.graphs import adjacency

from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import InputError
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.privacy.noise import spread_scale
from factored_mwem.privacy.other import graph_values
from factored_mwem.sessions.statistic import GraphStatistic, spanning_tree_cost, triangle_count

PAIRS = list(itertools.combinations(range(4), 2))
LOOP = [(0, 1), (1, 2), (0, 2)]


def drawn(ask: Callable[..., GraphStatistic], *given: Any, **more: Any) -> tuple[GraphStatistic, FakeNoise]:
    """The statistic without noise, and what noise was asked for."""
    noise = FakeNoise(Composition.PURE)
    with drawing(noise):
        return ask(*given, **more), noise


spanned = partial(drawn, spanning_tree_cost, LOOP, vertices=3)


def test_true_values_without_noise() -> None:
    karate = nx.karate_club_graph()
    made, _ = drawn(triangle_count, karate)
    assert made.value == sum(nx.triangles(karate).values()) / 3 == 45
    assert made.statement.guarantee.unit == "one edge added or removed"
    weighted = nx.Graph()
    weighted.add_weighted_edges_from([(0, 1, 6), (1, 2, 1), (0, 2, 4)])
    tree, _ = spanned([6, 1, 4], upper=6)
    assert tree.value == nx.minimum_spanning_tree(weighted).size(weight="weight") == 5
    assert tree.statement.recompute() == tree.statement.guarantee.spent_epsilon <= 1
    relations = [each.statement.guarantee.neighbours for each in (made, tree)]
    assert relations == ["add-remove", "replace"]


def loss(one: FakeNoise, other: FakeNoise) -> float:
    """The largest log ratio of two discrete Cauchys, over all places that matter."""
    (a, bound, _), (b, other_bound, _) = one.calls[0].values, other.calls[0].values  # type: ignore[misc]
    s, t = (float(spread_scale(x, one.calls[0].scale)) for x in (bound, other_bound))
    around = np.round(np.geomspace(1, 2.0**60, 4000))
    y = np.concatenate([center + sign * around for center in (a, b) for sign in (-1, 1)])
    return float(np.abs(np.log(s / t) - np.log(s * s + (y - a) ** 2) + np.log(t * t + (y - b) ** 2)).max())


def of_triangles(chosen: tuple[int, ...]) -> FakeNoise:
    return drawn(triangle_count, adjacency(4, itertools.compress(PAIRS, chosen)) > 0, epsilon=0.7)[1]


def of_trees(weights: tuple[int, ...]) -> FakeNoise:
    return spanned(weights, upper=4, epsilon=0.7)[1]


KINDS = [
    (of_triangles, itertools.product((0, 1), repeat=6)),
    (of_trees, itertools.product((0, 1, 4), repeat=3)),
]


@pytest.mark.parametrize(("noise_of", "inputs"), KINDS)
def test_small_graphs_are_not_told_apart(noise_of: Any, inputs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the audit sees the local sensitivity in the place of the smooth one, and half of the noise."""
    every = list(inputs)
    pairs = [(a, b) for a, b in itertools.permutations(every, 2) if np.count_nonzero(np.subtract(a, b)) == 1]

    def worst() -> float:
        calls = {each: noise_of(each) for each in every}
        return max(loss(calls[a], calls[b]) for a, b in pairs)

    assert worst() <= 0.7
    real = graph_values.smooth_bound
    for planted in (lambda local, beta: float(local[0]), lambda local, beta: real(local, beta) / 2):
        monkeypatch.setattr(graph_values, "smooth_bound", planted)
        assert worst() > 0.7


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"edges": [(0, 1), (2,)], "weights": [1, 2]}, "edges"),
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


@pytest.mark.parametrize("odd", ["CANARY", 10**400, math.inf, math.nan, 99, None, "nan", [1]])
def test_a_weight_that_is_no_number_is_the_largest_and_nothing_is_said_of_it(odd: Any) -> None:
    """One private weight must not decide whether the run succeeds, nor be quoted."""
    assert spanned([1, odd, 4], upper=6)[0].value == 5
    assert spanned([1, odd, odd], upper=6)[0].value == 7
    assert spanned([-math.inf, -math.inf, odd], upper=6)[0].value == 0


@pytest.mark.parametrize(
    "graph", [[[1], [1, 2]], np.zeros((0, 0), dtype=bool), [[0, "x"], ["y"]], np.array([[0, 1], [0, 0]])]
)
def test_what_is_no_graph_is_refused_in_one_line(graph: Any) -> None:
    noise = FakeNoise(Composition.PURE)
    with pytest.raises(InputError, match=r"graph|adjacency|symmetric") as refused, drawing(noise):
        triangle_count(graph, epsilon=1.0)
    assert not noise.calls and refused.value.__suppress_context__ | (refused.value.__context__ is None)


def test_a_ledger_of_other_neighbours_refuses_a_tree(tmp_path: Path) -> None:
    """Another weight is an exchange: a cap that is about edges added or removed says nothing of it."""
    file = LedgerFile.create(tmp_path / "books")
    file.add("roads", Cap.of(3.0, 0.0), Neighbours.ADD_REMOVE, 1)
    with pytest.raises(InputError, match="neighbours"):
        spanning_tree_cost(LOOP, [6, 1, 4], upper=6, vertices=3, ledger=file.path, dataset="roads")
