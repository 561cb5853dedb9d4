"""Counting every candidate marginal of a table: all cores, memory bounded by public facts.

Two ways, chosen by the sizes of a candidate's columns alone. *By bits*: a slice, a bit a row, for every value
of a column but its first; only the cells without any first value are counted, by population count, and the
others follow from the candidates with one column less. *By rows*: one row after the other adds to its cell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from factored_mwem.errors import ResourceError
from factored_mwem.kernels.counting import (
    CHUNK_ROWS,
    MAX_COUNT,
    MAX_LOCAL_CELLS,
    MAX_SLICES,
    Tally,
    add_bits,
    add_rows,
    complete,
)

WORKERS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""Threads; each has candidates of its own, so that the counts do not depend on how many there are."""
SHARES = 8
"""Parts of the work for each thread: candidates differ in what they take."""
MAX_WORDS = 2**9
"""Words of 64 rows that are counted by bits at a time."""
MAX_COLUMN_SLICES = 16
"""Slices of a column that is counted by bits, at most: making one takes about as long as a fifth of a
candidate by rows.
"""
MAX_BLOCK_BYTES = 2**25
"""Of the columns that are counted by rows at a time: the more rows, the longer a candidate's counts stay in
the cache.
"""
MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 2**13, 2**18
"""Rows counted by rows at a time, whatever the number of columns."""

Run = Callable[[Callable[[np.ndarray], None], np.ndarray], None]
"""Calls a function with parts of the candidates, on all threads; returns when all are done."""


