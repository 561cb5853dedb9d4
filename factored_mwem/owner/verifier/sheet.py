"""Sheet: a private table as rows that can be put together anew, with rows of strangers added.

NOT PRIVATE: for `fmwem verify` alone. A table is then an order of row numbers, and a neighbour another order.
Text files are put together from their bytes, all else from Arrow's rows; what comes out is of the kind that
came in, for the way through its reader is part of what is verified.
"""

from __future__ import annotations

import gzip
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.random import Generator

from factored_mwem.errors import InputError
from factored_mwem.owner.verifier.hostile import (
    breaks_lines,
    choose,
    lines,
    quoted_cells,
    raw_cells,
    typed_cells,
)
from factored_mwem.request.table import PrivateTable
from factored_mwem.tables.codes.parsing import is_text, plain
from factored_mwem.tables.inputs.arrow_input import without_dictionaries
from factored_mwem.tables.inputs.delimited import cells_of, leaves_open
from factored_mwem.tables.inputs.formats import DELIMITED, PARQUET, suffix_of
from factored_mwem.tables.inputs.input_file import InputFile
from factored_mwem.tables.inputs.source import Private, is_text_file
from factored_mwem.tables.inputs.text_form import UTF_8, TextForm, read_form
from factored_mwem.tables.inputs.uris import is_uri

NAMELESS = (None, "")
"""Privacy ids that name no person."""


def owner_of(privacy_id: Any) -> Any:
    """The person whom an id names, or None."""
    return None if privacy_id in NAMELESS else privacy_id


@dataclass(frozen=True, slots=True)
class Stranger:
    """A row to make: a copy of row `like`, with a hostile cell, or a hostile line, where `hostile`."""

    like: int
    hostile: bool
    person: Any = None
    """The privacy id it gets, where the table has one."""

    @property
    def owner(self) -> Any:
        return owner_of(self.person)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sheet(Private):
    """The rows of a table by number. `owners`: of each row its privacy id; None if it has none, or the table
    has no such column. `target`: where a table goes that must be a file.
    """

    owners: list[Any]
    privacy_id: str | None
    target: Path

    @abstractmethod
    def grow(self, wanted: Sequence[Stranger], rng: Generator) -> tuple[Sheet, list[str], list[bool]]:
        """A sheet with these rows after its own; what each is; whether it may get all of them refused."""

    @abstractmethod
    def source(self, order: Sequence[int]) -> Any:
        """The table of these rows, to be opened like any other."""

    def new_persons(self, most: int) -> list[Any]:
        """Up to `most` different privacy ids that nobody in the table has; some texts hold a NUL, where a
        program may end them. Raises InputError if there is none.
        """
        taken = set(self.owners)
        texts = (f"{n:d}\0new" if n % 3 == 0 else f"new {n:d}" for n in itertools.count(len(self.owners)))
        return list(itertools.islice((text for text in texts if text not in taken), most))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lines(Sheet):
    """A text file: what stands before its first record, and its records as bytes without their line ends."""

    header: bytes
    records: list[bytes]
    form: TextForm

    @classmethod
    def read(cls, path: Path, form: TextForm, privacy_id: str | None, folder: Path) -> Lines:
        data, end = path.read_bytes(), form.line_end
        data = gzip.decompress(data) if form.packed else data
        header, records = data[: form.begins], data[form.begins :].split(end)
        if not records[-1]:
            records.pop()
        if form.records == "multiline":
            records = _joined(records, form)
        if len(form.names) > 1:  # an empty line is no record
            records = [record for record in records if record and (form.both or record != b"\r")]
        sheet = cls([], privacy_id, folder / f"neighbour{suffix_of(path)}", header, records, form)
        return replace(sheet, owners=[sheet._owner(record) for record in records])

    @property
    def delimiter(self) -> bytes:
        return self.form.delimiter.encode()

    def _owner(self, record: bytes) -> Any:
        """The id as the reader finds it: none in a line that cannot be cut, nor in a cell that is no text."""
        cells = None if self.privacy_id is None else cells_of(record, self.form)
        if cells is None:
            return None
        try:
            return cells[self.form.names.index(str(self.privacy_id))].decode() or None
        except UnicodeDecodeError:
            return None

    def grow(self, wanted: Sequence[Stranger], rng: Generator) -> tuple[Lines, list[str], list[bool]]:
        records, words, breaks, owners = zip(*(self._row(each, rng) for each in wanted), strict=True)
        grown = replace(self, records=[*self.records, *records], owners=[*self.owners, *owners])
        return grown, list(words), list(breaks)

    def _row(self, stranger: Stranger, rng: Generator) -> tuple[bytes, str, bool, Any]:
        """(line, what it is, whether a reader may refuse a whole table over it, owner)."""
        multiline, names, owner = self.form.records == "multiline", self.form.names, stranger.owner
        like = cells_of(self.records[stranger.like], self.form)
        if like is None and not stranger.hostile:
            return self.records[stranger.like], "a copy of a line that is no row", True, None
        like = like or [b""] * len(names)
        cells = [self._cell(cell) for cell in like]
        held = None if self.privacy_id is None else names.index(self.privacy_id)
        if held is not None:
            cells[held] = self._cell(str(stranger.person or "").encode())
        if not stranger.hostile:
            return self.delimiter.join(cells), "a copy of a row", False, owner
        free = [at for at in range(len(names)) if at != held]
        if not multiline and held is None and rng.random() < 0.1:
            words, record = choose([lines(self.delimiter.join(cells), self.delimiter, len(names))], rng)
            return record, words, True, owner
        column = free[rng.integers(len(free))]
        existing = like[column].replace(b'"', b"")
        families = quoted_cells(existing) if multiline else raw_cells(existing, self.delimiter)
        words, cell = choose(families, rng)
        cells[column] = cell
        breaks = not cell.startswith(b'"') if multiline else breaks_lines(cell) or "bare separator" in words
        what = f"a row with {words} in column {names[column]!r}"
        return self.delimiter.join(cells), what, breaks, owner

    def _cell(self, raw: bytes) -> bytes:
        """In quotes where it needs them."""
        special = (self.delimiter, b'"', b"\r", b"\n")
        return b'"' + raw.replace(b'"', b'""') + b'"' if any(c in raw for c in special) else raw

    def source(self, order: Sequence[int]) -> Path:
        data = self.header + self.form.line_end.join([*(self.records[number] for number in order), b""])
        self.target.write_bytes(gzip.compress(data, 1) if self.form.packed else data)
        return self.target


