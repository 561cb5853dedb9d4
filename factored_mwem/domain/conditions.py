"""Conditions: what a rule says of one column, as codes; all that rules need of an attribute's values.

A condition is a value, a list of values, null, {"min": ..., "max": ...} (both ends belong to it) or {"not":
condition}, which is everything else, null included.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, WithJsonSchema

from factored_mwem.domain.attribute import Attribute, Scalar

STEPS = {"second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6, "day": 86_400 * 10**6}
"""Microseconds between timestamps of a resolution."""
_SCALARS = (bool, int, float, str)
_FORMS = 'is none of: a value, a list of values, null, {"min": ..., "max": ...}, {"not": ...}'


def _checked(condition: Any, depth: int = 0) -> Any:
    """The condition; raises ValueError if it has none of the forms."""
    if condition is None or isinstance(condition, _SCALARS):
        return condition
    if isinstance(condition, list | tuple):
        if condition and all(value is None or isinstance(value, _SCALARS) for value in condition):
            return list(condition)
    elif isinstance(condition, dict) and condition:
        if condition.keys() <= {"min", "max"}:
            if all(isinstance(end, int | float | str) for end in condition.values()):
                return dict(condition)
        elif condition.keys() == {"not"} and depth < 4:
            return {"not": _checked(condition["not"], depth + 1)}
    raise ValueError(_FORMS)


_VALUE: dict[str, Any] = {"type": ["boolean", "number", "string", "null"]}
_END: dict[str, Any] = {"type": ["number", "string"]}
_BOUNDS: dict[str, Any] = {"properties": {"min": _END, "max": _END}, "minProperties": 1}
_CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}
SCHEMA: dict[str, Any] = {
    "anyOf": [
        _VALUE,
        {"type": "array", "items": _VALUE, "minItems": 1},
        _CLOSED | _BOUNDS,
        _CLOSED | {"properties": {"not": {}}, "required": ["not"]},
    ]
}
Condition = Annotated[Any, AfterValidator(_checked), WithJsonSchema(SCHEMA)]


def holds(attribute: Attribute, condition: Any) -> np.ndarray:
    """bool[code]: where the condition holds; raises ValueError if it makes no sense of this attribute, or
    bins are not cut at its bounds (see `cuts_of`).
    """
    if isinstance(condition, dict) and "not" in condition:
        return ~holds(attribute, condition["not"])
    held = np.zeros(attribute.size, dtype=bool)
    if isinstance(condition, dict):
        lower, upper = (_end(attribute, condition.get(end)) for end in ("min", "max"))
        low, high = intervals(attribute)
        held = placed(attribute)
        held &= True if lower is None else low >= lower
        held &= True if upper is None else high <= upper
    else:
        for value in condition if isinstance(condition, list | tuple) else [condition]:
            held[code_of(attribute, value)] = True
    if not held.any():
        raise ValueError(f"no value of {attribute.name!r} is {_shown(condition)}")
    return held


def code_of(attribute: Attribute, value: Scalar | None) -> int:
    """The code of a value that is listed or has a bin of its own; raises ValueError if it is not."""
    if value is None:
        if attribute.null_code is None:
            raise ValueError(f"{attribute.name!r} is never null")
        return attribute.null_code
    if attribute.categorical:
        for code, listed in enumerate(attribute.values):
            if isinstance(listed, bool) == isinstance(value, bool) and listed == value:
                return code
        raise ValueError(f"{attribute.name!r} has no value {_shown(value)}")
    if value in attribute.sentinels:
        return attribute._code_of(value)
    unit = _unit(attribute, value)
    if not (attribute.cuts[0] <= unit < attribute.cuts[-1] or unit in attribute.specials):
        raise ValueError(f"{_shown(value)} is beyond the values of {attribute.name!r}")
    return attribute._code_of(value)


def intervals(attribute: Attribute) -> tuple[np.ndarray, np.ndarray]:
    """(least, greatest) value that rows of each code come out with, both int64 or float64[code], in the unit
    of `cuts`: multiples of a decimal or a resolution.

    Ordered texts count from 0; of codes that are not `placed` it says nothing.
    """
    if attribute.categorical:
        points = np.arange(attribute.size)
        if _measured(attribute):
            points = np.append(attribute.units, attribute.units[:1])[: attribute.size]
        return points, points
    both = np.zeros((2, attribute.size), dtype=attribute.cuts.dtype)
    both[:, attribute.bin_codes] = _bins(attribute)
    both[:, attribute.special_codes] = attribute.specials
    return both[0], both[1]


def _bins(attribute: Attribute) -> tuple[np.ndarray, np.ndarray]:
    """(least, greatest) value of each bin that is no special value; twice its begin if there is none."""
    cuts, specials = attribute.cuts, attribute.specials
    steps, step = 10.0 ** (attribute.decimals or 0), STEPS.get(attribute.resolution or "", 1)
    if attribute.type != "number":
        ends = -(-cuts // step)
    elif attribute.decimals is not None and np.abs(cuts).max() * steps < 2.0**52:
        ends = np.ceil(np.round(cuts * steps, 3))
        ends[-1] = np.floor(np.round(cuts[-1] * steps, 3)) + 1
    else:
        least, most = cuts[:-1], np.nextafter(cuts[1:], -math.inf)
        least = np.where(np.isin(least, specials), np.nextafter(least, math.inf), least)
        return least, np.where(np.isin(most, specials), np.nextafter(most, -math.inf), most)

    def value(count: np.ndarray) -> np.ndarray:
        return np.asarray(count / steps if attribute.type == "number" else count * step)

    low, high = ends[:-1].copy(), ends[1:] - 1
    for bound, way in ((low, 1), (high, -1)):  # special values have codes of their own
        while (taken := np.isin(value(bound), specials) & (low <= high)).any():
            bound[taken] += way
    begin = value(ends[:-1]) if attribute.type == "number" else cuts[:-1]
    return np.where(low > high, begin, value(low)), np.where(low > high, begin, value(high))


def _measured(attribute: Attribute) -> bool:
    """Whether its values are numbers or moments, which have an order by themselves."""
    return attribute.type not in ("string", "boolean")


def placed(attribute: Attribute) -> np.ndarray:
    """bool[code]: which codes stand for values that have an order."""
    if attribute.categorical and not _measured(attribute) and not attribute.categories_ordered:
        return np.zeros(attribute.size, dtype=bool)
    return np.arange(attribute.size) < attribute.size - attribute.nullable - len(attribute.sentinels)


def cuts_of(attribute: Attribute, condition: Any) -> Iterator[int | float]:
    """Where the bins of an attribute must be cut for a condition to hold for all of a bin, or none."""
    if attribute.categorical or condition is None:
        return
    if isinstance(condition, dict) and "not" in condition:
        yield from cuts_of(attribute, condition["not"])
    elif isinstance(condition, dict):
        if "min" in condition:
            yield _unit(attribute, condition["min"])
        if "max" in condition:
            yield _after(attribute, condition["max"])
    else:
        for value in condition if isinstance(condition, list | tuple) else [condition]:
            if value is not None and value not in attribute.sentinels:
                yield _unit(attribute, value)
                yield _after(attribute, value)


def with_cuts(attribute: Attribute, cuts: list[int | float]) -> Attribute:
    """The attribute with its bins cut at these places, too; itself if they are."""
    old = attribute.cuts
    inside = [cut for cut in cuts if old[0] < cut < old[-1]]
    new = _without_full(attribute, np.unique(np.concatenate([old, np.array(inside, dtype=old.dtype)])))
    if len(new) == len(old):
        return attribute
    ends = new.tolist()
    ends[-1] = ends[-1] - 1 if attribute.type != "number" else math.nextafter(ends[-1], -math.inf)
    fields = attribute.model_dump(by_alias=True, exclude_unset=True) | {"type": attribute.type}
    edges = [spelt(attribute, end) for end in ends]
    return Attribute.model_validate(fields | {"bins": None, "edges": edges})


def _without_full(attribute: Attribute, cuts: np.ndarray) -> np.ndarray:
    """The cuts but for those that would leave a bin nothing but special values."""
    if attribute.type == "number":
        return cuts
    for cut in np.setdiff1d(cuts, attribute.cuts):
        fewer = cuts[cuts != cut]
        inside = np.diff(np.searchsorted(attribute.specials, cuts))
        full = np.flatnonzero(np.diff(cuts) <= inside)
        cuts = fewer if np.isin(cut, cuts[[*full, *(full + 1)]]) else cuts
    return cuts


def spelt(attribute: Attribute, unit: int | float) -> int | float | str:
    """A place among the values as an edge is written."""
    if attribute.type == "date":
        return str(np.datetime64(int(unit), "D"))
    if attribute.type == "datetime":
        return (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=int(unit))).isoformat()
    return unit


def _unit(attribute: Attribute, value: Any) -> int | float:
    """A value's place; raises ValueError if it is none of the attribute's type."""
    if isinstance(value, bool) or isinstance(value, str) != (attribute.type in ("date", "datetime")):
        raise ValueError(f"{attribute.name!r} is of type {attribute.type}, which {_shown(value)} is not")
    try:
        return attribute._scalar(value)
    except ValueError:
        raise ValueError(f"{_shown(value)} is no {attribute.type} for {attribute.name!r}") from None


def _after(attribute: Attribute, value: Any) -> int | float:
    """The place of the next value that the column can hold beside this one."""
    unit = _unit(attribute, value)
    if unit in attribute.specials:  # it is in no bin
        return unit
    if attribute.type == "number":
        steps = 10.0 ** (attribute.decimals or 0)
        fine = attribute.decimals is None or abs(unit) * steps > 2**52
        return math.nextafter(unit, math.inf) if fine else (math.floor(unit * steps + 1e-6) + 1) / steps
    step = STEPS.get(attribute.resolution or "", 1)
    return (unit // step + 1) * step


def _end(attribute: Attribute, value: Any) -> int | float | None:
    """A bound's place among the attribute's values; None if there is none."""
    if value is None:
        return None
    if not placed(attribute).any():
        how = "list them, or say categoriesOrdered"
        raise ValueError(f"the values of {attribute.name!r} have no order: {how}")
    if attribute.categorical and not _measured(attribute):
        return code_of(attribute, value)
    return _unit(attribute, value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
