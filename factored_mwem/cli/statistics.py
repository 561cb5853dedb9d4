"""`fmwem statistic`: one number about a column of a private table."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any

from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import Json, Overwrite, Tables, option, output_option, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError

PANEL = "Statistic"
KINDS = ("count", "mean", "variance", "median", "quantile", "min", "max")


OfColumn = Annotated[str, option("Column of numbers.", panel=PANEL)]
What = Annotated[str, option("The statistic.", panel=PANEL, metavar=f"[{'|'.join(KINDS)}]")]
Lower = Annotated[float, option("Public lower bound: smaller values count as this.", panel=PANEL)]
Upper = Annotated[float, option("Public upper bound: larger values count as this.", panel=PANEL)]
At = Annotated[float | None, option("The share of a quantile, such as 0.9.", panel=PANEL)]
Step = Annotated[
    float | None,
    option("Step between the values that are distinguished.  [default: as fine as may be]", panel=PANEL),
]
NoiseKind = Annotated[
    str | None,
    option(
        "How median, quantile, min and max are measured.  [default: exponential, which chooses by rank; "
        "of min and max cauchy; with --delta laplace]",
        panel=PANEL,
        metavar="[cauchy|laplace|exponential]",
    ),
]
KnownRows = Annotated[
    int | None,
    option(
        "Number of rows with a value, if public; where it is needed and not given, epsilon / 4 measures it.",
        panel=PANEL,
    ),
]
Complete = Annotated[
    bool,
    option(
        "Every row counts; a missing or unreadable value counts as the lower bound.",
        "--complete",
        panel=PANEL,
    ),
]
Delta = Annotated[
    float | None,
    option(
        "Privacy loss delta, for Laplace noise of median, quantile, min and max.  [default: 0]",
        panel=Group.PRIVACY,
        envvar="FMWEM_DELTA",
        show_envvar=False,
    ),
]
Record = Annotated[
    str | None,
    output_option("The record: value, promise and cost, to publish.  [default: COLUMN.WHAT.manifest.json]"),
]


@takes(Group.PRIVACY, Group.READING, Group.BOOKS, Group.CONFIG)
def statistic(
    table: Tables,
    settings: ReleaseSettings,
    column: OfColumn,
    what: What,
    lower: Lower,
    upper: Upper,
    at: At = None,
    grid: Step = None,
    noise: NoiseKind = None,
    rows: KnownRows = None,
    complete: Complete = False,
    delta: Delta = None,
    output: Record = None,
    overwrite: Overwrite = False,
    json_only: Json = False,
) -> None:
    """One statistic of a private column: count, mean, variance, median, quantile, min or max, with noise. Its
    record goes to a file.
    """
    from factored_mwem.cli.console import closing, replaced_text
    from factored_mwem.cli.jobs import check_files, facts_of
    from factored_mwem.files.files import IfExists
    from factored_mwem.pipeline.publication import Publication
    from factored_mwem.sessions.statistic.column_statistic import Statistic, StatisticRequest, make_statistic
    from factored_mwem.sessions.statistic.grid import Grid
    from factored_mwem.tables.outputs.release_files import RecordFiles
    from factored_mwem.tables.outputs.targets import target_of

    if settings.columns is not None:
        raise InputError("a statistic is of one column; name it with --column and leave out --columns")
    source, cells = source_of(table), Grid.of(lower, upper, grid)
    choices = {"at": at, "noise": noise, "rows": rows, "complete": complete}
    request = StatisticRequest.of(source, column, what, cells, choices, **settings.terms(delta=delta))
    stem = re.sub(r"[^\w.-]+", "_", column)[:80]
    files = RecordFiles(target_of(output or f"{stem}.{what}.manifest.json"))
    check_files(files.all, source, settings)
    place = Publication(files, IfExists(overwrite), settings.booking)
    with request.spending.booked(settings.booking) as run:
        before = place.reused(run)
        if before is not None:
            result = Statistic.recorded(request.question, before)
        else:
            with place.of(run):
                result = make_statistic(request, run)
                result = replace(result, statement=place.record(result.statement))
    facts = {**result.facts, "manifest": str(files.manifest)}
    facts |= facts_of(result.statement, settings, reused=before is not None)
    closing(facts, [*_summary(facts), *replaced_text(result.statement)], as_json=json_only)


def _summary(facts: dict[str, Any]) -> list[str]:
    """The closing lines for people."""
    from factored_mwem.cli.console import piece

    error, delta = facts["error"], f", delta {facts['delta']:g}" if facts["delta"] else ""
    near = f" +- {error:.4g} (95 %)" if error is not None else "; how noisy that is depends on the table"
    rows, few = facts.get("rows"), []
    if rows is not None:
        near += f", of {max(0, rows):,} +- {facts['rows_error']:.4g} rows with a number"
        if rows <= facts["rows_error"]:
            few = [
                "attention: perhaps no row holds a number in this column, and then the result means nothing"
            ]
    step = f"; values rounded to steps of {facts['step']:.3g}" if facts["what"] != "count" else ""
    return [
        f"{facts['what']} of {piece(facts['column'])}: {facts['value']:.6g}{near}{step}",
        *few,
        f"spent epsilon {facts['spent_epsilon']:.6g}{delta}; protected: {facts['unit']}",
        f"record: {piece(facts['manifest'])}",
    ]
