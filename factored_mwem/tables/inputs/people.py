"""People: the rows of each person, at most so many, beside the number of them that are used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.errors import InputError
from factored_mwem.tables.codes.kinds import kind_of, units_of
from factored_mwem.tables.codes.parsing import is_text, plain, read_units
from factored_mwem.tables.inputs.contributions import ids_of, passed, ranks, without
from factored_mwem.tables.inputs.table import Table


def with_rows_of_person(table: Table, privacy_id: str) -> Table:
    """The table's names and types without the id and with ROWS_OF_PERSON; rows are read of neither."""
    rest = without(table, privacy_id)
    if ROWS_OF_PERSON in rest.schema.names:
        raise InputError(f"the table has a column {ROWS_OF_PERSON!r}, which people=True adds; rename it")
    return replace(rest, schema=rest.schema.append(pa.field(ROWS_OF_PERSON, pa.int32(), nullable=False)))


class RowOrder(NamedTuple):
    """The column whose values put the rows of a person in order, and how they are read, where that is known
    before a domain is learnt.
    """

    column: str
    attribute: Attribute | None = None


class RowsOfPeople(NamedTuple):
    """Of each row that is used a number for its person, and how many rows of that are: int32[row]; and, where
    they are in order, the row before it of that person, by its number among those used, or -1: int64[row].
    """

    person: np.ndarray
    rows: np.ndarray
    previous: np.ndarray | None = None


def rows_of_people(
    table: Table, privacy_id: str, most: int, missing: Sequence[str] = (), order: RowOrder | None = None
) -> tuple[Table, RowsOfPeople]:
    """The table without its ids, with ROWS_OF_PERSON: of each person `most` rows, or all. Reads the ids, and
    the column that orders the rows.

    Which rows of a person are used depends on the person's rows alone, not on anybody else's: a hash of the
    id and of how many rows bear it shuffles them, or says where a window of rows that follow each other
    begins, where they are in `order`. It is no secret and needs none: any rule that looks at one person's
    rows alone keeps what neighbours differ in to that person. Rows that name nobody are left out, see
    `bound_contributions`.
    """
    shown = with_rows_of_person(table, privacy_id)
    ids = ids_of(table, privacy_id, missing)
    if order is None:
        person, used, number = _drawn(ids, most)
        previous = None
    else:
        person, used, number, previous = _window(ids, most, _order_keys(table, order))

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        own = [name for name in columns if name != ROWS_OF_PERSON] or shown.schema.names[:1]
        for at, batch in passed(table.batches(own), len(used)):
            here = used[at : at + batch.num_rows]
            kept = batch.filter(pa.array(here))
            rows = pa.array(number[at : at + batch.num_rows][here], pa.int32())
            cells = [rows if name == ROWS_OF_PERSON else kept.column(name) for name in columns]
            yield pa.RecordBatch.from_arrays(cells, names=list(columns))

    return replace(shown, read=read), RowsOfPeople(person[used].astype(np.int32), number[used], previous)


def _order_keys(table: Table, order: RowOrder) -> np.ndarray:
    """float64[2, row]: values of the column that orders rows, and whether there are any, what rows are sorted
    by after it. Each value by itself: as its attribute says, else by its type, else, of text, numbers before
    moments.
    """
    keys = [np.zeros((2, 0))]
    for batch in table.batches([order.column]):
        column, number = plain(batch.column(0)), np.zeros(batch.num_rows)
        unknown = np.full(batch.num_rows, 2.0)
        known = order.attribute
        if known is not None and known.type not in ("string", "boolean"):
            readers = [partial(read_units, known)]
        elif is_text(column.type):
            readers = [partial(units_of, kind="number"), partial(units_of, kind="datetime")]
        else:
            readers = [partial(units_of, kind=kind_of(pa.field("", column.type)))]
        for place, read in enumerate(readers):
            units = read(column)
            here = ~np.ma.getmaskarray(units) & (unknown == 2)
            number[here], unknown[here] = units.filled(0)[here], place
        keys.append(np.stack([number, unknown]))
    return np.concatenate(keys, axis=1)


def _window(
    ids: pa.Array, most: int, keys: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As `_drawn`, of rows that follow each other by `keys: float64[2, row]`, and as they come where these
    are equal; and, of the rows used, int64[row used]: the one before, -1 for none.
    """
    ids = ids.dictionary_encode()
    person = ids.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(person[person >= 0], minlength=len(ids.dictionary))
    own = np.where(person >= 0, counts[person], 0) if len(counts) else np.zeros(len(person), np.int64)
    order = np.lexsort((keys[0], keys[1], person))  # stable, so rows as they come are the last key
    rank, begin = ranks(person, order), np.zeros(len(person), dtype=np.int64)
    if (counts > most).any():
        luck = _mixed(_hashes(ids.dictionary)[person] + own.astype(np.uint64))
        begin = (luck % np.maximum(own - most + 1, 1).astype(np.uint64)).astype(np.int64)
    used = (person >= 0) & (rank >= begin) & (rank < begin + most)
    following = order[used[order]]
    place = np.cumsum(used) - 1
    previous = np.full(int(used.sum()), -1, dtype=np.int64)
    before, after = following[:-1], following[1:]
    same = person[before] == person[after]
    previous[place[after[same]]] = place[before[same]]
    return person, used, np.minimum(own, most).astype(np.int32), previous


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
