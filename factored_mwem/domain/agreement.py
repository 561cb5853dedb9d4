"""Agreement: in which columns, and how finely, two rows of one person are looked at for whether they agree.
It follows from the domain, so nothing is learnt for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.domain import Domain

STEP = 4
"""Of a column whose codes are in order each level has groups this many times as wide as the one before.
Twice as wide would tell more of a person's rows, and make the noise of each number 1.4 times as large.
"""


class Agreement(NamedTuple):
    """How often two rows of a person with several agree, by column and grouping (`groupings_in`), and the
    standard deviation of its noise; nothing where people are too few to tell.
    """

    shares: Mapping[str, tuple[float, ...]] = {}
    stddev: float = 0.0


class Grouping(NamedTuple):
    """Codes below `begin` in groups of `width` that follow each other; each other code is a group of its own.

    >>> Grouping(begin=5, width=2).of_codes(np.arange(7)).tolist()
    [0, 0, 1, 1, 2, 10, 11]
    """

    begin: int
    width: int

    def of_codes(self, codes: np.ndarray) -> np.ndarray:
        """int64[like codes]: the group of each."""
        codes = codes.astype(np.int64)
        return np.where(codes < self.begin, codes // self.width, self.begin + codes)

    def in_sql(self, code: Any) -> Any:
        """The same of an expression of Ibis."""
        import ibis

        return ibis.ifelse(code < self.begin, code // self.width, code + self.begin)


def groupings_of(a: Attribute) -> tuple[Grouping, ...]:
    """The codes themselves; and where they are in order, coarser groups of those that stand for values."""
    begin, width = a.size - a.nullable - len(a.sentinels), STEP
    groupings = [Grouping(begin, 1)]
    while a.ordered and width < begin:
        groupings.append(Grouping(begin, width))
        width *= STEP
    return tuple(groupings)


def groupings_in(domain: Domain, constant: Collection[str]) -> dict[str, tuple[Grouping, ...]]:
    """Of each modelled column that is neither the same in all rows of a person nor of a single code."""
    return {
        a.name: groupings_of(a)
        for a in domain.modelled
        if a.name not in constant and a.name != ROWS_OF_PERSON and a.size > 1
    }
