"""Streams: tables that come from a query or through a pipe, batch by batch, and are never held whole.

Whatever is no file and no memory of ours may give other rows, or the same in another order, when it is read
again: rows chosen by their place would then be others. So a stream is read *once*. A pass that no other
follows takes the batches as they come; any other is recorded, in a file without a name, and read from there.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from factored_mwem.errors import FmwemError, InputError
from factored_mwem.files.files import write_whole
from factored_mwem.tables.inputs.arrow_input import MAX_BATCH_ROWS, is_of, reason, sound_batches, unquoted
from factored_mwem.tables.inputs.input_file import InputFile, full, nameless

FAILED = "its library stopped with an error; run it there to see which"
"""Of a query: the library's own message may quote a row."""
ARROW_STREAM = b"\xff\xff\xff\xff"
"""How an Arrow IPC stream begins. It alone is read as it comes: anything else as a file."""
MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\x1f\x8b": ".csv.gz"}
"""The suffix of what begins so; all else is text."""
BLOCK_BYTES = 1 << 20


class Query(NamedTuple):
    """A table that somebody else's library makes."""

    kind: str
    """What messages call it."""
    schema: pa.Schema
    start: Callable[[list[str]], Iterable[pa.RecordBatch]]
    """Starts it, for some columns at least."""


