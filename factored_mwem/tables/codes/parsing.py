"""Parsing: Arrow columns, text or typed, to numbers in the unit of an attribute's cuts.

What cannot be read is masked, never an error.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.dialect import is_whole
from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.table import Visible

COUNTS_HALVES = 26
"""The first pyarrow that counts the values of a column of half floats."""
WHOLE = r"^[+-]?[0-9]{1,18}$"
DECIMAL = r"^[+-]?([0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})([eE][+-]?[0-9]{1,3})?$"
MOMENT = (
    r"^(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<part>[0-9]{1,9}))?)?)?"
    r" ?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?$"
)


def is_text(arrow: pa.DataType) -> bool:
    return pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow)


def value_type(arrow: pa.DataType) -> pa.DataType:
    """The type of a column's values, without its dictionary."""
    return arrow.value_type if pa.types.is_dictionary(arrow) else arrow


def spelt(arrow: pa.DataType) -> str:
    """A type in words, in one line: the names of nested fields may be anything."""
    try:
        text = str(arrow)
    except UnicodeDecodeError:
        return "of a type whose names are no text"
    return text if text.isprintable() else ascii(text)


def is_number(arrow: pa.DataType) -> bool:
    return pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow)


def check_keys(table: Visible, column: str) -> None:
    """Raises InputError if the table has no such column, or its type cannot serve as keys."""
    table.check_column(column)
    kind = table.schema.field(column).type
    value = value_type(kind)
    if pa.types.is_floating(value) or pa.types.is_decimal(value) or pa.types.is_nested(value):
        what = f"column {column!r} is a column of {spelt(kind)}"
        raise InputError(f"{what}: one key may have several spellings; make it text or integers")
    try:
        pa.array([], value).cast(pa.string())
    except pa.ArrowNotImplementedError:
        raise InputError(f"column {column!r} is {spelt(kind)}, which cannot be keys; make it text") from None


def check_writable(name: str, arrow: pa.DataType) -> None:
    """Raises InputError if a column's values cannot be counted here or written again, by its public type."""
    value = value_type(arrow)
    if pa.types.is_float16(value) and int(pa.__version__.partition(".")[0]) < COUNTS_HALVES:
        why = f"which pyarrow {pa.__version__} cannot count; convert it to float32, or update pyarrow"
        raise InputError(f"column {name!r} is {spelt(arrow)}, {why}")
    if pa.types.is_timestamp(value) and not _known_zone(value):
        why = "of a time zone that is not known here; convert it to UTC"
        raise InputError(f"column {name!r} is {spelt(arrow)}, {why}")
    if pa.types.is_decimal(value) and value.scale < 0:
        why = "which Parquet cannot hold; convert it to whole numbers"
        raise InputError(f"column {name!r} is {spelt(arrow)}, {why}")


def _known_zone(moment: pa.DataType) -> bool:
    """Whether values of a timestamp type can be written as text."""
    try:
        pa.scalar(0, moment).as_py()
    except (ValueError, KeyError):
        return False
    return True


def plain(column: pa.Array) -> pa.Array:
    """The column without dictionaries, its text of the one type that every function takes."""
    if pa.types.is_dictionary(column.type):
        return plain(column.dictionary).take(column.indices)
    return column.cast(pa.string()) if is_text(column.type) else column


def read_units(attribute: Attribute, column: pa.Array) -> np.ma.MaskedArray:
    """The values in the unit of the attribute's cuts, masked where unreadable."""
    if is_text(column.type):
        column = pc.utf8_trim_whitespace(column)
        if attribute.type == "boolean":
            return masked(_read_boolean(attribute, column), np.float64)
        if attribute.type in ("integer", "number"):
            if attribute.format != "default":
                from factored_mwem.tables.codes.notation import to_plain  # here: most are plain

                column = to_plain(column, attribute.format)
            return _read_number(column, whole=attribute.type == "integer")
        return _read_moment(attribute, column)
    if attribute.type in ("date", "datetime"):
        micros = _read_ticks(column)
        return micros // 86_400_000_000 if attribute.type == "date" else micros
    if attribute.type == "integer" and pa.types.is_integer(column.type):
        if column.type == pa.uint64():
            column = pc.min_element_wise(column, pa.scalar(2**62, pa.uint64()), skip_nulls=False)
        return masked(column.cast(pa.int64()), np.int64)
    truth = pa.types.is_boolean(column.type)
    numbers = masked(column.cast(pa.int8()) if truth else column.cast(pa.float64(), safe=False), np.float64)
    numbers = np.ma.masked_where(np.isnan(numbers.filled(np.nan)), numbers)
    return np.ma.floor(np.ma.clip(numbers, -(2.0**62), 2.0**62)) if attribute.type == "integer" else numbers


