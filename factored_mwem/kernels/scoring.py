"""Kernels that compare private counts with a model's answers, on an integer grid."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import F8, I4, I8, I8x2, entry, part

CAP = np.int64(4)
"""The harm of noise to a cell of which the model has little is at most so many times that: it takes from, or
gives to, cells beside it, which other measurements bound together. Two-way errors (means of 2 to 4 runs,
epsilon 1) with 2, 4 and no bound: of thefts .198, .198, .212, of diamonds .142, .145, .175, of weather .148,
.148, .153; with 1, of thefts .22, of weather .19. 3-way ones of Adult were .112 with 2, and .109 else.
"""
CLEAR, LITTLE = np.int64(2), np.int64(8)
"""A cell stands out by what of its gap is above so many times the noise; what the others lose to noise is one
part in LITTLE of it, at most of what the model has there. Two-way errors, with rows kept as fine, before and
after (epsilon 1, then 10; 1 to 6 runs a side): thefts .139 .125, .099 .095; diamonds .146 .144, .106 .103;
flights .171 .166; weather .141 .140, storms .179 .180 and Adult .037 .037 have few such pairs.
"""


class Answers(NamedTuple):
    """A model's answers to the bases in `which`, to be scored: products over its components.

    Attribute slot j of the base in row c (of `which` and of all two-dimensional arrays) reads the table that
    begins at `starts[c, slots[c, j]]` of `parts` (shares), with stride `strides[c, j]`; `total`: records;
    `harm`: what noise would add to a measured cell (records), 0 where a score is a distance and no more.
    Views of more than `sparse` cells may be scored by what stands out alone.
    """

    which: I8
    total: float
    slots: I8x2
    strides: I8x2
    starts: I8x2
    parts: F8
    harm: float = 0.0
    sparse: float = math.inf

    def part(self, rows: np.ndarray) -> Answers:
        """The answers of some of the bases."""
        which, slots, strides, starts = (a[rows] for a in (self.which, self.slots, self.strides, self.starts))
        return self._replace(which=which, slots=slots, strides=strides, starts=starts)


class Counts(NamedTuple):
    """The private counts of all bases, one after the other, and where each base's begin."""

    cells: I4
    offsets: I8


CANDIDATE, FINER, BEGIN, FROM, STEPS = range(5)
"""Columns of `Coarser.which`: the candidate, the one that it is added up from, where the cells of both begin,
and where its steps do.
"""


class Coarser(NamedTuple):
    """The candidates that are added up from bases, see Candidates.coarse."""

    first: I8
    which: I8x2
    steps: I4


