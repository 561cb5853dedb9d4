"""Triangles and the cost of a minimum spanning tree of a private graph, by smooth sensitivity.

Source: Nissim, Raskhodnikova, Smith 2007, sections 3.2 and 3.3.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

import numpy as np

from factored_mwem.accounting.admissible import Shape
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import InputError
from factored_mwem.ledger.run import Booking
from factored_mwem.pipeline.record.assumptions import Assumption
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.spending import Spending, Spent
from factored_mwem.privacy.other.column import GRAINS
from factored_mwem.privacy.other.graph_values import TRIANGLE_GRAINS, PrivateGraph
from factored_mwem.privacy.other.local import check_graph, spanning_tree
from factored_mwem.privacy.other.smooth import constants, measure_smooth
from factored_mwem.request.promise import Books, Promise
from factored_mwem.sessions.statistic.grid import Grid

ONE_EDGE = Assumption(
    statement="one edge is protected; what several edges of one person show together is not", enforced=False
)
VERTICES = Assumption(statement="the vertices, and how many there are, are public", enforced=False)
EDGES = Assumption(
    statement="which edges there are is public: their weights alone are private", enforced=False
)


@dataclass(frozen=True, slots=True)
class GraphStatistic:
    """A released statistic of a graph; all of it may be published."""

    value: float
    statement: Statement


def triangle_count(
    graph: Any, *, epsilon: float = 1.0, delta: float = 0.0, **books: Unpack[Books]
) -> GraphStatistic:
    """The triangles of an undirected graph, one edge more or less protected; the vertices are public.

    `graph`: `bool[vertex, vertex]`, or a graph of networkx. Cauchy noise, which is pure; with a delta Laplace
    noise. InputError or BudgetExceeded before anything is spent.

    >>> import numpy as np
    >>> from factored_mwem.sessions.statistic import triangle_count
    >>> triangles = triangle_count(~np.eye(30, dtype=bool), epsilon=1.0)
    >>> 0 <= triangles.value <= 4060
    True
    """
    matrix = _matrix(graph)
    check_graph(matrix)
    n = len(matrix)
    promise = Promise.made({"epsilon": epsilon, "delta": delta})
    packed = np.packbits(matrix).tobytes()
    most = n * (n - 1) * (n - 2) // 6
    spending = _spending("triangles", promise, {"vertices": n}, packed)
    with spending.opened(Booking(**books)) as spent:
        grains = _drawn(spent, lambda: PrivateGraph.of_triangles(matrix))
        value = min(max(grains / TRIANGLE_GRAINS, 0.0), float(most))
        known = {"edge": ONE_EDGE, "vertices": VERTICES}
        return GraphStatistic(value, spent.statement(known, value=value))


def spanning_tree_cost(
    edges: Sequence[tuple[int, int]],
    weights: Sequence[float],
    *,
    upper: float,
    vertices: int,
    grid: float | None = None,
    epsilon: float = 1.0,
    delta: float = 0.0,
    **books: Unpack[Books],
) -> GraphStatistic:
    """The cost of a minimum spanning tree of a connected public graph, one edge's private weight protected.

    `edges` of vertices 0..vertices - 1; `weights` are brought to 0..upper, in steps of `grid`; the rest as of
    `triangle_count`. Raises InputError for an edge with an unknown vertex or the same one twice.

    >>> from factored_mwem.sessions.statistic import spanning_tree_cost
    >>> cost = spanning_tree_cost([(0, 1), (1, 2), (0, 2)], [6, 1, 4], upper=6, vertices=3)
    >>> 0 <= cost.value <= 12
    True
    """
    steps = Grid.of(0, upper, grid)
    try:
        pairs = np.asarray(edges)
    except ValueError:
        pairs = np.zeros(0)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or len(weights) != len(pairs):
        raise InputError("edges: two numbers of vertices each are needed, and as many weights")
    if pairs.min() < 0 or pairs.max() >= vertices or (pairs[:, 0] == pairs[:, 1]).any():
        raise InputError(f"edges: vertices are 0 to {vertices - 1}, and two different ones each")
    listed = [(int(a), int(b)) for a, b in pairs]
    spanning_tree(listed, [0] * len(listed), vertices)  # it refuses a graph that is not connected
    known = np.array([_weight(weight, steps.upper) for weight in weights])
    cells = np.rint(known / steps.step).astype(np.int64)
    settings = {"edges": listed, "vertices": vertices, "upper": steps.upper, "cells": steps.cells}
    promise = Promise.made({"epsilon": epsilon, "delta": delta, "neighbours": Neighbours.REPLACE})
    top = steps.cells - 1
    spending = _spending("spanning tree", promise, settings, cells.tobytes())
    with spending.opened(Booking(**books)) as spent:
        grains = _drawn(spent, lambda: PrivateGraph.of_spanning_tree(listed, cells.tolist(), top, vertices))
        value = min(max(grains, 0), top * (vertices - 1) * GRAINS) / GRAINS * steps.step
        return GraphStatistic(value, spent.statement({"edge": ONE_EDGE, "edges": EDGES}, value=value))


def _weight(value: Any, upper: float) -> float:
    """A private weight, clipped to 0 and `upper`; a value that is no number counts as `upper`, without a
    message.
    """
    try:
        weight = float(value)
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    return upper if math.isnan(weight) else min(max(weight, 0.0), upper)


def _spending(kind: str, promise: Promise, settings: dict[str, Any], private: bytes) -> Spending:
    """The ledger entry of a statistic of a graph; `private`: the bytes of the graph, for its fingerprint."""
    shape = Shape.LAPLACE if promise.delta else Shape.CAUCHY
    # it refuses an epsilon that is too small
    constants(shape, Fraction(promise.epsilon), Fraction(promise.delta))

    def digest(key: bytes) -> bytes:
        return hmac.digest(key, private, hashlib.sha256)

    return Spending(kind, promise, {**settings, "noise": shape}, digest, events=promise.delta > 0)


def _drawn(spent: Spent, sealed: Callable[[], PrivateGraph]) -> int:
    """The noisy number, in grains; `sealed()` counts it and returns it sealed."""
    grains = measure_smooth(spent.session, sealed(), None, shape=Shape(spent.spending.settings["noise"]))
    spent.drawn()
    return grains


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
    except (ValueError, TypeError):  # its message may quote the value
        raise InputError("graph: bool[vertex, vertex] is needed, or a graph of networkx") from None
