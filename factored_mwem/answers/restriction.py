"""Restriction: conditions on one column, as the share of each code's rows that meet them all.

Rows of a bin are assumed to be spread evenly over the values that it can hold, or over its bin values by
their weights, just as synthetic rows are drawn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.answers.query import Between, Compare, Condition, Missing, OneOf, Value
from factored_mwem.domain.attribute import OTHER, Attribute
from factored_mwem.domain.conditions import STEPS, intervals, placed
from factored_mwem.errors import InputError, did_you_mean, shortened, shown, some_names

TRUE, FALSE = ("true", "yes"), ("false", "no")


@dataclass(slots=True)
class _Limits:
    """Conditions on one column: from `low` to `high`, places among its values; each of `among`; none of
    `never`. `texts: bool[sentinel]`: whether they hold of each text beside the bins.
    """

    texts: np.ndarray
    over: list[tuple[float, bool]] = field(default_factory=list)
    under: list[tuple[float, bool]] = field(default_factory=list)
    among: list[set[float]] = field(default_factory=list)
    never: set[float] = field(default_factory=set)

    @classmethod
    def of(cls, attribute: Attribute, conditions: Sequence[Condition]) -> _Limits:
        """Raises InputError for values that the column does not have, and where it has no order."""
        limits = cls(np.ones(len(attribute.sentinels), dtype=bool))
        for each in conditions:
            if isinstance(each, Between):
                limits.over.append((_ordered_place(attribute, each.low), True))
                limits.under.append((_ordered_place(attribute, each.high), True))
                limits.texts[:] = False
            elif isinstance(each, Compare) and each.by not in ("=", "!="):
                bounds = limits.over if each.by in (">", ">=") else limits.under
                bounds.append((_ordered_place(attribute, each.value), "=" in each.by))
                limits.texts[:] = False
            else:
                assert isinstance(each, OneOf | Compare)
                values = each.values if isinstance(each, OneOf) else (each.value,)
                negated = each.negated if isinstance(each, OneOf) else each.by == "!="
                texts = np.array([text in values for text in attribute.sentinels], dtype=bool)
                limits.texts &= texts != negated
                places = {_place(attribute, v) for v in values if v not in attribute.sentinels}
                if negated:
                    limits.never |= places
                else:
                    limits.among.append(places)
        return limits

    def holds(self, value: float) -> bool:
        """Whether one value meets the conditions."""
        return (
            all(value > bound or (closed and value == bound) for bound, closed in self.over)
            and all(value < bound or (closed and value == bound) for bound, closed in self.under)
            and all(value in values for values in self.among)
            and value not in self.never
        )


Ends = Literal["even", "least", "most"]
"""How the rows of a bin lie in it: evenly, or so that the fewest or the most of them meet a condition."""


def share_of_codes(attribute: Attribute, conditions: Sequence[Condition], ends: Ends = "even") -> np.ndarray:
    """float64[code]: the share of a code's rows that meet all the conditions, 0 or 1 but for bins that they
    cut. Raises InputError in one line for values that the column does not have.
    """
    shares = np.ones(attribute.size)
    present = [c for c in conditions if not isinstance(c, Missing)]
    null = attribute.null_code
    for each in conditions:
        if isinstance(each, Missing):
            if null is None and not each.negated and not attribute.learnt:
                raise InputError(f"{shortened(attribute.name)!r} is never missing")
            is_null = np.arange(attribute.size) == (-1 if null is None else null)
            shares *= is_null != each.negated
    if present:
        limits = _Limits.of(attribute, present)
        listed = attribute.categorical
        shares *= _listed(attribute, limits) if listed else _binned(attribute, limits, ends)
    return shares


class Unlisted(NamedTuple):
    """Of values that a column's domain does not hold, and which count as others: whether some may be counted
    as meeting conditions that they do not meet (`in_vain`), or the reverse (`missed`).
    """

    in_vain: bool
    missed: bool


def taking_others(attribute: Attribute) -> list[int]:
    """The codes that values take which are none of the domain's."""
    codes = [attribute.fallback_code]
    if not attribute.categorical and len(attribute.bin_codes):
        codes += attribute.bin_codes[[0, -1]].tolist()
    return codes


