"""The command line `fmwem`: every command a few lines over the library.

stdout is for machines, stderr for people.

A command is loaded when it is named, and what is heavy is imported inside it, so that `--help` and mistakes
answer at once.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from factored_mwem.cli.exits import run
from factored_mwem.cli.panels import (
    AFTER,
    BEFORE,
    BOOKS,
    COMPLETING,
    FIRST,
    HELP,
    OWNER,
    RELEASE,
    App,
    CommandEntry,
    examples,
)

EXAMPLES = (
    "fmwem release people.csv --marginals 2",
    "fmwem release people.csv --label income --epsilon 0.5 -o half.parquet",
    "fmwem release people.csv --marginals 3 --ledger budget.ledger --dataset people --run-id may",
)
"""Examples of releases; the tests run them."""
COMMANDS = {
    "check": CommandEntry(
        FIRST, "planning:check", "How noisy a release would be. Reads no row, spends nothing."
    ),
    "release": CommandEntry(
        FIRST, "releasing:release", "Turn a private table into a synthetic one.", examples(*EXAMPLES)
    ),
    "report": CommandEntry(FIRST, "documenting:report", "Write a page that shows a release."),
    "answer": CommandEntry(FIRST, "answering:answer", "Answer questions from a release, with error bars."),
    "init": CommandEntry(BEFORE, "starting:init", "Write a settings file to begin with."),
    "plan": CommandEntry(BEFORE, "planning:plan", "Compare epsilons: expected errors, membership guesses."),
    "domain": CommandEntry(BEFORE, "domains:domain_app"),
    "workload": CommandEntry(BEFORE, "domains:workload_app"),
    "statistic": CommandEntry(RELEASE, "statistics:statistic", "One statistic of a private column."),
    "ask": CommandEntry(RELEASE, "asking:ask", "Answer questions one by one, within a bound."),
    "sketch": CommandEntry(RELEASE, "sketching:sketch_app"),
    "graph": CommandEntry(RELEASE, "graphing:graph", "Turn a private graph into a synthetic one."),
    "sample": CommandEntry(AFTER, "answering:sample"),
    "card": CommandEntry(AFTER, "documenting:card", "Write records of a release for catalogues."),
    "evidence": CommandEntry(AFTER, "documenting:evidence", "Put what speaks for a release into a folder."),
    "ledger": CommandEntry(BOOKS, "books:ledger_app"),
    "evaluate": CommandEntry(
        OWNER, "owning:evaluate_command", "How far a synthetic table is from the real one."
    ),
    "verify": CommandEntry(OWNER, "owning:verify_command", "Whether one person moves more than was charged."),
    "attack": CommandEntry(OWNER, "attacking:attack_command", "What attackers learn of single people."),
    "guide": CommandEntry(HELP, "helping:guide"),
    "completion": CommandEntry(HELP, "helping:completion", "Print a script for completion by Tab."),
}
"""Every command: the panel of `--help` that lists it, its module, and its help in one line."""

app = App(
    COMMANDS,
    help="Differentially private synthetic tables.\n\n"
    "First look, which reads no row and is free: fmwem check TABLE\n\n"
    "Then release, which spends epsilon 1: fmwem release TABLE",
)


def _version(wanted: bool) -> None:
    if wanted:
        from factored_mwem.pipeline.record.statement import tool_version

        print(f"fmwem {tool_version()}")
        raise typer.Exit


@app.callback()
def fmwem(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Differentially private synthetic tables."""


def main() -> None:
    """Run the command line; every failure is one line and the documented exit code."""
    if COMPLETING in os.environ:
        from factored_mwem.cli.helping import answer_shells

        answer_shells()
    run(app)
