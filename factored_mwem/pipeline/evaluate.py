"""Evaluation: NOT PRIVATE. It compares a synthetic table with the real one; its numbers must not be published
with the release.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import InputError
from factored_mwem.privacy.counts import Rows
from factored_mwem.tables.codec import encode_table, fit_columns
from factored_mwem.tables.delimited import Records
from factored_mwem.tables.draft import draft
from factored_mwem.tables.source import TEXT_SUFFIXES, Table, open_table
from factored_mwem.workload.queries.base import QueryRequest
from factored_mwem.workload.workload import Workload

WORST = 10
MOST_CELLS = 2**26
"""Cells of the table from which a question of a workload is answered, at most."""


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
    worst: tuple[tuple[Clique, float], ...]
    asked: tuple[tuple[str, int, float, float], ...] = ()


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
    if records != "checked" and not any(map(_is_text_file, (real, synthetic))):
        raise InputError(
            f"--{records} says how the lines of a text file are read; leave it out with typed tables"
        )
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
    by_order, worst = {}, []
    for k in range(1, order + 1):
        found = [
            (clique, _distance(ours, theirs, domain, clique))
            for clique in itertools.combinations(range(len(domain)), k)
        ]
        values = [error for _, error in found]
        by_order[k] = (float(np.mean(values)), float(np.max(values)))
        worst += found
    worst.sort(key=lambda entry: -entry[1])
    named = tuple((tuple(domain.names[p] for p in clique), error) for clique, error in worst[:WORST])
    return Errors(
        by_order, named, _errors_asked(workload, ours, theirs, domain) if workload is not None else ()
    )


def _errors_asked(
    workload: Workload, ours: list[np.ndarray], theirs: list[np.ndarray], domain: Domain
) -> tuple[tuple[str, int, float, float], ...]:
    """The errors of what a workload names, marginals first."""
    workload.check(domain.names)
    found = []
    for clique in workload.named:
        error = _distance(ours, theirs, domain, tuple(domain.index(name) for name in domain.clique(clique)))
        found.append((f"marginal over {', '.join(clique)}", 1, error, error))
    return (*found, *(_errors_of(request, ours, theirs, domain) for request in workload.asked))


def _errors_of(
    request: QueryRequest, ours: list[np.ndarray], theirs: list[np.ndarray], domain: Domain
) -> tuple[str, int, float, float]:
    cells = max(math.prod(domain[name].size for name in clique) for clique in request.targets(domain))
    if cells > MOST_CELLS:
        raise InputError(
            f"a question over {cells:,} cells is too large to evaluate; {MOST_CELLS:,} is the most"
        )
    questions, levels = request.questions(domain), Levels.fine(domain.shape)
    first, second = (questions.answers(Rows(codes, levels)) / len(codes[0]) for codes in (ours, theirs))
    starts = np.cumsum(questions.cells) - questions.cells
    errors = np.add.reduceat(np.abs(first - second), starts)
    return request.in_words(), len(errors), float(errors.mean()), float(errors.max())


def _open(source: Any, records: Records) -> Table:
    """The table; `records` is for those of the two that are text files."""
    return open_table(source, records if _is_text_file(source) else "checked")


def _is_text_file(source: Any) -> bool:
    return isinstance(source, str | Path) and str(source).lower().endswith(TEXT_SUFFIXES)


def _codes(table: Table, domain: Domain, columns: Sequence[str]) -> list[np.ndarray]:
    fit_columns(domain, table, columns)
    codes = encode_table(domain, table)
    if not len(codes[0]):
        raise InputError("one of the tables has no rows; there is nothing to compare")
    return codes


def _distance(
    ours: list[np.ndarray], theirs: list[np.ndarray], domain: Domain, clique: tuple[int, ...]
) -> float:
    """Only the cells that either table fills are touched, so that a marginal may have any number of cells."""
    cell = np.zeros(len(ours[0]) + len(theirs[0]), dtype=np.int64)
    for p in clique:  # renumbered at every step, so that the number never exceeds rows x codes
        filled, cell = np.unique(
            cell * domain.shape[p] + np.concatenate([ours[p], theirs[p]]), return_inverse=True
        )
    first, second = cell[: len(ours[0])], cell[len(ours[0]) :]
    gap = np.bincount(first, minlength=len(filled)) / len(first) - np.bincount(
        second, minlength=len(filled)
    ) / len(second)
    return float(np.abs(gap).sum())
