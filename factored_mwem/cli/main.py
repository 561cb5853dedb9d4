"""The command line `fmwem`: every command a few lines over the library.

stdout is for machines, stderr for people.

Heavy modules are imported inside the commands, so that `--help` and mistakes answer at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from factored_mwem.cli import report as of_reports
from factored_mwem.cli.admin import domain_app, ledger_app, workload_app
from factored_mwem.cli.answering import answer
from factored_mwem.cli.asking import ask
from factored_mwem.cli.carding import card
from factored_mwem.cli.completing import answer_shells, completion
from factored_mwem.cli.exits import run, unsaid
from factored_mwem.cli.graphing import graph
from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import Json, NoProgress, OneTable, Quiet, Tables, Verbose, takes
from factored_mwem.cli.panels import AFTER, BEFORE, BOOKS, HELP, OWNER, RELEASE, App, examples, names_of
from factored_mwem.cli.planning import plan
from factored_mwem.cli.settings import CLI_MAX_ROWS, Group, ReleaseSettings
from factored_mwem.cli.sketching import sketch_app
from factored_mwem.cli.starting import init
from factored_mwem.cli.statistics import statistic
from factored_mwem.errors import Stopped

app = App(
    help="Differentially private synthetic tables.\n\n"
    "First look, which reads no row and is free: fmwem check TABLE --marginals 2\n\n"
    "Then release, which spends epsilon 1: fmwem release TABLE --marginals 2"
)
app.command(rich_help_panel=BEFORE, short_help="Write a settings file to begin with.")(init)
app.command(rich_help_panel=HELP, short_help="Print a script for completion by Tab.")(completion)
app.add_typer(domain_app, name="domain", rich_help_panel=BEFORE)
app.add_typer(workload_app, name="workload", rich_help_panel=BEFORE)
app.add_typer(ledger_app, name="ledger", rich_help_panel=BOOKS)
app.add_typer(sketch_app, name="sketch", rich_help_panel=RELEASE)
app.command("report", rich_help_panel=AFTER, short_help="Write a page that shows a release.")(
    of_reports.report
)

ASKED = (Group.ASKED, Group.DOMAIN, Group.READING)
PROMISED = (*ASKED, Group.PRIVACY, Group.CERTIFICATE, Group.EFFORT)
EXAMPLES = (
    "fmwem release people.csv --marginals 2",
    "fmwem release people.csv --label income --epsilon 0.5 -o half.parquet",
    "fmwem release people.csv --marginals 3 --ledger budget.ledger --dataset people --run-id may",
)
"""Of a release; the tests run them."""


def _version(wanted: bool) -> None:
    if wanted:
        from factored_mwem.pipeline.manifest import tool_version

        print(f"fmwem {tool_version()}")
        raise typer.Exit


@app.callback()
def fmwem(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Differentially private synthetic tables."""


@app.command(
    rich_help_panel=RELEASE,
    short_help="Turn a private table into a synthetic one.",
    epilog=examples(*EXAMPLES),
)
@takes(*PROMISED, Group.LEARNING, Group.OUTPUT, Group.SAMPLING, Group.BOOKS, Group.CONFIG)
def release(
    table: Tables,
    settings: ReleaseSettings,
    json_only: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
) -> None:
    """Turn a private table into a synthetic one under differential privacy."""
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job
    from factored_mwem.cli.details import details
    from factored_mwem.cli.summary import summary
    from factored_mwem.kernels import warmup

    silent = quiet or json_only
    if not silent and settings.policy.engine != "mwem" and warmup.is_cold():
        console.say("first run: compiling for this machine, once; later runs start at once")
    done = None
    try:
        with console.progress(
            show=console.wants_progress(no_progress) and not silent, verbose=verbose
        ) as report:
            done = job.run(source_of(table), settings, report)
        if console.for_scripts(json_only):
            print(json.dumps(done.facts), flush=True)
        if not silent:
            told = done
            console.say_made(lambda: [*summary(told, names_of(app)), *(details(told) if verbose else ())])
    except (KeyboardInterrupt, Stopped, OSError) as error:
        if done is not None:
            raise unsaid(error, done.facts) from None
        if isinstance(error, KeyboardInterrupt):  # the parser would swallow it
            raise Stopped(130) from error
        raise


@app.command(rich_help_panel=BEFORE, short_help="How noisy a release would be. Reads no row, spends nothing.")
@takes(*PROMISED, Group.LEARNING, Group.CONFIG)
def check(
    table: Tables,
    settings: ReleaseSettings,
    assume_rows: Annotated[
        int,
        typer.Option(
            help="Your guess of the table's rows, for the plan.", min=1, rich_help_panel=Group.EFFORT.panel
        ),
    ] = 10_000,
    json_only: Json = False,
) -> None:
    """Dry run on public facts only: what a release would do and how noisy it would be. Reads no row, spends
    nothing. `fmwem plan` compares epsilons.
    """
    from dataclasses import asdict

    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job
    from factored_mwem.pipeline.forecast import LearningForecast

    found, unit = job.dry_run(source_of(table), settings, assume_rows)
    if json_only:
        print(json.dumps(asdict(found)))
    elif isinstance(found, LearningForecast):
        print(console.learning_text(found, assume_rows))
    else:
        print(console.forecast_text(found, assume_rows, unit))


