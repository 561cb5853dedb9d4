"""Kernels that read many copies of a clique tree at once: the same tree with different beliefs in each
copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import compiled, part


class CliqueMap(NamedTuple):
    """Where a clique's cells begin, and (head, tail), the map to those of a smaller table, see dense.py."""

    start: int
    head: np.ndarray
    tail: np.ndarray


@part
def _add_up(cells, head, tail, out):
    """`marginal_into` for float32 tables, too: that one is compiled for float64 only."""
    width = len(tail)
    for h in range(len(head)):
        for t in range(width):
            out[head[h] + tail[t]] += cells[h * width + t]


@compiled
def summed(tables, clique, out):
    """Add the cells of a clique, `tables: float[copy, start + cell]`, up to `out: float64[copy, reduced
    cell]`.
    """
    start, head, tail = clique
    cells = len(head) * len(tail)
    for b in range(len(out)):
        _add_up(tables[b, start : start + cells], head, tail, out[b])


@compiled
def passed(tables, clique, conditional, at, row, out):
    """`summed` and `joined` in one loop over the copies, so that the sums stay in the processor's cache."""
    start, head, tail = clique
    cells, width, reduced = len(head) * len(tail), conditional.shape[2], np.empty(len(at))
    for b in range(len(out)):
        reduced[:] = 0.0
        _add_up(tables[b, start : start + cells], head, tail, reduced)
        other, sink = conditional[b], out[b]
        for u in range(len(at)):
            r, s, weight = (
                np.uint64(row[u]),
                np.uint64(at[u]),
                reduced[u],
            )  # unsigned: no check for an index from the end
            for x in range(width):
                sink[r, x] += weight * other[s, x]


@compiled
def joined(left, conditional, at, row, out):
    """Add left[b, u, w] * conditional[b, at[u], x] to out[b, row[u], w * width + x], for all copies b and all
    u, w and x; `width` is the length of the axis x.
    """
    wide, width = left.shape[2], conditional.shape[2]
    for b in range(len(out)):
        source, other, sink = left[b], conditional[b], out[b]
        for u in range(len(at)):
            r, s = np.uint64(row[u]), np.uint64(at[u])  # unsigned: no check for an index from the end
            for w in range(wide):
                weight = source[u, w]
                for x in range(width):
                    sink[r, w * width + x] += weight * other[s, x]
