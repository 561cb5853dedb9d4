"""Projections: each measured marginal onto a query's attributes, what else it counted being summed out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.answers.evidence import Evidence
from factored_mwem.domain.levels import Levels, View
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement
from factored_mwem.workload.residual_basis import Transform


class ProjectedMarginal(NamedTuple):
    """Measurement `number` as seen from some attributes: over `variables`, one each at most, a cell is
    the sum of `summed` noisy answers. `precision`: one over the variance of a cell's noise.
    """

    number: int
    variables: View
    summed: int
    precision: float


class Noisy:
    """The noisy answers of a release, laid out so that those about few attributes are quickly found."""

    def __init__(
        self,
        levels: Levels,
        measured: Sequence[Measurement],
        residuals: Sequence[Residuals] = (),
        total: float | None = None,
    ) -> None:
        """`total`: the number of records where that is public."""
        self.levels, self.measured, self.residuals, self.total = levels, list(measured), residuals, total
        self._touching: dict[int, list[int]] = {}
        for i, m in enumerate(self.measured):
            for a in levels.attribute[list(m.positions)].tolist():
                self._touching.setdefault(a, []).append(i)

    @classmethod
    def of(cls, evidence: Evidence) -> Noisy:
        """All measurements except those that decided the codes of an attribute, see `Evidence.settled`."""
        measured = [m for i, m in enumerate(evidence.measurements) if i not in evidence.settled]
        total = float(evidence.model.total) if evidence.public_total else None
        return cls(evidence.model.levels, measured, evidence.residuals, total)

    @cached_property
    def sums(self) -> np.ndarray:
        """float64[measurement]: the sum of its answers, the number of records."""
        return np.array([float(m.noisy.sum(dtype=np.float64)) for m in self.measured])

    @cached_property
    def cells(self) -> np.ndarray:
        """float64[measurement]"""
        return np.array([float(len(m.noisy)) for m in self.measured])

    @cached_property
    def variances(self) -> np.ndarray:
        """float64[measurement]: of an answer's noise."""
        return np.array([m.stddev**2 for m in self.measured])

    @cached_property
    def subsets(self) -> list[list[tuple[int, int, int]]]:
        """For each of the `residuals`: (mask, first, end) of every subset's answers in `residual_answers`."""
        return [subsets for subsets, _ in self._by_subset]

    @cached_property
    def residual_answers(self) -> list[np.ndarray]:
        """int64[answer] of each of the `residuals`, those of one subset together, row-major."""
        return [answers for _, answers in self._by_subset]

    @cached_property
    def _by_subset(self) -> list[tuple[list[tuple[int, int, int]], np.ndarray]]:
        subsets = []
        for r in self.residuals:
            gaussian = r.scale.composition is Composition.ZCDP
            masks = Transform(self.levels.shape, r.order, gaussian=gaussian).masks
            masks = masks[r.weights[masks] > 0]
            order = np.argsort(masks, kind="stable")
            each, first = np.unique(masks[order], return_index=True)
            ends = np.append(first[1:], len(masks))[: len(each)]  # where nothing was measured there are none
            spans = zip(each.tolist(), first.tolist(), ends.tolist(), strict=True)
            subsets.append((list(spans), r.noisy[order]))
        return subsets

    def about(self, attributes: Iterable[int]) -> list[int]:
        """The measurements that hold any of these attributes, in their order."""
        return sorted({i for a in attributes for i in self._touching.get(a, ())})

    def beside(self, about: Sequence[int]) -> np.ndarray:
        """int64[measurement]: all others, of which only the sum says something; none if it is public."""
        if self.total is not None:
            return np.zeros(0, dtype=np.int64)
        others = np.ones(len(self.measured), dtype=bool)
        others[list(about)] = False
        return np.flatnonzero(others)

    def of_sums(self, measurements: np.ndarray) -> tuple[float, float]:
        """Each of these measurements, summed, estimates the number of records. (the precision of all these
        estimates together, their sum weighted by precision): the second over the first is the best estimate.
        """
        precisions = 1 / (self.variances[measurements] * self.cells[measurements])
        return float(precisions.sum()), float(precisions @ self.sums[measurements])

    def variable(self, index: int, attribute: int) -> int | None:
        """The variable at which a measurement holds an attribute, if it does."""
        return next(
            (v for v in self.measured[index].positions if self.levels.attribute[v] == attribute), None
        )

    def projected(self, index: int, variables: Iterable[int | None]) -> ProjectedMarginal:
        """A measurement with all but these `variables` of its own summed out."""
        m, kept = self.measured[index], tuple(v for v in variables if v is not None)
        summed = len(m.noisy) // max(self.levels.cells(kept), 1)
        return ProjectedMarginal(index, kept, summed, 1.0 / (float(self.variances[index]) * summed))

    def table(self, projected: ProjectedMarginal) -> np.ndarray:
        """float64[codes, ...]: the noisy sums of a projected, an axis for each of its variables."""
        m = self.measured[projected.number]
        if not projected.variables:
            return np.array(self.sums[projected.number])
        table = m.noisy.reshape([int(self.levels.sizes[v]) for v in m.positions])
        out = tuple(i for i, v in enumerate(m.positions) if v not in projected.variables)
        return table.sum(axis=out, dtype=np.float64)

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian; otherwise it is Laplace noise."""
        scales = [m.scale for m in self.measured] + [r.scale for r in self.residuals]
        return all(scale.composition is Composition.ZCDP for scale in scales)

    @property
    def continuous(self) -> bool:
        """Whether all noise is wide enough, at least one record, to be treated as continuous."""
        scales = [m.scale.value for m in self.measured] + [r.scale.value for r in self.residuals]
        return all(scale >= 1 for scale in scales)
