"""The paper's algorithm (HLM12 Fig. 1) on dense components that grow with what is measured: whole marginals, or questions
of any kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from factored_mwem.kernels.dense import PAPER
from factored_mwem.mechanisms.eligible import UnmeasuredMarginals, worthwhile
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.queries import Queries
from factored_mwem.mechanisms.result import Answered, Fitted, Progress, Report
from factored_mwem.mechanisms.rounds import rounds
from factored_mwem.mechanisms.schedule import Round, Schedule
from factored_mwem.mechanisms.shares import Course, initial_shares
from factored_mwem.mechanisms.total import Total, first_total
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import SWEEPS, Factor, ProductModel, step, update
from factored_mwem.model.estimation import from_histogram
from factored_mwem.model.forest import Forest
from factored_mwem.privacy.answers import Answers, Eligible
from factored_mwem.privacy.session import Measurement, Session
from factored_mwem.workload.queries.base import Questions
from factored_mwem.workload.queries.cuboids import Cuboids

MAX_STEPS = 2**28
"""Cells that the sweeps after one round touch, about, at most: on a million cells fewer sweeps must do."""


def fit(session: Session, plan: Plan, report: Report) -> Fitted:
    """Fit a product model with what is left to spend, by questions of any kind or by whole marginals alone."""
    learner = (
        QueryLearner(session, plan, plan.queries)
        if plan.queries is not None
        else MarginalLearner(session, plan)
    )
    total = learner.total
    course = plan.course(total)
    learner.initialise(course)
    policy = plan.policy
    schedule = Schedule(
        session.accountant, course.rounds, Fraction(policy.select_share), adaptive=policy.rounds == "adaptive"
    )
    learner.begin()
    completed = rounds(session, learner, schedule, report)
    return learner.fitted(completed, schedule)


class DenseLearner:
    """The product model so far and the measurements it is made from; all of it public."""

    def __init__(self, session: Session, plan: Plan) -> None:
        self.session, self.plan, self.policy = session, plan, plan.policy
        self.total = first_total(session)
        self.model = ProductModel.uniform(
            plan.domain, self.total.records, joined=plan.policy.components == "one"
        )
        self.measurements: list[Measurement] = list(self.total.measured)

    def initialise(self, course: Course) -> None:
        """Measure every attribute, or every cell of every component, and start the model from that."""
        session, rows, budget = self.session, self.session.rows, self.session.left * course.first_share
        if self.policy.initial == "none":
            return
        if self.policy.initial == "one-way":
            shares = initial_shares(self.plan.domain.shape)
            initial = [session.measure(rows, (p,), cost=budget * share) for p, share in enumerate(shares)]
        else:
            blocks = [factor.positions for factor in self.model.components]
            initial = [session.measure(rows, block, cost=budget / len(blocks)) for block in blocks]
        self.measurements += initial
        self.refresh_total()
        for m in initial:
            factor = self.model.factor(m.positions[0])
            if factor.positions == m.positions:
                self.model.replace(from_histogram(factor, m.noisy, m.stddev))
        if self.policy.initial == "one-way" and self.policy.components == "one":
            whole = self.model.components[0]
            self.model.replace(update(whole, initial, self.model.total, sweeps=SWEEPS[PAPER], rule=PAPER))

    def refresh_total(self) -> bool:
        """Estimate the number of rows again once that halves its variance; True where it moved (every cached score is
        stale then).
        """
        if self.total.known:
            return False
        again = Total.estimated(self.measurements)
        if again.stderr**2 > self.total.stderr**2 / 2:
            return False
        self.total, self.model.total = again, again.records
        return True

    def _progress(self, schedule: Schedule, attributes: Sequence[int]) -> Progress:
        names, factors = self.plan.domain.names, self.model.components
        tables = [len(factor.weights) for factor in factors]
        return Progress.of(schedule, [names[a] for a in attributes], len(factors), tables)


class MarginalLearner(DenseLearner):
    """Learns from whole marginals: HLM12 section 3.3."""

    def begin(self) -> None:
        candidates = self.plan.candidates
        self.private = self.session.rows.count(candidates)
        self._open = UnmeasuredMarginals(
            candidates, self.policy.cells, {m.positions for m in self.measurements}
        )
        self._answers = ModelAnswers(candidates)
        self._sum = np.zeros(0)

    def eligible(self, step: Round) -> Eligible:
        if self.policy.iterate == "average":  # A_0 .. A_{T-1}: the iterates before each round, HLM12 Fig. 1
            self._sum = self.model.components[0].weights + (self._sum if len(self._sum) else 0)
        cells, which = self.plan.candidates.cells, self._open.which(self.model)
        if not len(which):
            return Eligible(which, np.zeros(0))
        noise = self.session.marginal_noise(step.measure).mean_abs
        which = worthwhile(which, cells[which] * noise, self.model.total)
        return Eligible(which, cells[which] * noise)

    def answers(self, eligible: Eligible) -> Answers:
        return self._answers.answers(self.model, self._open.stale())

    def target(self, chosen: int) -> tuple[int, ...]:
        return self.plan.candidates.positions(chosen)

    def add(self, chosen: int, measured: Measurement) -> tuple[float, float]:
        """Merge what it spans, and step (or replay) the component it lies in."""
        signal = float(np.abs(measured.noisy - self.model.marginal(measured.positions)).sum())
        self.measurements.append(measured)
        factor = self.model.merge(measured.positions)
        inside = set(factor.positions)
        used = [m for m in self.measurements if m.positions and inside.issuperset(m.positions)]
        used, sweeps = (used, SWEEPS[PAPER]) if self.policy.replay else ([measured], 1)
        self.model.replace(update(factor, used, self.model.total, sweeps=sweeps, rule=PAPER))
        self._open.measured(chosen, self.model, everything=self.refresh_total())
        return signal, measured.scale.mean_abs * len(measured.noisy)

    def progress(self, schedule: Schedule) -> Progress:
        return self._progress(schedule, self.measurements[-1].positions)

    def fitted(self, completed: int, schedule: Schedule) -> Fitted:
        if len(self._sum):
            whole = self.model.components[0]
            self.model.replace(Factor(whole.positions, whole.shape, self._sum / self._sum.sum()))
        return Fitted(Forest.of(self.model), self.measurements, completed, self.total)


class QueryLearner(DenseLearner):
    """Learns from questions of any kind, plain marginals among them."""

    def __init__(self, session: Session, plan: Plan, queries: Queries) -> None:
        super().__init__(session, plan)
        self._queries = queries
        self._measured: list[tuple[Questions, int, Measurement]] = []
        self._answered: list[Answered] = []

    def begin(self) -> None:
        """The first measurements take part in the replay, as cuboids."""
        self.private = self.session.rows.answer(self.plan.domain, self._queries.kinds)
        self._unasked = np.ones(len(self._queries), dtype=bool)
        for m in self.measurements:
            if m.positions:
                self._measured.append((Cuboids((m.positions,), self.plan.domain.shape), 0, m))

    def eligible(self, step: Round) -> Eligible:
        queries = self._queries
        which = np.flatnonzero(queries.fits(self.model, self.policy.cells) & self._unasked)
        if not len(which):
            return Eligible(which, np.zeros(0))
        first = np.concatenate([[0], np.cumsum([len(kind.cells) for kind in queries.kinds])[:-1]])
        noise = np.array([self.session.noise_of(self.private, int(q), step.measure).mean_abs for q in first])
        penalty = noise[queries.kind_of[which]] * queries.cells[which]
        return Eligible(which, penalty, queries.weights[which])

    def answers(self, eligible: Eligible) -> np.ndarray:
        self._known = self._queries.answers(self.model)
        return self._known

    def target(self, chosen: int) -> int:
        return chosen

    def add(self, chosen: int, measured: Measurement) -> tuple[float, float]:
        """Merge what it spans, step towards it, and replay what lies in its component until all fits its noise."""
        starts, noisy = self.private.starts, measured.noisy
        signal = float(np.abs(noisy - self._known[starts[chosen] : starts[chosen + 1]]).sum())
        self._unasked[chosen] = False
        kind, number = self.private.kind_of(chosen)
        self._measured.append((kind, number, measured))
        self._update(measured.positions)
        words = kind.label(number, self.plan.domain.names)
        self._answered.append(Answered(words, len(noisy), measured.scale.value))
        return signal, measured.scale.mean_abs * len(noisy)

    def _update(self, positions: Sequence[int]) -> None:
        merged, replay = self.model.merge(positions), self.policy.replay
        part = Factor(merged.positions, merged.shape, merged.weights.copy())
        inside = set(part.positions)
        used = self._measured[-1:]
        if replay:
            used = [m for m in self._measured if inside.issuperset(m[0].positions(m[1]))]
        sweeps = min(SWEEPS[PAPER], max(5, MAX_STEPS // (len(part.weights) * len(used)))) if replay else 1
        for _ in range(sweeps):
            before = part.weights.copy()
            for kind, number, m in used:
                step(part, kind, number, m.noisy, self.model.total, guard=m.stddev if replay else 0.0)
            if np.array_equal(before, part.weights):
                break
        self.model.replace(part)

    def progress(self, schedule: Schedule) -> Progress:
        kind, number, _ = self._measured[-1]
        return self._progress(schedule, kind.positions(number))

    def fitted(self, completed: int, schedule: Schedule) -> Fitted:
        made = Forest.of(self.model)
        return Fitted(made, self.measurements, schedule.done, self.total, questions=tuple(self._answered))