def unlisted_in(attribute: Attribute, conditions: Sequence[Condition], shares: np.ndarray) -> Unlisted:
    """By where such values go: to the `other` of a column or what stands for it, or the bins at both ends.
    `shares: float64[code]`, those of the codes. In a code that is `other` by name they are no mistake.
    """
    if attribute.type == "string" and attribute.other == OTHER:
        return Unlisted(False, no_null_was_found(attribute, conditions))
    present = [c for c in conditions if not isinstance(c, Missing)]
    named = attribute.categorical and any(
        (isinstance(c, OneOf) and not c.negated) or (isinstance(c, Compare) and c.by == "=") for c in present
    )
    negated = (
        attribute.categorical
        and bool(present)
        and all(
            (isinstance(c, OneOf) and c.negated) or (isinstance(c, Compare) and c.by == "!=") for c in present
        )
    )
    inside = shares[taking_others(attribute)]
    return Unlisted(bool(inside.any() and not negated), bool((inside < 1).any() and not named))


def no_null_was_found(attribute: Attribute, conditions: Sequence[Condition]) -> bool:
    """Whether they ask for missing values of a column in which too few were found to have a code."""
    wanted = any(isinstance(c, Missing) and not c.negated for c in conditions)
    return wanted and attribute.null_code is None


def values_meet(
    attribute: Attribute, conditions: Sequence[Condition], codes: np.ndarray, units: np.ma.MaskedArray
) -> np.ndarray:
    """bool[row]: whether the value itself meets all the conditions, of a column's `codes: int[row]` and
    `units`, its numbers and moments in the unit of the cuts; texts and what is missing by their codes.
    """
    meets = share_of_codes(attribute, conditions)[codes] > 0
    present = [c for c in conditions if not isinstance(c, Missing)]
    if attribute.categorical or not present or not len(attribute.bin_codes):
        return meets
    limits, inside = _Limits.of(attribute, present), np.isin(codes, attribute.bin_codes)
    values, place = np.unique(np.asarray(units.filled(0))[inside], return_inverse=True)
    meets[inside] &= np.array([limits.holds(value) for value in values.tolist()], dtype=bool)[place]
    return meets


def _listed(attribute: Attribute, limits: _Limits) -> np.ndarray:
    """float64[code]: 0 or 1 for each listed value; 0 for what is missing."""
    shares = np.zeros(attribute.size)
    shares[: len(attribute.values)] = [limits.holds(place) for place in _places(attribute)]
    return shares


def _places(attribute: Attribute) -> list[float]:
    """The places of the listed values: codes for texts and truth values, positions for numbers and dates."""
    if attribute.type in ("string", "boolean"):
        return list(range(len(attribute.values)))
    return attribute.units.tolist()


def _place(attribute: Attribute, value: Value) -> float:
    """The place of a value, which the column need not have."""
    if attribute.categorical:
        return _places(attribute)[listed_code(attribute, value)]
    return place_of(attribute, value)


def _ordered_place(attribute: Attribute, value: Value) -> float:
    """The place of a value for comparisons; the column must be ordered."""
    if attribute.categorical and not placed(attribute).any():
        raise InputError(
            f"the values of {shortened(attribute.name)!r} have no order; ask for some of them with `in (...)`"
        )
    if attribute.categorical and attribute.type in ("string", "boolean"):
        return listed_code(attribute, value)
    return place_of(attribute, value)


