"""LakeRows: passes over the Parquet files of a snapshot, which may have other columns than the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.errors import InputError
from factored_mwem.tables.arrow_input import sound_batches
from factored_mwem.tables.parquet_input import parquet_schema, read_parquet
from factored_mwem.tables.parsing import is_text, plain, spelt, value_type
from factored_mwem.tables.snapshot import Snapshot, asked

DELETED = ("file_path", "pos")
"""Columns of a file that names deleted rows of others, by their place from 0."""


@dataclass(frozen=True, slots=True, repr=False)
class Part:
    """How a data file holds its share of the table."""

    number: int
    """Of the file in the snapshot."""
    inside: Mapping[str, str] = field(default_factory=dict)
    """Column of the table to its name in the file."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """Other columns to the one value that the log says all rows have (a scalar); any further one is null."""
    deletes: Sequence[int] = ()
    """Files of the snapshot that name deleted rows of this one."""
    address: str = ""
    """How they call it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LakeRows:
    """Rows in the order of their files, and in each as it has them: the same in every pass."""

    schema: pa.Schema
    snapshot: Snapshot
    parts: Sequence[Part]

    def check_types(self) -> None:
        """InputError where a file's types are not those of the table; both are public. What lies in a cell
        must not decide whether it can be read.
        """
        for part in self.parts:
            label = self.snapshot.places[part.number].label
            there = asked(label, partial(parquet_schema, self.snapshot.open(part.number)))
            for name, physical in part.inside.items():
                ours, theirs = self.schema.field(name).type, there.field(physical).type
                if not _is_read_as(value_type(theirs), ours):
                    what = f"column {name!r} is {spelt(theirs)} in {label}, and {spelt(ours)} in the table"
                    raise InputError(f"{self.snapshot.label}: {what}; write its files anew")

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            gone = self._deleted(part)
            at = 0
            for batch in self._batches(part, columns):
                rows = self._filled(part, batch, columns)
                if len(gone):
                    here = gone[(gone >= at) & (gone < at + batch.num_rows)] - at
                    kept = np.ones(batch.num_rows, dtype=bool)
                    kept[here] = False
                    rows = rows.filter(pa.array(kept))
                at += batch.num_rows
                yield rows
            self.snapshot.open(part.number)

    def _batches(self, part: Part, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        file = self.snapshot.open(part.number)
        wanted = [part.inside[name] for name in columns if name in part.inside]
        wanted = wanted or parquet_schema(file).names[:1]  # whose length is that of all
        return sound_batches(self.snapshot.places[part.number].label, partial(read_parquet, file, wanted))

    def _filled(self, part: Part, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        arrays = []
        for name in columns:
            kind = self.schema.field(name).type
            if name in part.inside:
                arrays.append(_as(batch.column(part.inside[name]), kind))
            else:
                arrays.append(_repeated(part.said.get(name), kind, batch.num_rows))
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _deleted(self, part: Part) -> np.ndarray:
        """int64[?]: the places of its deleted rows."""
        found = [np.empty(0, dtype=np.int64)]
        for number in part.deletes:
            file, label = self.snapshot.open(number), self.snapshot.places[number].label
            for batch in sound_batches(label, partial(read_parquet, file, DELETED)):
                its = pc.equal(plain(batch.column(0)), part.address)
                found.append(batch.column(1).filter(its).drop_null().to_numpy(zero_copy_only=False))
        return np.concatenate(found)


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


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The cells in the table's type. Timestamps may have more digits in a file, or lie beyond what it can
    say: unsafe, so that none ends the run.
    """
    if is_text(kind):
        return column
    column = plain(column)
    return column if column.type == kind else column.cast(kind, safe=False)


def _repeated(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """A column of one value; null where there is none."""
    if value is None or not value.is_valid:
        return pa.nulls(rows, kind)
    return pa.repeat(value.cast(kind), rows)
