"""Correlations: NOT PRIVATE. Of the numbers of a real table beside those of a synthetic one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

SHOWN_PAIRS = 5
"""Of columns, by how far their correlations are apart."""
BLOCK_ROWS = 2**16
"""Rows whose products are added up at a time."""


class CorrelationError(NamedTuple):
    """NOT PRIVATE. Pearson's correlation of two columns of numbers, over the rows that have both.

    0 where it is none: a column has less than two values there.
    """

    columns: tuple[str, str]
    real: float
    synthetic: float


def correlation_errors(columns: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> tuple[CorrelationError, ...]:
    """NOT PRIVATE. The pairs of columns whose correlations are the furthest apart, the worst first.

    `columns`: float64[row] of either table, NaN if there is no number.
    """
    names = list(columns)
    if len(names) < 2:
        return ()
    first, second = (_correlations([columns[name][table] for name in names]) for table in (0, 1))
    pairs = list(itertools.combinations(range(len(names)), 2))
    apart = np.array([-abs(first[i, j] - second[i, j]) for i, j in pairs])
    worst = [pairs[k] for k in np.argsort(apart, kind="stable")[:SHOWN_PAIRS]]
    return tuple(
        CorrelationError((names[i], names[j]), float(first[i, j]), float(second[i, j])) for i, j in worst
    )


def _correlations(columns: list[np.ndarray]) -> np.ndarray:
    """float64[column, column]: of the rows that have both; 0 if there is none."""
    scaled = [_standardised(column) for column in columns]
    d = len(columns)
    count, total, square, product = (np.zeros((d, d)) for _ in range(4))
    for start in range(0, len(columns[0]), BLOCK_ROWS):
        block = np.stack([column[start : start + BLOCK_ROWS] for column in scaled])
        has = (~np.isnan(block)).astype(np.float64)
        block = np.nan_to_num(block)
        count += has @ has.T
        total += block @ has.T  # of the first of a pair, where the second is there
        square += block**2 @ has.T
        product += block @ block.T
    count = np.maximum(count, 1)
    variance = np.maximum(square / count - (total / count) ** 2, 0)
    covariance = product / count - (total / count) * (total / count).T
    scale = np.sqrt(variance * variance.T)
    enough = (variance > 1e-12) & (variance.T > 1e-12)
    return np.clip(np.where(enough, covariance / np.where(enough, scale, 1), 0), -1, 1)


def _standardised(column: np.ndarray) -> np.ndarray:
    """The numbers less their mean, in standard deviations: sums of products then lose no digits."""
    present = column[~np.isnan(column)]
    if not len(present) or present.min() == present.max():
        return np.where(np.isnan(column), np.nan, 0.0)
    size = np.abs(present).max()
    centred = column / size - (present / size).mean()
    return centred / math.sqrt(float(np.nanmean(centred**2)))
