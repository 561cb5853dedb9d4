"""People: the rows of each person, at most so many, beside the number of them that are used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.contributions import ids_of, passed, ranks, without
from factored_mwem.tables.inputs.table import Table


def with_rows_of_person(table: Table, privacy_id: str) -> Table:
    """The table's names and types without the id and with ROWS_OF_PERSON; rows are read of neither."""
    rest = without(table, privacy_id)
    if ROWS_OF_PERSON in rest.schema.names:
        raise InputError(f"the table has a column {ROWS_OF_PERSON!r}, which people=True adds; rename it")
    return replace(rest, schema=rest.schema.append(pa.field(ROWS_OF_PERSON, pa.int32(), nullable=False)))


class RowsOfPeople(NamedTuple):
    """Of each row that is used a number for its person, and how many rows of that are: int32[row]."""

    person: np.ndarray
    rows: np.ndarray


def rows_of_people(
    table: Table, privacy_id: str, most: int, missing: Sequence[str] = ()
) -> tuple[Table, RowsOfPeople]:
    """The table without its ids, with ROWS_OF_PERSON: of each person `most` rows at random, or all. Reads the
    ids.

    Which rows of a person are used depends on the person's id and on how many rows bear it, not on anybody
    else: a hash of both shuffles them. It is no secret and needs none: any rule that looks at one person's
    rows alone keeps what neighbours differ in to that person. Rows that name nobody are left out, see
    `bound_contributions`.
    """
    shown = with_rows_of_person(table, privacy_id)
    ids = ids_of(table, privacy_id, missing)
    person, used, number = _drawn(ids, most)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        own = [name for name in columns if name != ROWS_OF_PERSON] or shown.schema.names[:1]
        for at, batch in passed(table.batches(own), len(used)):
            here = used[at : at + batch.num_rows]
            kept = batch.filter(pa.array(here))
            rows = pa.array(number[at : at + batch.num_rows][here], pa.int32())
            cells = [rows if name == ROWS_OF_PERSON else kept.column(name) for name in columns]
            yield pa.RecordBatch.from_arrays(cells, names=list(columns))

    return replace(shown, read=read), RowsOfPeople(person[used].astype(np.int32), number[used])


def _drawn(ids: pa.Array, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(int64[row]: its person, -1 for nobody; bool[row]: whether it is used; int32[row]: how many rows of its
    person are).
    """
    ids = ids.dictionary_encode()
    person = ids.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(person[person >= 0], minlength=len(ids.dictionary))
    number = np.where(person >= 0, np.minimum(counts, most)[person] if len(counts) else 0, 0)
    rank = ranks(person, np.argsort(person, kind="stable"))
    if (counts > most).any():
        luck = _mixed(_hashes(ids.dictionary)[person] + rank.astype(np.uint64))
        rank = ranks(person, np.lexsort((luck, person)))
    return person, (person >= 0) & (rank < most), number.astype(np.int32)


def _hashes(ids: pa.Array) -> np.ndarray:
    """uint64[id]: the same for an id whoever else is there."""
    from pandas.util import hash_array

    texts = np.array([str(one) for one in ids.to_pylist()], dtype=object)
    return hash_array(texts, categorize=False)


def _mixed(key: np.ndarray) -> np.ndarray:
    """uint64: numbers without a pattern, by the finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        key = key * np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
