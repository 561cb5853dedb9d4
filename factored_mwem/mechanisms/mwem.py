"""The paper's algorithm (HLM12 Fig. 1) on dense components that grow: whole marginals, or any questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np

from factored_mwem.kernels.scoring import Answers
from factored_mwem.mechanisms.course import rounds_for
from factored_mwem.mechanisms.eligible import UnmeasuredMarginals, worthwhile
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.queries import Queries
from factored_mwem.mechanisms.result import Answered, Fitted, Total, first_total
from factored_mwem.mechanisms.rounds import Progress, Report, Round, Schedule, rounds
from factored_mwem.mechanisms.shares import initial_shares
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import SWEEPS, AnsweredQuestion, Factor, ProductModel, inside, sweep, update
from factored_mwem.model.estimation import from_histogram
from factored_mwem.model.forest import Forest
from factored_mwem.privacy.answers import PrivateAnswers
from factored_mwem.privacy.session import Eligible, Measurement, Session
from factored_mwem.request.policy import Policy
from factored_mwem.workload.queries.cuboids import Cuboids

MAX_STEPS = 2**28
"""Cells that the sweeps after one round touch, about, at most: on a million cells fewer sweeps must do."""


def fit(session: Session, plan: Plan, report: Report) -> Fitted:
    """Fit a product model with what is left to spend, by questions of any kind or by marginals alone."""
    policy, total = plan.policy, first_total(session, plan.measured)
    course = rounds_for(plan, total)
    model = ProductModel.uniform(plan.modelled, total.records, joined=policy.components == "one")
    dense = DenseFit(model, policy, total, list(total.measured))
    if plan.measured:
        dense.measurements.clear()
    dense.start(plan.measured or measure_first(session, dense, course.first_share, plan.candidates.numbers))
    learner: MarginalLearner | QueryLearner
    if plan.queries is not None:
        private = PrivateAnswers.of(session.rows, plan.modelled, plan.queries.kinds)
        learner = QueryLearner(session, dense, plan.queries, private)
    else:
        learner = MarginalLearner(session, plan, dense)
    select_share = Fraction(policy.select_share)
    schedule = Schedule(session.accountant, course.rounds, select_share, adaptive=course.adaptive)
    return learner.fitted(rounds(session, learner, schedule, report))


@dataclass(slots=True, eq=False)
class DenseFit:
    """The product model so far and the measurements it is made from; all of it public."""

    model: ProductModel
    policy: Policy
    total: Total
    measurements: list[Measurement] = field(default_factory=list)
    _sum: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def before_round(self) -> None:
        """For an average of A_0 .. A_{T-1}, the iterates before each round: HLM12 Fig. 1."""
        if self.policy.iterate == "average":
            self._sum = self.model.components[0].weights + (self._sum if len(self._sum) else 0)

    def released(self) -> Forest:
        """The last iterate, or the average."""
        if len(self._sum):
            whole = self.model.components[0]
            self.model.replace(Factor(whole.positions, whole.shape, self._sum / self._sum.sum()))
        return Forest.of(self.model)

    def start(self, initial: Sequence[Measurement]) -> None:
        """Begin from noisy marginals of single attributes, or histograms of whole components."""
        if not initial:
            return
        self.measurements += initial
        self.refresh_total()
        for m in initial:
            factor = self.model.factor(m.positions[0])
            if factor.positions == m.positions:
                self.model.replace(from_histogram(factor, m.noisy, m.stddev))
        if self.policy.initial == "one-way" and self.policy.components == "one":
            whole = self.model.components[0]
            self.model.replace(update(whole, initial, self.model.total, sweeps=SWEEPS))

    def add(self, measured: Measurement) -> None:
        """Take a marginal in: merge what it spans, and step (or replay) the component it lies in."""
        self.measurements.append(measured)
        factor = self.model.merge(measured.positions)
        inside = set(factor.positions)
        used, sweeps = [measured], 1
        if self.policy.replay:
            used = [m for m in self.measurements if m.positions and inside.issuperset(m.positions)]
            sweeps = SWEEPS
        self.model.replace(update(factor, used, self.model.total, sweeps=sweeps))

    def refresh_total(self) -> bool:
        """Estimate the rows anew once that halves the variance; True if moved: scores are stale."""
        if self.total.known:
            return False
        again = Total.estimated(self.measurements)
        if again.stderr**2 > self.total.stderr**2 / 2:
            return False
        self.total, self.model.total = again, again.records
        return True

    def progress(self, schedule: Schedule, attributes: Sequence[int]) -> Progress:
        names, factors = self.model.domain.names, self.model.components
        tables = [len(factor.weights) for factor in factors]
        return Progress.of(schedule, [names[a] for a in attributes], len(factors), tables)


def measure_first(
    session: Session, dense: DenseFit, share: Fraction, numbers: Sequence[int]
) -> list[Measurement]:
    """Every attribute, or every cell of every component, by the policy. Cost: `share` of what is left.
    `numbers`: see `initial_shares`.
    """
    rows, budget = session.rows, session.left * share
    if dense.policy.initial == "none":
        return []
    if dense.policy.initial == "one-way":
        shares = initial_shares(dense.model.domain.shape, numbers)
        return [session.measure(rows, (a,), cost=budget * part) for a, part in enumerate(shares)]
    blocks = [factor.positions for factor in dense.model.components]
    return [session.measure(rows, block, cost=budget / len(blocks)) for block in blocks]


class MarginalLearner:
    """Learns from whole marginals: HLM12 section 3.3."""

    def __init__(self, session: Session, plan: Plan, dense: DenseFit) -> None:
        self._session, self._candidates, self._dense = session, plan.candidates, dense
        self.private = session.rows.count(plan.candidates)
        measured = {m.positions for m in dense.measurements}
        self._offer = UnmeasuredMarginals(plan.candidates, dense.policy.cells, measured)
        self._answers = ModelAnswers(plan.candidates)

    def eligible(self, step: Round) -> Eligible:
        dense, cells = self._dense, self._candidates.cells
        dense.before_round()
        which = self._offer.which(dense.model)
        if not len(which):
            return Eligible(which, np.zeros(0))
        noise = self._session.marginal_noise(step.measure).mean_abs
        which = worthwhile(which, cells[which] * noise, dense.model.total)
        return Eligible(which, cells[which] * noise)

    def answers(self, eligible: Eligible) -> Answers:
        return self._answers.answers(self._dense.model, self._offer.stale())

    def target(self, chosen: int) -> tuple[int, ...]:
        return self._candidates.positions(chosen)

    def add(self, chosen: int, measured: Measurement) -> tuple[float, float]:
        dense = self._dense
        signal = float(np.abs(measured.noisy - dense.model.marginal(measured.positions)).sum())
        dense.add(measured)
        self._offer.measured(chosen, dense.model, everything=dense.refresh_total())
        return signal, measured.scale.mean_abs * len(measured.noisy)

    def progress(self, schedule: Schedule) -> Progress:
        return self._dense.progress(schedule, self._dense.measurements[-1].positions)

    def fitted(self, completed: int) -> Fitted:
        dense = self._dense
        return Fitted(dense.released(), dense.measurements, completed, dense.total)


class QueryLearner:
    """Learns from questions of any kind; the first measurements take part in the replay, as cuboids."""

    def __init__(self, session: Session, dense: DenseFit, queries: Queries, private: PrivateAnswers) -> None:
        """`private` answers `queries`, question by question."""
        self._session, self.dense, self.queries, self.private = session, dense, queries, private
        self._unasked = np.ones(len(queries), dtype=bool)
        first = [m for m in dense.measurements if m.positions]
        cuboid = partial(Cuboids, shape=dense.model.domain.shape)
        self.measured: list[AnsweredQuestion] = [(cuboid((m.positions,)), 0, m) for m in first]
        self._answered: list[Answered] = []

    def eligible(self, step: Round) -> Eligible:
        self.dense.before_round()
        fits = self.queries.fits(self.dense.model, self.dense.policy.cells)
        which = np.flatnonzero(fits & self._unasked)
        if not len(which):
            return Eligible(which, np.zeros(0))
        return Eligible(which, self.penalty(step.measure)[which], self.queries.weights[which])

    def penalty(self, cost: Fraction) -> np.ndarray:
        """float64[question]: the noise (records) expected of measuring each at `cost`."""
        queries = self.queries
        first = np.concatenate([[0], np.cumsum([len(kind.cells) for kind in queries.kinds])[:-1]])
        noise = np.array([self._session.noise_of(self.private, int(q), cost).mean_abs for q in first])
        return noise[queries.kind_of] * queries.cells

    def answers(self, eligible: Eligible) -> np.ndarray:
        self._known = self.queries.answers(self.dense.model)
        return self._known

    def target(self, chosen: int) -> int:
        return chosen

    def add(self, chosen: int, measured: Measurement) -> tuple[float, float]:
        starts, noisy = self.private.starts, measured.noisy
        signal = float(np.abs(noisy - self._known[starts[chosen] : starts[chosen + 1]]).sum())
        self._unasked[chosen] = False
        kind, number = self.private.kind_of(chosen)
        self.measured.append((kind, number, measured))
        self.update()
        words = kind.label(number, self.dense.model.domain.names)
        self._answered.append(Answered(words, len(noisy), measured.scale.value))
        return signal, measured.scale.mean_abs * len(noisy)

    def update(self) -> None:
        """Merge what the newest spans, step towards it, replay its component until all fits its noise."""
        model, replay = self.dense.model, self.dense.policy.replay
        part = model.merge(self.measured[-1][2].positions)
        used, sweeps = self.measured[-1:], 1
        if replay:
            used = inside(part, self.measured)
            sweeps = min(SWEEPS, max(5, MAX_STEPS // (len(part.weights) * len(used))))
        model.replace(sweep(part, used, model.total, sweeps=sweeps, guard=1.0 if replay else 0.0))

    def progress(self, schedule: Schedule) -> Progress:
        kind, number, _ = self.measured[-1]
        return self.dense.progress(schedule, kind.positions(number))

    def fitted(self, completed: int) -> Fitted:
        made, dense = self.dense.released(), self.dense
        return Fitted(made, dense.measurements, completed, dense.total, questions=tuple(self._answered))
