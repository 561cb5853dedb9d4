"""Opened: what is known of a file, or of several that are one table, before a row of it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from factored_mwem.domain.dialect import PLAIN, Dialect
from factored_mwem.errors import Changed, InputError
from factored_mwem.tables.arrow_input import UNREADABLE, read_arrow, readable, reason, sound_batches
from factored_mwem.tables.delimited import read_delimited
from factored_mwem.tables.input_file import InputFile, Origin
from factored_mwem.tables.json_lines import read_json_lines
from factored_mwem.tables.orc_input import orc_schema, read_orc
from factored_mwem.tables.parquet_input import parquet_schema, read_parquet
from factored_mwem.tables.parsing import is_text, spelt
from factored_mwem.tables.places import Place
from factored_mwem.tables.remote_file import RemoteFile
from factored_mwem.tables.suffixes import (
    ARROW_SUFFIXES,
    DELIMITED_SUFFIXES,
    JSON_LINES_SUFFIXES,
    ORC_SUFFIXES,
    packing_of,
)
from factored_mwem.tables.text_form import Form, Records, read_form

Pass = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Starts a fresh pass over the rows of some columns."""
File = InputFile | RemoteFile


class Opened(NamedTuple):
    """Names and types, whether all is text, the way to a pass, and where it comes from."""

    schema: pa.Schema
    text: bool
    read: Pass
    form: Form | None
    origin: Origin
    said: tuple[str, ...] = ()
    """Columns of a typed table that are text, for names of folders say them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How text files are read, as somebody says: what a record is, how it is written, and the `names` of the
    columns, for files whose rows alone tell them.
    """

    records: Records = "checked"
    dialect: Dialect = PLAIN
    names: tuple[str, ...] | None = None


def open_places(places: Sequence[Place], reading: Reading) -> Opened:
    """The table that these files are. InputError where they are not one."""
    if len(places) == 1 and not places[0].partitions:
        return _open_one(places[0], reading)[0]
    return Files.of(places, reading).opened()


def open_file(file: File, suffix: str, reading: Reading) -> Opened:
    """The table that a file of this kind is; what the library raises is the caller's."""
    return _OPENERS[suffix](file, reading)


def _open_one(place: Place, reading: Reading) -> tuple[Opened, File]:
    try:
        file = place.open()
        return _OPENERS[place.suffix](file, reading), file
    except UNREADABLE as error:
        why = reason(error)
    raise InputError(f"cannot read {place.label}: {why}")


def _open_delimited(file: File, reading: Reading) -> Opened:
    form = read_form(file, reading.records, reading.dialect)
    schema = pa.schema([(name, pa.string()) for name in form.columns])
    return Opened(
        schema, True, lambda names: readable(file.path, lambda: read_delimited(file, form, names)), form, file
    )


def _open_json_lines(file: File, reading: Reading) -> Opened:
    if reading.names is None:
        why = "the keys of its lines are somebody's data"
        raise InputError(f"{file.path}: say with --columns or a domain which columns it has, for {why}")
    schema = pa.schema([(name, pa.string()) for name in reading.names])
    packed, encoding = packing_of(file.path), reading.dialect.encoding or "utf-8"
    return Opened(
        schema,
        True,
        lambda names: readable(file.path, lambda: read_json_lines(file, packed, encoding, names)),
        None,
        file,
    )


def _typed(
    schema_of: Callable[[File], pa.Schema], read: Callable[[File, Sequence[str]], Iterator[pa.RecordBatch]]
) -> Callable[[File, Reading], Opened]:
    def opened(file: File, reading: Reading) -> Opened:
        passes = lambda names: sound_batches(file.path, lambda: read(file, names))  # noqa: E731
        return Opened(schema_of(file), False, passes, None, file)

    return opened


