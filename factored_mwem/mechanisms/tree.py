"""The product's mechanism: noisy single attributes, coarser levels found in them, then rounds on clique
trees; where the whole domain is small, residuals at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.levels import Levels, View, coarsen
from factored_mwem.domain.zeros import refined, tables_at
from factored_mwem.kernels.scoring import CAP, Answers
from factored_mwem.mechanisms.course import Course, rounds_for
from factored_mwem.mechanisms.eligible import FittingViews
from factored_mwem.mechanisms.hierarchy import Hierarchy, hierarchy
from factored_mwem.mechanisms.isolated_columns import IsolatedColumns, isolated
from factored_mwem.mechanisms.limits import RunLimits
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.residuals import fit_at_once
from factored_mwem.mechanisms.result import Fitted, Total, first_total, told_marginal
from factored_mwem.mechanisms.rounds import Progress, Report, Round, Schedule, rounds
from factored_mwem.mechanisms.rules import offered, rule_classes
from factored_mwem.mechanisms.shares import initial_shares, level_shares, signal, single_shares
from factored_mwem.mechanisms.sweep import choose_sweep, measure_sweep
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.estimation import Estimate
from factored_mwem.model.forest import Forest
from factored_mwem.privacy.counts import PrivateCounts, bytes_of
from factored_mwem.privacy.session import Eligible, Measurement, Session
from factored_mwem.request.policy import TUNED, Policy
from factored_mwem.workload.candidates import Candidates

COMPANION_SHARE = Fraction(1, 8)
"""Of what one-way marginals get, for those of companions beside it."""
SAME_NOISE = 0.01
"""Scores are kept while the noise of a round differs by less from what they were made with."""
MAX_VIEWS = 400_000
"""Most combinations of marginals and levels: beyond, attributes keep fewer levels."""


def fit(session: Session, plan: Plan, report: Report) -> Fitted:
    """Fit a forest of clique trees with what is left to spend."""
    candidates, told = plan.candidates, plan.told
    own = _unpaid(plan)
    total = first_total(session, [m for m in plan.measured if m.positions[0] not in told])
    course = rounds_for(plan, total)
    if course.at_once:
        return fit_at_once(session, candidates, total, plan.domain.zeros, plan.public)
    groups = hierarchies(candidates, session.composition)
    amount = session.left * course.first_share
    singles: Sequence[Measurement] = plan.measured
    if not singles:
        singles = measure_singles(session, candidates, amount, groups, own[: len(own) - len(plan.companions)])
        if not total.known:
            total = Total.estimated([*total.measured, *singles])
        paid = [
            told_marginal(each, plan.modelled.attributes[a], a, total.records) for a, each in told.items()
        ]
        singles = sorted([*singles, *paid], key=lambda m: m.positions)
    public = plan.public
    singles, measured = public.beside(singles, total.records), singles
    if plan.companions:
        singles = [*singles, *measure_companions(session, plan, amount)]
    classes = rule_classes(candidates, plan.domain.zeros)
    levels = find_levels(candidates, singles, groups, classes, plan.follows)
    above = measure_groups(session, candidates, levels, amount, groups)
    if not total.known and above:  # few groups add up to the number of rows with less noise than many values
        total = Total.estimated([*total.measured, *above])
    estimate = Estimate(levels, total.records, tables_at(plan.domain.zeros, levels))
    estimate.start(singles)
    if public.positions:
        estimate.hold(public.counts(measured, total.records))
    for m in (*above, *plan.counted):
        estimate.add(m)
    completed = _in_rounds(session, plan, estimate, course, classes, report) if course.rounds else 0
    estimate.finish()
    measured = [*estimate.measured(public.positions), *estimate.beyond]
    notes = (*hierarchy_notes(candidates, groups), *isolated_notes(plan, estimate.forest))
    return Fitted(estimate.forest, measured, completed, total, notes=notes)


def _unpaid(plan: Plan) -> list[int]:
    """The attributes whose single values have to be measured, companions last."""
    attributes = range(len(plan.modelled))
    return [a for a in attributes if a not in plan.told and a not in plan.candidates.public]


def _in_rounds(
    session: Session,
    plan: Plan,
    estimate: Estimate,
    course: Course,
    classes: Sequence[np.ndarray | None],
    report: Report,
) -> int:
    """Select and measure round by round, then the sweep; returns how many rounds there were. Cost: what is
    left.
    """
    candidates, limits, public = plan.candidates, plan.limits, plan.public
    assert limits is not None  # as of every plan for trees
    levels, records = estimate.forest.levels, estimate.forest.total
    sweep = choose_sweep(plan, levels, records, session.left)
    schedule = Schedule(
        session.accountant,
        course.rounds,
        Fraction(plan.policy.select_share),
        adaptive=course.adaptive,
        quiet=1.0,
        reserve=sweep.cost,
    )
    known = public.shares.size if public.positions else 0
    first = session.marginal_noise(schedule.price * (1 - schedule.select_share)).mean_abs
    scale = signal(session.accountant.budget, records / session.unit.weight)
    cells = most_cells(plan.policy, limits, own=estimate.forest.cells - known, scale=scale)
    cells = min(limits.cells, cells + known)  # noise fills none of those that are known
    most = min(TUNED.finest * 2 * records / first, cells)
    memory = limits.memory - sweep.bytes
    of_pairs = min(TUNED.finer * most, max(records, most), cells)
    views = find_views(candidates, levels, most, memory, offered(levels, classes), of_pairs)
    counts = session.rows.count(views, sweep.views)  # all that is looked at from here on, in one pass
    completed = 0
    if len(views):
        learner = TreeLearner(session, estimate, counts, views, (cells, most))
        completed = rounds(session, learner, schedule, report)
    if sweep:
        measure_sweep(session, estimate, sweep, counts)
    else:
        _top_up(session, estimate, candidates, _unpaid(plan))
    return completed


class TreeLearner:
    """The forest so far, and the views it may still learn from."""

    def __init__(
        self,
        session: Session,
        estimate: Estimate,
        counts: PrivateCounts,
        views: Candidates,
        cells: tuple[int, float],
    ) -> None:
        """`counts`: the private ones of `views`; `cells`: of all trees, and of a view that is offered though
        no coarser one is measured.
        """
        self.private = counts
        self._session, self._estimate, self._views = session, estimate, views
        self._offer, self._answers, self._sparse = FittingViews(views, *cells), ModelAnswers(views), cells[1]
        self._isolated, self._price, self._noise = IsolatedColumns(views), 0.0, 0.0

    def eligible(self, step: Round) -> Eligible:
        views, which = self._views, self._offer.which(self._estimate)
        if not len(which):
            return Eligible(which, np.zeros(0))
        self._price = float((step.select + step.measure) / self._session.accountant.budget.amount)
        if self._isolated.seeking:
            pairs = self._isolated.of_pairs(which, self._estimate.forest)
            which = pairs if len(pairs) else which
        noise = self._session.marginal_noise(step.measure).mean_abs
        if not math.isclose(noise, self._noise, rel_tol=SAME_NOISE):
            self._noise = noise
            self._offer.all_stale()
        weights = None if views.weights is None else views.weights[which]
        return Eligible(which, np.zeros(len(which)), weights)  # `answers` have what noise would do

    def answers(self, eligible: Eligible) -> Answers:
        forest, stale = self._estimate.forest, self._offer.stale(eligible.which)
        due = self._offer.due(stale, self._answers.work(forest, stale))
        return self._answers.answers(forest, due, self._noise, self._sparse)

    def target(self, chosen: int) -> tuple[int, ...]:
        return self._views.positions(chosen)

    def add(self, chosen: int, measured: Measurement) -> tuple[float, float] | None:
        estimate, view = self._estimate, measured.positions
        before = estimate.forest.marginal(view)
        estimate.add(measured)
        gap = float(np.abs(estimate.forest.marginal(view) - before).sum())
        self._offer.measured(view, estimate.forest)
        noise = float(np.minimum(measured.scale.mean_abs, int(CAP) * before).sum())  # bounded as in scores
        follow = self._isolated.observe(estimate.forest, quiet=gap <= noise, price=self._price)
        return (gap, noise) if follow else None

    def progress(self, schedule: Schedule) -> Progress:
        parts = self._estimate.forest.components
        names = [self._views.names[v] for v in self._estimate.measurements[-1].positions]
        return Progress.of(
            schedule, names, len(parts), [cells for part in parts for cells in part.tree.cells]
        )


def hierarchies(candidates: Candidates, composition: Composition) -> dict[int, Hierarchy]:
    """By attribute over which ranges are asked: groups worth measuring beside the single values. Public."""
    attributes = candidates.domain.attributes
    worth = {a: hierarchy(attributes[a], composition) for a in candidates.ranged}
    return {a: h for a, h in worth.items() if h.groups and a not in candidates.public}


def measure_singles(
    session: Session,
    candidates: Candidates,
    amount: Fraction,
    groups: dict[int, Hierarchy],
    own: Sequence[int],
) -> list[Measurement]:
    """Noisy marginals of the attributes `own`, in order. Cost: `amount`, less what levels above them in
    hierarchies get.
    """
    shares, singles = level_shares(candidates, groups), single_shares(candidates)
    whole = sum(singles[a] for a in own)
    return [session.measure(session.rows, (a,), cost=amount * shares[a] / whole) for a in own]


def measure_companions(session: Session, plan: Plan, amount: Fraction) -> list[Measurement]:
    """Noisy one-way marginals of the companions: little tells them, for each is nearly that of its column.
    Cost: COMPANION_SHARE of `amount`.
    """
    shares = initial_shares([each.attribute.size for each in plan.companions])
    begin, cost = len(plan.modelled) - len(shares), amount * COMPANION_SHARE
    return [session.measure(session.rows, (begin + i,), cost=cost * share) for i, share in enumerate(shares)]


def measure_groups(
    session: Session, candidates: Candidates, levels: Levels, amount: Fraction, groups: dict[int, Hierarchy]
) -> list[Measurement]:
    """Noisy counts of every level above the single values, where hierarchies are. Cost: rest of `amount`."""
    above = [v for a in groups for v in levels.chains[a][1:]]
    if not above:
        return []
    counts = session.rows.count(
        Candidates(candidates.domain, np.array(above, dtype=np.int32)[:, None], levels)
    )
    shares = level_shares(candidates, groups)
    return [session.measure(counts, (v,), cost=amount * shares[int(levels.attribute[v])]) for v in above]


def hierarchy_notes(candidates: Candidates, groups: dict[int, Hierarchy]) -> tuple[str, ...]:
    """A line for each hierarchy: what is measured, and how much better it is predicted to be."""
    return tuple(
        f"ranges over {candidates.domain.names[a]!r}: measured as single values and in "
        f"{', '.join(str(int(g.max()) + 1) for g in h.groups)} groups, "
        f"predicted squared error {h.gain:.1f} times less than of single values alone"
        for a, h in groups.items()
    )


def isolated_notes(plan: Plan, forest: Forest) -> tuple[str, ...]:
    """A line that names the columns that no other was found to go with, where pairs were asked for."""
    own = len(plan.modelled) - len(plan.companions)
    names = [repr(plan.modelled.names[a]) for a in isolated(forest) if a < own]
    if not names or plan.candidates.orders.max() < 2:
        return ()
    return (f"no dependence on other columns was found for {', '.join(names)}: drawn independently",)


def most_cells(policy: Policy, limits: RunLimits, *, own: int, scale: float) -> int:
    """Cells of all trees: what a user says, else no more than the problem's scale can fill with more than
    noise, and at least the `own` ones that single attributes and rules need.
    """
    return (
        limits.cells if policy.max_cells else min(limits.cells, max(own, round(TUNED.cells_a_signal * scale)))
    )


def find_levels(
    candidates: Candidates,
    singles: Sequence[Measurement],
    groups: dict[int, Hierarchy],
    classes: Sequence[np.ndarray | None],
    follows: Mapping[int, int] = MappingProxyType({}),
) -> Levels:
    """Coarser levels, free: a hierarchy, else found in noisy one-way marginals within rules' `classes`; of a
    companion those of the column that it `follows`, with a group for what has none before it.
    """
    domain = candidates.domain
    found = [
        list(groups[i].groups)
        if i in groups
        else coarsen(m.noisy, m.stddev, ordered=a.ordered, groups=TUNED.groups, rare=TUNED.rare)
        for i, (a, m) in enumerate(zip(domain, singles, strict=True))
    ]
    for companion, a in follows.items():
        more = domain.shape[companion] - domain.shape[a]
        found[companion] = [np.append(group, [group.max() + 1] * more) for group in found[a]]
    return Levels.of(domain.shape, refined(found, classes))


def find_views(
    candidates: Candidates,
    levels: Levels,
    most_cells: float,
    memory: float,
    chains: Sequence[View] | None = None,
    of_pairs: float = 0.0,
) -> Candidates:
    """The views to choose from: all combinations of levels (of those in `chains`, where given), of fewer
    levels where those are too many, of fewer cells where counts take too much. `of_pairs`: the most cells of
    a view of two attributes, where that is more than `most_cells` and counts do not take too much.
    """
    offered = chains or levels.chains
    ends = [chain if len(chain) < 3 else (chain[0], chain[-1]) for chain in offered]
    coarsest = [chain[-1:] for chain in offered]
    chains = next((c for c in (offered, ends) if candidates.combinations(c) <= MAX_VIEWS), coarsest)
    views = candidates.at(levels, most_cells, chains)  # those of one cell are left out: they say nothing
    while bytes_of(views) > memory and most_cells > 1:
        most_cells /= 2
        views = candidates.at(levels, most_cells, chains)
    pairs = candidates.keep(candidates.orders == 2)
    while of_pairs > most_cells:
        finer = pairs.at(levels, of_pairs, chains, above=most_cells)
        both = views.beside(finer) if len(finer) else views
        if bytes_of(both) <= memory:
            return both
        of_pairs /= 2
    return views


def _top_up(session: Session, estimate: Estimate, candidates: Candidates, own: Sequence[int]) -> None:
    """Where noise drowned all there was to choose, or nothing fitted: the rest betters single attributes."""
    amount = session.left
    if amount * 100 > session.accountant.budget.amount:
        shares = single_shares(candidates)
        whole = sum(shares[a] for a in own)
        for a in own:
            estimate.add(session.measure(session.rows, (a,), cost=amount * shares[a] / whole))
