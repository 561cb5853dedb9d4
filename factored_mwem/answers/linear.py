"""Linear: queries answered by weighted sums of noisy answers, with the covariance of their errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from factored_mwem.answers.projections import Noisy

MAX_INFLUENCES = 2**23
"""Most weights of noisy answers that are held at a time."""


class Influence(NamedTuple):
    """What the noisy answers of one source count in each of some queries: `weights: float64[query, ...]`,
    with an axis for each of `attributes`; every weight stands for `summed` answers, of noise of `variance`.
    `source`: a measurement's number, or -1 - a residual's number and its subset.
    """

    source: tuple[int, int]
    attributes: tuple[int, ...]
    weights: np.ndarray
    summed: int
    variance: float


class Linear(ABC):
    """`values: float64[k]` of k queries, unbiased whatever the table: sums of noisy answers h'y with A'h = q.

    The noise of different answers is independent, so errors covary by the sum of h_i h'_i sigma_i^2.
    """

    def __init__(self, noisy: Noisy) -> None:
        self.noisy = noisy

    @property
    @abstractmethod
    def values(self) -> np.ndarray:
        """float64[k]"""

    @abstractmethod
    def covariance(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """float64: of the errors of queries `i` and `j`, int64 arrays of one shape."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Weights that the longest of `influences` has for a query, about."""

    @abstractmethod
    def influences(self, rows: Sequence[int]) -> Iterator[Influence]:
        """The weights h of every noisy answer that counts, in the queries `rows`."""

    def of_sums(self, measurements: np.ndarray, wholes: np.ndarray) -> Iterator[Influence]:
        """Of measurements of which the sum alone counts; `wholes: float64[query]`, a solution's own sums."""
        for i in measurements.tolist():
            summed, variance = int(self.noisy.cells[i]), float(self.noisy.variances[i])
            yield Influence((i, 0), (), wholes / (variance * summed), summed, variance)

    def fourth(self, rows: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """float64[m]: the sum of h^4 sigma^4 over all noisy answers, h their weights in the sums of queries
        `rows: int64[m, n]` times `factors: float64[m, n]`.
        """
        moments = np.zeros(len(rows))
        step = max(1, MAX_INFLUENCES // max(rows.shape[1] * self.width, 1))
        for at in range(0, len(rows), step):
            some = slice(at, at + step)
            for each in self.influences(rows[some].ravel().tolist()):
                weights = each.weights.reshape(*rows[some].shape, -1)
                mixed = np.einsum("mnw,mn->mw", weights, factors[some])
                moments[some] += each.summed * each.variance**2 * (mixed**4).sum(axis=1)
        return moments


def cross_covariance(one: Linear, i: Sequence[int], other: Linear, j: Sequence[int]) -> np.ndarray:
    """float64[m]: of the errors of queries `i` of one set and `j` of another, maybe of other attributes."""
    theirs = {each.source: each for each in other.influences(j)}
    covariance = np.zeros(len(i))
    for mine in one.influences(i):
        if mine.source not in theirs:
            continue
        yours = theirs[mine.source]
        common = [a for a in mine.attributes if a in yours.attributes]
        axes = {a: n for n, a in enumerate(dict.fromkeys([*mine.attributes, *yours.attributes]), start=1)}
        inner = np.einsum(
            mine.weights,
            [0, *(axes[a] for a in mine.attributes)],
            yours.weights,
            [0, *(axes[a] for a in yours.attributes)],
            [0],
            optimize=True,
        )
        shared = 1.0  # answers that stand behind one pair of weights
        for a in mine.attributes:
            shared *= mine.weights.shape[1 + mine.attributes.index(a)] if a not in common else 1
        covariance += inner * (yours.summed / shared) * mine.variance
    return covariance
