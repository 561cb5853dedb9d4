"""Functions: how many rows break what one column is supposed to say of another, counted inside the budget.

What is asked is public: names and types of columns, and what noisy answers said before. Each number counts
rows, and one row more or less moves it by at most 1, whatever the row holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.levels import padded
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.rows import ExactNumbers, Rows, Sealed, SealedQuery
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.broken import Hypothesis
from factored_mwem.tables.codes.rest import Known

Dependency = tuple[tuple[int, ...], int]
"""Attributes, by position: of the last the question is whether it follows from the others together."""


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
    """For attributes (a, b), where a may be several together: the rows that do not have the most frequent
    code of b among the rows with their code of a, or combination of codes, for `Session.measure`. 0 where b
    follows from a. Source: Kivinen and Mannila 1995, g3. Rows whose code of a stands for any of many values
    (`rest`: one or several, by attribute, public) are left out: nothing follows from such a code.
    """

    __slots__ = ()

    @classmethod
    def of(
        cls, rows: PrivateRows, asked: Sequence[Dependency], rest: Mapping[int, Any]
    ) -> PrivateUndetermined:
        """Reads the marginals of these attributes, in one pass."""
        names = [f"{rows.names[b]} by {', '.join(rows.names[a] for a in of)}" for of, b in asked]
        return cls(ExactNumbers(undetermined(rows._contents, asked, rest)), names)

    def query(self, what: Any, unit: Unit) -> SealedQuery:
        """All H numbers; each is the rows that are not left out, less the sum over the combinations of a of
        the largest count among the codes of b. A row lies in one combination, however many columns that is
        of, and whether it is left out follows from itself: so a row more adds 0 or 1 to the rows, and of what
        it adds 0 or 1 to one of the largest counts, and the number rises by 0 or 1. So k rows more raise it
        by 0 to k; k rows fewer lower it by that; and where one person's rows go and another's come it moves
        by a number from -k to k: L1 norm H k, squared L2 norm H k^2.
        """
        return SealedQuery.each((*self.names, "determined"), (), unit.linf_of_marginal, len(self.names))


def undetermined(rows: Rows, asked: Sequence[Dependency], rest: Mapping[int, Any]) -> np.ndarray:
    """int64[asked]: see `PrivateUndetermined`. One pass over the rows."""
    cliques = sorted({tuple(sorted((*of, b))) for of, b in asked})
    shapes = [tuple(int(rows.levels.sizes[a]) for a in clique) for clique in cliques]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    counts = np.split(rows.counts(padded(cliques), np.concatenate([[0], ends]).astype(np.int64)), ends[:-1])
    tables = dict(zip(cliques, counts, strict=True))
    found = []
    for of, b in asked:
        clique = tuple(sorted((*of, b)))
        shape = [int(rows.levels.sizes[a]) for a in clique]
        table = tables[clique].astype(np.int64).reshape(shape)
        for a in set(of) & rest.keys():
            table[(slice(None),) * clique.index(a) + (rest[a],)] = 0
        found.append(table.sum() - table.max(axis=clique.index(b)).sum())
    return np.array(found, dtype=np.int64)
