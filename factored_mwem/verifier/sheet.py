"""Sheet: a private table as rows that can be put together anew, with strangers' rows beside its own. NOT
PRIVATE: for `fmwem verify` alone.

A table is then an order of row numbers, and a neighbour another order. Text files are put together from their
bytes, all else from Arrow's rows; what comes out is of the kind that came in, for the way through its reader
is part of what is verified.
"""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.random import Generator

from factored_mwem.errors import InputError
from factored_mwem.request import Request
from factored_mwem.tables.delimited import Form, cells_of, leaves_open, read_form
from factored_mwem.tables.input_file import InputFile
from factored_mwem.tables.parsing import is_text, plain
from factored_mwem.tables.source import TEXT_SUFFIXES, Private
from factored_mwem.verifier.hostile import breaks_lines, choose, lines, quoted_cells, raw_cells, typed_cells

MISSING = (None, "")
"""Privacy ids that name nobody."""


@dataclass(frozen=True, slots=True)
class Stranger:
    """A row to make: a copy of row `like`, with a hostile cell of `column` (or, beyond the last, a hostile
    line) where `hostile`.

    `person`: the privacy id it gets, where the table has one.
    """

    like: int
    hostile: bool
    person: Any = None


class Sheet(Protocol):
    """The rows of a table by number."""

    @property
    def owners(self) -> list[Any]:
        """Of each row its privacy id; None where it has none, or the table has no such column."""

    def grow(self, wanted: Sequence[Stranger], rng: Generator) -> tuple[Sheet, list[str], list[bool]]:
        """A sheet with these rows after its own; what each is in words; whether a reader may refuse a whole
        table over it.
        """

    def new_persons(self, most: int) -> list[Any]:
        """Privacy ids that nobody in the table has, all different: `most`, or as many as there are.
        InputError where there is none.
        """

    def source(self, order: Sequence[int]) -> Any:
        """The table of these rows, to be opened like any other."""


def sheet_of(source: Any, request: Request, folder: Path) -> Sheet:
    """The rows of a table. `folder` is private, for tables that must be files."""
    by_id = request.policy.privacy_id
    if isinstance(source, str | Path) and Path(source).name.lower().endswith(TEXT_SUFFIXES):
        form = request.private.form or read_form(
            InputFile(Path(source)), request.policy.records
        )  # a planted reader may not say
        return Lines.read(Path(source), form, by_id, folder)
    table = pa.Table.from_batches(
        list(request.private.batches(request.private.schema.names)), request.private.schema
    )
    suffix = Path(source).suffix.lower() if isinstance(source, str | Path) else ""
    types = source.dtypes if type(source).__module__.split(".")[0] == "pandas" else None
    return Rows.of(table, by_id, folder, suffix, types)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lines(Private):
    """A text file: its header line and its records as bytes, without their line ends."""

    header: bytes
    records: list[bytes]
    owners: list[Any]
    form: Form
    privacy_id: str | None
    target: Path

    @classmethod
    def read(cls, path: Path, form: Form, privacy_id: str | None, folder: Path) -> Lines:
        data, end = gzip.decompress(path.read_bytes()) if form.gzip else path.read_bytes(), form.line_end
        header, records = data[: form.begins].removesuffix(end), data[form.begins :].split(end)
        if not records[-1]:
            records.pop()
        if form.records == "multiline":
            records = _joined(records, form)
        if len(form.names) > 1:  # an empty line is no record
            records = [record for record in records if record and (form.both or record != b"\r")]
        suffix = next(
            s for s in sorted(TEXT_SUFFIXES, key=len, reverse=True) if path.name.lower().endswith(s)
        )
        sheet = cls(header, records, [], form, privacy_id, folder / f"neighbour{suffix}")
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
        made = [self._row(stranger, rng) for stranger in wanted]
        records = [*self.records, *(row.record for row in made)]
        grown = replace(self, records=records, owners=[*self.owners, *(row.owner for row in made)])
        return grown, [row.words for row in made], [row.breaks for row in made]

    def _row(self, stranger: Stranger, rng: Generator) -> _Row:
        multiline, names, owner = self.form.records == "multiline", self.form.names, _person(stranger)
        like = cells_of(self.records[stranger.like], self.form)
        if like is None and not stranger.hostile:
            return _Row(self.records[stranger.like], "a copy of a line that is no row", True, None)
        like = like or [b""] * len(names)
        cells = [self._cell(cell) for cell in like]
        held = None if self.privacy_id is None else names.index(self.privacy_id)
        if held is not None:
            cells[held] = self._cell(str(stranger.person or "").encode())
        if not stranger.hostile:
            return _Row(self.delimiter.join(cells), "a copy of a row", False, owner)
        free = [at for at in range(len(names)) if at != held]
        if not multiline and held is None and rng.random() < 0.1:
            words, record = choose([lines(self.delimiter.join(cells), self.delimiter, len(names))], rng)
            return _Row(record, words, True, owner)
        column = free[rng.integers(len(free))]
        existing = like[column].replace(b'"', b"")
        words, cells[column] = choose(
            quoted_cells(existing) if multiline else raw_cells(existing, self.delimiter), rng
        )
        breaks = (
            not cells[column].startswith(b'"')
            if multiline
            else breaks_lines(cells[column]) or "bare separator" in words
        )
        return _Row(
            self.delimiter.join(cells), f"a row with {words} in column {names[column]!r}", breaks, owner
        )

    def _cell(self, raw: bytes) -> bytes:
        return (
            b'"' + raw.replace(b'"', b'""') + b'"'
            if any(c in raw for c in (self.delimiter, b'"', b"\r", b"\n"))
            else raw
        )

    def new_persons(self, most: int) -> list[Any]:
        return _new_texts(self.owners, most)

    def source(self, order: Sequence[int]) -> Path:
        data = self.form.line_end.join([self.header, *(self.records[number] for number in order), b""])
        self.target.write_bytes(gzip.compress(data, 1) if self.form.gzip else data)
        return self.target


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Row(Private):
    """A line that was made: what it is in words, whether a reader may refuse a whole table over it, and whose
    it is.
    """

    record: bytes
    words: str
    breaks: bool
    owner: Any


