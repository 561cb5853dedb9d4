"""The checks of discover: each of its readings on the profiles of two neighbouring columns, near where its
answer turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from audit.check import Check, stage
from audit.stages import ADD_REMOVE, REPLACE, ZCDP, name_of
from factored_mwem.accounting.accountant import Budget, Mechanism, scale_for
from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy import discover
from factored_mwem.privacy.counts import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.tables.profile import profile
from factored_mwem.tables.source import open_table

RHO = Fraction(1)
DELTA = Fraction(1, 10**6)
WIDE = Fraction(1, 5)
"""A delta that can be seen: what a category of one person's alone may be kept with."""
STEEP = Fraction(1, 20)
"""The rho beside it, small, so that the discrete threshold comes close to its delta."""


def sealed(values: Sequence[Any]) -> Sealed:
    """The private profile of a column."""
    return Sealed(profile(open_table(pa.table({"x": list(values)})), ["x"])["x"])


def reading(
    what: str,
    unit: Unit,
    pair: Sequence[Sequence[Any]],
    read: Callable[[Sealed, Session], dict[str, Any]],
    **more: Any,
) -> Check:
    """A check of one reading of the columns in `pair`."""
    rho, delta = more.pop("rho", RHO), more.pop("delta", DELTA)
    profiles = [sealed(values) for values in pair]
    play = stage(
        lambda world, session: read(profiles[world], session), unit, Budget(1.0, 1e-6, ZCDP, rho, delta)
    )
    return Check(name_of(f"discover {what}", ZCDP, unit), ZCDP, "rho", play, **more)


def pair_of(unit: Unit, value: Any, other: Any, count: int) -> tuple[list[Any], list[Any]]:
    """`count` rows of `value`, and k more: they come, or go there from `other`."""
    k, rest = unit.contributions, [other] * 3
    return [value] * count + rest + [other] * (k * (unit.neighbours is REPLACE)), [value] * (count + k) + rest


def votes(unit: Unit) -> Check:
    """The kinds of the values: a person's turn from text to numbers."""

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        return {"votes": discover._votes("x", column, RHO, session)[0].astype("int64")}

    return reading("votes", unit, pair_of(unit, "7", "text", 4), read)


def categories(unit: Unit) -> Check:
    """A value whose count comes up to the threshold; under replace another's falls below it."""
    threshold, k = threshold_of(unit, RHO, DELTA), unit.contributions
    other = threshold - k if unit.neighbours is REPLACE else 0
    pair = (
        ["red"] * (threshold - k) + ["blue"] * (other and threshold),
        ["red"] * threshold + ["blue"] * other,
    )

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        return {"kept": ",".join(discover._categories("x", column, RHO, DELTA, session))}

    return reading("categories", unit, pair, read)


def own_category(unit: Unit) -> Check:
    """A value that only one person has: it may be kept with the delta that is charged, and no more."""

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        return {"kept": "red" in discover._categories("x", column, STEEP, WIDE, session)}

    note = "its delta is far above what it is kept with"
    return reading(
        "category of one person",
        unit,
        pair_of(unit, "red", "blue", 0),
        read,
        rho=STEEP,
        delta=WIDE,
        note=note,
    )


def threshold_of(unit: Unit, rho: Fraction, delta: Fraction) -> int:
    scale = scale_for(Mechanism.THRESHOLD, rho, sensitivity=unit.l2_squared_of_marginal)
    return discover.threshold_for(scale, delta, l0=unit.l0_of_marginal, linf=unit.linf_of_marginal)[0]


def magnitude(unit: Unit) -> Check:
    """A bucket whose count comes up to what stands out."""
    scale = scale_for(Mechanism.GAUSSIAN, RHO, sensitivity=unit.l2_squared_of_marginal)

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        low, high, seen = discover._magnitude("x", "number", column, RHO, session)
        return {"low": low, "high": high, "seen": seen}

    return reading("magnitude", unit, pair_of(unit, 500.0, None, round(4.5 * scale)), read, share=0.06)


def bounds(unit: Unit) -> Check:
    """Both quantiles: a person's values lie just left of all others, where the lower one turns from value to
    value, in a bucket that stands out.
    """
    values, k = [21.0, 22.0, 23.0] + [24.5] * 13 + [35.0] * 24, unit.contributions
    pair = values + [35.0] * (k * (unit.neighbours is REPLACE)), values + [20.5] * k

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        low, high, seen = discover._bounds("x", "number", column, RHO, 40.0, session)
        return {"low": low, "high": high, "seen": seen}

    note = "one person moves the magnitude and one quantile, two thirds of the cost"
    return reading("bounds", unit, pair, read, fixed=False, share=0.1, note=note)


def discovery_checks() -> list[Check]:
    one, two, swap_two = Unit(ADD_REMOVE, 1), Unit(ADD_REMOVE, 2), Unit(REPLACE, 2)
    return [
        votes(one),
        votes(swap_two),
        categories(one),
        categories(swap_two),
        own_category(one),
        magnitude(two),
        bounds(one),
    ]
