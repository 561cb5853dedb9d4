"""`fmwem statistic`: one number of a column of a private table."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import Json, Tables, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError

PANEL = "Statistic"
KINDS = ("count", "mean", "variance", "median", "quantile", "min", "max")


def _option(text: str, **given: object) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(help=text, rich_help_panel=PANEL, **given)  # type: ignore[arg-type]
    return found


@takes(Group.PRIVACY, Group.READING, Group.BOOKS, Group.CONFIG)
def statistic(
    table: Tables,
    settings: ReleaseSettings,
    column: Annotated[str, _option("Column of numbers.")],
    what: Annotated[str, _option("The statistic.", metavar=f"[{'|'.join(KINDS)}]")],
    lower: Annotated[float, _option("Public lower bound: smaller values count as this.")],
    upper: Annotated[float, _option("Public upper bound: larger values count as this.")],
    at: Annotated[Optional[float], _option("The share of a quantile, such as 0.9.")] = None,
    grid: Annotated[
        Optional[float],
        _option("Step between values that are told apart.  [default: 1, or as fine as may be]"),
    ] = None,
    noise: Annotated[
        Optional[str],
        _option(
            "How median, quantile, min and max are measured.  [default: exponential, which chooses by rank; "
            "of min and max cauchy; with --delta laplace]",
            metavar="[cauchy|laplace|exponential]",
        ),
    ] = None,
    rows: Annotated[
        Optional[int],
        _option("Rows with a value, where that is public and needed; else a quarter of epsilon measures it."),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete",
            help="Every row counts as having a value; one that cannot be read as the lower bound.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    delta: Annotated[
        Optional[float],
        typer.Option(
            help="Privacy loss delta, for Laplace noise of median, quantile, min and max.  [default: 0]",
            envvar="FMWEM_DELTA",
            show_envvar=False,
            rich_help_panel=Group.PRIVACY.panel,
        ),
    ] = None,
    json_only: Json = False,
) -> None:
    """One statistic of a private column: count, mean, variance, median, quantile, min or max, with noise."""
    from factored_mwem.cli import console
    from factored_mwem.ledger.run import Booking
    from factored_mwem.policy import Policy
    from factored_mwem.statistics.column_statistic import ask
    from factored_mwem.statistics.grid import Grid
    from factored_mwem.statistics.question import Question

    chosen = settings.policy.model_dump(exclude_unset=True)
    policy = Policy.of(**{"delta": 0.0, **chosen, **({} if delta is None else {"delta": delta})})
    if settings.columns is not None:
        raise InputError("a statistic is of one column; name it with --column and leave out --columns")
    cells = Grid.of(lower, upper, grid)
    given = {"at": at, "noise": noise, "rows": rows, "complete": complete}
    question = Question.of(column, what, cells, policy.delta, **given)
    booking = Booking(settings.ledger, settings.dataset, settings.run_id)
    made = ask(source_of(table), question, policy, booking)
    console.closing(made.facts, _text(made.facts), as_json=json_only)


def _text(facts: dict[str, object]) -> str:
    from factored_mwem.cli import console

    error = facts["error"]
    near = f" +- {error:.4g} (95 %)" if error is not None else "; how noisy that is depends on the table"
    spent = f"epsilon {facts['spent_epsilon']:.6g}" + (
        f", delta {facts['delta']:g}" if facts["delta"] else ""
    )
    name = console.piece(facts["column"])
    return f"{facts['what']} of {name}: {facts['value']:.6g}{near}\nspent {spent}; protected: {facts['unit']}"
