"""Corrected: a replicate's answers in the light of measured marginals that no clique holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.terms import MAX_CELLS
from factored_mwem.answers.worlds import World, generator, simulated_noise
from factored_mwem.domain.levels import View
from factored_mwem.model.clique_tree import grid
from factored_mwem.model.corrections import Corrections, shrunk
from factored_mwem.model.forest import Forest
from factored_mwem.privacy.session import Measurement


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
        """None where none lies inside."""
        model, levels = evidence.model, evidence.model.levels
        if not model.corrections or (len(support) < len(levels.shape) and levels.cells(support) > MAX_CELLS):
            return None  # as terms have it
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

    def remeasured(self, world: World, seed: int, replicate: int) -> list[Measurement]:
        """What would have been measured of a replicate's `world`; the noise follows from `seed`."""
        found = []
        for i, drawn, expected in zip(self.numbers, self.drawn, self.expected, strict=True):
            m = self.evidence.measurements[i]
            noise = simulated_noise(generator(seed, replicate, i), m.scale, len(m.noisy))
            found.append(
                Measurement(m.positions, world.counts(m.positions, drawn, expected) + noise, m.scale)
            )
        return found

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
        made = Corrections(self.evidence.model.levels, [m.positions for m in measured], tables)
        return made.applied(self.support, answers).reshape(table.shape)
