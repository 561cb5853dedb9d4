"""Readings: NOT PRIVATE. A column of the real and of the synthetic table, read in the same way.

Numbers and moments become float64, all else text; a column may hold both. So a column that is text in one
table and typed in the other is compared by its values, and none is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import MARKERS, Attribute
from factored_mwem.errors import InputError
from factored_mwem.privacy.votes import TOLERANCE
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.dates import DateVotes, date_votes, in_iso
from factored_mwem.tables.codes.kinds import MISSING
from factored_mwem.tables.codes.notation import to_plain, told_exactly
from factored_mwem.tables.codes.parsing import (
    is_number,
    is_text,
    masked,
    plain,
    read_units,
    spelt,
    value_type,
)
from factored_mwem.tables.inputs.source import Private, Table

NEARLY_ALL = 0.95
"""Share of the real column's values from which on it is one of numbers, or of moments."""
SOME = 0.05
"""Share from which on it is mixed: what reads as a number is one, and the rest is text."""
CODE = r"^\s*[+-]?0[0-9]+(\.[0-9]*)?\s*$"
"""Texts such as "0311", digits after a zero, are not numbers, unless the column is typed."""
Kind = Literal["number", "moment", "mixed", "text"]
Unit = Literal["number", "moment"]
_READERS = {
    "number": Attribute.model_validate(
        {"name": "x", "type": "number", "constraints": {"minimum": 0, "maximum": 1}}
    ),
    "moment": Attribute.model_validate(
        {"name": "x", "type": "datetime", "constraints": {"minimum": "2000-01-01", "maximum": "2001-01-01"}}
    ),
}
"""Attributes that read values of a unit; their bounds do not matter."""
_WORDS = Attribute(name="x", type="boolean")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Values(Private):
    """A column row by row: `numbers: float64[row]`, NaN if there is none, and `index: int64[row]` into the
    distinct `texts`, -1 if there is none. Where there is neither, the value is missing.
    """

    numbers: np.ndarray
    index: np.ndarray
    texts: pa.Array
    __getstate__ = Private.__getstate__


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReadColumn(Private):
    """A whole column in memory. Of text each value once: `index: int64[row]` points into `values`, and -1
    is null; of other types `values` are the rows.
    """

    values: pa.Array
    index: np.ndarray | None
    __getstate__ = Private.__getstate__

    @property
    def holds(self) -> str | None:
        """The kind by the type of the column; None for text, whose values decide."""
        return _holds(self.values.type)

    def suits(self, attribute: Attribute) -> bool:
        """Whether an attribute can read the column, as it is or as text."""
        moments = attribute.type in ("date", "datetime")
        return self.holds is None or attribute.type == "string" or (self.holds == "moment") == moments

    def codes(self, attribute: Attribute) -> np.ndarray:
        """uint[row]: the codes of an attribute that it suits."""
        if self.index is not None:
            return encode(attribute, pa.concat_arrays([self.values, pa.nulls(1, pa.string())]))[self.index]
        return encode(attribute, written(self.values) if attribute.type == "string" else self.values)


def _holds(arrow: pa.DataType) -> str | None:
    if pa.types.is_boolean(arrow):
        return "boolean"
    if pa.types.is_date(arrow) or pa.types.is_timestamp(arrow):
        return "moment"
    return "number" if is_number(arrow) else None


def comparable(arrow: pa.DataType) -> bool:
    """Whether values of a column's type are numbers, moments, truth values or text."""
    arrow = value_type(arrow)
    return is_text(arrow) or _holds(arrow) is not None


def read_columns(table: Table, names: Sequence[str]) -> dict[str, ReadColumn]:
    """NOT PRIVATE. Whole columns, in one pass. Raises InputError if there are no rows."""
    chunks: dict[str, list[pa.Array]] = {name: [] for name in names}
    rows = 0
    for batch in table.batches(names):
        rows += batch.num_rows
        for name, column in zip(names, map(plain, batch.columns), strict=True):
            chunks[name].append(column.dictionary_encode() if is_text(column.type) else column)
    if not rows:
        raise InputError("one of the tables has no rows; there is nothing to compare")
    return {name: _column(chunks.pop(name)) for name in names}


