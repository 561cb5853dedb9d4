"""`fmwem graph`: a private graph in, a synthetic one out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from factored_mwem.cli.inputs import source_of, title
from factored_mwem.cli.options import Json, OverwriteAll, option, output_option, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError

if TYPE_CHECKING:
    from factored_mwem.sessions.graph.publish import PublishedGraph

OUTPUT, PRIVACY, READING = Group.OUTPUT.panel, Group.PRIVACY.panel, Group.READING.panel


@takes(Group.PRIVACY, Group.BOOKS)
def graph(
    edges: Annotated[
        str,
        typer.Argument(
            metavar="EDGES", help="Edge list with a header and a column for each end: CSV, Parquet and so on."
        ),
    ],
    settings: ReleaseSettings,
    vertices: Annotated[
        str,
        option(
            "The public vertex set: a number, for 0 to N-1, or a file with a name a line. Edges with "
            "other vertices are left out.",
            panel=READING,
            metavar="N|FILE",
        ),
    ],
    columns: Annotated[
        Optional[str], option("Columns of the two ends, as A,B.  [default: the first two]", panel=READING)
    ] = None,
    delimiter: Annotated[
        Optional[str],
        option(
            "Text files: the sign between columns, or tab.  [default: as the header shows]", panel=READING
        ),
    ] = None,
    header: Annotated[
        Optional[str],
        option(
            "Text files: none, if the first line is an edge; first, if it names the columns "
            "although it looks like an edge.",
            panel=READING,
            metavar="[first|none]",
        ),
    ] = None,
    names: Annotated[
        Optional[str], option("Text files without a header: the columns' names, as A,B.", panel=READING)
    ] = None,
    delta: Annotated[float, option("Privacy loss delta; 0 adds the least noise here.", panel=PRIVACY)] = 0.0,
    method: Annotated[
        Optional[str],
        option(
            "How a graph is made of the noise: spectral, lp (up to 64 vertices), or noise: no graph is "
            "made, and the noisy weights of all pairs are the output.  [default: spectral]",
            panel=OUTPUT,
            metavar="[lp|spectral|noise]",
        ),
    ] = None,
    output: Annotated[Optional[str], output_option("Edge list.  [default: NAME.synthetic.csv]")] = None,
    weights: Annotated[
        Optional[str], option("Also write the noisy weights of all pairs here.", panel=OUTPUT)
    ] = None,
    queries: Annotated[
        Optional[Path],
        option(
            'File of cuts, one a line: {"from": [0, 1], "to": [2]}. Their answers go to '
            "NAME.answers.csv beside the output.",
            panel=OUTPUT,
        ),
    ] = None,
    sample_seed: Annotated[
        Optional[int], option("Seed of the drawing only: noise has no seed.", panel=OUTPUT, min=0)
    ] = None,
    overwrite: OverwriteAll = False,
    json_only: Json = False,
) -> None:
    """Turn a private graph into a synthetic one under differential privacy of its edges.

    The unit is one edge, however many lines name it; with --contributions K, the edges of one person.
    """
    from factored_mwem.cli import console
    from factored_mwem.cli.jobs import booked, check_files, promised
    from factored_mwem.files.files import IfExists
    from factored_mwem.sessions.graph.publish import publish_graph, read_cuts
    from factored_mwem.sessions.graph.request import GraphRequest
    from factored_mwem.tables.outputs.release_files import RecordFiles, manifest_of
    from factored_mwem.tables.outputs.targets import target_of

    source = source_of([edges])
    named = None if columns is None else [name.strip() for name in columns.split(",")]
    if not vertices:
        raise InputError("--vertices is empty; give their number or a file of their names")
    terms = settings.terms(delta=delta, delimiter=delimiter, header=header, names=names)
    place = target_of(output or f"{title(source)}.synthetic.csv")
    answered = None if queries is None else place.beside(PurePosixPath(place.name).stem + ".answers.csv")
    weighted = None if weights is None else target_of(weights)
    files = RecordFiles(manifest_of(place), place, weighted, answered)
    own = vertices if os.path.isfile(vertices) else None
    check_files(files.all, source, settings, queries, own)
    known: Any = Path(vertices) if own else vertices
    how: Any = method
    request = GraphRequest.of(source, known, **terms, columns=named, method=how, seed=sample_seed)
    cuts = [] if queries is None else read_cuts(queries, request.vertices)
    done = publish_graph(request, settings.booking, files, IfExists(overwrite), cuts)
    settled, written = done.statement.settings, done.statement.output
    assert written is not None  # as of every graph that was written
    facts = {
        "output": str(files.data),
        "manifest": str(files.manifest),
        "rows": written.rows,
        "method": settled["method"],
        "vertices": settled["vertices"],
        **promised(done.statement),
        "unit": done.statement.guarantee.unit,
    }
    more = {"weights": weighted, "answers": answered}
    facts |= {name: str(target) for name, target in more.items() if target is not None}
    facts |= ({"resumed": done.resumed} if done.resumed else {}) | booked(settings, reused=done.reused)
    if console.for_scripts(json_only):
        print(json.dumps(facts), flush=True)
    if not json_only:
        console.say("\n".join(_words(done, facts)))


def _words(done: PublishedGraph, facts: Mapping[str, Any]) -> list[str]:
    """The summary for people."""
    from factored_mwem.cli.console import lined, piece, replaced_text

    promise = done.statement.guarantee
    what = "pairs with their noisy weights" if facts["method"] == "noise" else "edges"
    lines = lined("released", [f"{piece(facts['output'])}: {facts['rows']:,} {what}"])
    lines += lined("beside it", [piece(facts["manifest"])])
    lines += lined("also", [piece(facts[name]) for name in ("weights", "answers") if name in facts])
    delta = f", delta {promise.delta:g}" if promise.delta else ""
    spent = f"epsilon {promise.spent_epsilon:.6g}{delta}, for {promise.unit}"
    lines += lined("spent", [spent if not done.reused else f"nothing now; {spent} when it was made"])
    lines += lined("look at", replaced_text(done.statement))
    lines += lined("rests on", [statement for _, statement in promise.taken_on_trust()])
    return lines
