"""People: how many rows they have, which columns are the same in all rows of a person, and how often two rows
of a person agree in the others.

Counted are people, not rows. A person adds at most 1 (of agreement: the grains of one person) to each number
here, whatever their rows hold and however many they are, and nobody else's rows enter into it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np

from factored_mwem.accounting.unit import CLASSES, Neighbours, Unit
from factored_mwem.domain.agreement import Agreement, groupings_in
from factored_mwem.domain.domain import Domain
from factored_mwem.privacy.rows import ExactNumbers, Sealed, SealedQuery
from factored_mwem.privacy.session import Measurement, Session, noise_for
from factored_mwem.tables.backends.source import PeopleSource

SIZES_SHARE, CONSTANCY_SHARE, AGREEMENT_SHARE = Fraction(1, 100), Fraction(1, 50), Fraction(1, 100)
"""Of what is left to spend, at least."""
MOST_TIMES, MOST_OF_ROOTS = 4, 8
"""Where people are few, constancy and agreement may cost so many times as much, and so may a second look at
sizes; of roots that have rows of other tables more, all of these together, for what is seen is used again
(`rows_of_roots`).
"""
CLOSE = {"sizes": 0.01, "constant": 0.04, "agreement": 0.02}
"""Noise of so small a share of the number of people is not worth more than the least share of the budget."""
CAPS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, *CLASSES)
"""Rows of a person that are used, at most: one of these."""
FEW = Fraction(1, 200)
"""Of all people: that so few have more rows than are used is borne."""
BY_NOISE = 1.75
"""How many standard deviations noise on empty classes is taken to reach. With 1, one of the many sums lies
beyond it every other time, and the cap comes out far too high now and then; with 2, long tails are cut where
people are few.
"""
BY_NOISE_OF_ROOTS = 0.5
"""The same of how many rows hang on roots. What is measured later, with less noise, tells which of these
classes are empty, so the cap may lie too high, but rows beyond it are lost. With 1.75, of 300 roots at
epsilon 1 a tenth to a third of all rows were.
"""
CLEAR = 20.0
"""Standard deviations of its noise that a number of people needs for a share of it to be told."""
CLEAR_ENOUGH = 10.0
"""The same for how often rows agree, where an error does less harm."""
NEARLY, VARIES = 0.98, 0.9
"""A column is taken to be the same in all rows of a person where it is for NEARLY all people, for of the
others it is not by mistakes in the data; of one that is for VARIES of them that would be wrong.
"""
SURE = 2.0
"""Standard deviations that a column may lie below NEARLY of all people, but not below the middle of both."""
DOUBT, AGAIN = 3.0, 2
"""Standard deviations about that middle in which a column is looked at again, at so many times
CONSTANCY_SHARE. Where people are as few as CLEAR allows, of 15 columns one that is the same for all is lost
once in 25 releases, and one that is for .87 of people taken once in 250; if five are in doubt, once in 7 and
once in 50.
"""


class PrivateSizes(Sealed):
    """The numbers of people with up to caps[0] rows that are used, up to caps[1], ... and more than all, for
    `Session.measure`.
    """

    __slots__ = ()

    @classmethod
    def of(cls, table: PeopleSource, most: int, caps: Sequence[int]) -> PrivateSizes:
        return cls(ExactNumbers(np.add.reduceat(table.people_by_rows(most), [0, *caps])), ("people",))

    @classmethod
    def of_roots(cls, rows: np.ndarray, ends: Sequence[int]) -> PrivateSizes:
        """The numbers of roots on which up to ends[0] rows hang, up to ends[1], ..., of `rows: int64[root]`;
        those with more are in the last.
        """
        classes = np.searchsorted(ends, np.minimum(rows, ends[-1]))
        return cls(ExactNumbers(np.bincount(classes, minlength=len(ends))), ("people",))

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


class PrivateAgreement(Sealed):
    """How often two of a person's rows agree, summed over people in grains, for `Session.measure`."""

    __slots__ = ()

    @classmethod
    def of(
        cls,
        table: PeopleSource,
        session: Session,
        domain: Domain,
        constant: Collection[str],
        family: str | None = None,
    ) -> Self:
        """Reads the rows of the columns that are not `constant`, as codes of the domain. If a column `family`
        is named, only pairs of rows with the same cell there count: fewer pairs of the same person's rows.
        """
        groupings = groupings_in(domain, constant)
        names, of = tuple(groupings), domain.modelled
        return cls(ExactNumbers(table.pairs_alike(of, groupings, session.spill, family)), names)

    def query(self, what: Any, unit: Unit) -> SealedQuery:
        """All of `what`, how many numbers there are. Each is a sum over people of what follows from that
        person's rows alone and is from 0 to G grains: 0 of a person without a pair, G of who agrees with
        themselves in all pairs, however these are parted into families. So one person more moves each by at
        most G; under replace, where one of 0 to G leaves and another comes, too: L1 norm m G, squared L2 norm
        m G^2 of m numbers. G is what rows of one person come to anywhere, and no number is a count of rows:
        that a person has 10,000 of them moves nothing further.
        """
        return SealedQuery.each((*self.names, "agreement"), (), unit.grains, what)


