"""Notation: numbers as people write them (money, percent, units, thousands apart, decimal commas, times of
day): text of a format to plain numbers, which everything else reads, and back; and which format the cells of
a column seem to follow.

A format is such as `$#,##0`, `0 EUR`, `0%`, `#.##0,0 €`, `0;(0)` (what is owed is in brackets) or `%H:%M`.
Where there is one, plain numbers are read as well; what is not written so stays as it is. Of a percentage the
number is the one that is written: 12% is 12. A time of day counts whole minutes from midnight on or, where
the format has them, seconds.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SIGNS = (
    "$", "€", "£", "¥", "₹", "₽", "₩", "US$", "R$", "C$", "A$", "Rs", "Rs.", "kr", "USD", "EUR", "GBP", "CHF",
)  # fmt: skip
UNITS = (
    "km", "m", "cm", "mm", "mi", "miles", "ft", "in", "kg", "g", "mg", "lb", "lbs", "oz", "l", "L", "ml",
    "h", "hr", "hrs", "hours", "min", "mins", "minutes", "s", "sec", "ms", "days", "weeks", "months", "years",
    "yrs", "KB", "MB", "GB", "kW", "kWh", "mph", "km/h", "km/l", "kmpl", "cc", "CC", "bhp", "hp", "°C", "°F",
    "m²", "sqft", "sq ft",
)  # fmt: skip
NUMBERED = ("#", "No. ", "Nr. ", "N° ")
BESIDE = (
    ("", ""),
    *((sign + blank, "") for sign in SIGNS for blank in ("", " ")),
    *((sign, "") for sign in NUMBERED),
    *(("", blank + sign) for sign in (*SIGNS, "%", *UNITS) for blank in ("", " ")),
)
"""What may stand before and behind a number. Where nothing does, it is a notation only by how its digits are
written.
"""
FORMS = {
    "0": ("", "."),
    "#,##0": (",", "."),
    "# ##0": (" ", "."),
    "0,0": ("", ","),
    "#.##0,0": (".", ","),
    "# ##0,0": (" ", ","),
}
"""How digits are written: what stands between thousands, and before decimals."""
WHOLE = "0"
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
"""Times of day; hours of 12 have AM or PM behind."""
MOST_AMOUNT = 10**15 - 1
"""Digits without thousands apart are read up to here."""
MOST_PLACES = 7
"""Digits behind the point; more count as so many."""
SOME = 0.05
"""Of all numbers so many must be written in a way, for the others are read and written by it, too."""
STYLES = ("short", "long", ",", ".", " ")
"""What stands between thousands: nothing in a number below 1,000, which does not tell, or in a longer one."""
MARKS = ("", ".", ",")
"""And before decimals, where there are any. Several signs between thousands tell of the other mark."""
DIGITS = (len(STYLES), len(MARKS), MOST_PLACES + 2)
"""The shape of the votes on how digits are written; of those in brackets, which are last, the places behind
the point are not told.
"""
STANDS_OUT = 4.0
"""Standard deviations by which votes on digits are believed, where it is known what stands beside them: noise
alone makes one of 30,000 so.
"""


def _either(texts: set[str]) -> str:
    return "|".join(re.escape(text) for text in sorted(texts, key=lambda text: (-len(text), text)))


_BEFORE, _BEHIND = (_either({pair[at] for pair in BESIDE} - {""}) for at in (0, 1))
_AMOUNT = (
    rf"[+-]?(?P<before>{_BEFORE})?[+-]?"
    r"(?P<digits>[1-9][0-9]{0,2}(?:[,. ][0-9]{3})+|[0-9]{1,15})(?P<places>[.,][0-9]*)?"
    rf"(?P<behind>{_BEHIND})?"
)
AMOUNT = rf"^[(]?{_AMOUNT}[)]?$"
"""Brackets say that an amount is owed."""
_CLOCK = r"^(?P<hour>[0-9]{1,2}):(?P<minute>[0-5][0-9])(?P<second>:[0-5][0-9])?(?P<half> ?[AaPp][Mm])?$"


def is_amount(pattern: str) -> bool:
    """Whether a format is one of numbers with something beside or between them."""
    return pattern in _amounts()


class _Form(NamedTuple):
    """What stands before and behind a number, between its thousands, before its decimals; and whether
    negative ones are in brackets.
    """

    before: str
    behind: str
    between: str
    mark: str
    brackets: bool


@cache
def _amounts() -> dict[str, _Form]:
    """Each format of numbers."""
    formats = {}
    for before, behind in BESIDE:
        for form, (between, mark) in FORMS.items():
            pattern = f"{before}{form}{behind}"
            formats[pattern] = _Form(before, behind, between, mark, False)
            formats[f"{pattern};({pattern})"] = _Form(before, behind, between, mark, True)
    return {pattern: parts for pattern, parts in formats.items() if pattern != WHOLE}


def is_notation(pattern: str) -> bool:
    """Whether a format is one of numbers as people write them."""
    return pattern in CLOCKS or is_amount(pattern)


def to_plain(column: pa.Array, pattern: str) -> pa.Array:
    """The numbers of a column of text that follow a format, plainly; the rest as it is, and all of it where
    the format is none of numbers.
    """
    if not is_notation(pattern):
        return column
    text = pc.utf8_trim_whitespace(column)
    numbers = _minutes(text, pattern) if pattern in CLOCKS else _amount(text, pattern)
    return pc.coalesce(numbers, column)


def _amount(text: pa.Array, pattern: str) -> pa.Array:
    form = _amounts()[pattern]
    between = form.between or "," if form.mark == "." else form.between or "."
    signs = f"(?P<first>[+-]?){re.escape(form.before)}(?P<then>[+-]?)"
    digits = f"(?P<digits>[1-9][0-9]{{0,2}}(?:[{between}][0-9]{{3}})+|[0-9]{{1,15}})"
    places = f"(?P<places>[{form.mark}][0-9]*)?"
    parts = pc.extract_regex(_signed(text), f"^{signs}{digits}{places}{re.escape(form.behind)}$")
    first, then, whole, rest = (
        pc.struct_field(parts, name) for name in ("first", "then", "digits", "places")
    )
    sign = pc.replace_substring(_joined(first, then), "+", "")
    whole = pc.replace_substring(whole, between, "")
    return _joined(sign, whole, pc.replace_substring(rest, form.mark, "."))


def _joined(*texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*texts, pa.scalar("", texts[0].type))


def _signed(text: pa.Array) -> pa.Array:
    """With a sign where brackets say that an amount is owed."""
    return pc.replace_substring_regex(text, r"^[(]([^()+-]+)[)]$", r"-\1")


def _minutes(text: pa.Array, pattern: str) -> pa.Array:
    """Minutes or seconds since midnight, as text; null where the cells are no such time."""
    way, time = _clocks(text)
    units = time if "%S" in pattern else time // 60
    fits = way == CLOCKS.index(pattern)
    return pa.array(units, mask=~fits).cast(text.type)


def _clocks(text: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(int64[value]: the number in CLOCKS, -1 where it is none; int64[value]: seconds since midnight)."""
    parts = pc.extract_regex(text, _CLOCK)
    hour, minute, second, half = (
        pc.fill_null(pc.struct_field(parts, name), "") for name in ("hour", "minute", "second", "half")
    )
    hours, minutes, seconds = (
        _number(pc.replace_substring(piece, ":", "")) for piece in (hour, minute, second)
    )
    late = pc.match_substring_regex(half, "[Pp]").to_numpy(zero_copy_only=False)
    exact, twelve = (pc.not_equal(piece, "").to_numpy(zero_copy_only=False) for piece in (second, half))
    real = pc.is_valid(parts).to_numpy(zero_copy_only=False)
    real &= np.where(twelve, (hours >= 1) & (hours <= 12), hours < 24)
    hours = np.where(twelve, hours % 12 + 12 * late, hours)
    return np.where(real, exact + 2 * twelve, -1), (hours * 60 + minutes) * 60 + seconds


