"""Hostile: the list of values that may break a program, and cells and lines made from them, each with a
description. `fmwem verify` draws from it, and so do the fuzzer of a checkout and its tests.

A cell is made from one that is there, so that it lies close to it: `male` and a NUL beside `male`.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.random import Generator

from factored_mwem.tables.codes.parsing import is_text

Text = TypeVar("Text", str, bytes)
Family = list[tuple[str, Text]]
"""Cells of one sort: what each is, and how it lies in the file."""
LONG_TEXT = 10_000
"""Characters of a text that is long."""
TEXTS = 40
"""Hostile texts that a typed column has to choose from."""
WORDS = {
    "number": (
        "1e308", "-1e308", "5e-324", "-5e-324", "1e999", "-1e999", "1e-999", "1e999999",
        "9223372036854775808", "-9223372036854775809", "9223372036854775807", "NaN", "nan", "inf", "-inf",
        "Infinity", "-0", "0", "007", "00311", "1.0", "1.", "1,5", "1e5", "0x10", "1_000", " 3", "3 ", "+3",
        "+-1", "\u0661", "1/3", "9" * 400,
    ),
    "amount": (
        "$1", "$1,000", "-$1", "($1)", "(1", "1%", "1 %", "1" + ",000" * 200, "14:35", "12:60", "2:35 PM",
    ),
    "moment": (
        "2023-02-31", "0000-00-00", "0001-01-01", "9999-12-31", "99999-01-01", "-0001-01-01", "24:00",
        "1600-01-01T00:00:00", "2020-01-01T00:00:00Z", "2020-01-01T25:61:61", "2020-01-01T00:00:00+99:99",
        "9999-12-31T23:59:59.999999999+99:99",
    ),
    "text": (
        "", "other", "Other", "OTHER", "null", "NULL", "None", "NA", "?", "true", "FALSE", " ", "\t", "\\",
        "'", "\x1b[31m", "\u202e", "\U0001f600", "=1+1", "+cmd", "-1+1", "@SUM(A1)", "a.b", ".a", "[0]",
        "a,b", "a;b", "a\tb", "../../x", "/dev/zero", "%", "%Q", "%s%n", "{}", "{0.__class__}", "$(x)",
        "integer", "date", "mwem",
    ),
}  # fmt: skip
"""Texts that any cell may hold, by what they look like."""
CHARACTERS = (
    "\0", "a\0b", "\n", "a\nb", "\r", "\"", "\u2028", "\ufeff", "\ud800", "\udfff\ud800",
)  # fmt: skip
"""Texts that end a cell, a line or a C string, or are no text at all."""
INTEGERS = (
    -(2**63), -(2**63) + 1, -(2**53), -1, 0, 1, 7, 99, 100, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1,
)  # fmt: skip
"""The ends of 64-bit integers, and where floating-point numbers have gaps."""
FLOATS = (
    float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 0.1, float(np.nextafter(0.1, 1)), 1.0, -1.0, 5e-324,
    1e308, -1e308,
)  # fmt: skip
DAYS = (-719_162, -1, 0, 10_956, 10_957, 18_321, 21_915, 21_916, 2_932_896)
"""From 1970 on: the ends of Python's calendar, 0001-01-01 and 9999-12-31, the ends of a year, a leap day."""


def texts(existing: str) -> list[Family[str]]:
    """Text cells that are valid text, by family."""
    return [
        [
            ("a NUL alone", "\0"),
            ("a NUL after a value", existing + "\0x"),
            ("a NUL at the end", existing + "\0"),
            ("a NUL in the middle", existing[:1] + "\0" + existing[1:]),
        ],
        [
            ("a blank after a value", existing + " "),
            ("a blank before a value", " " + existing),
            ("a value in upper case", existing.upper()),
            ("a value in lower case", existing.lower()),
            ("a value that is rare", existing + "~"),
            (f"{LONG_TEXT:,} characters", "x" * LONG_TEXT),
        ],
        [
            ("a zero-width space", existing + "\u200b"),
            ("a zero-width joiner", existing[:1] + "\u200d" + existing[1:]),
            ("a combining mark", existing + "\u0301"),
            ("a byte order mark", "\ufeff" + existing),
            ("a line separator", existing + "\u2028"),
            ("the last code point", "\U0010ffff"),
        ],
        *([(f"the {kind} {word[:40]!r}", word) for word in words] for kind, words in WORDS.items()),
    ]


def raw_cells(existing: bytes, delimiter: bytes) -> list[Family[bytes]]:
    """Cells of a text file whose lines are its records.

    Some are not valid cells; they must affect the records of their own person only.
    """
    families = texts(existing.decode("utf-8", "replace"))
    return [
        *([(words, _quoted(text, delimiter)) for words, text in family] for family in families),
        [
            ("an open quote", b'"' + existing),
            ("an open quote after a blank", b' "' + existing),
            ("a quote in the middle", existing[:1] + b'"' + existing[1:]),
            ("a quote at the end", existing + b'"'),
            ("three quotes", b'"""'),
            ("a backslash and a quote", existing + b'\\"'),
        ],
        [
            ("balanced quotes", b'"' + existing + b'"'),
            ("a doubled quote", b'"' + existing + b'""x"'),
            ("an empty quoted cell", b'""'),
            ("two quotes in the middle", existing[:1] + b'"x"' + existing[1:]),
            ("text after a closing quote", b'"' + existing + b'"x'),
            ("a quoted separator", b'"' + existing + delimiter + b'x"'),
        ],
        [
            ("a bare separator", existing + delimiter),
            ("a bare carriage return", existing[:1] + b"\r" + existing[1:]),
            ("a carriage return in quotes", b'"' + existing + b'\rx"'),
        ],
        invalid_cells(existing),
    ]


