"""Profile: what a pass over the rows finds out about each column.

Private: `discover` reads it through the accountant, `draft` says NOT PRIVATE.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import Attribute
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.tables.parsing import (
    DECIMAL,
    MOMENT,
    check_writable,
    is_number,
    is_text,
    plain,
    read_units,
    spelt,
    value_type,
)
from factored_mwem.tables.source import Private, Table

KINDS = ("null", "boolean", "integer", "number", "date", "datetime", "code", "string")
"""What a value can look like; a column of text takes votes over these. A code is digits after a zero, which
"0311" would lose as a number.
"""
NARROWER = {
    "boolean": ("boolean",),
    "integer": ("integer",),
    "number": ("integer", "number"),
    "date": ("date",),
    "datetime": ("date", "datetime"),
}
"""The kinds of value that a column of each kind may hold; everything else is text."""
MISSING = ("",)
"""Text that counts as null where no domain says otherwise."""
MAX_COLUMNS = 2**14
"""Columns that are profiled at a time, each of which takes up to 150 kB."""
_PATTERNS = {
    "boolean": r"(?i)^(true|false)$",
    "integer": r"^[+-]?(0|[1-9][0-9]{0,17})([.]0*)?$",  # also 1.0: many programs write whole numbers so
    "code": r"^[+-]?0[0-9]+([.][0-9]*)?$",
    "number": DECIMAL,
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "datetime": MOMENT,
}
"""Tried in this order; what matches none is text."""


def _number_grid(steps: np.ndarray) -> np.ndarray:
    positive = np.unique(np.concatenate([np.round(steps * 10.0**e, 10) for e in range(-4, 19)]))
    return np.concatenate([-positive[::-1], [0.0], positive])


def _first_days(months: Sequence[int]) -> np.ndarray:
    starts = [datetime.date(year, month, 1) for year in range(1800, 2201) for month in months]
    return np.array([(start - datetime.date(1970, 1, 1)).days for start in starts], dtype=np.float64)


GRIDS = {"number": _number_grid(np.arange(10, 100) / 10), "month": _first_days(range(1, 13))}
"""Public candidates for bounds: numbers of two digits at every magnitude, and first days of months (days
since 1970).
"""
COARSE = {
    "number": _number_grid(np.array([1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0])),
    "month": _first_days([1]),
}
"""Some of the same points, few enough for a noisy histogram between them."""


@dataclass(slots=True, eq=False, repr=False)
class ColumnProfile(Private):
    """Counts over a column: votes for each kind, values below and above every grid point, distinct text."""

    kinds: tuple[str, ...]
    votes: np.ndarray = field(default_factory=lambda: np.zeros(len(KINDS), dtype=np.int64))
    below: dict[str, np.ndarray] = field(default_factory=dict)
    above: dict[str, np.ndarray] = field(default_factory=dict)
    texts: Counter[str] = field(default_factory=Counter)
    least: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)

    def add(self, column: pa.Array) -> None:
        """Count a batch of the column."""
        column = plain(column)
        if is_text(column.type):
            self._add_text(column)
            return
        null = pc.is_null(column, nan_is_null=True)
        self._vote("null", null)
        present = int(pc.sum(pc.invert(null)).as_py() or 0)
        whole = _count_whole(column) if self.kinds[0] == "number" else 0
        self.votes[KINDS.index("integer")] += whole
        self.votes[KINDS.index(self.kinds[0])] += present - whole
        if self.kinds[0] != "boolean":
            self._place(self.kinds[0], column)

    def _add_text(self, column: pa.Array) -> None:
        null = pc.or_(pc.is_null(column), pc.is_in(column, value_set=pa.array(MISSING)))
        present = column.filter(pc.invert(null))
        self._vote("null", null)
        rest = present
        for kind, pattern in _PATTERNS.items():
            match = pc.match_substring_regex(rest, pattern)
            self._vote(kind, match)
            if kind not in ("boolean", "code"):
                self._place(kind, rest.filter(match))
            rest = rest.filter(pc.invert(match))
        self.votes[KINDS.index("string")] += len(rest)
        for entry in pc.value_counts(present).to_pylist():
            self.texts[entry["values"]] += entry["counts"]

    def _vote(self, kind: str, which: pa.Array) -> None:
        self.votes[KINDS.index(kind)] += pc.sum(which).as_py() or 0

    def _place(self, kind: str, column: pa.Array) -> None:
        """Count values against their grid; dates and timestamps in days."""
        if not len(column):
            return
        grid = "number" if kind in ("integer", "number") else "month"
        values = read_units(_reader(kind), column).compressed().astype(np.float64)
        values = values / 86_400e6 if kind == "datetime" else values
        if not len(values):
            return
        # below[j] counts values in [grid[j-1], grid[j]), above[j] those in (grid[j-1], grid[j]]
        _count(self.below, grid, np.searchsorted(GRIDS[grid], values, side="right"))
        _count(self.above, grid, np.searchsorted(GRIDS[grid], values, side="left"))
        self.least[grid] = min(float(values.min()), self.least.get(grid, np.inf))
        self.most[grid] = max(float(values.max()), self.most.get(grid, -np.inf))

    def lower_and_higher(self, grid: str) -> tuple[np.ndarray, np.ndarray]:
        """int64[grid point] each: how many values lie strictly below, and above, every grid point."""
        none = np.zeros(len(GRIDS[grid]) + 1, dtype=np.int64)
        higher = np.cumsum(self.above.get(grid, none)[::-1])[::-1]
        return np.cumsum(self.below.get(grid, none))[:-1], higher[1:]


def _count(counts: dict[str, np.ndarray], grid: str, places: np.ndarray) -> None:
    """Add to a grid's counts, which a column of another kind never needs."""
    more = np.bincount(places, minlength=len(GRIDS[grid]) + 1)
    counts[grid] = counts[grid] + more if grid in counts else more


