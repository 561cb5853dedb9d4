"""`fmwem sketch`: how often keys come, of a universe without end: build a sketch, and ask it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from factored_mwem.cli.inputs import Given, addresses, patterns, read_paths, source_of, title
from factored_mwem.cli.options import Json, Tables, takes
from factored_mwem.cli.panels import App
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError

if TYPE_CHECKING:
    from factored_mwem.sparse.build import SketchRequest
    from factored_mwem.sparse.released import Keys, Sketch

sketch_app = App(help="Counts of keys, URLs or words, of an endless universe.")
PANEL = "Sketch"
"""The panel of what is sketched, and how."""
MOST_SHOWN = 40
"""Characters of a query that a person is shown."""


@sketch_app.command("build")
@takes(Group.READING, Group.PRIVACY, Group.BOOKS, Group.CONFIG, without=("columns",))
def build(
    table: Tables,
    settings: ReleaseSettings,
    key: Annotated[
        str, typer.Option("--key", help="Column whose values are counted.", rich_help_panel=PANEL)
    ],
    size: Annotated[
        Optional[int],
        typer.Option(
            min=1,
            help="Rows of the projection.  [default: 131072, with --delta 0 2048]",
            rich_help_panel=PANEL,
        ),
    ] = None,
    independence: Annotated[
        int, typer.Option(min=4, help="Coefficients of the hash polynomial.", rich_help_panel=PANEL)
    ] = 4,
    noise: Annotated[
        str,
        typer.Option(
            metavar="[gaussian|laplace]", help="With --delta 0 it is Laplace's.", rich_help_panel=PANEL
        ),
    ] = "gaussian",
    keys: Annotated[
        Optional[Path],
        typer.Option(
            help="File of all keys there can be, one a line.  [default: any text is a key]",
            rich_help_panel=PANEL,
        ),
    ] = None,
    output: Annotated[
        Optional[str],
        typer.Option(
            "-o",
            "--output",
            help="Sketch file, or a URI.  [default: NAME.sketch]",
            rich_help_panel=Group.OUTPUT.panel,
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace an existing file.", rich_help_panel=Group.OUTPUT.panel),
    ] = False,
    json_only: Json = False,
) -> None:
    """Sketch a column of a private table under differential privacy: a file that answers, for any keys, how
    many records have them. Its cost counts like a release's.
    """
    from factored_mwem.cli import console

    asked = {"size": size, "independence": independence, "noise": noise}
    chosen = settings.model_copy(update={"output": output, "overwrite": overwrite})
    made, facts = built(source_of(table), key, keys, asked, chosen)
    error = made.scale.stddev / made.projection.size**0.5
    said = (
        f"{console.piece(facts['output'])}: {made.statement.promise.statement}\n"
        f"noise of a key's count: +- {error:,.1f} records; the hash adds to it, as each answer says"
    )
    console.closing(facts, said, as_json=json_only)


def built(
    table: Given, column: str, keys: Path | None, asked: dict[str, Any], settings: ReleaseSettings
) -> tuple[Sketch, dict[str, Any]]:
    """Build a sketch and write its file; it and the line for scripts."""
    from factored_mwem.cli.jobs import check_paths
    from factored_mwem.files import IfExists
    from factored_mwem.ledger.run import Booking
    from factored_mwem.sparse.build import SketchRequest, make, opened_for
    from factored_mwem.sparse.sketch_file import save
    from factored_mwem.tables.targets import target_of

    output, exists = target_of(settings.output or f"{title(table)}.sketch"), IfExists(settings.overwrite)
    ledger = settings.ledger.path if settings.ledger is not None else None
    check_paths([output], [*read_paths(table), *addresses(table), keys, ledger], patterns(table))
    booking = Booking(settings.ledger, settings.dataset, settings.run_id)
    if settings.run_id is None:
        output.check(exists)
    listed = None if keys is None else lines_of(keys, "list of keys")
    request: SketchRequest = SketchRequest.of(table, column, settings.policy, keys=listed, **asked)
    with opened_for(request, booking) as task:
        if task.run.goes_on and exists is IfExists.REFUSE:  # an earlier attempt wrote what this one will
            exists = IfExists.VERIFY
        output.check(exists)
        made = make(request, task)
        save(made, output, exists)
        task.run.finish()
    promise = made.statement.promise
    facts = {
        "output": str(output),
        "column": column,
        **made.statement.settings,
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "spent_epsilon": promise.spent_epsilon,
        "unit": promise.unit,
    }
    if booking.ledger:
        facts |= {"dataset": booking.dataset, "run_id": booking.run_id}
    return made, facts


@sketch_app.command("answer")
def answer(
    sketch: Annotated[Path, typer.Argument(help="Sketch file that `fmwem sketch build` wrote.")],
    keys: Annotated[
        Optional[list[str]], typer.Argument(metavar="[KEY...]", help="Keys, each counted on its own.")
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="One answer: how many records have any of the keys.")
    ] = False,
    queries: Annotated[
        Optional[Path],
        typer.Option(
            help='File of queries, one a line in JSON: ["a", "b"], or {"a": 1, "b": 0.5} with weights.'
        ),
    ] = None,
    json_only: Json = False,
) -> None:
    """Answer how often keys come from a saved sketch, with error bars, at no privacy cost."""
    from factored_mwem.cli import console
    from factored_mwem.sparse.released import Sketch

    named = keys or []
    if bool(named) == (queries is not None):
        raise InputError("name keys, or a file of --queries: one of them")
    if together and queries is not None:
        raise InputError("--together is for keys; a line of --queries is one query already")
    made = Sketch.load(sketch)
    asked: list[Keys] = [named] if together else [[key] for key in named]
    if queries is not None:
        asked = queries_of(queries)
    found = made.answers(asked)
    if json_only:
        listed = [_listed(query, each.to_dict()) for query, each in zip(asked, found, strict=True)]
        print(json.dumps({"column": made.column, "answers": listed}))
    else:
        for query, each in zip(asked, found, strict=True):
            print(f"{console.piece(_short(query))}: {each.text()}")


def _listed(query: Keys, facts: dict[str, Any]) -> dict[str, Any]:
    return {"query": query if isinstance(query, dict) else list(query), **facts}


def _short(query: Keys) -> str:
    """A query in few words."""
    text = (
        " + ".join(f"{w:g} {k}" for k, w in query.items()) if isinstance(query, dict) else " + ".join(query)
    )
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def lines_of(path: Path, what: str) -> list[str]:
    """The lines of a text file, without empty ones. InputError where it cannot be read."""
    from factored_mwem.files import read_text

    try:
        text = read_text(path, what)
    except ValueError:
        raise InputError(f"the {what} {path} is not UTF-8 text") from None
    return [line for line in text.replace("\r\n", "\n").split("\n") if line]


def queries_of(path: Path) -> list[Keys]:
    """The queries of a file. InputError, naming the line, for one that is none."""
    found: list[Keys] = []
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
        found.append(query)
    if not found:
        raise InputError(f"{path} holds no query")
    return found