def _column(chunks: list[pa.Array]) -> ReadColumn:
    if not pa.types.is_dictionary(chunks[0].type):
        return ReadColumn(pa.concat_arrays(chunks), None)
    whole = pa.chunked_array(chunks).combine_chunks()
    return ReadColumn(whole.dictionary, pc.fill_null(whole.indices, -1).to_numpy().astype(np.int64))


def read_alike(
    real: ReadColumn, synthetic: ReadColumn, missing: Collection[str] | None = None
) -> tuple[Kind, Unit, Values, Values]:
    """NOT PRIVATE. (kind, unit, real, synthetic): both columns read the same way.

    The types decide, and where the real one is text, its values. Null is text in `missing`, or else the
    empty text and, but in a column of text, the MARKERS. The unit of numbers is their own, of moments
    microseconds since 1970; a column of text has no numbers. InputError in words that follow the column's
    name, where numbers would meet moments, or typed values a text that does not read as they do.
    """
    declared = missing is not None
    missing = (*MISSING, *MARKERS) if missing is None else missing
    real, synthetic = _plainly(real, missing), _plainly(synthetic, missing)
    held = {column.holds for column in (real, synthetic)} - {None}
    if "moment" in held and len(held) > 1:
        what = f"is {spelt(real.values.type)} in the real table but {spelt(synthetic.values.type)}"
        raise InputError(f"{what} in the synthetic one, which cannot be compared")
    if "boolean" in held:
        return "text", "number", _words(real, missing), _words(synthetic, missing)
    kind, unit = _kind(real, synthetic, missing)
    number_part = unit if kind != "text" else None
    if kind == "text" and not declared:
        missing = MISSING
    return kind, unit, _values(real, number_part, missing), _values(synthetic, number_part, missing)


def _plainly(column: ReadColumn, missing: Collection[str]) -> ReadColumn:
    """With the dates of a column of text by ISO 8601, if most of its values are dates of one other kind, or
    with its numbers plain, if more than a few are not.
    """
    if column.index is None or not len(column.values):
        return column
    rows = _present(column, missing)
    exact = DateVotes(date_votes(column.values, rows), 0.0, float(rows.sum()))
    written = exact.written(0.0, TOLERANCE)
    if written is not None:
        return replace(column, values=in_iso(column.values, written.pattern))
    numbers = float(rows[~np.isnan(_read("number", column.values))].sum())
    told, held = told_exactly(column.values, rows, numbers)
    if told is None or held < TOLERANCE * rows.sum():
        return column
    return replace(column, values=to_plain(column.values, told.pattern))


def _kind(real: ReadColumn, synthetic: ReadColumn, missing: Collection[str]) -> tuple[Kind, Unit]:
    """The kind of a pair without truth values, and what its numbers are."""
    for column in (real, synthetic):
        if column.holds is not None and (column is real or not _present(real, missing).any()):
            unit: Unit = "moment" if column.holds == "moment" else "number"
            return unit, unit
    weights = _present(real, missing)
    if not weights.any():
        return "text", "number"
    typed = synthetic.holds
    shares: dict[Unit, float] = {}
    for unit in ("number", "moment"):
        if typed in (None, unit):
            shares[unit] = float(weights[~np.isnan(_read(unit, real.values))].sum() / weights.sum())
    unit = max(shares, key=lambda unit: shares[unit])
    codes = pc.match_substring_regex(real.values, CODE).to_numpy(zero_copy_only=False)
    if typed is not None and shares[unit] < SOME:
        what = "dates" if unit == "moment" else "numbers"
        how = "say how it is written as for the release, such as --date-format, --decimal or --domain"
        raise InputError(f"holds text in the real table, and {what} in the synthetic one; {how}")
    if shares[unit] < SOME or (typed is None and unit == "number" and weights[codes].any()):
        return "text", unit
    return (unit if shares[unit] >= NEARLY_ALL else "mixed"), unit


