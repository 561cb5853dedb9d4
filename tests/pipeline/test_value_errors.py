"""Errors on values against scipy and pandas, on columns of every shape."""

from __future__ import annotations

import datetime
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp, wasserstein_distance

from factored_mwem.owner.evaluation.correlations import SHOWN_PAIRS, correlation_errors
from factored_mwem.owner.evaluation.readings import read_alike, read_columns
from factored_mwem.owner.evaluation.value_errors import PERCENTS, ColumnErrors, column_errors
from factored_mwem.tables.inputs.source import open_table

RNG = np.random.default_rng(5)
HEAVY = np.where(RNG.random(900) < 0.9, 0, RNG.integers(1, 99_999, 900))
PAIRS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "ages": (RNG.integers(0, 90, 1000), RNG.integers(5, 80, 300)),
    "heavy at 0": (HEAVY, np.where(RNG.random(500) < 0.9, RNG.integers(0, 3000, 500), 0)),
    "measured": (RNG.normal(3, 2, 400), RNG.normal(3.5, 1, 401)),
    "apart": (np.arange(10), np.arange(20, 27)),
    "huge": (RNG.normal(0, 1e300, 50), RNG.normal(1e299, 1e300, 60)),
    "tiny": (RNG.normal(0, 1e-300, 50), RNG.normal(0, 1e-300, 60)),
    "far from 0": (1e9 + RNG.integers(0, 5, 500), 1e9 + RNG.integers(0, 5, 500)),
    "same": (np.array([1, 1, 2]), np.array([2, 1, 1])),
    "signed zeros": (np.array([0.0, -0.0, 1.0]), np.array([-0.0, 1.0])),
}


def errors(real: Any, synthetic: Any) -> ColumnErrors:
    columns = (read_columns(open_table(pa.table({"x": column})), ["x"])["x"] for column in (real, synthetic))
    kind, unit, *both = read_alike(*columns)
    return column_errors("x", kind, unit, (both[0], both[1]))


def l1(real: pd.Series, synthetic: pd.Series) -> float:
    shares = [column.value_counts(normalize=True, dropna=False) for column in (real, synthetic)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum())


@pytest.mark.parametrize("name", PAIRS)
def test_numbers_against_scipy(name: str) -> None:
    real, synthetic = PAIRS[name]
    spread = errors(real, synthetic).spread
    assert spread is not None and spread.wasserstein is not None
    assert spread.kolmogorov_smirnov == pytest.approx(ks_2samp(real, synthetic).statistic, abs=1e-12)
    size = float(np.abs(np.concatenate([real, synthetic])).max())  # squares of the huge and tiny ones fail
    scaled = real / size, synthetic / size
    in_deviations = wasserstein_distance(*scaled) / scaled[0].std()
    assert spread.wasserstein == pytest.approx(in_deviations, rel=1e-6, abs=1e-12)
    for t, column in enumerate((real, synthetic)):
        assert spread.mean[t] == pytest.approx(column.mean(), rel=1e-9, abs=1e-9 * size)
        assert spread.deviation[t] == pytest.approx(scaled[t].std() * size, rel=1e-6)


