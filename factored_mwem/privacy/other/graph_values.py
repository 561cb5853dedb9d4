"""Two numbers of a private graph: its triangles, and the cost of its minimum spanning tree.

Triangles: the edges are private, one of them more or less is what neighbours differ in; the vertices are
public. Spanning tree: the edges are public and their weights private, on a public grid; neighbours differ
in the weight of one edge. Neither protects a person who has several edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from factored_mwem.privacy.other.column import GRAINS
from factored_mwem.privacy.other.local import (
    local_of_spanning_tree,
    local_of_triangles,
    spanning_tree,
    triangles,
)
from factored_mwem.privacy.other.order import smooth_bound
from factored_mwem.privacy.rows import Sealed
from factored_mwem.tables.inputs.source import Private

TRIANGLE_GRAINS = 2**10
"""Units of noise to a triangle: 20,000 vertices have at most 2^41 of them."""


class GraphValues(Private):
    """What PrivateGraph reveals: the number `_value` and `_local: int64[k]`, A^(k), in `_grains` to one."""

    __slots__ = ("_grains", "_local", "_value")

    def __init__(self, value: int, local: np.ndarray, grains: int) -> None:
        self._value, self._local, self._grains = value, local, grains

    def value(self, what: Any) -> int:
        """See `smooth.Smooth`."""
        return self._value * self._grains

    def smooth(self, what: Any, beta: float, group: int) -> float:
        """See `smooth.Smooth`: of one edge. The last of A^(k) stays."""
        if group != 1:
            raise AssertionError("one edge is protected, not several")
        return max(1.0, smooth_bound(self._local.tolist(), beta) * self._grains)


class PrivateGraph(Sealed):
    """A number of a private graph; `of_triangles` and `of_spanning_tree` make it."""

    __slots__ = ()

    @classmethod
    def of_triangles(cls, adjacency: np.ndarray) -> PrivateGraph:
        """Of `adjacency: bool[vertex, vertex]`."""
        return cls(GraphValues(triangles(adjacency), local_of_triangles(adjacency), TRIANGLE_GRAINS))

    @classmethod
    def of_spanning_tree(
        cls, edges: Sequence[tuple[int, int]], weights: Sequence[int], top: int, vertices: int
    ) -> PrivateGraph:
        """Of public `edges` with private `weights` in 0..top."""
        cost = spanning_tree(edges, weights, vertices)
        return cls(GraphValues(cost, local_of_spanning_tree(edges, weights, top, vertices), GRAINS))
