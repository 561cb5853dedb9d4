"""Derived columns: what follows from other columns by a map, as their sum or as a copy, and is not
modelled; and tied ones, which are functions of finer columns: both are modelled, and made to agree when
rows are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from factored_mwem.domain.attribute import Attribute, Scalar
from factored_mwem.domain.conditions import code_of, holds, intervals, placed, spelt
from factored_mwem.domain.functions import EQUAL, FUNCTIONS, applied, has_values, points_of
from factored_mwem.domain.rules import (
    Arithmetic,
    Computed,
    Derivation,
    Deriving,
    Exclusion,
    Implication,
    Lookup,
    Order,
    Rule,
    Sum,
)
from factored_mwem.errors import InputError

MAX_COMBINATIONS = 2**20
"""Of the codes of several columns from which another follows."""
Derived = dict[str, Deriving]
"""By column, sources before what is derived from them."""
Ties = dict[str, list[Computed]]
"""By column its functions, of which none is a column of another tie."""


def derived_of(rules: Sequence[Rule]) -> Derived:
    """What the rules derive, in an order in which it can be computed. Raises InputError if there is none."""
    pending: Derived = {}
    for i, rule in enumerate(rules):
        if not isinstance(rule, Deriving) or is_tie(rule):
            continue
        name = rule.columns[0]
        if name in pending:
            raise InputError(f"rule {i + 1} derives {name!r}, which another rule derives")
        if len(set(rule.columns)) < len(rule.columns):
            raise InputError(f"rule {i + 1} names a column twice")
        pending[name] = rule
    ordered: Derived = {}
    while pending:
        ready = [name for name, rule in pending.items() if not set(rule.sources) & set(pending)]
        if not ready:
            raise InputError(
                f"the rules derive {next(iter(pending))!r} from itself, directly or through other columns"
            )
        ordered |= {name: pending.pop(name) for name in ready}
    return ordered


def is_tie(rule: Rule) -> bool:
    """Whether it is a function of a column that has more values: of a copy alone, codes say all."""
    return isinstance(rule, Computed) and rule.as_ != EQUAL


def ties_of(rules: Sequence[Rule], derived: Derived) -> Ties:
    """The ties of all rules. Raises InputError where two would pull at one column, or another rule would, and
    where one would pull at values that rows exchange.
    """
    ties: Ties = {}
    for rule in rules:
        if isinstance(rule, Computed) and is_tie(rule):
            ties.setdefault(rule.of, []).append(rule)
    targets = [rule.compute for of in ties.values() for rule in of]
    for name in targets:
        if name in ties or name in derived or targets.count(name) > 1:
            raise InputError(
                f"{name!r} is computed twice, or another column is computed from it: keep one of these rules"
            )
    for name in ties:
        if name in derived:
            raise InputError(f"{name!r} follows from another column: compute from that one instead")
    for i, rule in enumerate(rules):
        held = {*targets, *ties} if isinstance(rule, Order) else {*targets}
        both = held & set(rule.columns) if isinstance(rule, Order | Implication | Exclusion) else set[str]()
        if both:
            name = min(both)
            raise InputError(f"rule {i + 1} names {name!r}, which another rule computes or computes from")
    exchanged = {name for rule in rules if isinstance(rule, Order) and rule.exchange for name in rule.order}
    for i, rule in enumerate(rules):
        held_still = isinstance(rule, Implication | Exclusion) or (
            isinstance(rule, Order) and not rule.exchange
        )
        if held_still and exchanged & set(rule.columns):
            name = min(exchanged & set(rule.columns))
            raise InputError(f"rule {i + 1} names {name!r}, whose values rows exchange to be in order")
    return ties


def check_computed(rule: Computed, attribute: Attribute, source: Attribute) -> None:
    """Raises ValueError if a column cannot hold the function of another."""
    if rule.as_ == EQUAL:
        own, other = (
            a.model_dump(exclude={"name", "title", "description", "learnt"}) for a in (attribute, source)
        )
        if own != other:
            raise ValueError(f"{attribute.name!r} is a copy of {source.name!r}: give both the same values")
        return
    function = FUNCTIONS[rule.as_]
    if source.type not in function.of or source.sentinels:
        raise ValueError(f"{source.name!r} must hold {' or '.join(function.of)} values alone")
    if attribute.type != "integer" or attribute.sentinels:
        what = f"{rule.as_} of {source.name!r}"
        raise ValueError(f"{attribute.name!r} must hold whole numbers alone to be {what}")
    if attribute.nullable != source.nullable:
        raise ValueError(
            f"{attribute.name!r} and {source.name!r} are null together: let both have nulls, or neither"
        )
    values = np.concatenate([applied(rule.as_, source.type, points) for points in points_of(source)])
    if not has_values(attribute, values).any():
        raise ValueError(f"{attribute.name!r} has no value that is {rule.as_} of {source.name!r}")


def check_total(rule: Arithmetic, attribute: Attribute, parts: Sequence[Attribute]) -> None:
    """Raises ValueError if a column cannot hold the sum or product of others."""
    for a in (attribute, *parts):
        if a.type not in ("integer", "number") or a.sentinels:
            raise ValueError(f"{a.name!r} must hold numbers alone to be in a sum or product")
    decimals = [math.inf if p.decimals is None else p.decimals for p in parts if p.type == "number"]
    if rule.plain and attribute.decimals is not None and max(decimals, default=0) > attribute.decimals:
        raise ValueError(f"{attribute.name!r} has fewer decimals than a column in its sum")
    if rule.plain and attribute.type == "integer" and any(part.type != "integer" for part in parts):
        raise ValueError(f"{attribute.name!r} is an integer, but a column in its sum is not")
    least, most = ends_of(rule, parts)
    low, high = (bound[placed(attribute)] for bound in intervals(attribute))
    slack = 1e-9 * max(abs(least), abs(most), 1.0)
    if not rule.plain:  # rounded to what the column holds
        slack += 1.0 if attribute.type == "integer" else 10.0 ** -(attribute.decimals or 0)
    if attribute.categorical or least < float(low.min()) - slack or most > float(high.max()) + slack:
        what = "sum" if isinstance(rule, Sum) else "product"
        raise ValueError(
            f"the {what} lies between {least:g} and {most:g}, beyond the values of {attribute.name!r}: "
            "widen it, which costs nothing"
        )


def ends_of(rule: Arithmetic, parts: Sequence[Attribute]) -> tuple[float, float]:
    """The least and greatest value that a sum or product of columns can have: of a corner of their values."""
    corners: list[np.ndarray] = []
    for a in parts:
        bounds = [f(bound[placed(a)]) for f, bound in zip((min, max), intervals(a), strict=True)]
        corners.append(np.array(bounds, dtype=np.float64))
    if isinstance(rule, Sum):
        times = rule.times or (1.0,) * len(parts)
        both = np.array([np.sort(each * own) for each, own in zip(times, corners, strict=True)])
        least, most = both.sum(axis=0) + rule.plus
    else:
        grid = rule.total(np.meshgrid(*corners))
        least, most = grid.min(), grid.max()
    return float(least), float(most)


def values_of(rule: Derivation, source: Attribute, target: Attribute) -> list[Scalar | None]:
    """The derived column's value for each code of its source; raises ValueError if the map has none."""
    values: list[Scalar | None] = [None] * source.size
    covered = np.zeros(source.size, dtype=bool)
    for condition, value in rule.entries(source):
        mask = holds(source, condition)
        for code in np.flatnonzero(mask & ~covered).tolist():
            values[code] = value
        covered |= mask
    if source.null_code is not None and target.nullable:
        covered[source.null_code] = True
    if not covered.all():
        code = int(np.flatnonzero(~covered)[0])
        missing = None if code == source.null_code else _least(source, code)
        raise ValueError(f"the map of {rule.derive!r} has no entry for {missing!r} of {source.name!r}")
    return values