@pytest.mark.parametrize("name", PAIRS)
def test_quantiles_are_values_of_the_table(name: str) -> None:
    spread = errors(*PAIRS[name]).spread
    assert spread is not None and tuple(spread.quantiles) == PERCENTS
    for t, column in enumerate(PAIRS[name]):
        ordered = np.sort(column)
        for percent, pair in spread.quantiles.items():
            rank = max(-(-len(column) * percent // 100), 1)  # numpy's rank is off where its product rounds
            assert pair[t] == ordered[rank - 1]
            if percent in (0, 25, 50, 75, 100):
                assert pair[t] == np.quantile(column, percent / 100, method="inverted_cdf")


@pytest.mark.parametrize("name", ["ages", "heavy at 0", "same", "signed zeros"])
def test_distance_and_new_values_against_pandas(name: str) -> None:
    real, synthetic = (pd.Series(column) for column in PAIRS[name])
    found = errors(*PAIRS[name])
    repeated = real[real.duplicated(keep=False)]
    assert found.repeated == pytest.approx(len(repeated) / len(real))
    if found.repeated < 0.9:
        assert found.distance is found.unseen is None
        return
    assert found.distance == pytest.approx(l1(real, synthetic))
    assert found.unseen == pytest.approx((~synthetic.isin(real)).mean())


def test_text_and_missing_against_pandas() -> None:
    real = pd.Series(RNG.choice(["a", "b", "c", None], 500, p=[0.6, 0.2, 0.1, 0.1]))
    synthetic = pd.Series(RNG.choice(["b", "a", "d", None], 300))
    found = errors(*(pa.array(column, from_pandas=True) for column in (real, synthetic)))
    assert (found.kind, found.spread) == ("text", None)
    assert found.distance == pytest.approx(l1(real, synthetic))
    assert found.unseen == pytest.approx((synthetic == "d").mean())
    assert found.missing == pytest.approx((real.isna().mean(), synthetic.isna().mean()))
    assert found.text == pytest.approx((real.notna().mean(), synthetic.notna().mean()))
    shares = synthetic.value_counts(dropna=False) / 300
    for popular, (value, rows) in zip(found.popular, real.value_counts().items(), strict=True):
        assert popular == (value, pytest.approx(rows / 500), pytest.approx(shares.get(value, 0)))


def test_a_mixed_column_counts_both_parts() -> None:
    found = errors(["N"] * 40 + ["1"] * 50 + ["7"] * 10, ["N"] * 10 + ["1"] * 30 + ["9", ""] * 30)
    assert found.kind == "mixed" and found.text == (0.4, 0.1)
    assert found.distance == pytest.approx(0.3 + 0.2 + 0.1 + 0.3 + 0.3)
    assert found.unseen == pytest.approx(0.3) and found.missing == (0, 0.3)
    assert found.popular == ((1, 0.5, 0.3), ("N", 0.4, 0.1), (7, 0.1, 0.0))
    assert found.spread is not None and found.spread.mean == (2, 5)


def test_five_popular_values_and_none_that_one_row_has() -> None:
    found = errors([0] * 9 + [5] * 8 + [2.5] * 7 + [3] * 6 + [4] * 5 + [1] * 4, [0, 2.5])
    assert [p.value for p in found.popular] == [0, 5, 2.5, 3, 4]
    assert [type(p.value) for p in found.popular] == [int, int, float, int, int]
    assert errors(["a", "b"], ["a"]).popular == ()


def test_values_that_do_not_repeat_have_no_distance() -> None:
    ids = [f"id{i}" for i in range(50)]
    found = errors(ids, ids)
    assert (found.repeated, found.distance, found.unseen) == (0, None, None)
    repeating = ["a"] * 9 + ["b"]
    assert errors(repeating, ["a"]).distance == pytest.approx(0.2)
    assert errors([*repeating, "c"], ["a"]).distance is None


def test_moments_are_told_as_a_person_writes_them() -> None:
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 3), datetime.date(2024, 1, 3)]
    spread = errors(days, ["2024-01-01", "2024-01-02"]).spread
    assert spread is not None
    assert spread.mean == ("2024-01-02T08:00:00", "2024-01-01T12:00:00")
    assert spread.deviation == pytest.approx((np.std([0, 2, 2]), 0.5))
    assert spread.quantiles[50] == ("2024-01-03", "2024-01-01")
    assert spread.wasserstein == pytest.approx(wasserstein_distance([0, 2, 2], [0, 1]) / np.std([0, 2, 2]))
    found = errors(["2024-01-01 10:00:00.250"] * 2, ["2024-01-01 10:00:00.250"])
    assert found.popular == (("2024-01-01T10:00:00.250000", 1, 1),)


def test_a_constant_has_no_deviation_to_measure_in() -> None:
    spread = errors([0.1] * 3, [0.1, 0.3]).spread  # in units of 0.3 their mean is no exact 0.1
    assert spread is not None and spread.wasserstein is None
    assert spread.deviation == (0, pytest.approx(0.1)) and spread.kolmogorov_smirnov == 0.5


def test_a_column_that_one_table_has_no_numbers_of() -> None:
    found = errors([1, 2, 1, 2], pa.array([None, None], pa.int64()))
    assert (found.spread, found.distance, found.missing) == (None, 2.0, (0, 1))
    nothing = errors(pa.array([None] * 3, pa.string()), pa.array([None], pa.string()))
    assert (nothing.repeated, nothing.distance, nothing.missing) == (1, 0, (1, 1))


def frame(rows: int, gaps: float) -> pd.DataFrame:
    x = RNG.normal(size=(rows, 6)) @ RNG.normal(size=(6, 6)) * [1, 1e-200, 1e150, 5, 1, 1]
    x += np.array([0, 0, 0, 1e9, 7, 0])
    return pd.DataFrame(x, columns=list("abcdef")).mask(RNG.random((rows, 6)) < gaps)


def correlation(table: pd.DataFrame, a: str, b: str) -> float:
    """By numpy, over the rows that have both."""
    both = table[[a, b]].dropna()
    return float(np.corrcoef(both[a], both[b])[0, 1])


@pytest.mark.parametrize("gaps", [0, 0.3])
def test_correlations_against_numpy(gaps: float) -> None:
    real, synthetic = frame(70_000, gaps), frame(400, gaps)
    pairs = correlation_errors({name: (real[name].to_numpy(), synthetic[name].to_numpy()) for name in real})
    sizes = pd.Series({"b": 1e200, "c": 1e-150}).reindex(real.columns, fill_value=1)  # numpy squares them
    both = {p: [correlation(t * sizes, *p) for t in (real, synthetic)] for p in combinations("abcdef", 2)}
    worst = sorted(both, key=lambda p: -abs(both[p][0] - both[p][1]))[:SHOWN_PAIRS]
    assert [pair.columns for pair in pairs] == worst
    for columns, own, others in pairs:
        assert [own, others] == pytest.approx(both[columns], abs=1e-6)


@np.errstate(all="raise")
def test_a_constant_correlates_with_nothing() -> None:
    x = np.arange(5.0)
    gone = np.where(x == 4, np.nan, x)
    assert correlation_errors({"x": (x, x), "y": (x, np.full(5, 7.1))}) == (
        (("x", "y"), pytest.approx(1), 0),
    )
    assert correlation_errors({"x": (x, np.full(5, np.nan)), "y": (gone, x)})[0][1:] == (pytest.approx(1), 0)
    assert correlation_errors({"x": (x, x)}) == correlation_errors({}) == ()
