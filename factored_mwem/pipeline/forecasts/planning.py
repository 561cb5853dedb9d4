"""Planning: several epsilons side by side before anything is spent, from public facts only: names, types, the
declared domain, the workload, the policy and a guess of the number of rows. No row is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, Unpack

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition, epsilon_of
from factored_mwem.accounting.membership import QUESTIONS, advantage_of_budget, guess_of
from factored_mwem.errors import InputError, shown
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Plan, Scope
from factored_mwem.mechanisms.residuals import one_shot_suits, predicted_errors
from factored_mwem.pipeline.forecasts.error_law import LAWS, ExpectedError, Problem, expected_error
from factored_mwem.pipeline.forecasts.forecast import forecast, forecast_learning
from factored_mwem.pipeline.forecasts.noise_alone import NoiseAlone, scale_of
from factored_mwem.pipeline.forecasts.people import PeopleForecast, assumed, left_after
from factored_mwem.request.policy import Policy
from factored_mwem.request.request import Options, Request
from factored_mwem.workload.workload import Workload

EPSILONS = (0.1, 0.5, 1.0, 2.0)
MOST = 20
"""Epsilons that are compared at a time."""
RANGE = (1e-3, 100.0)
"""The range of epsilons that is searched."""
TARGET = re.compile(r"\s*(?:mean\s*([1-9])\s*<=?\s*)?([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*")
LIMITING = ("rounds", "initial_share", "max_cells", "max_memory", "time_budget")
"""Fields of a policy that make a release do less than it would."""
ORDERS = 3
"""Most columns of the marginals whose errors the law predicts."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """The forecast of a release at one epsilon; noise is the mean absolute error of a cell, in what is
    counted: rows, or people.
    """

    epsilon: float
    guess: float
    """How often a membership guess from a fair coin is right, at most."""
    errors: tuple[ExpectedError, ...] = ()
    """The errors of the requested marginals by order; none if no law applies."""
    column_noise: float | None = None
    """The noise of the first measurements, of single columns."""
    round_noise: float | None = None
    """The noise of the marginals that the first rounds choose."""
    noise_errors: tuple[float, ...] = ()
    """If everything is measured at once: the L1 errors that its noise makes by order, before the fit."""
    kept_from: tuple[float, float] | None = None
    """If the domain is learnt: about how many rows a value needs to be kept, if these rows hold no other rare
    value, and in any case.
    """
    fewest_rows: tuple[float, float] | None = None
    """If the domain is learnt: with about fewer rows the release stops; if all columns are text, and if none
    is.
    """


@dataclass(frozen=True, slots=True)
class Planned:
    """Several epsilons side by side.

    >>> from factored_mwem import plan
    >>> domain = {"fields": [{"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
    ...     {"name": "member", "type": "boolean"}]}
    >>> import pyarrow as pa
    >>> people = pa.table({"age": [31, 45], "member": [True, False]})
    >>> planned = plan(people, 2, epsilons=[1.0, 2.0], domain=domain, assume_rows=20_000)
    >>> [round(p.guess, 3) for p in planned.prospects]
    [0.543, 0.584]
    """

    delta: float
    assume_rows: int | None
    """None where people are counted."""
    question: str
    """What the attacker guesses."""
    prospects: tuple[Prospect, ...]
    target: tuple[int, float] | None = None
    """The order of marginals, and their mean error that was asked for."""
    likely: Prospect | None = None
    """At the least epsilon at which that error is expected."""
    safe: Prospect | None = None
    """The prospect at the least epsilon at which that error is the upper end of the range: 19 of 20 tables
    like those of the law were better.
    """
    notes: tuple[str, ...] = ()
    assume_people: int | None = None
    people: PeopleForecast | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Plain values for scripts, ready for JSON."""
        return asdict(self)


def plan(
    table: Any,
    workload: Workload | int,
    policy: Policy | None = None,
    *,
    epsilons: Sequence[float] | None = None,
    error: float | str | None = None,
    assume_rows: int | None = None,
    assume_people: int | None = None,
    **options: Unpack[Options],
) -> Planned:
    """What releases at several `epsilons` promise, and their expected errors; no row is read, nothing spent.

    `error` looks for an epsilon: the mean error (L1, 0 to 2) of all marginals that are asked for, of the most
    columns, or as "mean2 <= 0.1" of those of two. `assume_rows`: a guess of the table's rows, or with
    `people` `assume_people` of the people in it; 10,000 by default. The rest is as for `release`; without
    `epsilons` the policy's own is looked at, if it names one.

    Raises:
        InputError: a release would be refused from public facts alone.

    >>> from factored_mwem import plan
    >>> bits = {"smoker": 2, "member": 2}
    >>> import pyarrow as pa
    >>> found = plan(pa.table({"smoker": [0], "member": [1]}), 2, error=0.01, domain=bits, assume_rows=5000)
    >>> found.likely.epsilon < found.safe.epsilon
    True
    """
    request = Request.of(table, workload, policy, **options)
    return planned(request, epsilons, error, assumed(request.policy, assume_rows, assume_people))


def planned(
    request: Request, epsilons: Sequence[float] | None, error: float | str | None, number: int
) -> Planned:
    """The same for a request, and a table of about `number` rows, or people if these are counted."""
    known, policy = _Known.of(request, number), request.policy
    prospects = tuple(known.at(epsilon) for epsilon in _compared(policy, epsilons, error))
    result = Planned(
        policy.delta,
        None if policy.people else number,
        QUESTIONS[policy.unit.neighbours],
        prospects,
        notes=known.notes,
        assume_people=number if policy.people else None,
        people=PeopleForecast.of(policy),
    )
    if error is None:
        return result
    order, most = _target(error, known)
    likely, safe = (known.least(order, most, side) for side in ("error", "high"))
    return replace(result, target=(order, most), likely=likely, safe=safe)


def _compared(policy: Policy, wanted: Sequence[float] | None, error: float | str | None) -> list[float]:
    """The epsilons in order: those requested, or else the policy's, or else some common ones."""
    if wanted is None and "epsilon" in policy.model_fields_set:
        wanted = [policy.epsilon]
    if wanted is None:
        wanted = EPSILONS if error is None else ()
    try:
        epsilons = sorted({float(epsilon) for epsilon in wanted})
    except (TypeError, ValueError):
        raise InputError(f"epsilons={shown(wanted)}: must be numbers, such as [0.1, 0.5, 1.0]") from None
    if len(epsilons) > MOST or (not epsilons and error is None):
        raise InputError(f"{len(epsilons)} epsilons: from 1 to {MOST} are compared")
    return epsilons


def _target(error: float | str, known: _Known) -> tuple[int, float]:
    """(order, mean error) from the request. Raises InputError if it is not in this form, or cannot be
    predicted.
    """
    if not known.orders:
        raise InputError(f"no epsilon can be found: {known.notes[0]}")
    match = TARGET.fullmatch(str(error))
    if match is None:
        raise InputError(f'error={shown(error)}: must be a number such as 0.1, or "mean2 <= 0.1"')
    order, most = int(match[1] or known.orders), float(match[2])
    if order > known.orders or not 0 < most < 2:
        raise InputError(
            f"error={shown(error)}: must be more than 0 and less than 2, for requested marginals of "
            f"up to {known.orders} columns"
        )
    return order, most


@dataclass(frozen=True, slots=True)
class _Known:
    """A request, its plan if a domain is declared, and for how many orders of marginals errors can be
    predicted. `rows`: people, if these are counted.
    """

    scope: Scope
    plan: Plan | None
    alone: NoiseAlone | None
    rows: int
    orders: int
    notes: tuple[str, ...]

    @classmethod
    def of(cls, request: Request, rows: int) -> _Known:
        scope = Scope.of(request, Machine.of(request.policy))
        plan = Plan.of(scope, scope.domain) if scope.domain is not None else None
        silent = _silent(request)
        orders = 0 if silent else request.workload.orders[0]
        alone = NoiseAlone(plan.candidates, request.budget, request.policy.unit) if plan is not None else None
        return cls(scope, plan, alone, rows, orders, _notes(request, silent))

    @property
    def counted(self) -> int:
        """In the unit of the noise: rows, or grains of people."""
        return self.rows * (self.scope.policy.unit.grains or 1)

    def at(self, epsilon: float) -> Prospect:
        budget, request = self._budget(epsilon), self.scope.asked
        request = replace(request, promise=request.policy.model_copy(update={"epsilon": epsilon}))
        guess, errors = guess_of(advantage_of_budget(budget)), self.errors(budget)
        if self.plan is None:
            learning = forecast_learning(replace(self.scope, request=request), self.rows)
            kept, fewest = learning.thresholds, learning.fewest_rows
            return Prospect(epsilon, guess, errors, kept_from=kept, fewest_rows=fewest)
        there = replace(self.plan, request=request)
        noise = forecast(there, self.rows)
        if noise.at_once:
            budget = budget.part(budget.amount * left_after(request.policy))
            alone = predicted_errors(there.candidates, budget, request.policy.unit, self.counted)
            return Prospect(epsilon, guess, errors, noise_errors=alone)
        return Prospect(epsilon, guess, errors, noise.initial_noise, noise.round_noise or None)

    def errors(self, budget: Budget) -> tuple[ExpectedError, ...]:
        """The expected errors, which never grow with the budget: a release measures everything at once if
        that is expected to be better than rounds, so the expectation for rounds is an upper bound.
        """
        problems = self._problems(budget) if self.orders else []
        expected = []
        for order in range(1, self.orders + 1):
            of = [expected_error(problem, order) for problem in problems]
            low, error, high = (min(getattr(e, name) for e in of) for name in ("low", "error", "high"))
            expected.append(ExpectedError(order, error, low, high))
        return tuple(expected)

    def _problems(self, budget: Budget) -> list[Problem]:
        policy, pure = self.scope.asked.policy, budget.composition is Composition.PURE
        scale = scale_of(budget, policy.unit, self.counted)
        if self.plan is None:
            names = self.scope.visible.schema.names if self.scope.columns is None else self.scope.columns
            return [Problem("learnt", scale, len(names))]
        shape, candidates = self.plan.modelled.shape, self.plan.candidates
        codes = math.exp(sum(math.log(size) for size in shape) / len(shape))
        rounds = Problem("rounds" if self.orders > 1 else "columns", scale, len(shape), codes, pure)
        assert self.plan.limits is not None  # as of every plan of the tree engine
        if not one_shot_suits(candidates, policy, budget, self.counted, self.plan.limits.cells):
            return [rounds]
        assert self.alone is not None
        once = Problem("once", scale, len(shape), codes, pure, self.alone.at(scale))
        return [once] if max(shape) <= 2 else [once, rounds]

    def least(self, order: int, most: float, side: str) -> Prospect | None:
        """The prospect at the least epsilon (to three digits) whose `side` is at most `most`; None if there
        is none in RANGE.
        """
        budget = self.scope.asked.budget

        def fits(amount: Fraction) -> bool:
            return bool(getattr(self.errors(replace(budget, amount=amount))[order - 1], side) <= most)

        low, high = (self._budget(epsilon).amount for epsilon in RANGE)
        if not fits(high):
            return None
        while high > low * (1 + Fraction(1, 2000)):
            middle = Fraction(math.sqrt(low * high))
            low, high = (low, middle) if fits(middle) else (middle, high)
        if budget.composition is Composition.PURE:
            return self.at(_up(float(high)))
        return self.at(_up(epsilon_of(high, Fraction(budget.delta) - budget.discovery_delta)))

    def _budget(self, epsilon: float) -> Budget:
        request = self.scope.asked
        policy = request.policy.model_copy(update={"epsilon": epsilon})
        return policy.budget(learn_domain=request.declared is None)


def _silent(request: Request) -> str | None:
    """Why errors cannot be predicted; None if they can."""
    workload, policy = request.workload, request.policy
    if policy.engine != "tree":
        return f"errors cannot be predicted for engine {policy.engine}"
    if policy.people:
        return "errors cannot be predicted where people are counted, not rows"
    plain = len(workload.orders) == 1 and not workload.named and not workload.asked
    if not plain or workload.orders[0] > ORDERS:
        return f"errors can be predicted only for all marginals of up to {ORDERS} columns"
    return None


def _notes(request: Request, silent: str | None) -> tuple[str, ...]:
    policy, learnt = request.policy, request.declared is None
    if silent:
        return (silent,)
    of = max(law.tables for (course, _), law in LAWS.items() if (course == "learnt") == learnt)
    notes = [
        f"expected errors are experience with up to {of} public tables, no promise: half of their releases "
        "were better, and nine in ten lay within the range",
        "errors also depend on how the columns depend on each other, which no one knows before a release",
    ]
    if learnt:
        notes.append(
            "no domain is declared: errors are over the neutral bins of `fmwem evaluate`; with a domain "
            "the ranges are narrower"
        )
    if request.public is not None:
        notes.append(
            "the forecast is of a release that measures the public columns, too: with them known, errors are "
            "smaller where the private table is as the public one"
        )
    limits = [name for name in LIMITING if getattr(policy, name) is not None]
    if limits:
        notes.append(
            f"with {', '.join(limits)} set, errors may be larger: the forecast assumes that they are not set"
        )
    return tuple(notes)


def _up(epsilon: float) -> float:
    """Three digits, rounded up."""
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.ceil(epsilon / step) * step:.3g}")
