"""GraphRelease: what is released of a private graph: noisy weights of all pairs, weights in [0, 1] made of
them, and a simple graph drawn from these. All of it is public.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError
from factored_mwem.kernels.cuts import bilinear, cut_sum
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.privacy.session import NoiseScale
from factored_mwem.sessions.graph.linear_program import needed
from factored_mwem.sessions.graph.tails import cut_bound, reach_of_sum, stddev
from factored_mwem.workload.cuts import UNITS, Cut, RankOne

BLOCK = 2**22
"""Pairs that are drawn together."""
FAILS = 0.05
"""Probability that an interval, or all of them at once, may be wrong."""


class RankOneEstimate(NamedTuple):
    """A `value`, and the standard deviation of its noise."""

    value: float
    stderr: float


@dataclass(frozen=True, slots=True)
class CutEstimate:
    """How many edges a cut holds, without bias: `value` may be below 0 or above `pairs`. `stderr` is the
    standard deviation of the noise as drawn. The truth lies in [low, high] with a probability of 95 % or a
    little more, by the distribution of that noise (tails.reach_of_sum). All 4^n cuts at once lie within
    `bound` (Theorem 6.5).
    """

    value: int
    stderr: float
    low: float
    high: float
    bound: float
    pairs: int


@dataclass(frozen=True, eq=False)
class GraphRelease:
    """A released graph; all of it is public.

    `noisy: int[pair]`, the noisy weights; `weights: float32[pair]`, those of the synthetic graph, or None if
    none was requested; `names`: the names of the two columns of an edge list.

    >>> import numpy as np
    >>> from factored_mwem import release_graph
    >>> synthetic = release_graph(np.array([[0, 1], [1, 2], [0, 2]]), 6, epsilon=3.0, seed=1)
    >>> synthetic.cut([0, 1, 2], [0, 1, 2]).pairs, synthetic.statement.recompute() <= 3.0
    (3, True)
    """

    vertices: Vertices
    names: tuple[str, str]
    noisy: np.ndarray = field(repr=False)
    scale: NoiseScale
    weights: np.ndarray | None = field(repr=False)
    seed: int
    statement: Statement = field(repr=False)

    def cut(self, first: Iterable[Any] | Cut, second: Iterable[Any] | None = None) -> CutEstimate:
        """Edges between two sets of vertices, or one and the rest, each once. Raises InputError."""
        cut = first if isinstance(first, Cut) else Cut.of(self.vertices, first, second)
        value = round(cut_sum(self.noisy, cut.sources, cut.targets))
        own = reach_of_sum(cut.pairs, self.scale, FAILS)
        every = cut_bound(cut.pairs, len(self.vertices), self.scale, FAILS)
        error = stddev(self.scale) * math.sqrt(cut.pairs)
        return CutEstimate(value, error, value - own, value + own, every, cut.pairs)

    def rank_one(self, first: Any, second: Any) -> RankOneEstimate:
        """u' D v for two vectors in [0, 1], from the noisy weights, without bias. Raises InputError.

        The noise of pair {i, j} counts u_i v_j + u_j v_i times, and that of each pair is independent.
        """
        query = RankOne.of(first, second)
        if len(query.first) != len(self.vertices):
            raise InputError(f"a rank-1 query has one number for each of {len(self.vertices):,} vertices")
        value = float(bilinear(self.noisy, query.first, query.second)) / UNITS**2
        u, v = query.first / UNITS, query.second / UNITS
        squares = u @ u * (v @ v) + (u @ v) ** 2 - 2 * (u * u) @ (v * v)  # the sum over pairs
        return RankOneEstimate(value, stddev(self.scale) * math.sqrt(max(float(squares), 0.0)))

    @cached_property
    def edges(self) -> np.ndarray:
        """int64[edge]: the pairs of the synthetic graph, by their numbers."""
        if self.weights is None:
            raise InputError("no synthetic graph was asked for; use method='spectral' or 'lp'")
        return draw_edges(self.weights, self.seed)

    def to_arrow(self) -> pa.Table:
        """The synthetic graph, a row an edge; without one, all pairs with their noisy weights."""
        if self.weights is None:
            return self.pairs_to_arrow()
        return pa.table(self._ends(self.edges))

    def pairs_to_arrow(self) -> pa.Table:
        """All pairs with their noisy weights, from which any cut can be answered."""
        every = np.arange(self.vertices.pairs)
        return pa.table({**self._ends(every), "weight": pa.array(self.noisy)})

    def to_networkx(self) -> Any:
        """The synthetic graph as a networkx.Graph, with all vertices. InputError without networkx."""
        needed("networkx", "to_networkx()")
        import networkx

        graph = networkx.Graph()
        graph.add_nodes_from(self._labels().to_pylist())
        graph.add_edges_from(
            zip(*(column.to_pylist() for column in self.to_arrow().columns[:2]), strict=True)
        )
        return graph

    def _ends(self, pairs: np.ndarray) -> dict[str, pa.Array]:
        listed = self._labels()
        low, high = self.vertices.ends(pairs)
        columns = (listed.take(pa.array(end)) for end in (low, high))
        return dict(zip(self.names, columns, strict=True))

    def _labels(self) -> pa.Array:
        """The vertices as values: whole numbers where they are 0, 1, ..."""
        count = len(self.vertices)
        plain = self.vertices.names == tuple(map(str, range(count)))
        return pa.array(np.arange(count)) if plain else self.vertices.listed


def draw_edges(weights: np.ndarray, seed: int) -> np.ndarray:
    """int64[edge]: the numbers of the pairs drawn, ascending, by an independent coin for each (Remark 6.3);
    `weights: float[pair]` in [0, 1], public.

    Over all cuts at once this moves each by at most `tails.rounding_bound`, O(n^1.5): no more than the noise.
    """
    rng = np.random.default_rng(seed)
    drawn = []
    for begin in range(0, len(weights), BLOCK):
        block = weights[begin : begin + BLOCK]
        drawn.append(np.flatnonzero(rng.random(len(block)) < block) + begin)
    return np.concatenate(drawn) if drawn else np.zeros(0, dtype=np.int64)
