"""Queries: what a workload asks, question by question, for the dense mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from factored_mwem.errors import ResourceError
from factored_mwem.model.dense import ProductModel
from factored_mwem.workload.candidates import Candidates, over_components
from factored_mwem.workload.queries.base import Questions
from factored_mwem.workload.queries.cuboids import Cuboids
from factored_mwem.workload.workload import Workload

MAX_ANSWERS = 2**27
"""Counts that the questions are answered from, at most: a gigabyte."""


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """The questions, by kind and numbered over all kinds. Of each: its weight, the attributes it is about
    (padded with -1), its answers, and the number of its kind.
    """

    kinds: tuple[Questions, ...]
    weights: np.ndarray
    members: np.ndarray
    cells: np.ndarray
    kind_of: np.ndarray

    @classmethod
    def of(cls, workload: Workload, candidates: Candidates) -> Queries:
        """What a workload asks; its plain marginals are questions, too."""
        domain = candidates.domain
        kinds: list[Questions] = [asked.questions(domain) for asked in workload.asked]
        weights = [asked.weight for asked in workload.asked]
        plain = Workload(workload.orders, workload.named)
        if plain != Workload():
            marginals = plain.candidates(domain)
            kinds.append(Cuboids(tuple(marginals.positions(c) for c in range(len(marginals))), domain.shape))
            weights.append(1.0)
        return cls.about(kinds, weights)

    @classmethod
    def about(cls, kinds: Sequence[Questions], weights: Sequence[float]) -> Queries:
        """All questions of these kinds, of each kind with one weight."""
        need = sum(float(kind.cells.sum()) for kind in kinds)
        if need > MAX_ANSWERS:
            raise ResourceError(
                f"the questions need {need:.3g} counts, more than {MAX_ANSWERS:,}; ask for fewer, or use "
                "--columns"
            )
        sets = [kind.positions(q) for kind in kinds for q in range(len(kind.cells))]
        members = np.full((len(sets), max(map(len, sets))), -1, dtype=np.int64)
        for row, positions in zip(members, sets, strict=True):
            row[: len(positions)] = positions
        of = np.repeat(np.arange(len(kinds)), [len(kind.cells) for kind in kinds])
        cells = np.concatenate([kind.cells for kind in kinds])
        return cls(tuple(kinds), np.array(weights)[of] / max(weights), members, cells, of)

    def __len__(self) -> int:
        return len(self.members)

    def answers(self, model: ProductModel) -> np.ndarray:
        """float64[answer]: the model's, question after question."""
        return np.concatenate([kind.answers(model) for kind in self.kinds])

    def fits(self, model: ProductModel, max_cells: int) -> np.ndarray:
        """bool[question]: whether the component that measuring it makes stays within the cap."""
        size_of = np.zeros(max(model.factors) + 2)
        for id_, factor in model.factors.items():
            size_of[id_] = math.log2(len(factor.weights))
        merged = over_components(np.append(model.factor_of, -1)[self.members], size_of)
        fits: np.ndarray = merged <= math.log2(max_cells) + 1e-9
        return fits