class Combinations(NamedTuple):
    """Of a column that follows from several: int64[cells of their codes], its place among `values`."""

    places: np.ndarray
    values: list[Scalar | None]


def single_valued(attribute: Attribute) -> bool:
    """Whether each code is one value."""
    if attribute.categorical or not len(attribute.bin_codes):
        return True
    return attribute.type == "integer" and bool((np.diff(attribute.cuts) == 1).all())


def combinations_of(rule: Lookup, target: Attribute, sources: Sequence[Attribute]) -> Combinations:
    """What each combination of codes gives. Raises ValueError if a source has bins, if the columns do not
    have the values that are listed, or if the table is too large.
    """
    for source in sources:
        if not single_valued(source):
            raise ValueError(f"{source.name!r} has bins, and {rule.derive!r} must follow from single values")
    shape = tuple(source.size for source in sources)
    if math.prod(shape) > MAX_COMBINATIONS:
        raise ValueError(f"{rule.derive!r} follows from more than {MAX_COMBINATIONS:,} combinations")
    values: dict[tuple[type, Scalar | None], int] = {}
    places = np.full(shape, -1, dtype=np.int64)
    codes_of: list[dict[tuple[type, Scalar | None], int]] = [{} for _ in sources]
    for given, value in rule.map:
        if len(given) != len(sources):
            raise ValueError(f"the map of {rule.derive!r} has an entry for {len(given)} columns")
        for own, source, each in zip(codes_of, sources, given, strict=True):
            if (type(each), each) not in own:
                own[type(each), each] = code_of(source, each)
        at = tuple(own[type(each), each] for own, each in zip(codes_of, given, strict=True))
        places[at] = values.setdefault((type(value), value), len(values))
    if (places < 0).any():
        rest = (type(rule.otherwise), rule.otherwise)
        places[places < 0] = values.setdefault(rest, len(values))
    listed = [value for _, value in values]
    for value in listed:
        code_of(target, value)
    return Combinations(places.ravel(), listed)


def _least(attribute: Attribute, code: int) -> Any:
    """A value of a code, for people."""
    if attribute.categorical:
        return attribute.values[code]
    text = code - (attribute.size - attribute.nullable - len(attribute.sentinels))
    if text >= 0:
        return attribute.sentinels[text]
    return spelt(attribute, intervals(attribute)[0][code].item())


def value_codes(rule: Derivation, attribute: Attribute) -> None:
    """Raises ValueError if the map gives a value that the column does not have."""
    for value in rule.map.values() if isinstance(rule.map, Mapping) else [value for _, value in rule.map]:
        code_of(attribute, value)
