"""Contributions: at most k rows of each person, by a column that names the person."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.errors import Changed, InputError
from factored_mwem.tables.codes.parsing import is_text, plain, spelt, value_type
from factored_mwem.tables.inputs.table import Table

NOBODY = ("",)
"""Text that names no person, beside what a domain calls missing."""


def bound_contributions(table: Table, privacy_id: str, most: int, missing: Sequence[str] = ()) -> Table:
    """The table without column `privacy_id` and with the first rows of each person, `most` at most.

    Whose rows are kept depends on that person's rows alone. Rows without an id (null, empty or one of
    `missing`) are left out: counted as one person's, one of them would make room for another's, and two rows
    would move where one is charged.
    """
    rest = without(table, privacy_id)
    kept = _first_rows(ids_of(table, privacy_id, missing), most)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for at, batch in passed(table.batches(columns), len(kept)):
            yield batch.filter(pa.array(kept[at : at + batch.num_rows]))

    return replace(rest, read=read)


def ids_of(table: Table, privacy_id: str, missing: Sequence[str] = ()) -> pa.Array:
    """The id of each row, null for nobody. Reads the ids."""
    empty = pa.nulls(0, table.schema.field(privacy_id).type)
    columns = itertools.chain([empty], (batch.column(0) for batch in table.batches([privacy_id])))
    return pa.concat_arrays([_people(column, missing) for column in columns])


def passed(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each batch with the number of its first row; Changed if they are not as many `rows` as before."""
    at = 0
    for batch in batches:
        if at + batch.num_rows > rows:
            break
        yield at, batch
        at += batch.num_rows
    else:
        if at == rows:
            return
    what = "the table has another number of rows than when its people were counted"
    raise Changed(f"{what}; let nothing write to it meanwhile")


def without(table: Table, privacy_id: str) -> Table:
    """The table as if it had no such column; raises InputError if its type does not name people exactly."""
    table.check_column(privacy_id, " for --privacy-id")
    kind = table.schema.field(privacy_id).type
    value = value_type(kind)
    what = f"--privacy-id {privacy_id!r} is a column of {spelt(kind)}"
    if pa.types.is_floating(value) or pa.types.is_nested(value):
        raise InputError(f"{what}: one person may have several spellings; make it text or integers")
    try:
        pa.array([], value).dictionary_encode()
    except pa.ArrowNotImplementedError:
        raise InputError(f"{what}, which cannot be grouped; make it text or integers") from None
    return replace(table, schema=table.schema.remove(table.schema.get_field_index(privacy_id)))


def _people(column: pa.Array, missing: Sequence[str]) -> pa.Array:
    """The ids, null for nobody. As plain values: a dictionary may give one person two codes."""
    column = plain(column)
    if not is_text(column.type):
        return column
    nobody = pc.is_in(column, pa.array([*NOBODY, *missing], pa.string()))
    named = pc.if_else(nobody, pa.scalar(None, pa.string()), column)
    return named.cast(pa.large_string())  # all of them together may be longer than a string column can be


def _first_rows(people: pa.Array, most: int) -> np.ndarray:
    """bool[row]: whether the row is among the first `most` of its person; never if there is none."""
    people = people.dictionary_encode()
    person = pc.fill_null(people.indices, -1).to_numpy(zero_copy_only=False)
    return (ranks(person, np.argsort(person, kind="stable")) < most) & (person >= 0)


def ranks(person: np.ndarray, order: np.ndarray) -> np.ndarray:
    """int64[row]: how many rows of the same person come before it in `order`, in which those of a person
    follow each other.
    """
    begins = np.flatnonzero(np.diff(person[order], prepend=np.iinfo(np.int64).min))
    rank = np.empty(len(person), dtype=np.int64)
    rank[order] = np.arange(len(person)) - np.repeat(begins, np.diff(begins, append=len(person)))
    return rank