def _number(digits: pa.Array) -> np.ndarray:
    """int64[value]: 0 where there are no digits."""
    return (
        pc.if_else(pc.equal(digits, ""), pa.scalar("0", digits.type), digits)
        .cast(pa.int64())
        .to_numpy(zero_copy_only=False)
    )


def in_notation(numbers: pa.Array, pattern: str) -> pa.Array:
    """Plain numbers, as text, by a format; what it cannot write stays as it is, such as 12.5 minutes, and all
    where the format is none of numbers.
    """
    if not is_notation(pattern):
        return numbers
    if pattern in CLOCKS:
        last, unit = (86_399, 1) if "%S" in pattern else (1_439, 60)
        whole = pc.if_else(pc.match_substring_regex(numbers, "^[0-9]{1,5}$"), numbers, None).cast(pa.int64())
        of_a_day = pc.if_else(pc.less_equal(whole, last), pc.multiply(whole, unit), None)
        return pc.coalesce(pc.strftime(of_a_day.cast(pa.timestamp("s")), format=pattern), numbers)
    form = _amounts()[pattern]
    parts = pc.extract_regex(numbers, r"^(?P<minus>-?)(?P<whole>[0-9]+)(?P<places>[.][0-9]*)?$")
    minus, whole, places = (pc.struct_field(parts, name) for name in ("minus", "whole", "places"))
    for _ in range(5 if form.between else 0):
        whole = pc.replace_substring_regex(whole, "^([0-9]+)([0-9]{3})([,. ]|$)", rf"\1{form.between}\2\3")
    places, end = pc.replace_substring(places, ".", form.mark), pa.scalar("", numbers.type)
    if form.brackets:
        end = pc.if_else(pc.equal(minus, "-"), pa.scalar(")", numbers.type), end)
        minus = pc.replace_substring(minus, "-", "(")
    before, behind = (pa.scalar(text, numbers.type) for text in (form.before, form.behind))
    pieces = [minus, before, whole, places, behind, end, pa.scalar("", numbers.type)]
    return pc.coalesce(pc.binary_join_element_wise(*pieces), numbers)


