"""A calculator of the parameters of SparseProject as printed in the paper.

The printed number of rows is astronomical (3e8 for ten records), so `sketch` takes its own. Privacy does not
depend on that number; the projection's error does, and every answer states it. Source: Blum and Roth 2011
(arXiv 1111.6842). Two slips of our text are mended: accuracy is max |error| <= alpha, and s the smallest with
2^s >= T |X|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from factored_mwem.errors import InputError


@dataclass(frozen=True, slots=True)
class Printed:
    """The inputs of SparseProject: the promise (`epsilon`, `delta`), the probability `beta` of an answer
    beyond the bounds, keys `m` of a query, `k` queries, `n` records, which the paper takes as public.

    >>> from factored_mwem.sessions.sketch import Printed
    >>> printed = Printed(epsilon=1.0, delta=1e-9, beta=0.05, m=4, k=10, n=10)
    >>> f"{printed.size:.3g} rows, {printed.independence} coefficients"
    '2.96e+08 rows, 49 coefficients'
    """

    epsilon: float
    delta: float
    beta: float
    m: int
    k: int
    n: int

    def __post_init__(self) -> None:
        if not (0 < self.delta < 1 and 0 < self.beta < 1 and min(self.m, self.k, self.n) >= 1):
            raise InputError("delta and beta lie between 0 and 1; m, k and n are at least 1")
        if not 0 < self.epsilon <= 2 * math.log(1 / self.delta):
            raise InputError(f"epsilon={self.epsilon}: the printed proof needs 0 < epsilon <= 2 ln(1/delta)")

    @property
    def tau(self) -> float:
        return self.beta / (4 * self.k)

    @property
    def size(self) -> int:
        """T = 8192 ln(1/tau) (m + n^2)^2 / sqrt(m), rounded up; summed as it is printed."""
        root, squares = math.sqrt(self.m), self.n**2
        powers = self.m * root / 2 + squares**2 / (2 * root) + root * squares
        return math.ceil(4 * 64**2 * math.log(1 / self.tau) * powers)

    @property
    def independence(self) -> int:
        """2 ln(k T / (2 beta)), rounded up."""
        return math.ceil(2 * math.log(self.k * self.size / (2 * self.beta)))

    @property
    def sigma(self) -> float:
        """The inverse scale of the Laplace noise on each row, whose entries are 1 / sqrt(T)."""
        return self.epsilon / math.sqrt(8 * math.log(1 / self.delta))

    def scale(self, size: int) -> float:
        """The scale of the same noise on `size` rows of whole numbers: sqrt(T) / sigma."""
        return math.sqrt(size) / self.sigma

    def composed(self, size: int) -> float:
        """epsilon at delta of `size` rows together, by the printed proof: each is epsilon_0 = sigma /
        sqrt(T), and sqrt(2 T ln(1/delta)) epsilon_0 + 2 T epsilon_0^2 = epsilon/2 + epsilon^2/(4
        ln(1/delta)), whatever T is (Dwork, Rothblum, Vadhan 2010).
        """
        each = self.sigma / math.sqrt(size)
        return math.sqrt(2 * size * math.log(1 / self.delta)) * each + 2 * size * each**2

    def rho(self, size: int) -> Fraction:
        """The same rows under zCDP: epsilon_0^2 / 2 each (Bun and Steinke 2016, Proposition 1.4), which is
        sigma^2 / 2 together. Gaussian noise of this cost has the standard deviation 1 / sigma, so 1 / sqrt(2)
        of the printed noise's: that is what the printed noise loses.
        """
        each = Fraction(self.sigma) ** 2 / size
        return size * each / 2

    @property
    def projection_error(self) -> float:
        """With the printed T, the projection's part of all k errors, in records, but with probability beta /
        2: (s / 2) (|Q|^2 + |D|^2), 1 / s^2 = (m + n^2)^2 / (2 sqrt(m)), so m^(1/4) / sqrt(2).
        """
        return self.m**0.25 / math.sqrt(2)

    @property
    def noise_error(self) -> float:
        """The printed noise's part, but with probability beta / 2: P[sum a_i Lap(b) > t] is at most 2
        exp(-t^2 / (8 b^2 |a|^2)) for t <= sqrt(8) b |a|^2 / max |a|; here |a|^2 <= 2 m.
        """
        return math.sqrt(8 * 2 * self.m * math.log(4 * self.k / self.beta)) / self.sigma
