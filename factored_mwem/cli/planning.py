"""`fmwem check` and `fmwem plan`: what a release would be like, before anything is spent."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Optional

from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import PROMISED, Json, Tables, option, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError, shown

if TYPE_CHECKING:
    from factored_mwem.pipeline.attempts import CertificateForecast
    from factored_mwem.pipeline.forecasts.forecast import Forecast, LearningForecast
    from factored_mwem.pipeline.forecasts.planning import Planned, Prospect

Epsilons = Annotated[
    Optional[str],
    option(
        "Epsilons to compare, separated by commas.  [default: 0.1,0.5,1,2; with --error none]",
        "--epsilon",
        metavar="E,E,...",
        envvar="FMWEM_EPSILON",
    ),
]
Target = Annotated[
    Optional[str],
    option(
        "Look for the epsilon of this mean error (0 to 2) of asked marginals, such as 0.1; or of those "
        'of fewer columns: "mean2 <= 0.1".',
        "--error",
        metavar="ERROR",
    ),
]
AssumeRows = Annotated[int, option("Your guess of the table's rows.", min=1)]


@takes(*PROMISED, Group.LEARNING, Group.CONFIG)
def check(
    table: Tables,
    settings: ReleaseSettings,
    assume_rows: Annotated[
        int, option("Your guess of the table's rows, for the plan.", panel=Group.EFFORT, min=1)
    ] = 10_000,
    json_only: Json = False,
) -> None:
    """Dry run on public facts only: what a release would do and how noisy it would be. Reads no row, spends
    nothing. `fmwem plan` compares epsilons.
    """
    from factored_mwem.cli import jobs as job
    from factored_mwem.pipeline.forecasts.forecast import LearningForecast, forecast_of

    request = job.asked(source_of(table), settings)
    forecast = forecast_of(request, assume_rows)
    if json_only:
        print(json.dumps(asdict(forecast)))
    elif isinstance(forecast, LearningForecast):
        print(learning_text(forecast, assume_rows))
    else:
        print(forecast_text(forecast, assume_rows, request.budget.unit))


@takes(Group.ASKED, Group.DOMAIN, Group.READING, Group.PRIVACY, Group.EFFORT, Group.LEARNING, Group.CONFIG)
def plan(
    table: Tables,
    settings: ReleaseSettings,
    epsilon: Epsilons = None,
    error: Target = None,
    assume_rows: AssumeRows = 10_000,
    json_only: Json = False,
) -> None:
    """Compare epsilons before anything is spent: how large errors are expected to be, and what a guess of
    membership can gain; or look for the epsilon of an error. From public facts only: reads no row. `fmwem
    check` says what a release at one epsilon would do.
    """
    from factored_mwem.cli import jobs as job
    from factored_mwem.pipeline.forecasts.planning import planned

    plans = planned(job.asked(source_of(table), settings), _numbers(epsilon), error, assume_rows)
    print(json.dumps(plans.facts) if json_only else planned_text(plans))


def forecast_text(found: Forecast, rows: int, unit: str) -> str:
    sizes = ", ".join(f"{name} {size}" for name, size in list(found.attributes.items())[:30])
    more = f", and {len(found.attributes) - 30} more" if len(found.attributes) > 30 else ""
    cells = f"{found.cells:,}" if found.cells < 10**9 else f"about 10^{len(str(found.cells)) - 1}"
    over = f"{found.left_out:,} exceed --max-cells and are left out; " if found.left_out else ""
    if found.at_once:
        plan = [
            "plan        no rounds: the domain is small, all is measured at once; predicted error of a "
            f"marginal {found.predicted_error:.3f} (0 to 2)"
        ]
    else:
        most = "at most " if found.engine == "tree" else ""
        plan = [
            f"rounds      {most}{found.rounds} for a table of about {rows:,} rows (--assume-rows; a release "
            "uses a noisy count)",
            f"noise       first measurements: {found.initial_noise:.1f} a cell on average "
            f"({found.initial_share:.0%} of the {unit} budget); "
            f"chosen marginals: {found.round_noise:.1f} a cell"
            + (" in the first rounds, less later" if most else ""),
            *([f"sweep       then about {found.swept:,} small marginals at once"] if found.swept else []),
        ]
    lines = [
        f"{len(found.attributes)} attributes (codes): {sizes}{more}",
        f"domain      {cells} cells",
        f"candidates  {found.candidates:,} marginals; {over}the largest has {found.largest_marginal:,} cells",
        f"memory      at most about {found.memory_megabytes:,.0f} MB above the interpreter's own",
        *plan,
        *(f"certificate {line}" for line in _certificate(found.certificate)),
        *([f"warning     {found.warning}"] if found.warning else []),
        "no row was read and nothing was spent",
    ]
    return "\n".join(lines)


def learning_text(found: LearningForecast, rows: int) -> str:
    kinds = ", ".join(f"{name} {kind}" for name, kind in list(found.columns.items())[:30])
    more = f", and {len(found.columns) - 30} more" if len(found.columns) > 30 else ""
    text, number = found.thresholds
    return "\n".join(
        [
            f"{len(found.columns)} columns (type): {kinds}{more}",
            f"domain      none is declared: it will be learnt, for at most {found.discovery_share:.0%} of "
            f"the budget with about {rows:,} rows (--assume-rows)",
            f"values      of text are kept from about {text:,.0f} rows on, popular numbers and moments on "
            f"their own from about {number:,.0f}; the rest of those in bins of about equal mass",
            f"refused     with fewer than about {_fewest(found)} rows: noisy votes on types tell so, and the "
            "rest of the budget is not spent",
            "then        single columns are measured, and rounds follow as with a declared domain",
            f"candidates  {found.candidates:,} marginals; how many cells they have follows from the domain",
            *([f"warning     {found.warning}"] if found.warning else []),
            "no row was read and nothing was spent",
        ]
    )


def _fewest(found: LearningForecast) -> str:
    texts, numbers = (f"{rows:,.0f}" for rows in found.fewest_rows)
    return texts if texts == numbers else f"{texts} (if all is text) or {numbers} (if nothing is)"


def _certificate(forecast: CertificateForecast | None) -> list[str]:
    """What a certificate will cost and how wide its bounds will be; none without one."""
    if forecast is None:
        return []
    means = ", ".join(f"{width:.2g} around the mean {k}-way error" for k, width in forecast.means.items())
    below, above = forecast.worst
    lines = [
        f"{forecast.share:.1%} of the budget, for bounds of about +- {means}, {forecast.column:.2g} "
        f"around a column's, -{below:.2g} and +{above:.2g} around the worst of {forecast.marginals:,}"
    ]
    if forecast.marginals < forecast.asked:
        lines.append(
            f"of {forecast.asked:,} marginals asked for, {forecast.marginals:,} are counted, at random"
        )
    if forecast.tries > 1:
        one = f"{forecast.each:.1%} of the budget and a certificate of {forecast.share / forecast.tries:.1%}"
        lines.append(f"up to {forecast.tries} tries, each with {one}; all are paid for beforehand")
    return lines


def _numbers(given: str | None) -> list[float] | None:
    if given is None:
        return None
    try:
        return [float(each) for each in given.split(",")]
    except ValueError:
        raise InputError(f"--epsilon {shown(given)}: must be numbers, such as 0.1,0.5,1") from None


def planned_text(found: Planned) -> str:
    """A line for each epsilon; then what the columns mean, and what they rest on."""
    special = [(found.likely, "error is expected"), (found.safe, "range ends there")]
    rows = [(p, "") for p in found.prospects] + [(p, why) for p, why in special if p is not None]
    rows.sort(key=lambda row: row[0].epsilon)
    lines = _aligned([_head(rows[0][0]), *([*_cells(p), why] for p, why in rows)]) if rows else []
    if found.target is not None:
        lines += _answer(found)
    lines += [
        "",
        f"guess       of {found.question}, from a fair coin: right at most so often, whatever else is known",
    ]
    if rows and rows[0][0].errors:
        lines.append(
            "1-way, ...  mean L1 distance (0 to 2) between real and released marginals of so many columns"
        )
    lines += [f"{word:12}{text}" for word, text in _noise(rows[0][0] if rows else None)]
    lines.append(f"for         delta {found.delta:g}, about {found.assume_rows:,} rows (--assume-rows)")
    lines += [f"note        {note}" for note in found.notes]
    return "\n".join([*lines, "no row was read and nothing was spent"])


def _head(first: Prospect) -> list[str]:
    last = ["noise a cell"] if first.kept_from is None else ["value kept from", "refused below"]
    return ["epsilon", "guess", *(f"{e.order}-way" for e in first.errors), *last, ""]


def _cells(p: Prospect) -> list[str]:
    errors = [f"{_short(e.error)} ({_short(e.low)} to {_short(e.high)})" for e in p.errors]
    return [f"{p.epsilon:g}", f"{math.ceil(p.guess * 1000) / 10:.1f} %", *errors, *_last(p)]


def _last(p: Prospect) -> list[str]:
    if p.kept_from is not None and p.fewest_rows is not None:
        return [" / ".join(f"{rows:,.0f}" for rows in pair) for pair in (p.kept_from, p.fewest_rows)]
    if p.column_noise is None:
        return [f"error {_short(p.noise_errors[-1])}"]
    noise = [n for n in (p.column_noise, p.round_noise) if n is not None]
    return [" / ".join(f"{n:,.1f}" for n in noise)]


def _noise(first: Prospect | None) -> list[tuple[str, str]]:
    """What the last column means, with its name."""
    if first is None:
        return []
    if first.kept_from is not None:
        return [
            ("value kept", "needs about so many rows: a text / a popular number or moment"),
            ("refused", "is a table of fewer rows, about, once votes have told: all of text / none of it"),
        ]
    text = "rows, on average: single columns first / marginals that the first rounds choose; or, of a small"
    return [
        ("noise", text),
        ("", "domain measured at once, the error of the largest marginals by noise alone"),
    ]


def _answer(found: Planned) -> list[str]:
    """The epsilons for the error that was asked for."""
    assert found.target is not None
    order, most = found.target
    target = f"mean{order} <= {most:g}"
    if found.likely is None:
        return ["", f"answer      {target} is not expected at any epsilon that is looked at"]
    sure = "no epsilon" if found.safe is None else f"epsilon {found.safe.epsilon:g}"
    return ["", f"answer      {target} is expected at epsilon {found.likely.epsilon:g}; to be safe, {sure}"]


def _short(error: float) -> str:
    """Two digits of an error."""
    return f"{error:.2f}" if error >= 0.095 else f"{error:.2g}" if error >= 1e-3 else f"{error:.0e}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Right-align all columns but the last."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