def _count_whole(column: pa.Array) -> int:
    """How many values of a column of numbers are whole: pandas turns integers with gaps into such."""
    values = read_units(_reader("number"), column).compressed()
    return int((np.floor(values) == values).sum())


def _reader(kind: str) -> Attribute:
    """An attribute that reads values of a kind; its bounds do not matter."""
    ends = ("2000-01-01", "2001-01-01") if kind in ("date", "datetime") else (0, 1)
    constraints = dict(zip(("minimum", "maximum"), ends, strict=True))
    return Attribute.model_validate({"name": "x", "type": kind, "constraints": constraints})


def profile(table: Table, columns: Sequence[str]) -> dict[str, ColumnProfile]:
    """The profile of each column, in one pass.

    InputError for a type that no domain can describe, ResourceError for too many columns.
    """
    if len(columns) > MAX_COLUMNS:
        most = f"a domain can be learnt for up to {MAX_COLUMNS:,} columns, not {len(columns):,}"
        raise ResourceError(f"{most}; declare it, or use --columns")
    kinds = {name: KINDS[1:] if table.text else (kind_of(table.schema.field(name)),) for name in columns}
    profiles = {name: ColumnProfile(kinds[name]) for name in columns}
    for batch in table.batches(columns):
        for name, column in zip(columns, batch.columns, strict=True):
            profiles[name].add(column)
    return profiles


def kind_of(field: pa.Field) -> str:
    """What a typed column holds, from its type alone (public). InputError where no domain can describe it."""
    check_writable(field.name, field.type)
    arrow = value_type(field.type)
    if is_text(arrow):
        return "string"
    if pa.types.is_boolean(arrow):
        return "boolean"
    if is_number(arrow):
        return "integer" if pa.types.is_integer(arrow) else "number"
    if pa.types.is_date(arrow) or pa.types.is_timestamp(arrow):
        return "date" if pa.types.is_date(arrow) else "datetime"
    what = f"column {field.name!r} has type {spelt(field.type)}, which fmwem cannot release"
    raise InputError(f"{what}; leave it out with --columns")


def bounds_of_type(field: pa.Field) -> tuple[float, float]:
    """The least and the greatest number a typed column can hold, from its type alone (public)."""
    arrow = value_type(field.type)
    if pa.types.is_integer(arrow):
        info = np.iinfo(arrow.to_pandas_dtype())
        return float(info.min), float(info.max)
    if pa.types.is_decimal(arrow):
        exact = Fraction(10) ** (arrow.precision - arrow.scale) - Fraction(10) ** -arrow.scale
        most = float(exact)
        most = most if most <= exact else math.nextafter(most, -math.inf)
        return -most, most
    if pa.types.is_float16(arrow):
        return -65504.0, 65504.0
    return -np.inf, np.inf


def most_whole(field: pa.Field) -> float:
    """Up to which size a typed column holds every whole number within its bounds, from its type alone."""
    arrow = value_type(field.type)
    if not pa.types.is_floating(arrow):
        return np.inf
    return float(2 ** (np.finfo(arrow.to_pandas_dtype()).nmant + 1))
