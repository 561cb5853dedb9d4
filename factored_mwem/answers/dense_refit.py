"""DenseRefit: a model fitted to residuals at once, fitted anew to others."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.worlds import Chance, World, simulated_noise
from factored_mwem.domain.zeros import allowed_cells
from factored_mwem.mechanisms.residuals import ENTROPY, error_of, fit
from factored_mwem.model.estimation import estimate_total
from factored_mwem.model.forest import Component
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.workload.residual_basis import Transform

LEAST = -300.0
"""No logarithm of a cell's share is below this, so that a file holds finite numbers alone."""


class DenseRefit:
    """The one clique of a release that measured residuals at once; its parameters are its cells' logs."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence, model = evidence, evidence.model
        (self._part,) = model.components
        self._measured, shape = evidence.residuals[0], model.levels.shape
        composition = self._measured.scale.composition
        self._transform = Transform(shape, self._measured.order, gaussian=composition is Composition.ZCDP)
        zeros = evidence.domain.zeros
        self._allowed = allowed_cells(zeros, shape) if zeros else None
        self._charge = ENTROPY / min(error_of(shape, self._measured, model.total), 0.5)
        self._view = tuple(range(len(shape)))
        self.parameters = math.prod(shape)

    def remeasured(self, world: World, rng: Chance) -> tuple[float, list[np.ndarray]]:
        """(the number of records, the parameters) after residuals of `world` with noise from `rng`."""
        expected = self._part.table(0) * world.records
        exact = self._transform.forward(world.counts(self._view, expected, expected))
        asked = self._measured.weights[self._transform.masks]
        noisy = (exact * asked)[asked > 0]
        noisy += simulated_noise(rng, self._measured.scale, len(noisy))
        total = world.records
        if not self._evidence.public_total:
            total = self._total(noisy[0], world.records, rng)
        return total, [self._fitted(noisy, total)]

    def _total(self, again: float, records: float, rng: Chance) -> float:
        """As mechanisms/residuals.py: one_shot combines a count of all records with the residual of none."""
        weight = float(self._measured.weights[0])
        found = [(again / weight, (self._measured.stddev / weight) ** 2)] if weight else []
        before = [m for m in self._evidence.measurements if len(m.positions) <= 1]
        if before:
            error = estimate_total(before)[1]
            found.append((records + float(rng.normal(0.0, error)), error**2))
        precision = math.fsum(1 / variance for _, variance in found)
        if not precision:
            return records
        return max(1.0, math.fsum(mean / variance for mean, variance in found) / precision)

    def fit(self, noisy: Mapping[int, np.ndarray], total: float) -> np.ndarray:
        """float64[cells]: fitted to the residuals `noisy[0]`."""
        return self._fitted(noisy[0], total)

    def _fitted(self, noisy: np.ndarray, total: float) -> np.ndarray:
        measured = Residuals(self._measured.order, self._measured.weights, noisy, self._measured.scale)
        shape = self._evidence.model.levels.shape
        table = fit(
            shape, measured, total, charge=self._charge, allowed=self._allowed, start=self._part.table(0)
        )
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(table), LEAST)

    def component(self, theta: np.ndarray) -> Component:
        cells = np.exp(theta.astype(np.float64) - theta.max())
        if self._allowed is not None:
            cells *= self._allowed
        return Component.of(self._part.tree, cells / cells.sum())
