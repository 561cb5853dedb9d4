"""Popular values, and bins of equal mass at round places."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factored_mwem.tables.codes.mass import MOST_BINS, RARE, mass_edges, popular, roundest


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=300))
def test_popular_values_against_a_plain_loop(counts: list[int]) -> None:
    found, left = set[int](), sum(counts)
    for i in sorted(range(len(counts)), key=lambda i: -counts[i]):
        if counts[i] < RARE or counts[i] * MOST_BINS < left or len(found) == MOST_BINS:
            break
        found.add(i)
        left -= counts[i]
    assert set(np.flatnonzero(popular(np.array(counts))).tolist()) == found


def test_spikes_are_seen_beside_a_mass_of_zeros() -> None:
    counts = np.array([960_000, *[1] * 38_000, 400, 1600])  # 400: a 2,500th of all rows, a 96th of the rest
    assert np.flatnonzero(popular(counts)).tolist() == [0, 38_001, 38_002]
    assert not popular(np.array([RARE - 1] * 3)).any() and popular(np.array([RARE] * 3)).all()


@settings(max_examples=50)
@given(st.integers(-500, 500), st.integers(1, 700))
def test_no_whole_number_of_an_interval_is_rounder(low: int, width: int) -> None:
    def digits(x: int) -> int:
        return len(str(abs(x)).rstrip("0"))

    found = roundest(low, low + width, "integer")
    assert low < found <= low + width and isinstance(found, int)
    assert digits(found) == min(map(digits, range(low + 1, low + width + 1)))
    assert roundest(1437, 1612, "integer") == 1500 and roundest(0.0137, 0.0167, "number") == 0.015


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_a_round_number_lies_in_its_interval(low: float, width: float) -> None:
    assert low < roundest(low, low + width, "number") <= low + width


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ("2019-03-07T10:20:11", "2019-03-07T11:20:11", "2019-03-07T11:00:00"),
        ("2019-03-07T10:20:11", "2019-03-07T10:21:05", "2019-03-07T10:21:00"),
        ("2019-03-07T10:20:11", "2019-03-09T11:20:11", "2019-03-09T00:00:00"),
        ("2019-03-07T10:20:11", "2019-05-09T11:20:11", "2019-05-01T00:00:00"),
        ("1959-03-07T10:20:11", "1960-05-09T11:20:11", "1960-01-01T00:00:00"),
        ("2019-03-07T10:20:11", "2019-03-07T10:20:12", "2019-03-07T10:20:12"),
    ],
)
def test_moments_are_cut_at_the_begin_of_something(low: str, high: str, expected: str) -> None:
    micros = [int(np.datetime64(text, "us").astype(np.int64)) for text in (low, high, expected)]
    assert roundest(micros[0], micros[1], "datetime") == micros[2]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["flat", "heavy", "heaped"]), st.integers(200, 20_000))
def test_bins_hold_about_the_same_mass_and_end_where_the_data_do(seed: int, shape: str, rows: int) -> None:
    rng = np.random.default_rng(seed)
    draw = {
        "flat": lambda: rng.integers(0, 100_000, rows),
        "heavy": lambda: np.exp(rng.normal(8, 2, rows)).astype(np.int64),
        "heaped": lambda: rng.integers(0, 1000, rows) * 100,
    }[shape]
    units, counts = np.unique(draw(), return_counts=True)
    cuts = mass_edges(units, counts, "integer")
    assert cuts[0] == units[0] and cuts[-1] == units[-1] + 1 and (np.diff(cuts) > 0).all()
    mass = np.add.reduceat(counts, np.searchsorted(units, cuts[:-1]).clip(max=len(units) - 1))
    values = np.diff(np.searchsorted(units, cuts))
    goal = rows / min(max(rows // RARE, 8), MOST_BINS)
    assert (mass[values > 1] <= 2 * goal + counts.max()).all()
    assert len(cuts) < 2.5 * MOST_BINS


def test_edges_are_round() -> None:
    units, counts = np.unique(
        np.random.default_rng(1).normal(50_000, 9_000, 50_000).astype(int), return_counts=True
    )
    inner = mass_edges(units, counts, "integer")[1:-1]
    assert np.mean(inner % 100 == 0) > 0.8 > np.mean(units % 100 == 0)


def test_tails_get_finer_bins() -> None:
    values = np.exp(np.random.default_rng(2).normal(10, 1, 40_000)).astype(np.int64)
    units, counts = np.unique(values, return_counts=True)
    cuts = mass_edges(units, counts, "integer")
    beyond = values[values >= np.quantile(values, 1 - 1 / MOST_BINS)]
    inside = [np.count_nonzero((values >= low) & (values < high)) for low, high in itertools.pairwise(cuts)]
    assert np.count_nonzero(cuts > beyond.min()) >= 4 and max(inside[-3:]) <= 4 * RARE


def test_stretches_without_rows_are_bins_of_their_own() -> None:
    values = np.concatenate([np.arange(1000, 2000), np.arange(90_000, 91_000), [512_345]])
    cuts = mass_edges(values, np.ones(len(values), int), "integer", 10)
    for low, high in itertools.pairwise(cuts.tolist()):
        if np.any((values >= low) & (values < high)):
            assert high - low < 60_000  # of gaps of 88,000 and 421,000
    empty = [(a, b) for a, b in itertools.pairwise(cuts) if not np.any((values >= a) & (values < b))]
    assert sum(b - a for a, b in empty) > 0.8 * (88_000 + 421_000)
    assert cuts[-2] == 500_000  # not where the one row is


@pytest.mark.parametrize(
    "values", [[0.0, 4e-320], [1.5, 1.5000000000000002], [-2.5e299, 2.5e299], [1e-300, 2e-300], [7.25]]
)
def test_extreme_numbers_can_be_cut(values: list[float]) -> None:
    cuts = mass_edges(np.array(values), np.ones(len(values), int), "number")
    assert (np.diff(cuts) > 0).all() and cuts[0] == values[0] and cuts[-1] > values[-1]