class Stream:
    """Passes over a query that runs once: what `Table.read` is of a stream."""

    def __init__(self, query: Query, folder: Path | None = None) -> None:
        """`folder`: where the record is kept, where one is needed."""
        # a column without a value yet counts as text: see open_table
        fields = [f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in query.schema]
        self.schema = pa.schema([field.remove_metadata() for field in fields])
        self._query, self._folder, self._begun = query, folder, False
        self._record: InputFile | None = None

    def __call__(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """A pass that others may follow: all columns are recorded in the first, whatever it asks for."""
        if self._record is None:
            self._record = self._recorded()
        at = [self.schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=at)
        for batch in pa.ipc.open_stream(self._record.arrow(), options=options):
            yield batch.select(list(columns))

    def once(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """A pass that none follows."""
        return self._batches(list(columns)) if self._record is None else self(columns)

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        what = f"the {self._query.kind}"
        if self._begun:
            raise InputError(f"{what} was read before, and its rows are gone; give a new one")
        self._begun = True
        yield from in_own_words(what, sound_batches(what, lambda: self._fitting(columns)))

    def _fitting(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Batches of these columns and the types that were said beforehand, of a bounded number of rows."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        for batch in self._query.start(columns):
            for at in range(0, batch.num_rows, MAX_BATCH_ROWS):
                chosen = batch.slice(at, MAX_BATCH_ROWS).select(columns).columns
                pairs = zip(chosen, schema.types, strict=True)
                cells = [cell if cell.type == kind else cell.cast(kind) for cell, kind in pairs]
                yield pa.RecordBatch.from_arrays(cells, schema=schema)

    def _recorded(self) -> InputFile:
        """All rows, in a file without a name. Raises Busy if the disk is full."""
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        try:
            handle = nameless(self._folder, ".rows")
            record = InputFile(Path("the record"), handle=handle)
            with (
                os.fdopen(os.dup(handle), "wb") as sink,
                pa.ipc.new_stream(sink, self.schema, options=options) as writer,
            ):
                for batch in self._batches(self.schema.names):
                    writer.write_batch(batch)
        except OSError as error:
            why = error.strerror or "it cannot be written"
        else:
            return record
        raise full("rows", self._folder, why)


def in_own_words(what: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; whatever a library raises over them becomes one line, and its own words go nowhere."""
    try:
        yield from batches
        return
    except (FmwemError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a query may fail in any way, and its error quote a row
        why = reason(error, FAILED)
    raise InputError(f"cannot read {what}: {why}")


def query_of(source: Any) -> Query | None:
    """The query behind a lazy frame, a relation, an expression, a cursor or a reader; None for anything else.
    Reads no row. Raises InputError if it cannot be asked for its columns.
    """
    import narwhals.stable.v2 as nw

    native = nw.to_native(source, pass_through=True)
    opener = next((opener for is_one, opener in _KINDS if is_one(native)), None)
    if opener is None:
        return None
    what = f"the {type(native).__name__}"
    return unquoted(
        lambda: opener(native), lambda error: InputError(f"cannot read {what}: {reason(error, FAILED)}")
    )


def known_query(source: Any) -> Query:
    """The query behind what is one for sure."""
    query = query_of(source)
    assert query is not None
    return query


def _of_polars(frame: Any) -> Query:
    import polars as pl

    def start(columns: list[str]) -> Iterator[pa.RecordBatch]:
        chosen = frame.select(columns)
        for part in chosen.collect_batches(chunk_size=MAX_BATCH_ROWS, lazy=True, engine="streaming"):
            yield from part.to_arrow().to_batches()

    return Query("LazyFrame", pl.DataFrame(schema=frame.collect_schema()).to_arrow().schema, start)


def _of_duckdb(relation: Any) -> Query:
    def start(columns: list[str]) -> Iterable[pa.RecordBatch]:
        return _reader(relation.project(", ".join(map(quoted, columns))))

    return Query("DuckDB relation", _reader(relation.limit(0)).schema, start)


def _reader(relation: Any) -> pa.RecordBatchReader:
    """Its name before DuckDB 2 was another."""
    start = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return start(MAX_BATCH_ROWS)


def quoted(name: str) -> str:
    """A name as standard SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _of_ibis(expression: Any) -> Query:
    import ibis

    table, backend = expression.as_table(), expression.get_backend()
    if backend.name == "duckdb":  # its own stream calls what the driver no longer has
        table.limit(0).to_pyarrow()  # lays tables of memory that it speaks of before the engine
        query = _of_duckdb(backend.con.sql(str(ibis.to_sql(table, dialect="duckdb"))))
        return query._replace(kind="Ibis expression")

    def start(columns: list[str]) -> Iterable[pa.RecordBatch]:
        return table.select(columns).to_pyarrow_batches(chunk_size=MAX_BATCH_ROWS)

    return Query("Ibis expression", table.schema().to_pyarrow(), start)


def _of_reader(reader: pa.RecordBatchReader) -> Query:
    if reader in _READ:
        raise InputError("the RecordBatchReader was read before, and its rows are gone; give a new one")

    def start(columns: list[str]) -> Iterable[pa.RecordBatch]:
        _READ.add(reader)
        return reader

    return Query("RecordBatchReader", reader.schema, start)


_READ: weakref.WeakSet[Any] = weakref.WeakSet()
"""Readers that a release has read: the next would take them for tables without a row."""


def _of_cursor(cursor: Any) -> Query:
    return _of_reader(cursor.fetch_record_batch())._replace(kind=type(cursor).__name__)


def _of_capsule(source: Any) -> Query:
    return _of_reader(pa.RecordBatchReader.from_stream(source))._replace(kind=type(source).__name__)


def _is_polars(source: Any) -> bool:
    import narwhals.stable.v2 as nw

    return nw.dependencies.is_polars_lazyframe(source) and hasattr(source, "collect_batches")


def _is_capsule(source: Any) -> bool:
    """Whether it streams Arrow and is neither a frame, which has its rows at hand, nor a single column."""
    import narwhals.stable.v2 as nw

    if not hasattr(source, "__arrow_c_stream__") or isinstance(source, pa.Table | pa.ChunkedArray | pa.Array):
        return False
    try:
        return nw.from_native(source, pass_through=True, allow_series=True) is source
    except nw.exceptions.DuplicateError:  # a frame, which is refused elsewhere
        return False


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Query]], ...] = (
    (lambda source: isinstance(source, pa.RecordBatchReader), _of_reader),
    (_is_polars, _of_polars),
    (lambda source: is_of(source, "duckdb", "DuckDBPyRelation"), _of_duckdb),
    (lambda source: is_of(source, "ibis", "Expr"), _of_ibis),
    (lambda source: hasattr(source, "fetch_record_batch"), _of_cursor),
    (_is_capsule, _of_capsule),
)
"""What a stream is, and how it is read: the first that fits."""


def begins_as_arrow_stream(pipe: Any) -> bool:
    """Whether a pipe holds an Arrow IPC stream; uses up nothing. InputError if a person would type it."""
    if pipe.isatty():
        raise InputError("- is standard input, here a terminal; pipe a table into it, or name a file")
    return pipe.peek(len(ARROW_STREAM)).startswith(ARROW_STREAM)


def piped(pipe: Any, folder: Path | None) -> tuple[InputFile, str]:
    """(all of a stream in a file without a name, the suffix of its kind). Raises Busy if the disk is full."""
    begin = pipe.read(BLOCK_BYTES)
    suffix = next((end for magic, end in MAGIC.items() if begin.startswith(magic)), ".csv")
    handle = None
    try:
        handle = nameless(folder, suffix)
        while begin:
            write_whole(handle, begin)
            begin = pipe.read(BLOCK_BYTES)
        name = f"stdin{suffix}"
        file = InputFile(Path(name), footer=suffix == ".parquet", label=name, handle=handle)
        return file, suffix
    except OSError as error:
        if handle is not None:
            os.close(handle)
        why = error.strerror
    raise full("standard input", folder, why)
