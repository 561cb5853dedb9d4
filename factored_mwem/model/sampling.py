"""Rows from a model, in batches: free, because the model is public. Only this randomness may be seeded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels, View
from factored_mwem.domain.zeros import Zeros, tables_at
from factored_mwem.model.clique_tree import grid
from factored_mwem.model.forest import Component, Forest
from factored_mwem.model.refinement import Target, enough, refine
from factored_mwem.tables.derive import decode_table
from factored_mwem.workload.candidates import Candidates

MAX_BATCH_ROWS = 2**17
"""Most rows drawn and decoded at a time."""
MAX_REFINED_ROWS = 500_000
"""Beyond this many rows their own scatter is so small that refinement gained nothing."""
BYTES_A_CELL = 16.0
"""Of those tables: shares, targets, and what is left between rows and targets."""
MAX_AIM_CELLS, MAX_AIMS = 2**24, 5_000
"""Cells and number of those tables at most."""
CELLS_A_ROW = 1
"""Cells of a target for each row, at most: in an emptier table a row is as far off in the next cell as in
the last, and refinement tears rows off a diagonal for nothing. Of two near-equal weights (ACS, epsilon 1) the
rank correlation is .77 with two cells a row, .79 with a half, .81 with a fifth, and the mean 3-way error of
discretised Adult at epsilon 10 is .1020, .1028 and .1037; with one it is .1022.
"""
MAX_TEXT_BYTES = 2**30
"""Most bytes of a column of text in a batch: the library takes up to 2^31."""
MAX_BATCH_VALUES = 2**24
"""Most values at a time: a wide table comes in shorter batches, so that memory does not grow with its
columns.
"""


def sample(
    model: Forest,
    domain: Domain,
    schema: pa.Schema,
    rows: int,
    *,
    rng: np.random.Generator,
    aims: Sequence[View] = (),
) -> Iterator[pa.RecordBatch]:
    """`rows` rows of the model in batches, refined towards the model's marginals over `aims`.

    Before that, in each batch the cells of every tree's root come out within one row of their share.
    """
    batch = min(
        MAX_BATCH_ROWS,
        max(MAX_BATCH_VALUES // len(schema), 2**12),
        max(MAX_TEXT_BYTES // _longest(domain), 1),
    )
    shares = shares_of(model, aims) if rows else []
    for at in range(0, rows, batch):
        size = min(batch, rows - at)
        codes: Sequence[np.ndarray] = draw(model, size, rng)
        if shares:
            proposals = enough(len(codes), rows) * size // rows
            codes = improved(
                model.levels, codes, aims, shares, proposals=proposals, rng=rng, zeros=domain.zeros
            )
        yield pa.RecordBatch.from_arrays(decode_table(domain, codes, schema, rng), schema=schema)


def _longest(domain: Domain) -> int:
    """Bytes of the longest listed text."""
    texts = (value for a in domain for value in (*a.values, *a.sentinels) if isinstance(value, str))
    return max((len(text.encode()) for text in texts), default=1) or 1


def shares_of(model: Forest, aims: Sequence[View]) -> list[np.ndarray]:
    """float32[cells] for each of `aims`: the model's marginals, read a few at a time in twice the width."""
    return [
        (t / model.total).astype(np.float32)
        for at in range(0, len(aims), 32)
        for t in model.marginals(aims[at : at + 32])
    ]


def improved(
    levels: Levels,
    codes: Sequence[np.ndarray],
    aims: Sequence[View],
    shares: Sequence[np.ndarray],
    *,
    proposals: int,
    rng: np.random.Generator,
    zeros: Sequence[Zeros] = (),
) -> Sequence[np.ndarray]:
    """The codes after refinement towards `shares`, the model's marginals over `aims`; none moves into
    `zeros`.
    """
    table = np.array(codes, dtype=np.int32)
    rows = table.shape[1]
    level_of = {v: (a, i) for a, chain in enumerate(levels.chains) for i, v in enumerate(chain)}
    targets = [
        Target(tuple(level_of[v] for v in view), share * np.float32(rows))
        for view, share in zip(aims, shares, strict=True)
    ]
    groups = [[levels.groups[v] for v in chain] for chain in levels.chains]
    barred = [
        Target(tuple(level_of[v] for v in view), np.where(cells, np.float32(np.inf), np.float32(0)))
        for view, cells in tables_at(zeros, levels).items()
    ]
    refine(table, levels.shape, groups, targets, proposals, rng, barred)
    return list(table)


