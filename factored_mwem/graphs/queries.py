"""Queries of a file: cuts that a released graph is asked about, one a line, in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError
from factored_mwem.files import read_text
from factored_mwem.graphs.result import CutAnswer, GraphRelease
from factored_mwem.workload.cuts import Cut

FORM = 'such as {"from": [0, 1], "to": [2, 3]}; without "to", between "from" and the rest'


def read_cuts(path: Path, vertices: Vertices) -> list[Cut]:
    """The cuts of a file of JSON lines. InputError, with the line, where one is none."""
    try:
        lines = read_text(path, "file of cuts").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text") from None
    found = [_cut(f"{path}, line {at}", line, vertices) for at, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise InputError(f"{path} holds no cut")
    return found


def _cut(where: str, line: str, vertices: Vertices) -> Cut:
    try:
        given: Any = json.loads(line)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or "from" not in given or given.keys() - {"from", "to"}:
        raise InputError(f"{where}: must be a cut, {FORM}")
    sides = [given["from"], given.get("to")]
    if any(side is not None and not _names(side) for side in sides) or sides[0] is None:
        raise InputError(f"{where}: a side is a list of vertices")
    try:
        return Cut.of(vertices, *sides)
    except InputError as error:
        why = str(error)
    raise InputError(f"{where}: {why}")


def _names(side: Any) -> bool:
    return isinstance(side, list) and all(isinstance(name, str | int) for name in side)


def answers_table(made: GraphRelease, cuts: Sequence[Cut]) -> pa.Table:
    """A row for each cut, in their order."""
    told: list[CutAnswer] = [made.cut(cut) for cut in cuts]
    columns = {
        name: [getattr(each, name) for each in told]
        for name in ("value", "stderr", "low", "high", "bound", "pairs")
    }
    return pa.table({"query": list(range(1, len(told) + 1)), **columns})
