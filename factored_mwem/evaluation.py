"""Evaluation: NOT PRIVATE. It compares a synthetic table with the real one; its numbers must not be published with the release."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.codec import encode_table, fit_columns
from factored_mwem.domain import Clique, Domain
from factored_mwem.drafting import draft
from factored_mwem.errors import InputError
from factored_mwem.table import open_table

WORST = 10


@dataclass(frozen=True, slots=True)
class Errors:
    """NOT PRIVATE. L1 distances between normalised marginals of two tables (0 to 2): mean and worst of each order, and the worst marginals."""

    by_order: dict[int, tuple[float, float]]
    worst: tuple[tuple[Clique, float], ...]


def evaluate(real: Any, synthetic: Any, order: int, *, domain: Domain | str | Path | None = None, columns: Sequence[str] | None = None) -> Errors:
    """NOT PRIVATE. The errors of all marginals of 1 to `order` attributes; without `domain` one is drafted from the real table."""
    if domain is None:
        domain = draft(real)
    elif not isinstance(domain, Domain):
        domain = Domain.load(domain)
    if columns is None:
        columns = [name for name in open_table(synthetic).schema.names if name in domain]
    domain = domain.project(columns)
    if not 1 <= order <= len(domain):
        raise InputError(f"--marginals {order}: the tables share {len(domain)} attributes")
    ours, theirs = (_codes(table, domain, columns) for table in (real, synthetic))
    by_order, worst = {}, []
    for k in range(1, order + 1):
        found = [(clique, _distance(ours, theirs, domain, clique)) for clique in itertools.combinations(range(len(domain)), k)]
        values = [error for _, error in found]
        by_order[k] = (float(np.mean(values)), float(np.max(values)))
        worst += found
    worst.sort(key=lambda entry: -entry[1])
    return Errors(by_order, tuple((tuple(domain.names[p] for p in clique), error) for clique, error in worst[:WORST]))


def _codes(source: Any, domain: Domain, columns: Sequence[str]) -> list[np.ndarray]:
    table = open_table(source)
    fit_columns(domain, table, columns)
    return encode_table(domain, table)


def _distance(ours: list[np.ndarray], theirs: list[np.ndarray], domain: Domain, clique: tuple[int, ...]) -> float:
    """Only the cells that either table fills are touched, so that a marginal may have any number of cells."""
    cell = np.zeros(len(ours[0]) + len(theirs[0]), dtype=np.int64)
    for p in clique:  # renumbered at every step, so that the number never exceeds rows x codes
        filled, cell = np.unique(cell * domain.shape[p] + np.concatenate([ours[p], theirs[p]]), return_inverse=True)
    first, second = cell[: len(ours[0])], cell[len(ours[0]) :]
    gap = np.bincount(first, minlength=len(filled)) / len(first) - np.bincount(second, minlength=len(filled)) / len(second)
    return float(np.abs(gap).sum())
