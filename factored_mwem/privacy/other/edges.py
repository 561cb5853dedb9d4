"""PrivateEdges: the edges of a private graph, sealed, and the exact numbers that may be asked of them.

What is sealed is a set of pairs (tables/edge_list.py proves that k records change at most k of them). So
- the vector of all pairs, 1 where there is an edge, moves by at most `unit.of_pairs` in L1 norm and in
  squared L2 norm: k, or 2 k under replace;
- the number of edges, and a cut, whose coefficients are 0 or 1, move by at most k: under replace k edges go
  and k come, and each side moves the sum by 0 to k;
- a rank-1 query moves by k times its largest coefficient, which is public and exact, by the same argument.
None of these is less for neighbours that exist: k edges more, inside the cut, or at the largest coefficient.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import ResourceError
from factored_mwem.privacy.rows import SCORE_GRID, Sealed, SealedQuery
from factored_mwem.tables.inputs.edge_list import read_edges
from factored_mwem.tables.inputs.source import Private, Table
from factored_mwem.workload.cuts import Cut, RankOne

MOST_PAIRS = 2**26
"""Pairs that are noised at once: 11,585 vertices, some 2 GB while the noise is drawn."""


class AllEdges(Enum):
    """What can be asked of all edges together."""

    PAIRS = "pairs"
    COUNT = "count"


What = AllEdges | Cut | RankOne


class Edges(Private):
    """What PrivateEdges reveals: exact sums over the edges."""

    __slots__ = ("_high", "_low", "_numbers", "_pairs")

    def __init__(self, vertices: Vertices, numbers: np.ndarray) -> None:
        self._pairs, self._numbers = vertices.pairs, numbers
        self._low, self._high = vertices.ends(numbers)

    def exact(self, what: What) -> np.ndarray:
        """int64: what noise is added to: 0 or 1 for every pair, or a single number."""
        if what is AllEdges.PAIRS:
            pairs = np.zeros(self._pairs, dtype=np.int64)
            pairs[self._numbers] = 1
            return pairs
        return np.array([self._count(what)], dtype=np.int64)

    def gap(self, what: What, grains: int) -> int:
        """How far a single number is from a public answer of so many grains, SCORE_GRID of them an edge."""
        return abs(self._count(what) * SCORE_GRID - grains)

    def _count(self, what: What) -> int:
        assert what is not AllEdges.PAIRS  # which is no single number
        return len(self._numbers) if isinstance(what, AllEdges) else what.count(self._low, self._high)


class PrivateEdges(Sealed):
    """The edges behind the door of `Session`. What it says itself follows from public facts."""

    __slots__ = ()

    @classmethod
    def read(cls, table: Table, vertices: Vertices, columns: tuple[str, str]) -> PrivateEdges:
        """The edges that the records of `table` name, sealed at once. One pass."""
        return cls(Edges(vertices, read_edges(table, vertices, columns)))

    def query(self, what: What, unit: Unit) -> SealedQuery:
        """See the top; of a rank-1 query in its own parts."""
        if what is AllEdges.PAIRS:
            return SealedQuery((what.value,), (), unit.of_pairs, unit.of_pairs)
        name = what.value if isinstance(what, AllEdges) else "cut" if isinstance(what, Cut) else "rank-1"
        most = unit.of_counting_query * (what.largest if isinstance(what, RankOne) else 1)
        return SealedQuery.each((name,), (), most)


def check_pairs(vertices: Vertices) -> None:
    """Raises ResourceError if there are too many pairs to noise all of them."""
    if vertices.pairs > MOST_PAIRS:
        raise ResourceError(
            f"{len(vertices):,} vertices have {vertices.pairs:,} pairs, each of which needs noise; at most "
            f"{MOST_PAIRS:,} fit. Ask for cuts one by one instead, in Python: see fmwem guide graph"
        )
