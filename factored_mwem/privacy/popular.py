"""Popular values: the thresholds that a value's noisy count must reach, and the second look at all columns
together, for values that are too rare to be found in one column's share of the budget. Values of a public
list need no threshold for privacy there: that they may be looked for shows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from factored_mwem.accounting.accountant import RARER, Charge, Mechanism, scale_for
from factored_mwem.accounting.conversion import threshold_delta
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.grids import level
from factored_mwem.domain.public_lists import list_of
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.kinds import DECIMALS, KINDS, MAX_DECIMALS, NUMBERS, kind_of, places_of
from factored_mwem.tables.codes.profile import MAX_POPULAR, ColumnProfile
from factored_mwem.tables.codes.rest import WEIGHT

SHIFT = 4
"""Popular values are counted from the fourth part of the noise on: see `ColumnDiscovery.popular`."""
SECOND = Fraction(1, 2)
"""The share of what popular values get, and of delta, that the second look has, where there is one."""
FALSE = 1 / 10
"""How many values of its public list that nobody has a column gets, on average."""
CERTAIN = 3.0
"""Standard deviations of noise above its threshold from which on a value is found."""
COLUMNS = 3
"""The second look is for so many columns or more: of fewer, one look with all the budget finds as much."""

COARSE = 2
"""Decimals that the first of the two keys of FINER needs at most: prices have them."""
FINER = {"f1": DECIMALS[:COARSE], "f3": (*DECIMALS[COARSE:], NUMBERS[-1])}
"""The keys of rows whose numbers are not whole, and the kinds that each counts."""
SEEN = 4.5
"""Standard deviations of noise from which on such rows are believed: noise alone makes them so in one of
100,000 columns.
"""
DOUBT = 2.5
"""The same from which on finer ones may be there, where some are."""
WARNED = 3.4
"""The same from which on either key, or both together, are said where they are not seen: noise alone makes
one of 1,000 columns so.
"""


def keys_of(found: FoundColumn, column: ColumnProfile, least: int) -> dict[str, int]:
    """The counts of the keys of a column, less `least`, where any are left: "v" and a number or moment, "t"
    and a text.
    """
    numbers = column.popular(found.kinds, found.unit, found.scale, least) if found.kinds else {}
    counts = {"v" + repr(value): n for value, n in numbers.items()}
    return counts | {"t" + text: n for text, n in column.texts(found.kinds, least).items()}


def first_keys(found: FoundColumn, column: ColumnProfile, least: int) -> tuple[dict[str, int], list[str]]:
    """(the counts of a column's keys in the first look, the keys that are listed). Of what is voted to be
    whole numbers, rows that need decimals have a key of FINER, however often each value comes.
    """
    if found.type != "integer" or kind_of(found.column) == "integer" or not places_of(found.column):
        return keys_of(found, column, least), []
    votes = column.votes()
    finer = {key: int(sum(votes[KINDS.index(kind)] for kind in kinds)) for key, kinds in FINER.items()}
    whole = {"v" + repr(v): n for v, n in column.popular(("integer",), "number", 1.0, least).items()}
    texts = {"t" + text: n for text, n in column.texts(found.kinds, least).items()}
    return whole | texts | finer, list(finer)


def with_decimals(found: FoundColumn, finer: Sequence[int], stddev: float) -> FoundColumn:
    """The same column of whole numbers, with decimals where the noisy counts of rows that need those of FINER
    stand out, alone or together; the finer ones where those rows may be there. It looks at noisy answers, so
    it costs nothing.
    """
    counts = np.array(finer)
    if counts.max() <= SEEN * stddev and counts.sum() <= SEEN * stddev * len(counts) ** 0.5:
        whole = stddev * len(counts) ** 0.5
        said = max([*((n, n / stddev) for n in finer), (sum(finer), sum(finer) / whole)], key=lambda s: s[1])
        return replace(found, rounded=float(said[0]) if said[1] > WARNED else 0.0, rounded_stddev=whole)
    most = min(MAX_DECIMALS if counts[-1] > DOUBT * stddev else COARSE, places_of(found.column))
    steps = {value * 10**most: n for value, n in found.values.items()}
    values = {step: n for step, n in steps.items() if abs(step) < MAX_POPULAR}
    return replace(found, type="number", decimals=most, values=values)


def keys_together(
    found: Sequence[FoundColumn],
    profiles: Mapping[str, ColumnProfile],
    least: int,
    listed: Sequence[str] = (),
) -> dict[str, int]:
    """The same of several columns: the place of the column, a blank, and its key. Of those `listed`, which
    are public, the whole counts, though they be 0.
    """
    public, counts = set(listed), dict.fromkeys(listed, 0)
    for at, one in enumerate(found):
        column = profiles[one.column.name]
        less = {f"{at} {key}": n for key, n in keys_of(one, column, least).items()}
        counts |= {key: n for key, n in less.items() if key not in public}
        if one.listed:
            whole = {f"{at} t{text}": n for text, n in column.texts(one.kinds).items()}
            counts |= {key: n for key, n in whole.items() if key in public}
    return counts


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

    Listed keys, of public lists that follow from what was found before, are the same set for neighbours,
    each has a count in both, and no key is among them and among the others. Say two neighbours are s apart in
    squared L2, of which t in listed keys. The noise on these alone is a Gaussian mechanism: t / (2 scale^2)
    of rho, and no delta, for no key shows that it is there. The threshold on the others: (s - t) /
    (2 scale^2), with a delta for at most l0 keys as before. Both draw noise of their own, so for these two
    neighbours rho adds up to s / (2 scale^2), at most what is charged, as if no key were listed. Sources:
    Korolova, Kenthapadi, Mishra, Ntoulas 2009 (why unknown keys need a threshold); Bun, Steinke 2016, lemma
    1.7 (composition); Rogers 2023.
    """
    looked = [with_list(one) for one in found if is_looked_at(one)]
    if not looked or not cost:
        return list(found)
    unit, columns = session.unit, len(looked)
    scale, threshold, charged = together_for(unit, columns, cost, delta)
    least = int(scale / SHIFT)
    names = [one.column.name for one in looked]
    listed = [key for at, one in enumerate(looked) for key in listed_keys(at, one)]
    known = {one.column.name: one.known for one in looked}
    rests = Sealed(table.weighed(known))
    sensitivity = unit.l2_squared_of_marginal * WEIGHT**2
    charge = Charge("discover", Mechanism.THRESHOLD, (*names, RARER), scale, sensitivity, charged)
    profiles: dict[str, ColumnProfile] = session._unseal(rests, charge)
    counts = keys_together(looked, profiles, least, listed)
    kept = session.noise.threshold(counts, scale=scale, threshold=threshold, listed=listed)
    claims = sum(own.claim for own in known.values())
    told = {}
    for at, one in enumerate(looked):
        own = known[one.column.name].claim
        weight = math.isqrt(WEIGHT**2 * own // claims)  # of a row that holds all there is
        certain = (threshold + least + CERTAIN * scale) / weight
        told[one.column.name] = with_rare(one, found_keys(at, one, kept, scale, least), certain)
    return [told.get(one.column.name, one) for one in found]


def with_list(found: FoundColumn) -> FoundColumn:
    """The column with the public list that its known texts are from."""
    return replace(found, listed=list_of(found.texts)) if found.type == "string" else found


def listed_keys(at: int, found: FoundColumn) -> list[str]:
    """The keys of the listed values, which are not known yet, of the column at this place."""
    values = found.listed.values if found.listed else ()
    return [f"{at} t{value}" for value in values if value not in found.texts]


def found_keys(
    at: int, found: FoundColumn, kept: Mapping[str, int], scale: float, least: int
) -> dict[str, int]:
    """Of the column at this place the keys of `kept`, with counts in parts of WEIGHT: those that passed the
    threshold, and those listed that stand out from the noise of all of them. A code for what is rarer than
    the noise of the column's marginal is still nearer to the truth than `other`.
    """
    place, listed = f"{at} ", set(listed_keys(at, found))
    stands_out = scale * level(len(listed), FALSE)
    return {
        key.removeprefix(place): n if key in listed else n + least
        for key, n in kept.items()
        if key.startswith(place) and (key not in listed or n >= stands_out)
    }


def second_share(columns: int) -> Fraction:
    """The share of the second look at so many columns that have values to find."""
    return SECOND if columns >= COLUMNS else Fraction(0)


def is_looked_at(found: FoundColumn) -> bool:
    """Whether rarer values are looked for: of numbers and moments, where any value of their own was found,
    for the others have cells; of text, unless hardly any row shares its own.
    """
    if found.looks == "rare":
        return False
    return found.type == "string" or (found.type != "boolean" and bool(found.values or found.texts))


def with_rare(found: FoundColumn, more: dict[str, int], enough: float) -> FoundColumn:
    """The column with more keys, whose counts are in parts of WEIGHT."""
    values = {float(key[1:]): n // WEIGHT for key, n in more.items() if key[0] == "v"}
    texts = {key[1:]: n // WEIGHT for key, n in more.items() if key[0] == "t"}
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