def _read_ticks(column: pa.Array) -> np.ma.MaskedArray:
    """Microseconds since 1970; clipped, as Arrow's cast would not do, where 64 bits cannot hold them."""
    if pa.types.is_date32(column.type):
        unit, ticks = "day", masked(column.cast(pa.int32()), np.int64)
    else:
        unit = "ms" if pa.types.is_date64(column.type) else column.type.unit
        ticks = masked(column.cast(pa.int64()), np.int64)
    if unit == "ns":
        return ticks // 1000
    micros = {"day": 86_400_000_000, "s": 1_000_000, "ms": 1000, "us": 1}[unit]
    most = (2**63 - 1) // micros
    return np.ma.clip(ticks, -most, most) * micros


def masked(column: pa.Array, dtype: type) -> np.ma.MaskedArray:
    if not column.null_count:
        return np.ma.MaskedArray(column.to_numpy(zero_copy_only=False).astype(dtype))
    null = column.is_null().to_numpy(zero_copy_only=False)
    return np.ma.MaskedArray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(dtype), mask=null)


def _read_boolean(attribute: Attribute, column: pa.Array) -> pa.Array:
    """1.0, 0.0 or null: the attribute's own words, in any case."""
    lower = pc.utf8_lower(column)
    true, false = (
        pc.is_in(lower, pa.array([w.lower() for w in words], pa.string()))
        for words in (attribute.true_values, attribute.false_values)
    )
    return pc.if_else(true, 1.0, pc.if_else(false, 0.0, pa.scalar(None, pa.float64())))


def _read_number(column: pa.Array, *, whole: bool) -> np.ma.MaskedArray:
    unsigned = pc.replace_substring_regex(column, r"^\+", "")
    matches = pc.match_substring_regex(column, WHOLE if whole else DECIMAL)
    exact = pc.if_else(matches, unsigned, None).cast(pa.int64() if whole else pa.float64())
    if not whole:
        return masked(exact, np.float64)
    rest = pc.if_else(pc.is_null(exact), column, None)
    rounded = np.ma.floor(np.ma.clip(_read_number(rest, whole=False), -(2.0**62), 2.0**62))
    integers = masked(exact, np.int64)
    missing = np.ma.getmaskarray(integers)
    merged = np.where(missing, rounded.filled(0).astype(np.int64), integers.filled(0))
    return np.ma.MaskedArray(merged, mask=missing & np.ma.getmaskarray(rounded))


def _read_moment(attribute: Attribute, column: pa.Array) -> np.ma.MaskedArray:
    """Days (date) or microseconds (datetime) since 1970 of text: ISO 8601, and the attribute's `format`."""
    if is_whole(attribute.format):
        from factored_mwem.tables.codes.dates import in_iso  # here: most tables hold no such dates

        column = in_iso(column, attribute.format)
    elif attribute.format not in ("default", "any"):
        moment = pc.strptime(column, format=attribute.format, unit="us", error_is_null=True)
        micros = masked(moment.cast(pa.int64()), np.int64)
        return micros // 86_400_000_000 if attribute.type == "date" else micros
    parts = pc.extract_regex(column, MOMENT)
    day, hour, minute, second, part, zone = (
        pc.struct_field(parts, name) for name in ("day", "hour", "minute", "second", "part", "zone")
    )
    parsed = pc.strptime(day, format="%Y-%m-%d", unit="us", error_is_null=True)
    # The parser turns 31 February into 2 March.
    real = pc.equal(pc.strftime(parsed, format="%Y-%m-%d"), day)
    micros = masked(pc.if_else(real, parsed, None).cast(pa.int64()), np.int64)
    micros = micros + (_whole(hour) * 3600 + _whole(minute) * 60 + _whole(second)) * 1_000_000
    six_digits = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.fill_null(part, ""), 6, "0"), 0, 6)
    micros = micros + _whole(six_digits) - _offset(zone)
    return micros // 86_400_000_000 if attribute.type == "date" else micros


def _whole(text: pa.Array) -> np.ndarray:
    """int64[row]: digits as a number, 0 if there are none."""
    digits = pc.if_else(pc.equal(pc.fill_null(text, ""), ""), "0", text)
    return digits.cast(pa.int64()).to_numpy(zero_copy_only=False)


def _offset(zone: pa.Array) -> np.ndarray:
    """int64[row]: microseconds east of UTC of `+hh:mm`; 0 for Z or none."""
    digits = pc.replace_substring_regex(pc.fill_null(zone, ""), r"[Z:+-]", "")
    hours, rest = (_whole(pc.utf8_slice_codeunits(digits, at, at + 2)) for at in (0, 2))
    minutes = hours * 60 + rest
    west = pc.starts_with(pc.fill_null(zone, ""), "-").to_numpy(zero_copy_only=False)
    return np.where(west, -minutes, minutes) * 60_000_000
