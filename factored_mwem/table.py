"""Table: any input a user has, seen as column names, Arrow types and a stream of record batches that can be read twice."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.errors import InputError

TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
BROKEN = (pa.ArrowException, OSError, EOFError, zlib.error)
"""What the libraries raise over a file or a frame that cannot be read. Their texts may quote it: `_reason` says it in our words."""
MOST_HEADER = 4 << 20
"""Bytes of a header."""
BLOCK = 8 << 20
"""Bytes of CSV text parsed at a time."""
ROWS = 2**17
"""Rows of an Arrow file handed on at a time, however many its writer has put together."""


class Private:
    """Base of what holds private rows or numbers: they show in no log, pickle or copy."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds private numbers and cannot be pickled or copied")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table(Private):
    """`schema` (names and types: public) and `read`, which starts a fresh pass over the private rows, some columns of them.

    `text` says that every column is raw text whose type only the domain can tell (CSV).
    """

    schema: pa.Schema
    text: bool
    read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of `columns`, in order; InputError where the file turns out to be broken."""
        rows = 0
        for batch in self.read(columns):
            rows += batch.num_rows
            yield batch
        if not rows:
            raise InputError("the table has no rows; there is nothing to release")


def open_table(source: Any) -> Table:
    """See a path, a pyarrow object or any data frame as a Table. InputError where it cannot be read."""
    if isinstance(source, Table):
        return source
    table = _open_path(Path(source)) if isinstance(source, str | Path) else _open_object(source)
    try:
        names = table.schema.names
    except UnicodeDecodeError:
        raise InputError("the name of a column is not UTF-8 text; rename it") from None
    if not names:
        raise InputError("the table has no columns")
    if "" in names:
        raise InputError(f"column {names.index('') + 1} of the table has no name; give it one")
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(f"the table has two columns named {twice[0]!r}; rename one")
    return table


def _open_object(source: Any) -> Table:
    import pyarrow.dataset as ds

    if isinstance(source, ds.Dataset):
        return Table(source.schema, False, lambda columns: _guarded("the dataset", lambda: source.to_batches(columns=list(columns))))
    try:
        table = _whole(source)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a frame may be a query not yet run: its library may raise anything, and quote a row
        reason = _reason(error, "its library cannot turn it into Arrow columns")
    else:
        return Table(table.schema, False, lambda columns: _guarded("the table", lambda: iter(table.select(list(columns)).to_batches())))
    raise InputError(f"cannot read the {type(source).__name__}: {reason}")


def _whole(source: Any) -> pa.Table:
    if isinstance(source, pa.RecordBatchReader):
        return source.read_all()
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    return source if isinstance(source, pa.Table) else _from_frame(source)


def _from_frame(source: Any) -> pa.Table:
    """A data frame of any library, through narwhals, or whatever speaks the Arrow stream protocol."""
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(source, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise InputError("the table has two columns of the same name; rename one") from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect("pyarrow")
    if isinstance(frame, nw.DataFrame):
        return frame.to_arrow().select(frame.columns)  # pandas would add its index as a column
    if hasattr(source, "__arrow_c_stream__") and hasattr(source, "columns"):  # a lone series streams too, but is no table
        return pa.RecordBatchReader.from_stream(source).read_all()
    raise InputError(f"cannot read a table from {type(source).__name__}; give a path, a data frame or a pyarrow table")


def _open_path(path: Path) -> Table:
    name = path.name.lower()
    try:
        if not path.exists():
            raise InputError(f"no file {path}")
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file in it")
        if name.endswith(TEXT_SUFFIXES):
            return _open_csv(path)
        if name.endswith((".feather", ".arrow")):
            with pa.OSFile(str(path)) as file:
                return Table(pa.ipc.open_file(file).schema, False, lambda columns: _guarded(path, lambda: _read_arrow(path, columns)))
        if name.endswith((".parquet", ".pq")):
            import pyarrow.dataset as ds

            data = ds.dataset(path, format="parquet")
            return Table(data.schema, False, lambda columns: _guarded(path, lambda: data.to_batches(columns=list(columns))))
    except BROKEN as error:
        raise InputError(f"cannot read {path}: {_reason(error)}") from None
    raise InputError(f"{path}: unknown kind of file; use .csv, .csv.gz, .tsv, .parquet, .feather or .arrow")


def _read_arrow(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batch by batch on one thread: the library's dataset reader died of damaged files (24 of 1,500, by a segmentation fault)."""
    with pa.OSFile(str(path)) as file:
        at = [pa.ipc.open_file(file).schema.get_field_index(name) for name in columns]
        reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=at, use_threads=False))
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number).select(list(columns))
            for start in range(0, batch.num_rows, ROWS):
                yield batch.slice(start, ROWS)


def _open_csv(path: Path) -> Table:
    delimiter, names = _header(path)
    schema = pa.schema([(name, pa.string()) for name in names])
    return Table(schema, True, lambda columns: _guarded(path, lambda: _read_csv(path, names, delimiter, columns)))


