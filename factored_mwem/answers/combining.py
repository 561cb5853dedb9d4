"""Combining: one estimate with its error from the same figure computed on several replicate tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from factored_mwem.errors import InputError

LARGE = 1e4
"""Degrees of freedom beyond which Student's t is taken as a normal distribution."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(96)


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """`estimate`, its `stderr`, the interval from `low` to `high` that holds the truth with probability
    `level`, and the degrees of freedom `df` of its Student's t; float64 of the figures' shape.
    """

    estimate: np.ndarray
    stderr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    df: np.ndarray
    level: float


def combine(estimates: Any, variances: Any, *, level: float = 0.95) -> Combined:
    """A figure with its error, for the population that a release's rows are a sample of.

    `estimates: float[table, ...]`: the figure on each table of `Release.replicates`; `variances`, of the same
    shape: their squared standard errors, each computed as if that table's rows were real. A figure is a mean,
    a share, a coefficient of a regression. Raises InputError if they do not fit together.

    With m tables, b the variance between estimates and v the mean of `variances`, the error's variance is
    (1 + 1/m) b - v (Raghunathan, Reiter, Rubin 2003, for fully synthetic data). It is that rule because every
    row of a replicate table is drawn from a model that was fitted anew: b holds what the noise and the
    release's own rows may have done (W) and one table's sampling (v), so that b - v estimates W, and the mean
    of m tables adds b / m. Where that is below zero, as happens with few tables, it is v, which is too much
    (Reiter 2002, equation 3 with tables as long as the release); degrees of freedom are (m - 1) (1 - v m /
    ((m + 1) b))^2 (his section 2), and at least 1.

    >>> from factored_mwem import combine
    >>> mean = combine([10.2, 9.6, 10.0, 10.9], [0.1, 0.1, 0.1, 0.1])
    >>> round(float(mean.estimate), 3), round(float(mean.stderr), 3)
    (10.175, 0.519)
    """
    q, u = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if q.shape != u.shape or q.ndim < 1 or len(q) < 2:
        raise InputError("combine needs an estimate and a variance from each of two tables or more")
    if not (np.isfinite(q).all() and np.isfinite(u).all() and (u >= 0).all()):
        raise InputError("combine needs finite estimates, and variances of 0 or more")
    if not 0 < level < 1:
        raise InputError(f"level {level}: must lie between 0 and 1")
    m = len(q)
    between, within = np.asarray(q.var(axis=0, ddof=1)), np.asarray(u.mean(axis=0))
    total = (1 + 1 / m) * between - within
    ratio = np.divide(within, (1 + 1 / m) * between, out=np.full_like(within, np.inf), where=between > 0)
    proper = total > 0
    df = np.where(proper, np.maximum((m - 1) * (1 - np.minimum(ratio, 1.0)) ** 2, 1.0), m - 1.0)
    error, middle = np.sqrt(np.where(proper, total, within)), np.asarray(q.mean(axis=0))
    half = error * np.array([student((1 + level) / 2, each) for each in df.ravel()]).reshape(df.shape)
    return Combined(middle, error, middle - half, middle + half, df, level)


def student(p: float, df: float) -> float:
    """The p-quantile (p > 1/2) of Student's t, by bisection."""
    if df > LARGE:
        from statistics import NormalDist

        return NormalDist().inv_cdf(p)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _mass(middle, df) < p - 0.5 else (low, middle)
    return math.sqrt(df) * math.tan((low + high) / 2)


def _mass(angle: float, df: float) -> float:
    """P[0 < T < sqrt(df) tan(angle)]: the density in that angle is cos^(df - 1), which is smooth."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)
    widest = min(angle, 12 / math.sqrt(df))  # beyond lies less than 1e-15 of it where this is less
    at = widest / 2 * (NODES + 1)
    return scale * widest / 2 * float(WEIGHTS @ np.cos(at) ** (df - 1))
