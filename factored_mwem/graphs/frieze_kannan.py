"""FriezeKannan: the iterative construction of Gupta, Roth and Ullman (2012), Algorithm 2, over cuts.

D^1 = 0; an update moves D^t by a step along the query that was answered wrongly, up or down. Every sequence
of updates whose answers were off by alpha or more has length at most B(alpha) = ||D||_2^2 |X| / alpha^2
(Theorem 5.1): the squared distance to D starts at ||D||_2^2, which for a set of edges is their number, and
falls each time by at least alpha^2 / |X|. With the paper's step, alpha / |X|, by 2 alpha^2 / |X| - alpha^2
||q||^2 / |X|^2; with the sharper one, alpha / ||q||^2, which is the default, by alpha^2 / ||q||^2, never
less. The proof holds for any public D^1, with ||D - D^1||_2^2 in the place of ||D||_2^2: `start`.
"""

from __future__ import annotations

from typing import Literal

from factored_mwem.errors import InputError
from factored_mwem.graphs.cut_sum import CutSum
from factored_mwem.workload.cuts import Cut


class FriezeKannan:
    """A hypothesis of a graph, low in rank, that updates improve. Nothing private is in it."""

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
        that is ||D||_2^2; `start`: edges that lie evenly over all pairs at first, in the place of D^1 = 0.
        """
        if not alpha > 0 or not edges > 0 or not start >= 0:
            raise InputError(f"alpha={alpha}, edges={edges}, start={start}: must be positive")
        self.hypothesis = CutSum(vertices)
        self.alpha, self.edges = alpha, edges
        self.universe = vertices * (vertices - 1) // 2
        self.mean = start / max(self.universe, 1)
        """What every pair weighs at first."""
        self._paper = step == "paper"

    def answer(self, query: Cut) -> float:
        """q(D^t): in edges; may be below zero, and no whole number."""
        return self.mean * query.pairs + self.hypothesis.answer(query)

    def update(self, query: Cut, value: float) -> None:
        """D^(t+1), by the sign of value - q(D^t) alone."""
        if not query.pairs:
            return
        step = self.alpha / (self.universe if self._paper else query.pairs)
        self.hypothesis.add(query, step if value >= self.answer(query) else -step)

    def bound(self, alpha: float) -> float:
        """B(alpha): the most updates of a sequence at level alpha, alpha at least that of the step."""
        even = self.mean**2 * self.universe
        # ||D - D^1||_2^2 = n - 2 mean n + even for n edges: largest at either end of 0 <= n <= edges
        first = max(even, self.edges * (1 - 2 * self.mean) + even)
        return first * self.universe / alpha**2
