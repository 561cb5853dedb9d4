"""Check: what a release would do, from public facts only: names, types, the domain, the workload and the policy. No row is read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from factored_mwem.candidates import Candidates
from factored_mwem.counts import bytes_of
from factored_mwem.domain import Domain
from factored_mwem.mwem import TOTAL_SHARE
from factored_mwem.plan import Policy, Round, initial_shares, plan
from factored_mwem.privacy.access import Access, expected_noise, measurement_scale
from factored_mwem.privacy.ledger import Ledger
from factored_mwem.privacy.noise import OpenDPNoise


@dataclass(frozen=True, slots=True)
class Forecast:
    """Public facts about a release to come; noise is the mean absolute error of a cell, in records."""

    attributes: dict[str, int]
    cells: int
    candidates: int
    left_out: int
    largest_marginal: int
    memory_megabytes: float
    rounds: int
    initial_share: float
    initial_noise: float
    round_noise: float


def forecast(domain: Domain, fitting: Candidates, left_out: int, policy: Policy, *, rows: int) -> Forecast:
    """The forecast for a table of about `rows` rows (a guess: a real run plans with a noisy count); `left_out` candidates exceed the cell cap."""
    budget = policy.budget(learn_domain=False)
    access = Access(Ledger(budget), policy.unit, OpenDPNoise(budget.composition))
    chosen = plan(domain, fitting, policy, budget, rows)
    left = budget.amount * (1 if policy.unit.total_is_public else 1 - TOTAL_SHARE)
    price = left * (1 - chosen.initial_share) / max(chosen.rounds, 1)
    step = Round(select=price * Fraction(policy.select_share), measure=price * (1 - Fraction(policy.select_share)))
    blocks = 1 if policy.components == "one" else len(domain)
    shares = initial_shares(domain.shape) if policy.initial == "one-way" else [Fraction(1, blocks)] * blocks
    costs = [left * chosen.initial_share * share for share in shares if chosen.initial_share]
    initial = [expected_noise(measurement_scale(cost, access), budget.composition) for cost in costs] or [0.0]
    return Forecast(
        attributes={a.name: a.size for a in domain},
        cells=domain.cells,
        candidates=len(fitting) + left_out,
        left_out=left_out,
        largest_marginal=int(fitting.cells.max()),
        # Counts, two copies of the largest component, and the rows as codes of one to four bytes.
        memory_megabytes=(bytes_of(fitting) + 16.0 * min(policy.cells, domain.cells) + 2.0 * rows * len(domain)) / 1e6,
        rounds=chosen.rounds,
        initial_share=float(chosen.initial_share),
        initial_noise=float(np.mean(initial)),
        round_noise=expected_noise(measurement_scale(step.measure, access), budget.composition) if chosen.rounds else 0.0,
    )
