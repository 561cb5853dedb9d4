"""Constructions over the pairs of a graph, updated by the answers to cuts; they hold nothing private.

Source: Gupta, Roth and Ullman 2012, section 5 and appendix A.2; see `online/constructions.py`.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError
from factored_mwem.kernels.cuts import cut_multiply, cut_sum
from factored_mwem.privacy.other.edges import check_pairs
from factored_mwem.sessions.online.constructions import SumOfQueries, WeightedConstruction
from factored_mwem.workload.cuts import Cut, RankOne

FIRST = 16
"""Cuts that a sum has room for at first."""
FLOOR = 1e-280
"""Smallest weight of a pair, so that later updates can raise it again."""
CEILING = 1e250
"""Where the sum of weights is beyond this, or below its inverse, they are scaled back."""


class CutSum:
    """A weighted graph as a sum of cuts, sum of c_t 1[pair in the cut (S_t, T_t)], kept as the sets alone:
    Frieze and Kannan's cut decomposition. An update takes O(|V|), an answer O(|V|) for each cut in the sum.

    The number of pairs that two cuts share follows from the sizes of intersections: with C the symmetric 0-1
    matrix of a cut, C = s t' + t s' - w w' off the diagonal (w the common part of s and t), where that
    formula gives w on the diagonal; so <C, C'> over ordered pairs is a sum of products of intersections'
    sizes, less |w and w'|, and half of it is the number of shared pairs. Exact.
    """

    def __init__(self, vertices: int) -> None:
        self.vertices, self.terms = vertices, 0
        self._coefficients = np.zeros(FIRST)
        self._sides = np.zeros((3, FIRST, vertices), dtype=np.float32)

    def add(self, cut: Cut, coefficient: float) -> None:
        """Add `coefficient` to the weight of every pair that the cut holds."""
        if self.terms == len(self._coefficients):
            self._coefficients = np.concatenate([self._coefficients, np.zeros(self.terms)])
            self._sides = np.concatenate([self._sides, np.zeros_like(self._sides)], axis=1)
        for side, members in zip(self._sides, _sides(cut), strict=True):
            side[self.terms] = members
        self._coefficients[self.terms] = coefficient
        self.terms += 1

    def answer(self, cut: Cut) -> float:
        """The weight of the pairs that a cut holds."""
        if not self.terms:
            return 0.0
        return float(self._coefficients[: self.terms] @ self.shared(cut))

    def shared(self, cut: Cut) -> np.ndarray:
        """float64[term]: how many pairs each cut of the sum shares with this one; whole numbers, exact."""
        members = np.stack(_sides(cut)).astype(np.float32)
        # float32 counts exactly up to 2^24, and there are fewer vertices than that
        both = (self._sides[:, : self.terms] @ members.T).astype(np.float64)
        (ss, st, sw), (ts, tt, tw), (ws, wt, ww) = (side.T for side in both)
        ordered = 2 * (ss * tt + st * ts) - 2 * sw * tw - 2 * ws * wt + ww * ww
        return (ordered - ww) / 2

    def rank_one(self, query: RankOne) -> float:
        """The answer to a rank-1 query, u' D v, in edges."""
        u, v = (w / 2**10 for w in (query.first, query.second))
        sides = self._sides[:, : self.terms].astype(np.float64)
        (su, sv), (tu, tv), (wu, wv) = ((side @ u, side @ v) for side in sides)
        diagonal = sides[2] @ (u * v)
        return float(self._coefficients[: self.terms] @ (su * tv + tu * sv - wu * wv - diagonal))

    def dense(self) -> np.ndarray:
        """float64[vertex, vertex]: the symmetric matrix, its diagonal 0."""
        s, t, w = self._sides[:, : self.terms].astype(np.float64)
        by = self._coefficients[: self.terms, None]
        half = s.T @ (by * t) - w.T @ (by * w) / 2
        matrix = half + half.T  # symmetric to the last bit, which a product by BLAS is not
        np.fill_diagonal(matrix, 0.0)
        return matrix


def _sides(cut: Cut) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return cut.sources, cut.targets, cut.sources & cut.targets


