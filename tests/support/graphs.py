"""Small graphs, and what they must give, by definition and slowly."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.vertices import Vertices
from factored_mwem.privacy.other.edges import Edges, PrivateEdges
from factored_mwem.privacy.session import Session
from factored_mwem.workload.cuts import Cut

KARATE = Path(__file__).parents[2] / "datasets" / "karate.csv"


def adjacency(vertices: int, edges: Any) -> np.ndarray:
    """float64[vertex, vertex] of pairs of vertices."""
    found = np.zeros((vertices, vertices))
    for i, j in edges:
        found[i, j] = found[j, i] = 1
    return found


def complete(vertices: int) -> np.ndarray:
    return adjacency(vertices, itertools.combinations(range(vertices), 2))


def random_graph(rng: np.random.Generator, vertices: int, share: float) -> np.ndarray:
    found = np.triu(rng.random((vertices, vertices)) < share, 1).astype(float)
    return found + found.T


def noise_matrix(rng: np.random.Generator, vertices: int, scale: float) -> np.ndarray:
    """Symmetric Laplace noise, its diagonal 0."""
    found = np.triu(rng.laplace(0, scale, (vertices, vertices)), 1)
    return found + found.T


def sides(vertices: int) -> Iterator[np.ndarray]:
    """bool[vertex]: every set of vertices."""
    for bits in itertools.product((False, True), repeat=vertices):
        yield np.array(bits)


def all_cuts(vertices: int) -> Iterator[Cut]:
    for s, t in itertools.product(sides(vertices), repeat=2):
        yield Cut(s, t)


def random_cut(rng: np.random.Generator, vertices: int) -> Cut:
    share = rng.random(2)[:, None]
    return Cut(*(rng.random((2, vertices)) < share))


def coefficients(cut: Cut) -> np.ndarray:
    """float64[vertex, vertex], by definition: min(1, [i in S, j in T] + [j in S, i in T])."""
    n = len(cut.sources)
    found = np.zeros((n, n))
    for i, j in itertools.permutations(range(n), 2):
        both = int(cut.sources[i] and cut.targets[j]) + int(cut.sources[j] and cut.targets[i])
        found[i, j] = min(1, both)
    return found


def cut_of(matrix: np.ndarray, cut: Cut) -> float:
    """The cut of a symmetric matrix, by definition."""
    return float((coefficients(cut) * matrix).sum() / 2)


def packed(matrix: np.ndarray) -> np.ndarray:
    return matrix[np.triu_indices(len(matrix), 1)]


def sealed(matrix: np.ndarray) -> PrivateEdges:
    """The edges of an adjacency matrix, sealed."""
    return PrivateEdges(edges_of(matrix))


def edges_of(matrix: np.ndarray) -> Edges:
    return Edges(Vertices.of(len(matrix)), np.flatnonzero(packed(matrix)))


def session(noise: Any, *, epsilon: float = 1.0, delta: float = 0.0, unit: Unit | None = None) -> Session:
    return Session(Accountant(Budget.of(epsilon, delta)), unit or Unit(), noise)
