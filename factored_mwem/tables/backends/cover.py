"""Cover: many marginals counted by way of few wider ones, which hold them: fewer passes over each row, then
exact sums. The wider ones follow from the sizes of columns alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from factored_mwem.kernels.counting import Tally
from factored_mwem.kernels.cover import MAX_CELLS, Held, add_up, cover

MAX_WIDTH = 12
"""Columns of a wider marginal."""
MIN_ROWS = 2**19
"""With fewer rows a wider marginal's own cells cost too much."""
WORTH = 0.75
"""Wider marginals must be fewer than this share of those that they hold."""
BATCH_CELLS = 2**22
"""Cells of wider marginals that are counted at a time: 16 MB."""


Run = Callable[[Callable[[np.ndarray], None], np.ndarray], None]
"""Calls a function with parts of the marginals, on all threads; returns when all are done."""


class Cover(NamedTuple):
    """`wide: int32[wider marginal, slot]`: ascending columns, padded with -1. `held: int64[marginal]` are the
    marginals that they hold, and `owner` which of them holds each; `alone: int64` are the others.
    """

    wide: np.ndarray
    held: np.ndarray
    owner: np.ndarray
    alone: np.ndarray


def cover_of(sizes: np.ndarray, members: np.ndarray, which: np.ndarray, rows: int) -> Cover | None:
    """Wider marginals that hold the marginals `which`; None if these by themselves are as cheap."""
    if rows < MIN_ROWS or len(which) < 2:
        return None
    cells = np.append(sizes, 1)[members[which]].prod(axis=1)
    order = np.argsort(-cells, kind="stable")
    held = which[order][cells[order] <= MAX_CELLS]  # others are wide enough
    if len(held) < 2:
        return None
    chosen = np.ascontiguousarray(members[held])
    slots = np.flatnonzero(chosen.ravel() >= 0)
    by_column = slots[np.argsort(chosen.ravel()[slots], kind="stable")]
    first = np.searchsorted(chosen.ravel()[by_column], np.arange(len(sizes) + 1)).astype(np.int64)
    wide, owner = np.empty((len(held), MAX_WIDTH), np.int32), np.empty(len(held), np.int64)
    count = cover(sizes, chosen, first, (by_column // chosen.shape[1]).astype(np.int64), wide, owner)
    if count > WORTH * len(held):
        return None
    order = np.lexsort(wide[:count].T[::-1])  # neighbours share their first columns, which are joined once
    return Cover(wide[order], held, np.argsort(order)[owner], np.setdiff1d(which, held))


def count_covered(
    count: Callable[[Tally], None], run: Run, sizes: np.ndarray, tally: Tally, covering: Cover
) -> None:
    """Count the wider marginals, so many at a time, and add up those that they hold. `count`: adds rows to
    the counts of all marginals of a tally.
    """
    cells = np.append(sizes, 1)[covering.wide].prod(axis=1)
    batch = np.cumsum(cells) // BATCH_CELLS
    for number in range(int(batch[-1]) + 1):
        begin, end = np.searchsorted(batch, [number, number + 1])
        offsets = np.concatenate([[0], np.cumsum(cells[begin:end])]).astype(np.int64)
        part = Tally(covering.wide[begin:end], offsets, np.zeros(int(offsets[-1]), np.uint32))
        count(part)
        here = np.flatnonzero((covering.owner >= begin) & (covering.owner < end))
        held = Held(
            np.ascontiguousarray(covering.wide[covering.owner[here]]),
            offsets[covering.owner[here] - begin],
            part.counts,
            np.ascontiguousarray(tally.members[covering.held[here]]),
            tally.offsets[covering.held[here]],
        )
        run(partial(add_up, sizes, held, tally.counts), np.arange(len(here)))
