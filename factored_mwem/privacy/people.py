"""People: how many rows they have, and which columns are the same in all rows of a person.

Counted are people, not rows. A person adds at most 1 to each number here, whatever their rows hold and
however many they are, and nobody else's rows enter into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from factored_mwem.accounting.unit import CLASSES, Neighbours, Unit
from factored_mwem.privacy.rows import ExactNumbers, Sealed, SealedQuery
from factored_mwem.privacy.session import Session
from factored_mwem.tables.backends.source import PeopleSource

SIZES_SHARE, CONSTANCY_SHARE = Fraction(1, 100), Fraction(1, 50)
"""Of what is left to spend."""
CAPS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, *CLASSES)
"""Rows of a person that are used, at most: one of these."""
FEW = Fraction(1, 200)
"""Of all people: that so few have more rows than are used is borne."""
CLEAR = 20.0
"""Standard deviations of its noise that a number of people needs for a share of it to be told."""
NEARLY = 0.98
"""A column is taken to be the same in all rows of a person where it is for at least this share of people: of
the others it is not by mistakes in the data.
"""


class PrivateSizes(Sealed):
    """The numbers of people with up to caps[0] rows that are used, up to caps[1], ... and more than all, for
    `Session.measure`.
    """

    __slots__ = ()

    @classmethod
    def of(cls, table: PeopleSource, most: int, caps: Sequence[int]) -> PrivateSizes:
        return cls(ExactNumbers(np.add.reduceat(table.people_by_rows(most), [0, *caps])), ("people",))

    def query(self, what: Any, unit: Unit) -> SealedQuery:
        """All of them. One person is in one of these numbers; of an exchange one leaves and one comes: L1 and
        squared L2 norm 1 (add-remove) or 2 (replace).
        """
        people = 2 if unit.neighbours is Neighbours.REPLACE else 1
        return SealedQuery((*self.names, "rows"), (), people, people)


class PrivateConstancy(Sealed):
    """The numbers of people of whom columns are the same in all rows, for `Session.measure`."""

    __slots__ = ()

    @classmethod
    def of(cls, table: PeopleSource, columns: Sequence[str]) -> PrivateConstancy:
        """Reads the rows of these columns."""
        return cls(ExactNumbers(table.constancy(columns)), columns)

    def query(self, what: Any, unit: Unit) -> SealedQuery:
        """All of them, and the number of people with two rows or more. Each of these d + 1 numbers moves by
        at most 1, under replace too, where a person leaves and another comes: L1 and squared L2 norm d + 1.
        """
        return SealedQuery.each((*self.names, "constant"), (), 1, len(self.names) + 1)


def most_rows(session: Session, table: PeopleSource) -> tuple[int, float | None]:
    """(how many rows of a person are used at most, the noisy share of people who have more): of CAPS the
    least that no more than FEW of all people, or than noise can tell, exceed. None where it is all that
    may be, beyond which nobody was counted. Cost: SIZES_SHARE of what is left.
    """
    most = session.unit.contributions
    caps = [cap for cap in CAPS if cap < most]
    if not caps:
        return most, None
    sealed = PrivateSizes.of(table, most, caps)
    taken = session.measure(sealed, None, cost=session.left * SIZES_SHARE, stage="discover")
    people = float(taken.noisy.sum())
    for number, cap in enumerate(caps, start=1):
        beyond = taken.noisy[number:]
        if beyond.sum() <= max(float(FEW) * people, taken.stddev * len(beyond) ** 0.5):
            return cap, min(max(float(beyond.sum()) / max(people, 1.0), 0.0), 1.0)
    return most, None


def constant_columns(session: Session, table: PeopleSource, columns: Sequence[str]) -> list[str]:
    """The columns that are the same in all rows of a person, as far as noise can tell. Cost: CONSTANCY_SHARE
    of what is left.
    """
    sealed = PrivateConstancy.of(table, columns)
    taken = session.measure(sealed, None, cost=session.left * CONSTANCY_SHARE, stage="discover")
    people = float(taken.noisy[-1])
    if people < CLEAR * taken.stddev:
        return []
    least = NEARLY * people - taken.stddev
    return [name for name, same in zip(columns, taken.noisy[:-1].tolist(), strict=True) if same >= least]
