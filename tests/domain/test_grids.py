"""Grids and bins from noisy counts: every cut is public, nothing is lost between them, and steps stay."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factored_mwem.domain import grids

UNITS = ("number", "integer", "date", "datetime")


@pytest.mark.parametrize("unit", UNITS)
def test_grids_rise_and_are_of_the_units_own_type(unit: str) -> None:
    for grid in (grids.coarse_grid(unit), grids.wide_grid(unit)):
        assert (np.diff(grid) > 0).all()
        assert grid.dtype == (np.float64 if unit == "number" else np.int64)
    if unit in ("number", "integer"):
        assert 0 in grids.coarse_grid(unit) and set(range(-3, 10)) <= set(grids.wide_grid("integer").tolist())


def test_what_stands_out_is_found_alone_or_together_and_noise_is_not() -> None:
    counts = np.zeros(120)
    assert grids.clear_span(counts, 10.0) is None
    counts[40] = 46  # 4.6 standard deviations
    assert grids.clear_span(counts, 10.0) == (40, 41)
    counts[40] = 0
    counts[60:70] = 16  # 1.6 each: together 16 of 3.2
    assert grids.clear_span(counts, 10.0) == (60, 70)
    noise = np.random.default_rng(3).normal(0, 10, size=(2000, 120))
    assert sum(grids.clear_span(row, 10.0) is not None for row in noise) <= 5


def test_empty_ends_are_cut_and_thin_tails_are_not() -> None:
    rng = np.random.default_rng(4)
    counts = np.concatenate([np.zeros(20), np.full(10, 500.0), np.full(30, 25.0), np.zeros(20)])
    ends = []
    for _ in range(50):
        first, last = grids.filled(counts + rng.normal(0, 20, len(counts)), 20.0)
        assert first <= 20 and last > 30  # what is full stays
        ends.append((first, last))
        tail = counts[last:].sum()
        assert tail <= 6 * 20 * np.sqrt(len(counts) - last)  # no more is lost than noise hides
    assert np.mean([first for first, _ in ends]) > 15  # and most of what is empty goes
    assert grids.filled(np.zeros(5), 1.0) == (0, 5)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-1000, 1000),
    st.integers(1, 5000),
    st.integers(1, 80),
    st.sampled_from([1, 7, 60]),
    st.booleans(),
)
def test_cut_keeps_its_ends_and_goes_by_steps(
    low: int, width: int, pieces: int, step: int, whole: bool
) -> None:
    edges = grids.cut(low, low + width, pieces, whole=whole, step=step)
    assert (edges[0], edges[-1]) == (low, low + width) and (np.diff(edges) > 0).all()
    assert len(edges) <= pieces + 1
    if whole:
        assert all(edge % step == 0 for edge in edges[1:-1].tolist())


@st.composite
def cells(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    whole = draw(st.booleans())
    edges = sorted(draw(st.sets(st.integers(-10_000, 10_000), min_size=2, max_size=30)))
    counts = draw(st.lists(st.integers(-30, 2000), min_size=len(edges) - 1, max_size=len(edges) - 1))
    return np.array(edges, np.int64 if whole else np.float64), np.array(counts)


@settings(max_examples=200, deadline=None)
@given(cells())
def test_refined_cells_and_bins_lie_within_the_cells_they_are_made_from(
    made: tuple[np.ndarray, np.ndarray],
) -> None:
    edges, counts = made
    fine = grids.refine(edges, counts, 10.0, pieces=grids.PIECES)
    assert set(edges.tolist()) <= set(fine.tolist()) and (np.diff(fine) > 0).all()
    bins = grids.bins(edges, counts, 10.0, rows=200.0)
    assert (bins[0], bins[-1]) == (edges[0], edges[-1]) and (np.diff(bins) > 0).all()
    if edges[-1] - edges[0] > grids.SINGLE or edges.dtype == np.float64:
        # a full cell beside one that may be empty: the step between them is an edge
        thin = counts < grids.THIN * 10
        steps = edges[1:-1][thin[1:] != thin[:-1]]
        assert set(steps.tolist()) <= set(bins.tolist())


def test_bins_hold_about_as_many_rows_as_asked() -> None:
    edges = np.arange(0, 10_001, 100)
    counts = np.round(2000 * np.exp(-np.arange(100) / 20)).astype(np.int64)
    bins = grids.bins(edges, counts, 5.0, rows=1500.0)
    held = [counts[(edges[:-1] >= low) & (edges[:-1] < high)].sum() for low, high in itertools.pairwise(bins)]
    # cells of more rows are cut, and hold none of their own by this count
    assert max(held) <= 2 * 1500 and 15 <= len(bins) <= 40


@settings(max_examples=300, deadline=None)
@given(st.sets(st.integers(-20, 20), min_size=2, max_size=10), st.sets(st.integers(-25, 25), max_size=30))
def test_every_bin_keeps_a_value_that_is_not_special(edges: set[int], special: set[int]) -> None:
    kept = grids.with_values_left(np.array(sorted(edges)), sorted(special))
    assert (np.diff(kept) > 0).all() and kept[0] == min(edges)
    assert kept[-1] in (max(edges), max(edges) + 1) or set(range(min(edges), max(edges))) <= special
    for low, high in itertools.pairwise(kept.tolist()):
        free = [v for v in range(low, high) if v not in special]
        assert free or len(kept) == 2


@pytest.mark.parametrize("unit", UNITS)
def test_tails_go_beyond_both_ends_by_the_public_grid(unit: str) -> None:
    grid = grids.coarse_grid(unit)
    middle = len(grid) // 2 + 12
    made = grids.with_tails(grid[middle : middle + 3], grid)
    assert made[0] == grid[middle - grids.TAILS[-1]] and made[-1] == grid[middle + 2 + grids.TAILS[-1]]
    assert set(made.tolist()) <= {*grid.tolist(), 0}