@entry
def distances(answers: Answers, sizes: I8x2, counts: Counts, grid: float, coarser: Coarser, out: I8) -> None:
    """Write the L1 distance between private counts and the model, less the harm that noise would do, in units
    of 1 / `grid`, into `out: int64[candidate]`, for each base and for all candidates that are sums of its
    cells.

    The model's cells are rounded to the grid, so a distance is an integer and moves by at most `grid` when
    one record enters or leaves one cell; sums of cells are sums of these integers. The harm is the sum over
    cells of the noise, but of at most CAP times what the model has there: no record is in it, so it moves no
    score from one table to its neighbour. Of totals up to 2^40 records all fits into 64 bits.

    A view of more cells than `answers.sparse` gets the larger of that and of what stands out of the noise
    (see `_score`): where few of many cells hold the rows, a fit finds them, and the others lose little.
    """
    which, slots, strides, starts, parts = (
        answers.which, answers.slots, answers.strides, answers.starts, answers.parts,
    )  # fmt: skip
    width, offsets, total = sizes.shape[1], counts.offsets, answers.total * grid
    digits = np.empty(width, dtype=np.int64)
    place = np.empty(width, dtype=np.int64)
    largest = 1
    for base in which:
        largest = max(largest, offsets[base + 1] - offsets[base])
        for i in range(coarser.first[base], coarser.first[base + 1]):
            largest = max(largest, coarser.which[i, BEGIN] + _cells(sizes[coarser.which[i, CANDIDATE]]))
    noise = np.int64(math.floor(answers.harm * grid + 0.5))
    gap = np.empty(largest, dtype=np.int64)  # kept, for the coarser candidates are sums of its cells
    held = np.empty(largest, dtype=np.int64)
    for c in range(len(which)):
        codes, last = sizes[which[c]], width - 1
        while last > 0 and codes[last] == 1:
            last -= 1
        rows = 1
        for j in range(last):
            rows *= codes[j]
            digits[j] = 0
        inner, stride, count = slots[c, last], strides[c, last], codes[last]
        at, cell = 0, offsets[which[c]]
        for _ in range(rows):
            for j in range(last + 1):
                place[slots[c, j]] = starts[c, slots[c, j]]
            for j in range(last):
                place[slots[c, j]] += digits[j] * strides[c, j]
            outer = total
            for j in range(last):
                # each component once, by its first slot; the inner loop has that of the last attribute
                if slots[c, j] == j and j != inner:
                    outer *= parts[place[j]]
            at_part = place[inner]
            for t in range(count):
                answer = outer * parts[at_part + t * stride]
                if not answer > 0.0:  # a model that is no number must not reach the conversion either
                    answer = 0.0
                elif answer > total:  # no cell holds more than all records; nor can the integer overflow
                    answer = total
                count_ = np.int64(counts.cells[cell + at])
                held[at] = np.int64(math.floor(answer + 0.5))
                gap[at] = held[at] - count_ * np.int64(grid)
                at += 1
            j = last - 1  # the next row of the table: count up, the last digit fastest
            while j >= 0:
                digits[j] += 1
                if digits[j] < codes[j]:
                    break
                digits[j] = 0
                j -= 1
        first, end = coarser.first[which[c]], coarser.first[which[c] + 1]
        for i in range(first - 1, end):
            begin, scored = np.int64(0), which[c]
            if i >= first:
                row = coarser.which[i]
                begin, scored = row[BEGIN], row[CANDIDATE]
                steps, at = coarser.steps[row[STEPS] :], begin + _cells(sizes[scored])
                _add_up((gap, held), (row[FROM], begin, at), sizes[row[FINER]], steps, digits)
            out[scored] = _score(gap[begin:at], held[begin:at], noise, answers.sparse)


@part
def _cells(sizes):
    cells = 1
    for size in sizes:
        cells *= size
    return cells


@part
def _score(gap, held, noise, sparse):
    """The summed gaps, less the harm of noise; of more than `sparse` cells, what stands out if that is more.
    A record moves a gap by at most the grid, so either sum, and the larger, by no more for each of its cells.
    """
    distance, clear = np.int64(0), np.int64(0)
    for c in range(len(gap)):
        distance += abs(gap[c]) - min(noise, CAP * held[c])
    if len(gap) > sparse:
        for c in range(len(gap)):
            clear += max(abs(gap[c]) - CLEAR * noise, np.int64(0)) - min(noise, held[c]) // LITTLE
        distance = max(distance, clear)
    return distance


@part
def _add_up(tables, places, sizes, steps, digits):
    """Add up the cells of a view of `sizes` in both `tables`, to where `steps` sends them: `places` says
    where its cells begin, and where those that they are added up to begin and end.
    """
    (gap, held), (fine, begin, end), last = tables, places, len(sizes) - 1
    while last > 0 and sizes[last] == 1:
        last -= 1
    for c in range(begin, end):
        gap[c] = 0
        held[c] = 0
    rows, before = 1, 0
    for j in range(last):
        digits[j] = 0
        rows *= sizes[j]
        before += sizes[j]
    at = fine
    for _ in range(rows):
        base, offset = begin, 0
        for j in range(last):
            base += steps[offset + digits[j]]
            offset += sizes[j]
        for t in range(sizes[last]):
            place = base + steps[before + t]
            gap[place] += gap[at]
            held[place] += held[at]
            at += 1
        j = last - 1
        while j >= 0:
            digits[j] += 1
            if digits[j] < sizes[j]:
                break
            digits[j] = 0
            j -= 1
