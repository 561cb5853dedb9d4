"""Worlds: tables drawn from a model, and what a release of each would have measured. All of it is public: the
noise here is a simulation for statistics, it protects nobody and may be seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.levels import Levels, View
from factored_mwem.model.drawing import Drawing
from factored_mwem.model.forest import Forest
from factored_mwem.privacy.session import NoiseScale

MAX_DRAWN, MAX_CODES = 2**14, 2**26
"""Most rows drawn for a world, and codes of all worlds together: more rows are told by scale."""
MIN_DRAWN = 2**10
OWN = 0x776F726C
"""A spawn key that no batch of rows has."""

Chance = np.random.Generator
"""What a world and what is measured of it are drawn with."""


def generator(seed: int, *key: int) -> Chance:
    """What the world of this key is drawn with: the same whoever draws it, and when. Not what the rows of a
    release with this seed are drawn with.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(OWN, *key)))


def simulated_noise(rng: Chance, scale: NoiseScale, size: int) -> np.ndarray:
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

    def counts(self, view: View, drawn: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """float64[cells]: the marginal over `view` of all records. `drawn`, `expected: float64[cells]`, in
        records: what the rows were drawn from, and what the model says, which differ where corrections lie
        beyond what rows can be drawn from.
        """
        cells = np.zeros(len(self.codes[0]), dtype=np.int64)
        for v in view:
            cells *= int(self.levels.sizes[v])
            cells += self.levels.groups[v][self.codes[self.levels.attribute[v]]]
        return expected + fluctuation(
            np.bincount(cells, minlength=len(drawn)), drawn, self.records, len(cells)
        )


def fluctuation(counts: np.ndarray, drawn: np.ndarray, records: float, rows: int) -> np.ndarray:
    """How far `counts` of `rows` rows are from their mean, as of `records` rows; `drawn`: the mean, in
    records.
    """
    return (records / rows) ** 0.5 * (counts - drawn * (rows / records))


def world_of(drawing: Drawing, model: Forest, rows: int, rng: Chance) -> World:
    """A world of `rows` rows, their codes in as few bytes as their sizes need."""
    codes = drawing.independent(rows, rng)
    kinds = [np.min_scalar_type(size - 1) for size in model.levels.shape]
    return World(model.levels, [c.astype(kind) for c, kind in zip(codes, kinds, strict=True)], model.total)
