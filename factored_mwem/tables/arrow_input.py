"""Typed columns from outside: files, data frames and datasets of any library, as sound batches of Arrow.

What a library raises may quote a row: it leaves here in our own words, or not at all.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from re import fullmatch
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.errors import Changed, InputError
from factored_mwem.tables.parsing import plain, value_type

UNREADABLE = (pa.ArrowException, OSError, EOFError, zlib.error)
"""What the libraries raise over a file or a frame that cannot be read; see `reason`."""
MAX_BATCH_ROWS = 2**17
"""Rows of an Arrow file handed on at a time, however many its writer has put together."""
Start = Callable[[], Iterator[pa.RecordBatch]]
"""Starts a pass over the batches."""


def whole_table(source: Any) -> pa.Table:
    """Any object with columns as Arrow. InputError where it is none; its library may raise anything."""
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    return source if isinstance(source, pa.Table) else _from_frame(source)


def _from_frame(source: Any) -> pa.Table:
    """A data frame of any library, through narwhals; streams are opened elsewhere."""
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(source, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise InputError("the table has two columns of the same name; rename one") from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect("pyarrow")
    if isinstance(frame, nw.DataFrame):
        table = frame.to_arrow().select(frame.columns)  # pandas would add its index as a column
        return _without_digits(table, frame.to_native().dtypes) if frame.implementation.is_pandas() else table
    kind = type(source).__name__
    raise InputError(f"cannot read a table from {kind}; give a path, a data frame or a pyarrow table")


def _without_digits(table: pa.Table, dtypes: Any) -> pa.Table:
    """Decimals in a pandas column of objects become floats.

    They have the digits of the longest value there, which a type must not show.
    """
    for i, (field, dtype) in enumerate(zip(table.schema, dtypes, strict=True)):
        value = value_type(field.type)
        if pa.types.is_decimal(value) and getattr(dtype, "kind", "") == "O":
            floats = pc.cast(table.column(i).cast(value), pa.float64(), safe=False)
            table = table.set_column(i, field.with_type(pa.float64()), floats)
    return table


class DatasetFiles:
    """The files of a pyarrow dataset, which it opens anew for every pass. InputError for text files."""

    def __init__(self, data: Any) -> None:
        for part in _parts(data):
            kind = getattr(getattr(part, "format", None), "default_extname", None)
            if kind in ("csv", "json"):
                why = "whose reader lets a row decide how others are read; give the path of a file"
                raise InputError(f"the dataset is of {kind} files, {why}")
        self._data = data
        self._identity = self._look()

    def check(self) -> None:
        if self._look() != self._identity:
            how = "put back what was there, or release again what is there now"
            raise Changed(f"the files of the dataset were changed while they were read; {how}")

    def _look(self) -> list[Any]:
        files = [
            file
            for part in _parts(self._data)
            if getattr(part, "files", None)
            for file in part.filesystem.get_file_info(part.files)
        ]
        return [(file.path, file.size, file.mtime_ns) for file in files]


def _parts(data: Any) -> Iterator[Any]:
    """A dataset and all those it is made of."""
    yield data
    for child in getattr(data, "children", ()):
        yield from _parts(child)


def read_arrow(file: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """An Arrow file, an InputFile or what else gives `arrow()`, batch by batch on one thread.

    The library's dataset reader died of damaged files (24 of 1,500, by a segmentation fault).
    """
    at = [pa.ipc.open_file(file.arrow()).schema.get_field_index(name) for name in columns]
    options = pa.ipc.IpcReadOptions(included_fields=at, use_threads=False)
    reader = pa.ipc.open_file(file.arrow(), options=options)
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number).select(list(columns))
        for start in range(0, batch.num_rows, MAX_BATCH_ROWS):
            yield batch.slice(start, MAX_BATCH_ROWS)


def sound_batches(where: Path | str, start: Start) -> Iterator[pa.RecordBatch]:
    """The batches of typed columns, checked: Arrow's data is taken as it lies, and wrong offsets followed."""
    return readable(where, lambda: (_sound(batch) for batch in start()))


def _sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, whole by the library's own check.

    A cell that is none of its type (text that is not UTF-8) is null, for it is one person's.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        batch = pa.RecordBatch.from_arrays([_nulled(column) for column in batch.columns], schema=batch.schema)
        batch.validate(full=True)
    return batch


def _nulled(column: pa.Array) -> pa.Array:
    """The column with null for cells that are not whole; ArrowInvalid where more than cells is broken."""
    column.validate()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column.view(pa.binary() if pa.types.is_string(column.type) else pa.large_binary()).validate(full=True)
    if pa.types.is_string_view(column.type):  # for which the library has no `take`
        broken = set(_broken(column, 0))
        return pa.array([None if i in broken else cell.as_py() for i, cell in enumerate(column)], column.type)
    if pa.types.is_dictionary(column.type):
        indices, values = _nulled(column.indices), _nulled(column.dictionary)
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


def without_dictionaries(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with plain columns where `schema` has them: a reader may hand text on as a dictionary."""
    if batch.schema.types == schema.types:
        return batch
    columns = [
        plain(column).cast(field.type) if _is_coded(column, field) else column
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_coded(column: pa.Array, field: pa.Field) -> bool:
    return pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(field.type)


def readable(where: Path | str, start: Start) -> Iterator[pa.RecordBatch]:
    """The batches; a broken file becomes one line without any value of it.

    The error is raised where the library's is over: that one quotes the row, and would go along as its
    context.
    """
    try:
        yield from start()
        return
    except UNREADABLE as error:
        why = reason(error)
    raise InputError(f"cannot read {where}: {why}")


def reason(error: Exception, otherwise: str = "the file is damaged, or not what its name says") -> str:
    """What is wrong, in our words: the library's message would quote the row."""
    told = str(error.args[-1]) if error.args else ""
    if mixed := fullmatch(r"Conversion failed for column (.+) with type object", told):
        return f"column {mixed.group(1)!r} holds values of several types; convert it to one, for example text"
    return "permission denied" if isinstance(error, PermissionError) else otherwise
