"""`fmwem answer` and `fmwem sample`: answers and rows from a saved model, at no privacy cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from factored_mwem.cli.options import Json, of_rows, option, output_option, takes
from factored_mwem.cli.settings import FLAGS, Group, ReleaseSettings
from factored_mwem.cli.sparing import spare_imports
from factored_mwem.errors import InputError, shown


class SampleUnit(StrEnum):
    """The unit that `-n` counts."""

    ROWS = "rows"
    PEOPLE = "people"


Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Model file that `fmwem release` wrote, or the rows beside it.",
        callback=of_rows(".fmwem"),
    ),
]


def answer(
    model: Model,
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
        bool, option("Add the error of sampling: the rows are a sample of a population.", "--population")
    ] = False,
    replicates: Annotated[
        int,
        option(
            "For what only the model answers: how many times the release is repeated on tables drawn "
            "from the model. They are kept beside the model file, as MODEL.replicates.",
            min=2,
        ),
    ] = 12,
    json_only: Json = False,
) -> None:
    """Answer queries from a saved model with 95 % intervals, at no privacy cost."""
    spare_imports()
    from factored_mwem.pipeline.progress import show_count
    from factored_mwem.pipeline.result import Release

    release = Release.load(model)
    answers = []
    with show_count("repeating the release on drawn tables") as step:
        for each in query:
            try:
                made = release.answer(each, population=population, replicates=replicates, report=step)
            except InputError as why:
                raise InputError(f"{shown(each)}: {why}" if len(query) > 1 else str(why)) from None
            answers.append(made)
    if json_only:
        print(json.dumps({"answers": [each.to_dict() for each in answers]}))
    else:
        print("\n\n".join(each.text() for each in answers))


@takes(Group.SAMPLING)
def sample(
    model: Model,
    settings: ReleaseSettings,
    n: Annotated[
        int | None,
        option(
            "Rows to draw, or people: see --unit.",
            "-n",
            "--rows",
            panel=Group.OUTPUT,
            min=0,
            max=FLAGS["rows"].most,
        ),
    ] = None,
    where: Annotated[
        str | None,
        option('Only rows that meet a condition, such as "age >= 65 and sex = Female".', "--where"),
    ] = None,
    given: Annotated[
        str | None,
        option("A file of known rows: empty cells and columns that it lacks are drawn.", "--given"),
    ] = None,
    balance: Annotated[
        str | None, option("A column whose values are to be equally frequent.", "--balance")
    ] = None,
    unit: Annotated[
        SampleUnit,
        option(
            "What -n counts: rows or, for a release of people, people, each with all of their rows.",
            "--unit",
            panel=Group.OUTPUT,
        ),
    ] = SampleUnit.ROWS,
    output: Annotated[
        str | None,
        output_option(
            "Output file, or a folder of Parquet parts if it ends in /; either may be a URI.  "
            "[default: MODEL.sample.parquet]"
        ),
    ] = None,
    json_only: Json = False,
) -> None:
    """Draw more rows from a saved model, at no privacy cost."""
    from factored_mwem.cli import console
    from factored_mwem.cli.drawing import SampleChoices, draw, draw_tables
    from factored_mwem.pipeline.saving.model_file import is_package

    people = unit is SampleUnit.PEOPLE
    choices = SampleChoices(rows=n, people=people, where=where, balance=balance, given=given)
    if is_package(model):
        facts = draw_tables(model, choices, output or f"{model.stem}.sample/", settings)
        drawn = ", ".join(f"{rows:,} rows of {console.piece(name)}" for name, rows in facts["tables"].items())
        return console.closing(facts, [f"{drawn} in {facts['output']}; nothing was spent"], as_json=json_only)
    facts = draw(model, choices, output or f"{model.stem}.sample.parquet", settings)
    whose = f" of {n:,} made-up {'person' if n == 1 else 'people'}" if people else ""
    first = f"{facts['rows']:,} rows{whose} in {console.piece(facts['output'])}; nothing was spent"
    console.closing(facts, [first, *_about_drawn(facts)], as_json=json_only)


def _about_drawn(facts: Mapping[str, Any]) -> Iterator[str]:
    """What a reader should know of rows that meet a condition, or complete known ones."""
    if "probability" in facts:
        yield f"the model gives the condition probability {facts['probability']:.3g}"
    if facts.get("contradicted"):
        yield (
            f"{facts['contradicted']:,} of the known rows hold values that the model never, or hardly ever, "
            "has together: what was drawn for these rows does not depend on all of their known values"
        )
