"""The median mechanism's construction: all small tables that are still possible (Roth, Roughgarden 2010;
Gupta, Roth, Ullman 2011, A.1). For toys: it keeps every one of them.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from factored_mwem.errors import InputError

MAX_NUMBERS = 2**22
"""Of all tables together."""


class Median:
    """All multisets of `size` elements, each scaled to n records; the answer is the median of theirs.

    An update takes away half of them or more, and none that answers like the table; so a sequence at level
    alpha is no longer than log2 of their number, where one of them answers every query of the sequence as the
    table does up to less than alpha. A table of n^2 log k / alpha^2 elements does so for k queries (Blum,
    Ligett, Roth 2008).
    """

    def __init__(self, elements: int, total: float, size: int) -> None:
        """`elements`: |X|; `total`: n, a public number of records; `size`: elements of each table."""
        if elements < 1 or size < 1:
            raise InputError("the median construction needs elements, and tables of one or more")
        count = math.comb(elements + size - 1, size)
        if count * elements > MAX_NUMBERS:
            raise InputError(
                f"the median construction would keep {count:,} tables of {elements} elements: it is for "
                "toys; use multiplicative weights"
            )
        self.total, self.size = float(total), size
        bars = np.array(
            list(itertools.combinations(range(elements + size - 1), elements - 1)), dtype=np.int64
        )
        ends = np.full((count, 1), elements + size - 1)
        begins = np.full((count, 1), -1)
        gaps = np.diff(np.concatenate([begins, bars, ends], axis=1), axis=1) - 1
        self.tables = gaps * (self.total / size)
        """float64[table, element]: those that are left, in records."""
        self._begun_with = count

    def answer(self, query: np.ndarray) -> float:
        """The median of all tables' answers, in records, to `query: float64[element]` in [0, 1]."""
        return float(np.median(self.tables @ query))

    def update(self, query: np.ndarray, value: float) -> None:
        """Without the tables on the wrong side of the median, and those at it. Where none would be left, the
        value was no answer that the sequence allows, and nothing changes.
        """
        answers = self.tables @ query
        middle = float(np.median(answers))
        kept = answers < middle if value < middle else answers > middle
        if kept.any():
            self.tables = self.tables[kept]

    def bound(self, alpha: float) -> float:
        """B(alpha): log2 of the number of tables, whatever alpha their size was made for."""
        return math.log2(self._begun_with)

    def potential(self, table: np.ndarray) -> float:
        """log2 of the number of tables that are left."""
        return math.log2(len(self.tables))


def size_for(total: float, queries: int, alpha: float) -> int:
    """Elements of a table that answers `queries` counting queries like any of `total` records, to `alpha`
    records: n^2 log k / alpha^2 (constants as in Gupta, Roth, Ullman 2011, claim A.3).
    """
    return max(1, math.ceil(total**2 * math.log(max(queries, 2)) / alpha**2))
