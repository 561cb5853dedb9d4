"""The smaller commands: domain and workload files, and ledgers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from factored_mwem.accounting.unit import Neighbours
from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import Json, Overwrite, Tables, option, output_option, takes
from factored_mwem.cli.panels import OWNER, App
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError
from factored_mwem.ledger.address import FORM

domain_app = App(help="Domain files: which values may appear.")
workload_app = App(help="Workload files: what must come out right.")
ledger_app = App(help="Ledgers: what releases of a dataset may cost, and have cost.")

LedgerPlace = Annotated[str, typer.Argument(metavar="LEDGER", help=f"A file, or {FORM}.")]


@domain_app.command("draft", rich_help_panel=OWNER)
@takes(Group.READING)
def domain_draft(table: Tables, settings: ReleaseSettings) -> None:
    """Print a first domain for a person to review. Reads the data: NOT PRIVATE until reviewed."""
    from factored_mwem.cli.drafts import draft_text, drafted, warn

    domain = drafted(source_of(table), settings)
    print(draft_text(domain), end="")
    warn(domain)


@domain_app.command("learn")
@takes(Group.READING, Group.PRIVACY, Group.LEARNING, Group.BOOKS, Group.CONFIG)
def domain_learn(
    table: Tables,
    settings: ReleaseSettings,
    output: Annotated[
        Optional[str], output_option("Domain file.  [default: NAME.domain.json beside the table]")
    ] = None,
    overwrite: Overwrite = False,
    json_only: Json = False,
) -> None:
    """Learn a domain once, under differential privacy: releases under it pay nothing for it, and all have the
    same schema. Its cost counts like a release's.
    """
    from factored_mwem.cli import console
    from factored_mwem.cli import jobs as job

    chosen = settings.model_copy(update={"output": output, "overwrite": overwrite})
    learnt, facts = job.learn(source_of(table), chosen)
    if console.for_scripts(json_only):
        print(json.dumps(facts), flush=True)
    if not json_only:
        fates = {
            name: (console.kind_in_words(learnt.domain[name]), *fate) for name, fate in learnt.fates.items()
        }
        first = f"learnt for epsilon {learnt.spent_epsilon:.6g}: {console.piece(facts['domain'])}"
        console.say("\n".join([first, *console.fates_text(fates)]))


@domain_app.command("schema")
def domain_schema() -> None:
    """Print the JSON Schema of a domain file."""
    from factored_mwem.domain.domain import Domain

    print(json.dumps(Domain.json_schema(), indent=1))


@workload_app.command("schema")
def workload_schema() -> None:
    """Print the JSON Schema of a workload file."""
    from factored_mwem.workload.workload import Workload

    print(json.dumps(Workload.json_schema(), indent=1))


@ledger_app.command("init")
def ledger_init(
    ledger: LedgerPlace,
    journals: Annotated[
        Optional[Path],
        option(
            "For a database: folder of the journals, which every worker has under this path.  "
            "[default: in the database]"
        ),
    ] = None,
    json_only: Json = False,
) -> None:
    """Make a new, empty ledger: a file on a local disk, readable by you alone, or a schema in a database."""
    from factored_mwem.cli import console
    from factored_mwem.ledger.opening import create_ledger

    name = create_ledger(ledger, journals).name
    message = f"{console.piece(name)} is there, with no dataset in it; next: fmwem ledger add"
    console.closing({"ledger": name}, message, as_json=json_only)


@ledger_app.command("add")
def ledger_add(
    ledger: LedgerPlace,
    dataset: Annotated[
        str, option("Name for the table. It is shown to everybody, so it must hold nothing private.")
    ],
    epsilon: Annotated[Optional[float], option("Epsilon that all releases together may cost.")] = None,
    delta: Annotated[float, option("Delta of that cap; 0 admits pure releases only.")] = 1e-9,
    rho: Annotated[
        Optional[float], option("A cap in zero-concentrated privacy, in place of --epsilon.")
    ] = None,
    neighbours: Annotated[
        str,
        option(
            "add-remove or replace: what every release must protect.", metavar=f"[{'|'.join(Neighbours)}]"
        ),
    ] = "add-remove",
    contributions: Annotated[int, option("Most rows of one person that every release must protect.")] = 1,
    privacy_id: Annotated[
        Optional[str],
        option(
            "Column that names the person: releases by it may keep fewer rows of each than --contributions."
        ),
    ] = None,
    json_only: Json = False,
) -> None:
    """Put a dataset on the books. Its cap is set once."""
    from factored_mwem.accounting.cap import Cap
    from factored_mwem.cli import console
    from factored_mwem.ledger.opening import open_ledger

    if neighbours not in list(Neighbours):
        raise InputError(f"neighbours={neighbours!r}: must be add-remove or replace")
    books = open_ledger(ledger)
    books.refuse_older()  # what is entered in an old copy is lost when the newest one is put back
    books.add(dataset, Cap.of(epsilon, delta, rho), Neighbours(neighbours), contributions, privacy_id)
    message = f"{console.piece(repr(dataset))} is in {console.piece(books.name)}; its cap is set"
    console.closing({"ledger": books.name, "dataset": dataset}, message, as_json=json_only)


@ledger_app.command("show")
def ledger_show(
    ledger: LedgerPlace, as_json: Annotated[bool, option("The same as JSON.", "--json")] = False
) -> None:
    """What each dataset may cost, has cost, and has left."""
    from factored_mwem.cli import console
    from factored_mwem.ledger.report import books

    shown = books(ledger)
    print(json.dumps(shown) if as_json else console.books_text(shown))


@ledger_app.command("export")
def ledger_export(ledger: LedgerPlace) -> None:
    """Print all entries with their exact costs and parameters, and the chain, as JSON, for an auditor. No key
    and no fingerprint is in it.
    """
    from factored_mwem.ledger.report import export

    print(json.dumps(export(ledger), indent=1))


@ledger_app.command("verify")
def ledger_verify(
    ledger: LedgerPlace,
    manifests: Annotated[
        Optional[list[Path]],
        typer.Argument(metavar="[MANIFEST]...", help="Manifests of releases that must be in the ledger."),
    ] = None,
    as_json: Annotated[bool, option("The same as JSON.", "--json")] = False,
) -> None:
    """Recompute the chain and the costs of all releases. Names what does not agree, then with exit code 2; an
    older copy of the ledger, too.
    """
    from factored_mwem.cli import console
    from factored_mwem.pipeline.record.manifest_check import check_books

    check = check_books(ledger, manifests or ())
    print(json.dumps(check) if as_json else console.books_check_text(check))
    if not check["fits"]:
        raise typer.Exit(2)


@ledger_app.command("accept")
def ledger_accept(ledger: LedgerPlace, json_only: Json = False) -> None:
    """Confirm that a restored database is the newest copy of the ledger, so that releases may go on. If it is
    not, budget that was spent after the copy was made could be spent again. The ledger's chain records this
    command.
    """
    from factored_mwem.cli import console
    from factored_mwem.ledger.opening import open_ledger

    books = open_ledger(ledger)
    books.accept()
    message = f"{console.piece(books.name)} is accepted as it is; releases go on"
    console.closing({"ledger": books.name, "accepted": True}, message, as_json=json_only)
