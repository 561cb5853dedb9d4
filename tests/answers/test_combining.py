"""Combining rules beside scipy and beside their closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from factored_mwem.answers.combining import combine
from factored_mwem.errors import InputError


@pytest.mark.parametrize("m", [2, 3, 5, 20, 200, 20_000])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_without_variance_inside_it_is_a_mean_of_m_numbers(m: int, level: float) -> None:
    """v = 0: the interval of a Student's t with m - 1 degrees of freedom, widened by 1 + 1/m."""
    q = np.random.default_rng(m).normal(size=m)
    found = combine(q, np.zeros(m), level=level)
    stderr = (q.var(ddof=1) * (1 + 1 / m)) ** 0.5
    low, high = stats.t.interval(level, m - 1, q.mean(), stderr)
    assert float(found.stderr) == pytest.approx(stderr)
    close = 1e-8 if m < 10_000 else 1e-3  # where Student's t is as good as normal
    assert float(found.high - found.low) == pytest.approx(high - low, rel=close)
    assert float(found.high + found.low) == pytest.approx(high + low, abs=1e-9)


def test_figures_of_many_coefficients_are_combined_one_by_one() -> None:
    rng = np.random.default_rng(1)
    q, v = rng.normal(size=(12, 3)), rng.uniform(0.05, 0.2, (12, 3))
    found = combine(q, v)
    b, u = q.var(axis=0, ddof=1), v.mean(axis=0)
    total = (1 + 1 / 12) * b - u
    assert (total > 0).all()
    df = 11 * (1 - u / ((1 + 1 / 12) * b)) ** 2
    low, high = stats.t.interval(0.95, np.maximum(df, 1), q.mean(axis=0), total**0.5)
    assert np.allclose(found.df, np.maximum(df, 1)) and np.allclose([found.low, found.high], [low, high])
    alone = combine(q[:, 1], v[:, 1])
    assert (found.low[1], found.high[1]) == (pytest.approx(alone.low), pytest.approx(alone.high))


def test_less_variance_between_than_inside_counts_as_that_inside() -> None:
    found = combine([1.0, 1.1, 0.9], [0.5, 0.4, 0.6])
    assert float(found.stderr) == pytest.approx(0.5**0.5) and float(found.df) == 2


@pytest.mark.parametrize(
    "estimates, variances, level, words",
    [
        ([1.0], [0.1], 0.95, "two tables or more"),
        ([1.0, 2.0], [0.1], 0.95, "two tables or more"),
        ([1.0, np.nan], [0.1, 0.1], 0.95, "finite"),
        ([1.0, 2.0], [0.1, -0.1], 0.95, "0 or more"),
        ([1.0, 2.0], [0.1, 0.1], 95, "between 0 and 1"),
    ],
)
def test_what_cannot_be_combined_is_refused(estimates, variances, level, words) -> None:
    with pytest.raises(InputError, match=words):
        combine(estimates, variances, level=level)
