"""Dates as people write them: text of a pattern to ISO 8601, which everything else reads; and which pattern
the cells of a column seem to follow. What is not written so stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DIGITS = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "f": "[0-9]{1,9}",
    "z": "Z|[+-][0-9]{2}:?[0-9]{2}",
    "b": "[A-Za-z]{3}",
    "B": "[A-Za-z]{3,9}",
    "p": "[AaPp][Mm]",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip
PIVOT = 69
"""Two digits of a year from which on it is of the twentieth century, as in POSIX."""
SIGNS = "/.-"
SHAPES = (
    ("%m{0}%d{0}%Y", "%d{0}%m{0}%Y"),
    ("%m{0}%d{0}%y", None),
    ("%d{0}%b{0}%Y",),
    ("%d{0}%b{0}%y",),
    ("%Y{0}%m{0}%d",),
)
"""The orders of a date with one of SIGNS in it: the two that may be meant, or the only one. Where two digits
stand last, two that stand first may be a year as well as a day, as in 19/05/23: such dates are read only if
some tell that the month is first.
"""
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
"""How the time of day may follow. Hours of 12 have AM or PM behind."""
EVIDENCE = ("month first", "day first", "either")
"""What the first two numbers of a date say of their order."""
KINDS_OF_CLOCK = (("date",), ("minute", "day"), ("second", "day"), ("minute", "day"), ("second", "day"))
"""The kind of moment that dates with each of CLOCKS are; then, where there is a clock, those at midnight."""
CLASSES = (len(SIGNS), len(SHAPES), len(EVIDENCE), len(CLOCKS), 2)
"""The shape of the votes on how dates are written; last, whether it is midnight."""
WORDED = tuple(
    form.format(month)
    for month in ("%b", "%B")
    for form in ("{} %d, %Y", "%d {} %Y", "{} %Y", "{}-%Y", "{}-%y", "{} %y")
)
"""Other ways, in words, of which the votes follow; without a day it is the first of the month."""
VOTES = int(np.prod(CLASSES)) + len(WORDED)
MONTH = f"(?i:{'|'.join(MONTHS)})"
IN_WORDS = (
    rf"^({MONTH}[a-z]* [0-9]{{1,2}}, [0-9]{{4}}|[0-9]{{1,2}} {MONTH}[a-z]* [0-9]{{4}}|"
    rf"{MONTH}[a-z]*[ -]([0-9]{{4}}|[0-9]{{2}}))$"
)
"""What looks like a date in WORDED."""
_DATE = (
    r"^(?P<a>[0-9]{4}|[0-9]{1,2})(?P<s>[/.-])(?P<b>[0-9]{1,2}|[A-Za-z]{3})(?P<t>[/.-])(?P<c>[0-9]{4}|[0-9]{1,2})"
    r"(?: (?P<h>[0-9]{1,2}):(?P<i>[0-9]{2})(?P<sec>:[0-9]{2})?(?: (?P<p>[AaPp][Mm]))?)?$"
)


def in_iso(column: pa.Array, pattern: str) -> pa.Array:
    """The dates and timestamps of a column of text that follow a pattern, by ISO 8601; the rest as it is."""
    regex = "".join(_named(part) if part[0] == "%" else re.escape(part) for part in _parts(pattern))
    if not len(column):
        return column
    struct = pc.extract_regex(pc.utf8_trim_whitespace(column), f"^{regex}$")
    piece = {field.name: pc.struct_field(struct, field.name) for field in struct.type}
    year = piece["Y"] if "Y" in piece else _century(piece["y"])
    month = next((_month(piece[name]) for name in "bB" if name in piece), None)
    month = _two(piece["m"]) if month is None else month
    text = _joined([year, month, _two(piece["d"]) if "d" in piece else "01"], "-")
    if "H" in piece or "I" in piece:
        hour = _two(piece["H"]) if "H" in piece else _hour(piece["I"], piece["p"])
        clock = [_two(piece[name]) if name in piece else "00" for name in ("M", "S")]
        text = _joined([text, _joined([hour, *clock], ":")], " ")
        if "f" in piece:
            text = _joined([text, piece["f"]], ".")
        if "z" in piece:
            text = _joined([text, piece["z"]], "")
    return pc.coalesce(text, column)


def _parts(pattern: str) -> list[str]:
    """Its directives, and what stands between them."""
    return [part for part in re.split(r"(%.)", pattern) if part]


def _joined(parts: Sequence[pa.Array | str], by: str) -> pa.Array:
    """Texts of one type, with `by` between them."""
    kind = next(part.type for part in parts if not isinstance(part, str))
    texts = [pa.scalar(part, kind) if isinstance(part, str) else part for part in (*parts, by)]
    return pc.binary_join_element_wise(*texts)


def _named(directive: str) -> str:
    name = directive[1]
    return "%" if name == "%" else f"(?P<{name}>{DIGITS.get(name, '[0-9]{1,2}')})"


def _two(digits: pa.Array) -> pa.Array:
    return pc.utf8_lpad(digits, 2, "0")


def _century(digits: pa.Array) -> pa.Array:
    late = pc.greater_equal(digits.cast(pa.int32()), PIVOT)
    return _joined([pc.if_else(late, pa.scalar("19", digits.type), pa.scalar("20", digits.type)), digits], "")


def _month(names: pa.Array) -> pa.Array:
    """Two digits; null if it is no month's name."""
    table = {name: f"{n:02}" for names in (MONTHS, NAMES) for n, name in enumerate(names, 1)}
    return _looked_up(pc.utf8_lower(names), table)


