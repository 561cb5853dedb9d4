"""Settling: what the first noisy marginal of an attribute shows to be empty is taken out of it.

Public in, public out. Codes that are kept mean what they meant, so rows are recoded, not read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.mechanisms.first_domain import OTHER, written
from factored_mwem.privacy.discover import Found
from factored_mwem.tables.codec import encode
from factored_mwem.tables.decode import Grid, from_units

CLEAR = 4.0
"""Standard deviations of noise from which nulls, unlisted values and bins beyond the span are believed."""
CLEAR_CODE = 3.0
"""The same for a single value within the span."""
FEW = 32
"""A column of at most so many values is a set of categories, whatever its type."""


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """An attribute, where each code of the first one goes (`codes: int64[first code]`), the noisy counts of
    its codes, and of what became of the rest: `clipped` and `other` (records, noisy).
    """

    attribute: Attribute
    codes: np.ndarray
    noisy: np.ndarray
    clipped: float
    other: float


def settle(found: Found, first: Attribute, noisy: np.ndarray, stddev: float) -> Settled:
    """The attribute without what is not there; see `found` for the popular values' own counts.

    `noisy: int64[code]` of the first attribute, of standard deviation `stddev`.
    """
    facts = first.model_dump(by_alias=True, exclude_unset=True)
    nulls = bool(first.nullable and noisy[first.null_code] > CLEAR * stddev)
    facts["constraints"] = {"required": not nulls}
    if first.type == "string":
        facts |= _categories(first, noisy, stddev)
    elif first.type != "boolean":
        facts |= _numbers(found, first, noisy, stddev)
    if not nulls and first.type != "string":
        facts["other"] = _most_frequent(first, noisy, facts)
    attribute = Attribute.model_validate(facts)
    return _settled(first, attribute, noisy)


def _categories(first: Attribute, noisy: np.ndarray, stddev: float) -> dict[str, Any]:
    """Without `other` where hardly anything is left for it; then the most frequent value takes that."""
    listed = first.values[:-1]
    rest = noisy[len(listed)]
    if not listed or rest > CLEAR * stddev:
        return {}
    return {"categories": listed, "other": listed[int(np.argmax(noisy[: len(listed)]))]}


def _numbers(found: Found, first: Attribute, noisy: np.ndarray, stddev: float) -> dict[str, Any]:
    few = _few(first, noisy, stddev)
    if few is not None:
        return {"edges": None, "specialValues": None, "decimals": None, "resolution": None,
                "categories": few, "categoriesOrdered": True}  # fmt: skip
    counts = noisy[first.bin_codes]
    clear = np.flatnonzero(counts > CLEAR * stddev)
    if found.edges is not None:  # what lies in the span was seen there
        inside = (first.cuts[1:] > found.edges[0]) & (first.cuts[:-1] < found.edges[-1])
        clear = np.union1d(clear, np.flatnonzero(inside))
    if not len(clear):
        clear = np.array([int(np.argmax(counts))])
    return {"edges": written(first.type, first.cuts[clear[0] : clear[-1] + 2], end=True)}


def _few(first: Attribute, noisy: np.ndarray, stddev: float) -> list[Any] | None:
    """The values of a column that has few and nothing else; None of one that has more, or texts."""
    single = np.diff(first.cuts) == 1 if first.type != "number" else np.zeros(len(first.cuts) - 1, bool)
    clear = noisy > CLEAR_CODE * stddev
    bins = first.bin_codes
    values = [*first.specials.tolist(), *first.cuts[:-1][single & clear[bins]].tolist()]
    rest = noisy[bins[~(single & clear[bins])]]
    if first.sentinels or not 0 < len(values) <= FEW:
        return None
    if (rest > CLEAR * stddev).any() or rest.sum() > CLEAR * stddev * math.sqrt(max(len(rest), 1)):
        return None
    return written(first.type, np.sort(np.array(values, dtype=first.cuts.dtype)))


def _most_frequent(first: Attribute, noisy: np.ndarray, facts: dict[str, Any]) -> Any:
    """The value that what is missing or unreadable counts as where nothing has a code for it: the most
    frequent special or listed value, or the begin of the fullest bin.
    """
    if first.type == "boolean":
        return bool(noisy[1] > noisy[0])
    units = np.concatenate([first.specials, first.cuts[:-1]])
    codes = np.concatenate([first.special_codes, first.bin_codes])
    best = units[np.argsort(-noisy[codes], kind="stable")]
    if facts.get("categories"):
        best = best[np.isin(best, first.specials) | np.isin(best, first.cuts)]
        listed = Attribute.model_validate({**facts, "other": None}).units
        best = best[np.isin(best, listed)]
    return written(first.type, best[:1])[0]


def _settled(first: Attribute, attribute: Attribute, noisy: np.ndarray) -> Settled:
    codes, same = _recoded(first, attribute)
    kept = np.zeros(attribute.size, dtype=np.int64)
    kept[codes[same]] = noisy[same]
    lost = float(noisy[~same].sum())
    if first.type == "string":
        other = float(noisy[first.fallback_code]) if attribute.other == OTHER else 0.0
        return Settled(attribute, codes, kept, clipped=0.0, other=lost + other)
    listed = attribute.categorical
    return Settled(attribute, codes, kept, clipped=0.0 if listed else lost, other=lost if listed else 0.0)


def _recoded(first: Attribute, attribute: Attribute) -> tuple[np.ndarray, np.ndarray]:
    """(the code that each code's values have now: int64[first code], whether it stands for nothing else)."""
    codes, same = np.empty(first.size, dtype=np.int64), np.zeros(first.size, dtype=bool)
    if first.null_code is not None:
        same[first.null_code] = attribute.nullable
        codes[first.null_code] = (
            attribute.fallback_code if attribute.null_code is None else attribute.null_code
        )
    if first.categorical:
        at = {value: i for i, value in enumerate(attribute.values)}
        codes[: len(first.values)] = [at.get(value, attribute.fallback_code) for value in first.values]
        same[: len(first.values)] = [value in at for value in first.values]
        return codes, same
    if first.type == "number":
        inside = (first.cuts[:-1] + first.cuts[1:]) / 2
    else:  # a value that is not special
        inside = Grid.of(first.cuts, first.specials, 1).value(np.arange(len(first.bin_codes)), 0)
    places = np.concatenate([first.bin_codes, first.special_codes])
    codes[places] = encode(attribute, from_units(first, np.concatenate([inside, first.specials])))
    same[first.special_codes] = True
    if attribute.categorical:
        whole = np.diff(first.cuts) == 1 if first.type != "number" else False
        same[first.bin_codes] = whole & np.isin(first.cuts[:-1], attribute.units)
    else:
        same[first.bin_codes] = (first.cuts[:-1] >= attribute.cuts[0]) & (
            first.cuts[1:] <= attribute.cuts[-1]
        )
    texts = len(first.sentinels)
    if texts:
        old = len(first.bin_codes) + len(first.specials) + np.arange(texts)
        codes[old] = len(attribute.bin_codes) + len(attribute.specials) + np.arange(texts)
        same[old] = True
    return codes, same
