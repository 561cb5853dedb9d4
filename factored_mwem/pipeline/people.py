"""People: rows of a model in which each person weighs one, drawn as people: each has an id that is made up
and as many rows as the model says. Free, for the model is public.

What is drawn are rows: of the model of rows (model/reweighted.py), so that their marginals are right. Rows
whose people have n rows are then put together by n; what is the same in all rows of a person is taken from
the first of them, and rows are sorted by it before, so that this changes few. Beyond that rows of a person
go together only as far as n says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.model.forest import Forest
from factored_mwem.model.reweighted import reweighted
from factored_mwem.model.sampling import Batches
from factored_mwem.pipeline.record.manifest import PeopleFacts
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.derive import decode_table
from factored_mwem.tables.inputs.people import ROWS_OF_PERSON


@dataclass(frozen=True, slots=True, eq=False)
class RowCounts:
    """The numbers of rows of a person, 1 to `unit.contributions`, and the code of each: `codes: int[n - 1]`,
    of `size` codes.
    """

    unit: Unit
    codes: np.ndarray
    size: int

    @classmethod
    def of(cls, attribute: Attribute, unit: Unit) -> RowCounts:
        """As the attribute ROWS_OF_PERSON has them, declared or learnt."""
        numbers = pa.array(range(1, unit.contributions + 1), pa.int32())
        return cls(unit, encode(attribute, numbers).astype(np.int64), attribute.size)

    @property
    def each(self) -> np.ndarray:
        """float64[n - 1]: rows that a grain stands for, of people with n rows."""
        return np.array([1 / self.unit.row_weight(n) for n in range(1, self.unit.contributions + 1)])

    def weights(self, each: np.ndarray) -> np.ndarray:
        """float64[code]: the mean of `each: float64[n - 1]` over the numbers of a code, as nothing tells them
        apart; of a code that no number has, the mean of all.
        """
        held = np.bincount(self.codes, minlength=self.size)
        summed = np.bincount(self.codes, each, minlength=self.size)
        return np.where(held > 0, summed / np.maximum(held, 1), each.mean())

    def drawn(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """int64[row]: how many rows its person has, by the code; of several, in proportion to rows."""
        numbers = np.full(len(codes), 1, dtype=np.int64)
        for code in np.unique(codes).tolist():
            own = np.flatnonzero(self.codes == code)
            rows = np.flatnonzero(codes == code)
            if len(own):
                share = self.each[own] / self.each[own].sum()
                numbers[rows] = own[0] + 1 if len(own) == 1 else rng.choice(own + 1, len(rows), p=share)
        return numbers


def rows_model(model: Forest, domain: Domain, unit: Unit) -> Forest:
    """The model of rows, from one of people in grains."""
    counts = RowCounts.of(domain[ROWS_OF_PERSON], unit)
    return reweighted(model, domain.modelled.index(ROWS_OF_PERSON), counts.weights(counts.each))


def people_in(model: Forest, domain: Domain, unit: Unit) -> float:
    """About how many people there are: one with n rows has n floor(G / n) grains."""
    counts = RowCounts.of(domain[ROWS_OF_PERSON], unit)
    a_grain = counts.each / np.arange(1, unit.contributions + 1)
    return float(model.marginal((domain.modelled.index(ROWS_OF_PERSON),)) @ counts.weights(a_grain))


@dataclass(frozen=True, eq=False)
class PeopleBatches(Batches):
    """Rows as people: `schema` is that of the rows as they come out, `inner` that of the domain. Nobody's
    rows are in two batches.
    """

    inner: pa.Schema = field(kw_only=True)
    people: PeopleFacts = field(kw_only=True)
    counts: RowCounts = field(kw_only=True)

    def decoded(self, number: int, codes: Sequence[np.ndarray], rng: np.random.Generator) -> pa.RecordBatch:
        names = self.domain.modelled.names
        by_name = dict(zip(names, codes, strict=True))
        rows_each = self.counts.drawn(by_name[ROWS_OF_PERSON], rng)
        constant = [by_name[name] for name in self.people.constant if name in by_name]
        order, person, first = grouped(rows_each, constant, rng)
        cells = dict(zip(self.inner.names, decode_table(self.domain, codes, self.inner, rng), strict=True))
        place = {name: first if name in self.people.constant else order for name in cells}
        ids = person + number * self.size + 1
        columns = [
            self._ids(ids) if name == self.people.column else cells[name].take(pa.array(place[name]))
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _ids(self, numbers: np.ndarray) -> pa.Array:
        if self.people.type == "integer":
            return pa.array(-numbers, pa.int64())
        return pa.array([f"synthetic-{number}" for number in numbers.tolist()], pa.string())


def schema_of(inner: pa.Schema, people: PeopleFacts) -> pa.Schema:
    """The columns of rows that come out as people: the id first, then those of the table."""
    kind = pa.string() if people.type == "string" else pa.int64()
    own = [f for f in inner if f.name != ROWS_OF_PERSON]
    return pa.schema([pa.field(people.column, kind, nullable=False), *own])


def grouped(
    rows_each: np.ndarray, constant: Sequence[np.ndarray], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(order: int64[row], the rows so that those of a person follow each other; person: int64[row] in that
    order, from 0 on; first: int64[row], the first row of its person).

    `rows_each: int64[row]`: how many rows its person has. They are put together from the fewest to the most,
    sorted by `constant` among as many; where rows of n end in the middle of a person, the next ones of more
    fill it up, so that only the very last person may have fewer rows than it should. Then people are
    shuffled.
    """
    rows = len(rows_each)
    order = np.lexsort((*reversed(constant), rows_each))
    ends = np.searchsorted(rows_each[order], np.arange(1, int(rows_each.max(initial=0)) + 1), side="right")
    starts, at = [np.zeros(0, dtype=np.int64)], 0
    for n, end in enumerate(ends.tolist(), start=1):
        if at < end:
            own = np.arange(at, end, n)
            starts.append(own)
            at = int(own[-1]) + n
    begins = np.concatenate(starts)
    person = np.searchsorted(begins, np.arange(rows), side="right") - 1
    luck = rng.permutation(len(begins))
    shuffled = np.argsort(luck[person], kind="stable")
    return order[shuffled], luck[person][shuffled], order[begins][person][shuffled]
