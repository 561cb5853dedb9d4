"""The engine: select the marginal that the model answers worst, measure it, fit the clique trees to all that
was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from factored_mwem.domain.levels import Levels, coarsen
from factored_mwem.mechanisms.eligible import Offer, worthwhile
from factored_mwem.mechanisms.hierarchy import Hierarchy, hierarchy
from factored_mwem.mechanisms.limits import Limits
from factored_mwem.mechanisms.residuals import one_shot, plan, worth_one_shot
from factored_mwem.mechanisms.result import Fitted, Progress, Report
from factored_mwem.mechanisms.schedule import Schedule
from factored_mwem.mechanisms.shares import TOTAL_SHARE, first_share, level_shares, signal, single_shares
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.estimation import Estimate, estimate_total
from factored_mwem.model.forest import Component, Forest
from factored_mwem.policy import TUNED, Policy
from factored_mwem.privacy.counts import PrivateCounts, PrivateRows, bytes_of
from factored_mwem.privacy.session import (
    Access,
    Measurement,
    expected_noise,
    measure,
    measurement_scale,
    select,
)
from factored_mwem.workload.candidates import Candidates

MOST_VIEWS = 400_000
"""Most combinations of marginals and levels: beyond, attributes keep fewer levels."""


def fit_forest(
    rows: PrivateRows,
    candidates: Candidates,
    policy: Policy,
    *,
    access: Access,
    known_total: int | None,
    limits: Limits,
    report: Report = lambda _: None,
) -> Fitted:
    """Fit a forest to the private rows with what is left in the ledger, for the marginals in `candidates`.

    `known_total` is the number of rows where all neighbouring tables share it, else None and it is estimated.
    """
    total, error, found = first_total(rows, access, known_total)
    if one_shot_suits(candidates, policy, access, total, limits):
        return at_once(rows, candidates, access, total, error, found)
    groups = hierarchies(candidates, access)
    amount = access.ledger.left * first_share(candidates, policy, access, total)
    singles, total, error = measure_singles(rows, candidates, amount, access, total, found, groups)
    levels = find_levels(candidates, singles, groups)
    above = measure_groups(levels, rows, candidates, amount, access, groups)
    if found and above:  # few groups add up to the number of rows with less noise than many values
        total, error = estimate_total([*found, *singles, *above])
    estimate = Estimate(levels, total)
    estimate.start(singles)
    for m in above:
        estimate.add(m)
    cells = most_cells(
        policy, limits, domain_codes=sum(levels.shape), scale=signal(access.ledger.budget, total)
    )
    rounds = limits.rounds if (candidates.orders > 1).any() else 0
    schedule = Schedule(
        access.ledger, rounds, Fraction(policy.select_share), adaptive=limits.adaptive, quiet=1.0
    )
    if rounds:
        first = expected_noise(
            measurement_scale(schedule.price * (1 - schedule.select_share), access),
            access.ledger.budget.composition,
        )
        views = find_views(candidates, levels, min(TUNED.finest * 2 * total / first, cells), limits.memory)
        if len(views):
            _rounds(estimate, rows.count(views), views, schedule, cells, access, report)
        _top_up(estimate, rows, candidates, access)
    estimate.finish()
    return Fitted(
        estimate.forest, estimate.measurements, schedule.done, error, notes=told(candidates, groups)
    )


def first_total(
    rows: PrivateRows, access: Access, known_total: int | None
) -> tuple[float, float, list[Measurement]]:
    """(number of rows, its standard error, the measurement it comes from). Cost: TOTAL_SHARE of what is left,
    where the number is private.
    """
    if known_total is not None:
        return max(1.0, float(known_total)), 0.0, []
    found = [measure(rows, (), cost=access.ledger.left * TOTAL_SHARE, access=access)]
    return *estimate_total(found), found


def one_shot_suits(
    candidates: Candidates, policy: Policy, access: Access, total: float, limits: Limits
) -> bool:
    """Whether all marginals up to an order are asked for, over a domain that is better measured at once;
    public facts only.
    """
    shape, order = candidates.domain.shape, candidates.members.shape[1]
    everything = len(candidates) == sum(math.comb(len(shape), k) for k in range(1, order + 1))
    if (
        not everything
        or candidates.ranged
        or candidates.weights is not None
        or policy.rounds is not None
        or policy.initial_share is not None
    ):
        return False
    return worth_one_shot(shape, order, access.ledger.budget, access.unit, total, limits.cells)


def predicted_error(candidates: Candidates, access: Access, total: float) -> float:
    """The L1 error (0 to 2) of a largest marginal that one shot would make, before the fit, from public
    facts.
    """
    budget, unit = access.ledger.budget, access.unit
    shape, order = candidates.domain.shape, candidates.members.shape[1]
    return plan(
        shape, order, float(budget.amount), total, unit, budget.composition, known=unit.total_is_public
    ).error


def at_once(
    rows: PrivateRows,
    candidates: Candidates,
    access: Access,
    total: float,
    error: float,
    found: list[Measurement],
) -> Fitted:
    """One dense table from residuals, see residual.py, for all that is left in the ledger."""
    shape = candidates.domain.shape
    weights, measured, total = one_shot(
        rows, shape, candidates.members.shape[1], total=total, total_error=error, access=access
    )
    levels = Levels.fine(shape)
    tree = CliqueTree(levels, (tuple(range(len(shape))),), ())
    return Fitted(Forest(levels, [Component.of(tree, weights)], total), found, 0, error, measured)


def hierarchies(candidates: Candidates, access: Access) -> dict[int, Hierarchy]:
    """By attribute over which ranges are asked: the groups that are worth measuring beside the single values,
    where any are. Public.
    """
    composition = access.ledger.budget.composition
    found = {a: hierarchy(candidates.domain.attributes[a], composition) for a in candidates.ranged}
    return {a: h for a, h in found.items() if h.groups}


def measure_singles(
    rows: PrivateRows,
    candidates: Candidates,
    amount: Fraction,
    access: Access,
    total: float,
    found: Sequence[Measurement],
    groups: dict[int, Hierarchy],
) -> tuple[list[Measurement], float, float]:
    """(noisy one-way marginals in the order of the domain, number of rows, its standard error).

    Cost: `amount`, less what is kept for the levels above an attribute that has a hierarchy.
    """
    shares = level_shares(candidates, groups)
    singles = [measure(rows, (a,), cost=amount * share, access=access) for a, share in enumerate(shares)]
    return (singles, *estimate_total([*found, *singles])) if found else (singles, total, 0.0)


def measure_groups(
    levels: Levels,
    rows: PrivateRows,
    candidates: Candidates,
    amount: Fraction,
    access: Access,
    groups: dict[int, Hierarchy],
) -> list[Measurement]:
    """Noisy counts of every level above the single values of the attributes that have a hierarchy. Cost: the
    rest of `amount`.
    """
    above = [v for a in groups for v in levels.chains[a][1:]]
    if not above:
        return []
    counts = rows.count(Candidates(candidates.domain, np.array(above, dtype=np.int32)[:, None], levels))
    shares = level_shares(candidates, groups)
    return [
        measure(counts, (v,), cost=amount * shares[int(levels.attribute[v])], access=access) for v in above
    ]


def told(candidates: Candidates, groups: dict[int, Hierarchy]) -> tuple[str, ...]:
    """A line for each hierarchy: what is measured and how much better than single values it is predicted to
    be.
    """
    return tuple(
        f"ranges over {candidates.domain.names[a]!r}: measured as single values and in "
        f"{', '.join(str(int(g.max()) + 1) for g in h.groups)} groups, "
        f"predicted squared error {h.gain:.1f} times less than of single values alone"
        for a, h in groups.items()
    )


def most_cells(policy: Policy, limits: Limits, *, domain_codes: int, scale: float) -> int:
    """Cells of all trees: what a user says, else no more than the problem's scale can fill with more than
    noise.
    """
    return (
        limits.cells
        if policy.max_cells
        else min(limits.cells, max(domain_codes, round(TUNED.cells_a_signal * scale)))
    )


def find_levels(
    candidates: Candidates, singles: Sequence[Measurement], groups: dict[int, Hierarchy]
) -> Levels:
    """Coarser levels: the hierarchy where ranges are asked, else found in the noisy one-way marginals;
    free.
    """
    domain = candidates.domain
    found = [
        list(groups[i].groups)
        if i in groups
        else coarsen(m.noisy, m.stddev, ordered=a.ordered, groups=TUNED.groups, rare=TUNED.rare)
        for i, (a, m) in enumerate(zip(domain, singles, strict=True))
    ]
    return Levels.of(domain.shape, found)


def find_views(candidates: Candidates, levels: Levels, most_cells: float, memory: float) -> Candidates:
    """The views to choose from: all combinations of levels, of fewer levels where those are too many, of
    fewer cells where counts take too much.
    """
    ends = [chain if len(chain) < 3 else (chain[0], chain[-1]) for chain in levels.chains]
    coarsest = [chain[-1:] for chain in levels.chains]
    chains = next((c for c in (levels.chains, ends) if candidates.combinations(c) <= MOST_VIEWS), coarsest)
    views = candidates.at(levels, most_cells, chains)  # those of one cell are left out: they say nothing
    while bytes_of(views) > memory and most_cells > 1:
        most_cells /= 2
        views = candidates.at(levels, most_cells, chains)
    return views


def _rounds(
    estimate: Estimate,
    counts: PrivateCounts,
    views: Candidates,
    schedule: Schedule,
    max_cells: int,
    access: Access,
    report: Report,
) -> None:
    offer, answerer = Offer(views, max_cells), ModelAnswers(views)
    for step in schedule:
        offered = offer.open(estimate)
        if not len(offered):
            break
        noise = expected_noise(measurement_scale(step.measure, access), access.ledger.budget.composition)
        offered = worthwhile(offered, views.cells[offered] * noise, estimate.forest.total)
        answers = answerer.answers(estimate.forest, offer.stale(offered))
        weights = None if views.weights is None else views.weights[offered]
        chosen = select(
            counts,
            answers,
            offered,
            penalty=views.cells[offered] * noise,
            cost=step.select,
            access=access,
            weights=weights,
        )
        view = views.positions(chosen)
        before = estimate.forest.marginal(view)
        estimate.add(measure(counts, view, cost=step.measure, access=access))
        schedule.note(float(np.abs(estimate.forest.marginal(view) - before).sum()), noise * len(before))
        offer.measured(view, estimate.forest)
        report(progress(estimate.forest, schedule, [views.names[v] for v in view]))


def _top_up(estimate: Estimate, rows: PrivateRows, candidates: Candidates, access: Access) -> None:
    """Where noise drowned all there was to choose, or nothing fitted: what is left makes the single
    attributes better.
    """
    amount = access.ledger.left
    if amount * 100 > access.ledger.budget.amount:
        for a, part in enumerate(single_shares(candidates)):
            estimate.add(measure(rows, (a,), cost=amount * part, access=access))


def progress(forest: Forest, schedule: Schedule, names: Sequence[str]) -> Progress:
    cliques = [cells for part in forest.components for cells in part.tree.cells]
    parts, done = len(forest.components), schedule.done
    return Progress(
        done,
        schedule.rounds,
        tuple(names),
        parts,
        max(cliques),
        cliques=len(cliques),
        cells=sum(cliques),
        spent=schedule.spent,
    )
