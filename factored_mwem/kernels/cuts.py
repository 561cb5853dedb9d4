"""Kernels of cuts: sums over, and factors for, the pairs of a graph that a cut holds.

Pairs are numbered row after row of the upper triangle, see domain/vertices.py. A cut holds the pair (i, j)
where i is in S and j in T, or j in S and i in T. Rows of vertices in neither are passed over.
"""

from __future__ import annotations

import numpy as np

from factored_mwem.kernels import compiled


@compiled
def cut_sum(weights, sources, targets):
    """The sum of `weights: float64 or int32[pair]` over the cut of `sources` and `targets: bool[vertex]`,
    in the precision of float64.
    """
    n, total, at = len(sources), 0.0, 0
    for i in range(n):
        if sources[i] or targets[i]:
            row = 0.0
            for j in range(i + 1, n):
                if (sources[i] and targets[j]) or (targets[i] and sources[j]):
                    row += weights[at + j - i - 1]
            total += row
        at += n - i - 1
    return total


@compiled
def cut_multiply(weights, sources, targets, factor, floor):
    """Multiply the weights of the cut's pairs, `weights: float64[pair]`, by `factor`, to no less than
    `floor`; in place. What the sum of all weights changes by.
    """
    n, change, at = len(sources), 0.0, 0
    for i in range(n):
        if sources[i] or targets[i]:
            for j in range(i + 1, n):
                if (sources[i] and targets[j]) or (targets[i] and sources[j]):
                    before = weights[at + j - i - 1]
                    after = max(before * factor, floor)
                    weights[at + j - i - 1] = after
                    change += after - before
        at += n - i - 1
    return change


@compiled
def bilinear(weights, first, second):
    """The sum of `weights: float64 or int32[pair]` times first[i] second[j] + first[j] second[i]."""
    n, total, at = len(first), 0.0, 0
    for i in range(n):
        row = 0.0
        for j in range(i + 1, n):
            row += weights[at + j - i - 1] * (first[i] * second[j] + first[j] * second[i])
        total += row
        at += n - i - 1
    return total


def unpack(weights: np.ndarray, vertices: int, out: np.ndarray) -> None:
    """Into `out: float64 or float32[vertex, vertex]` the symmetric matrix of `weights: [pair]`, its diagonal
    0.
    """
    at = 0
    for i in range(vertices):
        out[i, i] = 0
        row = weights[at : at + vertices - i - 1]
        out[i, i + 1 :] = out[i + 1 :, i] = row
        at += len(row)


def pack(matrix: np.ndarray, out: np.ndarray) -> None:
    """Into `out: [pair]` the upper triangle of `matrix: [vertex, vertex]`, row after row."""
    np.concatenate([matrix[i, i + 1 :] for i in range(len(matrix))], out=out)


def largest_pair(first: np.ndarray, second: np.ndarray) -> int:
    """The largest first[i] second[j] + first[j] second[i] over i < j of two int64[vertex], none below 0."""
    pairs = ((first[i] * second[i + 1 :] + first[i + 1 :] * second[i]).max() for i in range(len(first) - 1))
    return max(map(int, pairs), default=0)
