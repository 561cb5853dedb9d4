"""MWEM over cuboids without the table of all cells. NOT PRIVATE.

What multiplicative weights make of the uniform distribution by steps towards cuboids is a product of one
table for each measured cuboid. Kept as that, a component may have 27 million cells and more, and no candidate
is left out because of the component that it would make; a marginal is a sum over the product, one attribute
after the other. The loop, the scores, the noise and the steps are those of `paper`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from factored_mwem import Domain
from factored_mwem.mechanisms.rounds import Progress, Round, Schedule
from factored_mwem.privacy.session import Eligible, Measurement, Session
from replay.paper import Paper, PaperLearner, Task, run_rounds

Clique = tuple[int, ...]
LARGEST = 2**27
"""Cells of a table between two sums, at most; without a number numpy allows none larger than what it is
given, and sums over many attributes at once.
"""


class LogLinear:
    """A distribution over `domain`, scaled to `total` records: the product of `tables: clique -> float64`,
    each shaped as its attributes, up to a factor.
    """

    def __init__(self, domain: Domain, total: float) -> None:
        self.domain, self.total = domain, total
        self.tables: dict[Clique, np.ndarray] = {}
        self._paths: dict[tuple[Clique, ...], list[object]] = {}

    def components(self) -> list[set[int]]:
        """The attributes, those together that measured cuboids tie."""
        parts: list[set[int]] = []
        for attributes in [(p,) for p in range(len(self.domain))] + list(self.tables):
            tied = [part for part in parts if part.intersection(attributes)]
            parts = [part for part in parts if part not in tied] + [set(attributes).union(*tied)]
        return parts

    def cells(self) -> list[int]:
        """Of each component, as a table."""
        return [math.prod(self.domain.shape[p] for p in part) for part in self.components()]

    def marginal(self, attributes: Sequence[int]) -> np.ndarray:
        """float64[cells]: the marginal over `attributes` (ascending), in records."""
        wanted = set(attributes)
        near = set().union(*(part for part in self.components() if part & wanted)) | wanted
        inside = {clique: table for clique, table in self.tables.items() if near.issuperset(clique)}
        alone = wanted.difference(*inside) if inside else wanted
        inside |= {(p,): np.ones(self.domain.shape[p]) for p in sorted(alone)}
        operands = [each for clique, table in inside.items() for each in (table, list(clique))]
        key = (tuple(attributes), *inside)
        if key not in self._paths:
            self._paths[key] = np.einsum_path(*operands, list(attributes), optimize=("greedy", LARGEST))[0]
        table = np.einsum(*operands, list(attributes), optimize=self._paths[key]).ravel()
        return table * (self.total / table.sum())

    def step(self, measured: Measurement, guard: float) -> bool:
        """One step towards a cuboid, all its cells at once, each clipped to 0 and the total; none where all
        lie within `guard` standard deviations. Whether it was taken. Source: HLM12 Fig. 1, step 2(c).
        """
        clique = tuple(measured.positions)
        now = self.marginal(clique)
        if np.abs(measured.noisy - now).max() <= guard * measured.stddev:
            return False
        gap = np.clip(measured.noisy, 0.0, self.total) - now
        ratio = np.exp(gap / (2 * self.total)).reshape([self.domain.shape[p] for p in clique])
        table = self.tables.get(clique, np.ones(ratio.shape)) * ratio
        self.tables[clique] = table / table.max()
        return True


class CuboidLearner(PaperLearner):
    """The paper's learner on a log-linear model."""

    def __init__(self, session: Session, task: Task, paper: Paper, model: LogLinear) -> None:
        super().__init__(session, task, paper, model)  # type: ignore[arg-type]
        self.model = model

    def eligible(self, step: Round) -> Eligible:
        which = np.flatnonzero(self._unasked)
        if not len(which):
            return Eligible(which, np.zeros(0))
        return Eligible(which, self.penalty(step.measure)[which], self.queries.weights[which])

    def update(self) -> None:
        """As `paper.update`: a step towards the newest, then sweeps over all that its component holds."""
        newest = self.measured[-1][2]
        self.model.step(newest, 0.0)
        part = next(part for part in self.model.components() if part.issuperset(newest.positions))
        again = [m for _, _, m in self.measured if part.issuperset(m.positions)]
        for _ in range(self.paper.sweeps - 1):
            moved = [self.model.step(m, self.paper.guard) for m in again]
            if not any(moved):
                break

    def progress(self, schedule: Schedule) -> Progress:
        names = [self.model.domain.names[p] for p in self.measured[-1][2].positions]
        cells = self.model.cells()
        return Progress.of(schedule, names, len(cells), cells)


def cuboid_mwem(
    task: Task, paper: Paper, rng: np.random.Generator, *, watch: Callable[[LogLinear], None]
) -> tuple[LogLinear, list[int]]:
    """`paper_mwem` for cuboids alone, whatever the components grow to: the final model, and which question
    each round chose.
    """
    session, model = task.session(paper.epsilon, rng), LogLinear(task.domain, task.total)
    learner = CuboidLearner(session, task, paper, model)
    return model, run_rounds(learner, lambda: watch(model))
