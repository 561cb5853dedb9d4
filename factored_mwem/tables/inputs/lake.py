"""Lake: passes over the Parquet files of one version of a lake's table, whose log says which of those in its
folder count. They may have other columns than the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


class LakeFile(NamedTuple):
    """A data file of a table, as its log names it."""

    place: Place
    fact: bytes
    """What the log says of its rows."""
    columns: Callable[[pa.Schema], tuple[Mapping[str, str], Mapping[str, Any]]]
    """Of its own columns, `inside` and `constants` of its FileLayout."""
    deletes: Sequence[Place] = ()
    """Files that name deleted rows of it,"""
    address: str = ""
    """by this address."""


def lake_table(label: str, schema: pa.Schema, files: Sequence[LakeFile]) -> Table:
    """Rows in the order of the files' paths, and in each as it has them: the same in every pass. Nothing that
    is written to the table later is among them.

    Raises InputError if a file is missing, or comes twice: its rows would count twice; or if its types are
    not those of the table; both are public: what lies in a cell must not decide whether it can be read.
    """
    files = sorted(files, key=lambda file: file.place.path)
    if len({file.place.path for file in files}) < len(files):
        raise InputError(f"{label} names a file twice; its rows would count twice")
    snapshot = _snapshot(label, files)
    numbers = {place.path: number for number, place in enumerate(snapshot.places)}
    layouts = [_layout(snapshot, numbers[file.place.path], schema, file) for file in files]

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for file, layout in zip(files, layouts, strict=True):
            gone, at = _deleted(snapshot, file, [numbers[place.path] for place in file.deletes]), 0
            for batch in snapshot.rows(layout, schema, columns, _parquet):
                kept = np.ones(batch.num_rows, dtype=bool)
                kept[gone[(gone >= at) & (gone < at + batch.num_rows)] - at] = False
                at += batch.num_rows
                yield batch if kept.all() else batch.filter(pa.array(kept))

    return Table(schema, False, read, origin=snapshot)


def _snapshot(label: str, files: Sequence[LakeFile]) -> FileSet:
    """All files as they are now, those of deleted rows too."""
    facts = {place.path: (place, file.fact) for file in files for place in (file.place, *file.deletes)}
    identities, parts = [], [facts[path] for path in sorted(facts)]
    for place, _ in parts:
        opened_file = place.reopened()
        if opened_file is None:
            raise InputError(f"{label} is not whole: {place.label} is missing, or cannot be opened")
        identities.append(opened_file.identity)
    return FileSet([place for place, _ in parts], [fact for _, fact in parts], identities, label)


def _layout(snapshot: FileSet, number: int, schema: pa.Schema, file: LakeFile) -> FileLayout:
    """How a file holds its share of the table."""
    there = answered(file.place.label, lambda: parquet_schema(snapshot.open(number)))
    inside, constants = file.columns(there)
    for name, physical in inside.items():
        ours, theirs = schema.field(name).type, there.field(physical).type
        if not _is_read_as(value_type(theirs), ours):
            what = f"column {name!r} is {spelt(theirs)} in {file.place.label}, and {spelt(ours)} in the table"
            raise InputError(f"{snapshot.label}: {what}; write its files anew")
    return FileLayout(number, there.names, inside, constants)


def _parquet(file: Any) -> Table:
    return opened(file.path, lambda: open_parquet(file, Reading()))


def _deleted(snapshot: FileSet, file: LakeFile, deletes: Sequence[int]) -> np.ndarray:
    """int64[?]: the places of its deleted rows, named in files of these numbers."""
    gone = [np.empty(0, dtype=np.int64)]
    for number in deletes:
        for batch in _parquet(snapshot.open(number)).read(DELETED):
            its = pc.equal(plain(batch.column(0)), file.address)
            gone.append(batch.column(1).filter(its).drop_null().to_numpy(zero_copy_only=False))
    return np.concatenate(gone)


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
