"""Kinds: what a value looks like, and which unit it is counted in."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import MARKERS, WIDEST, Attribute
from factored_mwem.domain.conditions import STEPS
from factored_mwem.errors import InputError
from factored_mwem.tables.codes.parsing import (
    DECIMAL,
    MOMENT,
    check_writable,
    is_number,
    is_text,
    read_units,
    spelt,
    value_type,
)

MAX_DECIMALS = 6
DECIMALS = tuple(f"{d} decimals" for d in range(1, MAX_DECIMALS + 1))
RESOLUTIONS = ("day", "hour", "minute", "second")
KINDS = (
    "null", "boolean", "integer", *DECIMALS, "number", "date", *RESOLUTIONS, "datetime", "code", "string",
    "marker", "clock", "dated", "amount",
)  # fmt: skip
"""What a value can look like: a number by how many decimals it needs, a timestamp by what it is a multiple
of. A code is digits after a zero, which "0311" would lose as a number. A marker is null, but a word in a
column of text. A time of day (clock), a date that is not written by ISO 8601 (dated) and a number that has
something beside or between its digits (amount) are texts.
"""
NUMBERS = ("integer", *DECIMALS, "number")
MOMENTS = ("date", *RESOLUTIONS, "datetime")
LOOKS = ("clock", "dated", "amount")
TEXTS = ("boolean", "string", *LOOKS)
ZEROS = 6
"""Whole numbers of a column of text may be written with so many zeros behind a point, or none."""
QUARTERS = range(15, 14 * 60 + 1, 15)
ZONES = ("", "UTC", *(f"{sign}{m // 60:02}:{m % 60:02}" for sign in "+-" for m in QUARTERS))
"""What a timestamp may say of its zone: nothing, UTC, or an offset; others count as UTC."""
MISSING = ("",)
"""Text that counts as null if no domain says otherwise."""
_CLOCK = r"[0-2]?[0-9]:[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?( ?[AaPp][Mm])?"
_PATTERNS = {
    "boolean": r"(?i)^(true|false)$",
    "integer": r"^[+-]?(0|[1-9][0-9]{0,17})([.]0*)?$",  # also 1.0: many programs write whole numbers so
    "code": r"^[+-]?0[0-9]+([.][0-9]*)?$",
    "number": DECIMAL,
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "datetime": MOMENT,
    "clock": rf"^{_CLOCK}$",
    "dated": rf"^([0-9]{{1,2}}[/.-]([0-9]{{1,2}}|[A-Za-z]{{3}})[/.-]([0-9]{{4}}|[0-9]{{2}})|"
    rf"[0-9]{{4}}[/.-][0-9]{{1,2}}[/.-][0-9]{{1,2}})([ T]{_CLOCK})?$",
}
"""Tried in this order, and then whether it is an amount; what matches none is text."""


def kinds_of(values: pa.Array) -> np.ndarray:
    """int8[value]: the number in KINDS of each value of a column, text or typed, without dictionaries."""
    if not is_text(values.type):
        return _typed_kinds(values)
    from factored_mwem.tables.codes.dates import IN_WORDS  # here: a declared domain needs no kinds
    from factored_mwem.tables.codes.notation import AMOUNT

    kinds = np.full(len(values), KINDS.index("string"), dtype=np.int8)
    null = pc.or_(pc.is_null(values), pc.is_in(values, value_set=pa.array(MISSING, values.type)))
    kinds[null.to_numpy(zero_copy_only=False)] = KINDS.index("null")
    marker = pc.is_in(values, value_set=pa.array(MARKERS, values.type))
    kinds[marker.to_numpy(zero_copy_only=False)] = KINDS.index("marker")
    trimmed = pc.utf8_trim_whitespace(values)
    open_ = kinds == KINDS.index("string")
    for kind, pattern in (*_PATTERNS.items(), ("dated", IN_WORDS), ("amount", AMOUNT)):
        match = pc.fill_null(pc.match_substring_regex(trimmed, pattern), False).to_numpy(zero_copy_only=False)
        which = np.flatnonzero(match & open_)
        open_[which] = False
        kinds[which] = KINDS.index(kind)
        if kind in ("number", "date", "datetime") and len(which):
            units = units_of(values.take(pa.array(which)), "date" if kind == "date" else kind)
            lost = np.ma.getmaskarray(units)  # 2020-02-31 is no date
            finer = _finer_kinds(kind, units.filled(0))
            kinds[which] = np.where(lost, KINDS.index("string"), finer)
    return kinds


def _typed_kinds(values: pa.Array) -> np.ndarray:
    kind = kind_of(pa.field("x", values.type))
    null = pc.is_null(values, nan_is_null=True).to_numpy(zero_copy_only=False)
    if kind in ("boolean", "date"):
        return np.where(null, KINDS.index("null"), KINDS.index(kind)).astype(np.int8)
    units = units_of(values, kind)
    narrow = values.type.to_pandas_dtype() if pa.types.is_floating(values.type) else np.float64
    finer = _finer_kinds(kind, units.filled(0), narrow)
    return np.where(null, KINDS.index("null"), finer).astype(np.int8)


def _finer_kinds(kind: str, units: np.ndarray, narrow: type = np.float64) -> np.ndarray:
    """int8[value]: how many decimals a number needs, or of what a timestamp is a multiple."""
    kinds = np.full(len(units), KINDS.index(kind), dtype=np.int8)
    if kind == "number":
        most = 2.0 ** (np.finfo(narrow).nmant + 1)
        for decimals in range(MAX_DECIMALS, -1, -1):
            with np.errstate(over="ignore", invalid="ignore"):
                near: np.ndarray = (np.rint(units * 10.0**decimals) / 10.0**decimals).astype(narrow)
                exact = np.abs(units) * 10.0**decimals < most  # else any would do
                if decimals == 0:
                    exact |= (np.abs(units) < WIDEST) | np.isinf(units)
            kinds[exact & (near == units.astype(narrow))] = KINDS.index("integer") + decimals
    elif kind == "datetime":
        for name, micros in STEPS.items():
            kinds[units % micros == 0] = KINDS.index(name)
    return kinds


def units_of(values: pa.Array, kind: str) -> np.ma.MaskedArray:
    """Numbers, or dates in days, or timestamps in microseconds since 1970; masked where unreadable.

    Of a kind of KINDS: int64, of numbers float64.
    """
    own = "number" if kind in NUMBERS else "date" if kind == "date" else "datetime"
    return read_units(_reader(own), values)


def zeros_of(values: pa.Array) -> np.ndarray:
    """int64[value]: the zeros behind the point of a whole number in a column of text, up to ZEROS."""
    zeros = pc.struct_field(pc.extract_regex(pc.utf8_trim_whitespace(values), r"[.](?P<zeros>0*)$"), "zeros")
    count = pc.fill_null(pc.utf8_length(zeros), 0).to_numpy(zero_copy_only=False)
    return np.minimum(count.astype(np.int64), ZEROS)


def zones_of(values: pa.Array) -> np.ndarray:
    """int64[value]: the number in ZONES of what each timestamp of a column of text says of its zone."""
    zone = pc.struct_field(pc.extract_regex(pc.utf8_trim_whitespace(values), MOMENT), "zone")
    zone = pc.replace_substring_regex(zone, "^([+-][0-9]{2}):?([0-9]{2})$", r"\1:\2")
    place = pc.index_in(zone, value_set=pa.array(ZONES, zone.type))
    return pc.fill_null(place, ZONES.index("UTC")).to_numpy(zero_copy_only=False).astype(np.int64)


def _reader(kind: str) -> Attribute:
    """An attribute that reads values of a kind; its bounds do not matter."""
    edges = (0, 1) if kind == "number" else ("2000-01-01", "2001-01-01")
    return Attribute.model_validate({"name": "x", "type": kind, "edges": edges})


def kind_of(field: pa.Field) -> str:
    """What a typed column holds, by its public type. Raises InputError if no domain can describe it."""
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
    """The least and greatest number, or microsecond, that a column can hold, from its public type alone."""
    arrow = value_type(field.type)
    if pa.types.is_timestamp(arrow) and arrow.unit == "ns":
        return -(2**63 // 1000), 2**63 // 1000
    if pa.types.is_integer(arrow):
        info = np.iinfo(arrow.to_pandas_dtype())
        return float(info.min), float(info.max)
    if pa.types.is_decimal(arrow):
        exact = Fraction(10) ** (arrow.precision - arrow.scale) - Fraction(10) ** -arrow.scale
        most = float(exact)
        most = most if most <= exact else math.nextafter(most, -math.inf)
        return -most, most
    narrow = pa.types.is_float16(arrow) or pa.types.is_float32(arrow)
    most = float(np.finfo(arrow.to_pandas_dtype()).max) if narrow else np.inf
    return -most, most


def tick_of(arrow: pa.DataType) -> int:
    """The microseconds from one timestamp of a column to the next, from its type alone (public)."""
    arrow = value_type(arrow)
    return {"s": 10**6, "ms": 10**3}.get(arrow.unit, 1) if pa.types.is_timestamp(arrow) else 1


def most_whole(field: pa.Field) -> float:
    """Up to which size a typed column holds every whole number within its bounds, from its type alone."""
    arrow = value_type(field.type)
    if not pa.types.is_floating(arrow):
        return np.inf
    return float(2 ** (np.finfo(arrow.to_pandas_dtype()).nmant + 1))


def places_of(field: pa.Field) -> int:
    """How many decimals a column can hold, up to MAX_DECIMALS, from its public type alone."""
    arrow = value_type(field.type)
    return min(max(arrow.scale, 0), MAX_DECIMALS) if pa.types.is_decimal(arrow) else MAX_DECIMALS


def written(kind: str, units: np.ndarray, *, steps: int = 1, end: bool = False) -> list[Any]:
    """Units as a domain file has them; of numbers, whole ones are counted in `steps` to 1. `end`: they are
    cuts, and the last edge of a file is inclusive.
    """
    if units.dtype == np.float64:
        return [*units[:-1].tolist(), *np.nextafter(units[-1:], -np.inf).tolist()] if end else units.tolist()
    if end:
        units = np.concatenate([units[:-1], units[-1:] - 1])
    if kind in ("integer", "number"):
        return (units if kind == "integer" else units / steps).tolist()
    texts = np.datetime_as_string(units.astype("M8[D]" if kind == "date" else "M8[us]"))
    return [text.removesuffix(".000000") for text in texts.tolist()]
