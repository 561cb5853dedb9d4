"""Table: any input a user has, seen as column names, Arrow types and a stream of record batches that can be
read twice.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from re import fullmatch
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.errors import Changed, InputError
from factored_mwem.tables.delimited import Form, Records, read_delimited, read_form
from factored_mwem.tables.input_file import InputFile, Origin

TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
BROKEN = (pa.ArrowException, OSError, EOFError, zlib.error)
"""What the libraries raise over a file or a frame that cannot be read. Their texts may quote it: `_reason`
says it in our words.
"""
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
    """`schema` (names and types: public) and `read`, which starts a fresh pass over the private rows, some
    columns of them.

    `text` says that every column is raw text whose type only the domain can tell (CSV), and `form` how it is
    written; `origin` is the file behind it.
    """

    schema: pa.Schema
    text: bool
    read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    form: Form | None = None
    origin: Origin | None = None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of `columns`, in order. InputError where the file turns out to be broken, Changed where it
        is not what was opened.

        It is looked at before and after every pass: so before the first charge, which follows a pass, and
        before the noise that follows another.
        """
        self._check()
        yield from self.read(columns)
        self._check()

    def _check(self) -> None:
        if self.origin is not None:
            self.origin.check()


def open_table(source: Any, records: Records = "checked") -> Table:
    """See a path, a pyarrow object or any data frame as a Table; `records` as in Policy. InputError where it
    cannot be read.
    """
    if isinstance(source, Table):
        return source
    table = _open_path(Path(source), records) if isinstance(source, str | Path) else _open_object(source)
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
    if records != "checked" and not table.text:
        raise InputError(
            f"--{records} says how the lines of a text file are read; leave it out with a typed table"
        )
    return _nulls_as_text(table)


def _nulls_as_text(table: Table) -> Table:
    """A column that holds no value yet has a type of its own, which the first value would change; it counts
    as text.
    """
    if not any(pa.types.is_null(kind) for kind in table.schema.types):
        return table
    schema = pa.schema(
        [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in table.schema]
    )

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([schema.field(name) for name in columns])
        return (batch.cast(wanted) for batch in table.read(columns))

    return replace(table, schema=schema, read=read)


def _open_object(source: Any) -> Table:
    import pyarrow.dataset as ds

    if isinstance(source, ds.Dataset):
        return _open_dataset(source)
    try:
        table = _whole(source)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a frame may be a query not yet run: its library may raise anything, and quote a row
        reason = _reason(error, "its library cannot turn it into Arrow columns")
    else:
        return Table(
            table.schema,
            False,
            lambda columns: _guarded(
                "the table", lambda: iter(table.select(list(columns)).to_batches(max_chunksize=ROWS))
            ),
        )
    raise InputError(f"cannot read the {type(source).__name__}: {reason}")


def _open_dataset(data: Any) -> Table:
    for part in _parts(data):
        kind = getattr(getattr(part, "format", None), "default_extname", None)
        if kind in ("csv", "json"):
            raise InputError(
                f"the dataset is of {kind} files, whose reader lets a row decide how others are read; give "
                "the path of a file"
            )
    return Table(
        data.schema,
        False,
        lambda columns: _guarded("the dataset", lambda: data.to_batches(columns=list(columns))),
        origin=DatasetFiles(data),
    )


def _parts(data: Any) -> Iterator[Any]:
    """A dataset and all those it is made of."""
    yield data
    for child in getattr(data, "children", ()):
        yield from _parts(child)


