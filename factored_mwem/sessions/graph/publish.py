"""Publish: a released graph and its files, the record last; and the cuts asked of it, one on each line of a
file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists, read_text
from factored_mwem.ledger.run import Booking
from factored_mwem.pipeline.publication import Publication
from factored_mwem.pipeline.record.statement import Output, Statement
from factored_mwem.sessions.graph.release import make_graph
from factored_mwem.sessions.graph.request import GraphRequest
from factored_mwem.sessions.graph.result import GraphRelease
from factored_mwem.tables.outputs.formats import check_format, write_batches
from factored_mwem.tables.outputs.release_files import RecordFiles
from factored_mwem.tables.outputs.targets import Target
from factored_mwem.workload.cuts import Cut

FORM = 'such as {"from": [0, 1], "to": [2, 3]}; without "to", between "from" and the rest'


@dataclass(frozen=True, slots=True)
class PublishedGraph:
    """The files in place. `reused`: the run had been finished before, and its files are unchanged."""

    statement: Statement
    reused: bool
    resumed: int = 0


def publish_graph(
    request: GraphRequest, booking: Booking, files: RecordFiles, exists: IfExists, cuts: Sequence[Cut]
) -> PublishedGraph:
    """Release and write: all pairs' noisy weights, answers to cuts (both if asked for), edge list, record."""
    for target in (files.data, files.weights, files.answers):
        if target is not None:
            check_format(target)
    place = Publication(files, exists, booking)
    with request.spending.booked(booking) as run:
        if (before := place.reused(run)) is not None:
            return PublishedGraph(before, reused=True)
        with place.of(run):
            graph = make_graph(request, run)
            place.replacing()
            edges, output = graph.to_arrow(), files.data
            assert output is not None
            if files.weights is not None:
                _write(place, files.weights, graph.pairs_to_arrow())
            if files.answers is not None:
                _write(place, files.answers, answers_table(graph, cuts))
            digest = _write(place, output, edges)
            statement = place.record(
                graph.statement, Output(file=output.name, rows=edges.num_rows, sha256=digest)
            )
        return PublishedGraph(statement, reused=False, resumed=run.resumed)


def _write(place: Publication[RecordFiles], target: Target, table: pa.Table) -> str:
    with place.putting(target):
        batches = table.to_batches(max_chunksize=2**16)
        return write_batches(target, table.schema, batches, exists=place.exists)


def read_cuts(path: Path, vertices: Vertices) -> list[Cut]:
    """The cuts of a file of JSON lines. Raises InputError, which names the line, if one is no cut."""
    try:
        lines = read_text(path, "file of cuts").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text") from None
    cuts = [_cut(f"{path}, line {at}", line, vertices) for at, line in enumerate(lines, 1) if line.strip()]
    if not cuts:
        raise InputError(f"{path} holds no cut")
    return cuts


def _cut(where: str, line: str, vertices: Vertices) -> Cut:
    try:
        query: Any = json.loads(line)
    except (ValueError, RecursionError):
        query = None
    if not isinstance(query, dict) or "from" not in query or query.keys() - {"from", "to"}:
        raise InputError(f"{where}: must be a cut, {FORM}")
    sides = [query["from"], query.get("to")]
    if any(side is not None and not _names(side) for side in sides) or sides[0] is None:
        raise InputError(f"{where}: a side is a list of vertices")
    try:
        return Cut.of(vertices, *sides)
    except InputError as error:
        why = str(error)
    raise InputError(f"{where}: {why}")


def _names(side: Any) -> bool:
    return isinstance(side, list) and all(isinstance(name, str | int) for name in side)


def answers_table(graph: GraphRelease, cuts: Sequence[Cut]) -> pa.Table:
    """A row for each cut, in their order."""
    estimates = [graph.cut(cut) for cut in cuts]
    columns = {
        name: [getattr(each, name) for each in estimates]
        for name in ("value", "stderr", "low", "high", "bound", "pairs")
    }
    return pa.table({"query": list(range(1, len(estimates) + 1)), **columns})
