"""Usual rows: people whose rows go together as often as two rows of a real person do. Free, for the model is
public.

A person has a usual row, drawn from the model. Each row of theirs keeps some of its values, and the rest is
drawn given these, and given what is the same in all of their rows. In which columns a row keeps the usual
value is drawn apart from what the value is, so rows are distributed as usual rows are, as the model says: if
Z is drawn from P, and X from P given that it is as Z in some columns, X is drawn from P. All rows of a person
are drawn alike, in no order.

Two rows agree in a column where both keep the usual value, and else by chance, or because of what else they
keep. So a row keeps a value about as often as the root of what was counted says, beyond what chance gives;
rows drawn on trial show what is still missing: refining parts some rows that agreed, of more rows fewer, so
the last trial is of about as many as a batch. Columns whose codes are in order may keep a group of codes:
then a code of it is drawn by its share alone, so within a group columns go together less than in the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from factored_mwem.domain.agreement import groupings_of
from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.model.drawing import ConditionalDrawing, GroupedCodes
from factored_mwem.model.evidence import EvidenceDrawing
from factored_mwem.pipeline.people import PeopleBatches
from factored_mwem.tables.codes.agreement import agreement_of
from factored_mwem.tables.codes.derive import decode_table

TRIAL, TRIALS = 2**31, (10_000, 10_000, 20_000, 2**16)
"""Number of the batch that is drawn on trial, no other's; of how many rows at most, the first by chance."""
PATTERNS = 64
"""Ways in which a row of a batch may keep what is usual: as many are laid out."""
TOLD = 2.0
"""Standard deviations of its noise by which rows must agree more often than by chance."""
FINE = 2**20
"""Parts of a person that agreement on trial is counted in."""
MAX_CELLS = 2**13
"""Of trees that a row is drawn from, given what it keeps, on average: of models that need more, rows of a
person are drawn one by one.
"""


@dataclass(slots=True, eq=False)
class KeptColumn:
    """Attribute `at` of the model, where rows may keep the usual code or its group in coarser and coarser
    `groupings`. `wanted: float64[grouping]`: how often two rows of a person agree; `keeping`: how often a row
    keeps so much, or more; `gain`: how much more often two must for rows to agree in one pair more, 0 where
    noise hides whether they agree more often than by chance.
    """

    name: str
    at: int
    groupings: Sequence[GroupedCodes]
    wanted: np.ndarray
    keeping: np.ndarray
    gain: np.ndarray

    @classmethod
    def of(cls, batches: UsualBatches, name: str) -> KeptColumn:
        domain, model = batches.domain.modelled, batches.of_people
        at = domain.names.index(name)
        share = model.marginal((at,)) / model.total
        groups = (each.of_codes(np.arange(len(share))) for each in groupings_of(domain[name]))
        groupings = [GroupedCodes(share, group) for group in groups]
        wanted = np.array(batches.people.agreement[name])
        return cls(name, at, groupings, wanted, *np.zeros((2, len(groupings))))

    def begin(self, by_chance: np.ndarray, noise: float) -> None:
        """What rows keep where they agree so often by chance, as far as noise can tell."""
        told = self.wanted - by_chance > noise
        self.gain = np.where(told, 1 / np.maximum(1 - by_chance, 0.05), 0.0)
        self.learn(by_chance)

    def learn(self, had: np.ndarray) -> None:
        """Keep more, or less, where rows agreed so often: two keep the same as often as the square says. Who
        keeps a value keeps its group, too.
        """
        both = np.clip(self.keeping**2 + (self.wanted - had) * self.gain, 0.0, 1.0)
        self.keeping = np.maximum.accumulate(np.sqrt(both))

    def drawn(self, usual: np.ndarray, grouping: int, rng: np.random.Generator) -> np.ndarray:
        """int64[row]: codes of the groups that `usual: int64[row]` are in."""
        return self.groupings[grouping].drawn(usual, rng) if grouping else usual


