"""How a mechanism splits what is left after the domain, by public facts and noisy counts; then rounds.py."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from fractions import Fraction

import numpy as np

from factored_mwem.accounting.accountant import Budget
from factored_mwem.domain.domain import Domain
from factored_mwem.mechanisms.hierarchy import Hierarchy
from factored_mwem.request.policy import TUNED, Policy
from factored_mwem.workload.candidates import Candidates

TOTAL_SHARE = Fraction(1, 100)
"""Share of the budget for a noisy count of rows, which the plan needs where the number of rows is private."""
UNASKED = Fraction(1, 10)
"""The share of what it would get, for an attribute that no marginal asked for holds."""

TOLD_TIMES = 1.4
"""How much more learning a domain gets of the budget of a table that hangs on others. At epsilon 3 errors of
single columns were 10 % less with it on payslips (12 runs, 2 without), 5 % on web sessions (6, 4 without).
"""
LEAST = 1e-200
"""Less than any budget that buys something: the rho of epsilon 1e-12 at delta 1e-200 is rounded down to 0."""
NUMBERS_TIMES = 4
"""How much more of what single attributes get is for how many rows a person has, or hang on a row: every
count of rows follows from that.
"""


def tree_rounds(policy: Policy, columns: int) -> int:
    """Rounds of the tree mechanism where no time is set: the first division of what is left after the single
    attributes, which rounds that show only noise make coarser.
    """
    if isinstance(policy.rounds, int):
        return policy.rounds
    return min(max(4, round(TUNED.rounds_each * columns)), TUNED.most_rounds)


def one_way_share(
    domain: Domain, policy: Policy, budget: Budget, rows: float, *, counted: bool = False
) -> Fraction:
    """The share of the budget that the first measurements get, where rounds come after them: it follows d,
    the sizes of the attributes and the problem's scale, and was tuned on Adult. Public facts only.
    `counted`: what lies inside the groups that rounds look at has noisy counts already, of discovery; so the
    mean attribute counts as no larger than those.
    """
    if policy.initial_share is not None:
        return Fraction(policy.initial_share)
    size = sum(s ** (2 / 3) for s in domain.shape) / len(domain)
    size = min(size, TUNED.groups[0] ** (2 / 3)) if counted else size
    share = 0.18 * size**1.4 * (len(domain) / signal(budget, rows / policy.unit.weight) ** 2) ** 0.2
    return Fraction(round(min(max(share, 0.03), 0.5), 3))


def discovery_share(
    policy: Policy, budget: Budget, rows: float, columns: int, *, told: bool = False
) -> Fraction:
    """The share of the budget that learning a domain may cost: `policy.domain_budget` at most, less where the
    problem's scale is large for its columns, for thresholds then are low anyway.

    Tuned on Adult, where .5, .25 and .12 were best at epsilon 0.1, 1 and 10. Where other columns are `told`,
    TOLD_TIMES as much: of the table's own hardly anything else is left to pay for but their ties.
    """
    scale = signal(budget, rows / policy.unit.weight) / math.sqrt(columns)
    share = min(max(0.25 * (2200.0 / scale) ** 0.38, 0.05), 1.0) * (TOLD_TIMES if told else 1.0)
    return min(Fraction(round(share, 3)), Fraction(policy.domain_budget))


def signal(budget: Budget, rows: float) -> float:
    """The scale of a problem, rows * sqrt(2 rho): rows over the noise of one measurement of all budget.
    Where a person weighs more than one, `rows` is what was counted over that weight: see `Unit.weight`.
    """
    double = 2 * float(budget.amount) if budget.unit == "rho" else float(budget.amount) ** 2
    return max(rows, 1.0) * math.sqrt(max(double, LEAST))


def initial_shares(shape: Sequence[int], numbers: Collection[int] = ()) -> list[Fraction]:
    """How one-way marginals share their budget: by size^(2/3), which evens out their relative errors; those
    at the positions `numbers`, which say how many rows there are, get NUMBERS_TIMES as much.
    """
    weights = [Fraction(round(size ** (2 / 3) * 1024), 1024) for size in shape]
    for at in numbers:
        weights[at] *= NUMBERS_TIMES
    total = sum(weights)
    return [weight / total for weight in weights]


def single_shares(candidates: Candidates) -> list[Fraction]:
    """How the single attributes share their budget, by weight; UNASKED for one that no marginal holds,
    and 0 for those that are public.
    """
    domain = candidates.domain
    weight = np.full(len(domain), float(UNASKED))
    weight[list(candidates.public)] = 0.0
    alone = np.flatnonzero(candidates.orders == 1)
    weight[candidates.members[alone, 0]] = (
        1.0 if candidates.weights is None else candidates.weights[alone] ** (2 / 3)
    )  # least weighted error
    parts = [
        part * Fraction(round(w * 2**20), 2**20)
        for part, w in zip(initial_shares(domain.shape, candidates.numbers), weight.tolist(), strict=True)
    ]
    whole = sum(parts)
    return [part / whole for part in parts]


def level_shares(candidates: Candidates, groups: dict[int, Hierarchy]) -> list[Fraction]:
    """Each attribute's share for its single values, and for each level above them in a hierarchy."""
    return [
        part / (groups[a].depth if a in groups else 1) for a, part in enumerate(single_shares(candidates))
    ]
