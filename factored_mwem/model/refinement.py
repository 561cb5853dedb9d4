"""Refinement: rows drawn from a model moved towards its marginals. Free, because both are public already.

A pass takes the columns one by one. The rows whose value of the column stands in the fullest cells come
first; each gets the value that lowers the summed L1 distance of all tables most, or keeps its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from factored_mwem.kernels.rows import Tables, charge, improve

MAX_SHARE = 0.1
"""Largest share of a column's rows that a pass may change: the tenth in the fullest cells has three quarters
of the gain.
"""
MIN_MOVED_SHARE = 0.005
"""Passes end when fewer values change. On nltcs at epsilon 10, .05 gives .0017 and .005 gives .0014."""
MAX_PASSES = 8
"""Most passes. On Adult the first three bring nine tenths of the gain of twelve; on nltcs eight still
help.
"""
NONE = Tables(np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.float32))
MAX_PROPOSALS = 300_000
"""Values tried by default, which takes about two seconds; at a million rows ten times as many bring nothing
more.
"""


@dataclass(frozen=True, slots=True, eq=False)
class RefinementTarget:
    """`views`: (attribute, level) axes, an attribute once; `table: float64[cells]`, row-major, records."""

    views: tuple[tuple[int, int], ...]
    table: np.ndarray

    def over(self, axis: list[int], sizes: Sequence[int]) -> tuple[list[int], np.ndarray]:
        """(the numbers of its views among all, float32: the table with an axis for each)."""
        return axis, np.asarray(self.table, dtype=np.float32).reshape([sizes[v] for v in axis])


@dataclass(frozen=True, slots=True, eq=False)
class Refinement:
    """The targets that rows are moved towards. `groups[a][level]: int[code of a]` is the code at each level,
    level 0 the code itself. A target sums to the number of rows. `barred`: tables, infinite where no row may
    come to lie and 0 elsewhere. `kept`: attributes that stay.
    """

    groups: Sequence[Sequence[np.ndarray]]
    targets: Sequence[RefinementTarget]
    barred: Sequence[RefinementTarget] = ()
    kept: Collection[int] = ()


def enough(attributes: int, rows: int) -> int:
    """How many proposals are enough; more bring little."""
    return min(math.ceil(MAX_SHARE * rows) * MAX_PASSES * attributes, MAX_PROPOSALS)


def refine(codes: np.ndarray, aim: Refinement, proposals: int, rng: np.random.Generator) -> None:
    """Change `codes: int[attribute, row]`, in place, for a smaller summed L1 distance between the rows'
    tables and the targets. `proposals`: the values looked at, each held against all values of its column.
    """
    (attributes, rows), groups = codes.shape, aim.groups
    first = np.cumsum([0, *(len(levels) for levels in groups)])
    sizes = [int(level.max()) + 1 for levels in groups for level in levels]
    tables, barred = (_by_attribute(listed, first, sizes) for listed in (aim.targets, aim.barred))
    columns = [a for a in range(attributes) if sizes[first[a]] > 1 and a not in aim.kept and tables[a]]
    if not columns or not rows:
        return
    views = np.array([level[codes[a]] for a, levels in enumerate(groups) for level in levels], dtype=np.int32)
    each = min(math.ceil(MAX_SHARE * rows), math.ceil(proposals / len(columns)))
    scratch, costs = np.empty((2, rows), dtype=np.int64), np.empty((2, rows), dtype=np.float32)
    with ThreadPoolExecutor(max_workers=2) as pool:
        while proposals > 0:
            moved = looked = 0
            for a in rng.permutation(columns).tolist():  # in a random order, so that no column always yields
                count = min(each, proposals)
                if not count:
                    break
                column = views[first[a] : first[a + 1]]
                layout, residual = _lay_out(int(first[a]), len(groups[a]), tables[a])
                rules = Tables(*_lay_out(int(first[a]), len(groups[a]), barred[a])) if aim.barred else NONE
                # half of the tables on each core: no two share a cell of `residual`
                take_off = partial(charge, views, column)
                list(pool.map(take_off, np.array_split(layout, 2), (residual, residual), scratch, costs))
                # the rows whose removal lowers the L1 most are those in the fullest cells
                fullest = np.argpartition(costs[0] + costs[1], count - 1)[:count]
                picks = np.stack([fullest, rng.integers(rows, size=count)])
                values = np.array(groups[a], dtype=np.int32)
                moved += improve(views, column, Tables(layout, residual), rules, values, picks)
                looked += count
                proposals -= count
            if moved < MIN_MOVED_SHARE * looked:
                break
    codes[:] = views[first[:-1]]


def _by_attribute(
    targets: Sequence[RefinementTarget], first: np.ndarray, sizes: Sequence[int]
) -> list[list[tuple[list[int], np.ndarray]]]:
    """Of each attribute the targets that it is in, in order: looked up once, not at each turn of a column."""
    own: list[list[tuple[list[int], np.ndarray]]] = [[] for _ in first[:-1]]
    for target in targets:
        over = target.over([int(first[a]) + level for a, level in target.views], sizes)
        for a, _ in target.views:
            own[a].append(over)
    return own


def _lay_out(
    first: int, levels: int, mine: Sequence[tuple[list[int], np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """(layout, residual) for the column of views `first` .. `first + levels - 1`, before rows are counted;
    `mine`: the tables that it is in.
    """
    own = range(first, first + levels)
    layout = np.zeros((len(mine), 2 * max((len(axis) for axis, _ in mine), default=1)), dtype=np.int64)
    residual = np.empty(sum(table.size for _, table in mine), dtype=np.float32)
    start = 0
    for entry, (axis, table) in zip(layout, mine, strict=True):
        at = next(j for j, v in enumerate(axis) if v in own)
        turned = np.moveaxis(table, at, -1)
        residual[start : start + table.size].reshape(turned.shape)[...] = turned
        entry[:2] = start, axis[at] - first
        stride = turned.shape[-1]
        for j, v in zip(range(2, len(entry), 2), reversed([*axis[:at], *axis[at + 1 :]]), strict=False):
            entry[j : j + 2] = v, stride
            stride *= turned.shape[-1 - j // 2]
        start += table.size
    return layout, residual
