"""Multiplicative weights over a universe held as one vector (Gupta, Roth, Ullman 2011, A.2; Roth 2011,
lecture 9).
"""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.errors import InputError


class MultiplicativeWeights:
    """n times a distribution over a finite universe; it begins uniform.

    Relative entropy to the table, at first log |X| at most, falls by alpha^2 / (4 n^2) or more with every
    update of a sequence at level alpha (lecture 9, lemma 8 and theorem 6).
    """

    def __init__(self, elements: int, total: float, alpha: float) -> None:
        """`elements`: |X|; `total`: n, a public number of records; `alpha`: the level, in records, for which
        the step alpha / (2 n) is made. InputError unless 0 < alpha <= 2 n: steps are at most 1.
        """
        if elements < 1 or not 0 < alpha <= 2 * total:
            raise InputError(f"multiplicative weights need an alpha from 0 to 2 n records, not {alpha:g}")
        self.total, self.step = float(total), alpha / (2 * total)
        self.shares = np.full(elements, 1.0 / elements)
        """float64[element]: the hypothesis as a distribution."""

    def answer(self, query: np.ndarray) -> float:
        """q(D^t), in records, of `query: float64[element]` in [0, 1]."""
        return self.total * float(query @ self.shares)

    def update(self, query: np.ndarray, value: float) -> None:
        """Less weight where a query that is answered too high is, or else where 1 - q is: after normalising
        that is more weight where q is.
        """
        against = query if value < self.answer(query) else 1.0 - query
        self.shares = self.shares * np.exp(-self.step * against)
        self.shares /= self.shares.sum()

    def bound(self, alpha: float) -> float:
        """B(alpha) = 4 n^2 log |X| / alpha^2, of steps made for alpha."""
        return 4 * self.total**2 * math.log(len(self.shares)) / alpha**2

    def potential(self, table: np.ndarray) -> float:
        """Relative entropy of `table: float64[element]`, records or shares, to the hypothesis, in nats."""
        shares = table / table.sum()
        seen = shares > 0
        return float((shares[seen] * np.log(shares[seen] / self.shares[seen])).sum())
