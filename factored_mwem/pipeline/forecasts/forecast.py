"""Check: a plan in numbers, from names, types, domain, workload and policy alone. No row is read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.domain.levels import Levels, coarsen
from factored_mwem.mechanisms.course import rounds_for
from factored_mwem.mechanisms.limits import CODES_SHARE, Machine, memory_limit, slow, slowly
from factored_mwem.mechanisms.plan import Plan, Scope
from factored_mwem.mechanisms.residuals import predicted_errors
from factored_mwem.mechanisms.result import Total
from factored_mwem.mechanisms.shares import TOTAL_SHARE, discovery_share, initial_shares, level_shares
from factored_mwem.mechanisms.sweep import NO_SWEEP, choose_sweep
from factored_mwem.mechanisms.tree import hierarchies
from factored_mwem.pipeline.attempts import CertificateForecast, forecast_certificate
from factored_mwem.pipeline.forecasts.people import PeopleForecast, left_after
from factored_mwem.privacy.counts import bytes_of
from factored_mwem.privacy.session import marginal_noise
from factored_mwem.request.policy import TUNED
from factored_mwem.request.request import Request
from factored_mwem.tables.codes.codec import code_dtype
from factored_mwem.tables.codes.kinds import kind_of
from factored_mwem.tables.codes.parsing import is_text, value_type


@dataclass(frozen=True, slots=True)
class Forecast:
    """Public facts about a release to come; noise is the mean absolute error of a cell, in what is counted:
    rows, or people.
    """

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
    swept: int
    predicted_error: float | None
    warning: str | None
    certificate: CertificateForecast | None = None
    people: PeopleForecast | None = None
    public: dict[str, Any] | None = None
    """The facts about public columns (`PublicColumns.facts`)."""


@dataclass(frozen=True, slots=True)
class LearningForecast:
    """Public facts about a release that begins by learning its domain. `thresholds`: about how many rows a
    value needs to keep a code of its own: if these rows hold no other rare value, and in any case.
    `fewest_rows`: with about fewer rows the release stops after its first counts: if all columns of unknown
    type are text, and if none is. If people are counted, these are numbers of people.
    """

    columns: dict[str, str]
    discovery_share: float
    thresholds: tuple[float, float]
    fewest_rows: tuple[float, float]
    candidates: int
    warning: str | None
    people: PeopleForecast | None = None
    public: dict[str, Any] | None = None


def forecast_of(request: Request, rows: int) -> Forecast | LearningForecast:
    """What a release of about `rows` rows (or people, if these are counted) would do on this machine."""
    scope = Scope.of(request, Machine.of(request.policy))
    if scope.domain is None:
        return forecast_learning(scope, rows)
    return forecast(Plan.of(scope, scope.domain), rows)


def forecast_learning(scope: Scope, rows: int) -> LearningForecast:
    """The forecast where no domain is declared, for a table of about `rows` rows, or people."""
    from factored_mwem.mechanisms.worth import fewest_rows
    from factored_mwem.privacy.discover import value_thresholds

    policy, visible = scope.policy, scope.visible
    whole, unit = scope.asked.fitting_all, policy.unit
    budget, a_record = whole.part(whole.amount * left_after(policy)), unit.grains or 1
    fields = [visible.schema.field(name) for name in scope.own_columns]
    kinds = {f.name: "learnt" if is_text(value_type(f.type)) else kind_of(f) for f in fields}
    share = discovery_share(policy, whole, rows * a_record, len(fields))
    least, most = value_thresholds(budget, unit, share, len(fields))
    texts, numbers = (
        fewest_rows(policy, whole, [unknown if kind == "learnt" else kind for kind in kinds.values()])
        for unknown in ("string", "number")
    )
    workload = scope.workload.beside(ROWS_OF_PERSON, [*kinds]) if policy.people else scope.workload
    return LearningForecast(
        kinds,
        float(share * left_after(policy)),
        (least / a_record, most / a_record),
        (texts / a_record, numbers / a_record),
        workload.count(len(fields) + len(scope.known)),
        slowly(scope.asked),
        PeopleForecast.of(policy),
        scope.asked.public_facts,
    )


def forecast(plan: Plan, rows: int) -> Forecast:
    """The forecast for a table of about `rows` rows, or people (a guess; a release uses a noisy count)."""
    policy, domain, candidates, budget = plan.policy, plan.domain, plan.candidates, plan.request.fitting
    unit, composition = policy.unit, budget.composition
    a_record = unit.grains or 1
    counted = float(rows * a_record)
    course = rounds_for(plan, Total.assumed(counted, unit))
    after_people = budget.part(budget.amount * left_after(policy))
    left = after_people.amount * (1 if unit.total_is_public else 1 - TOTAL_SHARE)
    after_first = left * (1 - course.first_share)
    sweep = NO_SWEEP
    if course.rounds and not course.at_once:
        sweep = choose_sweep(plan, _likely_levels(plan), counted, after_first)
    price = (after_first - sweep.cost) / max(course.rounds, 1)
    measure = price * (1 - Fraction(policy.select_share))
    initial = [
        marginal_noise(left * course.first_share * part, unit, composition).mean_abs / a_record
        for part in _first_shares(plan)
        if course.first_share and part
    ]
    in_rounds = course.rounds and not course.at_once
    round_noise = marginal_noise(measure, unit, composition).mean_abs / a_record if in_rounds else 0.0
    alone = predicted_errors(candidates, after_people, unit, counted) if course.at_once else ()
    return Forecast(
        attributes={a.name: a.size for a in domain},
        cells=plan.modelled.cells,
        candidates=len(candidates) + plan.left_out,
        left_out=plan.left_out,
        largest_marginal=int(candidates.cells.max()),
        memory_megabytes=(_table_bytes(plan) + _code_bytes(plan, rows)) / 1e6,
        engine=policy.engine,
        at_once=course.at_once,
        rounds=course.rounds,
        initial_share=1.0 if course.at_once else float(course.first_share),
        initial_noise=0.0 if course.at_once else float(np.mean(initial or [0.0])),
        round_noise=round_noise,
        swept=len(sweep.views),
        predicted_error=alone[-1] if alone else None,
        warning=plan.late or slow(plan.request.workload, plan.domain, policy),
        certificate=forecast_certificate(plan, counted),
        people=PeopleForecast.of(policy),
        public=plan.request.public_facts,
    )


def _likely_levels(plan: Plan) -> Levels:
    """The levels that a release would choose if all values of a column were equally frequent."""
    groups = [
        coarsen(np.ones(a.size), 0.0, ordered=a.ordered, groups=TUNED.groups, rare=TUNED.rare)
        for a in plan.candidates.domain
    ]
    return Levels.of(plan.candidates.domain.shape, groups)


def _first_shares(plan: Plan) -> list[Fraction]:
    """How the first measurements share their part of the budget."""
    policy, candidates = plan.policy, plan.candidates
    if policy.initial != "one-way":
        blocks = 1 if policy.components == "one" else len(plan.modelled)
        return [Fraction(1, blocks)] * blocks
    if plan.limits is None:
        return initial_shares(plan.modelled.shape, candidates.numbers)
    return level_shares(candidates, hierarchies(candidates, plan.request.budget.composition))


def _code_bytes(plan: Plan, rows: int) -> float:
    """Bytes of the rows as codes, at most; with people, of the most rows that may be used. Codes beyond their
    share of the memory go to files.
    """
    rows *= plan.policy.contributions if plan.policy.people else 1
    a_row = sum(np.dtype(code_dtype(attribute)).itemsize for attribute in plan.modelled)
    return min(float(rows * a_row), CODES_SHARE * (plan.policy.max_memory or memory_limit()))


def _table_bytes(plan: Plan) -> float:
    """Memory of the counts and the model: of the dense one, two copies of the largest component."""
    if plan.limits is not None:
        return plan.limits.memory_needed(plan.candidates)
    return bytes_of(plan.candidates) + 16.0 * min(plan.policy.cells, plan.modelled.cells)
