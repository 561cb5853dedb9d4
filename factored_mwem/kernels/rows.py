"""Kernels that refine rows: which values of a column are in over-full cells, and which values are better.

A pass looks at one column. Its tables lie one after the other in `residual: float32[cells]`, target less
count in records, the column's own axis last: all values that a row could take are neighbours in memory.
`views: int32[view, row]` holds the codes of every attribute at every level, `column: int32[level, row]` those
of the column. Table t has `layout[t] = (start, level of the column, then a view and its stride for each other
axis)`; a stride of 0 pads.

With x = target - count, one record less in a cell changes |x| by min(1 + 2x, 1), at least -1; one more by
min(1 - 2x, 1), at least -1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import F4, I4x2, I8x2, entry, part

SLACK = np.float32(1e-5)
"""A step must gain more than this per table, in records: rounding alone never takes one."""


@entry
def charge(views: I4x2, column: I4x2, layout: I8x2, residual: F4, begin: int, cost: F4) -> None:
    """Write into `cost: float32[row]` by how much the tables' L1 would change if each of the rows from
    `begin` on were removed from its cells.

    The outer loop is over tables, so that each table stays in the cache for all rows.
    """
    one = np.float32(1)
    cells = np.empty(len(cost), dtype=np.int64)
    for r in range(len(cost)):
        cost[r] = np.float32(0)
    for t in range(len(layout)):
        own = column[layout[t, 1]][begin:]
        for r in range(len(cells)):
            cells[r] = layout[t, 0] + own[r]
        for j in range(2, layout.shape[1], 2):
            view, stride = views[layout[t, j]][begin:], layout[t, j + 1]
            for r in range(len(cells)):
                cells[r] += view[r] * stride
        for r in range(len(cells)):
            x = residual[np.uint64(cells[r])]  # unsigned: no check for an index from the end
            cost[r] += max(min(one + x + x, one), -one)


class Tables(NamedTuple):
    """Tables of a column, laid out as above, and their cells one after the other."""

    layout: I8x2
    cells: F4


@entry
def improve(views: I4x2, column: I4x2, tables: Tables, barred: Tables, groups: I4x2, picks: I8x2) -> int:
    """Give each row of `picks[0]` in turn the value that lowers the tables' L1 most; how many changed.

    No row moves into a cell whose `barred` is infinite, because rules forbid it; elsewhere `barred` is 0.
    `groups: int32[level, value]` is a value's code at each level. The search starts at the value that row
    `picks[1]` has; among values that no table distinguishes the first one is taken. Each loop over all tables
    does one thing, so that its memory reads overlap.
    """
    one, zero = np.float32(1), np.float32(0)
    layout, residual = tables
    levels, size = groups.shape
    widths = np.empty(levels, dtype=np.int64)
    for level in range(levels):
        widths[level] = 0
        for code in range(size):
            widths[level] = max(widths[level], groups[level, code] + 1)
    codes = np.empty(len(views), dtype=np.int64)
    cells = np.empty(len(layout), dtype=np.int64)
    leave = np.empty(levels, dtype=np.float32)
    change = np.empty((levels, size), dtype=np.float32)
    moved = 0
    for k in range(picks.shape[1]):
        row = picks[0, k]
        for v in range(len(views)):
            codes[v] = views[v, row]
        for t in range(len(layout)):
            cell = layout[t, 0]
            for j in range(2, layout.shape[1], 2):
                cell += codes[layout[t, j]] * layout[t, j + 1]
            cells[t] = cell
        for level in range(levels):
            leave[level] = zero
            for code in range(size):
                change[level, code] = zero
        for t in range(len(layout)):
            x = residual[np.uint64(cells[t] + column[layout[t, 1], row])]
            # a record less in the row's own cell; below, one more in each cell that it could move to
            leave[layout[t, 1]] += max(min(one + x + x, one), -one)
        for t in range(len(layout)):
            at, gain = np.uint64(cells[t]), change[layout[t, 1]]
            for code in range(widths[layout[t, 1]]):
                x = residual[at + np.uint64(code)]
                gain[code] += max(min(one - x - x, one), -one)
        for level in range(levels):
            for code in range(size):
                change[level, code] += leave[level]
            change[level, column[level, row]] = zero  # tables that see no difference change nothing
        for t in range(len(barred.layout)):
            rule = barred.layout[t]
            at = rule[0]
            for j in range(2, len(rule), 2):
                at += codes[rule[j]] * rule[j + 1]
            for code in range(widths[rule[1]]):
                change[rule[1], code] += barred.cells[at + code]
        old, value = column[0, row], column[0, picks[1, k]]
        new = _best(change, groups, old, value, -SLACK * np.float32(len(layout)))
        if new != old:
            moved += 1
            for t in range(len(layout)):
                residual[np.uint64(cells[t] + groups[layout[t, 1], old])] += one
                residual[np.uint64(cells[t] + groups[layout[t, 1], new])] -= one
            for level in range(levels):
                column[level, row] = groups[level, new]
    return moved


@part
def _best(change, groups, old, value, least):
    """The value of least summed `change`, searched from `value` on; `old` where none is below `least`."""
    size, new = groups.shape[1], old
    for _ in range(size):
        total = np.float32(0)
        for level in range(len(groups)):
            total += change[level, groups[level, value]]
        if total < least:
            least, new = total, value
        value = value + 1 if value + 1 < size else 0
    return new
