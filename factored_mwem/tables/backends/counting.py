"""Counting every candidate marginal of a table: all cores, memory bounded by public facts.

Two ways, chosen by the sizes of a candidate's columns alone. *By bits*: a slice, a bit a row, for every value
of a column but its first; only the cells without any first value are counted, by population count, and the
others follow from the candidates with one column less. *By rows*: one row after the other adds to its cell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from factored_mwem.errors import ResourceError
from factored_mwem.kernels.counting import (
    MAX_COUNT,
    MAX_LOCAL_CELLS,
    MAX_SLICES,
    Tally,
    add_bits,
    add_rows,
    complete,
)
from factored_mwem.tables.backends.cover import BATCH_CELLS, MIN_ROWS, Run, count_covered, cover_of

WORKERS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""Threads; each has candidates of its own, so that the counts do not depend on how many there are."""
SHARES = 8
"""Parts of the work for each thread: candidates differ in what they take."""
MAX_WORDS = 2**9
"""Words of 64 rows that are counted by bits at a time."""
MAX_COLUMN_SLICES = 16
"""Of a column that is counted by bits: making one takes as long as a fifth of a candidate by rows."""
MAX_BLOCK_BYTES = 2**25
"""Of columns counted by rows at a time: the more rows, the longer counts stay in the cache."""
MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 2**13, 2**18
"""Rows counted by rows at a time, whatever the number of columns."""


class AxisCodes:
    """The codes of a column at some level, found where they are needed: a block of rows at a time."""

    __slots__ = ("_codes", "_lookup")

    def __init__(self, codes: np.ndarray, lookup: np.ndarray | None = None) -> None:
        """`codes`: unsigned array[row], possibly a mapped file; `lookup`: the code of each, if another."""
        self._codes, self._lookup = codes, lookup

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, rows: slice) -> np.ndarray:
        codes = self._codes[rows]
        return codes if self._lookup is None else self._lookup[codes]


Columns = Sequence[np.ndarray | AxisCodes]


