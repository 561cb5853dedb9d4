"""Course: how many rounds a release has, and what goes before, by public facts and a number of rows.

Of trees the number is the first division of the budget: `tree_rounds` of shares.py, or fewer where a time is
set (limits.py). Of the dense mechanism `choose_rounds`. Where `one_shot_suits`, there are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from factored_mwem.accounting.accountant import Budget
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.residuals import one_shot_suits
from factored_mwem.mechanisms.result import Total
from factored_mwem.mechanisms.shares import one_way_share, signal
from factored_mwem.request.policy import Policy
from factored_mwem.workload.candidates import Candidates

MAX_ROUNDS = 128
"""Most rounds of the dense mechanism chosen by default; a user may ask for more."""

HISTOGRAM_SHARE = Fraction(1, 2)
"""Of the budget, for a histogram of all cells: of .15 to .85, at epsilon .3, 1 and 3 on three contingency
tables (mildew, czech, rochdale), half or .7 was best, half where cells are sparse. On mildew, where a cell
has one row, only epsilon 3 beats no data.
"""


@dataclass(frozen=True, slots=True)
class Course:
    """Decided once the number of rows is known: `rounds` (`adaptive`: a first division of the budget), the
    `first_share` of the budget for the measurements before them, or everything `at_once`.
    """

    rounds: int
    first_share: Fraction
    at_once: bool = False
    adaptive: bool = False


def rounds_for(plan: Plan, total: Total) -> Course:
    """The course of a plan, once the number of rows is known."""
    policy, budget, candidates, limits = plan.policy, plan.request.fitting, plan.candidates, plan.limits
    if limits is None:
        questions = len(plan.queries) if plan.queries is not None else None
        return choose_rounds(candidates, policy, budget, total.records, questions=questions)
    # residuals at once take no counts from before
    at_once = not plan.request.counted and one_shot_suits(
        candidates, policy, budget, total.records, limits.cells
    )
    if not at_once and candidates.orders.max() <= 1:
        return Course(0, Fraction(1))
    unpaid = [
        name
        for a, name in enumerate(candidates.domain.names)
        if a not in plan.told and a not in candidates.public
    ]
    share = one_way_share(candidates.domain.project(unpaid), policy, budget, total.records)
    return Course(0 if at_once else limits.rounds, share, at_once, adaptive=policy.rounds is None)


def choose_rounds(
    candidates: Candidates, policy: Policy, budget: Budget, rows: float, *, questions: int | None = None
) -> Course:
    """The course of the dense mechanism, from public facts; `rows` is a public or noisy count, `questions`
    how many there are where single questions are asked.

    Rounds grow with the cube root of the problem's scale from d at 10^3. On seven columns of 9,000 rows, all
    3-way marginals, that is 4, 6, 8 and 13 rounds at epsilon 0.1, 0.3, 1 and 5. Errors there, in that order:
    with 4 rounds .40, .25, .20, .17; with 8 .42, .24, .16, .11; with 12 .46, .26 and (at 5) .08.
    """
    domain = candidates.domain
    choices = int((candidates.cells <= policy.cells).sum())
    if policy.initial == "one-way":
        choices -= int((candidates.orders == 1).sum())
    choices = choices if questions is None else questions
    if isinstance(policy.rounds, int):
        rounds = min(policy.rounds, choices)
    elif policy.rounds == "adaptive":
        rounds = min(MAX_ROUNDS, max(16, 4 * len(domain))) if choices else 0
    else:
        most = max(4, round(len(domain) * (signal(budget, rows / policy.unit.weight) / 1e3) ** (1 / 3)))
        rounds = min(choices, MAX_ROUNDS, most)
    adaptive = policy.rounds == "adaptive"
    if policy.initial == "none":
        return Course(rounds, Fraction(0), adaptive=adaptive)
    share = one_way_share(domain, policy, budget, rows) if rounds else Fraction(1)
    if rounds and policy.initial == "histogram" and policy.components == "one":
        share = Fraction(policy.initial_share or HISTOGRAM_SHARE)
    return Course(rounds, share, adaptive=adaptive)
