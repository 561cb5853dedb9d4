"""Derived columns: what follows from other columns by a map or as their sum, and is not modelled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from factored_mwem.domain.attribute import Attribute, Scalar
from factored_mwem.domain.conditions import code_of, holds, intervals, placed, spelt
from factored_mwem.domain.rules import Derivation, Rule, Sum
from factored_mwem.errors import InputError

Derived = dict[str, Derivation | Sum]
"""By column, sources before what is derived from them."""


def derived_of(rules: Sequence[Rule]) -> Derived:
    """What the rules derive, in an order in which it can be computed. Raises InputError if there is none."""
    pending: Derived = {}
    for i, rule in enumerate(rules):
        if not isinstance(rule, Derivation | Sum):
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
            raise InputError(f"the rules derive {next(iter(pending))!r} from itself, by way of others or not")
        ordered |= {name: pending.pop(name) for name in ready}
    return ordered


def check_sum(rule: Sum, attribute: Attribute, parts: Sequence[Attribute]) -> None:
    """Raises ValueError if a column cannot hold the sum of others."""
    for a in (attribute, *parts):
        if a.type not in ("integer", "number") or a.sentinels:
            raise ValueError(f"{a.name!r} is not a column of numbers alone, as sums are made of")
    decimals = [math.inf if p.decimals is None else p.decimals for p in parts if p.type == "number"]
    if attribute.decimals is not None and max(decimals, default=0) > attribute.decimals:
        raise ValueError(f"{attribute.name!r} has fewer decimals than what it sums up")
    if attribute.type == "integer" and any(part.type != "integer" for part in parts):
        raise ValueError(f"{attribute.name!r} is an integer, but not all that it sums up are")
    ends = [[f(bound[placed(a)]) for f, bound in zip((min, max), intervals(a), strict=True)] for a in parts]
    least, most = (float(sum(float(end[i]) for end in ends)) for i in (0, 1))
    low, high = (bound[placed(attribute)] for bound in intervals(attribute))
    slack = 1e-9 * max(abs(least), abs(most), 1.0)
    if attribute.categorical or least < float(low.min()) - slack or most > float(high.max()) + slack:
        raise ValueError(
            f"the sum lies between {least:g} and {most:g}, beyond the values of {attribute.name!r}: "
            "widen it, which costs nothing"
        )


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
