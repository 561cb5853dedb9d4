"""Functions: how many rows break what one column is supposed to say of another, counted inside the budget.

What is asked is public: names and types of columns, and what noisy answers said before. Each number counts
rows, and one row more or less moves it by at most 1, whatever the row holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.rows import ExactNumbers, Rows, Sealed, SealedQuery
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.broken import Hypothesis
from factored_mwem.tables.codes.rest import Known

Pair = tuple[int, int]
"""Two attributes, by position: of the second the question is whether it follows from the first."""


class PrivateBroken(Sealed):
    """The rows that break each of some hypotheses, for `Session.measure`."""

    __slots__ = ()

    @classmethod
    def of(cls, table: Source, known: Mapping[str, Known], hypotheses: Sequence[Hypothesis]) -> PrivateBroken:
        """Reads the rows of the columns `known`."""
        names = [f"{each.target} as {each.function}" for each in hypotheses]
        return cls(ExactNumbers(table.broken_rows(known, hypotheses)), names)

    def query(self, what: Any, unit: Unit) -> SealedQuery:
        """All H numbers. Whether a row breaks a hypothesis is a function of that row, so a person's k rows
        are between 0 and k of each number. One who comes or goes moves each by at most k; where one goes
        and another comes, it moves by a number from -k to k, too: L1 norm H k, squared L2 norm H k^2.
        """
        return SealedQuery.each((*self.names, "functions"), (), unit.linf_of_marginal, len(self.names))


class PrivateUndetermined(Sealed):
    """For pairs (a, b) of attributes: the rows that do not have the most frequent code of b among the rows
    with their code of a, for `Session.measure`. 0 where b follows from a. Source: Kivinen and Mannila 1995,
    g3.
    """

    __slots__ = ()

    @classmethod
    def of(cls, rows: PrivateRows, pairs: Sequence[Pair]) -> PrivateUndetermined:
        """Reads the marginals of these pairs, in one pass."""
        names = [f"{rows.names[b]} by {rows.names[a]}" for a, b in pairs]
        return cls(ExactNumbers(undetermined(rows._contents, pairs)), names)

    def query(self, what: Any, unit: Unit) -> SealedQuery:
        """All H numbers; each is n less the sum over the codes of a of the largest count among those of b. A
        row more adds 1 to n, and 0 or 1 to one of these largest counts: the number rises by 0 or 1. So k rows
        more raise it by 0 to k; k rows fewer lower it by that; and where one person's rows go and another's
        come it moves by a number from -k to k: L1 norm H k, squared L2 norm H k^2.
        """
        return SealedQuery.each((*self.names, "determined"), (), unit.linf_of_marginal, len(self.names))


def undetermined(rows: Rows, pairs: Sequence[Pair]) -> np.ndarray:
    """int64[pair]: see `PrivateUndetermined`. One pass over the rows."""
    members = np.array(sorted({(min(pair), max(pair)) for pair in pairs}), dtype=np.int32)
    shapes = rows.levels.sizes[members]
    ends = np.cumsum(shapes.prod(axis=1))
    counts = np.split(rows.counts(members, np.concatenate([[0], ends]).astype(np.int64)), ends[:-1])
    tables = {
        (a, b): own.astype(np.int64).reshape(shape)
        for (a, b), own, shape in zip(members.tolist(), counts, shapes.tolist(), strict=True)
    }
    largest = [tables[a, b].max(axis=1) if a < b else tables[b, a].max(axis=0) for a, b in pairs]
    total = next(iter(tables.values())).sum()
    return np.array([total - each.sum() for each in largest], dtype=np.int64)
