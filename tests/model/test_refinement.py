"""Refined rows: nearer to their targets at every step, by the steps a plain search finds, and only then."""

from __future__ import annotations

import itertools
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from support.naive import cells_of

from factored_mwem.kernels import rows as kernels
from factored_mwem.model import refinement as module
from factored_mwem.model.refinement import Refinement, RefinementTarget, enough, refine

SIZES = (4, 1, 3, 12, 2)
COARSE = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2])
GROUPS = [[np.arange(s), COARSE] if s == 12 else [np.arange(s)] for s in SIZES]
VIEWS = [
    ((0, 0),),
    ((3, 0),),
    ((1, 0),),
    ((0, 0), (2, 0)),
    ((2, 0), (3, 0)),
    ((0, 0), (3, 1), (4, 0)),
    ((4, 0), (2, 0), (3, 1)),
    ((0, 0), (1, 0), (2, 0)),
    ((0, 0), (2, 0), (3, 1), (4, 0)),
]
"""All orders from one to four, axes out of order, one attribute at two levels, one of a single value."""

Axes = tuple[tuple[int, int], ...]


def draw(rows: int, seed: int, sizes: tuple[int, ...] = SIZES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array([np.minimum(rng.geometric(0.4, size=rows) - 1, s - 1) for s in sizes], dtype=np.int32)


def table_of(codes: np.ndarray, views: Axes, groups: list[list[np.ndarray]] = GROUPS) -> list[int]:
    """Counts by plain counting, row-major."""
    columns = [[int(groups[a][level][code]) for code in codes[a]] for a, level in views]
    found = Counter(zip(*columns, strict=True))
    return [found[cell] for cell in cells_of(tuple(int(groups[a][level].max()) + 1 for a, level in views))]


def targets_for(rows: int, seed: int = 1, views: list[Axes] = VIEWS) -> list[RefinementTarget]:
    """Tables of other rows, made uneven, so that they are no whole numbers and agree with no rows at all."""
    rng = np.random.default_rng(seed)
    tables = [np.array(table_of(draw(rows, 100 + seed), axes)) * 0.9 + 0.1 for axes in views]
    tables = [table * rng.uniform(0.5, 1.5, size=len(table)) for table in tables]
    return [
        RefinementTarget(axes, table * (rows / table.sum()))
        for axes, table in zip(views, tables, strict=True)
    ]


def distance(codes: np.ndarray, targets: list[RefinementTarget]) -> float:
    """The summed L1, from scratch."""
    return sum(
        abs(x - y) for t in targets for x, y in zip(table_of(codes, t.views), t.table.tolist(), strict=True)
    )


def test_it_gets_nearer_with_every_proposal() -> None:
    """Never further at any number of proposals, the same way as far as a shorter run went, and far nearer at
    the end.

    Seen to fail: with the sign of the cost turned, which looks at the rows in the emptiest cells first; with
    what a column changed not put back.
    """
    rows, targets = 60, targets_for(60)
    found = []
    for proposals in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 400):
        codes = draw(rows, 2)
        refine(codes, Refinement(GROUPS, targets), proposals, np.random.default_rng(5))
        found.append(distance(codes, targets))
        assert found[-1] <= distance(draw(rows, 2), targets) + 1e-3
    assert found[0] == distance(draw(rows, 2), targets)
    assert found[-1] < 0.75 * found[0]


