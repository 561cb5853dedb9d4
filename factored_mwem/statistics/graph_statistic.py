"""Triangles and the cost of a minimum spanning tree of a private graph, by smooth sensitivity.

Source: Nissim, Raskhodnikova, Smith 2007, sections 3.2 and 3.3.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.accounting.admissible import Shape
from factored_mwem.accounting.conversion import float_down
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import InputError
from factored_mwem.ledger.run import Booking
from factored_mwem.pipeline.assumptions import Assumption
from factored_mwem.pipeline.statement import Statement, statement_of
from factored_mwem.pipeline.task import Task, opened
from factored_mwem.policy import Policy
from factored_mwem.privacy.column import GRAINS
from factored_mwem.privacy.graph_values import TRIANGLE_GRAINS, PrivateGraph
from factored_mwem.privacy.local import check_graph, spanning_tree
from factored_mwem.privacy.noise import Noise
from factored_mwem.privacy.smooth import constants, measure_smooth
from factored_mwem.statistics.grid import Grid

ONE_EDGE = Assumption(
    statement="what is protected is one edge: what a person's edges say together is not", enforced=False
)
VERTICES = Assumption(statement="the vertices, and how many there are, are public", enforced=False)
EDGES = Assumption(
    statement="which edges there are is public: their weights alone are private", enforced=False
)


@dataclass(frozen=True, slots=True)
class GraphStatistic:
    """What is released: all of it may be published."""

    value: float
    statement: Statement


def triangle_count(
    graph: Any,
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    run_id: str | None = None,
) -> GraphStatistic:
    """The triangles of an undirected graph, one edge more or less protected; the vertices are public.

    `graph`: `bool[vertex, vertex]`, or a graph of networkx. Cauchy noise, which is pure; with a delta Laplace
    noise. InputError or BudgetExceeded before anything is spent.

    >>> import numpy as np
    >>> from factored_mwem.statistics import triangle_count
    >>> found = triangle_count(~np.eye(30, dtype=bool), epsilon=1.0)
    >>> 0 <= found.value <= 4060
    True
    """
    return count_triangles(graph, epsilon, delta, Booking(ledger, dataset, run_id))


def count_triangles(
    graph: Any, epsilon: float, delta: float, booking: Booking, *, noise: Noise | None = None
) -> GraphStatistic:
    """See `triangle_count`. `noise`: as of `opened`."""
    matrix = _matrix(graph)
    check_graph(matrix)
    n = len(matrix)
    asked = _Asked("triangles", epsilon, delta, "one edge added or removed", {"vertices": n})
    packed = np.packbits(matrix).tobytes()
    most = n * (n - 1) * (n - 2) // 6
    told = (ONE_EDGE, VERTICES)
    found, statement = asked.answered(lambda: PrivateGraph.of_triangles(matrix), packed, booking, noise, told)
    return GraphStatistic(min(max(found / TRIANGLE_GRAINS, 0.0), float(most)), statement)


def spanning_tree_cost(
    edges: Sequence[tuple[int, int]],
    weights: Sequence[float],
    *,
    upper: float,
    vertices: int,
    grid: float | None = None,
    epsilon: float = 1.0,
    delta: float = 0.0,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    run_id: str | None = None,
) -> GraphStatistic:
    """The cost of a minimum spanning tree of a connected public graph, one edge's private weight protected.

    `edges` of vertices 0..vertices - 1; `weights` are brought to 0..upper, in steps of `grid`. The rest as of
    `triangle_count`.

    >>> from factored_mwem.statistics import spanning_tree_cost
    >>> found = spanning_tree_cost([(0, 1), (1, 2), (0, 2)], [6, 1, 4], upper=6, vertices=3)
    >>> 0 <= found.value <= 12
    True
    """
    tree = WeighedGraph(edges, weights, Grid.of(0, upper, grid), vertices, epsilon, delta)
    return cost_of_tree(tree, Booking(ledger, dataset, run_id))


@dataclass(frozen=True, slots=True, eq=False)
class WeighedGraph:
    """What `spanning_tree_cost` is asked about, and at what price; the weights are private."""

    edges: Sequence[tuple[int, int]]
    weights: Sequence[float] = field(repr=False)
    grid: Grid
    vertices: int
    epsilon: float = 1.0
    delta: float = 0.0


def cost_of_tree(tree: WeighedGraph, booking: Booking, *, noise: Noise | None = None) -> GraphStatistic:
    """See `spanning_tree_cost`. `noise`: as of `opened`."""
    steps, vertices = tree.grid, tree.vertices
    upper, edges, weights = steps.upper, tree.edges, tree.weights
    try:
        pairs = np.asarray(edges)
    except ValueError:
        pairs = np.zeros(0)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or len(weights) != len(pairs):
        raise InputError("edges: two numbers of vertices each are needed, and as many weights")
    if pairs.min() < 0 or pairs.max() >= vertices or (pairs[:, 0] == pairs[:, 1]).any():
        raise InputError(f"edges: vertices are 0 to {vertices - 1}, and two different ones each")
    listed = [(int(a), int(b)) for a, b in pairs]
    spanning_tree(listed, [0] * len(listed), vertices)  # which refuses what is not connected
    known = np.array([_weight(weight, upper) for weight in weights])
    cells = np.rint(known / steps.step).astype(np.int64)
    settings = {"edges": listed, "vertices": vertices, "upper": upper, "cells": steps.cells}
    unit, relation = "another weight of one edge", Neighbours.REPLACE
    asked = _Asked("spanning tree", tree.epsilon, tree.delta, unit, settings, relation)
    top = steps.cells - 1
    found, statement = asked.answered(
        lambda: PrivateGraph.of_spanning_tree(listed, cells.tolist(), top, vertices),
        cells.tobytes(),
        booking,
        noise,
        (ONE_EDGE, EDGES),
    )
    kept = min(max(found, 0), top * (vertices - 1) * GRAINS)
    return GraphStatistic(kept / GRAINS * steps.step, statement)


def _weight(given: Any, upper: float) -> float:
    """A private weight, from 0 to `upper`; whatever is no number is `upper`, and nothing is said of it."""
    try:
        found = float(given)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    return upper if math.isnan(found) else min(max(found, 0.0), upper)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What both have in common: how a number of a graph is asked for, and whom that protects."""

    kind: str
    epsilon: float
    delta: float
    unit: str
    settings: dict[str, Any]
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def answered(
        self,
        sealed: Any,
        private: bytes,
        booking: Booking,
        noise: Noise | None,
        told: Sequence[Assumption],
    ) -> tuple[int, Statement]:
        """The noisy number in grains; `sealed()` counts it and seals it at once."""
        policy = Policy.of(epsilon=self.epsilon, delta=self.delta, neighbours=self.neighbours)
        shape = Shape.LAPLACE if policy.delta else Shape.CAUCHY
        constants(shape, Fraction(policy.epsilon), Fraction(policy.delta))  # which refuses too little

        def digest(key: bytes) -> bytes:
            return hmac.digest(key, private, hashlib.sha256)

        task = Task(self.kind, policy, {**self.settings, "noise": shape}, digest, events=policy.delta > 0)
        with opened(task, booking, noise=noise) as run:
            session = run.session
            cost, delta = Fraction(float_down(session.left)), session.accountant.budget.discovery_delta
            found = measure_smooth(session, sealed(), None, cost=cost, shape=shape, delta=delta)
            run.drawn()
            statement = statement_of(task, run, unit=self.unit, assumptions=told)
            run.run.finish()
        return found, statement


def _matrix(graph: Any) -> np.ndarray:
    """bool[vertex, vertex] of an array or of a graph of networkx, its vertices in their order."""
    if hasattr(graph, "adjacency") and hasattr(graph, "nodes"):
        place = {vertex: number for number, vertex in enumerate(graph.nodes)}
        matrix = np.zeros((len(place), len(place)), dtype=bool)
        for a, b in graph.edges():
            if a != b:
                matrix[place[a], place[b]] = matrix[place[b], place[a]] = True
        return matrix
    try:
        return np.asarray(graph, dtype=bool)
    except (ValueError, TypeError):  # whose text may quote it
        raise InputError("graph: bool[vertex, vertex] is needed, or a graph of networkx") from None
