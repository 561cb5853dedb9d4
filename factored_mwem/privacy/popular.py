"""Popular values: the thresholds that a value's noisy count must reach, and the second look at all columns
together, for values that are too rare to be found in one column's share of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from factored_mwem.accounting.accountant import RARER, Charge, Mechanism, scale_for
from factored_mwem.accounting.conversion import threshold_delta
from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.codes.rest import WEIGHT

SHIFT = 4
"""Popular values are counted from the fourth part of the noise on: see `ColumnDiscovery.popular`."""
SECOND = Fraction(1, 2)
"""The share of what popular values get, and of delta, that the second look has, where there is one."""
COLUMNS = 3
"""The second look is for so many columns or more: of fewer, one look with all the budget finds as much."""


def keys_of(found: FoundColumn, column: ColumnProfile, least: int) -> dict[str, int]:
    """The counts of the keys of a column, less `least`, where any are left: "v" and a number or moment, "t"
    and a text.
    """
    numbers = column.popular(found.kinds, found.unit, found.scale, least) if found.kinds else {}
    counts = {"v" + repr(value): n for value, n in numbers.items()}
    return counts | {"t" + text: n for text, n in column.texts(found.kinds, least).items()}


def keys_together(
    found: Sequence[FoundColumn], profiles: Mapping[str, ColumnProfile], least: int
) -> dict[str, int]:
    """The same of several columns: the place of the column, a blank, and its key."""
    return {
        f"{at} {key}": n
        for at, one in enumerate(found)
        for key, n in keys_of(one, profiles[one.column.name], least).items()
    }


def popular_together(
    session: Session, table: Source, found: Sequence[FoundColumn], cost: Fraction, delta: Fraction
) -> list[FoundColumn]:
    """The columns with the values that a second look finds. It passes over all that was found, so most rows
    hold few values that are looked for, and each gives all its weight W to those: W / sqrt(m) where there are
    m of columns with equal claims. Budget is shared among the rare values of one row, no longer among
    columns.

    Which columns are looked at, which of their values are known, and so what they claim, is public: noisy
    answers. Given those, a row has one key at most in each of c columns, and gives a key of claim q, of q1 +
    q2 + ... in that row, w = floor(W sqrt(q / (q1 + q2 + ...))), a function of that row alone. One row: the
    w^2 add up to W^2 at most, linf W, l0 c. The k rows of a person: each is a vector at most W long with
    nothing below 0, so their sum has L2 <= k W, linf <= k W, l0 <= k c. Replace: one such sum a less another
    b, neither below 0: squared L2 |a - b|^2 <= |a|^2 + |b|^2, so at most 2 (k W)^2, linf k W, l0 2 k c. What
    is taken off all counts is public and moves none further, as in `ColumnDiscovery.popular`; so a key that
    only one of two neighbours hands to the noise has k W at most.
    """
    looked = [one for one in found if is_looked_at(one)]
    if not looked or not cost:
        return list(found)
    unit, columns = session.unit, len(looked)
    scale, threshold, charged = together_for(unit, columns, cost, delta)
    least = int(scale / SHIFT)
    names = [one.column.name for one in looked]
    rests = Sealed(table.weighed({one.column.name: one.known for one in looked}))
    sensitivity = unit.l2_squared_of_marginal * WEIGHT**2
    charge = Charge("discover", Mechanism.THRESHOLD, (*names, RARER), scale, sensitivity, charged)
    profiles: dict[str, ColumnProfile] = session._unseal(rests, charge)
    counts = keys_together(looked, profiles, least)
    kept = session.noise.threshold(counts, scale=scale, threshold=threshold)
    more: dict[str, dict[str, int]] = {name: {} for name in names}
    for place, n in kept.items():
        at, key = place.split(" ", 1)
        more[names[int(at)]][key] = (n + least) // WEIGHT
    enough = (threshold + least) / WEIGHT
    return [with_rare(one, more[one.column.name], enough) if one in looked else one for one in found]


def second_share(columns: int) -> Fraction:
    """The share of the second look at so many columns that have values to find."""
    return SECOND if columns >= COLUMNS else Fraction(0)


def is_looked_at(found: FoundColumn) -> bool:
    """Whether rarer values are looked for: of numbers and moments, where any value of their own was found,
    for the others have cells.
    """
    return found.type == "string" or (found.type != "boolean" and bool(found.values or found.texts))


def with_rare(found: FoundColumn, more: dict[str, int], enough: float) -> FoundColumn:
    values = {float(key[1:]): n for key, n in more.items() if key[0] == "v"}
    texts = {key[1:]: n for key, n in more.items() if key[0] == "t"}
    return replace(
        found,
        values=found.values | values,
        texts=found.texts | texts,
        rare=found.rare | frozenset([*values, *texts]),
        enough=min(enough, found.enough),
    )


def together_for(unit: Unit, columns: int, cost: Fraction, delta: Fraction) -> tuple[float, int, Fraction]:
    """(scale, threshold, delta) of the second look at so many columns, in parts of WEIGHT."""
    scale = scale_for(Mechanism.THRESHOLD, cost, sensitivity=unit.l2_squared_of_marginal * WEIGHT**2)
    l0, linf = unit.l0_of_marginal * columns, unit.linf_of_marginal * WEIGHT
    return scale, *threshold_for(scale, delta, l0=l0, linf=linf)


def threshold_for(scale: float, delta: Fraction, *, l0: int, linf: int) -> tuple[int, Fraction]:
    """The least threshold whose delta is at most `delta`; and that delta."""
    low, high = linf, math.ceil(linf + 2 + scale * (math.sqrt(2 * math.log(l0 / float(delta))) + 2))
    while high - low > 1:
        middle = (low + high) // 2
        ok = threshold_delta(scale=scale, threshold=middle, l0=l0, linf=linf) <= delta
        low, high = (low, middle) if ok else (middle, high)
    return high, Fraction(threshold_delta(scale=scale, threshold=high, l0=l0, linf=linf))
