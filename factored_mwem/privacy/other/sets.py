"""Counts of rows in public sets that are all known beforehand, of cells of a domain or of keys. Private.

A row is in a set or not, and whether it is follows from that row alone. So one person's k rows move each
count by k at most, under either relation: of rows that are exchanged, it loses up to k or gains up to k. The
same holds for the number of all rows. A score is a count's distance to a public answer, and moves as far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy.answers import TrueAnswers
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.rows import Sealed, SealedQuery
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.profile import ColumnProfile


class SetCounts(TrueAnswers):
    """What PrivateSets reveals: a count of each set, and of every row."""

    __slots__ = ("every",)

    def __init__(self, counts: Sequence[int], every: int) -> None:
        super().__init__(np.array(counts, dtype=np.int64), np.arange(len(counts) + 1))
        self.every = every

    def exact(self, question: int | None) -> np.ndarray:
        """int64[1]: the count of a set, or (None) of every row."""
        return np.array([self.every]) if question is None else super().exact(question)


class PrivateSets(Sealed):
    """The counts: `Session.measure` takes the number of a set, or None for every row, and `Session.select`
    public answers to all sets.
    """

    __slots__ = ()

    @classmethod
    def of_cells(cls, rows: PrivateRows, sets: np.ndarray) -> PrivateSets:
        """Of `sets: bool[set, cell]`, row-major cells of all attributes. One pass, sealed at once."""
        table = rows._contents.marginal(range(len(rows._contents.levels.shape)))
        return cls(SetCounts([int(table[held].sum()) for held in sets], int(table.sum())), rows.names)

    @classmethod
    def of_keys(cls, table: Source, column: str, sets: Sequence[Sequence[str]]) -> PrivateSets:
        """Of sets of keys, as texts of a `column`. One pass, sealed at once."""
        return cls(_counted(table.profile([column])[column], sets), [column])

    def query(self, what: int | None, unit: Unit) -> SealedQuery:
        """A count moves by the rows of a person at most."""
        return SealedQuery.each(self.names, (), unit.of_counting_query)

    def score_sensitivity(self, unit: Unit) -> int:
        """As far as its count."""
        return unit.of_counting_query


def _counted(profile: ColumnProfile, sets: Sequence[Sequence[str]]) -> SetCounts:
    held = dict.fromkeys((key for keys in sets for key in keys), 0)
    texts, counts = profile.keys()
    for text, count in zip(texts, counts.tolist(), strict=True):  # two values may share a text
        if text in held:
            held[text] += count
    return SetCounts([sum(held[key] for key in keys) for keys in sets], int(profile.counts.sum()))
