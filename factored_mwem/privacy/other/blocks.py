"""Sample and aggregate: what somebody's function says to blocks of private rows; private.

Rows go to blocks independently and uniformly, by a key that nobody knows: so for neighbours the blocks can
be drawn alike but for the rows in which they differ. Rows that come or go are in one block each, a row in
the place of another is in its block; so one person's k rows touch at most k blocks, under either relation.
Where rows lie in the file does not matter: a place is only what one row's draw is made from, and the draws
of different places are independent. What the function says to a block depends on the block alone, by
assumption; a block that it fails on, in whatever way, counts as a fixed value, and whatever it says is
brought to within public bounds.

Average: the sum over blocks moves by at most k times the width of the bounds.

Centre of attention: the middle of the shortest interval that holds t of the M results, t = floor((M + k) /
2) + 1. With r(t) half of that interval's length: the intervals of neighbours hold a result in common, for 2
t > M + k, so the middles are at most r(t) + r'(t) apart, and r'(t) <= r(t + k), for the interval of t + k
results still holds t of the neighbour's. So S = max over j of e^{-beta j} (r(t + j k) + r(t + (j + 1) k)),
with the width of the bounds from where there are not so many results, is smooth and large enough. Source:
Nissim, Raskhodnikova, Smith 2007, section 4, with the middle of an interval in the place of a point.

Of several dimensions each coordinate has its own centre, and is paid for by itself: one person touches at
most k blocks, whose every coordinate may change, so the above holds for each. If a box of side w holds t
results, the centre of a coordinate lies within w of the box's: its shortest interval is no longer, and meets
the box's. One centre of a ball would cost as much: the noise of pure privacy pays for the sum of what all
coordinates move by, d times the radius, and each would have the noise of the one on which blocks agree least.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.other.column import GRAINS
from factored_mwem.privacy.other.order import UP
from factored_mwem.privacy.rows import Sealed, SealedQuery
from factored_mwem.tables.backends.codes import Codes
from factored_mwem.tables.inputs.source import Private

DRAWN = 2**18
"""Rows whose blocks are drawn from one output of the generator."""


@dataclass(frozen=True, slots=True, eq=False)
class OnBlocks:
    """The `function` of a block, `float64[row, column]` with NaN for what is missing, that gives `dimensions`
    numbers; `values[column]: float64[code]`; the `cells` of the grid of results from `lower` to `upper`.
    """

    function: Callable[[np.ndarray], Any]
    values: Sequence[np.ndarray]
    blocks: int
    lower: float
    upper: float
    cells: int
    dimensions: int
    key: bytes = field(repr=False)

    def result(self, block: np.ndarray) -> np.ndarray:
        """int64[dimension]: the function's result as cells of the grid; the middle where it fails."""
        last, numbers = self.cells - 1, np.full(self.dimensions, np.nan)
        quiet = io.StringIO()
        with (
            contextlib.redirect_stdout(quiet),
            contextlib.redirect_stderr(quiet),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            try:
                returned = np.asarray(self.function(block), dtype=np.float64).ravel()
                numbers = returned if len(returned) == self.dimensions else numbers
            except (Exception, SystemExit, GeneratorExit):  # noqa: BLE001 - whose words would quote the rows
                pass
            share = np.clip((numbers - self.lower) / (self.upper - self.lower), 0.0, 1.0)
        return np.rint(np.where(np.isfinite(numbers), share, 0.5) * last).astype(np.int64)


class Centre(NamedTuple):
    """The centre of attention of one dimension, where one person has at most `group` rows."""

    group: int
    dimension: int = 0


class BlockResults(Private):
    """What PrivateResults reveals: `_results: int64[block, dimension]`."""

    __slots__ = ("_last", "_results")

    def __init__(self, results: np.ndarray, cells: int) -> None:
        self._results, self._last = results, cells - 1

    def exact(self, what: None) -> np.ndarray:
        """int64[dimension]: the sum over blocks, from the middle of the grid, in half cells."""
        return (2 * self._results - self._last).sum(axis=0)

    def value(self, what: Centre) -> int:
        """The centre of attention, in units of noise."""
        ordered = np.sort(self._results[:, what.dimension]) * GRAINS
        return middle(ordered, majority(len(ordered), what.group))

    def smooth(self, what: Centre, beta: float, group: int) -> float:
        """See the top."""
        ordered = np.sort(self._results[:, what.dimension]) * GRAINS
        return max(1.0, attention_bound(ordered, self._last * GRAINS, beta, group))


def majority(blocks: int, group: int) -> int:
    """The results that an interval of attention holds."""
    return (blocks + group) // 2 + 1


def middle(ordered: np.ndarray, count: int) -> int:
    """The middle of the first shortest interval with `count` of `ordered: int64`, even numbers ascending."""
    if count > len(ordered):
        return int(ordered[0] + ordered[-1]) // 2
    first = int(np.argmin(ordered[count - 1 :] - ordered[: len(ordered) - count + 1]))
    return int(ordered[first] + ordered[first + count - 1]) // 2


def attention_bound(ordered: np.ndarray, width: int, beta: float, group: int) -> float:
    """The smooth bound of `middle`, see the top; `width` of the bounds."""

    def radius(count: int) -> float:
        return float((ordered[count - 1 :] - ordered[: len(ordered) - count + 1]).min()) / 2

    count, bound, step = majority(len(ordered), group), 0.0, 0
    while count + (step + 1) * group <= len(ordered):
        here, next_one = count + step * group, count + (step + 1) * group
        bound = max(bound, math.exp(-beta * step) * (radius(here) + radius(next_one)))
        step += 1
    return max(bound, math.exp(-beta * step) * width) * UP


class PrivateResults(Sealed):
    """Results on blocks: `Session.measure` takes None, for their sum, and `measure_smooth` a Centre."""

    __slots__ = ("cells", "dimensions")

    def __init__(self, contents: BlockResults, names: Sequence[str], task: OnBlocks) -> None:
        super().__init__(contents, names)
        self.cells, self.dimensions = task.cells, task.dimensions

    @classmethod
    def of(cls, rows: PrivateRows, task: OnBlocks) -> PrivateResults:
        """The results on blocks of `rows`, sealed at once. Runs the function."""
        data = rows._contents.data
        assert isinstance(data, Codes), "rows are somewhere else"
        columns = [values[codes] for values, codes in zip(task.values, data.columns, strict=True)]
        number = block_of(len(columns[0]), task.blocks, task.key)
        order = np.argsort(number, kind="stable")
        ends = np.searchsorted(number[order], np.arange(task.blocks + 1))
        results = [
            task.result(np.stack([column[order[a:b]] for column in columns], axis=1))
            for a, b in itertools.pairwise(ends.tolist())
        ]
        return cls(BlockResults(np.array(results, dtype=np.int64), task.cells), rows.names, task)

    def query(self, what: None, unit: Unit) -> SealedQuery:
        """Each sum over blocks, in half cells: of all attributes."""
        most = 2 * (self.cells - 1) * unit.contributions
        return SealedQuery.each(self.names, tuple(range(len(self.names))), most, self.dimensions)


def block_of(rows: int, blocks: int, key: bytes) -> np.ndarray:
    """int64[row]: a block for each row, by 64 bits of SHAKE-256: uniform to one part in 2^64 / blocks."""
    numbers = np.empty(rows, dtype=np.int64)
    for at in range(0, rows, DRAWN):
        bits = hashlib.shake_256(key + at.to_bytes(8, "little")).digest(8 * min(DRAWN, rows - at))
        numbers[at : at + DRAWN] = np.frombuffer(bits, dtype="<u8") % np.uint64(blocks)
    return numbers
