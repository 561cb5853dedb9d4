"""`fmwem report`: a page about a release; public, or, against the real table, NOT PRIVATE."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from factored_mwem.cli.inputs import source_of
from factored_mwem.cli.options import takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError


@takes(Group.READING)
def report(
    manifest: Annotated[Path, typer.Argument(help="NAME.manifest.json of a release, its rows beside it.")],
    settings: ReleaseSettings,
    model: Annotated[
        Optional[Path],
        typer.Option("--model", help="The release's model file.  [default: NAME.fmwem beside the manifest]"),
    ] = None,
    output: Annotated[
        Optional[str],
        typer.Option(
            "-o",
            "--output",
            help="The page.  [default: NAME.report.html beside the manifest; with --against "
            "NAME.NOT-PRIVATE.html here]",
        ),
    ] = None,
    against: Annotated[
        Optional[str],
        typer.Option(
            "--against",
            metavar="TABLE",
            help="NOT PRIVATE: a page with the errors against the real table, in a file of its own.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Write a page about a release, which anybody may see: the promise in plain words, every column with
    error bars, what hangs together, what it cost, how to check it. It is made from public files alone.
    """
    if against is None:
        from factored_mwem.documents.report import report as write

        if settings != ReleaseSettings.of({}):
            raise InputError("how a table is written, and its columns, go with --against TABLE")
        path = write(manifest, output, model=model, overwrite=overwrite)
    else:
        from factored_mwem.cli.jobs import private_page

        if model is not None:
            raise InputError("--model is for the public page; leave it out with --against")
        path = private_page(manifest, source_of([against]), output, settings, overwrite=overwrite)
    print(json.dumps({"report": path, "public": against is None}), flush=True)
