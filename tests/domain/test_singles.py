"""Which single values noisy counts show, from tables whose values are known."""

from __future__ import annotations

import numpy as np
import pytest

from factored_mwem.domain import singles
from factored_mwem.domain.singles import (
    FEWEST_ON_STEP,
    MOST_IN_CLASSES,
    SingleCells,
    Singles,
    around,
    on_comb,
)
from factored_mwem.domain.steps import MOST_APART, step_of


def cells_and_counts(counts: np.ndarray, stddev: float, seed: int) -> tuple[SingleCells, np.ndarray]:
    """Cells of 20 values each, known well, and a noisy count of each value."""
    cells = SingleCells.of(np.arange(0, len(counts) + 1, 20), counts.reshape(-1, 20).sum(axis=1), 1.0, 1)
    assert cells is not None
    return cells, counts + np.random.default_rng(seed).normal(0, stddev, len(counts))


@pytest.mark.parametrize("seed", range(5))
def test_of_few_values_those_that_are_there_are_seen(seed: int) -> None:
    """One of ten comes 100 times, noise is 20; of what is drawn hardly anything is nobody's. Seen to fail, if
    narrowly, where nothing is no likelier beforehand than little (FEWER = 1 / 41).
    """
    counts = np.where(np.random.default_rng(seed).random(2000) < 0.1, 100, 0)
    cells, noisy = cells_and_counts(counts, 20.0, seed)
    seen = cells.seen(noisy, 20.0, np.zeros(0, dtype=np.int64))
    assert seen is not None
    assert seen.counts[counts[seen.units] == 0].sum() <= 0.05 * seen.counts.sum()
    assert (counts[seen.units] > 0).sum() >= 0.8 * (counts > 0).sum()


@pytest.mark.parametrize("seed", range(5))
def test_where_all_values_are_there_bins_stay_even(seed: int) -> None:
    cells, noisy = cells_and_counts(np.full(2000, 8), 20.0, seed)
    assert cells.seen(noisy, 20.0, np.zeros(0, dtype=np.int64)) is None


def test_special_values_are_not_drawn_from_bins() -> None:
    counts = np.where(np.arange(200) % 10 == 0, 500, 0)
    cells, noisy = cells_and_counts(counts, 5.0, 1)
    seen = cells.seen(noisy, 5.0, np.array([0, 50]))
    assert seen is not None and seen.units.tolist() == sorted(set(range(0, 200, 10)) - {0, 50})


def test_cells_are_cut_at_multiples_of_the_step_unless_they_are_too_many() -> None:
    cells = SingleCells.of(np.array([5, 30, 47]), np.array([9, 9]), 1.0, 10)
    assert cells is not None and cells.units.tolist() == [10, 20, 30, 40]
    assert cells.edges.tolist() == [5, 10, 20, 30, 40, 47] and cells.single.tolist() == [1, 2, 3, 4]
    assert cells.level.tolist() == [4.5] * 4
    most = MOST_IN_CLASSES
    assert SingleCells.of(np.array([0, most + 1]), np.array([9]), 1.0, 1) is None
    thin = SingleCells.of(np.array([0, most, 2 * most]), np.array([9, 0]), 1.0, 1)
    assert thin is not None and len(thin.units) == most


def test_rows_of_a_bin_without_a_value_are_not_all_drawn_as_one() -> None:
    """Seen to fail: the likeliest value took the whole bin, of 40 values by noise alone."""
    drawn, expected = np.array([0, 9, 0, 0, 0.0, 0, 0]), np.array([1, 8, 2, 2, 4.0, 0.3, 0.1])
    made = singles._filled(drawn, np.arange(7) * 10, expected, np.array([0, 20, 50, 80]))
    assert made.tolist() == pytest.approx([0, 9, *(8 / 24 * np.array([4, 4, 16])), 0.9, 0.1])


def test_bins_without_a_value_join_a_neighbour() -> None:
    edges = around(np.array([0, 10, 20, 30, 40, 50]), np.array([12, 33]))
    assert edges.tolist() == [0, 10, 30, 40, 50]  # beyond 12 and 33 most likely nothing is
    assert around(np.array([0, 10, 20]), np.zeros(0, dtype=np.int64)).tolist() == [0, 10, 20]


