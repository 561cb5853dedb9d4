"""Refinement: rows drawn from a model moved towards its marginals. Free, because both are public already.

A pass takes the columns one by one. Of the rows looked at, those whose value of the column stands in the
fullest cells come first; each gets the value that lowers the summed L1 distance of all tables most, or keeps
its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from factored_mwem.kernels.counting import Tally, add_rows
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
LOOKED_AT = 64
"""For each value tried, so many rows are looked at, or all: of a million rows of 42 columns about half of
each 131,072, which gain as much as all would.
"""
PARTS = 16
"""Tables are counted in so many parts, two at a time, so that the counts take little memory."""
Over = tuple[list[int], np.ndarray]
"""The numbers of a table's views among all; targets less rows, float32, with an axis for each."""
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

    def over(self, first: np.ndarray, sizes: Sequence[int]) -> Over:
        """The numbers of its views among all, and the table, itself if it is of float32."""
        axis = [int(first[a]) + level for a, level in self.views]
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
    Targets in float32 are used up: they are most of the memory.
    """
    (attributes, rows), groups = codes.shape, aim.groups
    first = np.cumsum([0, *(len(levels) for levels in groups)])
    sizes = [int(level.max()) + 1 for levels in groups for level in levels]
    views = _views(codes, groups)
    residuals, bars = ([t.over(first, sizes) for t in listed] for listed in (aim.targets, aim.barred))
    tables, barred = (_by_attribute(over, first) for over in (residuals, bars))
    columns = [a for a in range(attributes) if sizes[first[a]] > 1 and a not in aim.kept and tables[a]]
    if not columns or not rows:
        return
    each = min(math.ceil(MAX_SHARE * rows), math.ceil(proposals / len(columns)))
    looked_at = min(LOOKED_AT * each, rows)
    with ThreadPoolExecutor(max_workers=2) as pool:
        some = max(len(residuals) // PARTS, 1)
        parts = [residuals[at : at + some] for at in range(0, len(residuals), some)]
        list(pool.map(partial(_take_off, views, sizes), parts))
        while proposals > 0:
            moved = looked = 0
            for a in rng.permutation(columns).tolist():  # in a random order, so that no column always yields
                count = min(each, proposals)
                if not count:
                    break
                column = views[first[a] : first[a + 1]]
                layout, residual = _lay_out(int(first[a]), len(groups[a]), tables[a])
                rules = Tables(*_lay_out(int(first[a]), len(groups[a]), barred[a])) if aim.barred else NONE
                begin = int(rng.integers(rows - looked_at)) if looked_at < rows else 0
                costs = np.empty((2, looked_at), dtype=np.float32)
                price = partial(charge, views, column)  # half of the tables on each core
                list(pool.map(price, np.array_split(layout, 2), (residual,) * 2, (begin,) * 2, costs))
                # the rows whose removal lowers the L1 most are those in the fullest cells
                fullest = begin + np.argpartition(costs[0] + costs[1], count - 1)[:count]
                picks = np.stack([fullest, rng.integers(rows, size=count)])
                values = np.array(groups[a], dtype=np.int32)
                moved += improve(views, column, Tables(layout, residual), rules, values, picks)
                _put_back(int(first[a]), len(groups[a]), tables[a], residual)
                looked += count
                proposals -= count
            if moved < MIN_MOVED_SHARE * looked:
                break
    codes[:] = views[first[:-1]]


def _views(codes: np.ndarray, groups: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """int32[view, row]: the codes of every attribute at every level."""
    views = np.empty((sum(len(levels) for levels in groups), codes.shape[1]), dtype=np.int32)
    rows = iter(views)
    for own, levels in zip(codes, groups, strict=True):
        for level in levels:  # no code is clipped: in this mode numpy makes no copy
            np.take(level.astype(np.int32), own, out=next(rows), mode="clip")
    return views


def _take_off(views: np.ndarray, sizes: Sequence[int], tables: Sequence[Over]) -> None:
    """Subtract the rows' counts from `tables`."""
    width = max((len(axis) for axis, _ in tables), default=1)
    members = np.array([[*axis, *(-1,) * (width - len(axis))] for axis, _ in tables], dtype=np.int32)
    offsets = np.cumsum([0, *(table.size for _, table in tables)])
    tally = Tally(members.reshape(-1, width), offsets, np.zeros(offsets[-1], dtype=np.uint32))
    add_rows(views.view(np.uint32), np.array(sizes), tally, np.arange(len(tables)))
    for (_, table), start, end in zip(tables, offsets, offsets[1:], strict=False):
        table[...] -= tally.counts[start:end].reshape(table.shape)


def _by_attribute(tables: Sequence[Over], first: np.ndarray) -> list[list[Over]]:
    """Of each attribute the tables that it is in, in order: looked up once, not at each turn of a column."""
    own: list[list[Over]] = [[] for _ in first[:-1]]
    for over in tables:
        for v in over[0]:
            own[int(np.searchsorted(first, v, side="right")) - 1].append(over)
    return own


def _lay_out(first: int, levels: int, mine: Sequence[Over]) -> tuple[np.ndarray, np.ndarray]:
    """(layout, residual) for the column of views `first` .. `first + levels - 1`; `mine`: its tables."""
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


def _put_back(first: int, levels: int, mine: Sequence[Over], residual: np.ndarray) -> None:
    """Copy what `_lay_out` laid out, changed since, into the tables again."""
    own, start = range(first, first + levels), 0
    for axis, table in mine:
        at = next(j for j, v in enumerate(axis) if v in own)
        turned = np.moveaxis(table, at, -1)
        turned[...] = residual[start : start + table.size].reshape(turned.shape)
        start += table.size
