"""Correlations: NOT PRIVATE. Of the numbers of a real table beside those of a synthetic one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

SHOWN_PAIRS = 5
"""Most pairs of columns that are shown, those whose correlations differ most."""


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
    """float64[column, column]: over the rows that have both; 0 where one of them does not vary there."""
    import pandas as pd

    sizes = [np.nan_to_num(np.abs(column)).max(initial=0) or 1.0 for column in columns]
    scaled = dict(enumerate(c / size for c, size in zip(columns, sizes, strict=True)))  # no square overflows
    return pd.DataFrame(scaled).corr().fillna(0).to_numpy()