def little_known(counts: np.ndarray, seed: int) -> tuple[SingleCells, np.ndarray]:
    """Cells of which nothing says where in them values lie, and noisy counts of all values."""
    cells = SingleCells.of(np.array([0, len(counts)]), np.array([max(int(counts.sum()), 9)]), 1.0, 1)
    assert cells is not None
    return cells, counts + np.random.default_rng(seed).normal(0, 20.0, len(counts))


@pytest.mark.parametrize("seed", range(5))
def test_of_what_is_left_of_few_values_those_that_are_there_are_seen(seed: int) -> None:
    """Five of four thousand are left, too few for their counts to look lumpy."""
    counts, left = np.zeros(4000, dtype=np.int64), np.random.default_rng(seed).choice(4000, 5, replace=False)
    counts[left] = 160
    cells, noisy = little_known(counts, seed)
    none = np.zeros(0, dtype=np.int64)
    assert cells.seen(noisy, 20.0, none) is None
    seen = cells.seen(noisy, 20.0, none, few=True)
    assert seen is not None and len(np.intersect1d(left, seen.units)) >= 4
    assert seen.counts[counts[seen.units] == 0].sum() <= 0.05 * seen.counts.sum()


def test_what_is_left_may_be_less_than_the_noise_of_its_sum() -> None:
    cells, noisy = little_known(np.where(np.arange(4000) == 77, 200, 0), 1)
    noisy -= noisy.mean() + 1
    seen = cells.seen(noisy, 20.0, np.zeros(0, dtype=np.int64), few=True)
    assert noisy.sum() < 0 and seen is not None and 77 in seen.units


@pytest.mark.parametrize(("others", "seen"), [(0.0, True), (0.05, True), (0.6, False)])
def test_values_a_step_apart_are_told_from_all_others(others: float, seen: bool) -> None:
    """Tenths of degrees, in hundredths of the other scale: 18 apart. Not where most rows hold other values.
    Seen to fail where remainders alone are looked at (BASES), and where nothing limits what others hold.
    """
    units = np.arange(8000)
    counts = np.where(units % 18 == 14, 60.0 * (1 - others), 60.0 * others / 17)
    cells, noisy = little_known(counts.astype(int), 3)
    cells = cells.by_digits(noisy, 20.0, np.zeros(0, dtype=np.int64))
    assert ({*(units[cells.times > 0] % 18).tolist()} == {14}) == seen
    assert cells.level.sum() == pytest.approx(noisy.sum(), rel=0.2)


@pytest.mark.parametrize(
    ("others", "found", "seen"),
    [(0.0, FEWEST_ON_STEP, True), (0.0, FEWEST_ON_STEP - 1, False), (0.6, FEWEST_ON_STEP, False)],
)
def test_a_step_that_all_found_values_keep_is_kept_by_the_others(
    others: float, found: int, seen: bool
) -> None:
    """As above, where few values hold most: other counts alone do not show a step. Seen to fail where nothing
    limits what others hold.
    """
    units, none = np.arange(3600), np.zeros(0, dtype=np.int64)
    most = 14 + 18 * np.random.default_rng(1).choice(200, found, replace=False)
    counts = np.where(units % 18 == 14, 0.0, 3.0 * others)
    counts[most] = 600
    cells, noisy = little_known(counts.astype(int), 3)
    made = cells.on_steps(noisy, 20.0, none, most, 0.0)
    assert (made is not None) == seen
    if made is not None:
        assert made.comb is not None and made.comb[1] % 18 == 0
        assert {*((made.units[made.level > 0] - most[0]) % 18).tolist()} == {0}
        assert made.level.sum() == pytest.approx(cells.level.sum())


def test_no_step_is_kept_where_others_lie_together() -> None:
    """Ages in tenths, of the first year alone. Seen to fail where only the sum of what
    lies beside the step counts.
    """
    years = 10 * np.arange(1, 40, 2)
    counts = np.where(np.isin(np.arange(800), years), 400, 0)
    made = []
    for infants in (0, 60):
        counts[1:10] = infants
        cells, noisy = little_known(counts, 1)
        made.append(cells.on_steps(noisy, 20.0, years[:0], years, 0.0))
    assert made[0] is not None and made[1] is None


