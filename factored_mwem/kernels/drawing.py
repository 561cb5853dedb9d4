"""The kernel that draws rows: a cell of a clique for each row, given the codes that the row has already.

A counting sort of the rows by group, and one walk along the running sums of each group's cells, so that no
rows are compared and no cell is searched for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import F8, I8, entry


class Conditional(NamedTuple):
    """The cells of a clique by the cell of its separator, its group.

    Group g has `cells: int64[possible cell]` from `first[g]` up to `first[g + 1]`; `ends: float64[possible
    cell + 1]` are the running sums of their weights, from 0 on.
    """

    cells: I8
    ends: F8
    first: I8


@entry
def deal(table: Conditional, group: I8, begin: F8, luck: F8, hand: I8, dealt: I8) -> None:
    """Put a cell of its group, `group: int64[row]`, for each row into `dealt: int64[row]`.

    Systematic sampling in each group: of its n rows a cell of conditional share p gets floor or ceil of p *
    n, by a comb that starts at `begin: float64[group]`, in [0, 1). Which row gets which is a shuffle of each
    group (Fisher and Yates, from the inside out) by `luck: float64[row]`, in [0, 1): without it the codes of
    two cliques below one parent would rise together. `hand: int64[row]` is scratch.
    """
    groups, last = len(table.first) - 1, len(table.cells) - 1
    following = np.empty(groups + 1, dtype=np.int64)
    following[:] = 0
    for r in range(len(group)):
        following[group[r] + 1] += 1
    for g in range(groups):
        following[g + 1] += following[g]
    for g in range(groups):
        start, rows = following[g], following[g + 1] - following[g]
        if rows == 0:
            continue
        low, high = table.ends[table.first[g]], table.ends[table.first[g + 1]]
        # a group that got rows by rounding alone may have no cell: any other stands in
        at, end = min(table.first[g], last), min(table.first[g + 1] - 1, last)
        for k in range(rows):
            comb = low + (k + begin[g]) / rows * (high - low)
            while at < end and table.ends[at + 1] <= comb:
                at += 1
            j = min(int(luck[start + k] * (k + 1)), k)
            hand[start + k] = hand[start + j]
            hand[start + j] = table.cells[at]
    for r in range(len(group)):
        g = group[r]
        dealt[r] = hand[following[g]]
        following[g] += 1
