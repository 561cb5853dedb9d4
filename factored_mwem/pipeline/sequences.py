"""Sequences: people whose rows come in order, each given the one before it. Free, for the model is public.

A person is drawn first: how many rows, what is the same in all of them, and where the column that orders them
begins and ends. The first row is drawn given that. Of each other row it is drawn first, given the codes of
the row before, how much the column that orders rows has grown, and how other columns have changed: what stays
the same is the same to the last digit, a number goes on by its change (unless trial draws are about as good
without), and of another column it is anything but what it was. The rest is drawn given that. So the column
that orders rows never falls.

Errors of single rows would add up along a person's: rows are drawn on trial, and the model that draws them is
reweighted by how far their columns, and how these go on, are from what was measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.companions import (
    SAME,
    Companion,
    Kind,
    companions_of,
    differs_by_steps,
    span_of,
)
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import View
from factored_mwem.model.drawing import Drawing
from factored_mwem.model.evidence import EvidenceDrawing
from factored_mwem.model.reweighted import tilted
from factored_mwem.pipeline.people import PeopleBatches, RowCounts
from factored_mwem.pipeline.scales import Scale, Walk
from factored_mwem.tables.codes.derive import decode_table

TRIAL, TRIALS, TRIAL_ROWS = 2**31, 5, 10_000
"""Number of the batch that is drawn on trial, no other's; how often, and of how many rows at most."""
FEW, MOST_FACTOR = 20.0, 4.0
"""Rows on trial that are too few to tell much, and the most that a factor is."""
STEP = 0.5
"""Of each correction, so much is made at first; less where that was no better."""
CLEAR = 1.5
"""Standard deviations of the noise of a measured pair that trial rows must be off to be corrected."""
AS_GOOD = 1.4
"""Times the distance of a column drawn by changes, below which it is drawn by value."""
TINY = 1e-9
"""Weight of a gap after which rows cannot end where they should."""
STEPS = 256
"""Steps from the least to the greatest value of the column that orders rows, at most."""


NONE = -1
"""A code that no row has."""
Tie = tuple[np.ndarray, np.ndarray]
"""(int64[row]: a code; bool[row]: whether the row has it, or any but it)."""


