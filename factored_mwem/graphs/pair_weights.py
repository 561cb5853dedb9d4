"""PairWeights: multiplicative weights over the pairs of a graph, in the form of Gupta, Roth and Ullman
(2012), A.2: a dense weight for every pair, the same at first.

Multiplicative weights need to know the total, which for a graph is the number of edges, and private. Here
`edges` is any public number that is at least that: the rest of it is thought of as lying in one more element
of the universe, which no query counts. So the total is exact and the paper's bound holds as it stands, with
|X| = pairs + 1: B(alpha) = 4 edges^2 log|X| / alpha^2 in edges, with the step eta = alpha / (2 edges). Where
something is known of the number of edges, D^1 need not be the same for that element: then log(1 / p), p the
least share of D^1 that an element has, takes the place of log|X|, for no D is further from D^1.
"""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError
from factored_mwem.kernels.cuts import cut_multiply, cut_sum
from factored_mwem.privacy.edges import check_pairs
from factored_mwem.workload.cuts import Cut

FLOOR = 1e-280
"""No weight falls lower, so that it can come back."""
CEILING = 1e250
"""Where the sum of weights is beyond this, or below its inverse, they are scaled back."""


class PairWeights:
    """A hypothesis with a weight for each pair, float64[pair]. Nothing private is in it."""

    def __init__(
        self, vertices: int | Vertices, alpha: float, edges: float, *, start: float | None = None
    ) -> None:
        """`alpha`: the error, in edges, at which it is updated; `edges`: at least as many as there are;
        `start`: edges that lie evenly over all pairs at first, all but one in |X| where None. ResourceError
        where the pairs are too many to hold a weight each.
        """
        if not alpha > 0 or not edges > 0:
            raise InputError(f"alpha={alpha}, edges={edges}: both must be positive")
        known = Vertices.of(vertices)
        check_pairs(known)
        self.universe = known.pairs + 1
        self.alpha, self.edges = alpha, edges
        self._weights, self._rest = np.ones(known.pairs), 1.0
        if start is not None:
            if not 0 < start <= edges:
                raise InputError(f"start={start}: must be above 0 and at most edges={edges}")
            self._rest = max(1.0, known.pairs * (edges / start - 1))
        self._total = float(known.pairs) + self._rest
        self._distance = math.log(self._total)  # of an element with weight 1, the least

    def answer(self, query: Cut) -> float:
        """q(D^t), in edges."""
        held = cut_sum(self._weights, query.sources, query.targets)
        return float(self.edges * held / self._total)

    def update(self, query: Cut, value: float) -> None:
        """D^(t+1), by the sign of value - q(D^t) alone. exp(-eta (1 - q)) is exp(eta q) once it is scaled."""
        eta = self.alpha / (2 * self.edges)
        factor = math.exp(eta if value >= self.answer(query) else -eta)
        self._total += cut_multiply(self._weights, query.sources, query.targets, factor, FLOOR)
        if not 1 / CEILING < self._total < CEILING or factor < 1:
            self._settle()

    def bound(self, alpha: float) -> float:
        """B(alpha): the most updates of a sequence at level alpha, alpha at least that of the step."""
        return 4 * self.edges**2 * self._distance / alpha**2

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
