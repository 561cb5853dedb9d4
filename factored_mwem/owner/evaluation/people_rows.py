"""Rows of people: NOT PRIVATE. Those of a person one after the other, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.owner.evaluation.readings import read_alike, read_columns
from factored_mwem.owner.evaluation.value_errors import Pair
from factored_mwem.tables.inputs.contributions import ids_of
from factored_mwem.tables.inputs.source import Private, Table


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PeopleRows(Private):
    """`order: int64[row that names somebody]`, the rows of each person one after the other; `begins:
    int64[person]` into it, where each begins.
    """

    order: np.ndarray
    begins: np.ndarray
    __getstate__ = Private.__getstate__

    def __len__(self) -> int:
        """How many people there are."""
        return len(self.begins)

    @property
    def sizes(self) -> np.ndarray:
        """int64[person]: how many rows each has."""
        return np.diff(self.begins, append=len(self.order))

    @property
    def person(self) -> np.ndarray:
        """int64[row, in order]: whose it is, from 0 on."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def following(self) -> np.ndarray:
        """int64: the places in order of rows that are not the first of their person."""
        return np.setdiff1d(np.arange(len(self.order)), self.begins, assume_unique=True)


def read_people(table: Table, column: str, key: np.ndarray | None = None) -> PeopleRows:
    """The rows by person, and of a person by `key: [row]`; where it says nothing, as they stand."""
    ids = ids_of(table, column).dictionary_encode()
    person = ids.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.argsort(person, kind="stable") if key is None else np.lexsort((key, person))
    order = order[person[order] >= 0]
    return PeopleRows(order, np.flatnonzero(np.diff(person[order], prepend=-1)))


class RowKeys(NamedTuple):
    """What orders the rows of people in both tables: `ranks: float64[row]`, what is missing last; and the
    `numbers: float64[row]` themselves, NaN where there is none, in microseconds of `moments`.
    """

    ranks: Pair[np.ndarray]
    numbers: Pair[np.ndarray] | None
    moments: bool


def order_of(tables: Pair[Table], column: str) -> RowKeys:
    """The order by the column's numbers or moments, or by its texts if it has none. Raises InputError if the
    column cannot be compared between the tables.
    """
    real, synthetic = (read_columns(table, [column])[column] for table in tables)
    kind, unit, *values = read_alike(real, synthetic)
    if kind != "text":
        numbers = (values[0].numbers, values[1].numbers)
        return RowKeys((_last(numbers[0]), _last(numbers[1])), numbers, unit == "moment")
    texts = pa.chunked_array([each.texts for each in values]).unique().sort().to_pylist()
    place = {text: float(at) for at, text in enumerate(texts)}
    first, second = (
        np.array([*(place[text] for text in each.texts.to_pylist()), np.inf])[each.index] for each in values
    )
    return RowKeys((first, second), None, False)


def _last(numbers: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(numbers), np.inf, numbers)
