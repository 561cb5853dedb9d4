"""Kernels that read many copies of a clique tree at once: the same tree, other beliefs in each copy."""

from __future__ import annotations

from factored_mwem.kernels import compiled
from factored_mwem.kernels.dense import marginal_into


@compiled
def summed(tables, start, head, tail, out):
    """Add the cells of a clique, `tables: float[copy, start + cell]`, up to `out: float64[copy, reduced
    cell]`; (head, tail) is the map from the one to the other, see kernels/dense.py.
    """
    cells = len(head) * len(tail)
    for b in range(len(out)):
        marginal_into(tables[b, start : start + cells], head, tail, out[b])


@compiled
def joined(left, given, at, row, out):
    """Add left[b, u, w] * given[b, at[u], x] to out[b, row[u], w, x], for all of copies, u, w and x."""
    for b in range(len(out)):
        for u in range(len(at)):
            source, sink = given[b, at[u]], out[b, row[u]]
            for w in range(left.shape[2]):
                weight, target = left[b, u, w], sink[w]
                for x in range(len(source)):
                    target[x] += weight * source[x]
