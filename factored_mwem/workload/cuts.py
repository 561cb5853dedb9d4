"""Cuts of a graph: how many of its edges lie between two sets of vertices; and rank-1 queries.

Convention. The universe is the unordered pairs of vertices. The cut (S, T) gives a pair the coefficient
min(1, [i in S, j in T] + [j in S, i in T]), which is 0 or 1: an edge inside both sets counts once. So an edge
more or less moves every cut by at most 1. The bilinear form 1_S' A 1_T over ordered pairs, in which papers
write cuts, counts an edge inside both sets twice (`ordered`; K3 with S = T = V: 6, where the cut is 3). For
sets without a common vertex both are the same; in general the cut is the bilinear form less the edges inside
both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError
from factored_mwem.kernels.cuts import largest_pair

UNITS = 2**10
"""A factor of a rank-1 query is a whole number of parts of 1 / UNITS; a coefficient of 1 / UNITS^2."""


@dataclass(frozen=True, eq=False)
class Cut:
    """The edges between S, `sources: bool[vertex]`, and T, `targets: bool[vertex]`. Public."""

    sources: np.ndarray
    targets: np.ndarray

    def __post_init__(self) -> None:
        for side in (self.sources, self.targets):
            if side.dtype != np.bool_ or side.ndim != 1 or len(side) != len(self.sources):
                raise InputError("a cut is two arrays of bool, one value for each vertex")

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same edges, whatever the graph: which side is called S does not matter."""
        return isinstance(other, Cut) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> frozenset[bytes]:
        return frozenset((self.sources.tobytes(), self.targets.tobytes()))

    @classmethod
    def of(cls, vertices: Vertices, first: Iterable[Any], second: Iterable[Any] | None = None) -> Cut:
        """The cut between two sets of vertex names; without the second, between the first and the rest."""
        sources = _side(vertices, first)
        return cls(sources, ~sources if second is None else _side(vertices, second))

    @cached_property
    def pairs(self) -> int:
        """How many pairs have coefficient 1: |S| |T| - w - w (w - 1) / 2 with w = |S and T|."""
        both = int((self.sources & self.targets).sum())
        return int(self.sources.sum()) * int(self.targets.sum()) - both - both * (both - 1) // 2

    def count(self, low: np.ndarray, high: np.ndarray) -> int:
        """How many of the edges with these ends it holds: exact."""
        return int(self.holds(low, high).sum())

    def holds(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """bool[pair]: the coefficients of pairs with these ends."""
        s, t = self.sources, self.targets
        return (s[low] & t[high]) | (t[low] & s[high])


@dataclass(frozen=True, eq=False)
class RankOne:
    """u' A v for `first`, `second: int64[vertex]`, each from 0 to UNITS: over pairs, the coefficient is
    (u_i v_j + u_j v_i) / UNITS^2, at most 2, and at most 1 where no vertex has a part in both. Public.
    """

    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, first: Any, second: Any) -> RankOne:
        """From two vectors of numbers in [0, 1], one for each vertex, rounded to the grid."""
        u, v = (np.asarray(values, dtype=np.float64) for values in (first, second))
        if u.ndim != 1 or u.shape != v.shape or not all(np.all((w >= 0) & (w <= 1)) for w in (u, v)):
            raise InputError("a rank-1 query is two vectors with one number from 0 to 1 for each vertex")
        return cls(*(np.rint(w * UNITS).astype(np.int64) for w in (u, v)))

    @cached_property
    def largest(self) -> int:
        """The most that one edge moves the answer, in parts of 1 / UNITS^2: exact."""
        return int(largest_pair(self.first, self.second))

    def count(self, low: np.ndarray, high: np.ndarray) -> int:
        """The answer on edges with these ends, in parts of 1 / UNITS^2: exact below 2^42 edges."""
        u, v = self.first, self.second
        return int((u[low] * v[high] + u[high] * v[low]).sum())


def ordered(matrix: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> float:
    """1_S' M 1_T: the cut in the convention of ordered pairs."""
    return float(sources.astype(np.float64) @ matrix @ targets.astype(np.float64))


def _side(vertices: Vertices, names: Iterable[Any]) -> np.ndarray:
    side = np.zeros(len(vertices), dtype=np.bool_)
    if isinstance(names, str):
        raise InputError("a side of a cut is a list of vertices, not a text")
    side[vertices.numbers_of(names)] = True
    return side