_OPENERS: dict[str, Callable[[File, Reading], Opened]] = {
    **dict.fromkeys(DELIMITED_SUFFIXES, _open_delimited),
    **dict.fromkeys(JSON_LINES_SUFFIXES, _open_json_lines),
    **dict.fromkeys(ARROW_SUFFIXES, _typed(lambda file: pa.ipc.open_file(file.arrow()).schema, read_arrow)),
    **dict.fromkeys(ORC_SUFFIXES, _typed(orc_schema, read_orc)),
    **dict.fromkeys((".parquet", ".pq"), _typed(parquet_schema, read_parquet)),
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Files:
    """Several files as one table. Each is opened anew in every pass, for there may be more of them than a
    process may hold open, and must then be what it was.
    """

    places: Sequence[Place]
    reading: Reading
    first: Opened
    schema: pa.Schema
    identities: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, places: Sequence[Place], reading: Reading) -> Files:
        head, file = _open_one(places[0], reading)
        keys = [key for key, _ in places[0].partitions]
        found, identities = head.schema, [file.identity]
        for place in places[1:]:
            other, file = _open_one(place, reading)
            _check_alike(head, other, place.label, places[0].label)
            if [key for key, _ in place.partitions] != keys:
                raise InputError(f"{place.label} has other folders KEY=VALUE above it than {places[0].label}")
            found = pa.schema(map(_wider, found, other.schema))
            identities.append(file.identity)
        for key in keys:
            if key in found.names:
                raise InputError(
                    f"column {key!r} is in the files and in the names of their folders; rename one"
                )
        fields = [*found, *(pa.field(key, pa.string()) for key in keys)]
        return cls(places, reading, head, pa.schema(fields), identities)

    def opened(self) -> Opened:
        said = () if self.first.text else tuple(key for key, _ in self.places[0].partitions)
        return Opened(self.schema, self.first.text, self.read, self.first.form, self, said)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [self.schema.field(name) for name in columns]
        for place, identity in zip(self.places, self.identities, strict=True):
            said = dict(place.partitions)
            inside = [name for name in columns if name not in said] or self.first.schema.names[:1]
            opened, file = _open_one(place, self.reading)
            _check_same(file, identity)
            for batch in opened.read(inside):
                arrays = [
                    _repeated(said[f.name], batch.num_rows) if f.name in said
                    else _as_wide(batch.column(f.name), f.type)
                    for f in wanted
                ]  # fmt: skip
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
            file.check()

    def check(self) -> None:
        """Changed where a file of this machine is not what it was; a store is asked when it is read."""
        for place, identity in zip(self.places, self.identities, strict=True):
            if place.system is None:
                try:
                    file = place.open()
                except (InputError, OSError):
                    file = None
                _check_same(file, identity, place.label)

    def streams(self) -> Iterator[tuple[bytes, Any]]:
        """(what its folders say, the bytes) of each file."""
        for place, identity in zip(self.places, self.identities, strict=True):
            file = place.open()
            _check_same(file, identity)
            yield repr(place.partitions).encode(), file.stream()


def _check_same(file: File | None, identity: Any, label: str = "") -> None:
    if file is None or file.identity != identity:
        how = "put back what it was, or release again what is there now"
        raise Changed(f"{label if file is None else file.path} was changed while it was read; {how}")


def _check_alike(first: Opened, other: Opened, label: str, than: str) -> None:
    """InputError where a file cannot be a part of the same table; its columns and types are public."""
    if first.text != other.text:
        raise InputError(f"{label} and {than} are text and typed; give files of one kind")
    ours, theirs = first.schema, other.schema
    if ours.names != theirs.names:
        pairs = zip([*ours.names, None], [*theirs.names, None], strict=False)
        which = next((pair for pair in pairs if pair[0] != pair[1]), (None, None))
        there, here = (f"{name!r}" if name is not None else "none" for name in which)
        raise InputError(
            f"{label} has column {here} where {than} has {there}; files of a table have the same"
        )
    for ours_, theirs_ in zip(ours, theirs, strict=True):
        if _wider_type(ours_.type, theirs_.type) is None:
            what = f"column {ours_.name!r} is {spelt(theirs_.type)}, and {spelt(ours_.type)} in {than}"
            raise InputError(f"{label}: {what}; write both with one type")
    if first.form is not None and other.form is not None:
        for fact in ("delimiter", "line_end"):
            if getattr(first.form, fact) != getattr(other.form, fact):
                raise InputError(
                    f"{label} has another {fact.replace('_', ' ')} than {than}; write both alike"
                )


def _wider_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds both; None where there is none. A column without a value yet goes with any type:
    the first value in it would change its own.
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    return pa.string() if is_text(one) and is_text(other) else None


def _wider(one: pa.Field, other: pa.Field) -> pa.Field:
    kind = _wider_type(one.type, other.type)
    assert kind is not None  # as was checked
    return pa.field(one.name, kind, one.nullable or other.nullable)


def _as_wide(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    return column


def _repeated(value: str | None, rows: int) -> pa.Array:
    """A column of one value, once."""
    places = pa.repeat(pa.scalar(0, pa.int8()), rows)
    return pa.DictionaryArray.from_arrays(places, pa.array([value], pa.string()))