def count_all(columns: Columns, sizes: np.ndarray, members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """int32[all cells], or int64 where there are more than MAX_COUNT rows: the counts of every candidate,
    row-major, one candidate after the other.

    `columns`: unsigned codes of each row, each below its size; `sizes: int64[column]`; `members:
    int32[candidate, slot]`, the columns of each candidate (at least one), ascending, padded with -1;
    `offsets: int64[candidate + 1]`, where its counts begin. `bytes_needed` says beforehand what memory this
    takes.
    """
    check_cells(offsets)
    facets = facets_of(sizes, members, offsets)
    whole = Block(columns, range(len(columns[0]) if len(columns) else 0))
    if len(whole.rows) <= MAX_COUNT:
        return _count(whole, sizes, members, facets, offsets)[:-1].view(np.int32)
    counts = np.zeros(int(offsets[-1]), dtype=np.int64)
    for part in whole.parts(MAX_COUNT):
        counts += _count(part, sizes, members, facets, offsets)[:-1]
    return counts


def check_cells(offsets: np.ndarray) -> None:
    """Raises ResourceError if a marginal has more cells than are counted; see `count_all`."""
    if np.diff(offsets).max(initial=0) >= 2**32:
        raise ResourceError(
            "a candidate marginal has more than 2^32 cells; lower --max-cells or the bins of the domain"
        )


def bytes_needed(members: np.ndarray, sizes: np.ndarray, offsets: np.ndarray, rows: float) -> float:
    """An upper bound of what `count_all` allocates, its result too; `rows`: any bound, also infinity."""
    counts = 4.0 * (float(offsets[-1]) + 1) * (1 if rows <= MAX_COUNT else 4)
    index = (16.0 * members.shape[1] + 96) * len(members)
    by_rows = min(
        4.0 * len(sizes) * min(rows, MAX_BLOCK_ROWS),
        max(float(MAX_BLOCK_BYTES), 4.0 * len(sizes) * MIN_BLOCK_ROWS),
    )
    slices = np.minimum(np.maximum(sizes - 1, 0), MAX_COLUMN_SLICES).sum()
    by_bits = 8.0 * min(rows / 64 + 1, MAX_WORDS) * (float(slices) + WORKERS * (MAX_SLICES + 16))
    covered = 4.0 * BATCH_CELLS if rows >= MIN_ROWS else 0.0
    worker = 4.0 * min(rows, MAX_BLOCK_ROWS) + 8.0 * MAX_LOCAL_CELLS + 2**16
    return counts + index + covered + by_rows + by_bits + WORKERS * worker + 256.0 * len(sizes)


def facets_of(sizes: np.ndarray, members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """A *facet* is the candidate with one column less. int64[candidate, slot]: where each facet's counts
    begin, for what is counted by bits; else -1.

    Without its only column a candidate has one cell, the number of rows, which `_count` keeps behind all
    others. A candidate is counted by bits where its columns are small and all its facets are candidates too.
    """
    small, orders = _small(sizes, members), _orders(members)
    facets = np.full(members.shape, -1, dtype=np.int64)
    facets[small & (orders == 1), :1] = offsets[-1]
    for order in range(2, members.shape[1] + 1):
        which, listed = np.flatnonzero(small & (orders == order)), np.flatnonzero(orders == order - 1)
        if not len(which) or not len(listed) or float(len(sizes)) ** (order - 1) >= 2.0**63:
            continue
        keys = _keys(members, listed, range(order - 1), len(sizes))
        by_key = keys.argsort(kind="stable")
        keys, listed = keys[by_key], listed[by_key]
        known = np.ones(len(which), dtype=bool)
        for slot in range(order):
            wanted = _keys(members, which, [j for j in range(order) if j != slot], len(sizes))
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            known &= keys[at] == wanted
            facets[which, slot] = offsets[listed[at]]
        facets[which[~known]] = -1
    return facets


def _small(sizes: np.ndarray, members: np.ndarray) -> np.ndarray:
    """bool[candidate]: few enough cells without a first value to be counted by bits."""
    slices = np.append(np.maximum(sizes - 1, 1), 1)
    small, product = np.ones(len(members), dtype=bool), np.ones(len(members))
    for column in members.T:  # slot after slot: numpy is slow along a short last axis
        of_column = slices[column]
        small &= of_column <= MAX_COLUMN_SLICES
        product *= of_column
    return small & (product <= MAX_SLICES)


def _orders(members: np.ndarray) -> np.ndarray:
    """int64[candidate]: columns of each candidate."""
    orders = np.zeros(len(members), dtype=np.int64)
    for column in members.T:
        orders += column >= 0
    return orders


def _keys(members: np.ndarray, which: np.ndarray, slots: Iterable[int], base: int) -> np.ndarray:
    """int64[which]: a number for the columns in these slots, another for others."""
    keys = np.zeros(len(which), dtype=np.int64)
    for slot in slots:
        keys = keys * base + members[which, slot]
    return keys


def _count(
    block: Block, sizes: np.ndarray, members: np.ndarray, facets: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """uint32[all cells and one]: the counts of a block, at most MAX_COUNT rows, and their number."""
    counts = np.zeros(int(offsets[-1]) + 1, dtype=np.uint32)
    counts[-1] = len(block.rows)
    by_bits = facets[:, 0] >= 0
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:

        def run(work: Callable[[np.ndarray], None], which: np.ndarray) -> None:
            for _ in pool.map(work, np.array_split(which, max(1, min(len(which), WORKERS * SHARES)))):
                pass

        tally = Tally(members, offsets, counts)
        _count_by_rows(run, block, sizes, tally, np.flatnonzero(~by_bits))
        _count_by_bits(run, block, sizes, tally, np.flatnonzero(by_bits))
        orders = _orders(members)
        for order in range(1, members.shape[1] + 1):
            which = np.flatnonzero(by_bits & (orders == order))
            run(partial(complete, sizes, facets, tally), which)
    return counts


def _count_by_rows(run: Run, block: Block, sizes: np.ndarray, tally: Tally, which: np.ndarray) -> None:
    wider = cover_of(sizes, tally.members, which, len(block.rows))
    if wider is None:
        return _add_rows(run, block, sizes, tally, which)

    def count(wide: Tally) -> None:
        _add_rows(run, block, sizes, wide, np.arange(len(wide.members)))

    count_covered(count, run, sizes, tally, wider)
    return _add_rows(run, block, sizes, tally, wider.alone)


def _add_rows(run: Run, block: Block, sizes: np.ndarray, tally: Tally, which: np.ndarray) -> None:
    if not len(which):
        return
    used, members = _renumbered(tally.members, which, len(block.columns))
    block, sizes, tally = block.of(used), sizes[used], tally._replace(members=members)
    rows = min(MAX_BLOCK_ROWS, max(MIN_BLOCK_ROWS, MAX_BLOCK_BYTES // (4 * max(1, len(used)))))
    for part in block.parts(rows):
        # it is given away, so that it is gone before the next is made
        run(partial(add_rows, part.codes(), sizes, tally), which)


def _count_by_bits(run: Run, block: Block, sizes: np.ndarray, tally: Tally, which: np.ndarray) -> None:
    if not len(which):
        return
    used, members = _renumbered(tally.members, which, len(block.columns))
    block, tally = block.of(used), tally._replace(members=members)
    first = np.concatenate([[0], np.cumsum(sizes[used] - 1)]).astype(np.int64)
    for part in block.parts(64 * MAX_WORDS):
        run(partial(add_bits, _sliced(run, part, first), first, tally), which)


class Block(NamedTuple):
    """Some rows of some columns."""

    columns: Columns
    rows: range

    def of(self, which: np.ndarray) -> Block:
        """The same rows of some of the columns."""
        return Block([self.columns[column] for column in which], self.rows)

    def parts(self, rows: int) -> Iterator[Block]:
        """The block, `rows` rows at a time."""
        for at in range(0, len(self.rows), rows):
            yield self._replace(rows=self.rows[at : at + rows])

    def column(self, number: int) -> np.ndarray:
        """uint[row]"""
        return self.columns[number][self.rows.start : self.rows.stop]

    def codes(self) -> np.ndarray:
        """uint32[column, row]"""
        codes = np.empty((len(self.columns), len(self.rows)), dtype=np.uint32)
        for i, row in enumerate(codes):
            row[:] = self.column(i)
        return codes


def _sliced(run: Run, block: Block, first: np.ndarray) -> np.ndarray:
    """uint64[slice, word]: where a column has each value but its first, from slice `first[column]` on."""
    bits = np.zeros((int(first[-1]), (len(block.rows) + 63) // 64), dtype=np.uint64)
    packed = bits.view(np.uint8)

    def pack(part: np.ndarray) -> None:
        for i in part:
            column = block.column(i)
            for s in range(first[i], first[i + 1]):
                value = np.packbits(column == s - first[i] + 1, bitorder="little")
                packed[s, : len(value)] = value

    run(pack, np.arange(len(block.columns)))
    return bits


def _renumbered(members: np.ndarray, which: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns that the candidates `which` use, and `members` in their numbers; -1 for any other."""
    used = np.unique(members[which])
    used = used[used >= 0]
    number = np.full(columns + 1, -1, dtype=np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    return used, number[members]