class DatasetFiles:
    """The files of a pyarrow dataset, which it opens anew for every pass."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self._identity = self._look()

    def check(self) -> None:
        if self._look() != self._identity:
            raise Changed(
                "the files of the dataset were changed while they were read; put back what was there, or "
                "release again what is there now"
            )

    def _look(self) -> list[Any]:
        found = [
            part.filesystem.get_file_info(part.files)
            for part in _parts(self._data)
            if getattr(part, "files", None)
        ]
        return [(f.path, f.size, f.mtime_ns) for files in found for f in files]


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
        found = frame.to_arrow().select(frame.columns)  # pandas would add its index as a column
        return _without_digits(found, frame.to_native().dtypes) if frame.implementation.is_pandas() else found
    if hasattr(source, "__arrow_c_stream__") and hasattr(
        source, "columns"
    ):  # a lone series streams too, but is no table
        return pa.RecordBatchReader.from_stream(source).read_all()
    raise InputError(
        f"cannot read a table from {type(source).__name__}; give a path, a data frame or a pyarrow table"
    )


def _without_digits(table: pa.Table, dtypes: Any) -> pa.Table:
    """Decimals in a pandas column of objects have the digits of the longest value there, which a type must
    not show: they become floats.
    """
    for i, (field, dtype) in enumerate(zip(table.schema, dtypes, strict=True)):
        value = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_decimal(value) and getattr(dtype, "kind", "") == "O":
            table = table.set_column(
                i,
                field.with_type(pa.float64()),
                pc.cast(table.column(i).cast(value), pa.float64(), safe=False),
            )
    return table


def _open_path(path: Path, records: Records) -> Table:
    name = path.name.lower()
    try:
        if not path.exists():
            raise InputError(f"no file {path}")
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file in it")
        if name.endswith(TEXT_SUFFIXES):
            return _open_text(InputFile(path), records)
        if name.endswith((".feather", ".arrow")):
            file = InputFile(path)
            schema = pa.ipc.open_file(file.arrow()).schema
            return Table(
                schema, False, lambda columns: _guarded(path, lambda: _read_arrow(file, columns)), origin=file
            )
        if name.endswith((".parquet", ".pq")):
            import pyarrow.parquet as pq

            file = InputFile(path, footer=True)
            schema = pq.ParquetFile(file.arrow()).schema_arrow
            return Table(
                schema,
                False,
                lambda columns: _guarded(path, lambda: _read_parquet(file, columns)),
                origin=file,
            )
    except BROKEN as error:
        raise InputError(f"cannot read {path}: {_reason(error)}") from None
    raise InputError(f"{path}: unknown kind of file; use .csv, .csv.gz, .tsv, .parquet, .feather or .arrow")


def _open_text(file: InputFile, records: Records) -> Table:
    form = read_form(file, records)
    schema = pa.schema([(name, pa.string()) for name in form.names])
    return Table(
        schema,
        True,
        lambda columns: _readable(file.path, lambda: read_delimited(file, form, columns)),
        form,
        file,
    )


def _read_arrow(file: InputFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batch by batch on one thread: the library's dataset reader died of damaged files (24 of 1,500, by a
    segmentation fault).
    """
    at = [pa.ipc.open_file(file.arrow()).schema.get_field_index(name) for name in columns]
    reader = pa.ipc.open_file(
        file.arrow(), options=pa.ipc.IpcReadOptions(included_fields=at, use_threads=False)
    )
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number).select(list(columns))
        for start in range(0, batch.num_rows, ROWS):
            yield batch.slice(start, ROWS)


def _read_parquet(file: InputFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(file.arrow()).iter_batches(ROWS, columns=list(columns)):
        yield batch.select(list(columns))  # a name with a dot brings in more


def _guarded(path: Path | str, start: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The batches of typed columns, text that is none as null. Arrow files are taken as they lie, so a wrong
    offset would be followed.
    """
    return _readable(path, lambda: (_sound(batch) for batch in start()))


def _sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, whole by the library's own check; a cell that is none of its type (text that is not UTF-8)
    is null, for it is one person's.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        batch = pa.RecordBatch.from_arrays([_mended(column) for column in batch.columns], schema=batch.schema)
        batch.validate(full=True)
    return batch


def _mended(column: pa.Array) -> pa.Array:
    """The column with null for cells that are not whole. ArrowInvalid where more than cells is broken:
    offsets would be followed.
    """
    column.validate()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column.view(pa.binary() if pa.types.is_string(column.type) else pa.large_binary()).validate(full=True)
    if pa.types.is_string_view(column.type):  # for which the library has no `take`
        broken = set(_broken(column, 0))
        return pa.array([None if i in broken else cell.as_py() for i, cell in enumerate(column)], column.type)
    if pa.types.is_dictionary(column.type):
        indices, values = _mended(column.indices), _mended(column.dictionary)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=column.type.ordered)
    broken = pa.array(list(_broken(column, 0)), pa.int64())
    if not len(broken):
        return column
    whole = pa.array(np.isin(np.arange(len(column)), broken.to_numpy(), invert=True))
    return column.take(pc.if_else(whole, pa.array(np.arange(len(column))), None))


def _broken(column: pa.Array, begin: int) -> Iterator[int]:
    """Numbers of the cells that the library does not call whole, found by halves."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        if len(column) == 1:
            yield begin
            return
        half = len(column) // 2
        yield from _broken(column[:half], begin)
        yield from _broken(column[half:], begin + half)


def _readable(path: Path | str, start: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The batches; a broken file becomes one line without any value of it.

    The error is raised where the library's is over: that one quotes the row, and would go along as its
    context.
    """
    try:
        yield from start()
        return
    except BROKEN as error:
        reason = _reason(error)
    raise InputError(f"cannot read {path}: {reason}")


def _reason(error: Exception, otherwise: str = "the file is damaged, or not what its name says") -> str:
    """What is wrong, in our words: the library's message would quote the row."""
    mixed = fullmatch(
        r"Conversion failed for column (.+) with type object", str(error.args[-1]) if error.args else ""
    )
    if mixed:
        return f"column {mixed.group(1)!r} holds values of several types; convert it to one, for example text"
    return "permission denied" if isinstance(error, PermissionError) else otherwise


def spelt(arrow: pa.DataType) -> str:
    """A type in words, in one line: the names of nested fields may be anything."""
    try:
        text = str(arrow)
    except UnicodeDecodeError:
        return "of a type whose names are no text"
    return text if text.isprintable() else ascii(text)
