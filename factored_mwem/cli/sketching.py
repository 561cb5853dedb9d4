"""`fmwem sketch`: how often keys occur, in an infinite universe: build a sketch, and query it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factored_mwem.cli.inputs import source_of, title
from factored_mwem.cli.options import Json, Overwrite, Tables, option, output_option, takes
from factored_mwem.cli.panels import App
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError

if TYPE_CHECKING:
    from factored_mwem.sessions.sketch.released import Keys

sketch_app = App(help="Counts of any keys, such as URLs or words.")
PANEL = "Sketch"
"""The panel for what is sketched, and how."""
MOST_SHOWN = 40
"""Characters of a query that are shown to a person."""


@sketch_app.command("build")
@takes(Group.READING, Group.PRIVACY, Group.BOOKS, Group.CONFIG, without=("columns",))
def build(
    table: Tables,
    settings: ReleaseSettings,
    key: Annotated[str, option("Column whose values are counted.", "--key", panel=PANEL)],
    size: Annotated[
        int | None,
        option("Rows of the projection.  [default: 131072, with --delta 0 2048]", panel=PANEL, min=1),
    ] = None,
    independence: Annotated[int, option("Coefficients of the hash polynomial.", panel=PANEL, min=4)] = 4,
    noise: Annotated[
        str, option("With --delta 0 the noise is always Laplace.", panel=PANEL, metavar="[gaussian|laplace]")
    ] = "gaussian",
    keys: Annotated[
        Path | None,
        option("File of all possible keys, one on each line.  [default: any text is a key]", panel=PANEL),
    ] = None,
    output: Annotated[str | None, output_option("Sketch file, or a URI.  [default: NAME.sketch]")] = None,
    overwrite: Overwrite = False,
    json_only: Json = False,
) -> None:
    """Sketch a column of a private table under differential privacy: a file that answers, for any keys, how
    many records have them. Its cost counts like a release's.
    """
    from factored_mwem.cli.console import closing, piece, replaced_text
    from factored_mwem.cli.jobs import check_files, facts_of
    from factored_mwem.files.files import IfExists
    from factored_mwem.pipeline.publication import Publication, reusable
    from factored_mwem.sessions.sketch.build import SketchRequest, make_sketch
    from factored_mwem.tables.outputs.release_files import RecordFiles
    from factored_mwem.tables.outputs.targets import target_of

    source = source_of(table)
    target = target_of(output or f"{title(source)}.sketch")
    files = RecordFiles(target.beside(f"{target.name}.manifest.json"), target)
    check_files(files.all, source, settings, keys)
    listed = None if keys is None else lines_of(keys, "list of keys")
    shape: dict[str, Any] = {"size": size, "independence": independence, "noise": noise}
    request = SketchRequest.of(source, key, keys=listed, **shape, **settings.terms())
    place = Publication(files, IfExists(overwrite), settings.booking)
    with request.spending.booked(settings.booking) as run:
        reused = reusable(run, files)
        with place.of(run):
            sketch = make_sketch(request, run)
            record = place.put(target, lambda exists: sketch.save(target, exists=exists), sketch.statement)
    facts = {"output": str(target), "manifest": str(files.manifest), "column": key, **record.settings}
    error = sketch.scale.stddev / sketch.projection.size**0.5
    lines = [
        f"{piece(target)}: {record.guarantee.statement}",
        f"noise of a key's count: +- {error:,.1f} records; the hash adds to it, as each answer says",
        *replaced_text(record),
    ]
    closing(facts | facts_of(record, settings, reused=reused), lines, as_json=json_only)


@sketch_app.command("answer")
def answer(
    sketch: Annotated[Path, typer.Argument(help="Sketch file that `fmwem sketch build` wrote.")],
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY...]", help="Keys, each counted on its own.")
    ] = None,
    together: Annotated[
        bool, option("One answer: how many records have any of the keys.", "--together")
    ] = False,
    queries: Annotated[
        Path | None,
        option('File of queries, one a line in JSON: ["a", "b"], or {"a": 1, "b": 0.5} with weights.'),
    ] = None,
    json_only: Json = False,
) -> None:
    """Answer from a saved sketch how often keys occur, with error bars, at no privacy cost."""
    from factored_mwem.cli.console import piece
    from factored_mwem.sessions.sketch.released import Sketch

    if bool(keys) == (queries is not None):
        raise InputError("name keys, or a file of --queries: one of them")
    if together and queries is not None:
        raise InputError("--together is for keys; a line of --queries is one query already")
    loaded = Sketch.load(sketch)
    wanted: list[Keys] = []
    if queries is not None:
        wanted = queries_of(queries)
    elif keys:
        wanted = [keys] if together else [[key] for key in keys]
    answers = list(zip(wanted, loaded.answers(wanted), strict=True))
    if json_only:
        listed = [{"query": query, **each.to_dict()} for query, each in answers]
        print(json.dumps({"column": loaded.column, "answers": listed}))
    else:
        print("\n".join(f"{piece(_short(query))}: {each.text()}" for query, each in answers))


def _short(query: Keys) -> str:
    """A query in few words."""
    text = (
        " + ".join(f"{w:g} {k}" for k, w in query.items()) if isinstance(query, dict) else " + ".join(query)
    )
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def lines_of(path: Path, what: str) -> list[str]:
    """The lines of a text file, without empty ones. Raises InputError if it cannot be read."""
    from factored_mwem.files.files import read_text

    try:
        text = read_text(path, what)
    except ValueError:
        raise InputError(f"the {what} {path} is not UTF-8 text") from None
    return [line for line in text.replace("\r\n", "\n").split("\n") if line]


def queries_of(path: Path) -> list[Keys]:
    """The queries of a file. Raises InputError, which names the line, if one is no query."""
    listed: list[Keys] = []
    for number, line in enumerate(lines_of(path, "file of queries"), start=1):
        try:
            query = json.loads(line)
        except (ValueError, RecursionError):
            query = None
        fits = isinstance(query, dict) or (
            isinstance(query, list) and all(isinstance(key, str) for key in query)
        )
        if not fits:
            raise InputError(f"{path}, query {number}: must be a list of keys, or keys with weights, in JSON")
        listed.append(query)
    if not listed:
        raise InputError(f"{path} holds no query")
    return listed
