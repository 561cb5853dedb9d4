"""Drafted: the attribute that a column's own values suggest. NOT PRIVATE: for drafts, which a person reviews,
and for public tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from factored_mwem.domain.attribute import MAX_NUMBER, ONE_BIN_EACH, WIDEST, Attribute
from factored_mwem.domain.coarse_grids import MICROS_A_DAY
from factored_mwem.domain.grids import with_values_left
from factored_mwem.tables.codes.kinds import KINDS, MOMENTS, NUMBERS, RESOLUTIONS, ZONES, written
from factored_mwem.tables.codes.mass import MOST_BINS, RARE, mass_edges, popular
from factored_mwem.tables.codes.notation import told_exactly
from factored_mwem.tables.codes.profile import MAX_POPULAR, ColumnProfile

MAX_CATEGORIES = 200
"""A text column with more values keeps its most frequent ones; the rest become `other`."""
FEW = 32
"""Numbers and moments with at most so many values become categories."""
MOST_SENTINELS = 8
"""Most special texts in a column of numbers; with more, the column is text."""
OTHER = "other"
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The first day of the year 1 and the last of 9999, in days since 1970."""


def drafted_attribute(name: str, column: ColumnProfile, typed: str | None) -> Attribute:
    """A column as its profile shows it; `typed`: its kind where the table is typed, else None."""
    notation = _notation(column) if typed is None else None
    column.read_as(notation)
    votes = dict(zip(KINDS, column.votes().tolist(), strict=True))
    form = _form(column, votes, typed)
    null = votes["null"] + (votes["marker"] if form.type != "string" else 0)
    constraints: dict[str, Any] = {"required": not null and not form.lost}
    facts: dict[str, Any] = {"name": name, "type": form.type, "constraints": constraints}
    if form.type == "string":
        facts |= _texts(column)
    elif form.type != "boolean":
        facts |= _precision(votes, form)
        if form.type == "number" and (form.sentinels or notation):
            facts["zeros"] = _zeros(column)
        if notation is not None and form.kinds == NUMBERS:
            facts["format"] = notation
        if form.type == "datetime" and typed is None:
            facts["timeZone"] = _zone(column)
        listed = _values(_distinct(column, form, facts.get("decimals")), form.sentinels)
        constraints |= listed.pop("constraints", {})
        facts |= listed
    return Attribute.model_validate(facts)


@dataclass(frozen=True, slots=True)
class _Form:
    """The form of a column: values of `type`, with texts as `sentinels`, and whether rare texts are
    `lost`.
    """

    type: str
    kinds: tuple[str, ...] = ()
    sentinels: tuple[str, ...] = ()
    lost: bool = False


def _form(column: ColumnProfile, votes: dict[str, int], typed: str | None) -> _Form:
    """The form by the type of a typed column, else by the narrowest kind that covers all but a few texts."""
    present = {kind for kind in KINDS if votes[kind]} - {"null", "marker"}
    if typed == "boolean" or (typed is None and present == {"boolean"}):
        return _Form("boolean")
    for family, narrow, wide in ((NUMBERS, "integer", "number"), (MOMENTS, "date", "datetime")):
        own = present & set(family)
        kind = narrow if own == {narrow} and not _zeros(column) else wide
        if typed in (narrow, wide):
            return _Form(kind if typed == "number" else typed, family)
        if typed is not None or not own or "code" in present:
            continue
        texts = column.texts((*family, "marker"))
        listed, rare = _frequent(texts)
        many = int(np.isin(column.kinds, [KINDS.index(k) for k in family]).sum()) > FEW
        few_texts = len(listed) <= MOST_SENTINELS and 100 * rare <= sum(votes[k] for k in family)
        if not texts or (many and few_texts):
            return _Form(kind, family, tuple(listed), bool(rare))
    return _Form("string")


def _texts(column: ColumnProfile) -> dict[str, Any]:
    """The frequent texts; of a column where most rows hold a rare one, none."""
    texts = column.texts(())
    frequent, rare = _frequent(texts)
    if 2 * rare > sum(texts.values()):
        return {"categories": [OTHER], "other": OTHER}
    listed = frequent[:MAX_CATEGORIES]
    if len(listed) == len(texts) and texts:
        return {"categories": sorted(listed)}
    return {"categories": [*sorted(set(listed) - {OTHER}), OTHER], "other": OTHER}


def _frequent(texts: dict[str, int]) -> tuple[list[str], int]:
    """(the texts of RARE rows or more, most frequent first; the rows of all others)."""
    frequent = sorted((t for t in texts if texts[t] >= RARE), key=lambda t: (-texts[t], t))
    return frequent, sum(n for n in texts.values() if n < RARE)


def _precision(votes: dict[str, int], form: _Form) -> dict[str, Any]:
    """How finely the numbers or timestamps are written."""
    if form.type == "number" and not votes["number"]:
        return {"decimals": max(d for d, kind in enumerate(NUMBERS[:-1]) if d == 0 or votes[kind])}
    if form.type == "datetime" and not votes["datetime"]:
        return {"resolution": next((r for r in reversed(RESOLUTIONS) if votes[r]), None)}
    return {}


