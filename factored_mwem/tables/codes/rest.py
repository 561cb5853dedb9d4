"""Rest: how often the values come that are not known yet. A row has one weight, and shares it among those
that it holds, so a row that holds a single one gives it all to that: weighted set union after a first look.

Source: Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin 2020 (set union, L2 weights); Swanberg,
Desfontaines, Haney 2023 (DP-SIPS: later looks pass over what an earlier one found).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.tables.codes.kinds import KINDS, MISSING
from factored_mwem.tables.codes.parsing import plain
from factored_mwem.tables.codes.profile import ColumnProfile, Weighted, empty_profiles
from factored_mwem.tables.inputs.table import Table

WEIGHT = 2**10
"""What a row has to give, in whole parts, so that sums are exact."""
CLAIM, LEAST_CLAIM = 16, 1
"""What a column claims of it: its squares are shared in proportion. Least where most rows hold none of the
values that were found, as in an identifier: in nearly every row it would take half of what is meant for a
rare category.
"""


@dataclass(frozen=True, slots=True)
class Known:
    """What of a column was found before: public. `kinds`, `unit`, `scale`, `format`: what counts as a number
    or moment, and how it is read; a value of another kind is a text. `claim`: of a row's squared weight.
    """

    kinds: tuple[str, ...]
    unit: str
    scale: float
    values: frozenset[float] = field(default_factory=frozenset)
    texts: frozenset[str] = field(default_factory=frozenset)
    claim: int = CLAIM
    format: str | None = None

    def unknown(self, column: ColumnProfile) -> np.ndarray:
        """bool[value]: those whose number, moment or text is not known; a null has none."""
        values = column.values
        if not self.kinds:
            known = pa.array([*self.texts, *MISSING, None], values.type)
            return ~pc.is_in(values, value_set=known).to_numpy(zero_copy_only=False)
        unknown: np.ndarray = column.kinds != KINDS.index("null")
        which, units = column.units(self.kinds, self.unit, self.scale)
        unknown[which] = ~np.isin(units, np.array(sorted(self.values), dtype=units.dtype))
        if self.texts:
            texts = pa.array(list(self.texts), values.type)
            of_texts = pc.is_in(values, value_set=texts).to_numpy(zero_copy_only=False)
            unknown[of_texts & ~np.isin(np.arange(len(unknown)), which)] = False
        return unknown


def shared(claim: int, most: int) -> np.ndarray:
    """int64[claims]: what a value of this `claim` gets of a row's WEIGHT where there are so many in all, up
    to `most`: its square is the square of WEIGHT times claim / claims, rounded down; so all add up to less.
    """
    squares = (WEIGHT**2 * claim // claims for claims in range(max(claim, 1), most + 1))
    return np.array([*[0] * claim, *map(math.isqrt, squares)], dtype=np.int64)


def weigh(
    columns: Sequence[pa.Array], known: Sequence[Known], times: np.ndarray | None = None
) -> list[tuple[pa.Array, np.ndarray]]:
    """Of each column, (its values that are not known, int64: the sum of what rows give them). A row has as
    many `times` WEIGHT to give as `int64[row]` says, or once.
    """
    places, unknown, distinct = [], [], []
    for column, own in zip(columns, known, strict=True):
        words = plain(column).dictionary_encode()
        part = ColumnProfile(own.format)
        part.add_counted(words.dictionary, pa.array(np.ones(len(words.dictionary), dtype=np.int64)))
        distinct.append(words.dictionary)
        unknown.append(np.append(own.unknown(part), False))  # the last stands for null
        places.append(pc.fill_null(words.indices, len(words.dictionary)).to_numpy())
    claims = np.zeros(len(places[0]) if places else 0, dtype=np.int64)
    for own, place, new in zip(known, places, unknown, strict=True):
        claims += own.claim * new[place]
    most = sum(own.claim for own in known)
    shares = {own.claim: shared(own.claim, most) for own in known}
    sums = []
    for own, values, place, new in zip(known, distinct, places, unknown, strict=True):
        rows = np.flatnonzero(new[place])
        weights = shares[own.claim][claims[rows]].astype(np.float64)  # sums stay far below 2^53
        if times is not None:
            weights *= times[rows]
        each = np.bincount(place[rows], weights, minlength=len(new)).astype(np.int64)
        which = np.flatnonzero(new)
        sums.append((values.take(pa.array(which)), each[which]))
    return sums


def empty_rests(schema: pa.Schema, known: Mapping[str, Known]) -> dict[str, ColumnProfile]:
    """The profiles of columns without a row, which read dates as is known."""
    profiles = empty_profiles(schema, list(known))
    for name, own in known.items():
        profiles[name].format = own.format
    return profiles


def weighed(
    table: Table, known: Mapping[str, Known], rows: Iterable[Weighted] | None = None
) -> dict[str, ColumnProfile]:
    """Of each column the profile of the values that are not known, in parts of WEIGHT; in one pass over the
    table's `rows`, of which one that weighs more has as much more to give.
    """
    columns, profiles = list(known), empty_rests(table.schema, known)
    for batch, times in rows or ((batch, None) for batch in table.batches(columns)):
        each = weigh(batch.columns, list(known.values()), times)
        for name, (values, sums) in zip(columns, each, strict=True):
            profiles[name].add_counted(values, pa.array(sums))
    return profiles
