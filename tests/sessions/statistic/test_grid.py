"""The grid of values: fine by default, its step told, its rounding inside the interval."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem.privacy.other.column import MOST_CELLS
from factored_mwem.sessions.statistic import sample_and_aggregate, statistic
from factored_mwem.sessions.statistic.grid import Grid


@pytest.mark.parametrize("bounds", [(0, 1), (0, 120), (-3, 4), (0, 65_535), (0, 99_999), (0.0, 0.3)])
def test_the_default_grid_is_fine_and_holds_whole_numbers(bounds: tuple[float, float]) -> None:
    """At least 2^15 steps whatever the bounds; of whole bounds each whole number is a value of the grid."""
    grid = Grid.of(*bounds)
    assert 2**15 < grid.cells <= MOST_CELLS
    if all(float(end).is_integer() for end in bounds) and bounds[1] - bounds[0] < MOST_CELLS:
        assert (Fraction(1) / Fraction(grid.step)).denominator == 1
        assert Fraction(grid.lower) + (grid.cells - 1) * Fraction(grid.step) == grid.upper


def rates(rng: np.random.Generator) -> np.ndarray:
    """20,000 rates of about .03, far from every whole number."""
    return rng.beta(3, 97, 20_000)


def test_the_interval_of_a_mean_holds_the_mean_of_a_rate() -> None:
    """95 in 100 by the bound itself: fewer than 167 of 200 come with a probability below 1e-9."""
    values = rates(np.random.default_rng(5))
    table, inside = pa.table({"rate": values}), 0
    for _ in range(200):
        answer = statistic(table, "rate", "mean", lower=0, upper=1, epsilon=0.5)
        assert answer.error is not None and answer.error < 0.01
        inside += abs(answer.value - values.mean()) <= answer.error
    assert inside >= 167


@pytest.mark.parametrize("step", [0.25, 0.01])
def test_rounding_to_a_coarse_grid_is_inside_the_interval(step: float) -> None:
    """Every value lies just below the middle of two of the grid's, so that all are rounded one way."""
    table = pa.table({"x": np.full(100_000, 0.499 * step)})
    for _ in range(20):
        answer = statistic(table, "x", "mean", lower=0, upper=1, grid=step, epsilon=5.0)
        assert answer.step == step and answer.error is not None
        assert abs(answer.value - 0.499 * step) <= answer.error <= step / 2 + 1e-3


def test_the_other_statistics_of_a_rate() -> None:
    values = rates(np.random.default_rng(6))
    table = pa.table({"rate": values})
    asked = {"lower": 0, "upper": 1, "epsilon": 4.0}
    for what, truth, near in (
        ("median", np.median(values), 1e-3),
        ("variance", values.var(), 1e-3),
        ("count", 20_000, 20),
    ):
        assert statistic(table, "rate", what, **asked).value == pytest.approx(truth, abs=near), what  # type: ignore[arg-type]
    high = statistic(table, "rate", "quantile", at=0.9, **asked).value  # type: ignore[arg-type]
    assert high == pytest.approx(np.quantile(values, 0.9), abs=2e-3)
    for what, column, truth in (("min", values, values.min()), ("max", 1 - values, 1 - values.min())):
        ends = [statistic(pa.table({"x": column}), "x", what, **asked).value for _ in range(9)]  # type: ignore[arg-type]
        assert float(np.median(ends)) == pytest.approx(truth, abs=0.02), what


def test_whole_numbers_lose_nothing() -> None:
    """A mean of whole numbers on the default grid: with hardly any noise it is the mean itself."""
    ages = np.random.default_rng(7).integers(18, 90, 5_000)
    answer = statistic(pa.table({"age": ages}), "age", "mean", lower=0, upper=120, epsilon=1000.0)
    assert answer.value == pytest.approx(ages.mean(), abs=2e-3)


@pytest.mark.parametrize("by", ["average", "center"])
def test_an_aggregate_is_no_whole_number(by: str) -> None:
    """What .37 of every block comes out as, and a share of the rows of a column of whole numbers."""
    table = pa.table({"x": np.arange(4000) % 100})
    given = {"lower": 0, "upper": 1, "blocks": 100, "by": by, "epsilon": 4.0}
    for function, truth in ((lambda rows: 0.37, 0.37), (lambda rows: np.mean(rows < 37), 0.37)):
        found = [sample_and_aggregate(table, function, {"x": (0, 99)}, **given) for _ in range(15)]
        assert float(np.median([each.value[0] for each in found])) == pytest.approx(truth, abs=0.15)
        assert all(each.step == 2.0**-15 for each in found)
