"""Bootstrap tables: tables drawn from a model, and simulated measurements of them. All of it is public: the
noise here is a simulation for statistics; it protects nobody and may be seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.terms import MAX_CELLS
from factored_mwem.domain.levels import Levels, View
from factored_mwem.model.clique_tree import grid
from factored_mwem.model.corrections import Corrections, shrunk
from factored_mwem.model.drawing import Drawing
from factored_mwem.model.forest import Forest
from factored_mwem.privacy.session import Measurement, NoiseScale

MAX_DRAWN, MAX_CODES = 2**14, 2**26
"""Most rows drawn for a table, and most codes of all tables together; for more rows the variation is
scaled.
"""
MIN_DRAWN = 2**10
OWN = 0x776F726C
"""A spawn key that no batch of rows uses."""

Generator = np.random.Generator
"""The random generator of a table and its measurements."""


def generator(seed: int, *key: int) -> Generator:
    """The generator for the table of this key, the same in any thread; rows of this seed use others."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(OWN, *key)))


def simulated_noise(rng: Generator, scale: NoiseScale, size: int) -> np.ndarray:
    """float64[size]: noise of the kind and scale of a measurement's, but continuous: for statistics alone."""
    if scale.composition is Composition.ZCDP:
        return rng.normal(0.0, scale.value, size)
    return rng.laplace(0.0, scale.value, size)


def drawn_rows(records: float, attributes: int, tables: int) -> int:
    """How many rows a table is drawn with: as many as there are records, up to what time and memory allow."""
    most = min(MAX_DRAWN, max(MIN_DRAWN, MAX_CODES // (max(attributes, 1) * max(tables, 1))))
    return max(1, min(round(records), most))


@dataclass(frozen=True, slots=True, eq=False)
class BootstrapTable:
    """Rows drawn independently from a model of `records`, `codes: uint[attribute][row]`, taken for as many
    rows as there are records: a count of c where the model says p of 1 is

        records p + sqrt(records / rows) (c - rows p),

    with the mean and the variance of a count of that many rows. Where people are counted, `records` are
    grains, a row stands for a person and their grains, `of_each`: a person's grains lie in as many cells as
    they have rows, and the mean of their rows varies at most as one of them, drawn at random, does; so the
    variance is that of people who have all grains in one cell, the most that it can be.
    """

    levels: Levels
    codes: Sequence[np.ndarray]
    records: float
    of_each: int = 1

    def counts(self, view: View, drawn: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """float64[cells]: the marginal over `view`, in records. `drawn`, `expected: float64[cells]`: what the
        rows were drawn from, and what the model says, which corrections may set apart.
        """
        cells = np.zeros(len(self.codes[0]), dtype=np.int64)
        for v in view:
            cells *= int(self.levels.sizes[v])
            cells += self.levels.groups[v][self.codes[self.levels.attribute[v]]]
        return expected + self.fluctuation(np.bincount(cells, minlength=len(drawn)), drawn)

    def fluctuation(self, counts: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """How far `counts` of the rows are from their mean `drawn` (records), as of that many records."""
        rows = self.codes[0].shape[-1]
        return (self.of_each * self.records / rows) ** 0.5 * (counts - drawn * (rows / self.records))


def bootstrap_table(drawing: Drawing, evidence: Evidence, rows: int, rng: Generator) -> BootstrapTable:
    """A table of `rows` rows, their codes in as few bytes as their sizes need."""
    codes, model = drawing.independent(rows, rng), evidence.model
    kinds = [np.min_scalar_type(size - 1) for size in model.levels.shape]
    least = [c.astype(kind) for c, kind in zip(codes, kinds, strict=True)]
    return BootstrapTable(model.levels, least, model.total, evidence.of_each)


@dataclass(frozen=True, slots=True, eq=False)
class Correcting:
    """The measurements beyond all cliques that lie inside `support`, by `numbers`, with the marginals that
    rows are `drawn` from and those that the model says, `expected`.
    """

    evidence: Evidence
    support: View
    numbers: Sequence[int]
    drawn: Sequence[np.ndarray]
    expected: Sequence[np.ndarray]

    @classmethod
    def of(cls, evidence: Evidence, support: View) -> Correcting | None:
        """None if none lies inside."""
        model, levels = evidence.model, evidence.model.levels
        if not model.corrections or (len(support) < len(levels.shape) and levels.cells(support) > MAX_CELLS):
            return None  # as `QueryTerms.of_forest`, which then leaves corrections out
        inside = [
            i
            for i, m in enumerate(evidence.measurements)
            if m.positions
            and set(levels.attribute[list(m.positions)].tolist()) <= set(support)
            and not model.holds(m.positions)
        ]
        if not inside:
            return None
        views = [evidence.measurements[i].positions for i in inside]
        bare = Forest(levels, model.components, model.total)
        return cls(evidence, support, inside, bare.marginals(views), model.marginals(views))

    def remeasured(self, table: BootstrapTable, seed: int, replicate: int) -> list[Measurement]:
        """The simulated measurements of a replicate's `table`; their noise follows from `seed`."""
        measured = []
        for i, drawn, expected in zip(self.numbers, self.drawn, self.expected, strict=True):
            m = self.evidence.measurements[i]
            noise = simulated_noise(generator(seed, replicate, i), m.scale, len(m.noisy))
            measured.append(
                Measurement(m.positions, table.counts(m.positions, drawn, expected) + noise, m.scale)
            )
        return measured

    def cells(self) -> list[np.ndarray]:
        """int64[cells of the support] each: the cell of every measurement for each of the support's."""
        levels, measured = self.evidence.model.levels, self.evidence.measurements
        return [grid(levels.steps(self.support, measured[i].positions)) for i in self.numbers]

    def corrected(
        self, table: np.ndarray, measured: Sequence[Measurement], cells: Sequence[np.ndarray]
    ) -> np.ndarray:
        """float64[codes, ...]: a replicate's `table` over the support after correction by `measured`."""
        answers, tables = table.ravel(), []
        for m, at in zip(measured, cells, strict=True):
            tables.append(shrunk(np.bincount(at, answers, minlength=len(m.noisy)), m.noisy, m.stddev))
        corrections = Corrections(self.evidence.model.levels, [m.positions for m in measured], tables)
        return corrections.applied(self.support, answers).reshape(table.shape)
