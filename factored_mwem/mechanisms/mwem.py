"""The loop: select the marginal that the model answers worst, measure it, update the model (HLM12 Fig. 1) on
growing components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from factored_mwem.kernels.dense import PAPER, SCALED
from factored_mwem.mechanisms.eligible import worthwhile
from factored_mwem.mechanisms.result import Progress, Report
from factored_mwem.mechanisms.schedule import Schedule
from factored_mwem.mechanisms.shares import TOTAL_SHARE, Plan, initial_shares, plan
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import SWEEPS, Factor, ProductModel, update
from factored_mwem.model.estimation import estimate_total, from_histogram
from factored_mwem.policy import Policy
from factored_mwem.privacy.counts import PrivateCounts, PrivateRows
from factored_mwem.privacy.session import (
    Access,
    Measurement,
    expected_noise,
    measure,
    measurement_scale,
    select,
)
from factored_mwem.workload.candidates import Candidates, over_components


@dataclass(slots=True, eq=False)
class Fit:
    """The model so far and the measurements it is made from; all of it public."""

    model: ProductModel
    policy: Policy
    known_total: int | None
    measurements: list[Measurement] = field(default_factory=list)
    rounds: int = 0
    total_error: float = np.inf

    @property
    def rule(self) -> int:
        return PAPER if self.policy.step == "paper" else SCALED

    def add(self, measurement: Measurement) -> None:
        """Take a measurement in: merge what it spans, and step (or replay) the component it lies in."""
        self.measurements.append(measurement)
        factor = self.model.merge(measurement.positions)
        inside = set(factor.positions)
        used = (
            [m for m in self.measurements if m.positions and inside.issuperset(m.positions)]
            if self.policy.replay
            else [measurement]
        )
        self.model.replace(
            update(
                factor,
                used,
                self.model.total,
                sweeps=SWEEPS[self.rule] if self.policy.replay else 1,
                rule=self.rule,
            )
        )

    def refresh_total(self) -> bool:
        """Estimate the number of rows again once that halves its variance; True where it moved (every cached
        score is stale then).
        """
        if self.known_total is not None:
            known = max(1.0, float(self.known_total))  # steps divide by it
            moved, self.model.total, self.total_error = self.model.total != known, known, 0.0
            return moved
        total, error = estimate_total(self.measurements)
        if error**2 > self.total_error**2 / 2:
            return False
        self.model.total, self.total_error = total, error
        return True


def mwem(
    counts: PrivateCounts,
    candidates: Candidates,
    policy: Policy,
    *,
    access: Access,
    known_total: int | None,
    report: Report = lambda _: None,
) -> Fit:
    """Fit a product model to the private counts of `candidates` with what is left in the ledger.

    `known_total` is the number of rows where all neighbouring tables share it, else None and it is estimated.
    """
    fit = Fit(
        ProductModel.uniform(candidates.domain, 1.0, joined=policy.components == "one"), policy, known_total
    )
    if known_total is None:
        fit.measurements.append(measure(counts, (), cost=access.ledger.left * TOTAL_SHARE, access=access))
    fit.refresh_total()
    chosen = plan(candidates.domain, candidates, policy, access.ledger.budget, fit.model.total)
    initialise(fit, counts, chosen, access)
    schedule = Schedule(
        access.ledger, chosen.rounds, Fraction(policy.select_share), adaptive=policy.rounds == "adaptive"
    )
    offer, answerer = Offer(candidates, policy.cells, fit), ModelAnswers(candidates)
    average = np.zeros(0)
    for step in schedule if chosen.rounds else ():
        if policy.iterate == "average":  # A_0 .. A_{T-1}: the iterates before each round, HLM12 Fig. 1
            average = fit.model.components[0].weights + (average if len(average) else 0)
        offered = offer.open(fit.model)
        if not len(offered):
            break
        noise = expected_noise(measurement_scale(step.measure, access), access.ledger.budget.composition)
        offered = worthwhile(offered, candidates.cells[offered] * noise, fit.model.total)
        answers = answerer.answers(fit.model, offer.stale())
        worst = select(
            counts,
            answers,
            offered,
            penalty=candidates.cells[offered] * noise,
            cost=step.select,
            access=access,
        )
        measured = measure(counts, candidates.positions(worst), cost=step.measure, access=access)
        schedule.note(
            float(np.abs(measured.noisy - fit.model.marginal(measured.positions)).sum()),
            noise * len(measured.noisy),
        )
        fit.add(measured)
        fit.rounds += 1
        offer.measured(worst, fit.model, everything=fit.refresh_total())
        report(_progress(fit, schedule, candidates.clique(worst)))
    if len(average):
        whole = fit.model.components[0]
        fit.model.replace(Factor(whole.positions, whole.shape, average / average.sum()))
    return fit


def initialise(fit: Fit, counts: PrivateCounts | PrivateRows, chosen: Plan, access: Access) -> None:
    """Measure every attribute, or every cell of every component, and start the model from that."""
    domain, policy = fit.model.domain, fit.policy
    budget = access.ledger.left * chosen.initial_share
    if policy.initial == "none":
        return
    if policy.initial == "one-way":
        initial = [
            measure(counts, (p,), cost=budget * share, access=access)
            for p, share in enumerate(initial_shares(domain.shape))
        ]
    else:
        blocks = [factor.positions for factor in fit.model.components]
        initial = [measure(counts, block, cost=budget / len(blocks), access=access) for block in blocks]
    fit.measurements += initial
    fit.refresh_total()
    for m in initial:
        factor = fit.model.factor(m.positions[0])
        if factor.positions == m.positions:
            fit.model.replace(from_histogram(factor, m.noisy, m.stddev))
    if policy.initial == "one-way" and policy.components == "one":
        fit.model.replace(
            update(fit.model.components[0], initial, fit.model.total, sweeps=SWEEPS[fit.rule], rule=fit.rule)
        )


class Offer:
    """Which candidates a round may choose, and whose scores are stale: public facts about the model's
    components and past measurements.
    """

    def __init__(self, candidates: Candidates, max_cells: int, fit: Fit) -> None:
        self._candidates, self._limit = candidates, np.log2(max_cells) + 1e-9
        done = {m.positions for m in fit.measurements}
        self._measured = np.zeros(len(candidates), dtype=bool)
        orders = np.array(sorted({len(positions) for positions in done}))
        for c in np.flatnonzero(np.isin(candidates.orders, orders)):
            self._measured[c] = candidates.positions(int(c)) in done
        self._stale = np.ones(len(candidates), dtype=bool)
        self._fits = np.ones(len(candidates), dtype=bool)

    def open(self, model: ProductModel) -> np.ndarray:
        """int64[k]: candidates whose merged component fits the cap and that were not measured (all that fit,
        once all were).
        """
        touched = np.flatnonzero(self._stale)  # no other's components have changed
        self._fits[touched] = _merged_size(self._candidates.members[touched], model) <= self._limit
        left = np.flatnonzero(self._fits & ~self._measured)
        if not len(left):
            self._measured[:] = False
            left = np.flatnonzero(self._fits)
        return left

    def stale(self) -> np.ndarray:
        """int64[k]: candidates to score again now; calling this marks them fresh. What no longer fits never
        needs a score again.
        """
        which = np.flatnonzero(self._stale & self._fits)
        self._stale[which] = False
        return which

    def measured(self, candidate: int, model: ProductModel, *, everything: bool) -> None:
        """Note a measurement: it is not offered again, and what touches its component is stale (or
        `everything` is).
        """
        self._measured[candidate] = True
        changed = np.zeros(len(model.domain) + 1, dtype=bool)
        changed[list(model.factor(self._candidates.positions(candidate)[0]).positions)] = True
        self._stale |= True if everything else changed[self._candidates.members].any(axis=1)


def _merged_size(members: np.ndarray, model: ProductModel) -> np.ndarray:
    """float64[candidate]: log2 of the cells of the component that measuring each of `members` would make."""
    size_of = np.zeros(max(model.factors) + 2)  # a last entry stands for padding, -1
    for id_, factor in model.factors.items():
        size_of[id_] = np.log2(np.array(factor.shape, dtype=np.float64)).sum()
    return over_components(np.append(model.factor_of, -1)[members], size_of)


def _progress(fit: Fit, schedule: Schedule, attributes: Sequence[str]) -> Progress:
    largest = max(len(factor.weights) for factor in fit.model.components)
    cells, parts = sum(len(factor.weights) for factor in fit.model.components), len(fit.model.factors)
    return Progress(
        schedule.done,
        schedule.rounds,
        tuple(attributes),
        parts,
        largest,
        cliques=parts,
        cells=cells,
        spent=schedule.spent,
    )