class Amounts(NamedTuple):
    """Of each value what stands beside it, a number in BESIDE and then in CLOCKS, -1 where it is none of
    these; and how its digits are written, a number in DIGITS.
    """

    beside: np.ndarray
    digits: np.ndarray

    @classmethod
    def of(cls, values: pa.Array) -> Amounts:
        """Of a column of text."""
        text = pc.utf8_trim_whitespace(values)
        parts = pc.extract_regex(_signed(text), f"^{_AMOUNT}$")
        is_one = pc.is_valid(parts).to_numpy(zero_copy_only=False)
        rest = np.flatnonzero(~is_one)
        if len(rest):
            parts, text = parts.drop_null(), text.filter(pa.array(is_one))
        piece = {field.name: pc.struct_field(parts, field.name) for field in parts.type}
        pairs = _joined(piece["before"], pa.array([WHOLE] * len(text), text.type), piece["behind"])
        pair = pc.index_in(pairs, pa.array([WHOLE.join(pair) for pair in BESIDE], pairs.type))
        pair = pc.fill_null(pair, -1).to_numpy(zero_copy_only=False)
        style, mark, owed, places, sound = _digits(text, piece["digits"], piece["places"])
        told = sound & ((pair > 0) | (style > 1) | (mark == MARKS.index(",")) | owed)
        beside, digits = np.full(len(values), -1), np.zeros(len(values), dtype=np.int64)
        beside[is_one] = np.where(told, pair, -1)
        digits[is_one] = np.ravel_multi_index((style, mark, places), DIGITS)
        way, _ = _clocks(pc.utf8_trim_whitespace(values.take(pa.array(rest))))
        beside[rest] = np.where(way < 0, -1, len(BESIDE) + way)
        return cls(beside, digits)

    def beside_votes(self, counts: np.ndarray) -> np.ndarray:
        """int64[BESIDE, then CLOCKS]: how many rows hold a number that is not plain, by what stands beside
        it, or a time of day, where `counts: int64[value]` rows hold each value. A value is one at most.
        """
        one = np.flatnonzero(self.beside >= 0)
        return _votes(self.beside[one], counts[one], len(BESIDE) + len(CLOCKS))

    def digit_votes(self, counts: np.ndarray, beside: int) -> np.ndarray:
        """int64[DIGITS], flat: how many rows hold a number with what is at this place of BESIDE, by how its
        digits are written. A value is one at most.
        """
        one = np.flatnonzero(self.beside == beside)
        return _votes(self.digits[one], counts[one], int(np.prod(DIGITS)))