def _joined(lines_read: Sequence[bytes], form: TextForm) -> list[bytes]:
    """Lines put together to records: a record goes on while a quote is open."""
    records, record, is_open = list[bytes](), list[bytes](), False
    for line in lines_read:
        record.append(line)
        is_open = leaves_open(line, form, is_open=is_open)
        if not is_open:
            records.append(form.line_end.join(record))
            record = []
    return [*records, form.line_end.join(record)] if record else records


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TypedRows(Sheet):
    """A typed table: Arrow's rows without dictionaries, which a library makes anew for every neighbour.

    `schema` is that of the input; `dtypes` those of a pandas frame, which is what comes out then.
    """

    table: pa.Table
    schema: pa.Schema
    dtypes: Any

    @classmethod
    def of(cls, table: pa.Table, privacy_id: str | None, folder: Path, suffix: str, dtypes: Any) -> TypedRows:
        names, columns = table.schema.names, [_taken_apart(column) for column in table.columns]
        owners = [None] * len(table)
        if privacy_id is not None:
            owners = [owner_of(cell) for cell in columns[names.index(privacy_id)].to_pylist()]
        target = folder / f"neighbour{suffix}"
        return cls(owners, privacy_id, target, pa.table(columns, names=names), table.schema, dtypes)

    def grow(self, wanted: Sequence[Stranger], rng: Generator) -> tuple[TypedRows, list[str], list[bool]]:
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
            return Sheet.new_persons(self, most)
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
        neighbour = pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=self.schema.metadata))
        if not self.target.suffix:
            return neighbour
        if self.target.suffix in PARQUET.suffixes:
            import pyarrow.parquet as pq

            pq.write_table(neighbour, self.target)
        else:
            import pyarrow.feather as feather

            feather.write_feather(neighbour, str(self.target), compression="uncompressed")
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
        series = _categories(plain(_single(column)), dtype.categories.dtype)
        return series.cat.as_ordered() if dtype.ordered else series
    if hasattr(dtype, "__from_arrow__"):
        return column.to_pandas(types_mapper=lambda _: dtype)
    return column.to_pandas().astype(dtype)


def _categories(column: pa.Array, of: Any) -> Any:
    """As `astype("category")` does, with categories `of` a type. But that takes texts that differ behind a
    NUL alone for one (pandas 2), so the rows of others would change with one row.
    """
    import pandas as pd

    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return column.to_pandas().astype("category")
    values = column.unique().drop_null()
    values = values.take(pc.sort_indices(values))
    codes = pc.index_in(column, values).fill_null(-1)
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(values.to_pylist(), dtype=of)))


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
    dictionary = column.cast(kind.value_type).dictionary_encode()
    size, index = len(dictionary.dictionary), kind.index_type
    if index != pa.int32():
        index = pa.int8() if size < 2**7 - 1 else pa.int16() if size < 2**15 - 1 else pa.int32()
    return pa.DictionaryArray.from_arrays(
        dictionary.indices.cast(index), dictionary.dictionary, ordered=kind.ordered
    )


def sheet_of(source: Any, request: PrivateTable, folder: Path) -> Sheet:
    """The rows of a table. `folder` is private, for tables that must be files."""
    by_id = request.promise.privacy_id
    if is_text_file(source):
        _check_plain(source, request)
        form = request.private.form
        if form is None:  # a reader that a test planted may not state it
            form = read_form(InputFile(Path(source)), request.promise.records, request.promise.dialect)
        return Lines.read(Path(source), form, by_id, folder)
    schema = request.private.schema
    why = "verify changes rows of a table on this machine; give it a file or a data frame"
    read = request.private.read_here(why).batches(schema.names)
    batches = (without_dictionaries(batch, schema) for batch in read)
    table = pa.Table.from_batches(list(batches), schema)
    suffix = Path(source).suffix.lower() if isinstance(source, str | Path) else ""
    types = source.dtypes if type(source).__module__.split(".")[0] == "pandas" else None
    return TypedRows.of(table, by_id, folder, suffix, types)


def _check_plain(source: Any, request: PrivateTable) -> None:
    """Raise InputError for text that cannot be rewritten: several files, not UTF-8, neither plain nor .gz."""
    form = request.private.form
    if not isinstance(source, list | tuple) and not is_uri(source) and Path(source).is_file():
        plain = form is None or (form.packed in ("", "gzip") and form.encoding in UTF_8 and all(form.names))
        if plain and suffix_of(Path(source)) in DELIMITED.endings:
            return
    what = "one CSV or TSV file of this machine, in UTF-8, plain or .gz, all its columns named"
    raise InputError(f"verify takes text from {what}; write the table so, or as Parquet")
