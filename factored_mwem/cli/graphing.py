"""`fmwem graph`: a private graph in, a synthetic one out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factored_mwem.cli.inputs import source_of, title
from factored_mwem.cli.options import Json, Overwrite, option, output_option, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError

if TYPE_CHECKING:
    from factored_mwem.sessions.graph.publish import PublishedGraph

VALUES = ("lines", "decimal", "date_format", "time_zone", "missing")
"""Settings that say how values are written, which names of vertices have no need of."""


EdgeTable = Annotated[
    str,
    typer.Argument(
        metavar="EDGES", help="Edge list with a header and a column for each end: CSV, Parquet and so on."
    ),
]
Vertices = Annotated[
    str,
    option(
        "The public vertex set: a number, for 0 to N-1, or a file with a name a line. Edges with "
        "other vertices are left out.",
        panel=Group.READING,
        metavar="N|FILE",
    ),
]
Ends = Annotated[
    str | None, option("Columns of the two ends, as A,B.  [default: the first two]", panel=Group.READING)
]
Delta = Annotated[float, option("Privacy loss delta; 0 adds the least noise here.", panel=Group.PRIVACY)]
Method = Annotated[
    str | None,
    option(
        "How a graph is made of the noise: spectral, lp (up to 64 vertices), or noise: no graph is "
        "made, and the noisy weights of all pairs are the output.  [default: spectral]",
        panel=Group.OUTPUT,
        metavar="[lp|spectral|noise]",
    ),
]
EdgeList = Annotated[str | None, output_option("Edge list.  [default: NAME.synthetic.csv]")]
Weights = Annotated[str | None, option("Also write the noisy weights of all pairs here.", panel=Group.OUTPUT)]
CutFile = Annotated[
    Path | None,
    option(
        'File of cuts, one a line: {"from": [0, 1], "to": [2]}. Their answers go to '
        "NAME.answers.csv beside the output.",
        panel=Group.OUTPUT,
    ),
]
Seed = Annotated[
    int | None, option("Seed of the drawing only: noise has no seed.", panel=Group.OUTPUT, min=0)
]


@takes(Group.PRIVACY, Group.READING, Group.BOOKS, without=VALUES)
def graph(
    edges: EdgeTable,
    settings: ReleaseSettings,
    vertices: Vertices,
    columns: Ends = None,
    delta: Delta = 0.0,
    method: Method = None,
    output: EdgeList = None,
    weights: Weights = None,
    queries: CutFile = None,
    sample_seed: Seed = None,
    overwrite: Overwrite = False,
    json_only: Json = False,
) -> None:
    """Turn a private graph into a synthetic one under differential privacy of its edges.

    The unit is one edge, however many lines name it; with --contributions K, the edges of one person.
    """
    from factored_mwem.cli.console import closing
    from factored_mwem.cli.jobs import check_files, facts_of
    from factored_mwem.files.files import IfExists
    from factored_mwem.sessions.graph.publish import publish_graph, read_cuts
    from factored_mwem.sessions.graph.request import GraphRequest
    from factored_mwem.tables.outputs.release_files import RecordFiles, manifest_of
    from factored_mwem.tables.outputs.targets import target_of

    source = source_of([edges])
    if not vertices:
        raise InputError("--vertices is empty; give their number or a file of their names")
    ends = None if columns is None else [name.strip() for name in columns.split(",")]
    terms = settings.terms(delta=delta)
    place = target_of(output or f"{title(source)}.synthetic.csv")
    answered = None if queries is None else place.beside(PurePosixPath(place.name).stem + ".answers.csv")
    weighted = None if weights is None else target_of(weights)
    files = RecordFiles(manifest_of(place), place, weighted, answered)
    list_of_names = Path(vertices) if os.path.isfile(vertices) else None
    check_files(files.all, source, settings, queries, list_of_names)
    kind: Any = method
    request = GraphRequest.of(
        source, list_of_names or vertices, **terms, columns=ends, method=kind, seed=sample_seed
    )
    cuts = [] if queries is None else read_cuts(queries, request.vertices)
    done = publish_graph(request, settings.booking, files, IfExists(overwrite), cuts)
    written = done.statement.output
    assert written is not None  # as of every graph that was written
    facts = {
        "output": str(files.data),
        "manifest": str(files.manifest),
        "rows": written.rows,
        **{name: done.statement.settings[name] for name in ("method", "vertices")},
        **{name: str(file) for name, file in files.by_role.items() if name in ("weights", "answers")},
        **facts_of(done.statement, settings, reused=done.reused),
        **({"resumed": done.resumed} if done.resumed else {}),
    }
    closing(facts, _summary(done, facts), as_json=json_only)


def _summary(done: PublishedGraph, facts: Mapping[str, Any]) -> list[str]:
    """The closing lines for people."""
    from factored_mwem.cli.console import lined, piece, replaced_text

    promise = done.statement.guarantee
    what = "pairs with their noisy weights" if facts["method"] == "noise" else "edges"
    delta = f", delta {promise.delta:g}" if promise.delta else ""
    spent = f"epsilon {promise.spent_epsilon:.6g}{delta}, for {promise.unit}"
    return [
        *lined("released", [f"{piece(facts['output'])}: {facts['rows']:,} {what}"]),
        *lined("beside it", [piece(facts["manifest"])]),
        *lined("also", [piece(facts[name]) for name in ("weights", "answers") if name in facts]),
        *lined("spent", [f"nothing now; {spent} when it was released" if done.reused else spent]),
        *lined("look at", replaced_text(done.statement)),
        *lined("rests on", [statement for _, statement in promise.taken_on_trust()]),
    ]
