"""Unit: which tables are neighbours, and how far one person moves counts of rows: the sensitivities that all
others follow from.

A person contributes at most k rows. Under add-remove a neighbour has one person more or less; under replace
one person's rows are exchanged for another's, which is one removal and one addition.

Where each person weighs one, a person is divided into G grains, and each of their n rows weighs floor(G / n):
n rows come to at most G. (Of many rows each weighs less: see `weighed_as`.) Counts are sums of grains. To
every sensitivity but `l0_of_marginal` such a person is one who has G rows that weigh one grain each.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum

from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import InputError


class Neighbours(StrEnum):
    """The relation that is protected.

    >>> from factored_mwem import Neighbours, Policy
    >>> Policy.of(neighbours="replace").neighbours is Neighbours.REPLACE
    True
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"


FINE, FINER = 840, 5040
"""Grains of a person where people have up to 8 rows (840 can be divided by 1 to 8), and up to MOST_ROWS.
Counts of up to 2^42 grains, or 870 million people, are scored exactly (`privacy/rows.py`).
"""
SINGLE_SIZES = 20
"""Up to this many rows each number has a code of its own; few people have any larger number."""
CLASSES = (25, 31, 39, 49, 64, 78, 98, 126, 157, 201, 252, 315, 420, 560, 720, 1008)
"""The largest numbers of rows in each class beyond."""
SIZES = (
    (600.0, (*range(1, SINGLE_SIZES + 1), *CLASSES)),
    (50.0, (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, *CLASSES)),
    (-math.inf, (1, 2, 3, 4, 6, 8, 12, 16, *CLASSES[::2], CLASSES[-1])),
)
"""The largest numbers of rows in each class, by how many times the noise on a class all people are, at least:
of fewer people coarser classes tell more, as noise on many small ones adds up. By simulation, for people who
have rows as web users do, geometric, Poisson, Zipf and uniform numbers of rows.
"""
EXACT_SIZES = 64
"""Up to this many rows n a row weighs floor(G / n), at most 1.3 % less than G / n. Beyond, it weighs as for
the largest number of its class, a fifth less on average: so there are few weights, and counts take few
passes.
"""
MOST_ROWS, USUAL_ROWS = CLASSES[-1], 64
"""Rows of a person, if each person weighs one: the most that can be used, and the default."""


def grains_of(contributions: int) -> int:
    """G, for people with at most `contributions` rows."""
    return FINE if contributions <= 8 else FINER


def weighed_as(rows: int) -> int:
    """The number m of rows for which a person's row weighs floor(G / m) grains, if the person has `rows`
    rows: `rows` itself, or the largest number of its class.

    >>> [weighed_as(n) for n in (1, 64, 65, 78, 79, 1008)]
    [1, 64, 78, 78, 98, 1008]
    """
    return rows if rows <= EXACT_SIZES else CLASSES[bisect_left(CLASSES, rows)]


def size_classes(most: int, clear: float = math.inf) -> tuple[int, ...]:
    """The largest numbers in each class of numbers of rows up to `most`, where all people are `clear` times
    the noise on a class.

    >>> size_classes(12, 1000.0)
    (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    >>> size_classes(12, 100.0)
    (1, 2, 3, 4, 5, 6, 8, 10, 12)
    """
    ends = next(ends for least, ends in SIZES if clear >= least)
    return (*(end for end in ends if end < most), most)


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of privacy: the relation, and the most rows (`contributions`) that one person has. `grains`: G
    where each person weighs one, 0 where each row does.
    """

    neighbours: Neighbours = Neighbours.ADD_REMOVE
    contributions: int = 1
    by_id: bool = False
    """Whether a privacy id bounded the rows: then their number is private under either relation."""
    grains: int = 0

    def __post_init__(self) -> None:
        if self.contributions < 1:
            raise InputError(f"contributions={self.contributions}: a person has at least one row")
        if self.grains and (self.grains < self.contributions or not self.by_id):
            raise AssertionError("grains of which not every row of a person that is known gets one")

    @property
    def weight(self) -> int:
        """k, or G: what the rows of one person add up to at most, in what is counted: rows, or grains."""
        return self.grains or self.contributions

    def row_weight(self, rows: int) -> int:
        """Grains of a row of a person with so many rows, at most `contributions`; 1 where each row weighs
        one.
        """
        return self.grains // min(weighed_as(rows), self.contributions) if self.grains else 1

    @property
    def _people(self) -> int:
        """Rows of how many people change: one leaves or comes, or one leaves and one comes."""
        return 2 if self.neighbours is Neighbours.REPLACE else 1

    @property
    def l1_of_marginal(self) -> int:
        """k or 2k: the k rows may all lie in one cell, so this is never sqrt(k)."""
        return self._people * self.weight

    @property
    def l2_squared_of_marginal(self) -> int:
        """k^2 or 2 k^2: k rows leave one cell (and k enter another)."""
        return self._people * self.weight**2

    def of_marginal(self, composition: Composition) -> int:
        """The sensitivity that prices noise on a marginal: the squared L2 norm under zCDP, else the L1
        norm.
        """
        return self.l2_squared_of_marginal if composition is Composition.ZCDP else self.l1_of_marginal

    @property
    def linf_of_marginal(self) -> int:
        """k: the most that a single cell moves: it loses k rows of one person, or gains k of another's."""
        return self.weight

    @property
    def l0_of_marginal(self) -> int:
        """k or 2k: how many cells can move: no more than there are rows."""
        return self._people * self.contributions

    @property
    def of_pairs(self) -> int:
        """k or 2k: a graph's pairs are there or not, so k records change at most k of them, each by 1: the
        squared L2 norm and the L1 norm of the change are the same.
        """
        return self._people * self.contributions

    @property
    def l1_of_score(self) -> int:
        """A score is a marginal's L1 distance to a fixed table: it moves no more than the marginal does."""
        return self.l1_of_marginal

    @property
    def of_counting_query(self) -> int:
        """Query weights in [0, 1], ranges and thresholds among them: k under either relation."""
        return self.weight

    @property
    def of_parity(self) -> int:
        """Query weights in [-1, 1]: k, or 2k where one row leaves at -1 and one enters at +1."""
        return self._people * self.weight

    @property
    def total_is_public(self) -> bool:
        """Whether all neighbours have the same number of rows."""
        return self.neighbours is Neighbours.REPLACE and self.contributions == 1 and not self.by_id
