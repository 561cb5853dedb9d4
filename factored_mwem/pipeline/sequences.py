"""Sequences: people whose rows come in order, each row given the one before it. Free, for the model is public.

A person is drawn first: how many rows, and what is the same in all of them. The first row is drawn given that
and that none is before it; each other row given the codes of the row before, after how much the column that
orders rows grows. So that column never falls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.companions import Companion, companions_of, least_step
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.model.drawing import Drawing
from factored_mwem.model.evidence import EvidenceDrawing
from factored_mwem.pipeline.people import PeopleBatches
from factored_mwem.tables.codes.decode import column_of
from factored_mwem.tables.codes.derive import decode_table


@dataclass(frozen=True, eq=False)
class SequenceBatches(PeopleBatches):
    """Rows of people in order: see PeopleBatches. `domain` has companions, which no row comes out with;
    `order` names the column that orders rows.
    """

    order: str = field(kw_only=True)
    _rows: EvidenceDrawing = field(init=False)
    _whole: Drawing = field(init=False)

    def _lay_out(self) -> None:
        object.__setattr__(self, "_rows", EvidenceDrawing(self.of_people))
        object.__setattr__(self, "_whole", Drawing(self.of_people))

    def _people(self, many: int, rng: np.random.Generator) -> dict[int, np.ndarray]:
        codes = self._whole.codes(many, rng)
        start = [at for at, (each, _) in self.companions.items() if each.kind == "start"]
        return {a: codes[a] for a in (*self.of_a_person, *start)}

    @cached_property
    def own(self) -> Domain:
        """Of the columns alone, which come before their companions."""
        return self.domain.project([name for name in self.domain.names if name in self.inner.names])

    @cached_property
    def companions(self) -> dict[int, tuple[Companion, int]]:
        """By the position of a companion: it, and the position of its column."""
        names, all_ = self.domain.modelled.names, companions_of(self.own, self.order, self.people.constant)
        return {names.index(each.attribute.name): (each, names.index(each.of)) for each in all_}

    @cached_property
    def clock(self) -> Clock | None:
        """How the column that orders rows goes on; None where it has no units."""
        for at, (companion, of) in self.companions.items():
            if companion.kind == "gap":
                shape = [self.of_people.levels.shape[a] for a in (of, at)]
                pair = self.of_people.marginal((of, at)).reshape(shape)
                return Clock(self.own[companion.of], companion, pair, of, at)
        return None

    def batch(self, number: int) -> pa.RecordBatch:
        rng, rows, clock = self.generator(number), self.length(number), self.clock
        each, people = self._drawn_people(rows, rng)
        begin, every = np.cumsum(each) - each, int(each.sum())
        codes = np.zeros((len(self.own.modelled), every), dtype=np.int64)
        times = np.ma.zeros(every, dtype=np.float64 if clock is None else clock.low.dtype)
        for t in range(int(each.max())):
            still = np.flatnonzero(each > t)
            given = {a: own[still] for a, own in people.items()}
            at = begin[still] + t
            if t == 0:
                given |= self._none_before(given)
                drawn = self._rows.codes_given(len(still), given, rng)
                now = None if clock is None else clock.begun(drawn[clock.of], rng)
            else:
                drawn, now = self._following(given, codes[:, at - 1], times[at - 1], rng)
            codes[:, at] = drawn[: len(codes)]
            if now is not None:
                times[at] = now
        person = np.repeat(np.arange(len(each)), each)[:rows]
        columns = decode_table(self.own, codes[:, :rows], self.inner, rng)
        cells = dict(zip(self.inner.names, columns, strict=True))
        if clock is not None and not clock.attribute.categorical:
            kind = self.inner.field(self.order).type
            cells[self.order] = clock.column(codes[clock.of, :rows], times[:rows], kind)
        return self._record(number, person, cells)

    def _none_before(self, given: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        """What is known of first rows, int64[row], beside what is given of their people."""
        rows = len(next(iter(given.values())))
        known = {}
        for a, (each, of) in self.companions.items():
            if each.kind == "start":
                known[of] = given[a]
            else:
                known[a] = np.full(rows, each.first)
        return known

    def _following(
        self,
        given: dict[int, np.ndarray],
        before: np.ndarray,
        time: np.ma.MaskedArray,
        rng: np.random.Generator,
    ) -> tuple[list[np.ndarray], np.ma.MaskedArray | None]:
        """(int64[row] per attribute, the values of the column that orders rows) of rows that follow those of
        codes `before: int64[attribute, row]`.
        """
        rows, clock = before.shape[1], self.clock
        given |= {a: before[of] for a, (each, of) in self.companions.items() if each.kind == "previous"}
        if clock is None:
            return self._rows.codes_given(rows, given, rng), None
        later, weights = clock.ahead(time, rng)
        gaps = self._rows.codes_given(rows, given, rng, (clock.at, weights))[clock.at]
        now = clock.chosen(time, later, gaps)
        given |= {clock.at: gaps, clock.of: clock.codes(now)}
        return self._rows.codes_given(rows, given, rng), now


class Clock:
    """How the column that orders rows goes on: `attribute`, at position `of`; its companion at `at`; and
    `pair: float64[code, gap]`, how often the model has each of them together.
    """

    def __init__(
        self, attribute: Attribute, companion: Companion, pair: np.ndarray, of: int, at: int
    ) -> None:
        self.attribute, self.of, self.at = attribute, of, at
        self.low, self.high = intervals(attribute)
        self._placed, self._gap = placed(attribute), companion.attribute
        self._first, self._unknown = companion.first, self._gap.size - 1
        self.least, self.most = self.low[self._placed].min(), self.high[self._placed].max()
        width = self.high.astype(np.float64) - self.low + (attribute.type != "number")
        width[width <= 0] = 1.0
        shares = pair / np.maximum(pair.sum(axis=0), 1e-300)
        self._density = shares / width[:, None]
        """float64[code, gap]: how dense rows lie there, of those of a gap."""
        self._alone = pair.sum(axis=1) / max(float(pair.sum()), 1e-300) / width

    def begun(self, codes: np.ndarray, rng: np.random.Generator) -> np.ma.MaskedArray:
        """A value of each code, int64 or float64[row]; masked where it has none."""
        values = self._within(self.low[codes], self.high[codes], rng.random(len(codes)))
        return np.ma.MaskedArray(self._stepped(values), mask=~self._placed[codes])

    def ahead(self, time: np.ma.MaskedArray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(the value after each gap, int64 or float64[row, gap]; float64[row, gap]: how dense rows of that
        gap lie there).

        By Bayes' rule a gap is the likelier the more rows of that gap there are as far on, so values end
        where they end among the rows of the model, and none is beyond the greatest.
        """
        low, high = intervals(self._gap)
        known, now = ~np.ma.getmaskarray(time), time.filled(self.least)
        values = self._within(low[None, :], high[None, :], rng.random(len(now))[:, None])
        later = now[:, None] + self._stepped(values)
        possible = now[:, None] + low[None, :] <= self.most
        later = self._snapped(np.clip(later, now[:, None], self.most))
        codes = self.codes(np.ma.MaskedArray(later.ravel())).reshape(later.shape)
        weights = np.where(possible, self._density[codes, np.arange(self._gap.size)], 0.0)
        weights[:, self._first] = 0.0
        weights[:, self._unknown] = self._alone[self.codes(np.ma.MaskedArray(now))]
        weights[~known] = np.arange(self._gap.size) == self._unknown
        return later, weights

    def chosen(self, time: np.ma.MaskedArray, later: np.ndarray, gaps: np.ndarray) -> np.ma.MaskedArray:
        """The value after each row's gap; masked where it is not known."""
        values = later[np.arange(len(gaps)), gaps]
        values = np.where(gaps == self._first, time.filled(self.least), values)
        unknown = (gaps == self._unknown) & self.attribute.nullable
        return np.ma.MaskedArray(values, mask=np.ma.getmaskarray(time) | unknown)

    def codes(self, values: np.ma.MaskedArray) -> np.ndarray:
        """int64[row]: of values that are `_snapped`."""
        a, units = self.attribute, values.filled(self.least)
        if a.categorical:
            order = np.argsort(self.low[self._placed], kind="stable")
            codes = order[np.clip(np.searchsorted(self.low[order], units), 0, len(order) - 1)]
        else:
            bins = np.clip(np.searchsorted(a.cuts, units, side="right") - 1, 0, len(a.cuts) - 2)
            codes = a.bin_codes[bins]
            if len(a.specials):
                place = np.clip(np.searchsorted(a.specials, units), 0, len(a.specials) - 1)
                codes = np.where(a.specials[place] == units, a.special_codes[place], codes)
        return np.where(np.ma.getmaskarray(values), a.missing_code, codes).astype(np.int64)

    def column(self, codes: np.ndarray, times: np.ma.MaskedArray, kind: pa.DataType) -> pa.Array:
        """The values, as the column's type has them."""
        return column_of(self.attribute, codes, times.filled(0), np.ma.getmaskarray(times), kind)

    def _within(self, low: np.ndarray, high: np.ndarray, luck: np.ndarray) -> np.ndarray:
        """From `low` to `high`, by `luck` in [0, 1)."""
        if self.attribute.type == "number":
            return low + luck * (high - low)
        return low + (luck * (high - low + 1)).astype(np.int64)

    def _stepped(self, values: np.ndarray) -> np.ndarray:
        """Multiples of the least step, no greater than the values."""
        a = self.attribute
        if a.type == "number":
            return values if a.decimals is None else np.round(values, a.decimals)
        return values - values % int(least_step(a)) if not a.categorical else values

    def _snapped(self, values: np.ndarray) -> np.ndarray:
        """Values that the attribute has: of listed ones the nearest."""
        if not self.attribute.categorical:
            return values
        listed = np.sort(self.low[self._placed])
        above = np.clip(np.searchsorted(listed, values), 1, len(listed) - 1)
        nearer = values - listed[above - 1] <= listed[above] - values
        return np.where(nearer, listed[above - 1], listed[above])
