"""`fmwem check` and `fmwem plan`: what a release would be like, before anything is spent."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import RELEASE, Json, Tables, option, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError, shown

Epsilons = Annotated[
    str | None,
    option(
        "Epsilons to compare, separated by commas.  [default: 0.1,0.5,1,2; with --error none]",
        "--epsilon",
        metavar="E,E,...",
        envvar="FMWEM_EPSILON",
    ),
]
Target = Annotated[
    str | None,
    option(
        "Look for the epsilon of this mean error (0 to 2) of the sets of columns, such as 0.1; or of sets of "
        'fewer columns: "mean2 <= 0.1".',
        "--error",
        metavar="ERROR",
    ),
]
AssumeRows = Annotated[
    int | None, option("Your guess of the table's rows.  [default: 10000]", panel=Group.EFFORT, min=1)
]
AssumePeople = Annotated[
    int | None,
    option("With --people: your guess of the people.  [default: 10000]", panel=Group.EFFORT, min=1),
]


@takes(*RELEASE, Group.CONFIG)
def check(
    table: Tables,
    settings: ReleaseSettings,
    assume_rows: AssumeRows = None,
    assume_people: AssumePeople = None,
    json_only: Json = False,
) -> None:
    """Dry run on public facts only: what a release would do and how noisy it would be. Reads no row, spends
    nothing. `fmwem plan` compares epsilons.
    """
    from factored_mwem.cli import jobs as job
    from factored_mwem.cli.console import lined
    from factored_mwem.cli.forecast_text import UNREAD, forecast_text, learning_text
    from factored_mwem.cli.packaging import package_request
    from factored_mwem.pipeline.forecasts.forecast import LearningForecast, forecast_of
    from factored_mwem.pipeline.forecasts.people import assumed

    number = assumed(settings.policy, assume_rows, assume_people)
    if (package := package_request(source_of(table), settings)) is not None:
        from factored_mwem.cli.package_text import prospect_text
        from factored_mwem.pipeline.forecasts.packages import forecast_package

        prospect = forecast_package(package, number)
        print(json.dumps(prospect.facts) if json_only else prospect_text(prospect, number))
        return
    request = job.request_of(source_of(table), settings)
    forecast = forecast_of(request, number)
    if json_only:
        print(json.dumps(asdict(forecast)))
        return
    if isinstance(forecast, LearningForecast):
        facts = learning_text(forecast, number)
    else:
        facts = forecast_text(forecast, number)
    if left_out := request.policy.left_out:
        facts = {"rows used": left_out} | facts
    facts["note"] = settings.keeps(max(request.workload.orders, default=0))
    lines = [line for word, text in facts.items() if text for line in lined(word, [text])]
    print("\n".join([*lines, UNREAD]))


@takes(*(group for group in RELEASE if group is not Group.CERTIFICATE), Group.CONFIG)
def plan(
    table: Tables,
    settings: ReleaseSettings,
    epsilon: Epsilons = None,
    error: Target = None,
    assume_rows: AssumeRows = None,
    assume_people: AssumePeople = None,
    json_only: Json = False,
) -> None:
    """Compare epsilons before anything is spent: how large errors are expected to be, and what a guess of
    membership can gain; or look for the epsilon of an error. From public facts only: reads no row. `fmwem
    check` says what a release at one epsilon would do.
    """
    from factored_mwem.cli import jobs as job
    from factored_mwem.cli.forecast_text import planned_text
    from factored_mwem.cli.packaging import package_request
    from factored_mwem.pipeline.forecasts.people import assumed
    from factored_mwem.pipeline.forecasts.planning import EPSILONS, planned

    number = assumed(settings.policy, assume_rows, assume_people)
    if (package := package_request(source_of(table), settings)) is not None:
        from factored_mwem.cli.package_text import plan_text
        from factored_mwem.pipeline.forecasts.packages import plan_package

        if error is not None:
            raise InputError("--error is for a single table; a package is compared by --epsilon")
        prospects = plan_package(package, _numbers(epsilon) or EPSILONS, number)
        facts = [each.facts for each in prospects]
        print(json.dumps({"prospects": facts}) if json_only else plan_text(prospects, number))
        return
    plans = planned(job.request_of(source_of(table), settings), _numbers(epsilon), error, number)
    print(json.dumps(plans.facts) if json_only else planned_text(plans))


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        raise InputError(f"--epsilon {shown(text)}: must be numbers, such as 0.1,0.5,1") from None
