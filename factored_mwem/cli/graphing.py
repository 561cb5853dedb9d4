"""`fmwem graph`: a private graph in, a synthetic one out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from factored_mwem.cli.inputs import addresses, patterns, read_paths, source_of, title
from factored_mwem.cli.options import Json, takes
from factored_mwem.cli.settings import Group, ReleaseSettings
from factored_mwem.errors import InputError

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
        typer.Option(
            metavar="N|FILE",
            help="The public vertex set: a number, for 0 to N-1, or a file with a name a line. Edges with "
            "other vertices are left out.",
            rich_help_panel=READING,
        ),
    ],
    columns: Annotated[
        Optional[str],
        typer.Option(
            help="Columns of the two ends, as A,B.  [default: the first two]", rich_help_panel=READING
        ),
    ] = None,
    delimiter: Annotated[
        Optional[str],
        typer.Option(
            help="Text files: the sign between columns, or tab.  [default: as the header shows]",
            rich_help_panel=READING,
        ),
    ] = None,
    delta: Annotated[
        float,
        typer.Option(help="Privacy loss delta; 0 adds the least noise here.", rich_help_panel=PRIVACY),
    ] = 0.0,
    method: Annotated[
        Optional[str],
        typer.Option(
            metavar="[lp|spectral|noise]",
            help="How a graph is made of the noise: lp (up to 64 vertices), spectral, or noise: none is, and "
            "the noisy weights of all pairs are the output.  [default: lp where it can, else spectral]",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    output: Annotated[
        Optional[str],
        typer.Option(
            "-o", "--output", help="Edge list.  [default: NAME.synthetic.csv]", rich_help_panel=OUTPUT
        ),
    ] = None,
    weights: Annotated[
        Optional[str],
        typer.Option(help="Also write the noisy weights of all pairs here.", rich_help_panel=OUTPUT),
    ] = None,
    queries: Annotated[
        Optional[Path],
        typer.Option(
            help='File of cuts, one a line: {"from": [0, 1], "to": [2]}. Their answers go to '
            "NAME.answers.csv beside the output.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    sample_seed: Annotated[
        Optional[int],
        typer.Option(help="Seed of the drawing only: noise has no seed.", min=0, rich_help_panel=OUTPUT),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing files.", rich_help_panel=OUTPUT)
    ] = False,
    json_only: Json = False,
) -> None:
    """Turn a private graph into a synthetic one under differential privacy of its edges.

    The unit is one edge, however many lines name it; with --contributions K, the edges of one person.
    """
    from factored_mwem.cli import console
    from factored_mwem.cli.graph_job import run_graph
    from factored_mwem.policy import Policy

    given = source_of([edges])
    chosen: dict[str, Any] = {
        name: getattr(settings.policy, name) for name in settings.policy.model_fields_set
    }
    policy = Policy.of(**{**chosen, "delta": delta, "delimiter": delimiter, "records": "lines"})
    named = None if columns is None else [name.strip() for name in columns.split(",")]
    if not vertices:
        raise InputError("--vertices is empty; give their number or a file of their names")
    facts, words = run_graph(
        given,
        vertices,
        policy,
        settings,
        {"columns": named, "method": method, "seed": sample_seed},
        {
            "output": output or f"{title(given)}.synthetic.csv",
            "weights": weights,
            "queries": queries,
            "overwrite": overwrite,
            "read": [*read_paths(given), *addresses(given), queries],
            "globs": patterns(given),
        },
    )
    if console.for_scripts(json_only):
        print(json.dumps(facts), flush=True)
    if not json_only:
        console.say(words)
