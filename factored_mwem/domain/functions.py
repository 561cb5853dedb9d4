"""Functions: what one column may be of another, row by row: the same, a part of its time, or a part of its
digits. Of public facts alone, on whole units: days, microseconds since 1970, or the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.conditions import STEPS

EQUAL = "equal"
"""The function of a copy, of whatever type."""
MICROS_A_DAY = STEPS["day"]
MOST_POINTS, MOST_DRAWN = 2**9, 2**12
"""Values of a code that are looked at, and among which rows are drawn; of more, some."""
GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, less their whole part, lie evenly between 0 and 1, however many there are."""


class Function(NamedTuple):
    """`value(units)`: int64 of int64. `of`: the types it is a function of; `needs`: for times, what they must
    be finer than; `least`, `most`: the ends of its values, None where they are the source's affair.
    """

    of: tuple[str, ...]
    value: Callable[[np.ndarray], np.ndarray]
    needs: str | None = None
    least: int | None = None
    most: int | None = None


def _days(micros: np.ndarray) -> np.ndarray:
    return (micros // MICROS_A_DAY).astype("datetime64[D]")


def _year(micros: np.ndarray) -> np.ndarray:
    return _days(micros).astype("datetime64[Y]").astype(np.int64) + 1970


def _month(micros: np.ndarray) -> np.ndarray:
    return _days(micros).astype("datetime64[M]").astype(np.int64) % 12 + 1


def _day(micros: np.ndarray) -> np.ndarray:
    days = _days(micros)
    return (days - days.astype("datetime64[M]")).astype(np.int64) + 1


def _yearday(micros: np.ndarray) -> np.ndarray:
    days = _days(micros)
    return (days - days.astype("datetime64[Y]")).astype(np.int64) + 1


def _weekday(micros: np.ndarray) -> np.ndarray:
    return (micros // MICROS_A_DAY + 3) % 7


_TIMES, _WHOLE = ("date", "datetime"), ("integer",)
FUNCTIONS: dict[str, Function] = {
    "year": Function(_TIMES, _year),
    "quarter": Function(_TIMES, lambda t: (_month(t) + 2) // 3, None, 1, 4),
    "month": Function(_TIMES, _month, None, 1, 12),
    "day": Function(_TIMES, _day, None, 1, 31),
    "yearday": Function(_TIMES, _yearday, None, 1, 366),
    "weekday": Function(_TIMES, lambda t: _weekday(t) + 1, None, 1, 7),
    "weekday from 0": Function(_TIMES, _weekday, None, 0, 6),
    "hour": Function(("datetime",), lambda t: t // STEPS["hour"] % 24, "day", 0, 23),
    "minute": Function(("datetime",), lambda t: t // STEPS["minute"] % 60, "hour", 0, 59),
    "tens": Function(_WHOLE, lambda x: x // 10),
    "hundreds": Function(_WHOLE, lambda x: x // 100),
    "thousands": Function(_WHOLE, lambda x: x // 1000),
    "below hundred": Function(_WHOLE, lambda x: x % 100, None, 0, 99),
}
"""Weeks begin on Monday. Of a number below zero the digits are those of the whole number below."""


def applied(name: str, kind: str, units: np.ndarray) -> np.ndarray:
    """int64: the function of units of a type: days of dates, microseconds of times, whole numbers."""
    whole = units.astype(np.int64)
    return FUNCTIONS[name].value(whole * MICROS_A_DAY if kind == "date" else whole)


def has_values(attribute: Attribute, values: np.ndarray) -> np.ndarray:
    """bool[value]: which whole numbers the attribute has."""
    if attribute.categorical:
        return np.isin(values, attribute.units)
    inside = (attribute.cuts[0] <= values) & (values < attribute.cuts[-1])
    return inside | np.isin(values, attribute.specials)


def points_of(attribute: Attribute) -> list[np.ndarray]:
    """Up to MOST_POINTS values of each code, always the same: see `some_points`."""
    return some_points(attribute, MOST_POINTS)


def some_points(attribute: Attribute, most: int, shift: float = 0.0) -> list[np.ndarray]:
    """int64[point] for each code: the units that its values come out as, up to `most` of them, none of a
    null. Of more some that lie evenly and in no step with each other: for another `shift`, others.

    They are those that decode.py draws from: multiples of the resolution, or of what numbers are rounded to,
    that are no special value; where there is none, the begin of the bin, or any value in it.
    """
    points = [np.zeros(0, dtype=np.int64)] * attribute.size
    if attribute.categorical:
        points[: len(attribute.values)] = [units[None] for units in attribute.units.astype(np.int64)]
        return points
    for code, unit in zip(attribute.special_codes.tolist(), attribute.specials, strict=True):
        points[code] = np.array([unit], dtype=np.int64)
    step, cuts = attribute.multiple_of or STEPS.get(attribute.resolution or "", 1), attribute.cuts.tolist()
    for code, low, high in zip(attribute.bin_codes.tolist(), cuts[:-1], cuts[1:], strict=True):
        for width in (step, 1) if attribute.multiple_of else (step,):
            if not len(points[code]):
                units = _inside(low, high, width, most, shift)
                taken = len(attribute.specials) and np.isin(units, attribute.specials)
                points[code] = units[~taken] if np.any(taken) else units
        if not len(points[code]):
            points[code] = np.array([low], dtype=np.int64)
    return points


def _inside(low: int, high: int, step: int, most: int, shift: float) -> np.ndarray:
    """int64[point]: multiples of a step with low <= x < high."""
    first = -(-low // step)
    room = max(-(-high // step) - first, 0)
    ranks = np.arange(min(room, most))
    if room > most:
        ranks = ((ranks * GOLDEN + shift) % 1 * room).astype(np.int64)
    return (first + ranks) * step
