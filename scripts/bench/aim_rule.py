"""AIM's rules on this package's engine. NOT PRIVATE: noise is drawn as for a release, but no books are kept.

What fmwem decides otherwise is AIM's here (McKenna, Mullins, Sheldon, Miklau 2022, arXiv 2201.12677): which
marginals may be chosen, what a score is, when noise is lowered, and how large the model may become. All else
is what a release is made with: session, accountant, noise, clique trees, their fit, and how rows are drawn.
There are no coarser levels and no refinement of rows. `peers.py` runs it, by the name of aim-rule; the file
is not called aim.py, because that is what private-pgm calls its own.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from factored_mwem import Domain
from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.backends.source import open_source
from factored_mwem.domain.levels import Levels
from factored_mwem.kernels.scoring import Answers
from factored_mwem.mechanisms.eligible import FittingViews
from factored_mwem.mechanisms.limits import memory_limit
from factored_mwem.mechanisms.result import Progress
from factored_mwem.mechanisms.rounds import rounds
from factored_mwem.mechanisms.schedule import Round, Schedule
from factored_mwem.mechanisms.total import Total
from factored_mwem.mechanisms.tree import find_views
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.drawing import draw
from factored_mwem.model.estimation import MAX_FINAL_STEPS, MIN_GAIN, Estimate
from factored_mwem.model.forest import Forest
from factored_mwem.policy import TUNED
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.privacy.session import Eligible, Measurement, Session
from factored_mwem.workload.candidates import Candidates

ROUNDS_EACH, SELECT_SHARE = 16, Fraction(1, 10)
"""T = 16 d rounds divide the budget at first, and a tenth of a round's selects: AIM's defaults."""


def aim_rows(
    table: str | Path, sizes_file: str | Path, epsilon: float, delta: float, rows: int, *, order: int
) -> dict[str, np.ndarray]:
    """int64[row] by column: `rows` rows, for the workload of all marginals of `order` attributes."""
    budget, domain = Budget.of(epsilon, delta), Domain.load(sizes_file)
    if budget.composition is not Composition.ZCDP:
        raise ValueError("AIM is stated under zCDP: delta must be above 0")
    session = Session(Accountant(budget), Unit(), OpenDPNoise(budget.composition))
    model = fit(session.encode(domain, open_source(table)), domain, min(order, len(domain)))
    return dict(zip(domain.names, draw(model, rows, np.random.default_rng()), strict=True))


def fit(session: Session, domain: Domain, order: int) -> Forest:
    """All one-way marginals at a round's price, then rounds until nothing is left to spend."""
    levels = Levels.fine(domain.shape)
    schedule = Annealing(session.accountant, ROUNDS_EACH * len(domain), SELECT_SHARE, adaptive=True)
    price = schedule.price * (1 - SELECT_SHARE)
    singles = [session.measure(session.rows, (a,), cost=price) for a in range(len(domain))]
    estimate = Estimate(levels, Total.estimated(singles).records)
    estimate.start(singles)
    views = find_views(Candidates.of(domain, order, ()), levels, TUNED.cells, memory_limit())
    rounds(session, AimLearner(session, estimate, views), schedule, lambda _: None)
    estimate.finish()
    return estimate.forest


class Annealing(Schedule):
    """AIM's annealing: where a measurement changed the model by no more than its noise, half the noise from
    now on and twice the epsilon of a selection, each at four times the rho.
    """

    def note(self, signal: float, noise: float) -> None:
        """`signal`: L1 distance between the model's marginals after and before; `noise`: of noise alone."""
        if signal <= noise:
            self._price = min(4 * self._price, max(self.accountant.left, self._least))


class AllFitting(FittingViews):
    """All views that fit, where the product's rounds take turns over many."""

    def which(self, estimate: Estimate) -> np.ndarray:
        return self._fitting(estimate, np.arange(len(self.views)))


class AimLearner:
    """The forest so far, and every marginal inside the workload's."""

    def __init__(self, session: Session, estimate: Estimate, views: Candidates) -> None:
        self.private = session.rows.count(views)
        self._session, self._estimate, self._views = session, estimate, views
        self._offer, self._answers = AllFitting(views, TUNED.cells), ModelAnswers(views)

    def eligible(self, step: Round) -> Eligible:
        """Those whose trees stay within as large a share of the cells as is spent of the budget, this round
        included. A marginal's weight, the sum over the workload of how many attributes they share, goes as
        its order where the workload is all marginals of one order; the largest that is offered sets the
        sensitivity.
        """
        accountant = self._session.accountant
        spent = (accountant.spent + step.select + step.measure) / accountant.budget.amount
        self._offer.max_cells = int(TUNED.cells * spent)
        which = self._offer.which(self._estimate)
        noise, orders = self._session.marginal_noise(step.measure).mean_abs, self._views.orders[which]
        return Eligible(which, self._views.cells[which] * noise, orders / orders.max(initial=1))

    def answers(self, eligible: Eligible) -> Answers:
        return self._answers.answers(self._estimate.forest, self._offer.stale(eligible.which))

    def target(self, chosen: int) -> tuple[int, ...]:
        return self._views.positions(chosen)

    def add(self, chosen: int, measured: Measurement) -> tuple[float, float]:
        """As of every learner. Every round is fitted as closely as the product fits the last: after the few
        steps of its rounds the change looks too small, noise is lowered too early, and the mean 3-way error
        of discretised Adult at epsilon 1 was .194 instead of .184.
        """
        estimate, view = self._estimate, measured.positions
        before = estimate.forest.marginal(view)
        estimate.add(measured)
        estimate.fit(view[:1], iterations=MAX_FINAL_STEPS, enough=MIN_GAIN / 10)
        gap = float(np.abs(estimate.forest.marginal(view) - before).sum())
        self._offer.measured(view, estimate.forest)
        return gap, measured.scale.mean_abs * len(before)

    def progress(self, schedule: Schedule) -> Progress:
        return Progress.of(schedule, [], len(self._estimate.forest.components), [0])
