"""Hierarchy: nested groups of neighbouring codes, for ranges over an ordered attribute. Public: it looks at sizes alone.

A range over single values adds up as many noises as it has values; over groups of groups it needs few of each size. Source: Qardaji, Yang, Li
(VLDB 2013), whose mean over all ranges of N values is used for both: N / 3 values, or (b - 1) h - 2 (b + 1) / 3 groups of h levels that branch b
ways, each level with an h-th of the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from factored_mwem.attribute import Attribute
from factored_mwem.privacy.noise import Composition


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """`groups: int64[code]` of each level above the single values, from fine to coarse, and how many times less a range's squared error is."""

    groups: tuple[np.ndarray, ...]
    gain: float

    @property
    def levels(self) -> int:
        """How many marginals are measured: the single values and each level above."""
        return len(self.groups) + 1


def hierarchy(attribute: Attribute, composition: Composition) -> Hierarchy:
    """The best number of branches; no level above the single values where none is predicted to be better."""
    values = attribute.size - attribute.nullable
    alone = values / 3
    best, least = values, alone
    for branches in range(2, values):
        error = predicted(values, branches, composition)
        if error < least:
            best, least = branches, error
    groups, width = [], best
    while width < values:
        group = np.arange(values) // width
        if attribute.nullable:
            group = np.append(group, group[-1] + 1)  # missing values lie in no range
        groups.append(group.astype(np.int64))
        width *= best
    return Hierarchy(tuple(groups), alone / least if groups else 1.0)


def predicted(values: int, branches: int, composition: Composition) -> float:
    """Mean squared error of a range, over that of one measurement that takes the whole budget."""
    levels = max(1, math.ceil(math.log(values) / math.log(branches) - 1e-12))
    each = levels if composition is Composition.ZCDP else levels**2
    return each * ((branches - 1) * levels - 2 * (branches + 1) / 3)
