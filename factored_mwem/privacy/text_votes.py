"""Text votes: what noisy counts say of columns of text beyond the first votes: how dates and numbers are
written, and whether texts are shared at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import pyarrow as pa

from factored_mwem.accounting.accountant import Charge, Mechanism, scale_for
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.privacy.votes import BELIEVED, TOLERANCE, Votes
from factored_mwem.tables.codes.dates import DateVotes
from factored_mwem.tables.codes.kinds import KINDS, NUMBERS, kind_of
from factored_mwem.tables.codes.notation import CLOCKS, BesideVotes, Notation, written_with
from factored_mwem.tables.codes.profile import ColumnProfile

WRITTEN = Fraction(1)
"""What it costs to learn how dates or numbers of a column are written, in parts of discovery."""
SHARED = Fraction(1, 8)
"""And how many rows hold texts that many rows share."""
RARE = 0.9
"""Hardly anything of a column of text is found when more of its values than this become `other`."""
MIXED = ("string", "date", "datetime")
"""Types of columns most of whose values may be dates that are not written by ISO 8601; others may be."""
SURE = 2.0
"""Standard deviations of noise by which it must be clear that so many would."""


@dataclass(frozen=True, slots=True, eq=False)
class TextVotes:
    """What was seen of the columns of a table so far, by place: their `votes` and `types`, the `formats` of
    dates or numbers that are not plain; and of which columns it is asked how they are written (`dated`,
    `noted`), or whether texts are shared (`plain`): of those in `rare` hardly any is.
    """

    votes: list[Votes]
    types: list[str]
    formats: Mapping[int, str | None]
    dated: Sequence[int] = ()
    noted: Sequence[int] = ()
    plain: Sequence[int] = ()
    rare: Sequence[int] = ()

    @classmethod
    def of(
        cls, fields: Sequence[pa.Field], votes: Sequence[Votes], types: Sequence[str], *, zoned: bool
    ) -> TextVotes:
        """`zoned`: what is said of clocks holds for cells that are known to be times beforehand."""
        texts = [at for at, field in enumerate(fields) if kind_of(field) == "string"]
        dated = [] if zoned else [a for a in texts if types[a] in MIXED and votes[a].looks() == "dated"]
        noted = [at for at in texts if votes[at].notated()]
        plain = [at for at in texts if types[at] == "string" and at not in {*dated, *noted}]
        return cls(list(votes), list(types), {}, dated, noted, plain)

    @property
    def weight(self) -> Fraction:
        """What `read` costs, in parts."""
        return WRITTEN * (len(self.dated) + len(self.noted)) + SHARED * len(self.plain)

    def read(
        self,
        session: Session,
        profiles: Sequence[tuple[str, Sealed]],
        part: Fraction,
        few: float,
        rows: float,
    ) -> TextVotes:
        """With the answers. `profiles`: (name, profile) of each column; `few`: how many of the noisy number
        of `rows` a text needs to be found, at least. Cost: `weight` times `part`.
        """
        votes, types, formats = list(self.votes), list(self.types), dict(self.formats)
        looked = [(*profiles[at], votes[at]) for at in self.dated]
        told = dict(zip(self.dated, read_dates(session, looked, part * WRITTEN), strict=True))
        for at in self.noted:
            told[at] = read_notation(session, *profiles[at], votes[at], part * WRITTEN)
        for at, (seen, pattern) in told.items():
            votes[at], formats[at], types[at] = seen, pattern, seen.type()
        rare = []
        for at in self.plain:
            there = rows - float(votes[at].noisy[KINDS.index("null")])
            if is_rare(session, *profiles[at], few, there, part * SHARED):
                rare.append(at)
        return replace(self, votes=votes, types=types, formats=formats, rare=rare)


def is_rare(session: Session, name: str, sealed: Sealed, few: float, present: float, cost: Fraction) -> bool:
    """Whether noisy counts tell that of a column's `present` values RARE are held by fewer rows each than
    `few`, which is public.

    Counted are the rows of each value beyond a fourth of that, c -> max(c - m, 0), added up: values of `few`
    rows or more hold at most 4/3 of the sum. k rows of a person (or its grains) move the counts by
    k in all, and each summand by no more than its count: sensitivity k, at most that of a marginal, L2 k
    (add-remove) or sqrt(2) k (replace).
    """
    sensitivity, most = session.unit.l2_squared_of_marginal, int(few / 4)
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    charge = Charge("discover", Mechanism.GAUSSIAN, (name, "shared"), scale, sensitivity)
    column: ColumnProfile = session._unseal(sealed, charge)
    noisy = session.noise.add(column.beyond(most), scale=scale)
    return bool(4 * (noisy[0] + SURE * scale) < 3 * (1 - RARE) * present)


def read_dates(
    session: Session, columns: Sequence[tuple[str, Sealed, Votes]], cost: Fraction
) -> list[tuple[Votes, str | None]]:
    """Of each column (name, profile, votes) the votes with its dates among the moments, and how these are
    written; the same votes and None where noisy counts do not tell. Where columns tell whether the month or
    the day is first, and say the same, it holds for the others. Cost: `cost` each.
    """
    looked = [vote_on_dates(session, *each, cost) for each in columns]
    told = [votes.written(BELIEVED, TOLERANCE) for votes in looked]
    orders = {one.order for one in told if one is not None and one.order is not None}
    if len(orders) == 1:
        order = orders.pop()
        again = (votes.written(BELIEVED, TOLERANCE, order) for votes in looked)
        told = [one or other for one, other in zip(told, again, strict=True)]
    return [
        (seen, None)
        if one is None
        else (seen.read("dated", _at_most(seen.of("dated"), one.kinds)), one.pattern)
        for (_, _, seen), one in zip(columns, told, strict=True)
    ]


def _at_most(rows: float, kinds: Mapping[str, float]) -> dict[str, float]:
    """The same shares of at most so many rows: of 2014-7-1 and 2014-10-11 the second is a date already."""
    whole = sum(kinds.values())
    return {kind: own * min(1.0, rows / max(whole, 1.0)) for kind, own in kinds.items()}


def vote_on_dates(session: Session, name: str, sealed: Sealed, seen: Votes, cost: Fraction) -> DateVotes:
    """Noisy votes on how the dates of a column are written. A row votes for one of the public ways at most,
    by its own value alone: L2 k (add-remove) or sqrt(2) k (replace).
    """
    sensitivity = session.unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    charge = Charge("discover", Mechanism.GAUSSIAN, (name, "dates"), scale, sensitivity)
    column: ColumnProfile = session._unseal(sealed, charge)
    return DateVotes(session.noise.add(column.date_votes(), scale=scale), scale, seen.of("dated"))


def read_notation(
    session: Session, name: str, sealed: Sealed, seen: Votes, cost: Fraction
) -> tuple[Votes, str | None]:
    """The votes of a column with its numbers among the numbers, and how these are written; the same votes
    and None where noisy counts do not tell. Cost: a fourth of `cost` for what stands beside them and, where
    that is told, the rest for their digits.
    """
    votes = vote_on_beside(session, name, sealed, seen, cost / 4)
    told = votes.told(BELIEVED)
    counted = votes.noisy[told] if isinstance(told, int) else 0.0
    if isinstance(told, int):
        told = vote_on_digits(session, name, sealed, told, cost * 3 / 4)
    if told is None:
        return seen, None
    places = {kind: rows for kind, rows in zip(NUMBERS, told.places, strict=False) if rows}
    if not places:  # all of them are in brackets: as many places as plain numbers have
        places = {kind: seen.of(kind) for kind in NUMBERS if seen.believed(kind)} or {NUMBERS[0]: 1.0}
    whole = sum(places.values())  # how many there are one count tells better than many
    kinds = {kind: (counted or whole) * rows / whole for kind, rows in places.items()}
    return seen.read("clock" if told.pattern in CLOCKS else "amount", kinds, told.zeros), told.pattern


def vote_on_beside(session: Session, name: str, sealed: Sealed, seen: Votes, cost: Fraction) -> BesideVotes:
    """Noisy votes on what stands beside the numbers of a column. A row votes for one of the public ways at
    most, by its own value alone: L2 k (add-remove) or sqrt(2) k (replace).
    """
    sensitivity = session.unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    charge = Charge("discover", Mechanism.GAUSSIAN, (name, "notation"), scale, sensitivity)
    column: ColumnProfile = session._unseal(sealed, charge)
    noisy = session.noise.add(column.beside_votes(), scale=scale)
    return BesideVotes(noisy, scale, seen.of("amount"), seen.of("clock"), seen.of(*NUMBERS))


def vote_on_digits(
    session: Session, name: str, sealed: Sealed, beside: int, cost: Fraction
) -> Notation | None:
    """How the digits of numbers are written, by noisy votes of rows with what is at this place of BESIDE,
    which earlier noisy answers told. A row votes for one of the public ways at most, by its own value alone:
    L2 k (add-remove) or sqrt(2) k (replace).
    """
    sensitivity = session.unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    charge = Charge("discover", Mechanism.GAUSSIAN, (name, "digits"), scale, sensitivity)
    column: ColumnProfile = session._unseal(sealed, charge)
    return written_with(beside, session.noise.add(column.digit_votes(beside), scale=scale), scale, BELIEVED)