def _hour(hours: pa.Array, halves: pa.Array) -> pa.Array:
    """Two digits of 24 hours; null if it is none of 1 to 12."""
    ends = {"am": 0, "pm": 12}
    of_day = {f"{n:02}{half}": f"{n % 12 + more:02}" for n in range(1, 13) for half, more in ends.items()}
    return _looked_up(_joined([_two(hours), pc.utf8_lower(halves)], ""), of_day)


def _looked_up(texts: pa.Array, table: Mapping[str, str]) -> pa.Array:
    place = pc.index_in(texts, value_set=pa.array(table, texts.type))
    return pa.array([*table.values()], texts.type).take(place)


def date_votes(values: pa.Array, counts: np.ndarray) -> np.ndarray:
    """int64[sign, order, evidence, clock, midnight], flat, then of WORDED: how many rows hold a date that is
    written so, of distinct `values` that `counts: int64[value]` rows hold. A value is one at most.
    """
    text = pc.utf8_trim_whitespace(values)
    parts = pc.extract_regex(text, _DATE)
    rest = np.flatnonzero(pc.is_null(parts).to_numpy(zero_copy_only=False))
    worded = _worded_votes(text.take(pa.array(rest)), counts[rest])
    piece = {field.name: pc.fill_null(pc.struct_field(parts, field.name), "") for field in parts.type}
    first, second, last, hour, minute = (_number(piece[name]) for name in ("a", "b", "c", "h", "i"))
    long, end = (pc.utf8_length(piece[name]).to_numpy(zero_copy_only=False) for name in ("a", "c"))
    named = _number(pc.fill_null(_month(piece["b"]), "")) > 0
    by_month, by_day = _upto(first, 12) & _upto(second, 31), _upto(first, 31) & _upto(second, 12)
    before, either, month = long < 4, by_month | by_day, named & _upto(first, 31)
    fits = (
        before & (end == 4) & either,
        before & (end == 2) & either,
        before & (end == 4) & month,
        before & (end == 2) & month,
        (long == 4) & (end < 4) & _upto(second, 12) & _upto(last, 31),
    )
    order = np.select(fits, range(len(SHAPES)), -1)
    evidence = np.where((order > 1) | (by_month & by_day), 2, np.where(by_month, 0, 1))
    told, seconds, half = (_holds(piece[name], ".") for name in ("h", "sec", "p"))
    midnight = told & (minute == 0) & (hour == 12 * half)
    midnight &= ~_holds(piece["sec"], "[1-9]") & ~_holds(piece["p"], "[Pp]")
    sign = pc.index_in(piece["s"], pa.array([*SIGNS], values.type)).fill_null(-1).to_numpy()
    one = np.flatnonzero((order >= 0) & pc.equal(piece["s"], piece["t"]).to_numpy(zero_copy_only=False))
    places = (sign, order, evidence, told * (1 + seconds + 2 * half), midnight.astype(np.int64))
    at = np.ravel_multi_index(tuple(place[one] for place in places), CLASSES)
    votes = np.bincount(at, counts[one], minlength=int(np.prod(CLASSES))).astype(np.int64)
    return np.concatenate([votes, worded])