app.command(rich_help_panel=RELEASE, short_help="One statistic of a private column.")(statistic)
app.command(rich_help_panel=RELEASE, short_help="Turn a private graph into a synthetic one.")(graph)
app.command(rich_help_panel=BEFORE, short_help="Compare epsilons: expected errors, membership guesses.")(plan)


@app.command(rich_help_panel=AFTER)
@takes(Group.SAMPLING)
def sample(
    model: Annotated[Path, typer.Argument(help="Model file that `fmwem release --model` wrote.")],
    n: Annotated[
        int,
        typer.Option(
            "-n", "--rows", help="Rows to draw.", min=0, max=CLI_MAX_ROWS, rich_help_panel=Group.OUTPUT.panel
        ),
    ],
    settings: ReleaseSettings,
    output: Annotated[
        Optional[str],
        typer.Option(
            "-o",
            "--output",
            help="Output file, or a folder of Parquet parts where it ends in /; either may be a URI.  "
            "[default: MODEL.sample.parquet]",
            rich_help_panel=Group.OUTPUT.panel,
        ),
    ] = None,
    json_only: Json = False,
) -> None:
    """Draw more rows from a saved model, at no privacy cost."""
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job

    facts = job.draw(model, n, output or f"{model.stem}.sample.parquet", settings)
    said = f"{facts['rows']:,} rows in {console.piece(facts['output'])}; nothing was spent"
    console.closing(facts, said, as_json=json_only)


app.command(rich_help_panel=AFTER, short_help="Answer queries with error bars.")(answer)
app.command(rich_help_panel=RELEASE, short_help="Answer questions one by one, within a bound.")(ask)


@app.command(rich_help_panel=OWNER, short_help="How far a synthetic table is from the real one.")
@takes(*ASKED)
def evaluate(
    real: OneTable,
    synthetic: Annotated[Path, typer.Argument(help="Synthetic file to compare with it.")],
    settings: ReleaseSettings,
    marginals: Annotated[
        int,
        typer.Option(
            "--marginals", help="Highest order of marginal.", min=1, rich_help_panel=Group.ASKED.panel
        ),
    ] = 3,
    json_only: Json = False,
) -> None:
    """NOT PRIVATE: how far a synthetic table is off: the values of each column, the errors of marginals by
    order, those of what else is asked, and the worst ten marginals.

    Marginals are over neutral bins, which the real table alone decides, so that releases can be compared.
    With --domain they are over those of a domain file, a release's manifest or a model file.
    """
    from factored_mwem.cli import jobs as job
    from factored_mwem.cli.errors_text import errors_text

    found = job.compare(source_of([real]), synthetic, marginals, settings)
    print(json.dumps(found.facts) if json_only else errors_text(found))


@app.command(rich_help_panel=OWNER, short_help="Whether one person moves more than was charged.")
@takes(*PROMISED, Group.LEARNING, Group.CONFIG)
def verify(
    table: Tables,
    settings: ReleaseSettings,
    pairs: Annotated[
        int,
        typer.Option(
            help="Neighbours of the table to compare it with.", min=1, rich_help_panel=Group.EFFORT.panel
        ),
    ] = 100,
    json_only: Json = False,
    no_progress: NoProgress = False,
) -> None:
    """NOT PRIVATE: release the table, replay that on neighbours of it, and compare what reached the noise
    with what was charged.

    Exit code 1 where something moved by more. Nothing is published or entered in a ledger. Copies of the
    table go to a private folder in TMPDIR, removed at the end; a killed run leaves it, and the next one
    removes it.
    """
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job

    with console.counted(pairs, show=console.wants_progress(no_progress) and not json_only) as report:
        found = job.verified(source_of(table), settings, pairs, report)
    print(json.dumps(found.facts) if json_only else console.verified_text(found), flush=True)
    if not found.holds:
        raise typer.Exit(1)


app.command(rich_help_panel=AFTER, short_help="Write what catalogues ask of a release.")(card)


def _topics() -> list[str]:
    from factored_mwem.guide import TOPICS

    return list(TOPICS)


@app.command(rich_help_panel=HELP)
def guide(
    topic: Annotated[
        Optional[str],
        typer.Argument(help="A page; without it, the list of pages.", autocompletion=_topics),
    ] = None,
) -> None:
    """Read the guide: what the README leaves out."""
    from rich.console import Console
    from rich.markdown import Markdown

    from factored_mwem.guide import TOPICS, page

    if topic is None:
        width = max(map(len, TOPICS))
        print("\n".join(f"{name:{width}}  {what}" for name, what in TOPICS.items()))
    elif sys.stdout.isatty():
        Console().print(Markdown(page(topic)))
    else:
        print(page(topic), end="")


def main() -> None:
    """Run the command line; every failure is one line and the documented exit code."""
    answer_shells()
    run(app)
