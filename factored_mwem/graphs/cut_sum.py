"""CutSum: a weighted graph as a sum of cuts: sum of c_t 1[pair in the cut (S_t, T_t)], kept as the sets
alone.

An update takes O(|V|), an answer O(|V|) for each cut in the sum, and no pair is ever written down. Source:
Frieze and Kannan's cut decomposition. The number of pairs that two cuts share follows from the sizes of
intersections: with C the symmetric 0-1 matrix of a cut, C = s t' + t s' - w w' off the diagonal (w the common
part of s and t), where that formula gives w on the diagonal; so <C, C'> over ordered pairs is a sum of
products of intersections' sizes, less |w and w'|, and half of it is the number of shared pairs. Exact.
"""

from __future__ import annotations

import numpy as np

from factored_mwem.workload.cuts import Cut, RankOne

FIRST = 16
"""Cuts that there is room for at first."""


class CutSum:
    """`add` a cut with a coefficient; `answer` a cut; `dense` writes the matrix down."""

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
        asked = np.stack(_sides(cut)).astype(np.float32)
        # float32 counts exactly up to 2^24, and there are fewer vertices than that
        both = (self._sides[:, : self.terms] @ asked.T).astype(np.float64)
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
        half = s.T @ (by * t)
        found = half + half.T - w.T @ (by * w)
        np.fill_diagonal(found, 0.0)
        return found


def _sides(cut: Cut) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return cut.sources, cut.targets, cut.sources & cut.targets
