"""Source: any input as a Table. Every input comes by here: files are found in `places` and opened in
`opened`, objects are opened here. What a CSV file does not need is loaded when something else is read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from factored_mwem.domain.dialect import OUR_OWN, PLAIN, Dialect
from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.arrow_input import (
    MAX_BATCH_ROWS,
    DatasetFiles,
    is_of,
    opened,
    reason,
    typed_table,
    unquoted,
    whole_table,
)
from factored_mwem.tables.inputs.formats import BY_ENDING, TEXT_SUFFIXES
from factored_mwem.tables.inputs.opened import open_places
from factored_mwem.tables.inputs.places import LakeFolder, is_place, places_of, without_query
from factored_mwem.tables.inputs.table import Private, Table, Visible
from factored_mwem.tables.inputs.text_form import Reading, Records
from factored_mwem.tables.inputs.uris import STANDARD_INPUT, is_database, is_uri, shown

if TYPE_CHECKING:
    from factored_mwem.tables.inputs.streams import Query

__all__ = ["Private", "Table", "Visible", "is_text_file", "open_table"]
ICEBERG = ".metadata.json"
"""How the files end that an Iceberg table is named by."""


def is_text_file(source: Any) -> bool:
    """Whether something names a text file, or several."""
    if not is_place(source):
        return False
    try:
        return places_of(source)[0].suffix in TEXT_SUFFIXES
    except (InputError, OSError, ValueError):  # which opening will say
        return False


def open_table(
    source: Any,
    records: Records = "checked",
    dialect: Dialect = PLAIN,
    names: Sequence[str] | None = None,
    folder: Path | None = None,
) -> Table:
    """A path or URI, a folder, a glob or a list of them, a pyarrow object, any data frame or stream as a
    Table, read on demand.

    `records` as in Policy, `dialect`: how a text file is written; `names`: the columns of JSON lines;
    `folder`: for what a stream must leave on disk.
    """
    if isinstance(source, Table):
        return source
    reading = Reading(records, dialect, names)
    if isinstance(source, str | Path) and str(source) == STANDARD_INPUT:
        table = _open_piped(reading, folder)
    elif is_database(source):
        from factored_mwem.tables.inputs.databases import database_query

        table = _table_of(database_query(source), folder)
    elif is_place(source):
        where = _shown(source) if isinstance(source, str | Path) else "the files"
        table = opened(where, lambda: _open_path(source, reading))
    else:
        table = _open_object(source, folder)
    table = _checked(table)
    if records != "checked" and not table.text:
        how = f"--{records} says how the lines of a text file are read"
        raise InputError(f"{how}; leave it out with a typed table")
    if dialect not in (PLAIN, OUR_OWN) and not table.text:
        flag = next(name for name in type(dialect).model_fields if getattr(dialect, name) is not None)
        how = f"--{flag.replace('_', '-')}, or the domain file's dialect, says how a text file is written"
        raise InputError(f"{how}; leave it out with a typed table")
    return table


def _table_of(query: Query, folder: Path | None) -> Table:
    """What somebody else's library makes, as a table that is read once; `folder` is for its record."""
    from factored_mwem.tables.inputs.streams import Stream

    stream = Stream(query, folder)
    return Table(stream.schema, False, stream)


def _checked(table: Table) -> Table:
    """The table, once its names will do."""
    try:
        names = table.schema.names
    except UnicodeDecodeError:
        raise InputError("the name of a column is not UTF-8 text; rename it") from None
    if not names:
        raise InputError("the table has no columns")
    if "" in names:
        raise InputError(f"column {names.index('') + 1} of the table has no name; give it one")
    if any("\0" in name for name in names):
        raise InputError(
            "the name of a column holds a NUL character; is the table UTF-16? Convert it to UTF-8 (for "
            "example with iconv)"
        )
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(f"the table has two columns named {twice[0]!r}; rename one")
    return _nulls_as_text(table)


def _nulls_as_text(table: Table) -> Table:
    """A column without a value yet counts as text: its own type is one that the first value would change."""
    if not any(pa.types.is_null(kind) for kind in table.schema.types):
        return table
    fields = [f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in table.schema]
    schema = pa.schema(fields)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in table.read(columns):
            cells = (c.cast(pa.string()) if pa.types.is_null(c.type) else c for c in batch.columns)
            yield pa.RecordBatch.from_arrays(list(cells), names=list(columns))

    return replace(table, schema=schema, read=read)


def _open_object(source: Any, folder: Path | None) -> Table:
    import pyarrow.dataset as ds

    if is_of(source, "deltalake", "DeltaTable"):
        from factored_mwem.tables.inputs.delta import open_delta

        return open_delta(source)
    if is_of(source, "pyiceberg.table", "Table", "DataScan"):
        from factored_mwem.tables.inputs.iceberg import open_iceberg

        return open_iceberg(source)
    if isinstance(source, ds.Dataset):
        origin = DatasetFiles(source)
        return typed_table(
            "the dataset", source.schema, lambda names: source.to_batches(columns=names), origin
        )
    from factored_mwem.tables.inputs.streams import query_of

    query = query_of(source)
    if query is not None:
        return _table_of(query, folder)
    what = f"the {type(source).__name__}"  # which may be a query not yet run
    otherwise = "its library cannot turn it into Arrow columns"
    table = unquoted(
        lambda: whole_table(source),
        lambda error: InputError(f"cannot read {what}: {reason(error, otherwise)}"),
    )
    passes = lambda names: iter(table.select(names).to_batches(MAX_BATCH_ROWS))  # noqa: E731
    return typed_table("the table", table.schema, passes)


def _open_piped(reading: Reading, folder: Path | None) -> Table:
    """What comes through standard input."""
    from factored_mwem.tables.inputs.streams import begins_as_arrow_stream, known_query, piped

    pipe = sys.stdin.buffer

    def table() -> Table:
        if begins_as_arrow_stream(pipe):
            query = known_query(pa.ipc.open_stream(pipe))
            return _table_of(query._replace(kind="Arrow stream on standard input"), folder)
        file, suffix = piped(pipe, folder)
        return BY_ENDING[suffix].open(file, reading)

    return opened("standard input", table, "it is damaged, or not what its first bytes say")


def _open_path(source: Any, reading: Reading) -> Table:
    """Files, or the table of a lake, by what names it."""
    alone = isinstance(source, str | Path)
    if alone and str(source).endswith(ICEBERG):
        from factored_mwem.tables.inputs.iceberg import open_iceberg

        return open_iceberg(_address(source), _shown(source))
    try:
        places = places_of(source)
    except LakeFolder as folder:
        if not (alone and folder.opens):
            raise
    else:
        return open_places(places, reading)
    from factored_mwem.tables.inputs.delta import open_delta

    return open_delta(_address(source), _shown(source))


def _shown(source: str | Path) -> str:
    return shown(source) if isinstance(source, str) and is_uri(source) else str(source)


def _address(source: str | Path) -> str:
    """What a lake's own library is told, which finds keys and servers by itself."""
    address, query = without_query(str(source)) if is_uri(source) else (str(source), "")
    if query:
        how = "set what it says by the library's own variables, or open the table in Python"
        raise InputError(f"{shown(address)}: tables of a lake take no `?`; {how}")
    return address
