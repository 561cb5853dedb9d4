"""Spelling: cells of a text table, written as its dialect says, to those that everything else reads: numbers
with a point, dates and timestamps by ISO 8601, in UTC.

A cell that is not written so stays as it is: 1.5 is a number and 2024-12-31 a date whatever the dialect. Of a
declared domain, columns of numbers and of moments are read so, each by its type. Where the domain is to be
learnt, or was, every cell is: no type is known before, and what was learnt is in the same spelling.

Where nothing is said, semicolons between the columns, which the header line shows, say that a comma may stand
before decimals: spreadsheets of half the world write both. There a number with a point stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.dialect import Dialect
from factored_mwem.domain.domain import Domain
from factored_mwem.tables.codes.kinds import units_of
from factored_mwem.tables.codes.parsing import MOMENT, plain
from factored_mwem.tables.inputs.table import Table

GROUPS = " '\u2019\u00a0\u202f"
"""What may stand between groups of three digits, beside the sign that is not the decimal one."""
Respelling = Callable[[pa.Array], pa.Array]
NUMBERS = ("integer", "number")


def respelt(table: Table, dialect: Dialect, domain: Domain | None, privacy_id: str | None = None) -> Table:
    """The table with its cells respelt; as it is where nothing is to do. Ids of persons stay as they are."""
    said = (dialect.decimal, dialect.date_format, dialect.time_zone, dialect.missing)
    commas = dialect.decimal is None and table.form is not None and table.form.delimiter == ";"
    if not table.text or not (commas or any(said)):
        return table

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        ways = [() if name == privacy_id else _ways(dialect, domain, name, commas) for name in columns]
        for batch in table.read(columns):
            arrays = [_by(ways_, column) for ways_, column in zip(ways, batch.columns, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    return replace(table, read=read, zone=dialect.time_zone)


def _by(ways: Sequence[Respelling], column: pa.Array) -> pa.Array:
    column = plain(column) if ways else column  # what a folder's name says comes as a dictionary
    for way in ways:
        column = way(column)
    return column


def _ways(dialect: Dialect, domain: Domain | None, name: str, commas: bool) -> list[Respelling]:
    """What becomes of the cells of a column, one after the other. `commas`: numbers may have one."""
    attribute = domain[name] if domain is not None and name in domain else None
    unknown = attribute is None if domain is None else attribute is not None and attribute.learnt
    kind = attribute.type if attribute is not None and not unknown else None
    ways: list[Respelling] = []
    if commas and (unknown or kind in NUMBERS):
        ways.append(_numbers(",", plainly=True))
    if dialect.decimal is not None and (unknown or kind in NUMBERS):
        ways.append(_numbers(dialect.decimal))
    if dialect.date_format is not None and (unknown or kind in ("date", "datetime")):
        from factored_mwem.tables.codes.dates import in_iso  # here: most tables hold no such dates

        ways.append(partial(in_iso, pattern=dialect.date_format))
    if dialect.time_zone is not None and (unknown or kind == "datetime"):
        ways.append(_zoned(dialect.time_zone, days=not unknown))
    meant: list[str] = []
    if attribute is not None:
        meant = [*attribute.missing_texts, *map(str, attribute.sentinels)]
        kept = pa.array(meant, pa.string())
        ways = [_but(way, kept) for way in ways]
        meant += map(str, attribute.values if attribute.type == "string" else ())
    if dialect.missing is not None and (domain is None or attribute is not None):
        # a value of text that is listed is a value; a number may be listed as it is after the others' ways
        ways.insert(0, _missing([marker for marker in dialect.missing if marker not in meant]))
    return ways


def _but(way: Respelling, kept: pa.Array) -> Respelling:
    """But for cells that mean something as they are."""
    return lambda column: pc.if_else(pc.is_in(column, value_set=kept), column, way(column))


def _missing(markers: Sequence[str]) -> Respelling:
    """Cells that stand for nothing, to nulls."""
    listed = pa.array(markers, pa.string())
    return lambda column: pc.if_else(pc.is_in(column, value_set=listed), pa.scalar(None, column.type), column)


def _numbers(decimal: str, *, plainly: bool = False) -> Respelling:
    """Numbers with `decimal` before their fraction, in groups of three digits or not, to plain ones.

    `plainly`: only those that hold it, with digits behind.
    """
    between = f"[{'.' if decimal == ',' else ','}{GROUPS}]"
    whole = rf"(?:[0-9]{{1,3}}(?:{between}[0-9]{{3}})+|[0-9]*)"
    fraction = f"[{decimal}][0-9]+" if plainly else f"(?:[{decimal}][0-9]*)?"
    pattern = rf"^[+-]?{whole}{fraction}(?:[eE][+-]?[0-9]{{1,3}})?$"

    def respell(column: pa.Array) -> pa.Array:
        text = pc.utf8_trim_whitespace(column)
        written = pc.match_substring_regex(text, pattern)
        plain = pc.replace_substring(pc.replace_substring_regex(text, between, ""), decimal, ".")
        return pc.if_else(pc.fill_null(written, False), plain, column)

    return respell


def _zoned(zone: str, *, days: bool) -> Respelling:
    """Timestamps without an offset, of a clock in `zone`, to such in UTC; with `days`, dates as well. Where
    the clock is put back, the first of both moments; where it is put forward, the moment that it is.
    """

    def respell(column: pa.Array) -> pa.Array:
        parts = pc.extract_regex(pc.utf8_trim_whitespace(column), MOMENT)
        naive = pc.equal(pc.struct_field(parts, "zone"), "")
        if not days:
            naive = pc.and_(naive, pc.not_equal(pc.struct_field(parts, "hour"), ""))
        which = np.flatnonzero(pc.fill_null(naive, False).to_numpy(zero_copy_only=False))
        if not len(which):
            return column
        local = units_of(column.take(pa.array(which)), "datetime")
        stamps = pa.array(local.filled(0), mask=np.ma.getmaskarray(local)).cast(pa.timestamp("us"))
        moments = pc.assume_timezone(stamps, zone, ambiguous="earliest", nonexistent="latest")
        texts = moments.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
        place = np.full(len(column), -1)
        place[which] = np.arange(len(which))
        in_utc = texts.take(pa.array(place, mask=place < 0))
        return pc.coalesce(in_utc, column)

    return respell
