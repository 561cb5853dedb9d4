"""Errors over all cuboids of a datacube, and two baselines of Figure 5. NOT PRIVATE."""

from __future__ import annotations

import itertools
import math
from functools import reduce

import numpy as np

from factored_mwem import Domain


def cuboid_errors(gaps: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """float64[cuboid]: the mean of |cell error| of each of the 2^d cuboids, from the errors of the base
    cuboid's cells, which add up.
    """
    found: list[float] = []
    pending = [(gaps.reshape(1, -1), 0)]
    while pending:
        table, at = pending.pop()
        if at == len(shape):
            found.append(float(np.abs(table).mean()))
            continue
        rest = table.shape[1] // shape[at]
        pending.append((table.reshape(-1, shape[at], rest).sum(axis=1), at + 1))
        pending.append((table.reshape(-1, rest), at + 1))
    return np.array(found)


def of_all(domain: Domain, rng: np.random.Generator) -> np.ndarray:
    """The errors of all cuboids, each cell measured with Laplace noise of scale 256: a mean of m absolute
    values has a Gamma distribution.
    """
    cells = [math.prod(s) for k in range(len(domain) + 1) for s in itertools.combinations(domain.shape, k)]
    return np.array([rng.gamma(m) * len(cells) / m for m in cells])


def product_of(one_ways: list[np.ndarray], total: float) -> np.ndarray:
    """float64[cells]: independent attributes with these counts, negative ones 0, in records."""
    shares = [np.maximum(counts, 0.0) / np.maximum(counts, 0.0).sum() for counts in one_ways]
    product: np.ndarray = reduce(lambda a, b: np.multiply.outer(a, b).ravel(), shares, np.full(1, total))
    return product