def count_all(
    columns: Sequence[np.ndarray], sizes: np.ndarray, members: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """int32[all cells]: the counts of every candidate, row-major, one candidate after the other.

    `columns`: one unsigned array[row] per column, each code below its size; `sizes: int64[column]`; `members:
    int32[candidate, slot]`, the columns of each candidate (at least one), ascending, padded with -1;
    `offsets: int64[candidate + 1]`, where its counts begin. Counts stop at MAX_COUNT. `bytes_needed` says
    beforehand what memory this takes.
    """
    if np.diff(offsets).max(initial=0) >= 2**32:
        raise ResourceError(
            "a candidate marginal has more than 2^32 cells; lower --max-cells or the bins of the domain"
        )
    facets = facets_of(sizes, members, offsets)
    rows = len(columns[0]) if len(columns) else 0
    counts = _count([column[:MAX_COUNT] for column in columns], sizes, members, facets, offsets)
    for at in range(MAX_COUNT, rows, MAX_COUNT):
        # both at most MAX_COUNT, so that 32 unsigned bits hold the sum
        counts += _count([column[at : at + MAX_COUNT] for column in columns], sizes, members, facets, offsets)
        np.minimum(counts, MAX_COUNT, out=counts)
    return counts[:-1].view(np.int32)


def bytes_needed(members: np.ndarray, sizes: np.ndarray, offsets: np.ndarray, rows: float) -> float:
    """An upper bound of what `count_all` allocates, the counts it returns included; any bound of the rows
    will do, also infinity.
    """
    counts = 4.0 * (float(offsets[-1]) + 1) * (1 if rows <= MAX_COUNT else 2)
    index = (16.0 * members.shape[1] + 96) * len(members)
    by_rows = min(
        4.0 * len(sizes) * min(rows, MAX_BLOCK_ROWS),
        max(float(MAX_BLOCK_BYTES), 4.0 * len(sizes) * MIN_BLOCK_ROWS),
    )
    slices = np.minimum(np.maximum(sizes - 1, 0), MAX_COLUMN_SLICES).sum()
    by_bits = 8.0 * min(rows / 64 + 1, MAX_WORDS) * (float(slices) + WORKERS * (MAX_SLICES + 16))
    worker = 4.0 * min(rows, MAX_BLOCK_ROWS) + 8.0 * MAX_LOCAL_CELLS + 4.0 * CHUNK_ROWS + 2**16
    return counts + index + by_rows + by_bits + WORKERS * worker + 256.0 * len(sizes)


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
    for slot in range(members.shape[1]):  # slot after slot: numpy is slow along a short last axis
        of_column = slices[members[:, slot]]
        small &= of_column <= MAX_COLUMN_SLICES
        product *= of_column
    return small & (product <= MAX_SLICES)


def _orders(members: np.ndarray) -> np.ndarray:
    """int64[candidate]: columns of each candidate."""
    orders = np.zeros(len(members), dtype=np.int64)
    for slot in range(members.shape[1]):
        orders += members[:, slot] >= 0
    return orders


def _keys(members: np.ndarray, which: np.ndarray, slots: Iterable[int], base: int) -> np.ndarray:
    """int64[which]: a number for the columns in these slots, another for others."""
    keys = np.zeros(len(which), dtype=np.int64)
    for slot in slots:
        keys *= base
        keys += members[which, slot]
    return keys


def _count(
    columns: Sequence[np.ndarray],
    sizes: np.ndarray,
    members: np.ndarray,
    facets: np.ndarray,
    offsets: np.ndarray,
) -> np.ndarray:
    """uint32[all cells and one]: the counts of at most MAX_COUNT rows, and their number."""
    counts = np.zeros(int(offsets[-1]) + 1, dtype=np.uint32)
    counts[-1] = len(columns[0]) if len(columns) else 0
    by_bits = facets[:, 0] >= 0
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:

        def run(work: Callable[[np.ndarray], None], which: np.ndarray) -> None:
            for _ in pool.map(work, np.array_split(which, max(1, min(len(which), WORKERS * SHARES)))):
                pass

        tally = Tally(members, offsets, counts)
        _count_by_rows(run, columns, sizes, tally, np.flatnonzero(~by_bits))
        _count_by_bits(run, columns, sizes, tally, np.flatnonzero(by_bits))
        orders = _orders(members)
        for order in range(1, members.shape[1] + 1):
            which = np.flatnonzero(by_bits & (orders == order))
            run(partial(complete, sizes, facets, tally), which)
    return counts


def _rows_at_a_time(columns: int) -> int:
    return min(MAX_BLOCK_ROWS, max(MIN_BLOCK_ROWS, MAX_BLOCK_BYTES // (4 * max(1, columns))))


def _count_by_rows(
    run: Run, columns: Sequence[np.ndarray], sizes: np.ndarray, tally: Tally, which: np.ndarray
) -> None:
    if not len(which):
        return
    used, members = _renumbered(tally.members, which, len(columns))
    columns, sizes, tally = [columns[column] for column in used], sizes[used], tally._replace(members=members)
    rows = _rows_at_a_time(len(used))
    for at in range(0, len(columns[0]), rows):
        # a block is given away, so that it is gone before the next is made
        run(partial(add_rows, _block(columns, at, rows), sizes, tally), which)


def _block(columns: Sequence[np.ndarray], at: int, rows: int) -> np.ndarray:
    """uint32[column, row]: at most `rows` rows from row `at` on."""
    block = np.empty((len(columns), min(rows, len(columns[0]) - at)), dtype=np.uint32)
    for i, column in enumerate(columns):
        block[i] = column[at : at + rows]
    return block


def _count_by_bits(
    run: Run, columns: Sequence[np.ndarray], sizes: np.ndarray, tally: Tally, which: np.ndarray
) -> None:
    if not len(which):
        return
    used, members = _renumbered(tally.members, which, len(columns))
    columns, tally = [columns[column] for column in used], tally._replace(members=members)
    first = np.concatenate([[0], np.cumsum(sizes[used] - 1)]).astype(np.int64)
    for at in range(0, len(columns[0]), 64 * MAX_WORDS):
        bits = _sliced(run, [column[at : at + 64 * MAX_WORDS] for column in columns], first)
        run(partial(add_bits, bits, first, tally), which)


def _sliced(run: Run, columns: Sequence[np.ndarray], first: np.ndarray) -> np.ndarray:
    """uint64[slice, word]: where each column has each value but its first, a bit a row; slices from
    `first[column]` on.
    """
    bits = np.zeros((int(first[-1]), (len(columns[0]) + 63) // 64), dtype=np.uint64)
    packed = bits.view(np.uint8)

    def pack(part: np.ndarray) -> None:
        for i in part:
            for s in range(first[i], first[i + 1]):
                packed[s, : (len(columns[i]) + 7) // 8] = np.packbits(
                    columns[i] == s - first[i] + 1, bitorder="little"
                )

    run(pack, np.arange(len(columns)))
    return bits


def _renumbered(members: np.ndarray, which: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns that the candidates `which` use, and `members` in their numbers; -1 for any other
    column.
    """
    used = np.unique(members[which])
    used = used[used >= 0]
    number = np.full(columns + 1, -1, dtype=np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    return used, number[members]