@pytest.mark.parametrize("seed", range(5))
def test_every_step_is_the_best_one(seed: int) -> None:
    """Both kernels against a search that recounts everything: cost of each row, value chosen, and residual
    after each step.

    Seen to fail: without the line of `improve` that leaves out tables which see no difference; with the
    residual not kept up; with the sign of the cost turned; with the rows of `charge` taken from 0 on.
    """
    rows, rng = 25, np.random.default_rng(seed)
    codes, targets = draw(rows, seed), targets_for(rows, seed)
    views = np.array([level[codes[a]] for a, levels in enumerate(GROUPS) for level in levels], dtype=np.int32)
    first = np.cumsum([0, *map(len, GROUPS)])
    axes = [[int(first[a]) + level for a, level in t.views] for t in targets]
    sizes = [int(level.max()) + 1 for levels in GROUPS for level in levels]
    shapes = [tuple(int(GROUPS[a][level].max()) + 1 for a, level in t.views) for t in targets]
    for a in (0, 2, 3, 4):
        tables = [t.table.astype(np.float32).reshape(shape) for t, shape in zip(targets, shapes, strict=True)]
        module._take_off(views, sizes, list(zip(axes, tables, strict=True)))
        own = range(int(first[a]), int(first[a + 1]))
        shaped = [each for each in zip(axes, tables, strict=True) if set(own) & set(each[0])]
        layout, residual = module._lay_out(int(first[a]), len(GROUPS[a]), shaped)
        mine = [t for t in targets if any(b == a for b, _ in t.views)]
        column, cost = views[first[a] : first[a + 1]], np.empty(rows, dtype=np.float32)
        some = np.empty(rows - 9, dtype=np.float32)
        kernels.charge(views, column, layout, residual, 0, cost)
        kernels.charge(views, column, layout, residual, 9, some)
        assert np.array_equal(some, cost[9:])
        before = distance(codes, mine)
        assert np.abs(residual).sum() == pytest.approx(before, rel=1e-5)
        assert cost == pytest.approx(
            [distance(np.delete(codes, r, axis=1), mine) - before for r in range(rows)], abs=1e-3
        )
        for row in rng.integers(rows, size=8).tolist():
            before, group = distance(codes, mine), np.array(GROUPS[a], dtype=np.int32)
            options = [distance(_with(codes, a, row, value), mine) for value in range(SIZES[a])]
            tables = kernels.Tables(layout, residual)
            moved = kernels.improve(views, column, tables, module.NONE, group, np.array([[row], [0]]))
            codes[a, row] = views[first[a], row]
            after = distance(codes, mine)
            assert after == pytest.approx(min(options), abs=1e-3)
            assert moved == (min(options) < before - 1e-3)
            assert np.abs(residual).sum() == pytest.approx(after, rel=1e-5)
            assert all(
                np.array_equal(views[first[a] + i], level[codes[a]]) for i, level in enumerate(GROUPS[a])
            )


def _with(codes: np.ndarray, attribute: int, row: int, value: int) -> np.ndarray:
    changed = codes.copy()
    changed[attribute, row] = value
    return changed


def test_columns_reach_their_own_targets() -> None:
    """One-way targets in whole numbers are met to the record; a column without one keeps its values."""
    rows = 500
    targets = [
        RefinementTarget(((a, 0),), np.array(table_of(draw(rows, 7)[:, ::-1], ((a, 0),)), dtype=np.float64))
        for a in (0, 3)
    ]
    targets = [RefinementTarget(t.views, np.roll(t.table, 1)) for t in targets]
    codes = draw(rows, 8)
    refine(codes, Refinement(GROUPS, targets), 100_000, np.random.default_rng(0))
    assert distance(codes, targets) == 0
    for a in (1, 2, 4):
        assert np.array_equal(codes[a], draw(rows, 8)[a])


def test_values_no_table_tells_apart_stay_mixed() -> None:
    """Only the coarse level has a target: values that move into a group spread over it, not all to its first.

    Seen to fail: with the search starting at value 0.
    """
    rows = 3000
    codes = (
        np.random.default_rng(0)
        .choice(12, p=[0.25] * 3 + [0.01] * 4 + [0.042] * 5, size=(1, rows))
        .astype(np.int32)
    )
    before = np.bincount(codes[0], minlength=12)
    targets = [RefinementTarget(((0, 1),), np.array([0.0, rows / 2, rows / 2]))]
    refine(codes, Refinement([[np.arange(12), COARSE]], targets), 50_000, np.random.default_rng(0))
    assert np.array_equal(np.bincount(COARSE[codes[0]], minlength=3), targets[0].table)
    assert np.all(np.bincount(codes[0], minlength=12)[8:] > before[8:] + 10)


@pytest.mark.parametrize(
    ("rows", "views", "proposals"),
    [
        (0, VIEWS, 10),
        (1, VIEWS, 100),
        (2, VIEWS, 100),
        (50, VIEWS, 0),
        (50, [], 100),
        (50, [((1, 0),)], 100),
        (50, [((3, 1),)], 1),
    ],
    ids=["no row", "one row", "two rows", "no proposal", "no target", "a target of one cell", "one proposal"],
)
def test_ends_of_the_range(rows: int, views: list[Axes], proposals: int) -> None:
    codes, before = draw(rows, 3), draw(rows, 3)
    targets = (
        targets_for(rows, views=views)
        if rows
        else [RefinementTarget(axes, np.zeros(len(table_of(codes, axes)))) for axes in views]
    )
    refine(codes, Refinement(GROUPS, targets), proposals, np.random.default_rng(0))
    assert codes.shape == before.shape and codes.dtype == before.dtype
    assert all(np.all((column >= 0) & (column < size)) for column, size in zip(codes, SIZES, strict=True))
    assert distance(codes, targets) <= distance(before, targets) + 1e-3
    if proposals <= 1 or views in ([], [((1, 0),)]):
        assert (codes != before).sum() <= proposals * bool(views)


