"""The engine: select the marginal that the model answers worst, measure it, fit the clique trees to all that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from factored_mwem.answers import Answerer
from factored_mwem.candidates import Candidates
from factored_mwem.counts import PrivateCounts, PrivateRows, check_memory
from factored_mwem.estimate import Estimate
from factored_mwem.fit import estimate_total
from factored_mwem.forest import Forest
from factored_mwem.levels import Levels, coarsen
from factored_mwem.mwem import TOTAL_SHARE, worthwhile
from factored_mwem.offer import Offer
from factored_mwem.outcome import Outcome, Progress, Report
from factored_mwem.plan import TUNED, Policy, Schedule, initial_shares, one_way_share
from factored_mwem.privacy.access import Access, Measurement, expected_noise, measure, measurement_scale, select


def fit_forest(
    rows: PrivateRows,
    candidates: Candidates,
    policy: Policy,
    *,
    access: Access,
    known_total: int | None,
    memory: float,
    report: Report = lambda _: None,
) -> Outcome:
    """Fit a forest to the private rows with what is left in the ledger, for the marginals in `candidates`.

    `known_total` is the number of rows where all neighbouring tables share it, else None and it is estimated. ResourceError, before the first
    chosen marginal, where the counts of all levels would take more than `memory` bytes.
    """
    singles, total, error = measure_singles(rows, candidates, policy, access, known_total)
    levels = find_levels(candidates, singles)
    estimate = Estimate(levels, total)
    estimate.start(singles)
    schedule = Schedule(access.ledger, rounds_to_plan(policy, candidates), Fraction(policy.select_share), adaptive=policy.rounds is None, quiet=1.0)
    first = expected_noise(measurement_scale(schedule.price * (1 - schedule.select_share), access), access.ledger.budget.composition)
    views = candidates.at(levels, min(TUNED.finest * 2 * total / first, policy.cells))
    check_memory(views, memory)
    if schedule.rounds:
        _rounds(estimate, rows.count(views), views, schedule, policy.cells, access, report)
    estimate.finish()
    return Outcome(estimate.forest, estimate.measurements, schedule.done, error)


def measure_singles(
    rows: PrivateRows, candidates: Candidates, policy: Policy, access: Access, known_total: int | None
) -> tuple[list[Measurement], float, float]:
    """(noisy one-way marginals in the order of the domain, number of rows, its standard error). Cost: the share that `one_way_share` says."""
    domain, ledger = candidates.domain, access.ledger
    found = []
    if known_total is None:
        found.append(measure(rows, (), cost=ledger.left * TOTAL_SHARE, access=access))
    total = float(known_total) if known_total is not None else estimate_total(found)[0]
    wanted = candidates.orders.max() > 1 and policy.rounds != 0
    share = one_way_share(domain, policy, ledger.budget, total) if wanted else Fraction(1)
    amount = ledger.left * share
    singles = [measure(rows, (a,), cost=amount * part, access=access) for a, part in enumerate(initial_shares(domain))]
    if known_total is not None:
        return singles, max(1.0, float(known_total)), 0.0
    return singles, *estimate_total([*found, *singles])


def find_levels(candidates: Candidates, singles: Sequence[Measurement]) -> Levels:
    """Coarser levels from the noisy one-way marginals: free."""
    domain = candidates.domain
    return Levels.of(
        domain.shape,
        [coarsen(m.noisy, m.stddev, ordered=a.ordered, groups=TUNED.groups, rare=TUNED.rare) for a, m in zip(domain, singles, strict=True)],
    )


def rounds_to_plan(policy: Policy, candidates: Candidates) -> int:
    """Rounds that the budget is first divided into; annealing runs fewer. None where there is nothing to choose from."""
    if not (candidates.orders > 1).any():
        return 0
    return policy.rounds if isinstance(policy.rounds, int) else max(4, round(TUNED.rounds_each * len(candidates.domain)))


def _rounds(estimate: Estimate, counts: PrivateCounts, views: Candidates, schedule: Schedule, max_cells: int, access: Access, report: Report) -> None:
    offer, answerer = Offer(views, max_cells), Answerer(views)
    for step in schedule:
        offered = offer.open(estimate)
        noise = expected_noise(measurement_scale(step.measure, access), access.ledger.budget.composition)
        offered = offer.slice(worthwhile(offered, views.cells[offered] * noise, estimate.forest.total), schedule.done)
        answers = answerer.answers(estimate.forest, offer.stale(offered))
        chosen = select(counts, answers, offered, penalty=views.cells[offered] * noise, cost=step.select, access=access)
        view = views.positions(chosen)
        before = estimate.forest.marginal(view)
        estimate.add(measure(counts, view, cost=step.measure, access=access))
        schedule.note(float(np.abs(estimate.forest.marginal(view) - before).sum()), noise * len(before))
        offer.measured(view, estimate.forest)
        report(progress(estimate.forest, schedule, [views.names[v] for v in view]))


def progress(forest: Forest, schedule: Schedule, names: Sequence[str]) -> Progress:
    cliques = [cells for part in forest.components for cells in part.tree.cells]
    parts, done = len(forest.components), schedule.done
    return Progress(done, schedule.rounds, tuple(names), parts, max(cliques), cliques=len(cliques), cells=sum(cliques), spent=schedule.spent)