def aims_of(candidates: Candidates, model: Forest, rows: int, memory: float = math.inf) -> list[View]:
    """The marginals that rows are refined towards: the largest asked for, as fine as rows and `memory` allow,
    and all single attributes. Where corrections move rows far, those that a larger marginal has in full are
    left out: what a move gains in one table it would lose in the attribute's own, which holds rows fast.

    Where rows, or marginals, are so many that refinement brings nothing for its time, those alone that
    correct the model: rows drawn from its trees know nothing of them.
    """
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
        if sum(levels.cells(view) for view in aims) <= min(memory / BYTES_A_CELL, MAX_AIM_CELLS):
            return aims
        most //= 2
    return []


def draw(model: Forest, rows: int, rng: np.random.Generator) -> list[np.ndarray]:
    """int64[row] per attribute: the codes of `rows` rows, every component in a random order of its own."""
    codes: list[np.ndarray] = [np.empty(0, dtype=np.int64)] * len(model.levels.shape)
    for part in model.components:
        drawn = _down(part, rows, rng)
        for a in part.attributes:
            codes[a] = drawn[a]  # an attribute's own variable has its number
    return codes


def _down(part: Component, rows: int, rng: np.random.Generator) -> dict[int, np.ndarray]:
    """int64[row] per variable of a tree: cells of the root, then of each clique given its parent's codes."""
    tree, levels = part.tree, part.tree.levels
    codes: dict[int, np.ndarray] = {}

    def keep(clique: int, cells: np.ndarray) -> None:
        for v in reversed(tree.cliques[clique]):  # by hand: numpy's own function takes up to 64 axes
            cells, codes[v] = np.divmod(cells, int(levels.sizes[v]))

    comb = (np.arange(rows) + rng.random()) / max(rows, 1)
    possible = np.flatnonzero(part.table(0))  # no rounding of sums may lead to a cell of weight zero
    table = part.table(0)[possible]
    keep(0, rng.permutation(possible[_at(np.cumsum(table), comb * table.sum())]))
    for child, _, separator in tree.edges:
        given = np.zeros(rows, dtype=np.int64)
        for v in separator:
            u = levels.holds(sorted(codes), v)
            assert u is not None
            given = given * int(levels.sizes[v]) + levels.between(u, v)[codes[u]]
        keep(child, _given(part.table(child), grid(tree.steps(child, separator)), given, rng))
    return codes


def _given(
    table: np.ndarray, separator_of: np.ndarray, given: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """int64[row]: a cell of `table` for each row, one that `separator_of` sends to the row's `given`."""
    possible = np.flatnonzero(table)
    order = possible[np.argsort(separator_of[possible], kind="stable")]
    ends = np.cumsum(table[order])
    count = int(separator_of.max()) + 1
    last = np.searchsorted(separator_of[order], np.arange(count), side="right")
    first = np.concatenate([[0], last[:-1]])
    mass = np.concatenate([[0.0], ends])
    low, high = mass[first], mass[last]
    # shuffled: else the codes of two cliques below one parent would rise together
    shuffled = rng.permutation(len(given))
    by_given = shuffled[np.argsort(given[shuffled], kind="stable")]
    ranked = given[by_given]
    rows = np.bincount(ranked, minlength=count)
    place = np.arange(len(given)) - np.concatenate([[0], np.cumsum(rows)])[ranked]
    comb = low[ranked] + (place + rng.random(count)[ranked]) / rows[ranked] * (high - low)[ranked]
    cells = np.empty(len(given), dtype=np.int64)
    cells[by_given] = order[
        np.clip(np.searchsorted(ends, comb, side="right"), first[ranked], last[ranked] - 1)
    ]
    return cells


def _at(ends: np.ndarray, comb: np.ndarray) -> np.ndarray:
    """int64[row]: cells, by systematic sampling: one of share p comes floor or ceil of p * rows times."""
    return np.minimum(np.searchsorted(ends, comb, side="right"), len(ends) - 1)