class RowsUsed(NamedTuple):
    """Of a person, at most `most`; the noisy share of people who have more, and how many people there are,
    None where it was not counted. `full`: the noisy share of those who have about `most` rows, or more, where
    no more may be used. Of roots: `ends` of the classes of how many rows hang on one, 0 the first, and the
    noisy numbers of roots in them, `looks`.
    """

    most: int
    beyond: float | None = None
    people: float | None = None
    full: float = 0.0
    ends: tuple[int, ...] = ()
    looks: tuple[Measurement, ...] = ()


def most_rows(session: Session, table: PeopleSource) -> RowsUsed:
    """How many rows of a person are used at most: of CAPS the `last_seen`. Where it is all that may be,
    nobody was counted beyond. Cost: SIZES_SHARE of what is left, and where people are few for a second look
    up to MOST_TIMES as much.
    """
    most = session.unit.contributions
    caps = [cap for cap in CAPS if cap < most]
    if not caps:
        return RowsUsed(most)
    noisy, stddev = averaged(_sizes(session, PrivateSizes.of(table, most, caps)))
    people, last = float(noisy.sum()), last_seen(noisy, stddev)
    if last == len(caps):
        return RowsUsed(most, people=people, full=_share(noisy[-1:], people))
    return RowsUsed(caps[last], _share(noisy[last + 1 :], people), people)


