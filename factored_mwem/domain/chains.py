"""Chains: columns that rules put in order, those together that hang together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.rules import Order, Rule


class Chain(NamedTuple):
    """`names` from the least to the greatest; `pairs` of them are in order."""

    names: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]


def chains_of(rules: Sequence[Rule], attributes: Mapping[str, Attribute]) -> list[Chain]:
    """The chains of all rules. ValueError for columns in a circle, and for three or more whose bins differ:
    pairs alone would not tell whether a value between two others is left.
    """
    pending = list(dict.fromkeys(rule.order for rule in rules if isinstance(rule, Order)))
    found = []
    while pending:
        names, pairs = set(pending[0]), list[tuple[str, str]]()
        while near := [pair for pair in pending if names & set(pair)]:
            names |= {name for pair in near for name in pair}
            pairs += near
            pending = [pair for pair in pending if pair not in near]
        chain = Chain(_sorted(names, pairs), tuple(pairs))
        for name in chain.names[1:] if len(names) > 2 else ():
            if not _same_bins(attributes[chain.names[0]], attributes[name]):
                what = f"{chain.names[0]!r} and {name!r} are in order with a third column"
                raise ValueError(f"{what}, so they need the same edges and special values")
        found.append(chain)
    return found


def _sorted(names: set[str], pairs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """All names, each after those below it; ValueError where there is no such order."""
    ordered: list[str] = []
    while left := sorted(names - set(ordered)):
        least = [name for name in left if not any(b == name and a in left for a, b in pairs)]
        if not least:
            raise ValueError(f"{left[0]!r} is in order with itself, by way of others")
        ordered += least
    return tuple(ordered)


def _same_bins(one: Attribute, other: Attribute) -> bool:
    if one.categorical or other.categorical:
        return one.categorical == other.categorical and np.array_equal(one.units, other.units)
    return np.array_equal(one.cuts, other.cuts) and np.array_equal(one.specials, other.specials)
