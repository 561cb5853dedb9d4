"""Notation: numbers as people write them (money, percent, thousands apart, times of day): text of a format to
plain numbers, which everything else reads, and back; and which format the cells of a column seem to follow.

A format is such as `$#,##0`, `0 EUR`, `0%` or `%H:%M`. Where there is one, plain numbers are read as well;
what is not written so stays as it is. Of a percentage the number is the one that is written: 12% is 12. A
time of day counts whole minutes from midnight on or, where the format has them, seconds.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SIGNS = (
    "$",
    "€",
    "£",
    "¥",
    "₹",
    "₽",
    "₩",
    "US$",
    "R$",
    "C$",
    "A$",
    "Rs",
    "Rs.",
    "kr",
    "USD",
    "EUR",
    "GBP",
    "CHF",
)
BESIDE = (
    ("", ""),
    *((sign + blank, "") for sign in SIGNS for blank in ("", " ")),
    *(("", blank + sign) for sign in (*SIGNS, "%") for blank in ("", " ")),
)
"""What may stand before and behind a number. Where nothing does, it is a notation only with signs between
thousands.
"""
WHOLE, GROUPED = "0", "#,##0"
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
"""Times of day; hours of 12 have AM or PM behind."""
MOST_PLACES = 7
"""Digits behind the point; more count as so many."""
SOME = 0.05
"""Of all numbers so many must be written in a way, for the others are read and written by it, too."""
EVIDENCE = ("grouped", "plain", "either")
"""Whether thousands are apart, which a number below 1,000 does not tell."""
CLASSES = (len(BESIDE), len(EVIDENCE), MOST_PLACES + 1)
"""The shape of the votes on amounts; those on CLOCKS follow."""
VOTES = int(np.prod(CLASSES)) + len(CLOCKS)


def _either(texts: set[str]) -> str:
    return "|".join(re.escape(text) for text in sorted(texts, key=lambda text: (-len(text), text)))


_BEFORE, _BEHIND = (_either({pair[at] for pair in BESIDE} - {""}) for at in (0, 1))
_DIGITS = r"(?P<digits>[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]{1,15})(?P<places>[.][0-9]*)?"
_AMOUNT = rf"[+-]?(?P<before>{_BEFORE})?[+-]?{_DIGITS}(?P<behind>{_BEHIND})?"
AMOUNT = rf"^[(]?{_AMOUNT}[)]?$"
"""Brackets say that an amount is owed."""
_CLOCK = r"^(?P<hour>[0-9]{1,2}):(?P<minute>[0-5][0-9])(?P<second>:[0-5][0-9])?(?P<half> ?[AaPp][Mm])?$"


def is_amount(pattern: str) -> bool:
    """Whether a format is one of numbers with something beside or between them."""
    return pattern in _amounts()


@cache
def _amounts() -> dict[str, tuple[str, str, bool]]:
    """Of each format what stands before and behind a number, and whether thousands are apart."""
    formats = {
        f"{before}{form}{behind}": (before, behind, form == GROUPED)
        for before, behind in BESIDE
        for form in (WHOLE, GROUPED)
    }
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
    before, behind, _ = _amounts()[pattern]
    signs = f"(?P<first>[+-]?){re.escape(before)}(?P<then>[+-]?)"
    parts = pc.extract_regex(_signed(text), f"^{signs}{_DIGITS}{re.escape(behind)}$")
    pieces = [pc.struct_field(parts, name) for name in ("first", "then", "digits", "places")]
    return pc.replace_substring_regex(
        pc.binary_join_element_wise(*pieces, pa.scalar("", text.type)), "[+,]", ""
    )


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
    before, behind, grouped = _amounts()[pattern]
    parts = pc.extract_regex(numbers, r"^(?P<minus>-?)(?P<whole>[0-9]+)(?P<places>[.][0-9]*)?$")
    minus, whole, places = (pc.struct_field(parts, name) for name in ("minus", "whole", "places"))
    for _ in range(5 * grouped):
        whole = pc.replace_substring_regex(whole, "^([0-9]+)([0-9]{3})(,|$)", r"\1,\2\3")
    beside = (pa.scalar(text, numbers.type) for text in (before, behind, ""))
    pieces = [minus, next(beside), whole, places, *beside]
    return pc.coalesce(pc.binary_join_element_wise(*pieces), numbers)


def notation_votes(values: pa.Array, counts: np.ndarray) -> np.ndarray:
    """int64[VOTES]: how many rows hold a number that is written so, of distinct `values` that
    `counts: int64[value]` rows hold. A value is one at most.
    """
    text = pc.utf8_trim_whitespace(values)
    way, _ = _clocks(text)
    parts = pc.extract_regex(_signed(text), f"^{_AMOUNT}$")
    piece = {field.name: pc.fill_null(pc.struct_field(parts, field.name), "") for field in parts.type}
    pairs = pc.binary_join_element_wise(piece["before"], piece["behind"], pa.scalar(WHOLE, values.type))
    beside = pc.index_in(pairs, pa.array([WHOLE.join(pair) for pair in BESIDE], pairs.type))
    beside = pc.fill_null(beside, -1).to_numpy(zero_copy_only=False)
    grouped = pc.match_substring(piece["digits"], ",").to_numpy(zero_copy_only=False)
    long, places = (
        pc.utf8_length(piece[name]).to_numpy(zero_copy_only=False) for name in ("digits", "places")
    )
    evidence = np.where(grouped, 0, np.where(long > 3, 1, 2))
    there = pc.is_valid(parts).to_numpy(zero_copy_only=False) & (beside >= 0) & ((beside > 0) | grouped)
    one = np.flatnonzero(there)
    places = np.clip(places - 1, 0, MOST_PLACES)
    at = np.ravel_multi_index((beside[one], evidence[one], places[one]), CLASSES)
    clock = np.flatnonzero(way >= 0)
    at = np.concatenate([at, VOTES - len(CLOCKS) + way[clock]])
    rows = np.concatenate([counts[one], counts[clock]])
    return np.bincount(at, rows, minlength=VOTES).astype(np.int64)


class Notation(NamedTuple):
    """How most numbers of a column are written; about how many rows hold such that need no digits behind the
    point, one, and so on; and how many zeros whole numbers have there.
    """

    pattern: str
    places: tuple[float, ...]
    zeros: int


class NotationVotes(NamedTuple):
    """Noisy `notation_votes` of a `stddev`, of a column that holds about so many `amounts`, `clocks` and
    plain `numbers`.
    """

    noisy: np.ndarray
    stddev: float
    amounts: float
    clocks: float
    numbers: float = 0.0

    def written(self, believed: float) -> Notation | None:
        """As more than half of either are, where that stands out by `believed` deviations; None if there is
        no such way, or hardly any number is: of times of day, unless most numbers are, which are no minutes.
        """
        amounts, clocks = np.split(self.noisy.astype(np.float64), [VOTES - len(CLOCKS)])
        least, votes = believed * self.stddev, amounts.reshape(CLASSES)
        clock = int(np.argmax(clocks))
        if clocks[clock] > max(self.clocks / 2, least, self.amounts + self.numbers):
            return Notation(CLOCKS[clock], (float(clocks[clock]),), 0)
        whole = votes.sum(axis=(1, 2))
        beside = int(np.argmax(whole))
        by_noise = least * (len(EVIDENCE) * (MOST_PLACES + 1)) ** 0.5
        if whole[beside] <= max(self.amounts / 2, by_noise, SOME * (self.amounts + self.numbers)):
            return None
        before, behind = BESIDE[beside]
        grouped, plain, _ = votes[beside].sum(axis=1)
        places = votes[beside].sum(axis=0)
        places = np.where(places > least * len(EVIDENCE) ** 0.5, places, 0.0)
        most = int(np.argmax(places))
        form = GROUPED if grouped > max(plain, least * (MOST_PLACES + 1) ** 0.5) else WHOLE
        return Notation(f"{before}{form}{behind}", tuple(places.tolist()), most)