def _notation(column: ColumnProfile) -> str | None:
    """How most of the numbers are written that are not plain; None if there are none."""
    numbers = column.votes()[[KINDS.index(kind) for kind in NUMBERS]].sum()
    told, _ = told_exactly(column.values, column.counts, float(numbers))
    return None if told is None else told.pattern


def _zeros(column: ColumnProfile) -> int | None:
    """How many zeros most whole numbers have behind a point; None if that is none."""
    votes = column.spelt_votes()
    counts = votes[len(KINDS) :]
    most = int(np.argmax(counts))
    return most + 1 if counts[most] > votes[KINDS.index("integer")] else None


def _zone(column: ColumnProfile) -> str | None:
    """The time zone of the timestamps: the one that all name, UTC if most name different ones, else None."""
    rows = column.zones()
    zones = np.flatnonzero(rows[1:]) + 1
    if 2 * rows[0] >= rows.sum():
        return None
    return ZONES[int(zones[0])] if len(zones) == 1 and not rows[0] else "UTC"


@dataclass(frozen=True, slots=True)
class _Distinct:
    """The distinct numbers or moments of a column, ascending, and their counts (int64[value]).

    `units` are those of an attribute's cuts; of numbers that are written with so many decimals, whole
    `steps`.
    """

    kind: str
    units: np.ndarray
    counts: np.ndarray
    steps: int = 1

    @property
    def whole(self) -> bool:
        return self.units.dtype == np.int64

    def written(self, units: np.ndarray, *, end: bool = False) -> list[Any]:
        return written(self.kind, units, steps=self.steps, end=end)


def _distinct(column: ColumnProfile, form: _Form, decimals: int | None) -> _Distinct:
    """A column's numbers or moments, clipped to the range of a domain."""
    units, counts = column.numbers(form.kinds, form.type)
    most, steps = {"integer": WIDEST, "number": MAX_NUMBER / 4}.get(form.type), 1
    scale = MICROS_A_DAY if form.type == "datetime" else 1
    units = np.clip(units, *((-most, most) if most else (FIRST_DAY * scale, (LAST_DAY + 1) * scale - 1)))
    if decimals is not None and np.abs(units).max(initial=0) * 10**decimals < MAX_POPULAR:
        steps = 10**decimals
        units = np.rint(units * steps).astype(np.int64)
    if not len(units):  # nothing is known of it
        return _Distinct(form.type, np.arange(2), np.zeros(2, np.int64))
    distinct, place = np.unique(units, return_inverse=True)
    return _Distinct(form.type, distinct, np.bincount(place, counts).astype(np.int64), steps)


def _values(distinct: _Distinct, sentinels: tuple[str, ...]) -> dict[str, Any]:
    """Categories, or special values and bins, of a column of numbers or moments."""
    units, counts, numbers = distinct.units, distinct.counts, distinct.kind in ("integer", "number")
    exact = np.abs(units / distinct.steps) < MAX_POPULAR if numbers else np.full(len(units), True)
    spikes = popular(counts) & exact
    some = len(units) <= FEW and counts.min() > 1
    inside = _one_bin_each(units, spikes) if distinct.whole else None
    if not sentinels and exact.all() and (some or (spikes.all() and inside is None)):
        return {"categories": distinct.written(units), "categoriesOrdered": True}
    facts: dict[str, Any] = {}
    if inside is not None:
        spikes = spikes & ~inside
        low, high = units[inside][[0, -1]].tolist()
        if distinct.kind == "number":
            facts["edges"] = distinct.written(np.arange(low, high + 2), end=True)
        else:
            ends = distinct.written(np.array([low, high]))
            facts["constraints"] = dict(zip(("minimum", "maximum"), ends, strict=True))
    else:
        rest = ~spikes if not spikes.all() else spikes
        bins = max(MOST_BINS - int(spikes.sum()), MOST_BINS // 2)
        unit = "integer" if distinct.whole and numbers else distinct.kind
        cuts = with_values_left(mass_edges(units[rest], counts[rest], unit, bins), units[spikes].tolist())
        facts["edges"] = distinct.written(cuts, end=True)
    facts["specialValues"] = [*distinct.written(units[spikes]), *sentinels] or None
    if sentinels:
        facts["other"] = sentinels[0]
    return facts


def _one_bin_each(units: np.ndarray, spikes: np.ndarray) -> np.ndarray | None:
    """bool[value]: the values of a short range in which most whole numbers occur, if beyond it there are only
    popular ones.
    """
    ends = np.searchsorted(units, units + ONE_BIN_EACH)
    first = int(np.argmax(ends - np.arange(len(units))))
    inside = np.zeros(len(units), dtype=bool)
    inside[first : ends[first]] = True
    span = int(units[inside][-1]) - int(units[first]) + 1
    return inside if 2 * int(inside.sum()) >= span and (spikes | inside).all() else None
