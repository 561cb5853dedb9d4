"""`fmwem ledger`: what releases of a dataset may cost, and have cost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from factored_mwem.accounting.unit import Neighbours
from factored_mwem.cli.options import Json, option
from factored_mwem.cli.panels import App
from factored_mwem.errors import InputError
from factored_mwem.ledger.address import FORM

ledger_app = App(help="Ledgers: what releases of a dataset may cost, and have cost.")
Ledger = Annotated[str, typer.Argument(metavar="LEDGER", help=f"A file, or {FORM}.")]
Read = Annotated[str, typer.Argument(metavar="LEDGER", envvar="FMWEM_LEDGER", help=f"A file, or {FORM}.")]
AsJson = Annotated[bool, option("The same as JSON.", "--json")]


@ledger_app.command("init")
def ledger_init(
    ledger: Ledger,
    journals: Annotated[
        Path | None,
        option(
            "For a database: folder of the journals, which every worker has under this path.  "
            "[default: in the database]",
            metavar="FOLDER",
        ),
    ] = None,
    json_only: Json = False,
) -> None:
    """Make a new, empty ledger: a file on a local disk, readable by you alone, or a schema in a database."""
    from factored_mwem.cli.console import closing, piece
    from factored_mwem.ledger.opening import create_ledger

    name = create_ledger(ledger, journals).name
    message = f"{piece(name)} was created, with no dataset in it; next: fmwem ledger add"
    closing({"ledger": name}, [message], as_json=json_only)


@ledger_app.command("add")
def ledger_add(
    ledger: Ledger,
    dataset: Annotated[
        str,
        option(
            "Name for the table. It is shown to everybody, so it must hold nothing private.", metavar="NAME"
        ),
    ],
    epsilon: Annotated[float | None, option("Epsilon that all releases together may cost.")] = None,
    delta: Annotated[float, option("Delta of that cap; 0 admits pure releases only.")] = 1e-9,
    rho: Annotated[float | None, option("A cap in zero-concentrated privacy, in place of --epsilon.")] = None,
    neighbours: Annotated[
        str,
        option(
            "What every release must protect, as in `fmwem release`.", metavar=f"[{'|'.join(Neighbours)}]"
        ),
    ] = "add-remove",
    contributions: Annotated[int, option("Most rows of one person that every release must protect.")] = 1,
    privacy_id: Annotated[
        str | None,
        option(
            "Column that names the person: a release with this --privacy-id may use fewer rows of each.",
            metavar="COLUMN",
        ),
    ] = None,
    json_only: Json = False,
) -> None:
    """Put a dataset on the books. Its cap is set once."""
    from factored_mwem.accounting.cap import Cap
    from factored_mwem.cli.console import closing, piece
    from factored_mwem.ledger.opening import open_ledger

    if neighbours not in list(Neighbours):
        raise InputError(f"neighbours={neighbours!r}: must be add-remove or replace")
    opened = open_ledger(ledger)
    opened.refuse_older()  # an entry in an old copy is lost when the newest copy is put back
    opened.add(dataset, Cap.of(epsilon, delta, rho), Neighbours(neighbours), contributions, privacy_id)
    message = f"{piece(repr(dataset))} is in {piece(opened.name)}; its cap is set"
    closing({"ledger": opened.name, "dataset": dataset}, [message], as_json=json_only)


@ledger_app.command("show")
def ledger_show(ledger: Read, as_json: AsJson = False) -> None:
    """What each dataset may cost, has cost, and has left."""
    from factored_mwem.ledger.report import books

    facts = books(ledger)
    print(json.dumps(facts) if as_json else books_text(facts))


@ledger_app.command("export")
def ledger_export(ledger: Read) -> None:
    """Print all entries with their exact costs and parameters, and the chain, as JSON, for an auditor. No key
    and no fingerprint is in it.
    """
    from factored_mwem.ledger.report import export

    print(json.dumps(export(ledger), indent=1))


@ledger_app.command("verify")
def ledger_verify(
    ledger: Ledger,
    manifests: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[MANIFEST]...", help="Manifests of releases that must be in the ledger."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute the chain and the costs of all releases. Names what does not agree, then with exit code 2; an
    older copy of the ledger, too.
    """
    from factored_mwem.pipeline.record.manifest_check import check_books

    check = check_books(ledger, manifests or ())
    print(json.dumps(check) if as_json else books_check_text(check))
    if not check["fits"]:
        raise typer.Exit(2)