def invalid_cells(existing: bytes) -> Family[bytes]:
    """Cells that are not UTF-8."""
    return [
        ("a Latin-1 letter", existing + "é".encode("latin-1")),
        ("an invalid byte", existing + b"\xff"),
        ("a lone surrogate", existing + b"\xed\xa0\x80"),
        ("an overlong NUL", existing + b"\xc0\x80"),
        ("half a letter", existing + "é".encode()[:1]),
    ]


def quoted_cells(existing: bytes) -> list[Family[bytes]]:
    """Cells as a writer makes them that puts whatever needs it into quotes."""
    plain = existing.decode("utf-8", "replace")
    breaks = [
        ("a line break", plain + "\nx"),
        ("two line breaks", "\n\n"),
        ("a carriage return and a line break", plain + "\r\n"),
    ]
    marks = [
        ("a quote", '"'),
        ("a separator", plain + ",;\t"),
        ("a line with separators", plain + '\n1,2,"3",4\n'),
    ]

    def quoted(text: str) -> bytes:
        return b'"' + text.replace('"', '""').encode() + b'"'

    families = [breaks, marks, *texts(plain)]
    cells = ([(words, quoted(text)) for words, text in family] for family in families)
    return [*cells, invalid_cells(existing)]


def choose(families: Sequence[Family[Any]], rng: Generator) -> tuple[str, Any]:
    """A family, then one of it: a large one does not crowd out the others."""
    family = families[int(rng.integers(len(families)))]
    return family[int(rng.integers(len(family)))]


def lines(existing: bytes, delimiter: bytes, fields: int) -> Family[bytes]:
    """Whole lines with too few or too many fields."""
    many = [
        ("a line with a field more", existing + delimiter + b"x"),
        ("a line with many fields", existing + delimiter * 50),
        ("a line of separators", delimiter * (fields - 1)),
    ]
    few = [
        ("a line with a field less", existing.rsplit(delimiter, 1)[0]),
        ("a line of one blank", b" "),
        ("a line of one quote", b'"'),
        ("a line with one field", b"x"),
    ]
    return many + few if fields > 1 else many


def breaks_lines(cell: bytes) -> bool:
    """Whether a reader may refuse a file with this cell, or find its end elsewhere."""
    try:
        cell.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return b'"' in cell or b"\r" in cell


def _quoted(text: str, delimiter: bytes) -> bytes:
    """Text as a cell, in quotes where it holds the separator."""
    raw = text.encode()
    return b'"' + raw + b'"' if delimiter in raw else raw


def typed_cells(
    column: pa.Array, *, nullable: bool, frame: bool, rng: Generator
) -> tuple[list[str], pa.Array]:
    """Values of a column's type, with words for each.

    `column` is without dictionaries; a pandas `frame` holds dates as Python's.
    """
    kind = column.type
    dates = frame and pa.types.is_date32(kind)
    words, values = _extremes((DAYS[0], DAYS[-1]), pa.int32()) if dates else _of_type(column, rng)
    values = values.view(kind) if values.type != kind else values
    if nullable:
        words, values = ["a null", *words], pa.concat_arrays([pa.nulls(1, kind), values])
    return words, values


def _of_type(column: pa.Array, rng: Generator) -> tuple[list[str], pa.Array]:
    kind = column.type
    if is_text(kind):
        existing = column.drop_null().unique().to_pylist() or [""]
        chosen = [choose(texts(existing[rng.integers(len(existing))]), rng) for _ in range(TEXTS)]
        return [words for words, _ in chosen], pa.array([text for _, text in chosen], kind)
    if pa.types.is_floating(kind):
        dtype = kind.to_pandas_dtype()
        big, tiny = float(np.finfo(dtype).max), float(np.finfo(dtype).smallest_subnormal)
        numbers = [big, -big, tiny, -tiny, -0.0, float("inf"), float("-inf"), float("nan"), 0.1]
        return [f"the number {number:g}" for number in numbers], pa.array(np.array(numbers, dtype=dtype))
    if pa.types.is_integer(kind):
        bounds = np.iinfo(kind.to_pandas_dtype())
        return _extremes([bounds.min, bounds.max, 0, 1, bounds.max - 1], kind)
    if pa.types.is_decimal128(kind):
        nines = decimal.Decimal((0, (9,) * kind.precision, -kind.scale))
        words = ["the greatest number", "the least number", "zero"]
        return words, pa.array([nines, -nines, decimal.Decimal(0)], kind)
    if pa.types.is_boolean(kind):
        return ["true", "false"], pa.array([True, False])
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        ticks = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        most = 2 ** (ticks.bit_width - 1) - 1
        words, values = _extremes([-most, most, 0, -1], ticks)
        return words, values.view(kind)
    return [], pa.array([], kind)


def _extremes(numbers: Sequence[int], kind: pa.DataType) -> tuple[list[str], pa.Array]:
    return [f"the number {number}" for number in numbers], pa.array(numbers, kind)
