"""Source: any input as a Table: names, Arrow types and a stream of record batches that can be read twice.

Every input comes by here: files are found in `places` and opened in `opened`, objects are opened here.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pyarrow as pa

from factored_mwem.domain.dialect import PLAIN, Dialect
from factored_mwem.errors import InputError
from factored_mwem.tables.arrow_input import (
    MAX_BATCH_ROWS,
    UNREADABLE,
    DatasetFiles,
    reason,
    sound_batches,
    whole_table,
)
from factored_mwem.tables.database_uri import is_database
from factored_mwem.tables.databases import database_query
from factored_mwem.tables.delta import is_delta, open_delta
from factored_mwem.tables.iceberg import METADATA, is_iceberg, open_iceberg
from factored_mwem.tables.input_file import Origin
from factored_mwem.tables.opened import Opened, Reading, open_file, open_places
from factored_mwem.tables.piped import STANDARD_INPUT, begins_as_arrow_stream, piped
from factored_mwem.tables.places import LakeFolder, is_place, places_of, without_query
from factored_mwem.tables.streams import Query, Stream, query_of
from factored_mwem.tables.suffixes import TEXT_SUFFIXES
from factored_mwem.tables.text_form import Form, Records
from factored_mwem.tables.uris import is_uri, shown


def is_text_file(source: Any) -> bool:
    """Whether something names a text file, or several."""
    if not is_place(source):
        return False
    try:
        return places_of(source)[0].suffix in TEXT_SUFFIXES
    except (InputError, OSError, ValueError):  # which opening will say
        return False


class Private:
    """Base of what holds private rows or numbers: they show in no log, pickle or copy."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds private numbers and cannot be pickled or copied")

    def __getstate__(self) -> NoReturn:
        self.__reduce_ex__(2)


class Visible(Protocol):
    """What everybody may know of a table."""

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types of the columns."""

    @property
    def text(self) -> bool:
        """Whether every column is raw text whose type only the domain can tell (CSV)."""

    @property
    def said(self) -> tuple[str, ...]:
        """Columns of a typed table that are text whose type only the domain can tell."""

    @property
    def zone(self) -> str | None:
        """Of timestamps in a text table, which come back in it."""

    def check_column(self, name: str, what: str = "") -> None:
        """InputError where there is no such column, with those that there are."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table(Private):
    """`schema` (names and types: public) and `read`, which starts a fresh pass over some columns' rows.

    A column of text may come as a dictionary, from batch to batch another one.
    """

    schema: pa.Schema
    text: bool
    """Whether every column is raw text whose type only the domain can tell (CSV)."""
    read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    form: Form | None = None
    """How such a text is written."""
    origin: Origin | None = None
    """The file, or the files, behind it."""
    said: tuple[str, ...] = ()
    """Columns of a typed table that are text whose type only the domain can tell: names of folders say it."""
    zone: str | None = None
    """Of timestamps in a text table, which come back in it."""
    __getstate__ = Private.__getstate__

    def check_column(self, name: str, what: str = "") -> None:
        """InputError where there is no such column, with those that there are."""
        check_column(self.schema, name, what)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of `columns`, in order. InputError where the file is broken, Changed where it was changed.

        It is looked at before and after every pass: so before the first charge, which follows a pass, and
        before the noise that follows another.
        """
        self._check()
        yield from self.read(columns)
        self._check()

    def once(self) -> Table:
        """The same table for a pass that no other follows: a stream need not be recorded for it."""
        return replace(self, read=self.read.once) if isinstance(self.read, Stream) else self

    def _check(self) -> None:
        if self.origin is not None:
            self.origin.check()


def check_column(schema: pa.Schema, name: str, what: str = "") -> None:
    """InputError where there is no such column, with those that there are."""
    if name not in schema.names:
        known = ", ".join(schema.names[:12])
        raise InputError(f"no column {name!r}{what} in the table; it has {known}")


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
    reading = Reading(records, dialect, None if names is None else tuple(names))
    if isinstance(source, str | Path) and str(source) == STANDARD_INPUT:
        table = _open_piped(reading, folder)
    elif is_database(source):
        table = table_of(database_query(source), folder)
    else:
        table = _open_path(source, reading) if is_place(source) else _open_object(source, folder)
    table = _checked(table)
    if records != "checked" and not table.text:
        how = f"--{records} says how the lines of a text file are read"
        raise InputError(f"{how}; leave it out with a typed table")
    if dialect != PLAIN and not table.text:
        flag = next(name for name in type(dialect).model_fields if getattr(dialect, name) is not None)
        how = f"--{flag.replace('_', '-')} says how a text file is written"
        raise InputError(f"{how}; leave it out with a typed table")
    return table


def table_of(query: Query, folder: Path | None) -> Table:
    """What somebody else's library makes, as a table that is read once; `folder` is for its record."""
    stream = Stream(query, folder)
    return _checked(Table(stream.schema, False, stream))


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
            found = (c.cast(pa.string()) if pa.types.is_null(c.type) else c for c in batch.columns)
            yield pa.RecordBatch.from_arrays(list(found), names=list(columns))

    return replace(table, schema=schema, read=read)


def _open_object(source: Any, folder: Path | None) -> Table:
    import pyarrow.dataset as ds

    if is_delta(source):
        return Table(*open_delta(source))
    if is_iceberg(source):
        return Table(*open_iceberg(source))
    if isinstance(source, ds.Dataset):
        origin = DatasetFiles(source)
        passes = _typed("the dataset", lambda columns: source.to_batches(columns=columns))
        return Table(source.schema, False, passes, origin=origin)
    query = query_of(source)
    if query is not None:
        return table_of(query, folder)
    try:
        table = whole_table(source)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a frame may be a query not yet run, and its error quote a row
        why = reason(error, "its library cannot turn it into Arrow columns")
    else:
        passes = _typed(
            "the table", lambda columns: iter(table.select(columns).to_batches(max_chunksize=MAX_BATCH_ROWS))
        )
        return Table(table.schema, False, passes)
    raise InputError(f"cannot read the {type(source).__name__}: {why}")


def _typed(
    where: Path | str, read: Callable[[list[str]], Iterator[pa.RecordBatch]]
) -> Callable[[Sequence[str]], Iterator[pa.RecordBatch]]:
    """Passes over typed columns, whose batches are checked."""
    return lambda columns: sound_batches(where, lambda: read(list(columns)))


def _open_piped(reading: Reading, folder: Path | None) -> Table:
    """What comes through standard input."""
    pipe = sys.stdin.buffer
    try:
        if begins_as_arrow_stream(pipe):
            query = query_of(pa.ipc.open_stream(pipe))
            assert query is not None  # as of any reader
            return table_of(query._replace(kind="Arrow stream on standard input"), folder)
        return Table(*open_file(*piped(pipe, folder), reading))
    except UNREADABLE as error:
        why = reason(error, "it is damaged, or not what its first bytes say")
    raise InputError(f"cannot read standard input: {why}")


def _open_path(source: Any, reading: Reading) -> Table:
    try:
        return Table(*_open_named(source, reading))
    except UNREADABLE as error:
        why = reason(error)
    raise InputError(f"cannot read {source if isinstance(source, str | Path) else 'the files'}: {why}")


def _open_named(source: Any, reading: Reading) -> Opened:
    """Files, or the table of a lake, by what names it."""
    alone = isinstance(source, str | Path)
    if alone and str(source).endswith(METADATA):
        return open_iceberg(_address(source), _shown(source))
    try:
        places = places_of(source)
    except LakeFolder as folder:
        if not (alone and folder.opens):
            raise
    else:
        return open_places(places, reading)
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
