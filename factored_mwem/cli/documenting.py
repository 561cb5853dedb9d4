"""`fmwem report`, `fmwem card` and `fmwem evidence`: a release on a page, public or NOT PRIVATE, in
catalogues, and all that speaks for it in one folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import Overwrite, flags_given, of_rows, option, output_option, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError


@takes(Group.READING)
def report(
    ctx: typer.Context,
    manifest: Annotated[
        Path,
        typer.Argument(help="NAME.manifest.json, or the rows beside it.", callback=of_rows(".manifest.json")),
    ],
    settings: ReleaseSettings,
    model: Annotated[
        Path | None,
        option("The release's model file.  [default: NAME.fmwem beside the manifest]"),
    ] = None,
    output: Annotated[
        str | None,
        output_option(
            "The page.  [default: NAME.report.html (NAME.lawyer.html) beside the manifest; with "
            "--against NAME.NOT-PRIVATE.html here]"
        ),
    ] = None,
    against: Annotated[
        str | None,
        option("NOT PRIVATE: a page with the errors against this real table instead.", metavar="TABLE"),
    ] = None,
    reader: Annotated[
        str | None,
        option("For whom: lawyer, a page of plain words for readers who know no statistics.", "--for"),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a page about a release, which anybody may see: the promise in plain words, every column with
    error bars, which columns were measured together, what it cost, how to check it; for a graph, a sketch, a
    statistic or a session the promise, its cost and what it rests on. Uses only public files.
    """
    if against is None:
        from factored_mwem.documents.report import report as write

        if flags_given(ctx, Group.READING):
            raise InputError("how a table is written, and its columns, go with --against TABLE")
        path = write(manifest, output, model=model, reader=reader, overwrite=overwrite)
    else:
        from factored_mwem.cli.jobs import check_files
        from factored_mwem.owner.page.private_report import private_report
        from factored_mwem.tables.outputs.targets import target_of

        if model is not None or reader is not None:
            flag = "--for" if model is None else "--model"
            raise InputError(f"{flag} is for the public page; leave it out with --against")
        table = source_of([against])
        if output is not None:
            check_files([target_of(output)], table, settings, manifest)
        path = private_report(manifest, table, output, overwrite=overwrite, **settings.reading)
    print(json.dumps({"report": path, "public": against is None}), flush=True)


def card(
    manifest: Annotated[
        str,
        typer.Argument(
            metavar="MANIFEST", help="NAME.manifest.json that any command wrote: a file or a URI."
        ),
    ],
    owner: Annotated[
        Path | None,
        option("TOML file with what only you know; drafted if missing.  [default: owner.toml]"),
    ] = None,
    output: Annotated[
        str | None, output_option("Folder for the files.  [default: beside the manifest]")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the records of a release for catalogues: for the OpenDP registry, Croissant, a Frictionless data
    package and an ODCS contract; for a graph, a sketch, a statistic or a session a card in Markdown. Uses
    only the manifest and your answers: the table is not read.

    If the owner's file is missing, it is drafted, and the command ends with exit code 2 until all required
    questions are answered.
    """
    from factored_mwem.documents.card import answers, cards, stem_of, write_cards
    from factored_mwem.documents.published import record_from
    from factored_mwem.files.files import IfExists
    from factored_mwem.tables.outputs.targets import folder_of, target_of

    target = target_of(manifest)
    release = record_from(target)
    texts = cards(release, answers(owner or Path("owner.toml")), stem_of(target))
    at = target.beside
    if output is not None:
        place = folder_of(output)
        if place is None:
            raise InputError(f"no folder {output}; create it first, or end its name in /")
        place.check()
        place.make()
        at = place.within
    written = write_cards(texts, at, IfExists(overwrite))
    print(json.dumps({"manifest": str(target), "files": [str(one) for one in written]}))


def evidence(
    manifest: Annotated[
        Path,
        typer.Argument(
            metavar="MANIFEST",
            help="NAME.manifest.json that any command wrote.",
            callback=of_rows(".manifest.json"),
        ),
    ],
    output: Annotated[Path, option("The new folder.", "-o", "--output", metavar="FOLDER")],
    owner: Annotated[
        Path | None, option("TOML file with your answers, as of fmwem card: with it the cards go in.")
    ] = None,
    private: Annotated[
        list[Path] | None,
        option(
            "NOT PRIVATE: what fmwem attack kept, or fmwem verify or evaluate said with --json; goes into a "
            "folder NOT-PRIVATE. May be repeated.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Put all that speaks for a release into a new folder: its record, the report, the page for lawyers, the
    certificate, cards, an index, and SHA256SUMS to be signed. The rows are not copied, and the table is not
    read.
    """
    from factored_mwem.documents.card import answers
    from factored_mwem.documents.evidence import evidence as gather

    answered = None if owner is None else answers(owner)
    files = gather(manifest, output, owner=answered, private=private or ())
    print(json.dumps({"folder": str(output), "files": files, "public": not private}), flush=True)
