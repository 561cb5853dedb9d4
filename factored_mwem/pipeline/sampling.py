"""Rows from a model, in batches: free, because the model is public. Only this randomness may be seeded.

Batches are independent: each has a random generator of its own, and sampling and refinement begin anew in it.
So any number of workers draws the same rows, in any order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels, View
from factored_mwem.domain.rules import Computed
from factored_mwem.domain.zeros import tables_at
from factored_mwem.kernels.dense import FLOOR
from factored_mwem.model.drawing import Drawing
from factored_mwem.model.forest import Forest
from factored_mwem.model.refinement import Refinement, RefinementTarget, enough, refine
from factored_mwem.tables.codes.derive import decode_table
from factored_mwem.workload.candidates import Candidates

MAX_BATCH_ROWS = 2**17
"""Most rows drawn and decoded at a time."""
MAX_REFINED_ROWS = 500_000
"""With more rows refinement gains nothing, because the random variation of their counts is small."""
MAX_CORRECTED_ROWS = 4_000_000
"""With more rows the marginals that correct a model's trees are left out, too, because each row gets too few
proposals for any gain. On a table of 20 columns with 1,096 corrections, refining a million rows lowers their
mean 2-way error by 5 %, four million by .7 % (3-way: .8 and .2 %), at five times the time.
"""
BYTES_A_CELL = 16.0
"""Memory for a cell of the refinement tables: shares, targets, and differences between rows and targets."""
MAX_AIM_CELLS, MAX_AIMS, MAX_READ_CELLS = 2**24, 5_000, 2**21
"""Most cells and most tables in a refinement; cells of aims that are read off the model at a time."""
FREE_CELLS = 2**20
"""So many take less memory than counting took before, whatever its limit."""
CELLS_A_ROW = 1
"""Most cells of a target for each row. In a sparser table a neighbouring cell counts as no better than a
distant one, and refinement scatters rows of a diagonal without a gain. Of two near-equal weights (ACS,
epsilon 1) the rank correlation is .77 with two cells a row, .79 with a half, .81 with a fifth, and the mean
3-way error of discretised Adult at epsilon 10 is .1020, .1028 and .1037; with one it is .1022.
"""
MOVED, EMPTY = 0.1, np.float32(0.5)
"""A pair that the trees tell more finely than all aims is an aim, too, where it has at least this share of
the rows elsewhere than its levels there say; no row moves to a cell of it where fewer than EMPTY are due.
Else each row that moves leaves a diagonal: of thefts (epsilon 1, three models) the strong pairs kept .739 of
their V as drawn, .696 moved without such aims, .724 with them; two-way errors were .138, .1277, .1259.
"""
MAX_TEXT_BYTES = 2**30
"""Most bytes of a column of text in a batch: the library takes up to 2^31."""
MAX_BATCH_VALUES = 2**24
"""Most values at a time: wide tables come in shorter batches, so that memory does not grow."""


@dataclass(frozen=True, eq=False)
class Batches:
    """`rows` rows of a model, by batches, which threads may draw at the same time. `generator(b)`: that of
    batch b, a new one at each call. `aims`: the marginals that each batch is refined towards, by its share of
    the proposals; before, the cells of every tree's root come within one row of their share.
    """

    model: Forest
    domain: Domain
    schema: pa.Schema
    rows: int
    generator: Callable[[int], np.random.Generator]
    aims: Sequence[View] = ()
    _drawing: Drawing = field(init=False)
    _fine: list[View] = field(init=False)
    _shares: list[np.ndarray] = field(init=False)
    _written: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_written", self.schema)
        object.__setattr__(self, "_drawing", Drawing(self.model))
        fine = finer_pairs(self.model, self.aims, CELLS_A_ROW * min(self.rows, self.size))
        object.__setattr__(self, "_fine", fine)
        aims = [*self.aims, *fine]
        object.__setattr__(self, "_shares", shares_of(self.model, aims) if self.rows else [])

    def listed(self) -> Self:
        """The same rows for a writer that makes dictionaries anyway: the batches have them already, of texts
        with listed values, where `schema` says text.
        """
        rules = (rule.of for rule in self.domain.derived.values() if isinstance(rule, Computed))
        kept = {a.name for a in self.domain.modelled if a.categorical and a.type == "string"} - set(rules)
        fields = [
            f.with_type(pa.dictionary(pa.int32(), f.type)) if f.name in kept and f.type == pa.string() else f
            for f in self.schema
        ]
        batches = copy(self)
        object.__setattr__(batches, "_written", pa.schema(fields))
        return batches

    @cached_property
    def size(self) -> int:
        """Rows of a batch but the last; it depends on the columns alone."""
        most = MAX_TEXT_BYTES // _longest(self.domain)
        return min(MAX_BATCH_ROWS, max(MAX_BATCH_VALUES // len(self.schema), 2**12), max(most, 1))

    def __len__(self) -> int:
        """How many batches there are."""
        return math.ceil(self.rows / self.size)

    def length(self, number: int) -> int:
        """Rows of the batch of this number."""
        return min(self.size, self.rows - number * self.size)

    def batch(self, number: int) -> pa.RecordBatch:
        """The batch of this number, from 0 on."""
        rng, size = self.generator(number), self.length(number)
        return self._decoded(self.refined(self._drawing.codes(size, rng), rng), rng)

    def _decoded(self, codes: Sequence[np.ndarray], rng: np.random.Generator) -> pa.RecordBatch:
        columns = decode_table(self.domain, codes, self._written, rng)
        return pa.RecordBatch.from_arrays(columns, schema=self._written)

    def refined(
        self, codes: Sequence[np.ndarray], rng: np.random.Generator, kept: Collection[int] = ()
    ) -> Sequence[np.ndarray]:
        """The codes of a batch, int[row] per modelled attribute, nearer to the aims; those of `kept` stay."""
        if not self._shares:
            return codes
        proposals = enough(len(codes), self.rows) * len(codes[0]) // self.rows
        table = np.stack(codes, dtype=np.int32, casting="same_kind")
        rows = np.float32(table.shape[1])
        aims, levels = [*self.aims, *self._fine], self.model.levels
        counts = {view: share * rows for view, share in zip(aims, self._shares, strict=True)}
        empty = {view: counts[view] < EMPTY for view in self._fine} | tables_at(self.domain.zeros, levels)
        refine(table, refinement_of(levels, counts, empty, kept), proposals, rng)
        return list(table)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return map(self.batch, range(len(self)))


def _longest(domain: Domain) -> int:
    """Bytes of the longest listed text."""
    texts = (value for a in domain for value in (*a.values, *a.sentinels) if isinstance(value, str))
    return max((len(text.encode()) for text in texts), default=1) or 1


def shares_of(model: Forest, aims: Sequence[View]) -> list[np.ndarray]:
    """float32[cells] for each of `aims`: the model's marginals, read some at a time in twice the width. Many,
    because what they have in common is worked out once.
    """
    ends = np.cumsum([model.levels.cells(view) for view in aims]) // MAX_READ_CELLS
    parts = np.split(np.arange(len(aims)), np.flatnonzero(np.diff(ends)) + 1)
    return [
        (t / model.total).astype(np.float32)
        for part in parts
        for t in model.marginals([aims[i] for i in part.tolist()])
    ]


def finer_pairs(model: Forest, aims: Sequence[View], most: int) -> list[View]:
    """The pairs that a clique holds at finer levels than any of `aims`, which hold their attributes, in up to
    `most` cells; those alone that say more than the aims, see MOVED. All that are looked at, the smallest
    first, have no more cells together than the aims have, or FREE_CELLS.
    """
    levels = model.levels
    cliques = (clique for part in model.components for clique in part.tree.cliques)
    shown, held = _finest_pairs(levels, aims, math.inf), _finest_pairs(levels, cliques, most)
    finer, left = dict[View, View](), max(sum(map(levels.cells, aims)), FREE_CELLS)
    for own, pair in sorted(held.items(), key=lambda each: levels.cells(each[1])):
        if own in shown and levels.cells(shown[own]) < levels.cells(pair) <= left:
            finer[pair] = shown[own]
            left -= levels.cells(pair)
    tables = model.marginals(list(finer)) if finer else []
    moved = (_moved(levels, *each, table) for each, table in zip(finer.items(), tables, strict=True))
    return [pair for pair, records in zip(finer, moved, strict=True) if records > MOVED * model.total]


def _finest_pairs(levels: Levels, views: Iterable[View], most: float) -> dict[tuple[int, ...], View]:
    """By attributes, the pair of variables of up to `most` cells that has most, among those of `views`."""
    pairs = {levels.view(pair) for view in views for pair in itertools.combinations(view, 2)}
    listed = sorted((pair for pair in pairs if levels.cells(pair) <= most), key=levels.cells)
    return {tuple(levels.attribute[list(pair)].tolist()): pair for pair in listed}


def _moved(levels: Levels, fine: View, coarse: View, table: np.ndarray) -> float:
    """Records of a pair's `table` that lie elsewhere where each attribute is independent within groups."""
    table = table.reshape(levels.sizes[list(fine)])
    rows, columns = (
        levels.between(u, v) if levels.sizes[u] > levels.sizes[v] else np.arange(levels.sizes[u])
        for u, v in zip(fine, coarse, strict=True)
    )
    of = (rows[:, None] * (columns.max() + 1) + columns).ravel()
    blocks = np.bincount(of, table.ravel())[of].reshape(table.shape)
    within = [
        sums / np.maximum(np.bincount(groups, sums)[groups], FLOOR)
        for groups, sums in ((rows, table.sum(axis=1)), (columns, table.sum(axis=0)))
    ]
    return float(np.abs(table - blocks * np.multiply.outer(*within)).sum() / 2)


