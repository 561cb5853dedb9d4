"""Kernels that count rows."""

from __future__ import annotations

import numpy as np

from factored_mwem.kernels import compiled

LARGEST = 2**31 - 1
"""Counts stop here, at the most that 32 bits hold: one row still moves one count by at most 1, which wrapping round would not keep."""
WORDS = 2048
"""Words of 64 rows that `count_binary` takes at a time, so that its working rows stay in the cache."""


@compiled
def count_binary(bits, valid, members, order, out):  # type: ignore[no-untyped-def]
    """Counts of all 2^order cells of marginals over binary attributes, by population count, into `out: int32[candidate * cell]`.

    `bits: uint64[attribute, word]` holds a bit a row; `valid: uint64[word]` masks the padding of the last word. First the rows with ones
    at least where the cell has them are counted; then what belongs to cells with more ones is taken off, attribute after attribute.
    """
    cells = 1 << order
    rows = np.empty((cells, WORDS), dtype=np.uint64)
    count = np.empty(cells, dtype=np.int64)
    for i in range(len(members)):
        count[:] = 0
        for at in range(0, len(valid), WORDS):
            end = min(at + WORDS, len(valid))
            count[0] += _ones(valid[at:end], valid[at:end], rows[0])
            for j in range(order):
                bit = 1 << (order - 1 - j)
                for cell in range(0, cells, 2 * bit):
                    count[cell + bit] += _ones(rows[cell], bits[members[i, j], at:end], rows[cell + bit])
        for j in range(order):
            bit = 1 << j
            for cell in range(cells):
                if not cell & bit:
                    count[cell] -= count[cell + bit]
        for cell in range(cells):
            out[i * cells + cell] = min(count[cell], LARGEST)


@compiled
def _ones(left, right, both):  # type: ignore[no-untyped-def]
    """Number of ones in `left & right`, which goes into `both`; all uint64[word]."""
    count = np.int64(0)
    for w in range(len(right)):
        word = left[w] & right[w]
        both[w] = word
        # Population count by adding neighbours; the compiler knows this idiom.
        word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
        word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
        word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        count += np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
    return count


@compiled
def count_rows(columns, members, sizes, which, offsets, out):  # type: ignore[no-untyped-def]
    """Add the rows of a block, `columns: int32[attribute, row]`, to the counts of the candidates `which` in `out: int32[all cells]`.

    Candidate c has attributes `members[c]` (padded with -1) of `sizes[c]` and counts from `offsets[c]` on. The cell over all but its last
    attribute is kept from one candidate to the next, and most often shared.
    """
    rows = columns.shape[1]
    prefix = np.zeros(rows, dtype=np.int64)
    shared = np.full(members.shape[1], -1, dtype=np.int64)
    for c in which:
        last = members.shape[1] - 1
        while members[c, last] < 0:
            last -= 1
        same = True
        for j in range(members.shape[1]):
            member = members[c, j] if j < last else -1
            same = same and shared[j] == member
            shared[j] = member
        if not same:
            prefix[:] = 0
            for j in range(last):
                for r in range(rows):
                    prefix[r] = prefix[r] * sizes[c, j] + columns[members[c, j], r]
        size, base, column = sizes[c, last], offsets[c], columns[members[c, last]]
        for r in range(rows):
            cell = np.uint64(base + prefix[r] * size + column[r])  # unsigned: no check for an index from the end
            if out[cell] < LARGEST:
                out[cell] += 1
