"""`fmwem answer`: what a saved model says to queries, with error bars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from factored_mwem.cli.options import Json


def answer(
    model: Annotated[Path, typer.Argument(help="Model file that `fmwem release --model` wrote.")],
    query: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY...",
            help='What to answer, each in quotes: "count where age >= 40 and sex = Male by education", '
            '"mean age by sex", "share where sex = Male", "median age", "cube sex, race"; see '
            "`fmwem guide answers`.",
        ),
    ],
    population: Annotated[
        bool,
        typer.Option("--population", help="Errors about those whom the rows are a sample of, too."),
    ] = False,
    replicates: Annotated[
        int,
        typer.Option(
            min=2,
            help="For what only the model answers: how many times the release is repeated on tables drawn "
            "from the model. They are kept beside the model file, as MODEL.replicates.",
        ),
    ] = 100,
    json_only: Json = False,
) -> None:
    """Answer queries from a saved model with 95 % intervals, at no privacy cost."""
    from factored_mwem.pipeline.progress import show_count
    from factored_mwem.pipeline.result import Release

    made = Release.load(model)
    with show_count("repeating the release on drawn tables") as told:
        found = [
            made.answer(asked, population=population, replicates=replicates, told=told) for asked in query
        ]
    if json_only:
        print(json.dumps({"answers": [each.to_dict() for each in found]}))
    else:
        print("\n\n".join(each.text() for each in found))