def refinement_of(
    levels: Levels, counts: Mapping[View, np.ndarray], zeros: Mapping[View, np.ndarray], kept: Collection[int]
) -> Refinement:
    """Towards `counts`, in rows, by views; none moves where `zeros` hold, and those of `kept` stay."""
    level_of = {v: (a, i) for a, chain in enumerate(levels.chains) for i, v in enumerate(chain)}
    barred = {view: np.where(cells, np.float32(np.inf), np.float32(0)) for view, cells in zeros.items()}
    targets, bars = (
        [RefinementTarget(tuple(level_of[v] for v in view), table) for view, table in tables.items()]
        for tables in (counts, barred)
    )
    return Refinement([[levels.groups[v] for v in chain] for chain in levels.chains], targets, bars, kept)


def aims_of(candidates: Candidates, model: Forest, rows: int, memory: float = math.inf) -> list[View]:
    """The marginals that rows are refined towards: the largest asked for, as fine as rows and half of
    `memory` allow (the rest is for finer pairs), and all single attributes. Where corrections move rows far,
    those that a larger marginal has in full are left out: what a move gains in one table it would lose in the
    attribute's own, which holds rows fast.

    Where rows, or marginals, are so many that refinement brings nothing for its time, those alone that
    correct the model: rows drawn from its trees know nothing of them.
    """
    if rows > MAX_CORRECTED_ROWS:
        return []
    levels, largest = model.levels, np.flatnonzero(candidates.orders == candidates.orders.max())
    wanted = [candidates.positions(c) for c in largest.tolist()] if len(largest) <= MAX_AIMS else []
    if rows > MAX_REFINED_ROWS or not wanted:
        wanted = sorted(model.corrections.views, key=len)[:MAX_AIMS]
    if not wanted:
        return []
    most = min(max(CELLS_A_ROW * rows, 2**10), 2**17)
    while most >= 2**8:
        coarse = (levels.coarse_enough(view, most) for view in wanted)
        aims = [view for view in coarse if view]
        fine = {v for view in aims for v in view} if model.corrections else set()
        aims = [(a,) for a in range(len(levels.shape)) if a not in fine] + aims
        if sum(levels.cells(view) for view in aims) <= min(memory / 2 / BYTES_A_CELL, MAX_AIM_CELLS):
            return aims
        most //= 2
    return []
