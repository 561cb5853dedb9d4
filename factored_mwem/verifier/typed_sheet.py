"""Typed sheet: the rows of a typed table, to be put together anew. NOT PRIVATE."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.random import Generator

from factored_mwem.errors import InputError
from factored_mwem.tables.parsing import is_text, plain
from factored_mwem.tables.source import Private
from factored_mwem.tables.suffixes import PARQUET_SUFFIXES
from factored_mwem.verifier.hostile import typed_cells
from factored_mwem.verifier.stranger import Stranger, new_texts, owner_of


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rows(Private):
    """A typed table: Arrow's rows without dictionaries, which a library makes anew for every neighbour.

    `schema` is that of the input; `dtypes` those of a pandas frame, which is what comes out then.
    """

    table: pa.Table
    schema: pa.Schema
    owners: list[Any]
    privacy_id: str | None
    target: Path
    dtypes: Any

    @classmethod
    def of(cls, table: pa.Table, privacy_id: str | None, folder: Path, suffix: str, dtypes: Any) -> Rows:
        names, columns = table.schema.names, [_taken_apart(column) for column in table.columns]
        owners = [None] * len(table)
        if privacy_id is not None:
            owners = [owner_of(cell) for cell in columns[names.index(privacy_id)].to_pylist()]
        target = folder / f"neighbour{suffix}"
        return cls(pa.table(columns, names=names), table.schema, owners, privacy_id, target, dtypes)

    def grow(self, wanted: Sequence[Stranger], rng: Generator) -> tuple[Rows, list[str], list[bool]]:
        names, words = self.table.schema.names, ["a copy of a row"] * len(wanted)
        free = [at for at, name in enumerate(names) if name != self.privacy_id]
        picks = [free[rng.integers(len(free))] if stranger.hostile else -1 for stranger in wanted]
        column_of = np.array(picks, dtype=np.int64)
        likes, columns = pa.array([stranger.like for stranger in wanted], pa.int64()), []
        for at, name in enumerate(names):
            column = _single(self.table.column(at))
            copies = column.take(likes)
            if name == self.privacy_id:
                copies = pa.array([stranger.person for stranger in wanted], column.type)
            here = np.flatnonzero(column_of == at)
            options, values = list[str](), None
            if len(here):
                frame = self.dtypes is not None
                options, values = typed_cells(column, nullable=self._nullable(name), frame=frame, rng=rng)
            if options:
                picked = rng.integers(len(options), size=len(here))
                place = np.arange(len(wanted), dtype=np.int64)
                place[here] = len(wanted) + picked
                copies = pa.concat_arrays([copies, values]).take(pa.array(place))
                for row, choice in zip(here, picked, strict=True):
                    words[row] = f"a row with {options[choice]} in column {name!r}"
            columns.append(pa.concat_arrays([column, copies]))
        owners = [*self.owners, *(stranger.owner for stranger in wanted)]
        grown = replace(self, table=pa.table(columns, names=names), owners=owners)
        return grown, words, [False] * len(wanted)

    def _nullable(self, name: str) -> bool:
        """Whether a null may be put in; numpy's integers and truth values have none."""
        dtype = None if self.dtypes is None else self.dtypes[name]
        return self.schema.field(name).nullable and not (isinstance(dtype, np.dtype) and dtype.kind in "iub")

    def new_persons(self, most: int) -> list[Any]:
        assert self.privacy_id is not None
        kind = self.table.schema.field(self.privacy_id).type
        if is_text(kind):
            return new_texts(self.owners, most)
        if not pa.types.is_integer(kind):
            where = "where --privacy-id is a column of text or integers"
            raise InputError(f"verify makes new persons {where}, not of {kind}")
        bounds, taken = np.iinfo(kind.to_pandas_dtype()), set(self.owners)
        begin = min(len(self.owners), int(bounds.max))
        numbers = itertools.chain(range(begin, int(bounds.max) + 1), range(int(bounds.min), begin))
        fresh = list(itertools.islice((n for n in numbers if n not in taken), most))
        if not fresh:
            what = f"every number of the type {kind} is somebody's --privacy-id"
            raise InputError(f"{what}, and verify needs new ones; make the column wider")
        return fresh

    def source(self, order: Sequence[int]) -> Any:
        taken = self.table.take(pa.array(order, pa.int64()))
        if self.dtypes is not None:
            return self._frame(taken)
        columns = [_encoded(_single(taken.column(field.name)), field.type) for field in self.schema]
        pairs = zip(self.schema, columns, strict=True)
        fields = [pa.field(field.name, column.type, field.nullable) for field, column in pairs]
        made = pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=self.schema.metadata))
        if not self.target.suffix:
            return made
        if self.target.suffix in PARQUET_SUFFIXES:
            import pyarrow.parquet as pq

            pq.write_table(made, self.target)
        else:
            import pyarrow.feather as feather

            feather.write_feather(made, str(self.target), compression="uncompressed")
        return self.target

    def _frame(self, taken: pa.Table) -> Any:
        """A pandas frame of the same types; a categorical column chooses its codes anew."""
        import pandas as pd

        return pd.DataFrame({name: _series(taken.column(name), dtype) for name, dtype in self.dtypes.items()})


def _series(column: pa.ChunkedArray, dtype: Any) -> Any:
    """A column of a frame.

    Where the type knows nulls, it reads Arrow's columns itself: pandas would make floats of such integers.
    """
    if type(dtype).__name__ == "CategoricalDtype":
        made = column.to_pandas().astype("category")
        return made.cat.as_ordered() if dtype.ordered else made
    if hasattr(dtype, "__from_arrow__"):
        return column.to_pandas(types_mapper=lambda _: dtype)
    return column.to_pandas().astype(dtype)


def _single(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _taken_apart(column: pa.ChunkedArray) -> pa.Array:
    """Without a dictionary, and without views, of which the library cannot take rows."""
    whole = _single(column)
    apart = pa.types.is_dictionary(whole.type) or pa.types.is_string_view(whole.type)
    return plain(whole) if apart else whole


def _encoded(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in the input's type.

    A dictionary whose codes are narrower than Arrow's own was pandas': it takes the narrowest that hold them.
    """
    if not pa.types.is_dictionary(kind):
        return column.cast(kind)
    made = column.cast(kind.value_type).dictionary_encode()
    size, index = len(made.dictionary), kind.index_type
    if index != pa.int32():
        index = pa.int8() if size < 2**7 - 1 else pa.int16() if size < 2**15 - 1 else pa.int32()
    return pa.DictionaryArray.from_arrays(made.indices.cast(index), made.dictionary, ordered=kind.ordered)