@dataclass(frozen=True, eq=False)
class SequenceBatches(PeopleBatches):
    """Rows of people in order: see PeopleBatches. `domain` has companions, which no row comes out with;
    `order` names the column that orders rows; `stddev`: of the noise of the coarsest measured pair, in the
    records of the model.
    """

    order: str = field(kw_only=True)
    stddev: float = field(kw_only=True)
    _rows: EvidenceDrawing = field(init=False)
    _whole: Drawing = field(init=False)
    _by_value: frozenset[int] = field(init=False, default=frozenset())
    """Positions of the columns that differ by steps and are drawn by their values all the same."""

    def _lay_out(self) -> None:
        object.__setattr__(self, "_rows", EvidenceDrawing(self.of_people))
        object.__setattr__(self, "_whole", Drawing(self.of_people))
        if not self.rows:
            return
        rng, step, best, least = self.generator(TRIAL), STEP, self._rows, np.inf
        object.__setattr__(self, "_by_value", self._told_by_values(rng))
        base, factors = self.of_people, dict[View, np.ndarray]()
        for _ in range(TRIALS):
            model = base
            for view, factor in factors.items():
                model = tilted(model, view, factor**step)
            object.__setattr__(self, "_rows", EvidenceDrawing(model))
            each, people = self._drawn_people(min(self.rows, TRIAL_ROWS), rng)
            codes, _ = self._in_order(each, people, rng)
            drift = {view: self._drift(view, codes, np.repeat(1 / each, each)) for view in self._views}
            error = sum(float(np.abs(wanted - had).sum()) for wanted, had in drift.values())
            if error < least:
                least, best, base = error, self._rows, model
                factors = {view: self._factors(view, *shares) for view, shares in drift.items()}
                factors = {view: each for view, each in factors.items() if (each != 1).any()}
            else:
                step /= 2
        object.__setattr__(self, "_rows", best)

    def _told_by_values(self, rng: np.random.Generator) -> frozenset[int]:
        """The positions of the columns that differ by steps whose values and changes come about as close to
        what was measured if each row's value is drawn as such as if it is the one before plus a change: where
        the change tells nothing that the two values do not, sums of changes only drift.
        """
        every = frozenset(walk.position for walk in self.walks)
        errors = []
        for way in (frozenset[int](), every) if every else ():
            object.__setattr__(self, "_by_value", way)
            each, people = self._drawn_people(TRIAL_ROWS, rng)
            codes, values = self._in_order(each, people, rng)
            begin, weights = np.cumsum(each) - each, np.repeat(1 / each, each)
            for walk in self.walks:
                codes[walk.at] = walk.changes(values[walk.position], begin)
            views = [[(walk.position,), (walk.at,)] for walk in self.walks]
            drifts = [[self._drift(view, codes, weights) for view in both] for both in views]
            errors.append([sum(float(np.abs(w - h).sum()) for w, h in both) for both in drifts])
        return frozenset(
            w.position for w, *e in zip(self.walks, *errors, strict=True) if e[1] < AS_GOOD * e[0]
        )

    @cached_property
    def _views(self) -> list[View]:
        """What of trial rows is held against the model: each column that is drawn anew in each row, and how
        it goes on from the row before, as finely as the model holds both together.
        """
        views: list[View] = [(a,) for a in sorted(self._previous)]
        changes = {of for each, of in self.companions.values() if each.kind == "change"}
        of_which = changes - self._by_value
        for at, (each, of) in self.companions.items():
            if each.kind == "change" and of in of_which:
                views += self._together(at, self._previous[of])
            elif each.kind == "previous" and of not in of_which:
                views += self._together(of, at)
        return views

    def _together(self, one: int, other: int) -> list[View]:
        """The view of two attributes of which a clique has the most cells; none if none holds both."""
        model, at, views = self.of_people, self.of_people.levels.attribute, list[View]()
        for clique in model.components_by_id[int(model.part_of[one])].tree.cliques:
            finest = {int(at[v]): v for v in sorted(clique, reverse=True) if at[v] in (one, other)}
            views += [model.levels.view(finest.values())] if len(finest) > 1 else []
        return sorted(views, key=model.levels.cells)[-1:]

    def _drift(self, view: View, codes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """float64[cell], the shares of the cells of a view: as they should be, and in trial rows. Of columns
        these are shares of rows; of pairs, of people, as these were measured: rows of a person weigh
        `weights` together 1.
        """
        levels, paired = self.of_people.levels, len(view) > 1
        model = self.of_people if paired else self.model
        wanted = model.marginal(view) / model.total
        cells = np.zeros(codes.shape[1], dtype=np.int64)
        for v in view:
            cells = cells * levels.sizes[v] + levels.groups[v][codes[levels.attribute[v]]]
        had = np.bincount(cells, weights if paired else None, len(wanted))
        return wanted, had / had.sum()

    def _factors(self, view: View, wanted: np.ndarray, had: np.ndarray) -> np.ndarray:
        """float64[cell]: how many more rows of each cell of a view there should be than on trial. A row is
        drawn given all that is known of the row before: what several columns of that tell of one, the model
        takes for as many witnesses, though they may tell the same. So rows stay what they are too often, or
        too seldom, and errors add up along a person's. Pairs that noise may have made so are left alone.
        """
        clear = np.abs(wanted - had) > CLEAR * self.stddev / self.of_people.total
        wanted = np.where(clear | (len(view) == 1), wanted, had)
        little = FEW / min(self.rows, TRIAL_ROWS)
        return np.clip((wanted + little) / (had + little), 1 / MOST_FACTOR, MOST_FACTOR)

    def _people(self, many: int, rng: np.random.Generator) -> dict[int, np.ndarray]:
        codes = self._whole.codes(many, rng)
        return {a: codes[a] for a in self._of_people}

    @property
    def _of_people(self) -> list[int]:
        """What a person has before any row is drawn."""
        ends = [at for at, (each, _) in self.companions.items() if each.kind in ("start", "end")]
        return [*self.of_a_person, *ends]

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

    @cached_property
    def walks(self) -> list[Walk]:
        """How the other columns that differ by steps go on."""
        found = [
            (self.own[each.of], of, each.attribute, at)
            for at, (each, of) in self.companions.items()
            if each.kind == "change"
        ]
        return [Walk(*facts) for facts in found if differs_by_steps(facts[0])]

    @property
    def scales(self) -> list[Scale]:
        return [*([] if self.clock is None else [self.clock]), *self.walks]

    @cached_property
    def _previous(self) -> dict[int, int]:
        """By the position of a column, that of its companion of the row before."""
        return {of: at for at, (each, of) in self.companions.items() if each.kind == "previous"}

    def at(self, kind: Kind) -> int:
        """The position of the companion of this kind of the column that orders rows."""
        return next(at for at, (each, _) in self.companions.items() if each.kind == kind)

    def given(
        self, number: int, each: np.ndarray, known: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> pa.RecordBatch:
        """Where the column that orders rows begins and ends is drawn first, given what is known."""
        held = np.flatnonzero(each)
        codes = self._rows.codes_given(len(held), {a: own[held] for a, own in known.items()}, rng)
        return self._rows_of(number, each[held], {a: codes[a] for a in self._of_people}, rng)

    def _rows_of(
        self, number: int, each: np.ndarray, people: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> pa.RecordBatch:
        person = np.repeat(np.arange(len(each)), each)
        codes, values = self._in_order(each, people, rng)
        columns = decode_table(self.own, list(codes[: len(self.own.modelled)]), self.inner, rng)
        cells = dict(zip(self.inner.names, columns, strict=True))
        for scale in self.scales:
            name, a = scale.attribute.name, scale.position
            if not scale.attribute.categorical:
                cells[name] = scale.column(codes[a], values[a], self.inner.field(name).type)
        return self._record(number, person, cells)

    def _in_order(
        self, each: np.ndarray, people: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, dict[int, np.ma.MaskedArray]]:
        """(int64[attribute, row], companions too; the values of each scale)."""
        begin, every = np.cumsum(each) - each, int(each.sum())
        codes = np.zeros((len(self.domain.modelled), every), dtype=np.int64)
        values = {s.position: np.ma.zeros(every, dtype=s.low.dtype) for s in self.scales}
        for t in range(int(each.max(initial=0))):
            still = np.flatnonzero(each > t)
            given = {a: own[still] for a, own in people.items()}
            at, now, tied = begin[still] + t, dict[int, np.ma.MaskedArray](), dict[int, Tie]()
            if t == 0:
                given |= self._none_before(given)
            else:
                given |= {
                    a: codes[of, at - 1] for a, (c, of) in self.companions.items() if c.kind == "previous"
                }
                before = {a: each[at - 1] for a, each in values.items()}
                now, tied = self._gone_on(given, before, each[still] - t - 1, rng)
            drawn = self._rows.codes_given(len(still), given, rng, tied=tied)
            codes[:, at] = drawn
            for a, (was, alike) in tied.items():  # where the model has no such row, what stays still stays
                codes[a, at] = np.where(alike, was, codes[a, at])
            for scale in self.scales:
                a = scale.position
                values[a][at] = now[a] if a in now else scale.begun(codes[a, at], rng)
        return codes, values

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

    def _gone_on(
        self,
        given: dict[int, np.ndarray],
        before: Mapping[int, np.ma.MaskedArray],
        left: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[dict[int, np.ma.MaskedArray], dict[int, Tie]]:
        """How rows go on from those whose values are `before`, put into what is `given` of them: (the values
        of each scale; what the codes of columns without one are, or are not). `left: int64[row]`: how many
        rows of the same person are to come.
        """
        clock, now, weights = self.clock, dict[int, np.ma.MaskedArray](), None
        if clock is not None:
            numbers, end = given[self.domain.modelled.index(ROWS_OF_PERSON)], given[self.at("end")]
            time = before[clock.position]
            later, likely = clock.ahead(time, Journey(numbers, left, end), rng)
            weights = self.at("gap"), likely
        drawn = self._rows.codes_given(len(left), given, rng, weights)
        if clock is not None:
            gaps = drawn[self.at("gap")]
            now[clock.position] = clock.chosen(time, later, gaps)
            given |= {self.at("gap"): gaps, clock.position: clock.codes(now[clock.position])}
        for walk in self.walks:
            if walk.position in self._by_value:
                continue
            a = walk.position
            now[a], codes = walk.on(before[a], drawn[walk.at], drawn[a], rng)
            given |= {a: codes, walk.at: drawn[walk.at]}
        tied = {}
        for at, (each, of) in self.companions.items():
            if each.kind == "change" and of not in now and of not in self._by_value:
                given[at] = drawn[at]
                was = given[self._previous[of]]
                tied[of] = (np.where(drawn[at] == each.first, NONE, was), drawn[at] == SAME)
        return now, tied


class Journey(NamedTuple):
    """Of rows: the code of how many their person has, how many are to come, and the code of the column that
    orders them in the last of them: int64[row].
    """

    numbers: np.ndarray
    left: np.ndarray
    end: np.ndarray


@dataclass(frozen=True, eq=False)
class Clock(Scale):
    """How the column that orders rows goes on, by `gap`s.

    `sums: float64[code of how many rows, rows to come, sum]`: how likely so many gaps come to a sum of at
    most so many steps of `step`. By it a person's rows end where their last one is said to be.
    """

    companion: Companion
    sums: np.ndarray
    step: float

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
        return cls(attribute, position, companion, sums, step)

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
        later = self.within(begin, np.maximum(begin, end), rng.random((len(now), 1)))
        later = self.snapped(np.clip(later, now, most))
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