def rows_of_roots(session: Session, rows: np.ndarray, ends: Sequence[int], tables: int) -> RowsUsed:
    """How many of the rows that hang on a root are used at most, of `rows: int64[root]` of all roots: of
    `ends`, rising from 0, the `last_seen`. Cost: SIZES_SHARE of what is left, and where roots are few for a
    second look up to MOST_OF_ROOTS times as much, divided by how many `tables` hang on the root.

    What is seen is a marginal of the roots' rows, by how many hang on each. So it is returned, to be fitted
    with what is measured later (`Request.counted`).
    """
    looks = _sizes(session, PrivateSizes.of_roots(rows, ends), max(MOST_OF_ROOTS // tables, 1))
    noisy, stddev = averaged(looks)
    last = 1 + last_seen(noisy[1:], stddev, BY_NOISE_OF_ROOTS)
    people = float(noisy[1:].sum())
    beyond = _share(noisy[last + 1 :], people) if last + 1 < len(ends) else None
    full = _share(noisy[last:], people) if beyond is None else 0.0
    used = tuple(replace(look, noisy=look.noisy[: last + 1]) for look in looks)
    return RowsUsed(ends[last], beyond, people, full, tuple(ends[: last + 1]), used)


def _share(noisy: np.ndarray, people: float) -> float:
    """Which part of the people these numbers say."""
    return min(max(float(noisy.sum()) / max(people, 1.0), 0.0), 1.0)


def last_seen(noisy: np.ndarray, stddev: float, by_noise: float = BY_NOISE) -> int:
    """The first class of numbers of rows, rising, beyond which there are no more than FEW of all `noisy:
    [class]` people, or than `by_noise` says that noise comes to, up to any one further on; else the last.
    """
    few = float(FEW) * float(noisy.sum())
    for last in range(len(noisy)):
        beyond = np.cumsum(noisy[last + 1 :])
        if (beyond <= np.maximum(few, by_noise * stddev * np.sqrt(np.arange(1, len(beyond) + 1)))).all():
            break
    return last


def _sizes(session: Session, sealed: PrivateSizes, most_times: int = MOST_TIMES) -> list[Measurement]:
    """One look at the numbers of people, or two."""
    first = session.measure(sealed, None, cost=session.left * SIZES_SHARE, stage="discover")
    close = CLOSE["sizes"] * float(first.noisy.sum())
    if first.stddev <= close:
        return [first]
    cost = _cost(session, sealed.query(None, session.unit), SIZES_SHARE, close, most_times)
    return [first, session.measure(sealed, None, cost=cost, stage="discover")]


def averaged(looks: Sequence[Measurement]) -> tuple[np.ndarray, float]:
    """(float64[number]: what several looks saw of the same numbers, averaged by precision; the standard
    deviation of the noise that is left).
    """
    precisions = [look.stddev**-2 for look in looks]
    return np.average([look.noisy for look in looks], axis=0, weights=precisions), sum(precisions) ** -0.5


def number_of_people(session: Session, table: PeopleSource, most: int) -> float:
    """About how many people there are, who have up to `most` rows. Cost: SIZES_SHARE of what is left."""
    sealed = PrivateSizes.of(table, most, ())
    taken = session.measure(sealed, None, cost=session.left * SIZES_SHARE, stage="discover")
    return float(taken.noisy[0])


def constant_columns(
    session: Session, table: PeopleSource, columns: Sequence[str], people: float | None = None
) -> list[str]:
    """The columns that are the same in all rows of a person, as far as noise can tell. Of `people`, a noisy
    number, it follows how much is spent. Cost: CONSTANCY_SHARE of what is left, up to MOST_TIMES as much; and
    AGAIN times it for a second look at columns that the first leaves in doubt. Both looks are averaged.
    """
    if not columns:
        return []
    most = CLOSE["constant"] * people if people is not None else None
    sealed = PrivateConstancy.of(table, columns)
    cost = _cost(session, sealed.query(None, session.unit), CONSTANCY_SHARE, most)
    taken = session.measure(sealed, None, cost=cost, stage="discover")
    several, stddev = float(taken.noisy[-1]), taken.stddev
    if several < CLEAR * stddev:
        return []
    middle = (NEARLY + VARIES) / 2
    counts = dict(zip(columns, taken.noisy[:-1].astype(float).tolist(), strict=True))
    sure = {name: _least(several, stddev) <= counts[name] for name in columns}
    doubted = [name for name in columns if abs(counts[name] - middle * several) < DOUBT * stddev]
    if doubted:
        sealed, cost = PrivateConstancy.of(table, doubted), session.left * CONSTANCY_SHARE * AGAIN
        again = session.measure(sealed, None, cost=cost, stage="discover")
        before = np.array([*map(counts.__getitem__, doubted), several])
        both, narrower = averaged([replace(taken, noisy=before), again])
        least = _least(float(both[-1]), narrower)
        sure |= {name: least <= same for name, same in zip(doubted, both[:-1].tolist(), strict=True)}
    return [name for name in columns if sure[name]]


def _least(several: float, stddev: float) -> float:
    """Of how many of `several` people a column must be the same."""
    return max(NEARLY * several - SURE * stddev, (NEARLY + VARIES) / 2 * several)


def agreement_in(
    session: Session,
    table: PeopleSource,
    domain: Domain,
    constant: Collection[str],
    people: float | None = None,
    family: str | None = None,
) -> Agreement:
    """How often two rows of a person agree in each column that is not `constant`; of rows with the same cell
    in column `family`, if one is named. Of `people`, a noisy
    number, it follows how much is spent. Cost: AGREEMENT_SHARE of what is left, up to MOST_TIMES as much.
    """
    groupings = groupings_in(domain, constant)
    if not groupings:
        return Agreement()
    numbers = 1 + sum(map(len, groupings.values()))
    sealed = PrivateAgreement.of(table, session, domain, constant, family)
    most = CLOSE["agreement"] * people * session.unit.grains if people is not None else None
    cost = _cost(session, sealed.query(numbers, session.unit), AGREEMENT_SHARE, most)
    taken = session.measure(sealed, numbers, cost=cost, stage="discover")
    several, at = float(taken.noisy[0]), 1
    if several < CLEAR_ENOUGH * taken.stddev:
        return Agreement()
    shares = {}
    for name, levels in groupings.items():
        each = np.clip(taken.noisy[at : at + len(levels)] / several, 0.0, 1.0)
        shares[name], at = tuple(each.tolist()), at + len(levels)
    return Agreement(shares, taken.stddev / several)


def _cost(
    session: Session, query: SealedQuery, share: Fraction, most: float | None, most_times: int = MOST_TIMES
) -> Fraction:
    """The least multiple of `share` of what is left that buys noise of at most `most`."""
    cost, sensitivity = session.left * share, query.sensitivity(session.composition)
    for times in range(1, most_times):
        if most is None or noise_for(cost * times, sensitivity, session.composition).stddev <= most:
            return cost * times
    return cost * most_times
