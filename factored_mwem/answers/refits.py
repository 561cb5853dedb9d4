"""Refits: all components of a release's model, fitted anew to what is measured of a drawn world."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from factored_mwem.answers.dense_refit import DenseRefit
from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.refit import Refit, TreeRefit
from factored_mwem.answers.worlds import Chance, World, simulated_noise
from factored_mwem.domain.zeros import tables_at
from factored_mwem.errors import InputError
from factored_mwem.model.forest import Component
from factored_mwem.privacy.session import Measurement


class Refits:
    """What can be fitted anew of `evidence`, laid out once; threads may fit at the same time.

    InputError for a model that no likelihood was fitted to.
    """

    def __init__(self, evidence: Evidence) -> None:
        if evidence.engine != "tree":
            raise InputError(
                f"a model of engine {ascii(evidence.engine)[:20]} is no likelihood fit, so it has no "
                "replicates; make the release with engine tree"
            )
        self._evidence, model = evidence, evidence.model
        self.parts: list[Refit] = []
        if evidence.residuals:
            self.parts.append(DenseRefit(evidence))
            return
        zeros = tables_at(evidence.domain.zeros, model.levels)
        inside: dict[int, Measurement] = {}
        for part in model.components:
            measured = {i: m for i, m in enumerate(evidence.measurements) if _within(part, m.positions)}
            ruled = {view: cells for view, cells in zeros.items() if _within(part, view)}
            self.parts.append(TreeRefit(part, measured, ruled))
            inside |= measured
        views = [m.positions for m in inside.values()]
        self._expected = dict(zip(inside, model.marginals(views), strict=True)) if views else {}

    def of(self, world: World, rng: Chance) -> tuple[float, list[np.ndarray]]:
        """(the number of records, float64[parameters] of each component): fitted to what would have been
        measured of `world`; the noise comes from `rng`.
        """
        evidence = self._evidence
        if evidence.residuals:
            (part,) = self.parts
            assert isinstance(part, DenseRefit)
            return part.remeasured(world, rng)
        noisy: dict[int, np.ndarray] = {}
        for i, expected in self._expected.items():
            m = evidence.measurements[i]
            noise = simulated_noise(rng, m.scale, len(m.noisy))
            noisy[i] = world.counts(m.positions, expected, expected) + noise
        total = world.records if evidence.public_total else self._total(noisy, world.records, rng)
        return total, [part.fit(noisy, total) for part in self.parts]

    def _total(self, noisy: Mapping[int, np.ndarray], records: float, rng: Chance) -> float:
        """The number of records as the release estimated it: from a count of them all, and from the single
        attributes measured before anything else (mechanisms/tree.py).
        """
        evidence, first = self._evidence, itertools.takewhile(self._single, sorted(noisy))
        found = [(float(noisy[i].sum()), len(noisy[i]) * evidence.measurements[i].stddev ** 2) for i in first]
        if evidence.counted is not None:
            noise = simulated_noise(rng, evidence.counted, 1)
            found.append((records + float(noise[0]), evidence.counted.stddev**2))
        precision = math.fsum(1 / variance for _, variance in found)
        return max(1.0, math.fsum(mean / variance for mean, variance in found) / precision)

    def _single(self, number: int) -> bool:
        return len(self._evidence.measurements[number].positions) == 1

    def components(self, thetas: list[np.ndarray]) -> Iterator[Component]:
        """The components that `thetas: float[parameters]` of each stand for."""
        return (part.component(theta) for part, theta in zip(self.parts, thetas, strict=True))

    def beliefs(self, component: int, thetas: np.ndarray) -> np.ndarray:
        """float32[B, cells]: a component's cliques, for each of `thetas: float[B, parameters]`."""
        part = self.parts[component]
        with ThreadPoolExecutor(max_workers=2) as pool:
            cells = pool.map(lambda theta: part.component(theta).beliefs.cliques.astype(np.float32), thetas)
            return np.stack(list(cells))


def _within(part: Component, view: tuple[int, ...]) -> bool:
    """Whether a clique of `part` fixes a view."""
    levels = part.tree.levels
    return (
        bool(view)
        and set(levels.attribute[list(view)].tolist()) <= set(part.attributes)
        and part.tree.clique_of(view) is not None
    )
