"""Edge list: the records of a private table as the set of vertex pairs that they name.

The set is a stable image of the records: one record more or less changes it by at most one pair, whatever the
record's bytes are. Proof. A record is a function of its own bytes (see `privacy/__init__.py`, The door), and
so is its pair: each of its two cells is looked up in the vertex set, which is public, and where one is no
vertex, cannot be read, or both are the same vertex, the record names no pair, and nothing is said of it. The
set is the union of the records' pairs. A union that gains one member set of at most one pair gains at most
that pair; one that loses it loses at most that pair. So inputs that differ in k records have sets that differ
in at most k pairs. More is true: however many records name a pair, in whatever order of its ends, taking all
of them away changes the set by that one pair, so the promise to a record is a promise to the edge.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError
from factored_mwem.tables.codes.parsing import is_text, plain, spelt, value_type
from factored_mwem.tables.inputs.table import Table, Visible

KEPT = 2**22
"""Pairs that may wait before they are merged with those found before."""


def end_columns(table: Visible, vertices: Vertices, columns: Sequence[str] | None) -> tuple[str, str]:
    """The two columns that name an edge's ends: those named, or the first two. Raises InputError if there are
    not two, one is of a type that names no vertices, or the header is an edge itself. Reads names and types
    only.
    """
    names = list(columns) if columns is not None else table.schema.names[:2]
    if len(names) != 2 or names[0] == names[1]:
        raise InputError("an edge list needs two columns, one for each end; name them with --columns A,B")
    for name in names:
        table.check_column(name)
        kind = value_type(table.schema.field(name).type)
        if not (is_text(kind) or pa.types.is_integer(kind)):
            what = f"column {name!r} is {spelt(kind)}"
            raise InputError(f"{what}, which names no vertices; make it text or integers")
    if table.text and all(name.strip() in vertices.known for name in names):
        raise InputError(
            "the first line is taken for the header, which is public, but both its names are vertices; put a "
            "header line before it, such as from,to"
        )
    return names[0], names[1]


def read_edges(table: Table, vertices: Vertices, columns: tuple[str, str]) -> np.ndarray:
    """int64[edge]: the distinct pairs that the records name, by their numbers, ascending. One pass."""
    edges, waiting, held = np.zeros(0, dtype=np.int64), list[np.ndarray](), 0
    for batch in table.batches(columns):
        pairs = _pairs(batch, vertices)
        waiting.append(pairs)
        held += len(pairs)
        if held > KEPT:
            edges, waiting, held = np.unique(np.concatenate([edges, *waiting])), [], 0
    return np.unique(np.concatenate([edges, *waiting]))


def _pairs(batch: pa.RecordBatch, vertices: Vertices) -> np.ndarray:
    """int64[pair]: those of a batch's records, for as many of them as name one."""
    first, second = (_numbers(column, vertices) for column in batch.columns)
    named = (first >= 0) & (second >= 0) & (first != second)
    first, second = first[named], second[named]
    return np.unique(vertices.pair_numbers(np.minimum(first, second), np.maximum(first, second)))


def _numbers(column: pa.Array, vertices: Vertices) -> np.ndarray:
    """int64[record]: the vertex that each cell names, -1 for none. A number is spelt without a sign and
    without leading zeros; blanks around a name do not count.
    """
    column = plain(column)
    text = pc.utf8_trim_whitespace(column) if is_text(column.type) else column.cast(pa.string())
    index = pc.index_in(text, value_set=vertices.listed, skip_nulls=True)
    return pc.fill_null(index, -1).to_numpy(zero_copy_only=False).astype(np.int64)
