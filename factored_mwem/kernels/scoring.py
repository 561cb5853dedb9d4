"""Kernels that compare private counts with a model's answers, on an integer grid."""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.kernels import compiled


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
