"""Norms of symmetric matrices by which graphs are compared: cut norm, normalised cut norm, spectral norm.

In the convention of ordered pairs: ||M||_C = max over S, T of |1_S' M 1_T| and ||M||_N = max of the same over
sqrt(|S| |T|). Nikiforov: ||M||_N <= sigma_1(M) <= O(log n) ||M||_N; the first is Cauchy and Schwarz. A cut in
the convention of unordered pairs is at most 3/2 of ||M||_C, for the edges inside both sets are half of
1_W' M 1_W; where the sets have no common vertex, at most ||M||_C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from factored_mwem.errors import InputError

EXACT_MOST = 16
"""Vertices up to which all sets are enumerated."""
BLOCK = 2**14
"""Sets that one block of `_all_sets` holds."""
STARTS = 8
"""Eigenvectors from whose level sets local search starts."""
LEVELS = 8
"""Level sets of each, at either end."""
CLIMBS = 100
"""Steps of local search at most."""


class SetPair(NamedTuple):
    """A pair of sets, `bool[vertex]`, and 1_S' M 1_T, divided by sqrt(|S| |T|) if that was asked for."""

    value: float
    sources: np.ndarray
    targets: np.ndarray


def cut_norm(matrix: np.ndarray) -> SetPair:
    """The pair of sets with the largest |1_S' M 1_T|: exact, by all S. Given S the best T is known."""
    return _over_all_sets(matrix, _best)


def normalised_cut_norm(matrix: np.ndarray) -> SetPair:
    """The pair of sets with the largest |1_S' M 1_T| / sqrt(|S| |T|): exact, by all S; given S and the size
    of T, the best T is the columns with the largest sums.
    """
    return _over_all_sets(matrix, _best_share)


Best = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From sums float64[set, column] and their sets: the value of the best columns for each set, and these
columns.
"""


def _over_all_sets(matrix: np.ndarray, best_of: Best) -> SetPair:
    best = SetPair(0.0, *(np.zeros((2, len(matrix)), dtype=np.bool_)))
    for sets, sums in _all_sets(matrix):
        for sign in (1, -1):
            values, targets = best_of(sign * sums, sets)
            at = int(np.argmax(values))
            if values[at] > abs(best.value):
                best = SetPair(sign * float(values[at]), sets[at], targets[at])
    return best


def _all_sets(matrix: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(bool[set, vertex], float64[set, column]): blocks of all sets, and the sums of their rows."""
    n = len(matrix)
    if n > EXACT_MOST:
        raise InputError(f"{n} vertices: all sets can be enumerated for at most {EXACT_MOST}")
    for begin in range(0, 2**n, BLOCK):
        numbers = np.arange(begin, min(begin + BLOCK, 2**n))
        sets = (numbers[:, None] >> np.arange(n)) & 1 == 1
        yield sets, sets.astype(np.float64) @ matrix


def spectral_norm(matrix: np.ndarray) -> float:
    """sigma_1 of a symmetric matrix."""
    return float(np.abs(np.linalg.eigvalsh(matrix)).max(initial=0.0))


def search_cuts(matrix: np.ndarray, *, normalised: bool = False) -> list[SetPair]:
    """Pairs of sets with a large |1_S' M 1_T|, or that over sqrt(|S| |T|), the best first: the results of
    local searches from level sets of the top eigenvectors. They bound the norm from below; how far below is
    unknown.
    """
    pairs: dict[bytes, SetPair] = {}
    starts = _starts(matrix)
    for sign in (1, -1):
        values, sources, targets = _climb(sign * matrix, starts, _best_share if normalised else _best)
        for value, s, t in zip(values.tolist(), sources, targets, strict=True):
            pairs[s.tobytes() + t.tobytes()] = SetPair(sign * value, s, t)
    return sorted(pairs.values(), key=lambda each: -abs(each.value))


def _starts(matrix: np.ndarray) -> np.ndarray:
    """bool[start, vertex]: sets to begin from: all vertices, and both ends of the top eigenvectors."""
    n = len(matrix)
    values, vectors = np.linalg.eigh(matrix)
    top = vectors[:, np.argsort(-np.abs(values))[:STARTS]]
    sizes = np.unique(np.geomspace(1, n, LEVELS).astype(int))
    place = np.argsort(np.argsort(top, axis=0), axis=0).T[:, None, :]
    low, high = place < sizes[:, None], place >= n - sizes[:, None]
    return np.concatenate([np.ones((1, n), np.bool_), low.reshape(-1, n), high.reshape(-1, n)])


def _climb(matrix: np.ndarray, sources: np.ndarray, best: Best) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(value, S, T) for each start: take the best T for S, then the best S for T, while the value grows."""
    values, targets = np.full(len(sources), -np.inf), sources
    for _ in range(CLIMBS):
        _, next_targets = best(sources.astype(matrix.dtype) @ matrix, sources)
        gained, next_sources = best(next_targets.astype(matrix.dtype) @ matrix, next_targets)
        better = gained > values + 1e-9 * (1 + np.abs(gained))
        if not better.any():
            break
        targets = np.where(better[:, None], next_targets, targets)
        sources = np.where(better[:, None], next_sources, sources)
        values = np.where(better, gained, values)
    return values, sources, targets


def _best(sums: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(value, the columns with a positive sum) for `sums: float[start, column]`."""
    taken = sums > 0
    return np.where(taken, sums, 0).sum(axis=1), taken


def _best_share(sums: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(value over sqrt(|S| |T|), the columns that make it largest), `others` being the fixed side."""
    n = sums.shape[1]
    order = np.argsort(-sums, axis=1)
    gained = np.cumsum(np.take_along_axis(sums, order, axis=1), axis=1)
    gained /= np.sqrt(np.maximum(others.sum(axis=1), 1)[:, None] * np.arange(1, n + 1))
    last = np.argmax(gained, axis=1)
    taken = np.zeros(sums.shape, dtype=np.bool_)
    np.put_along_axis(taken, order, np.arange(n) <= last[:, None], axis=1)
    return gained[np.arange(len(sums)), last], taken
