"""Kernels of smooth sensitivity: the widest gap of order statistics at a discount, and cuts of graphs."""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.kernels import I8, I8x2, compiled


@compiled
def widest_gap(left: I8, right: I8, group: int, beta: float) -> float:
    """max over i, j >= 0 of (right[j] - left[i]) exp(-beta max(0, i + j - group) / group).

    `left` descends and `right` ascends, so that the best j for an i never rises with i: where i is larger,
    left[i] is smaller, and a further step to the right gains less in proportion. Divide and conquer over i:
    O(n log n). Pairs closer together than `group` need no look: a pair just `group` apart has at least their
    gap.
    """
    best, least = 0.0, max(0, group - (len(right) - 1))
    rows, last = len(left), len(right) - 1
    stack = np.empty((2 * (int(math.log2(rows + 1)) + 2) + 2, 4), dtype=np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = least, rows - 1, 0, last
    depth = 1
    if least > rows - 1:  # the group is wider than all there is
        return float(right[last] - left[rows - 1])
    while depth > 0:
        depth -= 1
        low, high, first, final = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        i = (low + high) // 2
        at, widest = -1, -1.0
        for j in range(max(first, group - i), final + 1):
            value = (right[j] - left[i]) * math.exp(-beta * (i + j - group) / group)
            if value > widest:
                widest, at = value, j
        best = max(best, widest)
        if at < 0:
            at = final
        if low < i:
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = low, i - 1, at, final
            depth += 1
        if i < high:
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = i + 1, high, first, at
            depth += 1
    return best


@compiled
def smallest_cut(edges: I8x2, used: int, more: int, source: int, sink: int, vertices: int) -> int:
    """Edges in a smallest cut between two vertices, of the first `used` of `edges: int64[edge, 2]`, which are
    undirected, and of edge `more` where it is beyond those (none: -1). Augmenting paths, breadth first.
    """
    total = used + (1 if more >= used else 0)
    flow = np.zeros(total, dtype=np.int64)  # +1 along the edge as written, -1 against it
    paths = 0
    while True:
        reached = np.full(vertices, -2, dtype=np.int64)
        reached[source] = -1
        grown = True
        while grown and reached[sink] == -2:
            grown = False
            for e in range(total):
                which = e if e < used else more
                a, b = edges[which, 0], edges[which, 1]
                if reached[a] != -2 and reached[b] == -2 and flow[e] < 1:
                    reached[b], grown = e, True
                elif reached[b] != -2 and reached[a] == -2 and flow[e] > -1:
                    reached[a], grown = e, True
        if reached[sink] == -2:
            return paths
        paths += 1
        at = sink
        while at != source:
            e = reached[at]
            which = e if e < used else more
            if edges[which, 1] == at:
                flow[e] += 1
                at = edges[which, 0]
            else:
                flow[e] -= 1
                at = edges[which, 1]


@compiled
def cut_sizes(edges: I8x2, begins: I8, vertices: int) -> tuple[np.ndarray, np.ndarray]:
    """For each threshold t, of the first begins[t] of `edges` (ascending by weight): the edges in a smallest
    cut, and in a smallest cut that holds edge e, which is counted though it may be heavier: int64[t] and
    int64[t, e].
    """
    thresholds, count = len(begins), len(edges)
    whole = np.zeros(thresholds, dtype=np.int64)
    holding = np.zeros((thresholds, count), dtype=np.int64)
    for t in range(thresholds):
        used = begins[t]
        least = used + 1
        for v in range(1, vertices):
            least = min(least, smallest_cut(edges, used, -1, 0, v, vertices))
        whole[t] = least
        for e in range(count):
            holding[t, e] = smallest_cut(edges, used, e, edges[e, 0], edges[e, 1], vertices)
    return whole, holding