def _worded_votes(texts: pa.Array, counts: np.ndarray) -> np.ndarray:
    """int64[WORDED]: the same; a month such as May, whose names are the same, is a short one."""
    votes = np.zeros(len(WORDED), dtype=np.int64)
    for at, pattern in enumerate(WORDED):
        month = MONTH if "%b" in pattern else f"(?i:{'|'.join({*NAMES} - {*MONTHS})})"
        digits = {"b": month, "B": month, "d": "(?:[12][0-9]|3[01]|0?[1-9])"}
        regex = "".join({**DIGITS, **digits}[part[1]] if part[0] == "%" else part for part in _parts(pattern))
        votes[at] = counts[_holds(pc.fill_null(texts, ""), f"^{regex}$")].sum()
    return votes


def _upto(numbers: np.ndarray, most: int) -> np.ndarray:
    return (numbers >= 1) & (numbers <= most)


def _number(digits: pa.Array) -> np.ndarray:
    """int64[value]: 0 where there are no digits alone."""
    plain = pc.if_else(pc.match_substring_regex(digits, "^[0-9]+$"), digits, pa.scalar("0", digits.type))
    return plain.cast(pa.int64()).to_numpy(zero_copy_only=False)


def _holds(texts: pa.Array, pattern: str) -> np.ndarray:
    return pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)


class Written(NamedTuple):
    """How most dates of a column are written; about how many rows hold such, by kind of moment; and which of
    the two orders it is, where there are two.
    """

    pattern: str
    kinds: dict[str, float]
    order: int | None


class DateVotes(NamedTuple):
    """Noisy `date_votes` of a `stddev`, of a column that holds about so many `dates`."""

    noisy: np.ndarray
    stddev: float
    dates: float

    def written(self, believed: float, few: float, order: int | None = None) -> Written | None:
        """As more than half of them are. None if there is no such way, or nothing tells whether the month or
        the day is first: that must stand out by `believed` deviations, unless the `order` is known from other
        columns, and at most a share of `few` may be of the other order.
        """
        votes, worded = np.split(self.noisy.astype(np.float64), [len(self.noisy) - len(WORDED)])
        votes = votes.reshape(CLASSES)
        if worded.max() > max(self.dates / 2, believed * self.stddev):
            return Written(WORDED[int(np.argmax(worded))], {"date": float(worded.max())}, None)
        whole = votes.sum(axis=(2, 4))
        sign, shape, clock = (int(place) for place in np.unravel_index(int(np.argmax(whole)), whole.shape))
        total, least = float(whole[sign, shape, clock]), believed * self.stddev * 2**0.5
        if total <= max(self.dates / 2, least * 3**0.5):
            return None
        patterns, rows = SHAPES[shape], votes[sign, shape, :, clock]
        if len(patterns) == 1:
            order = None
        else:
            told = rows[:2].sum(axis=1)
            known = order is not None
            order = int(np.argmax(told)) if order is None else order
            if told[1 - order] > max(few * total, least) or not (known or told[order] > least):
                return None
        pattern = patterns[order or 0]
        if pattern is None:
            return None
        kinds = dict(zip(KINDS_OF_CLOCK[clock], rows.sum(axis=0).tolist(), strict=False))
        return Written(f"{pattern.format(SIGNS[sign])}{CLOCKS[clock]}", kinds, order)
