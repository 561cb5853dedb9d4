"""Packages: what a release of tables that belong together would do, table by table, by public facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition, epsilon_of
from factored_mwem.accounting.membership import advantage_of_budget, guess_of
from factored_mwem.pipeline.forecasts.forecast import Forecast, LearningForecast, forecast_of
from factored_mwem.pipeline.linked import own_requests
from factored_mwem.pipeline.linked_request import LinkedRequest
from factored_mwem.request.policy import Policy


@dataclass(frozen=True, slots=True)
class TableForecast:
    """Of one table: its `share` of the budget, where as many roots have rows of each table, and what a
    release of its own columns would do with that. Columns of what it hangs on come on top.
    """

    share: float
    forecast: Forecast | LearningForecast


@dataclass(frozen=True, slots=True)
class PackageProspect:
    """The forecast at one epsilon. `guess`: how often a membership guess is right, at most; a coin is half
    the time.
    """

    epsilon: float
    guess: float
    tables: dict[str, TableForecast]

    @property
    def facts(self) -> dict[str, Any]:
        """Plain values for scripts, ready for JSON."""
        return asdict(self)


def forecast_package(request: LinkedRequest, roots: int) -> PackageProspect:
    """The forecast for a package of about so many `roots`."""
    budget = request.spending.budget
    shares = request.shares({each.name: float(roots) for each in request.package.private})
    tables = {}
    for table, own in own_requests(request):
        share = shares[table.name]
        part = own.policy.model_copy(update={"epsilon": _epsilon(own.policy, budget, share)})
        tables[table.name] = TableForecast(float(share), forecast_of(replace(own, promise=part), roots))
    return PackageProspect(request.policy.epsilon, guess_of(advantage_of_budget(budget)), tables)


def plan_package(request: LinkedRequest, epsilons: Sequence[float], roots: int) -> list[PackageProspect]:
    """The same at several epsilons, the least first."""
    policies = [Policy.made({**request.policy.chosen, "epsilon": each}) for each in sorted(set(epsilons))]
    return [forecast_package(replace(request, policy=policy), roots) for policy in policies]


def _epsilon(policy: Policy, budget: Budget, share: Fraction) -> float:
    """What a share of the budget amounts to by itself."""
    amount = budget.amount * share
    if budget.composition is Composition.PURE:
        return float(amount)
    return epsilon_of(amount, Fraction(policy.delta) - budget.discovery_delta)
