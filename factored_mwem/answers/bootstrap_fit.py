"""Bootstrap fits: a release's model fitted anew to other noisy answers: on the same trees, with all
measurements inside them at once, and without selecting anything.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.answers.bootstrap_table import BootstrapTable, Generator, simulated_noise
from factored_mwem.answers.evidence import Evidence
from factored_mwem.domain.levels import View
from factored_mwem.domain.zeros import allowed_cells, tables_at
from factored_mwem.errors import InputError
from factored_mwem.kernels.tree import CELLS, FEWEST, Beliefs, Pace, Targets, descend, rebuild, tilt
from factored_mwem.mechanisms.public_joint import NOTHING, PublicJoint
from factored_mwem.mechanisms.residuals import ENTROPY, AtOnce, error_of, fit
from factored_mwem.model.clique_tree import cells_passed, lay_out
from factored_mwem.model.dense import Factor
from factored_mwem.model.estimation import MAX_FINAL_STEPS, MIN_FINAL_GAIN, estimate_total, from_histogram
from factored_mwem.model.forest import Component
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement
from factored_mwem.workload.residual_basis import Transform

MAX_WORK, COLD_STEPS = 400_000_000, 150
"""Cells that a fit may pass over, about a second; steps that one from single attributes needs at least. From
the model 40 steps do, where answers are many and noise is small.
"""


class TreeComponentFit:
    """A component of a clique tree: log-linear in what was measured inside it.

    A fit begins as a release does, from the noisy single attributes, and ends where it does; one that would
    take too long begins from the release's own model and makes a few steps. `parameters`: how many numbers a
    fit finds.
    """

    def __init__(
        self, part: Component, measured: Mapping[int, Measurement], fixed: Mapping[View, np.ndarray]
    ) -> None:
        """`measured`: those inside `part`, by number; `fixed`: by view inside it the logarithms of what is
        known beforehand, such as cells left empty.
        """
        self._part, self._measured = part, dict(measured)
        views = [m.positions for m in measured.values()]
        layout = lay_out(part.tree, [*views, *fixed])
        self._whole, self._layout = layout, layout._replace(tables=layout.tables[: len(views)])
        self._fixed = np.concatenate([np.zeros(0), *fixed.values()])
        self._separators = int(layout.edges[:, CELLS].sum())
        self.parameters = sum(len(m.noisy) for m in measured.values())
        passed = 4 * sum(part.tree.cells) + 2 * cells_passed(self._layout)
        affordable = MAX_WORK // max(passed, 1)
        self.cold = affordable >= COLD_STEPS
        self._steps = MAX_FINAL_STEPS if self.cold else max(affordable, FEWEST)

    def fit(self, noisy: Mapping[int, np.ndarray], total: float) -> np.ndarray:
        """float64[parameters]: fitted to `noisy: float64[cells]` in records, by the measurement's number."""
        begin = self._begin(noisy) if self.cold else [np.zeros(self.parameters)]
        theta = np.concatenate([np.zeros(0), *begin])
        if not self._measured or (len(self._measured) < 2 and not len(self._fixed)):
            return theta  # the histogram itself, as in a release
        beliefs = self._beliefs(theta)
        weights = np.array([(total / m.stddev) ** 2 for m in self._measured.values()])
        targets = Targets(np.concatenate([noisy[i] for i in self._measured]) / total, weights)
        pace = Pace(8 / float(weights.max()), self._steps, MIN_FINAL_GAIN * len(theta))
        descend(beliefs, self._layout, targets, theta, pace)
        return theta

    def _begin(self, noisy: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """The parameters of a product of single attributes, each as first measured."""
        begun: set[int] = set()
        thetas = []
        for i, m in self._measured.items():
            first = len(m.positions) == 1 and m.positions[0] not in begun
            fine = first and m.positions[0] < len(self._part.tree.levels.shape)
            if fine:
                begun.add(m.positions[0])
                uniform = Factor.uniform(m.positions, (len(m.noisy),))
                thetas.append(np.log(from_histogram(uniform, noisy[i], m.stddev).weights))
            else:
                thetas.append(np.zeros(len(m.noisy)))
        return thetas

    def _beliefs(self, theta: np.ndarray) -> Beliefs:
        if not self.cold:
            beliefs = Beliefs(*(cells.copy() for cells in self._part.beliefs))
            tilt(beliefs, self._layout, theta)
            return beliefs
        beliefs = Beliefs(np.zeros(sum(self._part.tree.cells)), np.zeros(self._separators))
        rebuild(beliefs, self._whole, np.concatenate([theta, self._fixed]))
        return beliefs

    def component(self, theta: np.ndarray) -> Component:
        """The component that `theta: float[parameters]` stands for, calibrated."""
        if not self.parameters:
            return self._part  # nothing was measured in it, so all replicates are alike
        return self._part.with_beliefs(self._beliefs(theta.astype(np.float64)), self._layout)


LEAST = -300.0
"""Least logarithm of a cell's share, so that a file holds finite numbers only."""


class DenseComponentFit:
    """The one clique of a release that measured residuals at once; its parameters are its cells' logs."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence, model = evidence, evidence.model
        (self._part,) = model.components
        self._measured, shape = evidence.residuals[0], model.levels.shape
        composition = self._measured.scale.composition
        self._transform = Transform(shape, self._measured.order, gaussian=composition is Composition.ZCDP)
        zeros = evidence.domain.zeros
        self._allowed = allowed_cells(zeros, shape) if zeros else None
        self._view = tuple(range(len(shape)))
        shares = model.marginal(evidence.public).reshape([shape[a] for a in evidence.public]) / model.total
        self._known = PublicJoint(evidence.public, shares) if evidence.public else NOTHING
        self._charge = ENTROPY / min(error_of(shape, self._measured, model.total, self._known), 0.5)
        self.parameters = math.prod(shape)

    def remeasured(self, table: BootstrapTable, rng: Generator) -> tuple[float, list[np.ndarray]]:
        """(the number of records, the parameters) after residuals of `table` with noise from `rng`."""
        expected = self._part.table(0) * table.records
        exact = self._transform.forward(table.counts(self._view, expected, expected))
        wanted = self._measured.weights[self._transform.masks]
        noisy = (exact * wanted)[wanted > 0]
        noisy += simulated_noise(rng, self._measured.scale, len(noisy))
        total = table.records
        if not self._evidence.public_total:
            total = self._total(noisy[0], table.records, rng)
        return total, [self._fitted(noisy, total)]

    def _total(self, again: float, records: float, rng: Generator) -> float:
        """As mechanisms/residuals.py: one_shot combines a count of all records with the residual of none."""
        weight = float(self._measured.weights[0])
        estimates = [(again / weight, (self._measured.stddev / weight) ** 2)] if weight else []
        before = [m for m in self._evidence.measurements if len(m.positions) <= 1]
        if before:
            error = estimate_total(before)[1]
            estimates.append((records + float(rng.normal(0.0, error)), error**2))
        return _weighted_mean(estimates) if estimates else records

    def _fitted(self, noisy: np.ndarray, total: float) -> np.ndarray:
        measured = Residuals(self._measured.order, self._measured.weights, noisy, self._measured.scale)
        wanted = AtOnce(self._evidence.model.levels.shape, measured.order, self._known)
        start = self._part.table(0)
        table = fit(wanted, measured, total, charge=self._charge, allowed=self._allowed, start=start)
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(table), LEAST)

    def component(self, theta: np.ndarray) -> Component:
        """The component that `theta: float[parameters]` stands for."""
        cells = np.exp(theta.astype(np.float64) - theta.max())
        if self._allowed is not None:
            cells *= self._allowed
        return Component.of(self._part.tree, cells / cells.sum())


class BootstrapFits:
    """The parts of `evidence` that can be fitted anew, laid out once; threads may fit at the same time.
    Raises InputError for a model of engine mwem, which is not a likelihood fit.
    """

    def __init__(self, evidence: Evidence) -> None:
        if evidence.engine != "tree":
            raise InputError(
                f"a model of engine {ascii(evidence.engine)[:20]} is no likelihood fit, so it has no "
                "replicates; make the release with engine tree"
            )
        self._evidence, model = evidence, evidence.model
        self.parts: list[TreeComponentFit | DenseComponentFit] = []
        if evidence.residuals:
            self.parts.append(DenseComponentFit(evidence))
            return
        zeros = tables_at(evidence.domain.zeros, model.levels)
        inside: dict[int, Measurement] = {}
        for part in model.components:
            measured = {i: m for i, m in enumerate(evidence.measurements) if _within(part, m.positions)}
            ruled = {view: np.where(c, -np.inf, 0.0) for view, c in zeros.items() if _within(part, view)}
            if evidence.public and _within(part, evidence.public):
                with np.errstate(divide="ignore"):
                    known = np.log(model.marginal(evidence.public) / model.total)
                ruled[evidence.public] = ruled.get(evidence.public, 0.0) + np.maximum(known, LEAST)
            self.parts.append(TreeComponentFit(part, measured, ruled))
            inside |= measured
        views = [m.positions for m in inside.values()]
        self._expected = dict(zip(inside, model.marginals(views), strict=True)) if views else {}

    def of(self, table: BootstrapTable, rng: Generator) -> tuple[float, list[np.ndarray]]:
        """(records, float64[parameters] of each component): as `table` would be measured and fitted."""
        evidence = self._evidence
        if self.parts and isinstance(self.parts[0], DenseComponentFit):
            return self.parts[0].remeasured(table, rng)
        noisy: dict[int, np.ndarray] = {}
        for i, expected in self._expected.items():
            m = evidence.measurements[i]
            noise = simulated_noise(rng, m.scale, len(m.noisy))
            noisy[i] = table.counts(m.positions, expected, expected) + noise
        total = table.records if evidence.public_total else self._total(noisy, table.records, rng)
        return total, [part.fit(noisy, total) for part in self.parts if isinstance(part, TreeComponentFit)]

    def _total(self, noisy: Mapping[int, np.ndarray], records: float, rng: Generator) -> float:
        """The number of records as the release estimated it: from a count of them all, and from the single
        attributes measured before anything else (mechanisms/tree.py).
        """
        evidence, measured = self._evidence, self._evidence.measurements
        first = itertools.takewhile(lambda i: len(measured[i].positions) == 1, sorted(noisy))
        estimates = [(float(noisy[i].sum()), len(noisy[i]) * measured[i].stddev ** 2) for i in first]
        if evidence.counted is not None:
            noise = simulated_noise(rng, evidence.counted, 1)
            estimates.append((records + float(noise[0]), evidence.counted.stddev**2))
        return _weighted_mean(estimates)

    def components(self, thetas: list[np.ndarray]) -> Iterator[Component]:
        """The components that `thetas: float[parameters]` of each stand for."""
        return (part.component(theta) for part, theta in zip(self.parts, thetas, strict=True))

    def beliefs(self, component: int, thetas: np.ndarray) -> np.ndarray:
        """float32[B, cells]: a component's cliques, for each of `thetas: float[B, parameters]`."""
        part = self.parts[component]
        with ThreadPoolExecutor(max_workers=2) as pool:
            cells = pool.map(lambda theta: part.component(theta).beliefs.cliques.astype(np.float32), thetas)
            return np.stack(list(cells))


def _weighted_mean(estimates: Sequence[tuple[float, float]]) -> float:
    """Records, at least 1: the mean of (estimate, variance) pairs, each weighted by its precision."""
    precision = math.fsum(1 / variance for _, variance in estimates)
    return max(1.0, math.fsum(mean / variance for mean, variance in estimates) / precision)


def _within(part: Component, view: tuple[int, ...]) -> bool:
    """Whether a clique of `part` fixes a view."""
    levels = part.tree.levels
    return (
        bool(view)
        and set(levels.attribute[list(view)].tolist()) <= set(part.attributes)
        and part.tree.clique_of(view) is not None
    )
