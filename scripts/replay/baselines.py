"""What the paper's figures compare with, each as short as it goes. NOT PRIVATE: floating-point noise from a
seeded generator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from factored_mwem.kernels.dense import FLOOR
from factored_mwem.workload.queries.ranges import Ranges

Shape = tuple[int, ...]


def svd_bound(gram: np.ndarray, columns: int) -> float:
    """(sum of singular values)^2 / columns of a workload matrix W, from W W^T: the least squared error of any
    matrix mechanism is this times P.

    Source: Li and Miklau, "Measuring the achievable error of query sets under differential privacy", Theorem
    4.
    """
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(gram.astype(np.float64)), 0)).sum() ** 2 / columns)


def gram_of_ranges(ranges: Ranges) -> np.ndarray:
    """W W^T of boxes: the cells that each two have in common."""
    common = np.ones((len(ranges.low), len(ranges.low)))
    for low, high in zip(ranges.low.T, ranges.high.T, strict=True):
        common *= np.maximum(np.minimum.outer(high, high) - np.maximum.outer(low, low) + 1, 0)
    return common


def noise_of_matrix_mechanism(epsilon: float, delta: float) -> float:
    """P: the variance of the noise on a query of sensitivity 1: Gaussian, or Laplace where delta is 0.

    Both are divided by the strategy's sensitivity squared, in the Euclidean norm and in the sum of absolute
    values, which is never less. So svd_bound times P holds for strategies with this noise: one with Laplace
    noise may lie below the bound for Gaussian noise, where its sensitivity squared is below log(2 / delta).
    """
    return 2 * (math.log(2 / delta) if delta else 1.0) / epsilon**2


def identity(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Every cell with noise of its own."""
    return counts + rng.laplace(scale=1 / epsilon, size=counts.shape)


def branching(cells: int, axes: int) -> int:
    """The number of parts per axis and level for which the mean range query has the least variance.

    Source: Qardaji, Yang and Li, "Understanding hierarchical methods for differentially private histograms",
    section 3: a tree of height h adds noise of variance h^2 to each of the (b - 1) h - 2 (b + 1) / 3 nodes
    that a range on one axis needs; on more axes the power of that.
    """
    heights = {b: height_of(cells, b) for b in range(2, cells + 1)}
    return min(
        heights, key=lambda b: (heights[b] ** 2 * max((b - 1) * heights[b] - 2 * (b + 1) / 3, 1.0) ** axes, b)
    )


def height_of(cells: int, b: int) -> int:
    """The levels below the root of a tree with b parts a node."""
    return max(1, math.ceil(math.log(cells) / math.log(b) - 1e-9))


def hierarchy(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """HB: noisy counts of all nodes of a tree over blocks of cells, made consistent by least squares; the
    root, the number of rows, is known.

    Cells beyond the domain that fill the last blocks are measured like the others. Consistency as in Hay et
    al., "Boosting the accuracy of differentially private histograms through consistency", section 4: once up
    the tree, once down.
    """
    axes = counts.ndim
    b = branching(max(counts.shape), axes)
    height = height_of(max(counts.shape), b)
    levels = [np.pad(counts.astype(np.float64), [(0, b**height - size) for size in counts.shape])]
    while len(levels) < height:
        levels.append(blocks(levels[-1], b))
    noisy = [level + rng.laplace(scale=height / epsilon, size=level.shape) for level in levels]
    best, fan = [noisy[0]], b**axes
    for i in range(1, height):
        below, power = blocks(best[-1], b), fan ** (i + 1)
        best.append((power - fan**i) / (power - 1) * noisy[i] + (fan**i - 1) / (power - 1) * below)
    parent = np.full((1,) * axes, float(counts.sum()))
    for level in reversed(best):
        spread = (parent - blocks(level, b)) / fan
        for axis in range(axes):
            spread = np.repeat(spread, b, axis=axis)
        parent = level + spread
    return parent[tuple(slice(size) for size in counts.shape)]


def blocks(table: np.ndarray, b: int) -> np.ndarray:
    """Sums of b neighbours along every axis."""
    for axis in range(table.ndim):
        table = np.add.reduceat(table, np.arange(0, table.shape[axis], b), axis=axis)
    return table


def log_linear(
    counts: np.ndarray, shape: Shape, order: int, *, sweeps: int = 400, close: float = 1e-7
) -> np.ndarray:
    """Iterative proportional fitting of all marginals of `order` attributes, not private: shares of all
    cells, the floor of every method.
    """
    shares = (counts / counts.sum()).reshape(shape)
    fitted = np.full(shape, 1 / counts.size)
    others = [
        tuple(a for a in range(len(shape)) if a not in kept)
        for kept in itertools.combinations(range(len(shape)), order)
    ]
    wanted = [shares.sum(axis=rest, keepdims=True) for rest in others]
    for _ in range(sweeps):
        worst = 0.0
        for rest, goal in zip(others, wanted, strict=True):
            now = fitted.sum(axis=rest, keepdims=True)
            worst = max(worst, float(np.abs(now - goal).sum()))
            fitted *= np.divide(goal, now, out=np.zeros_like(goal), where=now > 0)
        if worst < close:
            break
    return fitted.ravel()


def relative_entropy(counts: Sequence[int] | np.ndarray, shares: np.ndarray) -> float:
    """Of the data to a model, in nats: sum of p log(p / q) over the cells that hold anyone."""
    p = np.asarray(counts, dtype=np.float64) / np.sum(counts)
    some = p > 0
    return float((p[some] * np.log(p[some] / np.maximum(shares[some], FLOOR))).sum())


NOTHING = 1e-280
"""A share below this is one that the floor of 1e-300 keeps from being zero."""


def floored(counts: np.ndarray, shares: np.ndarray) -> int:
    """1 where a model gives a cell that holds someone nothing but the floor: its relative entropy is then a
    matter of the floor, and infinite or beyond floating point without it. Else 0.
    """
    return int(bool((shares[np.asarray(counts) > 0] < NOTHING).any()))