@ledger_app.command("accept")
def ledger_accept(ledger: Ledger, json_only: Json = False) -> None:
    """Confirm that a restored database is the newest copy of the ledger, so that releases may go on. If it is
    not, budget that was spent after the copy was made could be spent again. The ledger's chain records this
    command.
    """
    from factored_mwem.cli.console import closing, piece
    from factored_mwem.ledger.opening import open_ledger

    opened = open_ledger(ledger)
    opened.accept()
    message = f"{piece(opened.name)} is accepted as the newest copy; releases can go on"
    closing({"ledger": opened.name, "accepted": True}, [message], as_json=json_only)


def books_text(books: dict[str, Any]) -> str:
    """What `fmwem ledger show` prints."""
    from factored_mwem.cli.console import counted_in_words, piece

    lines = (
        []
        if books["datasets"]
        else ["no datasets; `fmwem ledger add FILE --dataset NAME --epsilon E` adds one"]
    )
    for d in books["datasets"]:
        unit = "epsilon" if d["rho"] is None else "rho"
        delta = f" at delta {d['delta']:g}" if d["delta"] else ""
        by = f", whom column {piece(repr(d['privacy_id']))} names" if d["privacy_id"] is not None else ""
        rows = f"up to {counted_in_words(d['contributions'], 'row')} of one person{by}"
        lines.append(f"{piece(d['dataset'])}: cap {unit} {d[unit]:g}{delta}, {d['neighbours']}, {rows}")
        left = [f"{unit} {d['left']:g}{delta}"] if delta or unit == "rho" else []
        left.append(f"epsilon {d['left_pure']:g} at delta 0")
        lines += [f"  spent {unit} {d['spent']:.6g}", f"  left for one more release: {', or '.join(left)}"]
        if d["spent"] and d["spent"] + d["left"] > d[unit] * (1 + 1e-6):
            lines.append(
                "  (together more than the cap: costs at a delta above 0 add up to less than their sum)"
            )
        lines += map(_entry, d["releases"])
    if any(r["state"] in ("reserved", "failed") for d in books["datasets"] for r in d["releases"]):
        lines.append(
            "reserved: under way, or killed; failed: ended by an error. What they list counts; the same run "
            "id, if any, completes them."
        )
    if books["older_than_its_journals"] is None:
        lines.append("WARNING: the journals could not be looked at: no release will start before they can be")
    elif books["older_than_its_journals"]:
        lines.append(
            "WARNING: this ledger is older than its journals: what was spent since is missing from it, and "
            "no release will start"
        )
    return "\n".join(lines)


def _entry(release: dict[str, Any]) -> str:
    """A release in the books, on one line."""
    from factored_mwem.cli.console import piece

    promised, unit = release["promised"], "epsilon" if "epsilon" in release else "rho"
    whole = promised["epsilon"] is not None and promised["delta"] is not None
    promise = f"({promised['epsilon']:g}, {promised['delta']:g})-DP, " if whole else ""
    delta = f", delta {release['delta']:.3g}" if release["delta"] else ""
    run = f" run {piece(release['run_id'])}" if release["run_id"] else ""
    by = f" by {piece(promised['privacy_id'])}" if promised["privacy_id"] else ""
    cost = f"{promise}counts {unit} {release[unit]:.6g}{delta}"
    return f"  {release['number']:4} {release['state']:9} {cost}  {piece(release['reserved_at'])}{run}{by}"


def books_check_text(check: dict[str, Any]) -> str:
    """What `fmwem ledger verify` prints."""
    from factored_mwem.cli.console import counted_in_words, piece

    head = check["head"] if re.fullmatch("[0-9a-f]{64}", check["head"] or "") else "that is none"
    none = "its chain has no events" if check["datasets"] or check["problems"] else "no events yet"
    chain = f"chain of {counted_in_words(check['events'], 'event')}, head {head}" if check["events"] else none
    lines = [f"{piece(check['ledger'])}: {chain}"]
    for d in check["datasets"]:
        releases = counted_in_words(d["releases"], "release")
        lines.append(f"  {d['dataset']!r}: {releases}, spent {d['unit']} {d['spent']:.6g} of {d['cap']:g}")
    known = (m for m in check["manifests"] if m["release"] is not None)
    lines += [f"  {piece(m['manifest'])}: release {piece(m['release'])} of {m['dataset']!r}" for m in known]
    lines += [f"note: {piece(note)}" for note in check["notes"]]
    lines += [f"does not fit: {piece(problem)}" for problem in check["problems"]]
    return "\n".join([*lines, *(["all fits"] if check["fits"] else [])])
