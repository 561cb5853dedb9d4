"""Kernels that count rows, see backends/counting.py."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import I8, U4, I4x2, I8x2, U4x2, U8x2, entry, part

MAX_COUNT = 2**31 - 1
"""Counts stop here, at the largest number of 32 bits, instead of wrapping around: so one row moves a count by
at most 1, as the sensitivity requires.
"""
MAX_SLICES = 128
"""Candidates with at most so many cells (without those of any first value) are counted by bits: a word of 64
rows takes about .25 ns for each such cell, while a row counted by itself takes .5 to 2 ns.
"""
MAX_LOCAL_CELLS = 2**13
"""Candidates with at most so many cells are counted in two tables, to which rows are added in turn: if most
rows fall into one cell, an addition would otherwise wait until the last one is stored.
"""


class Tally(NamedTuple):
    """The counts of all candidates: those of candidate c, over the columns `members[c]` (padded with -1),
    from `offsets[c]` on.
    """

    members: I4x2
    offsets: I8
    counts: U4


@entry
def add_rows(columns: U4x2, sizes: I8, tally: Tally, which: I8) -> None:
    """Add rows, `columns: uint32[column, row]`, to the counts of the candidates `which`, row after row.

    The cell over all but the last column of a candidate is kept for the next candidate, which mostly has the
    same leading columns.
    """
    members, offsets = tally.members, tally.offsets
    # 32 bits: no candidate has more than 2^32 cells (backends/counting.py), and 64 would double the memory
    prefix = np.empty(columns.shape[1], dtype=np.uint32)
    even, odd = np.empty(MAX_LOCAL_CELLS, dtype=np.uint32), np.empty(MAX_LOCAL_CELLS, dtype=np.uint32)
    shared = np.empty(members.shape[1], dtype=np.int32)
    even[:] = 0
    odd[:] = 0
    shared[:] = 0  # like no candidate, whose last slot counts as -1
    for c in which:
        last = _last(members[c])
        if _changed(shared, members[c], last):
            for r in range(len(prefix)):
                prefix[r] = 0
            for j in range(last):  # columns outside, rows inside: the inner loop reads two arrays in order
                size, column = np.uint32(sizes[members[c, j]]), columns[members[c, j]]
                for r in range(len(prefix)):
                    prefix[r] = prefix[r] * size + column[r]
        size, column = np.uint32(sizes[members[c, last]]), columns[members[c, last]]
        table = tally.counts[offsets[c] : offsets[c + 1]]
        if len(table) <= MAX_LOCAL_CELLS:
            _add(prefix, size, column, even, odd)
            for cell in range(len(table)):
                table[cell] += even[cell] + odd[cell]
                even[cell], odd[cell] = 0, 0
        else:  # so many cells that rows in turn seldom meet in one
            _add(prefix, size, column, table, table)


@part
def _add(prefix, size, column, even, odd):
    """Count cells `prefix * size + column`: rows of even number in the table `even`, the others in `odd`."""
    rows = len(prefix)
    for r in range(0, rows - 1, 2):
        even[prefix[r] * size + column[r]] += np.uint32(1)
        odd[prefix[r + 1] * size + column[r + 1]] += np.uint32(1)
    if rows % 2:
        even[prefix[rows - 1] * size + column[rows - 1]] += np.uint32(1)


@entry
def add_bits(bits: U8x2, first: I8, tally: Tally, which: I8) -> None:
    """Add rows to the cells without any first value of the candidates `which`, by population count.
    `complete` fills in the other cells.

    `bits: uint64[slice, word]` holds a bit a row; value v > 0 of column m is slice `first[m] + v - 1`, and
    `first[m + 1]` ends them. Padding is 0 everywhere.
    """
    members = tally.members
    rows = np.empty((MAX_SLICES, bits.shape[1]), dtype=np.uint64)
    cells = np.empty(MAX_SLICES, dtype=np.int64)
    shared = np.empty(members.shape[1], dtype=np.int32)
    shared[:] = 0  # like no candidate, see add_rows
    rows[0] = np.uint64(0xFFFFFFFFFFFFFFFF)  # all rows, before any column restricts them
    prefixes = np.int64(1)  # not the literal 1, for which `_expand` would be compiled once more
    for c in which:
        last = _last(members[c])
        if _changed(shared, members[c], last):
            rows[0] = np.uint64(0xFFFFFFFFFFFFFFFF)
            cells[0], prefixes = 0, np.int64(1)
            for j in range(last):
                start, end = first[members[c, j]], first[members[c, j] + 1]
                _expand(rows, cells, prefixes, bits[start:end])
                prefixes *= end - start
        start, end = first[members[c, last]], first[members[c, last] + 1]
        for p in range(prefixes):
            at = tally.offsets[c] + cells[p] * (end - start + 1) + 1
            for s in range(start, end):
                tally.counts[at + s - start] += _in_both(rows[p], bits[s])


@part
def _expand(rows, cells, prefixes, slices):
    """Extend the prefixes `rows` and their `cells` by one more column, of these slices; in place, from the
    end.
    """
    # from the end, because prefix p grows into slots from p * len(slices) on, which are never before p
    for p in range(prefixes - 1, -1, -1):
        before = cells[p]
        for v in range(len(slices) - 1, -1, -1):
            to = p * len(slices) + v
            cells[to] = before * (len(slices) + 1) + v + 1
            for w in range(rows.shape[1]):
                rows[to, w] = rows[p, w] & slices[v, w]


@part
def _in_both(left, right):
    """Number of ones in `left & right`, both uint64[word]."""
    count = np.uint64(0)
    for w in range(len(right)):
        word = left[w] & right[w]
        # Population count by adding neighbours; the compiler knows this idiom.
        word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
        word = (word & np.uint64(0x3333333333333333)) + (
            (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
        )
        word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        count += (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return count


@entry
def complete(sizes: I8, facets: I8x2, tally: Tally, which: I8) -> None:
    """Fill in the cells with a first value somewhere, of candidates whose other cells are counted.

    `facets: int64[candidate, slot]` is where the counts of the candidate without that column begin; they must
    be complete. A cell with the first value of column j is the facet's cell less the cells with its other
    values. Cells computed before their inputs are complete are overwritten later.
    """
    members, counts = tally.members, tally.counts
    for c in which:
        table = counts[tally.offsets[c] : tally.offsets[c + 1]]
        above, below = 1, len(table)  # the table as three axes: columns before j, column j, columns behind it
        for j in range(_last(members[c]) + 1):
            size = sizes[members[c, j]]
            below //= size
            for high in range(above):
                for low in range(below):
                    at = high * size * below + low
                    count = counts[facets[c, j] + high * below + low]
                    for v in range(1, size):
                        count -= table[at + v * below]
                    table[at] = count
            above *= size


@part
def _last(members):
    """Slot of the last column, of at least one."""
    last = len(members) - 1
    while last > 0 and members[last] < 0:
        last -= 1
    return last


@part
def _changed(shared, members, last):
    """Whether the columns before slot `last` differ from `shared`; copies them into `shared`."""
    changed = False
    for j in range(len(shared)):
        member = members[j] if j < last else -1
        changed = changed or shared[j] != member
        shared[j] = member
    return changed