def _votes(places: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(places, rows, minlength=size).astype(np.int64)


def _digits(text: pa.Array, digits: pa.Array, places: pa.Array) -> tuple[np.ndarray, ...]:
    """Of each value its number in STYLES and in MARKS, whether it is in brackets, its last number in DIGITS,
    and whether its signs agree.
    """
    long, behind = (pc.utf8_length(piece).to_numpy(zero_copy_only=False) for piece in (digits, places))
    style, mark = (long > 3).astype(np.int64), np.zeros(len(text), dtype=np.int64)
    sound = np.ones(len(text), dtype=bool)
    for sign in (",", "."):
        mark[_holds(places, sign)] = MARKS.index(sign)
    for sign, other in ((" ", ""), (",", "."), (".", ",")):
        held = _holds(digits, sign)
        sound &= ~held | (style < 2) & ((mark != MARKS.index(sign)) if other else True)
        style[held] = STYLES.index(sign)
        several = held & (long > len("123,456")) & (mark == 0)
        mark[several] = MARKS.index(other)
    owed = _holds(text, "(")
    last = np.where(owed, MOST_PLACES + 1, np.clip(behind - 1, 0, MOST_PLACES))
    return style, mark, owed, last, sound


def _holds(texts: pa.Array, sign: str) -> np.ndarray:
    return pc.match_substring(texts, sign).to_numpy(zero_copy_only=False)


class Notation(NamedTuple):
    """How most numbers of a column are written; about how many rows hold such that need no digits behind the
    point, one, and so on; and how many zeros whole numbers have there.
    """

    pattern: str
    places: tuple[float, ...]
    zeros: int


class BesideVotes(NamedTuple):
    """Noisy `Amounts.beside_votes` of a `stddev`, of a column that holds about so many `amounts`, `clocks`
    and plain `numbers`.
    """

    noisy: np.ndarray
    stddev: float
    amounts: float
    clocks: float
    numbers: float = 0.0

    def told(self, believed: float) -> int | Notation | None:
        """The place in BESIDE, or the time of day, of more than half of either, where that stands out by
        `believed` deviations; None if there is no such way, or hardly any number is: of times of day, unless
        most numbers are, which are no minutes.
        """
        amounts, clocks = np.split(self.noisy.astype(np.float64), [len(BESIDE)])
        least, clock, beside = believed * self.stddev, int(np.argmax(clocks)), int(np.argmax(amounts))
        if clocks[clock] > max(self.clocks / 2, least, self.amounts + self.numbers):
            return Notation(CLOCKS[clock], (float(clocks[clock]),), 0)
        enough = max(self.amounts / 2, least, SOME * (self.amounts + self.numbers))
        return beside if amounts[beside] > enough else None


def written_with(beside: int, noisy: np.ndarray, stddev: float, believed: float) -> Notation | None:
    """How most numbers of a column with what is at this place of BESIDE are written, by noisy `digit_votes`
    of a `stddev`; None where that is plainly. That the comma stands before decimals must be `believed`.
    """
    votes, least = noisy.reshape(DIGITS).astype(np.float64), min(believed, STANDS_OUT) * stddev
    votes[:, 0, 1:-1] = 0.0  # without a mark nothing stands behind it
    point, comma = (float(votes[:, MARKS.index(mark), :-1].sum()) for mark in ".,")
    sure = believed * stddev * (len(STYLES) * (MOST_PLACES + 1)) ** 0.5
    mark = "," if comma > max(point, sure) else "."
    alone = STYLES.index(mark)  # one sign alone between three digits and three is the mark then
    votes[alone, MARKS.index(mark), 3] += votes[alone, 0, 0]
    votes[alone, 0, 0] = 0.0
    votes = votes[:, [0, MARKS.index(mark)]]
    styles = dict(zip(STYLES, votes.sum(axis=(1, 2)).tolist(), strict=True))
    between = max((sign for sign in STYLES[2:] if sign != mark), key=lambda sign: styles[sign])
    if styles[between] <= max(styles["long"], least * (2 * (MOST_PLACES + 2)) ** 0.5):
        between = ""
    owed = votes[:, :, -1].sum() > least * (2 * len(STYLES)) ** 0.5
    places = votes[:, 1, :-1].sum(axis=0)
    places[0] += votes[:, 0, :-1].sum()
    places = np.where(places > least * len(STYLES) ** 0.5, places, 0.0)
    places *= 1 + max(votes[:, :, -1].sum(), 0.0) / max(places.sum(), 1.0) if owed else 1
    before, behind = BESIDE[beside]
    form = next(form for form, signs in FORMS.items() if signs == (between, mark))
    pattern = f"{before}{form}{behind}"
    pattern = f"{pattern};({pattern})" if owed else pattern
    if pattern == WHOLE:
        return None
    return Notation(pattern, tuple(places.tolist()), int(np.argmax(places)))


def told_exactly(values: pa.Array, counts: np.ndarray, numbers: float) -> tuple[Notation | None, float]:
    """(how most numbers of a column are written, without noise; how many rows hold one that is not plain, or
    a time of day, whichever are more). `numbers`: how many rows hold a plain one.
    """
    seen = Amounts.of(values)
    votes = seen.beside_votes(counts)
    amounts, clocks = (float(part.sum()) for part in np.split(votes, [len(BESIDE)]))
    told = BesideVotes(votes, 0.0, amounts, clocks, numbers).told(0.0)
    if isinstance(told, int):
        told = written_with(told, seen.digit_votes(counts, told), 0.0, 0.0)
    return told, max(amounts, clocks)
