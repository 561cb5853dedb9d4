"""Profile: how often each value of a column comes, and what follows from that. One pass over the rows.

Private: `discover` reads it through the accountant, `draft` says NOT PRIVATE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import WIDEST
from factored_mwem.errors import ResourceError
from factored_mwem.tables.codes.dates import date_votes, in_iso
from factored_mwem.tables.codes.kinds import (
    KINDS,
    MOMENTS,
    ZEROS,
    ZONES,
    kind_of,
    kinds_of,
    units_of,
    zeros_of,
    zones_of,
)
from factored_mwem.tables.codes.notation import Amounts, is_notation, to_plain
from factored_mwem.tables.codes.parsing import is_text, plain
from factored_mwem.tables.inputs.table import Private, Table

MAX_COLUMNS = 2**14
"""Columns that are profiled at a time."""
MERGE = 2**20
"""Values that are kept apart before equal ones are added up."""
MAX_POPULAR = 2.0**53
"""A larger number is not looked for as a value of its own: floats cannot tell it from its neighbours."""
NO_VALUES = np.zeros(0)


@dataclass(slots=True, eq=False, repr=False)
class ColumnProfile(Private):
    """The distinct values of a column and how often each comes: `values` (Arrow), `counts: int64[value]`;
    its dates are written by ISO 8601 and its numbers plainly and, if one is known, by a `format`.
    """

    format: str | None = None
    parts: list[pa.Table] = field(default_factory=list)
    waiting: int = 0
    _kinds: np.ndarray | None = None
    _read: pa.Array | None = None
    _amounts: Amounts | None = None

    def add(self, column: pa.Array, weights: np.ndarray | None = None) -> None:
        """Count a batch of the column; each row as often as `weights: int64[row]` say, or once."""
        if weights is None:
            counted = pc.value_counts(plain(column))
            self.add_counted(counted.field("values"), counted.field("counts"))
            return
        words = plain(column).dictionary_encode(null_encoding="encode")
        counts = np.bincount(words.indices.to_numpy(), weights, minlength=len(words.dictionary))  # below 2^53
        self.add_counted(words.dictionary, pa.array(counts.astype(np.int64)))

    def add_counted(self, values: pa.Array, counts: pa.Array) -> None:
        """Add values, of the column's plain type, that somebody else has counted."""
        if is_text(values.type):  # all together they may be longer than a string column can be
            values = values.cast(pa.large_string())
        self.parts.append(pa.table({"values": values, "counts": counts}))
        self.waiting += len(values)
        if self.waiting > MERGE and len(self.parts) > 1:
            self._merge()
            self.waiting = 0

    def _merge(self) -> None:
        whole = pa.concat_tables(self.parts)
        if len(self.parts) > 1:
            whole = whole.group_by("values").aggregate([("counts", "sum")])
            whole = whole.rename_columns(["values", "counts"])
        self.parts = [whole.combine_chunks()]

    def _column(self, name: str) -> pa.Array:
        if len(self.parts) != 1:
            self._merge()
        column = self.parts[0].column(name)
        if not column.num_chunks:
            return pa.array([], column.type)
        return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)

    @property
    def values(self) -> pa.Array:
        return self._column("values")

    @property
    def counts(self) -> np.ndarray:
        """int64[value]"""
        return self._column("counts").to_numpy().astype(np.int64)

    @property
    def _cells(self) -> pa.Array:
        """The values, their dates by ISO 8601, their numbers plain."""
        if self.format is None:
            return self.values
        if self._read is None:
            self._read = (to_plain if is_notation(self.format) else in_iso)(self.values, self.format)
        return self._read

    def read_as(self, pattern: str | None) -> None:
        """From now on, with dates or numbers of this format."""
        if pattern != self.format:
            self.format, self._kinds, self._read = pattern, None, None

    def date_votes(self) -> np.ndarray:
        """int64[class]: how many rows hold a date of each of the ways to write one."""
        return date_votes(self.values, self.counts)

    def beside_votes(self) -> np.ndarray:
        """int64[class]: how many rows hold a number that is not plain, by what stands beside it."""
        if self._amounts is None:
            self._amounts = Amounts.of(self.values)
        return self._amounts.beside_votes(self.counts)

    def digit_votes(self, beside: int) -> np.ndarray:
        """int64[class]: the same of those with one of these, by how its digits are written."""
        seen, self._amounts = self._amounts or Amounts.of(self.values), None  # not needed again
        return seen.digit_votes(self.counts, beside)

    @property
    def kinds(self) -> np.ndarray:
        """int8[value]: numbers in KINDS."""
        if self._kinds is None:
            self._kinds = kinds_of(self._cells)
        return self._kinds

    def votes(self) -> np.ndarray:
        """int64[kind]: how many rows hold a value of each of KINDS."""
        return np.bincount(self.kinds, self.counts, minlength=len(KINDS)).astype(np.int64)

    def spelt_votes(self) -> np.ndarray:
        """int64[kind, then 1 to ZEROS]: the same, but whole numbers that a column of text has with zeros
        behind a point are counted at the end, by how many zeros.
        """
        votes, counts = self.votes(), np.zeros(ZEROS + 1, dtype=np.int64)
        which = np.flatnonzero(self.kinds == KINDS.index("integer"))
        if is_text(self.values.type) and len(which):
            zeros = zeros_of(self._cells.take(pa.array(which)))
            counts += np.bincount(zeros, self.counts[which], minlength=ZEROS + 1).astype(np.int64)
            votes[KINDS.index("integer")] = counts[0]
        return np.concatenate([votes, counts[1:]])

    def told(self, most: int) -> np.ndarray:
        """int64[4]: the rows that hold truth values; those that hold others of which something may be told,
        of a text those beyond `most`; what is missing; and the rest, rare texts.
        """
        truth, missing, text = (
            np.isin(self.kinds, [KINDS.index(kind) for kind in kinds])
            for kinds in (("boolean",), ("null", "marker"), ("string", "code"))
        )
        rare = np.where(text, np.minimum(self.counts, most), 0).sum()
        truths, gone = (int(self.counts[which].sum()) for which in (truth, missing))
        return np.array([truths, self.counts.sum() - truths - gone - rare, gone, rare], dtype=np.int64)

    def beyond(self, most: int) -> np.ndarray:
        """int64[1]: the rows that values which are not null have beyond `most` each, of all together."""
        counts = np.where(self.kinds == KINDS.index("null"), 0, self.counts)
        return np.array([np.maximum(counts - most, 0).sum()], dtype=np.int64)

    def texts(self, without: Sequence[str], least: int = 0) -> dict[str, int]:
        """The rows of each value that is none of these kinds (nor null), less `least`, where any are left."""
        left = ~np.isin(self.kinds, [KINDS.index(k) for k in without]) & (self.counts > least)
        texts, counts = self.keys(left)
        return dict(zip(texts, (counts - least).tolist(), strict=True))

    def keys(self, some: np.ndarray | bool = True) -> tuple[list[str], np.ndarray]:
        """(texts, int64 rows) of `some`, bool[value], that are not null. Two values may share a text."""
        which = np.flatnonzero((self.kinds != KINDS.index("null")) & some)
        texts = self.values.take(pa.array(which))
        texts = texts if is_text(texts.type) else texts.cast(pa.string())
        return texts.to_pylist(), self.counts[which]

    def numbers(self, of: Sequence[str], unit: str, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """(units, counts) of the distinct values that are of the kinds `of`, ascending: of `unit` "number" as
        they are (float64); "integer", times `scale` and rounded down; "date" in days, "datetime" in
        microseconds since 1970 (int64).
        """
        which, units = self.units(of, unit, scale)
        distinct, place = np.unique(units, return_inverse=True)
        return distinct, np.bincount(place, self.counts[which], minlength=len(distinct)).astype(np.int64)

    def units(self, of: Sequence[str], unit: str, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """(places of the values that are of the kinds `of`, the unit of each)."""
        which = np.flatnonzero(np.isin(self.kinds, [KINDS.index(k) for k in of]))
        if not len(which):
            return which, NO_VALUES.astype(np.float64 if unit == "number" else np.int64)
        read = units_of(self._cells.take(pa.array(which)), "number" if unit == "integer" else unit)
        units = read.filled(0)
        if unit == "integer":
            with np.errstate(over="ignore"):  # a warning would say that there is such a number
                scaled = np.clip(units * scale, -float(WIDEST), float(WIDEST))
            near = np.rint(scaled)  # 0.29 * 100 is 28.999999999999996
            narrow = self.values.type.to_pandas_dtype() if pa.types.is_floating(self.values.type) else float
            close = np.abs(scaled - near) <= max(1e-9, np.finfo(narrow).eps) * np.maximum(np.abs(near), 1)
            units = np.where(close, near, np.floor(scaled)).astype(np.int64)
        elif unit == "number":
            units = units + 0.0  # -0.0 is 0.0
        return which, units

    def zones(self) -> np.ndarray:
        """int64[zone]: how many rows of a column of text hold a timestamp that says each of ZONES."""
        which = np.flatnonzero(np.isin(self.kinds, [KINDS.index(k) for k in MOMENTS[1:]]))
        said = zones_of(self.values.take(pa.array(which)))
        return np.bincount(said, self.counts[which], minlength=len(ZONES)).astype(np.int64)

    def popular(self, of: Sequence[str], unit: str, scale: float, least: int) -> dict[float, int]:
        """The rows of each number or moment, in its unit, less `least`, where any are left."""
        units, counts = self.numbers(of, unit, scale)
        exact = np.abs(units) < MAX_POPULAR
        if unit == "datetime":  # 9999-12-31 is far beyond, but a float still tells whole seconds apart
            near = np.clip(units, -WIDEST, WIDEST)
            exact |= near.astype(np.float64).astype(np.int64) == units
        kept = (counts > least) & exact
        return dict(zip(units[kept].tolist(), (counts[kept] - least).tolist(), strict=True))

    def multiples(
        self, of: Sequence[str], unit: str, scale: float, multiples: Sequence[int], special: np.ndarray
    ) -> np.ndarray:
        """int64[multiple]: rows by the last of `multiples`, of which the first is 1, that divides their
        number; without those that hold one of the `special` values.
        """
        units, counts = self.numbers(of, unit, scale)
        counts, place = np.where(np.isin(units, special), 0, counts), np.zeros(len(units), dtype=np.int64)
        for i, multiple in enumerate(multiples):
            place[units % multiple == 0] = i
        return np.bincount(place, counts, minlength=len(multiples)).astype(np.int64)

    def histogram(
        self, of: Sequence[str], unit: str, scale: float, edges: np.ndarray, special: np.ndarray
    ) -> np.ndarray:
        """int64[bin]: rows with edges[i] <= x < edges[i + 1] that hold none of the `special` values."""
        units, counts = self.numbers(of, unit, scale)
        counts = np.where(np.isin(units, special), 0, counts)
        bins = np.searchsorted(edges, units, side="right")
        return np.bincount(bins, counts, minlength=len(edges) + 1)[1:-1].astype(np.int64)


Weighted = tuple[pa.RecordBatch, np.ndarray | None]
"""Rows, and what each of them weighs: int64[row], or one."""


def profile(
    table: Table, columns: Sequence[str], rows: Iterable[Weighted] | None = None
) -> dict[str, ColumnProfile]:
    """The profile of each column, in one pass over the table's `rows`, which weigh one where nobody says.

    Raises InputError for a type that no domain can describe, ResourceError for too many columns.
    """
    if len(columns) > MAX_COLUMNS:
        most = f"a domain can be learnt for up to {MAX_COLUMNS:,} columns, not {len(columns):,}"
        raise ResourceError(f"{most}; declare it, or use --columns")
    for name in columns:
        kind_of(table.schema.field(name))
    profiles = empty_profiles(table.schema, columns)
    for batch, weights in rows or ((batch, None) for batch in table.batches(columns)):
        for name, column in zip(columns, batch.columns, strict=True):
            profiles[name].add(column, weights)
    return profiles


def empty_profiles(schema: pa.Schema, columns: Sequence[str]) -> dict[str, ColumnProfile]:
    """The profiles of columns without a row."""
    profiles = {name: ColumnProfile() for name in columns}
    for name, empty in profiles.items():
        empty.add(plain(pa.nulls(0, schema.field(name).type)))  # `pa.array([])` makes no dictionary of dates
    return profiles