def listed_code(attribute: Attribute, value: Value) -> int:
    """The code of a listed value, as a query writes it."""
    for code, listed in enumerate(attribute.values):
        if isinstance(listed, bool):
            same = value is listed or str(value).lower() in (TRUE if listed else FALSE)
        elif isinstance(listed, str):
            same = listed == (value if isinstance(value, str) else _as_text(value))
        else:
            same = not isinstance(value, bool) and _number(attribute, value) == listed
        if same:
            return code
    if attribute.type in ("date", "datetime"):
        place = place_of(attribute, value)
        for code, unit in enumerate(attribute.units.tolist()):
            if unit == place:
                return code
    alike = [code for code, v in enumerate(attribute.values) if str(v).lower() == str(value).lower()]
    if len(alike) == 1 and isinstance(value, str):
        return alike[0]  # but for its case
    texts = [str(v) for v in attribute.values]
    names = some_names(texts) if texts else "none"
    like, name = did_you_mean(str(value), texts), shortened(attribute.name)
    if attribute.learnt:
        raise InputError(
            f"{name!r}: no value {shown(value)} was found when the domain was learnt (rare ones are not)"
            f"{like}; it has {names}"
        )
    raise InputError(f"{name!r} has no value {shown(value)}{like}; it has {names}")


def _as_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(attribute: Attribute, value: Value) -> float | int | None:
    """A number, plain or as the column's are written; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = value if attribute.format == "default" else _plainly(value, attribute.format)
        try:
            return int(value) if value.lstrip("+-").isdecimal() and len(value) < 40 else float(value)
        except ValueError:
            return None
    return value


def _plainly(value: str, pattern: str) -> str:
    """What follows a format of numbers, such as 12:30, as a plain number; the rest as it is."""
    from factored_mwem.tables.codes.notation import to_plain  # here: most are plain

    return str(to_plain(pa.array([value]), pattern)[0])


def place_of(attribute: Attribute, value: Value) -> float:
    """A value's place in the unit of its column's cuts; raises InputError if it is of another type."""
    moments = attribute.type in ("date", "datetime")
    try:
        place = value if moments else _number(attribute, value)
        if (
            place is None
            or isinstance(place, bool)
            or (isinstance(place, float) and not math.isfinite(place))
        ):
            raise ValueError
        if not moments and attribute.type == "integer":
            return float(place)  # a threshold of an integer may lie between two
        return attribute._scalar(place)
    except ValueError:
        kind = {"date": "date such as 2024-01-31", "datetime": "moment such as 2024-01-31T12:00"}
        written = "" if attribute.format == "default" else f", plain or written as {attribute.format}"
        what = kind.get(attribute.type, f"number{written}")
        texts = f" (or {some_names(attribute.sentinels)})" if attribute.sentinels else ""
        raise InputError(
            f"{shown(value)} is no {what}, as {shortened(attribute.name)!r} has{texts}"
        ) from None


def step_of(attribute: Attribute) -> float | None:
    """The distance of neighbouring values in the unit of the cuts; None if numbers have no grid."""
    if attribute.type == "number":
        return None if attribute.decimals is None else 10.0**-attribute.decimals
    return float(STEPS.get(attribute.resolution or "", 1))


def _binned(attribute: Attribute, limits: _Limits, ends: Ends = "even") -> np.ndarray:
    """float64[code] of a column with bins and special values: the share of each one's values."""
    low, high = intervals(attribute)
    shares = np.zeros(attribute.size)
    for code in attribute.special_codes.tolist():
        shares[code] = limits.holds(float(low[code]))
    for code in attribute.bin_codes.tolist():
        shares[code] = _share_of_bin(attribute, limits, float(low[code]), float(high[code]))
    units, weights = attribute.drawn
    for code, (first, last) in zip(
        attribute.bin_codes.tolist(), itertools.pairwise(np.searchsorted(units, attribute.cuts)), strict=False
    ):
        if first < last:
            held = np.array([limits.holds(value) for value in units[first:last].tolist()])
            drawn = weights[first:last] @ held / weights[first:last].sum()
            whole = drawn == shares[code] or ends == "even"
            shares[code] = drawn if whole else (drawn + shares[code]) / 2  # others may be there, too
    if ends != "even" and len(attribute.bin_codes):
        shares = _at_end(attribute, limits, shares, ends)
    begin = len(attribute.cuts) - 1 + len(attribute.specials)
    shares[begin : begin + len(limits.texts)] = limits.texts
    return shares


