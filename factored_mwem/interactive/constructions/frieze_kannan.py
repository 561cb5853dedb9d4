"""Frieze and Kannan's construction: a sum of queries (Gupta, Roth, Ullman 2011, algorithm 2)."""

from __future__ import annotations

import numpy as np

from factored_mwem.errors import InputError


class FriezeKannan:
    """A vector over a finite universe; it begins as 0, and may become negative.

    The squared distance to the table, at first |D|^2, falls by alpha^2 / |X| or more with every update of a
    sequence at level alpha: a step of alpha / |X| along a query that is off by alpha or more takes off 2
    alpha^2 / |X| and adds alpha^2 |q|^2 / |X|^2 at most.
    """

    def __init__(self, elements: int, norm: float, alpha: float, *, sharper: bool = False) -> None:
        """`elements`: |X|; `norm`: a public bound on the table's Euclidean norm (the root of n where no
        element comes twice, else n); `alpha`: the level, in records, for which steps are made.

        `sharper`: steps of alpha / |q|^2, longer for small queries: each takes off alpha^2 / |q|^2.
        """
        if elements < 1 or not alpha > 0 or not norm >= 0:
            raise InputError("Frieze and Kannan's construction needs a universe, a norm and an alpha above 0")
        self.norm, self.alpha, self.sharper = float(norm), float(alpha), sharper
        self.vector = np.zeros(elements)
        """float64[element]: the hypothesis, in records."""

    def answer(self, query: np.ndarray) -> float:
        """q(D^t), in records, of `query: float64[element]` in [0, 1]."""
        return float(query @ self.vector)

    def update(self, query: np.ndarray, value: float) -> None:
        """A step along the query, down where it is answered too high, else up. A query that is 0 everywhere
        has no direction.
        """
        squared = float(query @ query)
        if squared == 0:
            return
        step = self.alpha / (squared if self.sharper else len(self.vector))
        self.vector = self.vector + (-step if value < self.answer(query) else step) * query

    def bound(self, alpha: float) -> float:
        """B(alpha) = |D|^2 |X| / alpha^2, of steps made for alpha; of sharper ones, too, where a query may
        have every element.
        """
        return self.norm**2 * len(self.vector) / alpha**2

    def potential(self, table: np.ndarray) -> float:
        """The squared distance of `table: float64[element]`, records, to the hypothesis."""
        return float(((table - self.vector) ** 2).sum())
