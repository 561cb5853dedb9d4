"""Evaluate: NOT PRIVATE. A synthetic table against the real one; its numbers must not be published."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import InputError
from factored_mwem.privacy.counts import Rows
from factored_mwem.tables.codec import encode_table, fit_columns
from factored_mwem.tables.draft import draft
from factored_mwem.tables.source import Table, is_text_file, open_table
from factored_mwem.tables.text_form import Records
from factored_mwem.workload.queries.base import QueryRequest
from factored_mwem.workload.workload import Workload

SHOWN_MARGINALS = 10
"""How many of the worst are listed."""
MAX_CELLS = 2**26
"""Of the table from which a question of a workload is answered."""


class RequestErrors(NamedTuple):
    """NOT PRIVATE. What a workload asks for, in words, and its errors (of shares; a table's added up)."""

    words: str
    questions: int
    mean: float
    worst: float


@dataclass(frozen=True, slots=True)
class Errors:
    """NOT PRIVATE. L1 distances, from 0 to 2, between the normalised marginals of two tables.

    Mean and worst of each order, and the worst marginals. `asked`: of each request of a workload, in words,
    how many questions it is, and the mean and the worst error (of shares; a table's added up).

    >>> import pyarrow as pa
    >>> from factored_mwem import evaluate
    >>> errors = evaluate(pa.table({"age": [0, 1]}), pa.table({"age": [0, 0]}), 1)
    >>> errors.worst
    ((('age',), 1.0),)
    """

    by_order: dict[int, tuple[float, float]]
    """Mean and worst, by how many attributes a marginal has."""
    worst: tuple[tuple[Clique, float], ...]
    """The worst marginals."""
    asked: tuple[RequestErrors, ...] = ()
    """Those of a workload."""


def evaluate(
    real: Any,
    synthetic: Any,
    order: int,
    *,
    domain: Domain | str | Path | None = None,
    columns: Sequence[str] | None = None,
    workload: Workload | None = None,
    records: Records = "checked",
) -> Errors:
    """NOT PRIVATE. How far a synthetic table is off in all marginals of up to `order` attributes.

    And in the cubes, ranges and parities that `workload` asks for. Without `domain` one is drafted from the
    real table. `records` says what a record of a text file is, see Policy.

    >>> import pyarrow as pa
    >>> from factored_mwem import evaluate
    >>> people = pa.table({"age": [31, 45, 31, 62], "sex": ["F", "M", "M", "F"]})
    >>> evaluate(people, people.slice(0, 2), 2).by_order[1]  # mean and worst, of single columns
    (0.25, 0.5)
    """
    if records != "checked" and not any(map(is_text_file, (real, synthetic))):
        how = f"--{records} says how the lines of a text file are read"
        raise InputError(f"{how}; leave it out with typed tables")
    if domain is None:
        domain = draft(_open(real, records))
    elif not isinstance(domain, Domain):
        domain = Domain.load(domain)
    if columns is None:
        columns = [name for name in _open(synthetic, records).schema.names if name in domain]
    domain = domain.project(columns)
    if not 1 <= order <= len(domain):
        raise InputError(f"--marginals {order}: the tables share {len(domain)} attributes")
    ours, theirs = (_codes(_open(table, records), domain, columns) for table in (real, synthetic))
    pair = _Pair(domain, ours, theirs)
    by_order, errors = {}, list[tuple[tuple[int, ...], float]]()
    for k in range(1, order + 1):
        cliques = list(itertools.combinations(range(len(domain)), k))
        values = [pair.distance(clique) for clique in cliques]
        by_order[k] = (float(np.mean(values)), float(np.max(values)))
        errors += zip(cliques, values, strict=True)
    errors.sort(key=lambda entry: -entry[1])
    worst = [(tuple(domain.names[p] for p in clique), error) for clique, error in errors[:SHOWN_MARGINALS]]
    return Errors(by_order, tuple(worst), pair.errors_of(workload) if workload is not None else ())


@dataclass(frozen=True, slots=True, repr=False)
class _Pair:
    """NOT PRIVATE. Two tables of one domain, as codes."""

    domain: Domain
    ours: list[np.ndarray]
    theirs: list[np.ndarray]

    def errors_of(self, workload: Workload) -> tuple[RequestErrors, ...]:
        """The errors of what a workload names, marginals first."""
        workload.check(self.domain.names)
        return (*map(self._of_marginal, workload.named), *map(self._of_request, workload.asked))

    def _of_marginal(self, clique: Clique) -> RequestErrors:
        error = self.distance(tuple(self.domain.index(name) for name in self.domain.clique(clique)))
        return RequestErrors(f"marginal over {', '.join(clique)}", 1, error, error)

    def _of_request(self, request: QueryRequest) -> RequestErrors:
        domain = self.domain
        cells = max(math.prod(domain[name].size for name in clique) for clique in request.targets(domain))
        if cells > MAX_CELLS:
            what = f"a question over {cells:,} cells is too large to evaluate"
            raise InputError(f"{what}; {MAX_CELLS:,} is the most")
        questions, levels, tables = (
            request.questions(domain),
            Levels.fine(domain.shape),
            (self.ours, self.theirs),
        )
        first, second = (questions.answers(Rows(codes, levels)) / len(codes[0]) for codes in tables)
        starts = np.cumsum(questions.cells) - questions.cells
        errors = np.add.reduceat(np.abs(first - second), starts)
        return RequestErrors(request.in_words(), len(errors), float(errors.mean()), float(errors.max()))

    def distance(self, clique: tuple[int, ...]) -> float:
        """Of a marginal with any number of cells: only those that either table fills are touched."""
        rows, others = len(self.ours[0]), len(self.theirs[0])
        cell = np.zeros(rows + others, dtype=np.int64)
        for p in clique:  # renumbered at every step, so that the number never exceeds rows x codes
            code = np.concatenate([self.ours[p], self.theirs[p]])
            filled, cell = np.unique(cell * self.domain.shape[p] + code, return_inverse=True)
        first, second = (np.bincount(part, minlength=len(filled)) for part in (cell[:rows], cell[rows:]))
        return float(np.abs(first / rows - second / others).sum())


def _open(source: Any, records: Records) -> Table:
    """The table; `records` is for those of the two that are text files."""
    return open_table(source, records if is_text_file(source) else "checked")


def _codes(table: Table, domain: Domain, columns: Sequence[str]) -> list[np.ndarray]:
    fit_columns(domain, table, columns)
    codes = encode_table(domain, table)
    if not len(codes[0]):
        raise InputError("one of the tables has no rows; there is nothing to compare")
    return codes
