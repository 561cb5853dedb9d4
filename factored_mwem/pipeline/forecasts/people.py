"""People: what a forecast says where each of them weighs one: how many of their rows are used, and what it
costs to find out about them. Public facts; nothing is spent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Self

from factored_mwem.errors import InputError, shown
from factored_mwem.privacy.people import AGREEMENT_SHARE, CAPS, CONSTANCY_SHARE, SIZES_SHARE
from factored_mwem.request.policy import Policy

ASSUMED = 10_000
"""Rows, or people, of a table of which nobody guessed how many there are."""


def assumed(policy: Policy, rows: int | None, people: int | None) -> int:
    """The guess that a forecast is for: of people where these are counted, else of rows. Raises InputError if
    it is of the other.
    """
    if policy.people and rows is not None:
        raise InputError("assume_rows is for releases without people=True; give assume_people")
    if people is not None and not policy.people:
        raise InputError("assume_people is for releases with people=True; give assume_rows")
    guess, what = (people, "people") if policy.people else (rows, "rows")
    if guess is None:
        return ASSUMED
    if not isinstance(guess, Integral) or isinstance(guess, bool) or not 1 <= guess <= 10**12:
        raise InputError(f"assume_{what}={shown(guess)}: a guess of the number of {what}, 1 or more")
    return int(guess)


@dataclass(frozen=True, slots=True)
class PeopleForecast:
    """`most_rows` of a person are used, or fewer where a noisy count tells so, which has `sizes_share` of the
    budget (0: there is none). `constant`: columns declared to be the same in all rows of a person; None where
    noise tells which are, for `constancy_share`. `agreement_share` is for how often two rows of a person
    agree (0: nobody has two, or they have an order). Where people are few, `sizes_share` is up to five times
    as much, the others up to four times.
    """

    column: str
    most_rows: int
    sizes_share: float
    constant: Sequence[str] | None
    constancy_share: float
    agreement_share: float

    @classmethod
    def of(cls, policy: Policy) -> Self | None:
        """None where rows are counted."""
        if not policy.people or policy.privacy_id is None:
            return None
        sizes, same, alike = _shares(policy)
        constant = None if policy.person_columns is None else tuple(policy.person_columns)
        return cls(
            column=policy.privacy_id,
            most_rows=policy.contributions,
            sizes_share=float(sizes),
            constant=constant,
            constancy_share=float((1 - sizes) * same),
            agreement_share=float((1 - sizes) * (1 - same) * alike),
        )


def _shares(policy: Policy) -> tuple[Fraction, Fraction, Fraction]:
    """What finding out costs, each of what is left then; at least."""
    sizes = SIZES_SHARE if CAPS[0] < policy.contributions else Fraction(0)
    same = CONSTANCY_SHARE if policy.person_columns is None else Fraction(0)
    alike = AGREEMENT_SHARE if policy.order_by is None and policy.contributions > 1 else Fraction(0)
    return sizes, same, alike


def left_after(policy: Policy) -> Fraction:
    """The share of the budget that finding out about people leaves; all, where rows are counted."""
    shares = _shares(policy) if policy.people else ()
    return math.prod((1 - share for share in shares), start=Fraction(1))
