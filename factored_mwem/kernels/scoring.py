"""Kernels that compare private counts with a model's answers, on an integer grid."""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.kernels import entry, part


@entry(
    "(i8[::1], i8[:, ::1], i8[:, ::1], i8[:, ::1], i8[:, ::1], f8[::1], f8, i4[::1], i8[::1], f8, i8[::1], "
    "i8[:, ::1], i4[::1], i8[::1])"
)
def distances(
    which, sizes, slots, strides, starts, parts, total, counts, offsets, grid, first, coarse, steps, out
):
    """L1 distance between private counts and the model, in units of 1 / `grid`, of each base in `which` and
    of all that is added up from it.

    The model's marginal of a base is a product over its components: attribute slot j of the base in row c (of
    `which` and of all two-dimensional arrays) reads the table that begins at `starts[c, slots[c, j]]` of
    `parts`, with stride `strides[c, j]`. Its cells are rounded to the grid, so a distance is an integer and
    moves by at most `grid` when one record enters or leaves one cell; sums of cells are sums of these
    integers. `first`, `coarse`, `steps`: see Candidates.coarse. `out: int64[candidate]`.
    """
    width = sizes.shape[1]
    digits = np.zeros(width, dtype=np.int64)
    place = np.zeros(width, dtype=np.int64)
    largest = 1
    for c in range(len(which)):
        cells = offsets[which[c] + 1] - offsets[which[c]]
        largest = max(largest, cells)
    gap = np.empty(largest, dtype=np.int64)
    summed = np.empty(largest, dtype=np.int64)
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
        at, cell = 0, offsets[which[c]]
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
                answer = outer * parts[base + t * stride]
                if not answer > 0.0:  # a model that is no number must not reach the conversion either
                    answer = 0.0
                elif answer > total * grid:
                    answer = total * grid
                difference = np.int64(math.floor(answer + 0.5)) - np.int64(counts[cell + at]) * np.int64(grid)
                gap[at] = difference
                distance += abs(difference)
                at += 1
            j = last - 1
            while j >= 0:
                digits[j] += 1
                if digits[j] < sizes[c, j]:
                    break
                digits[j] = 0
                j -= 1
        out[which[c]] = distance
        for i in range(first[which[c]], first[which[c] + 1]):
            out[coarse[i, 0]] = _added_up(gap, sizes[c, : last + 1], steps[coarse[i, 1] :], summed, digits)


@part
def _added_up(gap, sizes, steps, summed, digits):
    """The sum of absolute values of `gap` after adding up the cells that `steps` sends to one place."""
    last = len(sizes) - 1
    rows, before, largest = 1, 0, 0
    for j in range(len(sizes)):
        digits[j] = 0
        most = 0
        for digit in range(sizes[j]):
            most = max(most, steps[before + digit])
        largest += most
        if j < last:
            rows *= sizes[j]
            before += sizes[j]
    for c in range(largest + 1):
        summed[c] = 0
    at = 0
    for _ in range(rows):
        base, offset = 0, 0
        for j in range(last):
            base += steps[offset + digits[j]]
            offset += sizes[j]
        for t in range(sizes[last]):
            summed[base + steps[before + t]] += gap[at]
            at += 1
        j = last - 1
        while j >= 0:
            digits[j] += 1
            if digits[j] < sizes[j]:
                break
            digits[j] = 0
            j -= 1
    distance = np.int64(0)
    for c in range(largest + 1):
        distance += abs(summed[c])
    return distance
