"""People: rows of a model in which each person weighs one, drawn as people: each has an id that is made up
and as many rows as the model says. Free, for the model is public.

People are drawn first: how many rows each has, and what is the same in all of them; then their rows, each
given that alone. So the marginals of rows are those of the model of rows (model/reweighted.py), which they
are refined towards; beyond what is given, rows of a person go together no more than any others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from factored_mwem.accounting.unit import Unit
from factored_mwem.answers.people import PeopleCounted
from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.model.drawing import ConditionalDrawing
from factored_mwem.model.evidence import EvidenceDrawing
from factored_mwem.model.forest import Forest
from factored_mwem.model.reweighted import reweighted
from factored_mwem.pipeline.record.manifest import PeopleFacts
from factored_mwem.pipeline.sampling import Batches
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.derive import decode_table


@dataclass(frozen=True, slots=True, eq=False)
class RowCounts:
    """The numbers n of rows of a person, from 1 on, and the code of each: `codes: int64[n - 1]`, of `size`
    codes. `within: float64[n - 1]`: how often each is among those of its code.
    """

    unit: Unit
    codes: np.ndarray
    size: int
    within: np.ndarray

    @classmethod
    def of(cls, attribute: Attribute, unit: Unit, most: int, people: np.ndarray | None = None) -> RowCounts:
        """Up to `most`, as the attribute ROWS_OF_PERSON has them; `people: float64[code]`: how many have
        each, to which the numbers of a code follow.
        """
        numbers = pa.array(range(1, most + 1), pa.int32())
        codes = encode(attribute, numbers).astype(np.int64)
        within = np.ones(most) if people is None else sloping(codes, people)
        return cls(unit, codes, attribute.size, within)

    @classmethod
    def in_model(cls, model: Forest, domain: Domain, unit: Unit, most: int) -> RowCounts:
        """As a model of people has them."""
        people = model.marginal((domain.modelled.index(ROWS_OF_PERSON),))
        return cls.of(domain[ROWS_OF_PERSON], unit, most, people)

    @property
    def each(self) -> np.ndarray:
        """float64[n - 1]: rows that a grain stands for, of people with n rows."""
        return np.array([1 / self.unit.row_weight(n) for n in range(1, len(self.codes) + 1)])

    def weights(self, each: np.ndarray) -> np.ndarray:
        """float64[code]: the mean of `each: float64[n - 1]` over the numbers of a code; of a code that no
        number has, the mean of all.
        """
        held = np.bincount(self.codes, self.within, minlength=self.size)
        summed = np.bincount(self.codes, each * self.within, minlength=self.size)
        return np.where(held > 0, summed / np.where(held > 0, held, 1.0), each.mean())

    def drawn(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """int64[person]: how many rows each has, by its code; one of those that the code stands for, each of
        these within one person of its share.
        """
        numbers = np.ones(len(codes), dtype=np.int64)
        for code in np.unique(codes).tolist():
            own, people = np.flatnonzero(self.codes == code) + 1, np.flatnonzero(codes == code)
            if len(own):
                ends = np.cumsum(self.within[own - 1] / self.within[own - 1].sum())
                places = (rng.permutation(len(people)) + rng.random()) / len(people)
                numbers[people] = own[np.minimum(np.searchsorted(ends, places), len(own) - 1)]
        return numbers


def people_counted(people: PeopleFacts, domain: Domain, unit: Unit) -> PeopleCounted:
    """What answers are told of a release of people."""
    counts = RowCounts.of(domain[ROWS_OF_PERSON], unit, people.most_rows)
    weights = np.array([unit.row_weight(n) for n in range(1, people.most_rows + 1)])
    return PeopleCounted(people.constant, counts.codes, counts.size, weights)


def sloping(codes: np.ndarray, people: np.ndarray) -> np.ndarray:
    """float64[n - 1]: how often a number n is among those of its code, `codes: int64[n - 1]`, rising; of
    codes that `people: float64[code]` have. A line in each code, whose slope is the lesser of those to the
    means of its neighbours and 0 where these differ in sign (minmod, van Leer 1979): the sum of a code stays,
    and none is below 0. Beyond the last code there is nobody.
    """
    known, at, wide = np.unique(codes, return_inverse=True, return_counts=True)
    mean = np.maximum(people[known], 0.0) / wide
    middle = np.cumsum(wide) - wide / 2
    slopes = np.diff(mean) / np.diff(middle)
    before = np.concatenate([[0.0], slopes])
    after = np.concatenate([slopes, [-mean[-1] / wide[-1]]])
    least = np.sign(before) * np.minimum(np.abs(before), np.abs(after))
    slope = np.where(before * after > 0, least, 0.0)
    line = mean[at] + slope[at] * (np.arange(len(codes)) + 0.5 - middle[at])
    return np.where(mean[at] > 0, np.maximum(line, 0.0), 1.0)


def rows_model(model: Forest, domain: Domain, unit: Unit, most: int) -> Forest:
    """The model of rows, from one of people in grains."""
    counts = RowCounts.in_model(model, domain, unit, most)
    return reweighted(model, domain.modelled.index(ROWS_OF_PERSON), counts.weights(counts.each))


def people_in(model: Forest, domain: Domain, unit: Unit, most: int) -> float:
    """About how many people there are: one with n rows has n floor(G / n) grains."""
    counts = RowCounts.in_model(model, domain, unit, most)
    a_grain = counts.each / np.arange(1, most + 1)
    return float(model.marginal((domain.modelled.index(ROWS_OF_PERSON),)) @ counts.weights(a_grain))


TRIES = 8
"""Times that more people are drawn to find some who have as few rows as are left in a batch."""
MAX_CELLS = 2**22
"""Of trees that rows of a given person are drawn from: a column of hers that needs more is copied alone."""
IDS = 2**31 + 1
"""Number of a batch that is never drawn: what begins the ids of a release, see `MadeUpIds`."""


@dataclass(frozen=True, slots=True)
class MadeUpIds:
    """Ids of people whom nobody knows, number after number: they follow from a seed and from no private id.

    Text is "synthetic-", 16 hexadecimal digits that all ids of a release share, and the number: a private id
    is among them only if it holds the same digits, of 2^64, so m private ids meet any of them with a
    probability of at most m / 2^64. Whole numbers go down from one between -2^52 and -2^52 - 2^51, each of
    which is as likely as any other: N of them meet any of m private ones with a probability of at most
    N m / 2^51, and where the private ones follow each other of (N + m) / 2^51. All are below what ids are
    and what stands for a missing one, such as -1 or -999, and no program rounds them: they fit in a double.
    Both hold for a seed drawn at random after the private ids, as it is where nobody gives one.
    """

    whole: bool
    token: int
    """Of 64 bits."""

    def of(self, numbers: np.ndarray) -> pa.Array:
        """`numbers: int64[row]` of people, 1 and up to 2^51."""
        if self.whole:
            return pa.array(-(2**52 + self.token // 2**13) - numbers, pa.int64())
        return pa.array([f"synthetic-{self.token:016x}-{number}" for number in numbers.tolist()], pa.string())


@dataclass(frozen=True, eq=False)
class PeopleBatches(Batches):
    """Rows as people: `schema` is that of the rows as they come out, `inner` that of the domain; `model` is
    that of rows, `of_people` that of people. Nobody's rows are in two batches.

    A batch draws people, each with a number of rows and what is the same in all of them, and then their rows
    given that. People are whole: who has more rows than the batch has left is passed over. Only where hardly
    anybody has so few, its last person has fewer rows than it should.
    """

    inner: pa.Schema = field(kw_only=True)
    people: PeopleFacts = field(kw_only=True)
    counts: RowCounts = field(kw_only=True)
    of_people: Forest = field(kw_only=True)
    _given: ConditionalDrawing = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lay_out()

    def _lay_out(self) -> None:
        given = ConditionalDrawing(self.of_people, self.of_a_person, MAX_CELLS)
        object.__setattr__(self, "_given", given)

    @property
    def of_a_person(self) -> list[int]:
        """The attributes that are the same in all rows of a person, or of those that hang on one row."""
        names, people = self.domain.modelled.names, self.people
        return [names.index(n) for n in (ROWS_OF_PERSON, *people.constant, *people.shared) if n in names]

    def batch(self, number: int) -> pa.RecordBatch:
        rng, rows = self.generator(number), self.length(number)
        each, people = self._drawn_people(rows, rng)
        return self._rows_of(number, each, people, rng).slice(0, rows)

    def whole(self, people: int) -> Iterator[pa.RecordBatch]:
        """All rows of so many people, in batches of whole ones; `rows` is about how many rows that are."""
        most = max(int(self.size / self.mean_rows), 1)
        for number in range(math.ceil(people / most)):
            rng = self.generator(number)
            drawn = self._people(min(most, people - number * most), rng)
            each = self.counts.drawn(drawn[self.domain.modelled.index(ROWS_OF_PERSON)], rng)
            yield self._rows_of(number, each, drawn, rng)

    def given(
        self, number: int, each: np.ndarray, known: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> pa.RecordBatch:
        """The rows of people of whom codes are known, int64[person]: `each: int64[person]` of them; exactly
        as the model of rows has them given these codes.
        """
        person = np.repeat(np.arange(len(each)), each)
        given = {a: codes[person] for a, codes in known.items()}
        drawn = self._by_evidence.codes_given(len(person), given, rng)
        codes = self.refined(drawn, rng, [*known])
        cells = dict(zip(self.inner.names, decode_table(self.domain, codes, self.inner, rng), strict=True))
        return self._record(number, person, cells)

    @cached_property
    def _by_evidence(self) -> EvidenceDrawing:
        return EvidenceDrawing(self.model)

    def _rows_of(
        self, number: int, each: np.ndarray, people: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> pa.RecordBatch:
        """The rows of people who have `each: int64[person]` of them, given codes of theirs, int64[person]."""
        person = np.repeat(np.arange(len(each)), each)
        given = {a: codes[person] for a, codes in people.items()}
        codes = self.refined(self._given.codes_given(given, rng), rng, self._given.attributes)
        cells = dict(zip(self.inner.names, decode_table(self.domain, codes, self.inner, rng), strict=True))
        return self._record(number, person, cells)

    def _record(self, number: int, person: np.ndarray, cells: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """The rows of a batch, those of a person one after the other: `person: int64[row]`, rising."""
        first = pa.array(np.searchsorted(person, person))
        columns = []
        for name in self.schema.names:
            if name == self.people.column:
                columns.append(self._ids.of(person + number * self.size + 1))
            else:
                columns.append(cells[name].take(first) if name in self.people.constant else cells[name])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _drawn_people(self, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """(how many rows each person has: int64[person]; the codes of what is given of them: int64[person]),
        of people who have so many `rows` together, or as few more as can be.
        """
        at, many = self.domain.modelled.index(ROWS_OF_PERSON), math.ceil(1.1 * rows / self.mean_rows) + 16
        drawn, tries = self._people(many, rng), 0
        each = self.counts.drawn(drawn[at], rng)
        while (who := fitting(each, rows)) is None and tries < TRIES:
            tries += each.sum() >= rows  # a model may have few people with many rows, or with few
            more = self._people(many, rng)
            drawn = {a: np.concatenate([codes, more[a]]) for a, codes in drawn.items()}
            each = np.concatenate([each, self.counts.drawn(more[at], rng)])
        if who is None:
            who = np.arange(int(np.searchsorted(np.cumsum(each), rows)) + 1)
        return each[who], {a: codes[who] for a, codes in drawn.items()}

    def _people(self, many: int, rng: np.random.Generator) -> dict[int, np.ndarray]:
        """int64[person] of what is the same in all rows of a person."""
        return self._given.given(many, rng)

    @property
    def mean_rows(self) -> float:
        """Of a person."""
        share = self.of_people.marginal((self.domain.modelled.index(ROWS_OF_PERSON),)) / self.of_people.total
        return float(share @ self.counts.weights(np.arange(1.0, len(self.counts.codes) + 1)))

    @cached_property
    def _ids(self) -> MadeUpIds:
        token = int(self.generator(IDS).integers(2**64, dtype=np.uint64))
        return MadeUpIds(self.people.type == "integer", token)


def fitting(each: np.ndarray, rows: int) -> np.ndarray | None:
    """int64: people, in order, whose `each: int64[person]` rows come to `rows`: who has more than are left is
    passed over. None where nobody has as few.
    """
    ends = np.cumsum(each)
    first = int(np.searchsorted(ends, rows, side="right"))
    left, more = rows - int(ends[first - 1] if first else 0), list[int]()
    for at in range(first, len(each)):
        if left and each[at] <= left:
            left -= int(each[at])
            more.append(at)
    return None if left else np.concatenate([np.arange(first), np.array(more, dtype=np.int64)])


def schema_of(inner: pa.Schema, people: PeopleFacts) -> pa.Schema:
    """The columns of rows that come out as people: the id first, then those of the table."""
    kind = pa.string() if people.type == "string" else pa.int64()
    own = [f for f in inner if f.name != ROWS_OF_PERSON]
    return pa.schema([pa.field(people.column, kind, nullable=False), *own])
