"""Sequences: people whose rows come in order, each given the one before it. Free, for the model is public.

A person is drawn first: how many rows, what is the same in all of them, and where the column that orders them
begins and ends. The first row is drawn given that; each other row given the codes of the row before, after
how much the column that orders rows has grown. So that column never falls.

Errors of single rows would add up along a person's: rows are drawn on trial, and the model that draws them is
reweighted by how far their columns are from those of the model of rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.companions import Companion, Kind, companions_of, least_step, span_of
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.model.drawing import Drawing
from factored_mwem.model.evidence import EvidenceDrawing
from factored_mwem.model.reweighted import reweighted
from factored_mwem.pipeline.people import PeopleBatches, RowCounts
from factored_mwem.tables.codes.decode import column_of
from factored_mwem.tables.codes.derive import decode_table

TRIAL, TRIALS, TRIAL_ROWS = 2**31, 2, 20_000
"""Number of the batch that is drawn on trial, no other's; how often, and of how many rows at most."""
FEW, MOST_FACTOR = 20.0, 4.0
"""Rows on trial that are too few to tell much, and the most that a factor is."""
TINY = 1e-9
"""Weight of a gap after which rows cannot end where they should."""
STEPS = 256
"""Steps from the least to the greatest value of the column that orders rows, at most."""


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
        if not self.rows:
            return
        model, rng = self.of_people, self.generator(TRIAL)
        for _ in range(TRIALS):
            codes, _ = self._in_order(*self._drawn_people(min(self.rows, TRIAL_ROWS), rng), rng)
            for a in self._varying:
                model = reweighted(model, a, self._factors(a, codes[a]))
            object.__setattr__(self, "_rows", EvidenceDrawing(model))

    @property
    def _varying(self) -> list[int]:
        """The columns that are drawn anew in each row, but for what puts rows in order."""
        clocked = None if self.clock is None else self.clock.position
        return sorted({of for each, of in self.companions.values() if each.kind == "previous"} - {clocked})

    def _factors(self, a: int, codes: np.ndarray) -> np.ndarray:
        """float64[code]: how many more rows of each code of an attribute there should be than on trial, where
        each row was drawn given the one before: errors add up along a person's rows.
        """
        wanted = self.model.marginal((a,)) / self.model.total
        had = np.bincount(codes, minlength=len(wanted)) / len(codes)
        little = FEW / len(codes)
        return np.clip((wanted + little) / (had + little), 1 / MOST_FACTOR, MOST_FACTOR)

    def _people(self, many: int, rng: np.random.Generator) -> dict[int, np.ndarray]:
        codes = self._whole.codes(many, rng)
        ends = [at for at, (each, _) in self.companions.items() if each.kind in ("start", "end")]
        return {a: codes[a] for a in (*self.of_a_person, *ends)}

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
        gap = next((each for each, _ in self.companions.values() if each.kind == "gap"), None)
        if gap is None:
            return None
        names = self.domain.modelled.names
        numbers, at = names.index(ROWS_OF_PERSON), self.at("gap")
        view = (min(numbers, at), max(numbers, at))
        pair = self.of_people.marginal(view).reshape([self.of_people.levels.shape[a] for a in view])
        pair = pair if numbers < at else pair.T
        return Clock.of(self.own[gap.of], gap, pair, self.counts, names.index(gap.of))

    def at(self, kind: Kind) -> int:
        """The position of the companion of this kind of the column that orders rows."""
        return next(at for at, (each, _) in self.companions.items() if each.kind == kind)

    def _rows_of(
        self, number: int, each: np.ndarray, people: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> pa.RecordBatch:
        person, clock = np.repeat(np.arange(len(each)), each), self.clock
        codes, times = self._in_order(each, people, rng)
        columns = decode_table(self.own, list(codes), self.inner, rng)
        cells = dict(zip(self.inner.names, columns, strict=True))
        if clock is not None and not clock.attribute.categorical:
            kind = self.inner.field(self.order).type
            cells[self.order] = clock.column(codes[clock.position], times, kind)
        return self._record(number, person, cells)

    def _in_order(
        self, each: np.ndarray, people: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ma.MaskedArray]:
        """(int64[attribute, row]; the values of the column that orders rows, where it has units)."""
        clock = self.clock
        begin, every = np.cumsum(each) - each, int(each.sum())
        codes = np.zeros((len(self.own.modelled), every), dtype=np.int64)
        times = np.ma.zeros(every, dtype=np.float64 if clock is None else clock.low.dtype)
        for t in range(int(each.max())):
            still = np.flatnonzero(each > t)
            given = {a: own[still] for a, own in people.items()}
            at = begin[still] + t
            now = None
            if t == 0:
                given |= self._none_before(given)
            else:
                given |= {
                    a: codes[of, at - 1] for a, (c, of) in self.companions.items() if c.kind == "previous"
                }
                if clock is not None:
                    now = self._grown(given, times[at - 1], each[still] - t - 1, rng)
            drawn = self._rows.codes_given(len(still), given, rng)
            codes[:, at] = drawn[: len(codes)]
            if clock is not None:
                times[at] = clock.begun(codes[clock.position, at], rng) if now is None else now
        return codes, times

    def _none_before(self, given: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        """What is known of first rows, int64[row], beside what is given of their people."""
        rows = len(next(iter(given.values())))
        known = {}
        for a, (each, of) in self.companions.items():
            if each.kind == "start":
                known[of] = given[a]
            elif each.kind != "end":
                known[a] = np.full(rows, each.first)
        return known

    def _grown(
        self,
        given: dict[int, np.ndarray],
        time: np.ma.MaskedArray,
        left: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ma.MaskedArray:
        """What the column that orders rows is in rows that follow those where it is `time`: by a gap drawn
        given what is known of the rows, which is added to that. `left: int64[row]`: how many rows of the same
        person are to come.
        """
        clock, gap = self.clock, self.at("gap")
        assert clock is not None
        numbers, end = given[self.domain.modelled.index(ROWS_OF_PERSON)], given[self.at("end")]
        later, weights = clock.ahead(time, Journey(numbers, left, end), rng)
        gaps = self._rows.codes_given(len(left), given, rng, (gap, weights))[gap]
        now = clock.chosen(time, later, gaps)
        given |= {gap: gaps, clock.position: clock.codes(now)}
        return now


class Journey(NamedTuple):
    """Of rows: the code of how many their person has, how many are to come, and the code of the column that
    orders them in the last of them: int64[row].
    """

    numbers: np.ndarray
    left: np.ndarray
    end: np.ndarray


@dataclass(frozen=True, eq=False)
class Clock:
    """How the column that orders rows, `attribute` at `position` of the model, goes on, by `gap`s.

    `sums: float64[code of how many rows, rows to come, sum]`: how likely so many gaps come to a sum of at
    most so many steps of `step`. By it a person's rows end where their last one is said to be.
    """

    attribute: Attribute
    companion: Companion
    sums: np.ndarray
    step: float
    position: int

    @classmethod
    def of(
        cls, attribute: Attribute, companion: Companion, pair: np.ndarray, counts: RowCounts, position: int
    ) -> Clock:
        """`pair: float64[code of how many rows, gap]`: how often the model has them together."""
        gap, span = companion.attribute, span_of(attribute)
        low, high = (bound.astype(np.float64) for bound in intervals(gap))
        step = max(span / STEPS, 1.0 if gap.type == "integer" else 1e-300)
        cells = int(np.ceil(span / step)) + 1
        begin, end = np.floor(low / step), np.minimum(np.floor(high / step), cells - 1)
        spread = np.zeros((gap.size, cells))
        for g in np.flatnonzero(placed(gap) & (low >= 0) & (begin < cells)).tolist():
            spread[g, int(begin[g]) : int(end[g]) + 1] = 1 / (end[g] - begin[g] + 1)
        known = pair @ spread
        known /= np.maximum(known.sum(axis=1, keepdims=True), 1e-300)
        sums = np.ones((counts.size, len(counts.codes), cells))
        for code, left in itertools.product(range(counts.size), range(1, len(counts.codes))):
            sums[code, left] = np.convolve(known[code], sums[code, left - 1])[:cells]
        return cls(attribute, companion, sums, step, position)

    @cached_property
    def low(self) -> np.ndarray:
        """int64 or float64[code]: the least value of each."""
        return intervals(self.attribute)[0]

    @cached_property
    def high(self) -> np.ndarray:
        return intervals(self.attribute)[1]

    @cached_property
    def known(self) -> np.ndarray:
        """bool[code]: whether it stands for values."""
        return placed(self.attribute)

    @property
    def ends(self) -> tuple[Any, Any]:
        """The least and the greatest value."""
        return self.low[self.known].min(), self.high[self.known].max()

    def begun(self, codes: np.ndarray, rng: np.random.Generator) -> np.ma.MaskedArray:
        """A value of each code, int64 or float64[row]; masked where it has none."""
        values = self._within(self.low[codes], self.high[codes], rng.random(len(codes)))
        return np.ma.MaskedArray(values, mask=~self.known[codes])

    def ahead(
        self, time: np.ma.MaskedArray, journey: Journey, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """(the value after each gap, int64 or float64[row, gap]; float64[row, gap]: how likely the rows to
        come end where the last one is then). Where they cannot, it counts whether they end at all before the
        greatest value.
        """
        gap, (least, most) = self.companion.attribute, self.ends
        now = time.filled(least)[:, None]
        low, high = (now + bound[None, :] for bound in intervals(gap))
        first, last = self.low[journey.end][:, None], self.high[journey.end][:, None]
        final = (journey.left == 0)[:, None] & self.known[journey.end][:, None]
        into = final & (low <= last) & (high >= first)  # the last gap must end within the last code
        share = (np.minimum(high, last) - np.maximum(low, first) + 1.0) / (high - low + 1.0)
        begin = np.where(into, np.maximum(low, first), low)
        end = np.where(into, np.minimum(high, last), np.minimum(high, most))
        later = self._within(begin, np.maximum(begin, end), rng.random((len(now), 1)))
        later = self._snapped(np.clip(later, now, most))
        arrives = self._sums(journey, last - later) - self._sums(journey, first - later - self.step)
        weights = np.where(into, share, np.where(final, 0.0, np.maximum(arrives, 0.0)))
        weights = weights + TINY * self._sums(journey, most - later) + TINY**2
        unknown = gap.size - 1
        weights *= (low <= most) & (np.arange(gap.size) != self.companion.first)
        weights[:, unknown] = TINY
        weights[np.ma.getmaskarray(time)] = np.arange(gap.size) == unknown
        return later, weights

    def _sums(self, journey: Journey, room: np.ndarray) -> np.ndarray:
        """float64[row, gap]: how likely the gaps to come are no more than the room together."""
        cells = np.floor(room / self.step).astype(np.int64)
        inside = np.clip(cells, 0, self.sums.shape[2] - 1)
        return np.where(cells < 0, 0.0, self.sums[journey.numbers[:, None], journey.left[:, None], inside])

    def chosen(self, time: np.ma.MaskedArray, later: np.ndarray, gaps: np.ndarray) -> np.ma.MaskedArray:
        """The value after each row's gap; masked where it is not known."""
        values = later[np.arange(len(gaps)), gaps]
        values = np.where(gaps == self.companion.first, time.filled(0), values)
        unknown = (gaps == self.companion.attribute.size - 1) & self.attribute.nullable
        return np.ma.MaskedArray(values, mask=np.ma.getmaskarray(time) | unknown)

    def codes(self, values: np.ma.MaskedArray) -> np.ndarray:
        """int64[row]: the codes of values that the attribute has."""
        a, units = self.attribute, values.filled(self.ends[0])
        if a.categorical:
            order = np.argsort(self.low[self.known], kind="stable")
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
        """From `low` to `high`, by `luck` in [0, 1): a multiple of the least step, where it is whole."""
        a = self.attribute
        if a.type == "number":
            values = low + luck * (high - low)
            return values if a.decimals is None else np.round(values, a.decimals)
        values = low + (luck * (high - low + 1)).astype(np.int64)
        return values if a.categorical else values - values % int(least_step(a))

    def _snapped(self, values: np.ndarray) -> np.ndarray:
        """Values that the attribute has: of listed ones the nearest."""
        if not self.attribute.categorical:
            return values
        listed = np.sort(self.low[self.known])
        above = np.clip(np.searchsorted(listed, values), 1, len(listed) - 1)
        nearer = values - listed[above - 1] <= listed[above] - values
        return np.where(nearer, listed[above - 1], listed[above])
