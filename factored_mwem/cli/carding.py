"""`fmwem card`: the files by which a release is found and filed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer


def card(
    manifest: Annotated[
        str, typer.Argument(metavar="MANIFEST", help="NAME.manifest.json of a release: a file or a URI.")
    ],
    owner: Annotated[
        Optional[Path],
        typer.Option(help="TOML file with what only you know; drafted where missing.  [default: owner.toml]"),
    ] = None,
    output: Annotated[
        Optional[str],
        typer.Option("-o", "--output", help="Folder for the files.  [default: beside the manifest]"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Write what catalogues ask of a release: the OpenDP registry's record, Croissant, a Frictionless data
    package and an ODCS contract. From the manifest and your answers alone: the table is not read.

    Where the owner's file is missing, it is drafted, and the command ends with exit code 2 until all that is
    needed is answered.
    """
    from factored_mwem.documents.card import answers, cards, stem_of, write_cards
    from factored_mwem.documents.published import Published
    from factored_mwem.errors import InputError
    from factored_mwem.files import IfExists
    from factored_mwem.tables.targets import folder_of, target_of

    target = target_of(manifest)
    release = Published.read(target)
    answered = answers(owner or Path("owner.toml"))
    texts = cards(release, answered, stem_of(target))
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
