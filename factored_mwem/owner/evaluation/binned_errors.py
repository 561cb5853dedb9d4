"""Binned errors: NOT PRIVATE. Distances of marginals and questions between two tables of codes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.errors import InputError
from factored_mwem.privacy.rows import Rows
from factored_mwem.workload.queries.base import QueryRequest
from factored_mwem.workload.workload import Workload

MAX_CELLS = 2**26
"""Most cells of the table from which a question of a workload is answered."""
COUNTED_CELLS = 2**20
"""Marginals of at most this many cells are counted cell by cell, not sorted."""


class RequestErrors(NamedTuple):
    """NOT PRIVATE. A request of a workload, in words, and its errors (of shares; over a table their sum)."""

    words: str
    questions: int
    mean: float
    worst: float


@dataclass(frozen=True, slots=True, repr=False)
class CodedPair:
    """NOT PRIVATE. Two tables of one domain, as codes."""

    domain: Domain
    ours: list[np.ndarray]
    theirs: list[np.ndarray]

    def by_order(self, order: int) -> tuple[dict[int, tuple[float, float]], list[tuple[Clique, float]]]:
        """(mean and worst by order, every marginal with its error, the worst first)."""
        means, errors = {}, list[tuple[Clique, float]]()
        for k in range(1, order + 1):
            cliques = list(itertools.combinations(range(len(self.domain)), k))
            values = [self.distance(clique) for clique in cliques]
            means[k] = (float(np.mean(values)), float(np.max(values)))
            names = (tuple(self.domain.names[p] for p in clique) for clique in cliques)
            errors += zip(names, values, strict=True)
        errors.sort(key=lambda entry: -entry[1])
        return means, errors

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
        questions, tables = request.questions(domain), (self.ours, self.theirs)
        first, second = (
            questions.answers(Rows.coded(codes, domain.shape)) / len(codes[0]) for codes in tables
        )
        starts = np.cumsum(questions.cells) - questions.cells
        errors = np.add.reduceat(np.abs(first - second), starts)
        return RequestErrors(request.in_words(), len(errors), float(errors.mean()), float(errors.max()))

    def distance(self, clique: tuple[int, ...]) -> float:
        """The L1 distance of a marginal with any number of cells; for a large one only cells that either
        table fills are counted.
        """
        rows, others = len(self.ours[0]), len(self.theirs[0])
        cells = math.prod(self.domain.shape[p] for p in clique)
        if cells <= min(COUNTED_CELLS, 4 * (rows + others)):
            first, second = (self._counts(codes, clique, cells) for codes in (self.ours, self.theirs))
        else:
            first, second = self._filled(clique)
        return float(np.abs(first / rows - second / others).sum())

    def _counts(self, codes: list[np.ndarray], clique: tuple[int, ...], cells: int) -> np.ndarray:
        cell = np.zeros(len(codes[0]), dtype=np.int64)
        for p in clique:
            cell *= self.domain.shape[p]
            cell += codes[p]
        return np.bincount(cell, minlength=cells)

    def _filled(self, clique: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        rows, others = len(self.ours[0]), len(self.theirs[0])
        cell = np.zeros(rows + others, dtype=np.int64)
        for p in clique:  # renumbered at every step, so that the number never exceeds rows x codes
            code = np.concatenate([self.ours[p], self.theirs[p]])
            filled, cell = np.unique(cell * self.domain.shape[p] + code, return_inverse=True)
        first, second = (np.bincount(part, minlength=len(filled)) for part in (cell[:rows], cell[rows:]))
        return first, second
