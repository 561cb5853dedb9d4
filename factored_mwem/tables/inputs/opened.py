"""Opened: one file, or several that are one table, before a row of it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from factored_mwem.errors import Changed, InputError
from factored_mwem.tables.codes.parsing import is_text, plain, spelt
from factored_mwem.tables.inputs.arrow_input import opened, repeated
from factored_mwem.tables.inputs.formats import BY_ENDING
from factored_mwem.tables.inputs.input_file import PrivateFile
from factored_mwem.tables.inputs.places import Place
from factored_mwem.tables.inputs.table import Table
from factored_mwem.tables.inputs.text_form import Reading

TableOf = Callable[[PrivateFile], Table]


class FileLayout(NamedTuple):
    """How a file holds its share of a table."""

    number: int
    """Of the file in its set."""
    names: Sequence[str]
    """Of the file's own columns."""
    inside: Mapping[str, str]
    """Column of the table to its name in the file."""
    constants: Mapping[str, Any]
    """Other columns to the one value that all rows have (a scalar); any further one is null."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FileSet:
    """Files that are one table, in the order of its rows. Each is opened anew in every pass, for there may be
    more of them than a process may hold open, and must then be what it was.
    """

    places: Sequence[Place]
    facts: Sequence[bytes]
    """Of each file, what is said of its rows elsewhere: by its folders, or by a lake's log."""
    identities: Sequence[Any]
    label: str = ""
    """What messages call the table, where it is a lake's."""

    def open(self, number: int) -> PrivateFile:
        """The file, opened again. Raises Changed if it has changed since it was first opened."""
        place = self.places[number]
        file = place.reopened()
        if file is None or file.identity != self.identities[number]:
            what = f"{place.label} was changed while it was read"
            how = "put back what it was, or release again what is there now"
            raise Changed(f"{self.label}{': ' if self.label else ''}{what}; {how}")
        return file

    def check(self) -> None:
        """Raise Changed if a file of this machine has changed; a store is asked when its files are read."""
        for number, place in enumerate(self.places):
            if place.system is None:
                self.open(number)

    def streams(self) -> Iterator[tuple[bytes, Any]]:
        """(what is said of it, the bytes) of each file."""
        for number, fact in enumerate(self.facts):
            yield fact, self.open(number).stream()

    def rows(
        self, part: FileLayout, schema: pa.Schema, columns: Sequence[str], table_of: TableOf
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file as those of the table with this schema."""
        file = self.open(part.number)
        wanted = [part.inside[name] for name in columns if name in part.inside]
        for batch in table_of(file).read(wanted or part.names[:1]):  # any one's length is that of all
            arrays = []
            for name in columns:
                kind = schema.field(name).type
                if name in part.inside:
                    arrays.append(_as(batch.column(part.inside[name]), kind))
                else:
                    arrays.append(repeated(part.constants.get(name), kind, batch.num_rows))
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
        if self.label:
            self.open(part.number)
        else:
            file.check()


def open_places(places: Sequence[Place], reading: Reading) -> Table:
    """The table that these files are. Raises InputError if they are not one."""
    first, file = _open_one(places[0], reading)
    keys = [key for key, _ in places[0].partitions]
    if len(places) == 1 and not keys:
        return first
    schema, identities = first.schema, [file.identity]
    for place in places[1:]:
        other, file = _open_one(place, reading)
        _check_alike(first, other, place.label, places[0].label)
        if [key for key, _ in place.partitions] != keys:
            raise InputError(f"{place.label} has other folders KEY=VALUE above it than {places[0].label}")
        schema = pa.schema(map(_wider, schema, other.schema))
        identities.append(file.identity)
    for key in keys:
        if key in schema.names:
            raise InputError(f"column {key!r} is in the files and in the names of their folders; rename one")
    names = schema.names
    schema = pa.schema([*schema, *(pa.field(key, pa.string()) for key in keys)])
    files = FileSet(places, [repr(place.partitions).encode() for place in places], identities)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for number, place in enumerate(places):
            by_folder = {key: pa.scalar(value, pa.string()) for key, value in place.partitions}
            part = FileLayout(number, names, {name: name for name in names}, by_folder)
            yield from files.rows(part, schema, columns, partial(_table_of, place, reading))

    return Table(schema, first.text, read, first.form, files, () if first.text else tuple(keys))


def _open_one(place: Place, reading: Reading) -> tuple[Table, PrivateFile]:
    file = opened(place.label, place.open)
    return _table_of(place, reading, file), file


def _table_of(place: Place, reading: Reading, file: PrivateFile) -> Table:
    return opened(place.label, lambda: BY_ENDING[place.suffix].open(file, reading))


def _check_alike(first: Table, other: Table, label: str, than: str) -> None:
    """Raises InputError if a file cannot be a part of the same table; its columns and types are public."""
    if first.text != other.text:
        raise InputError(f"{label} and {than} are text and typed; give files of one kind")
    ours, theirs = first.schema, other.schema
    if ours.names != theirs.names:
        pairs = zip([*ours.names, None], [*theirs.names, None], strict=False)
        which = next((pair for pair in pairs if pair[0] != pair[1]), (None, None))
        there, here = (f"{name!r}" if name is not None else "none" for name in which)
        what = f"{label} has column {here} where {than} has {there}"
        raise InputError(f"{what}; files of a table have the same")
    for ours_, theirs_ in zip(ours, theirs, strict=True):
        if _wider_type(ours_.type, theirs_.type) is None:
            what = f"column {ours_.name!r} is {spelt(theirs_.type)}, and {spelt(ours_.type)} in {than}"
            raise InputError(f"{label}: {what}; write both with one type")
    if first.form is not None and other.form is not None:
        for fact in ("delimiter", "line_end"):
            if getattr(first.form, fact) != getattr(other.form, fact):
                what = fact.replace("_", " ")
                raise InputError(f"{label} has another {what} than {than}; write both alike")


def _wider_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds both; None if there is none. A column without a value yet goes with any type:
    the first value in it would change its own.
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_dictionary(one) and pa.types.is_dictionary(other):  # its codes are as wide as need be
        value = _wider_type(one.value_type, other.value_type)
        return None if value is None else pa.dictionary(pa.int32(), value, one.ordered and other.ordered)
    return pa.string() if is_text(one) and is_text(other) else None


def _wider(one: pa.Field, other: pa.Field) -> pa.Field:
    kind = _wider_type(one.type, other.type)
    assert kind is not None  # as was checked
    return pa.field(one.name, kind, one.nullable or other.nullable)


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The cells in the table's type. Timestamps may have more digits in a lake's file, or lie beyond what
    the type can say: unsafe, so that none ends the run.
    """
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if pa.types.is_dictionary(column.type) and pa.types.is_dictionary(kind):
        indices, values = column.indices.cast(kind.index_type), column.dictionary.cast(kind.value_type)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)
    if is_text(kind):
        return column
    column = plain(column)
    return column if column.type == kind else column.cast(kind, safe=False)