def _at_end(attribute: Attribute, limits: _Limits, shares: np.ndarray, ends: Ends) -> np.ndarray:
    """The least or the most of each bin's rows; values beyond the bins count as those at their end."""
    bins, beyond = attribute.bin_codes, (attribute.cuts[0] - 1.0, attribute.cuts[-1] + 1.0)
    outside = [(bins[0], limits.under, beyond[0], min), (bins[-1], limits.over, beyond[1], max)]
    for code, bounds, end, furthest in outside:
        far = furthest([end, *(bound + (1.0 if end == beyond[1] else -1.0) for bound, _ in bounds)])
        if not shares[code] and limits.holds(far):
            shares[code] = 0.5  # some of what counts as the last bin may lie beyond it
    cut = (shares > 0) & (shares < 1)
    shares[cut] = float(ends == "most")
    return shares


def _share_of_bin(attribute: Attribute, limits: _Limits, low: float, high: float) -> float:
    """The share of a bin's values from `low` to `high` that meet the condition."""
    if low == high:
        return float(limits.holds(low))
    step = step_of(attribute)
    specials = attribute.specials[(attribute.specials >= low) & (attribute.specials <= high)].tolist()
    if step is None:
        if limits.among and any(low <= value <= high for value in limits.among[0]):
            raise InputError(
                f"no single number of {shortened(attribute.name)!r} has a count of its own; ask for a range"
            )
        if limits.among:
            return 0.0
        first = max([low, *(bound for bound, _ in limits.over)])
        last = min([high, *(bound for bound, _ in limits.under)])
        return max(last - first, 0.0) / (high - low)
    ranks = _Ranks(low, step, round((high - low) / step))
    taken = ranks.inside(specials)
    if limits.among:
        kept = {
            rank
            for rank, value in ranks.inside(set.intersection(*limits.among)).items()
            if limits.holds(value)
        }
    else:
        first, last = 0, ranks.last
        for bound, closed in limits.over:
            first = max(first, ranks.after(bound, closed=closed))
        for bound, closed in limits.under:
            last = min(last, ranks.after(bound, closed=not closed) - 1)
        out = {rank for rank in {*taken, *ranks.inside(limits.never)} if first <= rank <= last}
        return max(last - first + 1 - len(out), 0) / max(ranks.last + 1 - len(taken), 1)
    return len(kept - taken.keys()) / max(ranks.last + 1 - len(taken), 1)


class _Ranks(NamedTuple):
    """The values of a bin as steps from its least one, 0 to `last`: floats such as 0.3 are no multiples."""

    low: float
    step: float
    last: int

    def inside(self, values: Iterable[float]) -> dict[int, float]:
        """The values that lie on a step of the bin, by rank."""
        shares = {}
        for value in values:
            at = (value - self.low) / self.step
            if -0.5 < at < self.last + 0.5 and abs(at - round(at)) < 1e-6:
                shares[round(at)] = value
        return shares

    def after(self, bound: float, *, closed: bool) -> int:
        """The first rank at a bound or, unless `closed`, above it."""
        at = min(max((bound - self.low) / self.step, -2.0), self.last + 2.0)
        return math.ceil(at - 1e-6) if closed else math.floor(at + 1e-6) + 1


def average_of_codes(attribute: Attribute, ends: Ends = "even") -> tuple[np.ndarray, np.ndarray, bool]:
    """(float64[code]: a row's value on average, or the least or the most that it may be, bool[code]: whether
    it has one, whether each code has a value of its own). Raises InputError for a column that has no mean.
    """
    values, has = np.zeros(attribute.size), np.zeros(attribute.size, dtype=bool)
    if attribute.type == "boolean":
        values[: len(attribute.values)] = [float(v) for v in attribute.values]
        has[: len(attribute.values)] = True
        return values, has, True
    if attribute.type not in ("integer", "number"):
        what = f"a column of type {attribute.type} has no mean"
        median = "" if attribute.type == "string" else ", or for its median"
        raise InputError(f"{shortened(attribute.name)!r}: {what}; ask for counts by it{median}")
    has = placed(attribute).copy()
    low, high = (np.asarray(ends, dtype=np.float64) for ends in intervals(attribute))
    if ends == "even":
        values[has] = low[has] / 2 + high[has] / 2
    else:
        values[has] = (low if ends == "least" else high)[has]
    return values, has, bool((low[has] == high[has]).all())
