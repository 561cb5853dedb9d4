"""Kernels for counting many marginals by way of few wider ones, see backends/cover.py. Only tables of many
rows need them, so they are not compiled in a first run on a small table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import I8, U4, I4x2, compiled

MAX_CELLS = 2**16
"""Most cells of a wider marginal, so that its counts stay in the cache of a core."""


@compiled
def cover(sizes: I8, members: I4x2, first: I8, which: I8, wide: I4x2, owner: I8) -> int:
    """Find wider marginals that hold all marginals `members`; their number.

    `which[first[c] : first[c + 1]]` are the marginals over column c. Fills in `wide: int32[wider marginal,
    slot]`, the columns of each, ascending, padded with -1, and `owner: int64[marginal]`, the first wider
    marginal that holds each. Greedy: from a marginal that none holds yet, the column is added that makes it
    hold most others for its size (by logarithm), while its cells are at most MAX_CELLS and slots are left.
    """
    have = np.zeros(len(members), dtype=np.int64)
    orders = np.zeros(len(members), dtype=np.int64)
    for m in range(len(members)):
        owner[m] = -1
        for j in range(members.shape[1]):
            orders[m] += members[m, j] >= 0
    gain = np.zeros(len(sizes), dtype=np.int64)  # marginals that lack nothing but this column
    inside = np.zeros(len(sizes), dtype=np.bool_)
    count = 0
    for start in range(len(members)):
        if owner[start] >= 0:
            continue
        have[:] = 0
        gain[:] = 0
        inside[:] = False
        cells, width, slot = 1, 0, 0
        while width < wide.shape[1]:
            column = -1
            if slot < orders[start]:  # first the columns of the marginal itself
                column = members[start, slot]
                slot += 1
            else:
                best = 0.0
                for c in range(len(sizes)):
                    if gain[c] > 0 and not inside[c] and cells * sizes[c] <= MAX_CELLS:
                        worth = gain[c] / np.log(1.0 + sizes[c])
                        if worth > best:
                            best, column = worth, c
            if column < 0:
                break
            inside[column] = True
            cells *= sizes[column]
            wide[count, width] = column
            width += 1
            for i in range(first[column], first[column + 1]):
                m = which[i]
                have[m] += 1
                if owner[m] < 0 and have[m] == orders[m]:
                    owner[m] = count
                elif owner[m] < 0 and have[m] == orders[m] - 1:
                    for j in range(orders[m]):
                        if not inside[members[m, j]]:
                            gain[members[m, j]] += 1
        for j in range(width, wide.shape[1]):
            wide[count, j] = -1
        wide[count, :width].sort()
        count += 1
    return count


class Held(NamedTuple):
    """Marginal m, over `members[m]`, lies in a wider one over `wide[m]`, whose counts begin at
    `table[starts[m]]`; its own begin at `narrow[m]`.
    """

    wide: I4x2
    starts: I8
    table: U4
    members: I4x2
    narrow: I8


@compiled
def add_up(sizes: I8, held: Held, counts: U4, which: I8) -> None:
    """Add the counts of wider marginals up, into `counts`, to those of the marginals `which`."""
    wide, starts, table, members, narrow = held
    digits = np.zeros(wide.shape[1], dtype=np.int64)
    steps = np.zeros(wide.shape[1], dtype=np.int64)
    for m in which:
        last, cells = -1, 1
        for j in range(wide.shape[1]):
            digits[j], steps[j] = 0, 0
            if wide[m, j] >= 0:
                last, cells = j, cells * sizes[wide[m, j]]
        stride = 1
        for slot in range(members.shape[1] - 1, -1, -1):
            column = members[m, slot]
            if column >= 0:
                for j in range(last + 1):
                    if wide[m, j] == column:
                        steps[j] = stride
                stride *= sizes[column]
        size, step, to = sizes[wide[m, last]], steps[last], narrow[m]
        for at in range(starts[m], starts[m] + cells, size):
            if step:
                for v in range(size):
                    counts[to + v * step] += table[at + v]
            else:
                total = np.uint32(0)
                for v in range(size):
                    total += table[at + v]
                counts[to] += total
            j = last - 1
            while j >= 0:
                digits[j] += 1
                to += steps[j]
                if digits[j] < sizes[wide[m, j]]:
                    break
                to -= digits[j] * steps[j]
                digits[j] = 0
                j -= 1
