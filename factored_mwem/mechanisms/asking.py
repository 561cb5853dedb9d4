"""Asking: the paper's loop (HLM12 Fig. 1) over single questions of any kind, on growing components: `--engine
mwem` with ranges, cubes, parities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from factored_mwem.errors import ResourceError
from factored_mwem.mechanisms.mwem import Fit, initialise
from factored_mwem.mechanisms.result import Answered, Fitted, Progress, Report
from factored_mwem.mechanisms.schedule import Schedule
from factored_mwem.mechanisms.shares import TOTAL_SHARE, plan
from factored_mwem.model.dense import Factor, ProductModel, step
from factored_mwem.model.forest import Forest
from factored_mwem.policy import Policy
from factored_mwem.privacy.counts import PrivateAnswers, PrivateRows
from factored_mwem.privacy.session import (
    Access,
    expected_noise,
    measure,
    measure_question,
    question_scales,
    select_question,
    stddev_of,
)
from factored_mwem.workload.candidates import Candidates, over_components
from factored_mwem.workload.queries.base import Questions
from factored_mwem.workload.queries.cuboids import Cuboids
from factored_mwem.workload.workload import Workload

SWEEPS = 100
"""Most sweeps over a component's measurements after each round, as in the paper's code; they end once all fit
within their noise.
"""
MOST_STEPS = 2**28
"""Cells that the sweeps after one round touch, about, at most: on a million cells fewer sweeps must do."""
MOST_ANSWERS = 2**27
"""Counts that the questions are answered from, at most: a gigabyte."""


@dataclass(slots=True, eq=False)
class Asking:
    """The questions, by kind and numbered over all kinds, and what was measured of them: (kind, number within
    it, noisy answers, their deviation).
    """

    kinds: list[Questions]
    weights: np.ndarray
    members: np.ndarray
    cells: np.ndarray
    kind_of: np.ndarray
    measured: list[tuple[Questions, int, np.ndarray, float]] = field(default_factory=list)

    @classmethod
    def of(cls, workload: Workload, candidates: Candidates) -> Asking:
        """What a workload asks; its plain marginals are questions, too."""
        domain = candidates.domain
        kinds = [asked.questions(domain) for asked in workload.asked]
        weights = [asked.weight for asked in workload.asked]
        plain = Workload(workload.orders, workload.named)
        if plain != Workload():
            marginals = plain.candidates(domain)
            kinds.append(Cuboids(tuple(marginals.positions(c) for c in range(len(marginals))), domain.shape))
            weights.append(1.0)
        need = sum(float(kind.cells.sum()) for kind in kinds)
        if need > MOST_ANSWERS:
            raise ResourceError(
                f"the questions need {need:.3g} counts, more than {MOST_ANSWERS:,}; ask for fewer, or use "
                "--columns"
            )
        sets = [kind.positions(q) for kind in kinds for q in range(len(kind.cells))]
        members = np.full((len(sets), max(map(len, sets))), -1, dtype=np.int64)
        for row, positions in zip(members, sets, strict=True):
            row[: len(positions)] = positions
        of = np.repeat(np.arange(len(kinds)), [len(kind.cells) for kind in kinds])
        return cls(
            kinds,
            np.array(weights)[of] / max(weights),
            members,
            np.concatenate([kind.cells for kind in kinds]),
            of,
        )

    def answers(self, model: ProductModel) -> np.ndarray:
        return np.concatenate([kind.answers(model) for kind in self.kinds])

    def fits(self, model: ProductModel, max_cells: int) -> np.ndarray:
        """bool[question]: whether the component that measuring it makes stays within the cap."""
        size_of = np.zeros(max(model.factors) + 2)
        for id_, factor in model.factors.items():
            size_of[id_] = math.log2(len(factor.weights))
        found: np.ndarray = (
            over_components(np.append(model.factor_of, -1)[self.members], size_of)
            <= math.log2(max_cells) + 1e-9
        )
        return found

    def update(self, model: ProductModel, positions: Sequence[int], *, replay: bool) -> None:
        """Merge what the newest measurement spans, step towards it, and replay what lies in its component
        until all fits its noise.
        """
        merged = model.merge(positions)
        part = Factor(merged.positions, merged.shape, merged.weights.copy())
        inside = set(part.positions)
        used = (
            [m for m in self.measured if inside.issuperset(m[0].positions(m[1]))]
            if replay
            else self.measured[-1:]
        )
        sweeps = min(SWEEPS, max(5, MOST_STEPS // (len(part.weights) * len(used)))) if replay else 1
        for _ in range(sweeps):
            before = part.weights.copy()
            for kind, question, noisy, stddev in used:
                step(part, kind, question, noisy, model.total, guard=stddev if replay else 0.0)
            if np.array_equal(before, part.weights):
                break
        model.replace(part)


def ask(
    rows: PrivateRows,
    private: PrivateAnswers,
    asking: Asking,
    candidates: Candidates,
    policy: Policy,
    *,
    access: Access,
    known_total: int | None,
    report: Report = lambda _: None,
) -> Fitted:
    """Fit a product model to the questions with what is left in the ledger; `candidates` are the marginals
    that hold them, for the plan.
    """
    fit = Fit(
        ProductModel.uniform(candidates.domain, 1.0, joined=policy.components == "one"), policy, known_total
    )
    if known_total is None:
        fit.measurements.append(measure(rows, (), cost=access.ledger.left * TOTAL_SHARE, access=access))
    fit.refresh_total()
    chosen = plan(
        candidates.domain,
        candidates,
        policy,
        access.ledger.budget,
        fit.model.total,
        questions=len(asking.members),
    )
    initialise(fit, rows, chosen, access)
    _keep_initial(fit, asking)
    schedule = Schedule(
        access.ledger, chosen.rounds, Fraction(policy.select_share), adaptive=policy.rounds == "adaptive"
    )
    found, open_ = [], np.ones(len(asking.members), dtype=bool)
    for turn in schedule if chosen.rounds else ():
        offered = np.flatnonzero(asking.fits(fit.model, policy.cells) & open_)
        if not len(offered):
            break
        scales = np.array(question_scales(asking.kinds, turn.measure, access))
        noise = (
            expected_noise(1.0, access.ledger.budget.composition)
            * scales[asking.kind_of[offered]]
            * asking.cells[offered]
        )
        answers = asking.answers(fit.model)
        worst = select_question(
            private,
            answers,
            offered,
            penalty=noise,
            weights=asking.weights[offered],
            cost=turn.select,
            access=access,
        )
        kind, number = private.kind_of(worst)
        noisy, scale = measure_question(private, worst, cost=turn.measure, access=access)
        open_[worst] = False
        schedule.note(
            float(np.abs(noisy - answers[private.starts[worst] : private.starts[worst + 1]]).sum()),
            expected_noise(scale, access.ledger.budget.composition) * len(noisy),
        )
        asking.measured.append((kind, number, noisy, stddev_of(scale, access.ledger.budget.composition)))
        asking.update(fit.model, kind.positions(number), replay=policy.replay)
        found.append(Answered(kind.label(number, candidates.domain.names), len(noisy), scale))
        report(_progress(fit, schedule, [candidates.domain.names[p] for p in kind.positions(number)]))
    return Fitted(
        Forest.of(fit.model), fit.measurements, schedule.done, fit.total_error, questions=tuple(found)
    )


def _keep_initial(fit: Fit, asking: Asking) -> None:
    """The first measurements take part in the replay, as cuboids."""
    for m in fit.measurements:
        if m.positions:
            asking.measured.append((Cuboids((m.positions,), fit.model.domain.shape), 0, m.noisy, m.stddev))


def _progress(fit: Fit, schedule: Schedule, attributes: Sequence[str]) -> Progress:
    factors = fit.model.components
    largest, cells = max(len(f.positions) for f in factors), sum(len(f.weights) for f in factors)
    return Progress(
        schedule.done,
        schedule.rounds,
        tuple(attributes),
        len(factors),
        largest,
        cliques=len(factors),
        cells=cells,
        spent=schedule.spent,
    )
