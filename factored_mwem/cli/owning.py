"""`fmwem evaluate` and `fmwem verify`: what looks at the real table. NOT PRIVATE."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import ASKED, PROMISED, Json, NoProgress, OneTable, Tables, option, takes
from factored_mwem.cli.settings import Group, ReleaseSettings


@takes(*ASKED)
def evaluate(
    real: OneTable,
    synthetic: Annotated[Path, typer.Argument(help="Synthetic file to compare with it.")],
    settings: ReleaseSettings,
    marginals: Annotated[
        int, option("Highest order of marginal.", "--marginals", panel=Group.ASKED, min=1)
    ] = 3,
    json_only: Json = False,
) -> None:
    """NOT PRIVATE: how far a synthetic table is off: the values of each column, the errors of marginals by
    order, the errors of other questions asked for, and the ten worst marginals.

    Marginals are over neutral bins, which the real table alone decides, so that releases can be compared.
    With --domain they are over those of a domain file, a release's manifest or a model file.
    """
    from factored_mwem.cli import jobs as job
    from factored_mwem.cli.errors_text import errors_text

    errors = job.compare(source_of([real]), synthetic, marginals, settings)
    print(json.dumps(errors.facts) if json_only else errors_text(errors))


@takes(*PROMISED, Group.LEARNING, Group.CONFIG)
def verify(
    table: Tables,
    settings: ReleaseSettings,
    pairs: Annotated[
        int, option("Neighbours of the table to compare it with.", panel=Group.EFFORT, min=1)
    ] = 100,
    json_only: Json = False,
    no_progress: NoProgress = False,
) -> None:
    """NOT PRIVATE: release the table, replay that on neighbours of it, and compare what reached the noise
    with what was charged.

    Exit code 1 if something changed by more. Nothing is published or entered in a ledger. Copies of the table
    go to a private folder in TMPDIR, removed at the end; a killed run leaves it, and the next one removes it.
    """
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job

    with console.counted(pairs, show=console.wants_progress(no_progress) and not json_only) as report:
        verified = job.verified(source_of(table), settings, pairs, report)
    print(json.dumps(verified.facts) if json_only else console.verified_text(verified), flush=True)
    if not verified.holds:
        raise typer.Exit(1)
