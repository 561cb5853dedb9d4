"""Typed columns from outside: files, data frames and datasets of any library, as sound batches of Arrow.

What a library raises may quote a row: it leaves here in our own words, or not at all.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from re import fullmatch
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.errors import Changed, FmwemError, InputError
from factored_mwem.tables.codes.parsing import is_text, plain, value_type
from factored_mwem.tables.inputs.table import Table

UNREADABLE = (pa.ArrowException, OSError, EOFError, zlib.error)
"""What the libraries raise over a file or a frame that cannot be read; see `reason`."""
DAMAGED = "the file is damaged, or not what its name says"
MAX_BATCH_ROWS = 2**17
"""Rows of an Arrow file handed on at a time, however many its writer has put together."""
UNNAMED = "__index_level_[0-9]+__"
"""What pandas calls an index without a name, written as a column."""
T = TypeVar("T")
MAX_TEXT_BYTES = 2**31 - 1
"""Of a column of text in a batch."""
Start = Callable[[], Iterator[pa.RecordBatch]]
"""Starts a pass over the batches."""


def whole_table(source: Any) -> pa.Table:
    """Any object with columns as Arrow, data frames of any library through narwhals; streams are opened
    elsewhere. Raises InputError if it is none; its library may raise anything.
    """
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        return source
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
    """The files of a pyarrow dataset, opened anew for every pass. Raises InputError for text files."""

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
        parts = (part for part in _parts(self._data) if getattr(part, "files", None))
        files = (file for part in parts for file in part.filesystem.get_file_info(part.files))
        return [(file.path, file.size, file.mtime_ns) for file in files]


def is_of(source: Any, library: str, *kinds: str) -> bool:
    """Whether it is of these kinds of a library; nothing is imported for the answer."""
    module = sys.modules.get(library)
    return module is not None and isinstance(source, tuple(getattr(module, kind) for kind in kinds))


def _parts(data: Any) -> Iterator[Any]:
    """A dataset and all those it is made of."""
    yield data
    for child in getattr(data, "children", ()):
        yield from _parts(child)


def sound_batches(where: Path | str, start: Start) -> Iterator[pa.RecordBatch]:
    """The batches of typed columns, checked: Arrow's data is taken as it lies, and wrong offsets followed."""
    return readable(where, lambda: (part for batch in start() for part in _parted(_sound(batch))))


def _parted(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in as many batches as it takes for the text of each to fit the 32-bit offsets that everything
    else works with. A cell that is longer by itself is null, for it is one person's.
    """
    if not any(map(_is_too_long, batch.columns)):
        yield batch
        return
    columns = [_sliceable(c) if _is_too_long(c) else c for c in batch.columns]
    if batch.num_rows == 1:
        columns = [pa.nulls(1, c.type) if _is_too_long(c) else c for c in columns]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        return
    whole, half = pa.RecordBatch.from_arrays(columns, names=batch.schema.names), batch.num_rows // 2
    yield from _parted(whole.slice(0, half))
    yield from _parted(whole.slice(half))


def _sliceable(text: pa.Array) -> pa.Array:
    """Text whose slices are as long as their cells: a dictionary, or a view, stays whole behind a slice."""
    text = text.dictionary_decode() if pa.types.is_dictionary(text.type) else text
    return text.cast(pa.large_string()) if pa.types.is_string_view(text.type) else text


def _is_too_long(column: pa.Array) -> bool:
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    return is_text(values.type) and values.nbytes > MAX_TEXT_BYTES


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
    """The column with null for cells that are not whole; ArrowInvalid if more than cells is broken."""
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
        column if column.type == field.type else plain(column).cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def repeated(value: pa.Scalar | None, kind: pa.DataType, rows: int) -> pa.Array:
    """A column of one value; null if there is none."""
    if value is None or not value.is_valid:
        return pa.nulls(rows, kind)
    return pa.repeat(value.cast(kind), rows)


def typed_table(
    where: Path | str,
    schema: pa.Schema,
    read: Callable[[list[str]], Iterator[pa.RecordBatch]],
    origin: Any = None,
) -> Table:
    """A table of typed columns, whose batches are checked; `read` starts a pass over some of them."""
    schema = without_index(schema)
    return Table(schema, False, lambda names: sound_batches(where, lambda: read(list(names))), origin=origin)


def without_index(schema: pa.Schema) -> pa.Schema:
    """A schema without the index that pandas wrote as a column and gave no name, as its own metadata say."""
    try:
        said = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        index = {name for name in said["index_columns"] if isinstance(name, str)}
    except (ValueError, KeyError, TypeError):
        return schema
    kept = [field for field in schema if field.name not in index or not fullmatch(UNNAMED, field.name)]
    return pa.schema(kept, schema.metadata) if kept else schema


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


def opened(where: Path | str, ask: Callable[[], T], otherwise: str = DAMAGED) -> T:
    """What opening a file gives; a broken one becomes a line, as in `readable`."""
    try:
        return ask()
    except UNREADABLE as error:
        why = reason(error, otherwise)
    raise InputError(f"cannot read {where}: {why}")


def unquoted(ask: Callable[[], T], refusal: Callable[[BaseException], Exception]) -> T:
    """What `ask` gives. Where a library fails, `refusal` of its error is raised once that one is over: it may
    quote a row, a key or a password, and would go along as context. Our own errors stay as they are.
    """
    try:
        return ask()
    except (FmwemError, MemoryError):
        raise
    except BaseException as error:
        # a library may raise anything; one in Rust raises its own, which means to stop the program
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        refused = refusal(error)
    raise refused


def reason(error: BaseException, otherwise: str = DAMAGED) -> str:
    """What is wrong, in our words: the library's message would quote the row."""
    message = str(error.args[-1]) if error.args else ""
    if mixed := fullmatch(r"Conversion failed for column (.+) with type object", message):
        return f"column {mixed.group(1)!r} holds values of several types; convert it to one, for example text"
    return "permission denied" if isinstance(error, PermissionError) else otherwise
