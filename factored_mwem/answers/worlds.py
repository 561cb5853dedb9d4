"""Worlds: tables drawn from a model, and what a release of each would have measured. All of it is public: the
noise here is a simulation for statistics, it protects nobody and may be seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.answers.evidence import Evidence
from factored_mwem.domain.levels import Levels, View
from factored_mwem.model.drawing import Drawing
from factored_mwem.privacy.session import NoiseScale

MAX_DRAWN, MAX_CODES = 2**14, 2**26
"""Most rows drawn for a world, and codes of all worlds together: what more rows there are is added by scale."""
MIN_DRAWN = 2**10


def generator(seed: int, *key: int) -> np.random.Generator:
    """What the world of this key is drawn with: the same whoever draws it, and when."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def simulated_noise(rng: np.random.Generator, scale: NoiseScale, size: int) -> np.ndarray:
    """float64[size]: noise of the kind and scale of a measurement's, but continuous: for statistics alone."""
    if scale.composition is Composition.ZCDP:
        return rng.normal(0.0, scale.value, size)
    return rng.laplace(0.0, scale.value, size)


def drawn_rows(records: float, attributes: int, worlds: int) -> int:
    """How many rows a world is drawn with: as many as there are records, up to what time and memory allow."""
    most = min(MAX_DRAWN, max(MIN_DRAWN, MAX_CODES // (max(attributes, 1) * max(worlds, 1))))
    return max(1, min(round(records), most))


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Rows drawn independently from a model of `records`, `codes: uint[attribute][row]`, taken for as many
    rows as there are records: a count of c where the model says p of 1 is

        records p + sqrt(records / rows) (c - rows p),

    never below zero, with the mean and the variance of a count of that many rows.
    """

    levels: Levels
    codes: Sequence[np.ndarray]
    records: float

    @property
    def rows(self) -> int:
        return len(self.codes[0]) if self.codes else 0

    def counts(self, view: View, expected: np.ndarray) -> np.ndarray:
        """float64[cells]: the marginal over `view` of all records; `expected: float64[cells]`, in records,
        is the model's.
        """
        return self.scaled(np.bincount(self.cells(view), minlength=len(expected)), expected)

    def scaled(self, counts: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """`counts` of the rows, taken for all records: see above."""
        rows = max(self.rows, 1)
        return expected + (self.records / rows) ** 0.5 * (counts - expected * (rows / self.records))

    def cells(self, view: View) -> np.ndarray:
        """int64[row]: the cell of each row in the marginal over `view`."""
        cells = np.zeros(self.rows, dtype=np.int64)
        for v in view:
            cells *= int(self.levels.sizes[v])
            cells += self.levels.groups[v][self.codes[self.levels.attribute[v]]]
        return cells


class Worlds:
    """The worlds of `evidence`, by their number: world b is the same for the same `seed`."""

    def __init__(self, evidence: Evidence, seed: int, rows: int) -> None:
        self.evidence, self.seed, self.rows = evidence, seed, rows
        self._drawing = Drawing(evidence.model)

    def world(self, number: int) -> tuple[World, np.random.Generator]:
        """A world, and the generator of what is measured of it."""
        model, rng = self.evidence.model, generator(self.seed, number)
        codes = self._drawing.independent(self.rows, rng)
        kinds = [np.min_scalar_type(size - 1) for size in model.levels.shape]
        small = [code.astype(kind) for code, kind in zip(codes, kinds, strict=True)]
        return World(model.levels, small, model.total), rng
