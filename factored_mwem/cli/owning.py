"""`fmwem evaluate` and `fmwem verify`: what looks at the real table. NOT PRIVATE."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factored_mwem.cli.inputs import domain_path, source_of
from factored_mwem.cli.options import QUESTIONS, RELEASE, Json, NoProgress, OneTable, Tables, option, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError

if TYPE_CHECKING:
    from factored_mwem.owner.verifier.verify import Verified
    from factored_mwem.request.package import Package

Highest = Annotated[
    int | None,
    option(
        "Highest order of marginal.  [default: 3, or as many as there are columns]",
        "--marginals",
        panel=Group.KEPT,
        min=1,
    ),
]
PersonColumn = Annotated[
    str | None,
    option(
        "Column of both tables that names people.  [default: as the manifest beside a release of people "
        "says]",
        "--privacy-id",
        panel=Group.PEOPLE,
        metavar="COLUMN",
    ),
]
OrderColumn = Annotated[
    str | None,
    option(
        "Column by which the rows of a person are sorted before they are compared.",
        "--order-by",
        panel=Group.PEOPLE,
        metavar="COLUMN",
    ),
]


@takes(*QUESTIONS)
def evaluate_command(
    real: OneTable,
    synthetic: Annotated[
        Path, typer.Argument(help="Synthetic file, or folder of a package, to compare with it.")
    ],
    settings: ReleaseSettings,
    marginals: Highest = None,
    privacy_id: PersonColumn = None,
    order_by: OrderColumn = None,
    json_only: Json = False,
) -> None:
    """NOT PRIVATE: how far a synthetic table is off: the values of each column, the errors of marginals by
    order, the errors of other questions asked for, and the ten worst marginals.

    Marginals are over neutral bins, which the real table alone decides, so that releases can be compared.
    With --domain they are over those of a domain file, a release's manifest or a model file; a domain file
    also says how the real table is written.

    Of a package, name its descriptor and the folder that it was released into: each table by itself, how many
    rows hang on a row, and the ties with all that a row hangs on.
    """
    from factored_mwem.cli.errors_text import errors_text
    from factored_mwem.cli.inputs import LinkFlags, package_at
    from factored_mwem.owner.evaluation.evaluate import evaluate

    package = package_at(source_of([real]), LinkFlags())
    if package is not None:
        flag = "--privacy-id" if privacy_id else "--order-by" if order_by else None
        _evaluate_tables(package, synthetic, settings, marginals, flag, json_only)
        return
    asked = settings.workload_of(1)  # beside the marginals, which any table with a column has
    errors = evaluate(
        source_of([real]),
        synthetic,
        marginals,
        domain=settings.domain,  # none that lies beside the table: releases are compared in the same bins
        workload=asked,
        privacy_id=privacy_id,
        order_by=order_by,
        **settings.reading,
    )
    print(json.dumps(errors.facts) if json_only else errors_text(errors))


def _evaluate_tables(
    package: Package,
    released: Path,
    settings: ReleaseSettings,
    marginals: int | None,
    flag: str | None,
    json_only: bool,
) -> None:
    """The errors of a package; `flag`: one that was given, and is for a single table."""
    from factored_mwem.cli.package_text import package_text
    from factored_mwem.cli.packaging import check_alone
    from factored_mwem.owner.evaluation.packages import evaluate_package, facts_of
    from factored_mwem.tables.inputs.text_form import Reading

    check_alone(settings)
    if flag is not None:
        raise InputError(f"{flag} is for a single table; leave it out with a package of tables")
    as_written = Reading(settings.policy.records, settings.policy.dialect)
    found = evaluate_package(package, released, marginals, as_written)
    print(json.dumps(facts_of(found)) if json_only else package_text(found))


@takes(*RELEASE, Group.CONFIG)
def verify_command(
    table: Tables,
    settings: ReleaseSettings,
    pairs: Annotated[
        int, option("How many neighbours of the table to compare it with.", panel=Group.EFFORT, min=1)
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
    from factored_mwem.cli.inputs import LinkFlags, check_kept, package_at
    from factored_mwem.cli.jobs import public_of, request_of
    from factored_mwem.cli.packaging import domains_beside, marginals_alone
    from factored_mwem.owner.verifier.packages import verify_tables
    from factored_mwem.owner.verifier.verify import verify
    from factored_mwem.pipeline.progress import show_count

    source = source_of(table)
    check_kept(source, settings, "verify")
    show = console.wants_progress(no_progress) and not json_only
    package = package_at(source, LinkFlags())
    with show_count("comparing with neighbours") if show else contextlib.nullcontext() as step:
        how: dict[str, Any] = {
            "pairs": pairs,
            "report": lambda done: step(done, pairs) if step is not None else None,
        }
        if package is not None:
            order, domains = marginals_alone(settings), domains_beside(package)
            verified = verify_tables(package, order, settings.policy, domains=domains, **how)
        else:
            domain = domain_path(source, settings.domain)
            how |= {"domain": domain, "columns": settings.columns, **public_of(settings)}
            verified = verify(source, request_of(source, settings).workload, settings.policy, **how)
    print(json.dumps(verified.facts) if json_only else verified_text(verified), flush=True)
    if not verified.holds:
        raise typer.Exit(1)


def verified_text(verified: Verified) -> str:
    """What `fmwem verify` prints."""
    from factored_mwem.cli.console import aligned

    lines = [
        "NOT PRIVATE: these numbers look at the real table; do not publish them",
        f"{verified.pairs:,} neighbours of the table, {verified.draws:,} comparisons of a draw with what was "
        "charged for it",
    ]
    if verified.refused:
        lines.append(
            f"{verified.refused:,} of the neighbours were refused before anything was drawn, as documented: "
            "a record's end is not clear"
        )
    stages = [(stage.name, f"{stage.compared:,}", f"{stage.worst:.4f}") for stage in verified.stages]
    lines += aligned([("stage", "draws", "worst share of the charge"), *stages])
    if verified.holds:
        return "\n".join([*lines, "all hold: nothing moved by more than was charged"])
    lines.append(f"FAILED on {verified.failed:,} tables; the first:")
    return "\n".join([*lines, *(f"  {f.stage}, {f.neighbour}: {f.why}" for f in verified.failures)])