class CutFriezeKannan(SumOfQueries[Cut]):
    """Frieze and Kannan's construction as a sum of cuts, which stores no pairs. D^1 is 0, or public and the
    same for every pair.
    """

    def __init__(
        self,
        vertices: int,
        alpha: float,
        edges: float,
        *,
        step: Literal["sharp", "paper"] = "sharp",
        start: float = 0.0,
    ) -> None:
        """`alpha`: the error, in edges, at which it is updated; `edges`: at least as many as there are, for
        that is ||D||_2^2; `start`: a number of edges that D^1 spreads evenly over all pairs; without it D^1 =
        0.
        """
        if not alpha > 0 or not edges > 0 or not start >= 0:
            raise InputError(f"alpha={alpha}, edges={edges}, start={start}: must be positive")
        pairs = vertices * (vertices - 1) // 2
        self.mean = start / max(pairs, 1)
        """The weight of every pair at first."""
        even = self.mean**2 * pairs
        # ||D - D^1||_2^2 = n - 2 mean n + even for n edges: largest at either end of 0 <= n <= edges
        super().__init__(max(even, edges * (1 - 2 * self.mean) + even), pairs, alpha, sharper=step == "sharp")
        self.hypothesis = CutSum(vertices)

    def answer(self, query: Cut) -> float:
        return self.mean * query.pairs + self.hypothesis.answer(query)

    def squared(self, query: Cut) -> float:
        return query.pairs

    def add(self, query: Cut, coefficient: float) -> None:
        self.hypothesis.add(query, coefficient)


class PairWeights(WeightedConstruction):
    """Multiplicative weights as in A.2: a weight for every pair, float64[pair], all equal at first.

    They need to know the total, which for a graph is the number of edges, and private. Here `edges` is any
    public number that is at least that: the rest of it is thought of as lying in one more element of the
    universe, which no query counts. So the total is exact and the paper's bound holds as it stands, with |X|
    = pairs + 1: B(alpha) = 4 edges^2 log|X| / alpha^2 in edges, with the step eta = alpha / (2 edges). Where
    something is known of the number of edges, D^1 need not be the same for that element: then log(1 / p), p
    the least share of D^1 that an element has, takes the place of log|X|, for no D is further from D^1.
    """

    def __init__(
        self, vertices: int | Vertices, alpha: float, edges: float, *, start: float | None = None
    ) -> None:
        """`alpha`: the error, in edges, at which it is updated; `edges`: at least as many as there are;
        `start`: a number of edges spread evenly over all pairs at first; None: all elements of X begin equal.
        Raises ResourceError if the pairs are too many to hold a weight each.
        """
        known = Vertices.of(vertices)
        check_pairs(known)
        self.universe, self.edges = known.pairs + 1, edges
        self._weights, self._rest = np.ones(known.pairs), 1.0
        if start is not None:
            if not 0 < start <= edges:
                raise InputError(f"start={start}: must be above 0 and at most edges={edges}")
            self._rest = max(1.0, known.pairs * (edges / start - 1))
        self._total = float(known.pairs) + self._rest
        super().__init__(edges, alpha, math.log(self._total))  # of an element with weight 1, the least

    def answer(self, query: Cut) -> float:
        """q(D^t), in edges."""
        held = cut_sum(self._weights, query.sources, query.targets)
        return float(self.edges * held / self._total)

    def update(self, query: Cut, value: float) -> None:
        """D^(t+1), by the sign of value - q(D^t) alone. exp(-eta (1 - q)) is exp(eta q) once it is scaled."""
        factor = math.exp(self.step if value >= self.answer(query) else -self.step)
        self._total += cut_multiply(self._weights, query.sources, query.targets, factor, FLOOR)
        if not 1 / CEILING < self._total < CEILING or factor < 1:
            self._settle()

    def weights(self) -> np.ndarray:
        """float64[pair]: the hypothesis, in edges."""
        return self._weights * (self.edges / self._total)

    def _settle(self) -> None:
        """Add the total up anew; where weights are very large or small, scale them back."""
        self._total = float(self._weights.sum()) + self._rest
        if not 1 / CEILING < self._total < CEILING:
            scale = self._total / self.universe
            self._weights = np.maximum(self._weights / scale, FLOOR)
            self._rest = max(self._rest / scale, FLOOR)
            self._total = float(self._weights.sum()) + self._rest