def _joined(lines_read: Sequence[bytes], form: Form) -> list[bytes]:
    """Lines put together to records: a record goes on while a quote is open."""
    found, record, is_open = list[bytes](), list[bytes](), False
    for line in lines_read:
        record.append(line)
        is_open = leaves_open(line, form, is_open=is_open)
        if not is_open:
            found.append(form.line_end.join(record))
            record = []
    return [*found, form.line_end.join(record)] if record else found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rows(Private):
    """A typed table: Arrow's rows without dictionaries, which are made anew for every neighbour as a library
    would.

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
        columns = [_single(column) for column in table.columns]
        columns = [
            plain(c) if pa.types.is_dictionary(c.type) or pa.types.is_string_view(c.type) else c
            for c in columns
        ]
        owners = (
            _owners(columns[table.schema.names.index(privacy_id)])
            if privacy_id is not None
            else [None] * len(table)
        )
        return cls(
            pa.table(columns, names=table.schema.names),
            table.schema,
            owners,
            privacy_id,
            folder / f"neighbour{suffix}",
            dtypes,
        )

    def grow(self, wanted: Sequence[Stranger], rng: Generator) -> tuple[Rows, list[str], list[bool]]:
        names, words = self.table.schema.names, ["a copy of a row"] * len(wanted)
        free = [at for at, name in enumerate(names) if name != self.privacy_id]
        column_of = np.array(
            [free[rng.integers(len(free))] if stranger.hostile else -1 for stranger in wanted], dtype=np.int64
        )
        likes, columns = pa.array([stranger.like for stranger in wanted], pa.int64()), []
        for at, name in enumerate(names):
            column = _single(self.table.column(at))
            copies = column.take(likes)
            if name == self.privacy_id:
                copies = pa.array([stranger.person for stranger in wanted], column.type)
            here = np.flatnonzero(column_of == at)
            options, values = (
                typed_cells(column, nullable=self._nullable(name), frame=self.dtypes is not None, rng=rng)
                if len(here)
                else ([], None)
            )
            if options:
                picked = rng.integers(len(options), size=len(here))
                place = np.arange(len(wanted), dtype=np.int64)
                place[here] = len(wanted) + picked
                copies = pa.concat_arrays([copies, values]).take(pa.array(place))
                for row, choice in zip(here, picked, strict=True):
                    words[row] = f"a row with {options[choice]} in column {name!r}"
            columns.append(pa.concat_arrays([column, copies]))
        grown = replace(
            self, table=pa.table(columns, names=names), owners=[*self.owners, *map(_person, wanted)]
        )
        return grown, words, [False] * len(wanted)

    def _nullable(self, name: str) -> bool:
        """Whether a null may be put in; numpy's integers and truth values have none."""
        dtype = None if self.dtypes is None else self.dtypes[name]
        return self.schema.field(name).nullable and not (isinstance(dtype, np.dtype) and dtype.kind in "iub")

    def new_persons(self, most: int) -> list[Any]:
        assert self.privacy_id is not None
        kind = self.table.schema.field(self.privacy_id).type
        if is_text(kind):
            return _new_texts(self.owners, most)
        if not pa.types.is_integer(kind):
            raise InputError(
                f"verify makes new persons where --privacy-id is a column of text or integers, not of {kind}"
            )
        bounds, taken = np.iinfo(kind.to_pandas_dtype()), set(self.owners)
        begin = min(len(self.owners), int(bounds.max))
        numbers = itertools.chain(range(begin, int(bounds.max) + 1), range(int(bounds.min), begin))
        found = list(itertools.islice((n for n in numbers if n not in taken), most))
        if not found:
            raise InputError(
                f"every number of the type {kind} is somebody's --privacy-id, and verify needs new ones; "
                "make the column wider"
            )
        return found

    def source(self, order: Sequence[int]) -> Any:
        taken = self.table.take(pa.array(order, pa.int64()))
        if self.dtypes is not None:
            return self._frame(taken)
        columns = [_encoded(_single(taken.column(field.name)), field.type) for field in self.schema]
        fields = [
            pa.field(f.name, column.type, f.nullable) for f, column in zip(self.schema, columns, strict=True)
        ]
        made = pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=self.schema.metadata))
        if not self.target.suffix:
            return made
        if self.target.suffix in (".parquet", ".pq"):
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
    """A column of a frame. Where the type knows nulls, it reads Arrow's columns itself: pandas would make
    floats of integers among which are some.
    """
    if type(dtype).__name__ == "CategoricalDtype":
        made = column.to_pandas().astype("category")
        return made.cat.as_ordered() if dtype.ordered else made
    if hasattr(dtype, "__from_arrow__"):
        return column.to_pandas(types_mapper=lambda _: dtype)
    return column.to_pandas().astype(dtype)


def _person(stranger: Stranger) -> Any:
    return None if stranger.person in MISSING else stranger.person


def _new_texts(owners: Sequence[Any], most: int) -> list[Any]:
    """Texts that are no owner's; some hold a NUL, where a program may end them."""
    taken = set(owners)
    texts = (f"{n:d}\0new" if n % 3 == 0 else f"new {n:d}" for n in itertools.count(len(owners)))
    return list(itertools.islice((text for text in texts if text not in taken), most))


def _owners(column: pa.Array) -> list[Any]:
    return [None if owner in MISSING else owner for owner in column.to_pylist()]


def _single(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _encoded(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in the input's type. A dictionary whose codes are narrower than Arrow's own was pandas': it
    takes the narrowest that hold them.
    """
    if not pa.types.is_dictionary(kind):
        return column.cast(kind)
    made = column.cast(kind.value_type).dictionary_encode()
    size = len(made.dictionary)
    index = (
        kind.index_type
        if kind.index_type == pa.int32()
        else pa.int8()
        if size < 2**7 - 1
        else pa.int16()
        if size < 2**15 - 1
        else pa.int32()
    )
    return pa.DictionaryArray.from_arrays(made.indices.cast(index), made.dictionary, ordered=kind.ordered)
