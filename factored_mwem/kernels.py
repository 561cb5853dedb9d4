"""Every compiled kernel: arrays in, arrays out; no randomness, no I/O, no Python objects. Compiled at first use and cached on disk.

A component's distribution is `weights: float64[cells]`, row-major over its attributes. A marginal's cell of weight x is
`head[x // len(tail)] + tail[x % len(tail)]`: two short index arrays in place of one as long as the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

PAPER, SCALED = 0, 1
"""Step rules of `replay`."""
FLOOR = 1e-300
"""No weight falls below this share: zero would be for ever."""
SPREAD = 3.0
"""A cell's step is its gap over (its answer + SPREAD noises): a full step where the answer is well above the noise, little where it is not.
Measured on Adult: 1, 3 and 8 differ by less than 2 %; a step that ignores the noise costs 10 to 80 %."""

LARGEST = 2**31 - 1
"""Counts stop here, at the most that 32 bits hold: one row still moves one count by at most 1, which wrapping round would not keep."""
WORDS = 2048
"""Words of 64 rows that `count_binary` takes at a time, so that its working rows stay in the cache."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel, compiled at first use; kept on disk where a folder for that can be written, else compiled again in every process."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache is writable: a service account, a container
        return njit(nogil=True)(function)


@compiled
def marginal_into(weights, head, tail, out):  # type: ignore[no-untyped-def]
    """Add the marginal of `weights` to `out: float64[marginal cells]`."""
    width = len(tail)
    for h in range(len(head)):
        row, base = h * width, head[h]
        for t in range(width):
            out[base + tail[t]] += weights[row + t]


@compiled
def multiply_by(weights, head, tail, ratio):  # type: ignore[no-untyped-def]
    """Multiply each weight by its marginal cell's `ratio`, in place, down to FLOOR."""
    width = len(tail)
    for h in range(len(head)):
        row, base = h * width, head[h]
        for t in range(width):
            weights[row + t] = max(weights[row + t] * ratio[base + tail[t]], FLOOR)


@compiled
def replay(weights, index, layout, noisy, stddev, total, sweeps, rule):  # type: ignore[no-untyped-def]
    """Sweep over all measurements of a component until each fits within its noise, or `sweeps` times; in place.

    Measurement i has `layout[i] = (head start, head length, tail start, tail length, table start, table length)` into `index`
    and `noisy` (float64, records); `stddev[i]` is the noise of a cell, `total` the records of the model. Weights keep sum 1.
    Rule PAPER is Hardt, Ligett, McSherry Fig. 1, step 2(c), for all cells of the marginal at once: exp((m - A) / (2 n)), and
    always sweeps to the end. Rule SCALED divides the gap by the cell's answer and noise in place of 2 n, see SPREAD.
    """
    for sweep in range(sweeps):
        moved = False
        for i in range(len(layout)):
            head = index[layout[i, 0] : layout[i, 0] + layout[i, 1]]
            tail = index[layout[i, 2] : layout[i, 2] + layout[i, 3]]
            target = noisy[layout[i, 4] : layout[i, 4] + layout[i, 5]]
            table = np.zeros(layout[i, 5])
            marginal_into(weights, head, tail, table)
            if rule == SCALED and _fits(table, target, stddev[i], total):
                continue
            moved = True
            _step(table, target, stddev[i], total, rule)
            multiply_by(weights, head, tail, table)
        if not moved:
            return sweep
    return sweeps


@compiled
def _fits(table, target, stddev, total):  # type: ignore[no-untyped-def]
    """Whether the L1 gap is no more than the noise alone is expected to make it."""
    gap = 0.0
    for c in range(len(table)):
        gap += abs(target[c] - table[c] * total)
    return gap <= math.sqrt(2.0 / math.pi) * stddev * len(table)


@compiled
def _step(table, target, stddev, total, rule):  # type: ignore[no-untyped-def]
    """Turn the marginal `table` (shares) into the ratios of one step, which keep the sum of all weights at 1."""
    mass = 0.0
    for c in range(len(table)):
        answer = table[c] * total
        if rule == PAPER:
            ratio = math.exp((min(max(target[c], 0.0), total) - answer) / (2.0 * total))
        else:
            ratio = math.exp(min(max((target[c] - answer) / (answer + SPREAD * stddev), -3.0), 3.0))
        mass += table[c] * ratio
        table[c] = ratio
    for c in range(len(table)):
        table[c] /= mass


@compiled
def distances(which, sizes, slots, strides, starts, parts, total, counts, offsets, grid, out):  # type: ignore[no-untyped-def]
    """L1 distance of each candidate in `which` between private counts and the model, in units of 1 / `grid`, into `out: int64`.

    The model's marginal of a candidate is a product over its components: attribute slot j of the candidate in row c (of `which` and of all
    two-dimensional arrays) reads the table that begins at `starts[c, slots[c, j]]` of `parts`, with stride `strides[c, j]`. Its cells are
    rounded to the grid, so a distance is an integer and moves by at most `grid` when one record enters or leaves one cell.
    """
    width = sizes.shape[1]
    digits = np.zeros(width, dtype=np.int64)
    place = np.zeros(width, dtype=np.int64)
    for c in range(len(which)):
        last = width - 1
        while last > 0 and sizes[c, last] == 1:
            last -= 1
        rows = 1
        for j in range(last):
            rows *= sizes[c, j]
            digits[j] = 0
        inner, stride, count = slots[c, last], strides[c, last], sizes[c, last]
        distance = np.int64(0)
        cell = offsets[which[c]]
        for _ in range(rows):
            for j in range(last + 1):
                place[slots[c, j]] = starts[c, slots[c, j]]
            for j in range(last):
                place[slots[c, j]] += digits[j] * strides[c, j]
            outer = total * grid
            for j in range(last):
                if slots[c, j] == j and j != inner:
                    outer *= parts[place[j]]
            base = place[inner]
            for t in range(count):
                distance += abs(np.int64(math.floor(outer * parts[base + t * stride] + 0.5)) - np.int64(counts[cell]) * np.int64(grid))
                cell += 1
            j = last - 1
            while j >= 0:
                digits[j] += 1
                if digits[j] < sizes[c, j]:
                    break
                digits[j] = 0
                j -= 1
        out[c] = distance


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