def test_bins_without_a_value_are_drawn_from_what_is_a_step_apart() -> None:
    """32 and 50 are special, 14 is known; no value lies at 86 or beyond. Numbers that are nearly a special
    one are that one.
    """
    known = Singles(np.array([14]), np.array([5]))
    more = on_comb(known, (14.0, 18.0), np.array([0, 20, 60, 70, 86]), np.array([32, 50]))
    assert more.units.tolist() == [14, 68] and more.counts[0] == 5 and (more.counts > 0).all()
    assert on_comb(known, (14.0, 18.0), np.array([0, 20, 10**6]), np.array([32])) is known
    knots, bins = Singles(np.zeros(0), np.zeros(0, dtype=np.int64)), np.array([2.0, 5.0])
    assert (
        on_comb(knots, (0.0, 1.15078), bins, np.array([3 * 1.15078 + 1e-12])).units.tolist()
        == (np.array([2, 4]) * 1.15078).tolist()
    )


def test_a_step_is_told_by_values_that_are_its_multiples() -> None:
    knots = [knot * 1.15078 for knot in (3, 4, 7, 11, 25)]
    assert step_of([*knots, 0.0, -knots[0]]) == 1.15078
    assert step_of(knots[:4]) is None and step_of([*knots, 9.5]) is None
    rng = np.random.default_rng(1)
    assert not any(step_of(rng.normal(50, 20, 5).tolist()) for _ in range(100))
    assert step_of([*knots, 5000 * 1.15078]) is None  # too many would lie between


def test_multiples_of_a_step_have_cells_that_hold_what_is_nearly_they() -> None:
    edges, noisy = np.array([0.5, 3.0, 7.0]), np.array([10, 20])
    cells = SingleCells.apart(edges, noisy, 1.5, [4.5 + 1e-12, 100.0])
    assert cells is not None and cells.units.tolist() == [1.5, 3.0, 4.5 + 1e-12, 6.0]
    assert cells.level.tolist() == pytest.approx([10, 20 / 3, 20 / 3, 20 / 3])
    low, high = cells.edges[cells.single], cells.edges[cells.single + 1]
    assert (low <= cells.units).all() and (cells.units < high).all() and (high - low < 1e-6).all()
    assert (low[1:] >= high[:-1]).all()
    assert cells.all_there_is(np.full(4, 9.0), 0.5)
    assert not cells.all_there_is(np.full(4, 9.0), 5.0) and not cells.all_there_is(np.full(4, 0.5), 0.01)
    for step in (9.0, 6.5 / (MOST_APART + 2)):
        assert SingleCells.apart(edges, noisy, step, []) is None


def test_no_two_multiples_share_a_cell_however_far_from_zero() -> None:
    """A row in a cell of two would be counted twice, and noise would hide one. Floats near 1e9 cannot tell
    the ends of cells of a billionth of a step. Seen to fail where nothing asks how far from 0 they are.
    """
    rng, made = np.random.default_rng(0), 0
    for _ in range(3000):
        step, first = float(f"{10 ** rng.uniform(-3, 2):.{rng.integers(1, 8)}g}"), 10 ** rng.uniform(0, 10)
        times = np.unique(np.rint(rng.choice([-1, 1]) * first) + rng.integers(0, 60, 5))
        edges = times * step * (1 + rng.choice([0, 1e-9, -1e-9, 2e-16], len(times)))
        edges = np.unique(edges)
        cells = SingleCells.apart(edges, np.ones(len(edges) - 1), step, []) if len(edges) > 1 else None
        if cells is not None:
            made += 1
            assert (np.diff(cells.single) > 0).all()
    assert made > 1000
    crowded = np.array([1e9, 1e9 + 0.5, 1e9 + 1.0, 1e9 + 3.0])
    assert SingleCells.apart(crowded, np.ones(3), 0.25, []) is None
    assert SingleCells.apart(np.array([-1e300, 1e300]), np.ones(1), 1e-9, []) is None
    assert step_of([1e-4, 50.0, 60.0, 70.0, 80.0]) is None
