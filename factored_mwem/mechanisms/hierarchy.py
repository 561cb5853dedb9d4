"""Hierarchy: nested groups of neighbouring codes, for ranges over an ordered attribute; public, by its size.

A range over single values adds up as many noises as it has values; over groups of groups it needs few of each
size. How many, on average over all ranges, is counted exactly; each of h levels has an h-th of the budget.
Source: Qardaji, Yang, Li (VLDB 2013), whose (b - 1) h - 2 (b + 1) / 3 for b branches is meant for many
values: it is 0 for 3 values and b = 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.attribute import Attribute


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """`groups: int64[code]` of each level above the single values, fine to coarse; the gain in variance."""

    groups: tuple[np.ndarray, ...]
    gain: float

    @property
    def depth(self) -> int:
        """How many marginals are measured: the single values and each level above."""
        return len(self.groups) + 1


def hierarchy(attribute: Attribute, composition: Composition) -> Hierarchy:
    """The best number of branches; no level above the single values where none is predicted to be better."""
    values = attribute.size - attribute.nullable
    alone = range_error(values, values, composition)
    best, least = values, alone
    for levels in range(2, values.bit_length() + 1):
        branches = next(
            (b for b in range(2, values) if b**levels >= values), values
        )  # more of them make no level less
        error = range_error(values, branches, composition)
        if error < least:
            best, least = branches, error
    groups, width = [], best
    while width < values:
        group = np.arange(values) // width
        if attribute.nullable:
            group = np.append(group, group[-1] + 1)  # missing values lie in no range
        groups.append(group.astype(np.int64))
        width *= best
    return Hierarchy(tuple(groups), alone / least)


def range_error(values: int, branches: int, composition: Composition) -> float:
    """Mean squared error of a range, over that of one measurement that takes the whole budget."""
    widths = [1]
    while widths[-1] * branches < values:
        widths.append(widths[-1] * branches)
    each = len(widths) if composition is Composition.ZCDP else len(widths) ** 2
    return each * parts_of_a_range(values, branches, widths)


def parts_of_a_range(values: int, branches: int, widths: Sequence[int]) -> float:
    """Groups a mean range is made of: those of these widths that fit inside where no next wider one does."""
    found, wider = 0.0, np.zeros(1)
    for width in reversed(widths):
        low = np.arange(0, values, width, dtype=np.float64)
        ranges = (low + 1) * (values - np.minimum(low + width, values) + 1)  # that hold the group
        found += float(
            (ranges - np.repeat(wider, branches if len(wider) > 1 else len(ranges))[: len(ranges)]).sum()
        )
        wider = ranges
    return found / (values * (values + 1) / 2)
