"""Check: what a release would do, from public facts only: names, types, the domain, the workload and the
policy. No row is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.domain.domain import Domain
from factored_mwem.mechanisms.limits import Limits, Machine, limits_of
from factored_mwem.mechanisms.schedule import Round
from factored_mwem.mechanisms.shares import TOTAL_SHARE, initial_shares, level_shares, one_way_share, plan
from factored_mwem.mechanisms.tree import hierarchies, one_shot_suits, predicted_error
from factored_mwem.policy import Policy
from factored_mwem.privacy.counts import bytes_of
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.privacy.session import Access, expected_noise, measurement_scale
from factored_mwem.workload.candidates import Candidates


@dataclass(frozen=True, slots=True)
class Forecast:
    """Public facts about a release to come; noise is the mean absolute error of a cell, in records."""

    attributes: dict[str, int]
    cells: int
    candidates: int
    left_out: int
    largest_marginal: int
    memory_megabytes: float
    engine: str
    at_once: bool
    rounds: int
    initial_share: float
    initial_noise: float
    round_noise: float
    predicted_error: float | None
    warning: str | None


def forecast(
    domain: Domain,
    fitting: Candidates,
    left_out: int,
    policy: Policy,
    *,
    rows: int,
    questions: int | None = None,
) -> Forecast:
    """The forecast for a table of about `rows` rows (a guess: a real run plans with a noisy count);
    `left_out` candidates exceed the cell cap.

    `questions`: how many there are where single questions are asked.
    """
    budget = policy.budget(learn_domain=False)
    access = Access(Accountant(budget), policy.unit, OpenDPNoise(budget.composition))
    limits = limits_of(fitting, policy, Machine.of(policy)) if policy.engine == "tree" else None
    at_once = limits is not None and one_shot_suits(fitting, policy, access, float(rows), limits)
    rounds, share = _planned(domain, fitting, policy, access, rows, limits, questions)
    left = budget.amount * (1 if policy.unit.total_is_public else 1 - TOTAL_SHARE)
    price = left * (1 - share) / max(rounds, 1)
    step = Round(
        select=price * Fraction(policy.select_share), measure=price * (1 - Fraction(policy.select_share))
    )
    blocks = 1 if policy.components == "one" else len(domain)
    singles = (
        initial_shares(domain.shape)
        if limits is None
        else level_shares(fitting, hierarchies(fitting, access))
    )
    shares = singles if policy.initial == "one-way" else [Fraction(1, blocks)] * blocks
    initial = [
        expected_noise(measurement_scale(left * share * part, access), budget.composition)
        for part in shares
        if share
    ] or [0.0]
    # Counts, two copies of the largest component, and the rows as codes of one to four bytes.
    tables = (
        bytes_of(fitting) + 16.0 * min(policy.cells, domain.cells)
        if limits is None
        else limits.memory_needed(fitting)
    )
    return Forecast(
        attributes={a.name: a.size for a in domain},
        cells=domain.cells,
        candidates=len(fitting) + left_out,
        left_out=left_out,
        largest_marginal=int(fitting.cells.max()),
        memory_megabytes=(tables + 2.0 * rows * len(domain)) / 1e6,
        engine=policy.engine,
        at_once=at_once,
        rounds=0 if at_once else rounds,
        initial_share=1.0 if at_once else float(share),
        initial_noise=0.0 if at_once else float(np.mean(initial)),
        round_noise=expected_noise(measurement_scale(step.measure, access), budget.composition)
        if rounds and not at_once
        else 0.0,
        predicted_error=predicted_error(fitting, access, float(rows)) if at_once else None,
        warning=limits.late(policy) if limits else None,
    )


def _planned(
    domain: Domain,
    fitting: Candidates,
    policy: Policy,
    access: Access,
    rows: int,
    limits: Limits | None,
    questions: int | None,
) -> tuple[int, Fraction]:
    """(rounds, the share of the budget before them) of either engine."""
    budget = access.ledger.budget
    if limits is None:
        chosen = plan(domain, fitting, policy, budget, rows, questions=questions)
        return chosen.rounds, chosen.initial_share
    rounds = limits.rounds if (fitting.orders > 1).any() else 0
    return rounds, one_way_share(domain, policy, budget, rows) if rounds else Fraction(1)