@dataclass(frozen=True, eq=False)
class UsualBatches(PeopleBatches):
    """Rows of people who keep what is usual for them: see PeopleBatches."""

    _usual: ConditionalDrawing = field(init=False)
    _rows: EvidenceDrawing = field(init=False)
    _kept: list[KeptColumn] = field(init=False)

    def _lay_out(self) -> None:
        super()._lay_out()
        names = self.people.agreement if self.rows else ()
        object.__setattr__(self, "_kept", [KeptColumn.of(self, name) for name in names])
        if not self._kept:
            return
        numbers = [self.domain.modelled.index(ROWS_OF_PERSON)]  # first, so that they hardly vary
        object.__setattr__(self, "_usual", ConditionalDrawing(self.of_people, numbers, math.inf))
        object.__setattr__(self, "_rows", EvidenceDrawing(self.of_people))
        rng = self.generator(TRIAL)
        by_chance = self._on_trial(TRIALS[0], rng)
        for column, had in zip(self._kept, by_chance, strict=True):
            column.begin(had, TOLD * self.people.agreement_stddev)
        for rows in TRIALS[1:]:
            if self._cells(rng) > MAX_CELLS:
                self._kept.clear()
                return
            for column, had in zip(self._kept, self._on_trial(rows, rng), strict=True):
                column.learn(had)

    @property
    def alone(self) -> bool:
        """Whether rows of a person are drawn one by one, as if nobody had counted how often they agree."""
        return not self._kept

    def _on_trial(self, rows: int, rng: np.random.Generator) -> list[np.ndarray]:
        """float64[grouping] of each column: how often two rows of a person agree in so many rows drawn."""
        each, people = self._drawn_people(min(self.length(0), rows), rng)
        person = np.repeat(np.arange(len(each)), each)
        codes = self.refined(self._in_parts(person, people, rng), rng, self.of_a_person)
        own = self.domain.modelled
        groupings = {column.name: groupings_of(own[column.name]) for column in self._kept}
        numbers = agreement_of(person, {c.name: codes[c.at] for c in self._kept}, groupings, FINE)
        ends = np.cumsum([len(column.groupings) for column in self._kept])[:-1]
        return np.split(numbers[1:] / max(int(numbers[0]), 1), ends)

    def _cells(self, rng: np.random.Generator) -> float:
        """That a row is drawn from, on average."""
        fixed, patterns = self.of_a_person, self._patterns(rng)
        kept = [[c.at for c, level in zip(self._kept, p, strict=True) if level is not None] for p in patterns]
        return float(np.mean([self._rows.cells_given([*fixed, *own]) for own in kept]))

    def _people(self, many: int, rng: np.random.Generator) -> dict[int, np.ndarray]:
        """int64[person] of each attribute: what is the same in all rows, and what is usual."""
        if not self._kept:
            return super()._people(many, rng)
        return dict(enumerate(self._usual.codes_given(self._usual.given(many, rng), rng)))

    def given(
        self, number: int, each: np.ndarray, known: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> pa.RecordBatch:
        """What is usual is drawn first, given what is known; other rows than a person's own have none."""
        if not self._kept or set(known) != set(self.of_a_person):
            return super().given(number, each, known, rng)
        people = dict(enumerate(self._rows.codes_given(len(each), known, rng)))
        return self._rows_of(number, each, people, rng)

    def _rows_of(
        self, number: int, each: np.ndarray, people: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> pa.RecordBatch:
        if not self._kept:
            return super()._rows_of(number, each, people, rng)
        person = np.repeat(np.arange(len(each)), each)
        codes = self.refined(self._in_parts(person, people, rng), rng, self.of_a_person)
        cells = dict(zip(self.inner.names, decode_table(self.domain, codes, self.inner, rng), strict=True))
        return self._record(number, person, cells)

    def _patterns(self, rng: np.random.Generator) -> list[tuple[int | None, ...]]:
        """What a row may keep, each as often: of each column the grouping, or None. Of every column as many
        keep so much as its share says.
        """
        places = (np.arange(PATTERNS) + 0.5) / PATTERNS
        ways = [np.searchsorted(c.keeping, rng.permutation(places)).tolist() for c in self._kept]
        most = [len(column.groupings) for column in self._kept]
        return [
            tuple(way if way < end else None for way, end in zip(pattern, most, strict=True))
            for pattern in zip(*ways, strict=True)
        ]

    def _in_parts(
        self, person: np.ndarray, people: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> Sequence[np.ndarray]:
        """int64[row] of each attribute: rows of `person: int64[row]`, by pattern."""
        codes = [np.zeros(len(person), dtype=np.int64) for _ in self.domain.modelled]
        pattern = rng.integers(0, PATTERNS, len(person))
        for number, ways in enumerate(self._patterns(rng)):
            rows = np.flatnonzero(pattern == number)
            given = {a: people[a][person[rows]] for a in self.of_a_person}
            for column, way in zip(self._kept, ways, strict=True):
                if way is not None:
                    given[column.at] = column.drawn(people[column.at][person[rows]], way, rng)
            for a, drawn in enumerate(self._rows.codes_given(len(rows), given, rng)):
                codes[a][rows] = drawn
        return codes
