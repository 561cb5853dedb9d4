"""Lake: passes over the Parquet files of one version of a lake's table, whose log says which of those in its
folder count. They may have other columns than the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.errors import InputError
from factored_mwem.tables.codes.parsing import is_text, plain, spelt, value_type
from factored_mwem.tables.inputs.arrow_input import opened, reason, unquoted
from factored_mwem.tables.inputs.opened import FileLayout, FileSet
from factored_mwem.tables.inputs.places import Place
from factored_mwem.tables.inputs.table import Table
from factored_mwem.tables.inputs.text_form import Reading
from factored_mwem.tables.inputs.typed_files import open_parquet, parquet_schema

DELETED = ("file_path", "pos")
"""Columns of a file that names deleted rows of others, by their place from 0."""
T = TypeVar("T")


def snapshot_of(label: str, parts: Sequence[tuple[Place, bytes]]) -> FileSet:
    """Files and what the log says of each, in the order of their paths, which is that of the rows in every
    pass. Nothing that is written to the table later is among them. Raises InputError if a file is missing, or
    comes twice: its rows would count twice.
    """
    parts = sorted(parts, key=lambda part: part[0].path)
    if len({place.path for place, _ in parts}) < len(parts):
        raise InputError(f"{label} names a file twice; its rows would count twice")
    identities = []
    for place, _ in parts:
        file = place.reopened()
        if file is None:
            raise InputError(f"{label} is not whole: {place.label} is missing, or cannot be opened")
        identities.append(file.identity)
    return FileSet([place for place, _ in parts], [fact for _, fact in parts], identities, label)


class DataFile(NamedTuple):
    """A data file: its share of the table, and what it is known by to the files that name deleted rows of it.

    `there`: names and types of its columns; `deletes`: numbers of those files.
    """

    part: FileLayout
    there: pa.Schema
    deletes: Sequence[int] = ()
    address: str = ""


def schema_of(snapshot: FileSet, number: int) -> pa.Schema:
    """Names and types of a file's columns."""
    return answered(snapshot.places[number].label, lambda: parquet_schema(snapshot.open(number)))


def lake_table(schema: pa.Schema, snapshot: FileSet, files: Sequence[DataFile]) -> Table:
    """Rows in the order of their files, and in each as it has them: the same in every pass. Raises InputError
    if a file's types are not those of the table; both are public: what lies in a cell must not decide whether
    it can be read.
    """
    for file in files:
        for name, physical in file.part.inside.items():
            ours, theirs = schema.field(name).type, file.there.field(physical).type
            if not _is_read_as(value_type(theirs), ours):
                label = snapshot.places[file.part.number].label
                what = f"column {name!r} is {spelt(theirs)} in {label}, and {spelt(ours)} in the table"
                raise InputError(f"{snapshot.label}: {what}; write its files anew")

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for file in files:
            gone, at = _deleted(snapshot, file), 0
            for batch in snapshot.rows(file.part, schema, columns, _parquet):
                here = gone[(gone >= at) & (gone < at + batch.num_rows)] - at
                at += batch.num_rows
                yield batch.filter(_but(here, batch.num_rows)) if len(here) else batch

    return Table(schema, False, read, origin=snapshot)


def _parquet(file: Any) -> Table:
    return opened(file.path, lambda: open_parquet(file, Reading()))


def _deleted(snapshot: FileSet, file: DataFile) -> np.ndarray:
    """int64[?]: the places of its deleted rows."""
    gone = [np.empty(0, dtype=np.int64)]
    for number in file.deletes:
        for batch in _parquet(snapshot.open(number)).read(DELETED):
            its = pc.equal(plain(batch.column(0)), file.address)
            gone.append(batch.column(1).filter(its).drop_null().to_numpy(zero_copy_only=False))
    return np.concatenate(gone)


def _but(places: np.ndarray, rows: int) -> pa.Array:
    """bool[row]: true but at these places."""
    kept = np.ones(rows, dtype=bool)
    kept[places] = False
    return pa.array(kept)


def _is_read_as(there: pa.DataType, ours: pa.DataType) -> bool:
    """Whether any value of the one is one of the other, or text, or nothing that a release could use."""
    if there == ours or pa.types.is_nested(ours) or (is_text(there) and is_text(ours)):
        return True
    if pa.types.is_timestamp(there) and pa.types.is_timestamp(ours):
        return True
    if pa.types.is_decimal(there) and pa.types.is_decimal(ours):
        return there.scale == ours.scale and there.precision <= ours.precision
    signed = pa.types.is_signed_integer(there) and pa.types.is_signed_integer(ours)
    if signed or (pa.types.is_floating(there) and pa.types.is_floating(ours)):
        return there.bit_width <= ours.bit_width
    return False


def answered(
    what: str, ask: Callable[[], T], otherwise: str = "it is damaged, or its library cannot read it"
) -> T:
    """What a lake's library says. InputError in our own words where it fails: it may raise anything, and
    quote a row, a path that holds one's value, or a key.
    """
    return unquoted(ask, lambda error: InputError(f"cannot read {what}: {reason(error, otherwise)}"))