def _header(path: Path) -> tuple[str, list[str]]:
    """Delimiter and column names from the first line alone: were a quote missing there, the next lines would turn into a name."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
            line = file.readline(MOST_HEADER)  # as bytes: a text file would decode rows beyond it
            first = re.split(b"\r|\n", line)[0].decode("utf-8-sig")
            delimiter = _delimiter(path, first)
            names = next(csv.reader([first], delimiter=delimiter, strict=True), [])
    except csv.Error:
        raise InputError(f"{path}: the header cannot be read; is a quote missing, or does a name hold a line break?") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; convert it first (for example with iconv)") from None
    if not names:
        raise InputError(f"{path} {'starts with a blank line' if line else 'is empty'}; it needs a header and rows")
    nameless = [i + 1 for i, name in enumerate(names) if not name]
    if nameless:
        raise InputError(f"{path}: column {nameless[0]} of the header has no name")
    return delimiter, names


def _delimiter(path: Path, header: str) -> str:
    """The tab of a .tsv file, else the first of comma, tab and semicolon that the header holds."""
    if path.name.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    return next((d for d in ",\t;" if d in header), ",")


def _read_csv(path: Path, names: Sequence[str], delimiter: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from pyarrow import csv as pacsv

    return pacsv.open_csv(
        pa.input_stream(str(path), compression="gzip" if path.name.lower().endswith(".gz") else None),
        read_options=pacsv.ReadOptions(column_names=list(names), skip_rows=1, block_size=BLOCK, use_threads=False),
        parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=len(names) > 1),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()), include_columns=list(columns), strings_can_be_null=False, null_values=[]
        ),
    )


def _guarded(path: Path | str, start: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The batches; a broken file becomes one line without any value of it. Arrow files are taken as they lie, so a wrong offset would be followed.

    The error is raised where the library's is over: that one quotes the row, and would go along as its context.
    """
    try:
        for batch in start():
            batch.validate(full=True)
            yield batch
        return
    except BROKEN as error:
        reason = _reason(error)
    raise InputError(f"cannot read {path}: {reason}")


def _reason(error: Exception, otherwise: str = "the file is damaged, or not what its name says") -> str:
    """What is wrong, in our words: the library's message would quote the row."""
    text = str(error)
    if "Empty CSV" in text or "Could not skip initial" in text:
        return "the table has no rows; there is nothing to release"
    ragged = re.search(r"Expected (\d+) columns, got (\d+)", text)
    if ragged:
        row = re.search(r"Row #(\d+)", text)
        where = f"row {row.group(1)} (the header is row 1)" if row else "a row"
        return f"{where} has {ragged.group(2)} fields, the header has {ragged.group(1)}; is a quote or a delimiter missing?"
    if "UTF8" in text or "UTF-8" in text:
        return "it is not UTF-8 text; convert it first (for example with iconv)"
    mixed = re.fullmatch(r"Conversion failed for column (.+) with type object", str(error.args[-1]) if error.args else "")
    if mixed:
        return f"column {mixed.group(1)!r} holds values of several types; convert it to one, for example text"
    if "straddling" in text:
        return f"a row is longer than {BLOCK >> 20} MB; is a quote missing?"
    if isinstance(error, PermissionError):
        return "permission denied"
    return otherwise


def bound_contributions(table: Table, privacy_id: str, most: int) -> Table:
    """The table without column `privacy_id` and with at most `most` rows of each person: their first ones in the table's order.

    Whose rows are kept depends on that person's rows alone. Rows without an id count as one person's.
    """
    rest = without(table, privacy_id)
    people = pa.chunked_array([_decoded(batch.column(0)) for batch in table.batches([privacy_id])]).combine_chunks()
    kept = _first_rows(people, most)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        at = 0
        for batch in table.batches(columns):
            yield batch.filter(pa.array(kept[at : at + batch.num_rows]))
            at += batch.num_rows

    return Table(rest.schema, table.text, read)


def without(table: Table, privacy_id: str) -> Table:
    """The table as if it had no such column. InputError where it has none, or of a type that does not name people exactly."""
    if privacy_id not in table.schema.names:
        raise InputError(f"no column {privacy_id!r} for --privacy-id in the table; it has {', '.join(table.schema.names[:12])}")
    kind = table.schema.field(privacy_id).type
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_floating(value) or pa.types.is_nested(value):
        raise InputError(f"--privacy-id {privacy_id!r} is a column of {spelt(kind)}: one person may have several spellings; make it text or integers")
    return Table(table.schema.remove(table.schema.get_field_index(privacy_id)), table.text, table.read)


def spelt(arrow: pa.DataType) -> str:
    """A type in words, in one line: the names of nested fields may be anything."""
    try:
        text = str(arrow)
    except UnicodeDecodeError:
        return "of a type whose names are no text"
    return text if text.isprintable() else ascii(text)


def _decoded(column: pa.Array) -> pa.Array:
    """The values of a dictionary column: a dictionary may repeat a value, or hold a null, and give one person two codes."""
    return column.dictionary.take(column.indices) if pa.types.is_dictionary(column.type) else column


def _first_rows(people: pa.Array, most: int) -> np.ndarray:
    """bool[row]: whether the row is among the first `most` of its person."""
    people = people.dictionary_encode()
    person = pc.fill_null(people.indices, -1).to_numpy(zero_copy_only=False)
    order = np.argsort(person, kind="stable")
    begins = np.flatnonzero(np.diff(person[order], prepend=np.iinfo(np.int64).min))
    rank = np.empty(len(person), dtype=np.int64)
    rank[order] = np.arange(len(person)) - np.repeat(begins, np.diff(begins, append=len(person)))
    return rank < most