@pytest.mark.parametrize("ruled", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_no_row_moves_where_rules_leave_none(ruled: bool, seed: int) -> None:
    """Targets pull rows into cells that are barred, at the values themselves and at a coarser level: none
    goes there. Without the bar some do.
    """
    rows, rng = 2000, np.random.default_rng(seed)
    codes = draw(rows, seed + 20)
    size = len(table_of(codes, BARRED[0]))
    barred = [RefinementTarget(axes, np.zeros(len(table_of(codes, axes)))) for axes in BARRED]
    for target in barred:
        closed = rng.random(len(target.table)) < 0.4
        target.table[closed] = np.inf
        codes = codes[:, np.isfinite(target.table)[_cells(codes, target.views)]]
    rows = codes.shape[1]
    assert rows > 50
    pull = [RefinementTarget(BARRED[0], np.full(size, rows / size)), *targets_for(rows)]
    codes = np.ascontiguousarray(codes)
    before = codes.copy()
    refine(codes, Refinement(GROUPS, pull, barred if ruled else ()), 20_000, rng)
    assert (codes != before).any()
    inside = [int(np.isinf(target.table)[_cells(codes, target.views)].sum()) for target in barred]
    assert (sum(inside) == 0) == ruled


BARRED: list[Axes] = [((0, 0), (2, 0)), ((3, 1), (4, 0))]


def _cells(codes: np.ndarray, axes: Axes) -> np.ndarray:
    """int64[row]: the cell of each row in a table over `axes`."""
    cell = np.zeros(codes.shape[1], dtype=np.int64)
    for a, level in axes:
        group = GROUPS[a][level]
        cell = cell * (int(group.max()) + 1) + group[codes[a]]
    return cell


def test_one_attribute() -> None:
    codes, target = draw(40, 4, (6,)), RefinementTarget(((0, 0),), np.array([0.0, 0, 0, 0, 0, 40]))
    refine(codes, Refinement([[np.arange(6)]], [target]), 10_000, np.random.default_rng(0))
    assert np.all(codes == 5)


@pytest.mark.parametrize("planted", [False, True])
def test_rows_on_target_stay(planted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: a column is counted in another order of the rows. On target they then leave it."""
    right = module._take_off

    def wrong(views: np.ndarray, sizes: list[int], tables: list[module.Over]) -> None:
        shifted = views.copy()
        shifted[0] = np.roll(views[0], 1)
        right(shifted, sizes, tables)

    if planted:
        monkeypatch.setattr(module, "_take_off", wrong)
    codes = draw(200, 6)
    targets = [RefinementTarget(axes, np.array(table_of(codes, axes), dtype=np.float64)) for axes in VIEWS]
    refine(codes, Refinement(GROUPS, targets), 5000, np.random.default_rng(0))
    assert np.array_equal(codes, draw(200, 6)) == (distance(codes, targets) == 0) == (not planted)


def test_a_seed_gives_the_same_rows_and_another_gives_others() -> None:
    found = []
    for seed in (1, 1, 2):
        codes = draw(400, 9)
        refine(codes, Refinement(GROUPS, targets_for(400)), 2000, np.random.default_rng(seed))
        found.append(codes)
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_enough_grows_with_the_table_to_an_end() -> None:
    assert enough(14, 0) == 0 and enough(1, 1) == 8
    assert enough(14, 1000) == 11_200
    assert enough(14, 10**7) == enough(14, 10**9) == module.MAX_PROPOSALS


def test_a_refinement_takes_less_memory_than_its_targets_do() -> None:
    """Seen to fail where targets were copied: 1.7 times their size."""
    codes, groups = draw(50, 3, (20,) * 9), [[np.arange(20)]] * 9
    targets = [
        RefinementTarget(tuple((a, 0) for a in three), np.full(20**3, 50 / 20**3, dtype=np.float32))
        for three in itertools.combinations(range(9), 3)
    ]
    refine(codes.copy(), Refinement(groups, targets[:1]), 9, np.random.default_rng(0))  # kernels are loaded
    tracemalloc.start()
    refine(codes, Refinement(groups, targets[1:]), 9, np.random.default_rng(0))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 0.8 * sum(target.table.nbytes for target in targets)
