"""Smooth sensitivity: local sensitivities at every distance, exactly, and what noise they call for.

Pure functions of numbers that the caller holds: NOT PRIVATE by themselves. A^(k) is the largest local
sensitivity among inputs that differ from this one in at most k rows (weights, edges); the smooth
sensitivity is max over k of e^{-beta k} A^(k), the least beta-smooth bound that there is. Source: Nissim,
Raskhodnikova, Smith 2007 (STOC), section 3; what one row may do is said at each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from factored_mwem.errors import InputError
from factored_mwem.kernels.smoothing import cut_sizes

MOST_EDGES = 2_000
"""Of a graph whose spanning tree is asked for: time grows with the square of it, times a cut's."""
MOST_VERTICES = 20_000
"""Of a graph whose triangles are counted: all pairs of vertices are looked at."""


def local_of_order(values: Sequence[int], rank: int, top: int) -> np.ndarray:
    """int64[k], k = 0..n: A^(k) of the value at `rank` (from 1) of values in 0..`top`, one of which is
    replaced: max over t in 0..k+1 of x_{rank+t} - x_{rank+t-k-1}, with 0 before the first and `top` after the
    last. Minimum: rank 1; maximum: rank n; median of odd n: (n + 1) / 2. O(n^2).

    >>> local_of_order([0, 1, 2, 3, 4], 3, 4)
    array([1, 2, 3, 4, 4, 4])
    """
    ordered = np.sort(np.clip(np.asarray(values, dtype=np.int64), 0, top))
    n = len(ordered)
    padded = np.concatenate([np.zeros(n + 2, np.int64), ordered, np.full(n + 2, top, np.int64)])
    first = n + 1  # padded[first + i] is x_i
    at = first + rank
    return np.array(
        [(padded[at : at + k + 2] - padded[at - k - 1 : at + 1]).max() for k in range(n + 1)], dtype=np.int64
    )


def triangles(adjacency: np.ndarray) -> int:
    """The triangles of an undirected graph, `adjacency: bool[vertex, vertex]`, without loops."""
    graph = _graph(adjacency)
    return int(((graph @ graph).astype(np.int64) * (graph > 0)).sum()) // 6


def local_of_triangles(adjacency: np.ndarray) -> np.ndarray:
    """int64[k]: A^(k) of the number of triangles under edge privacy (an edge more or less), up to where it is
    n - 2 and stays: max over pairs of min(a + (k + min(k, b)) // 2, n - 2), with a the common neighbours of
    both, b those of one alone. Source: Nissim, Raskhodnikova, Smith 2007, Claim 3.13.

    >>> local_of_triangles(np.ones((4, 4), dtype=bool) & ~np.eye(4, dtype=bool))
    array([2])
    """
    graph = _graph(adjacency)
    n = len(graph)
    if n < 3:
        return np.zeros(1, dtype=np.int64)
    common = (graph @ graph).astype(np.int64)
    degree, edge = graph.sum(axis=1).astype(np.int64), graph.astype(np.int64)
    alone = degree[:, None] + degree[None, :] - 2 * common - 2 * edge
    pairs = np.triu_indices(n, 1)
    best = np.full(n - 1, -1, dtype=np.int64)  # of each number of common neighbours, the largest b
    np.maximum.at(best, common[pairs], alone[pairs])
    (a,) = np.nonzero(best >= 0)
    local = list[int]()
    while not local or local[-1] < n - 2:
        k = len(local)
        local.append(int(np.minimum(a + (k + np.minimum(k, best[a])) // 2, n - 2).max()))
    return np.array(local, dtype=np.int64)


def check_graph(adjacency: np.ndarray) -> None:
    """Raises InputError for what is no undirected graph without loops, or has too many vertices."""
    shape = adjacency.shape
    square = adjacency.ndim == 2 and shape[0] == shape[1]
    if not square or not shape[0] or (adjacency != adjacency.T).any() or adjacency.diagonal().any():
        raise InputError("adjacency must be a square, symmetric matrix with 0 on its diagonal, not empty")
    if shape[0] > MOST_VERTICES:
        raise InputError(f"triangles are counted for up to {MOST_VERTICES:,} vertices, not {shape[0]:,}")


def _graph(adjacency: np.ndarray) -> np.ndarray:
    """float32[vertex, vertex], exact below 2^24: no vertex has so many neighbours. InputError as above."""
    graph = np.asarray(adjacency).astype(bool)
    check_graph(graph)
    return graph.astype(np.float32)


def spanning_tree(edges: Sequence[tuple[int, int]], weights: Sequence[int], vertices: int) -> int:
    """The cost of a minimum spanning tree of a connected public graph (Kruskal)."""
    parent = list(range(vertices))

    def root(v: int) -> int:
        while parent[v] != v:
            parent[v] = v = parent[parent[v]]
        return v

    cost = joined = 0
    for weight, (a, b) in sorted(zip(map(int, weights), edges, strict=True)):
        if root(a) != root(b):
            parent[root(a)], cost, joined = root(b), cost + weight, joined + 1
    if joined != vertices - 1:
        raise InputError("a spanning tree needs a graph that is connected")
    return cost


def local_of_spanning_tree(
    edges: Sequence[tuple[int, int]], weights: Sequence[int], top: int, vertices: int
) -> np.ndarray:
    """int64[k]: A^(k) of the cost of a minimum spanning tree of a public graph whose edges' weights, in
    0..`top`, are private, one of which is replaced; up to where it is `top` and stays.

    It is the max over cuts of max(w_{k+1}, w_{k+2} - w_1), w_t the t-th lightest edge of the cut, `top` where
    there are fewer (their Lemma 3.5). The first is the largest W for which a cut has at most k edges lighter
    than W; the second the largest W - w_e for which a cut that holds e has at most k + 1 of them, e counted.
    Both are smallest cuts without weights: polynomial.
    """
    spanning_tree(edges, weights, vertices)
    if len(edges) > MOST_EDGES:
        raise InputError(f"the spanning tree is for up to {MOST_EDGES:,} edges, not {len(edges):,}")
    weight = np.clip(np.asarray(weights, dtype=np.int64), 0, top)
    order = np.argsort(weight, kind="stable")
    weight, sorted_edges = weight[order], np.asarray(edges, dtype=np.int64)[order]
    levels = np.unique(np.append(weight, top))
    whole, holding = cut_sizes(sorted_edges, np.searchsorted(weight, levels, side="left"), vertices)
    gaps = levels[:, None] - weight[None, :]
    local = list[int]()
    while not local or local[-1] < top:
        k = len(local)
        first = levels[whole <= k].max(initial=0)
        local.append(int(max(first, gaps[holding <= k + 1].max(initial=0))))
    return np.array(local, dtype=np.int64)