def _present(column: ReadColumn, missing: Collection[str]) -> np.ndarray:
    """int64[distinct text]: rows of each, 0 where it stands for a missing value."""
    assert column.index is not None  # as of every column of text
    rows = np.bincount(column.index[column.index >= 0], minlength=len(column.values))
    return np.where(_is_in(column.values, missing), 0, rows)


def _values(column: ReadColumn, unit: Unit | None, missing: Collection[str]) -> Values:
    """The column's numbers in `unit`, and the rest as text; all as text without a unit."""
    if column.index is not None:
        return _of_text(column.index, column.values, unit, missing)
    if unit is None:
        return _of_rows(written(column.values))
    numbers = _read(unit, column.values, finite=False)
    infinite = np.isinf(numbers)
    index = np.where(infinite, (numbers < 0).astype(np.int64), -1)
    return Values(np.where(infinite, np.nan, numbers), index, pa.array(["inf", "-inf"]))


def _of_rows(texts: pa.Array) -> Values:
    encoded = texts.dictionary_encode()
    index = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return _of_text(index, encoded.dictionary, None, ())


def _of_text(index: np.ndarray, texts: pa.Array, unit: Unit | None, missing: Collection[str]) -> Values:
    numbers = _read(unit, texts) if unit is not None else np.full(len(texts), np.nan)
    absent = _is_in(texts, missing)
    numbers[absent] = np.nan
    known = np.where(absent | ~np.isnan(numbers), -1, np.arange(len(texts)))  # the last is for a null
    return Values(np.append(numbers, np.nan)[index], np.append(known, -1)[index], texts)


def _words(column: ReadColumn, missing: Collection[str]) -> Values:
    """The column beside one of truth values: true and false, in whatever words a domain takes by default."""
    index, values = column.index, column.values
    if index is None:
        encoded = written(values).dictionary_encode()
        index, values = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64), encoded.dictionary
    read = read_units(_WORDS, values)
    truth = pc.if_else(pa.array(read.filled(0) == 1), "true", "false")
    texts = pc.if_else(pa.array(np.ma.getmaskarray(read)), values, truth).dictionary_encode()
    absent = _is_in(values, missing)
    to = np.where(absent, -1, texts.indices.to_numpy().astype(np.int64))
    return Values(np.full(len(index), np.nan), np.append(to, -1)[index], texts.dictionary)


def _read(unit: Unit, values: pa.Array, *, finite: bool = True) -> np.ndarray:
    """float64: the values as numbers of a unit, NaN where they are none."""
    units = read_units(_READERS[unit], values)
    numbers = np.where(np.ma.getmaskarray(units), np.nan, units.filled(0).astype(np.float64))
    return np.where(np.isinf(numbers), np.nan, numbers) if finite else numbers


def _is_in(texts: pa.Array, these: Collection[str]) -> np.ndarray:
    return pc.is_in(texts, value_set=pa.array(list(these), pa.string())).to_numpy(zero_copy_only=False)


def written(values: pa.Array) -> pa.Array:
    """Typed values as text: whole numbers without a point, moments as ISO 8601, NaN as null."""
    if _holds(values.type) == "moment":
        ticks = read_units(_READERS["moment"], values)
        moments = pa.array(ticks.filled(0), pa.timestamp("us"), mask=np.ma.getmaskarray(ticks))
        return (moments.cast(pa.date32()) if pa.types.is_date(values.type) else moments).cast(pa.string())
    if not (pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)):
        return values.cast(pa.string())
    numbers = masked(values.cast(pa.float64(), safe=False), np.float64)
    absent = np.ma.getmaskarray(numbers) | np.isnan(numbers.filled(0))
    plainly = np.where(absent, 0, numbers.filled(0))
    whole = (np.floor(plainly) == plainly) & (np.abs(plainly) < 2**53)
    integers = pa.array(np.where(whole, plainly, 0).astype(np.int64)).cast(pa.string())
    texts = pc.if_else(pa.array(whole), integers, pa.array(plainly).cast(pa.string()))
    return pc.if_else(pa.array(absent), pa.scalar(None, pa.string()), texts)
