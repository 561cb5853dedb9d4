"""People: a table of which each person weighs one, in grains (`accounting/unit.py`).

A weighted count is a sum of plain counts, one for each weight that there is, times whole numbers: exact, and
whatever counts plain rows counts these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.companions import (
    CHANGE,
    END,
    FIRST,
    GAP,
    OTHERWISE,
    PREVIOUS,
    SAME,
    START,
    steps_between,
)
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.tables.backends.codes import Codes, encode_table
from factored_mwem.tables.backends.datavectors import Axis, Datavectors
from factored_mwem.tables.backends.source import IN_MEMORY, PeopleSource, Spill
from factored_mwem.tables.codes.agreement import Groupings, agreement_of
from factored_mwem.tables.codes.broken import Hypothesis, count_broken
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.parsing import is_text, plain, read_units
from factored_mwem.tables.codes.profile import ColumnProfile, Weighted, profile
from factored_mwem.tables.codes.rest import Known, weighed
from factored_mwem.tables.inputs.people import RowOrder, RowsOfPeople, rows_of_people
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.inputs.table import Private, Table


class People(PeopleSource):
    """A table without its ids, at most so many rows of each person, beside how many rows that person has; a
    row of a person with n rows weighs `weight(n)`. Where rows have an order, each knows the one before it.
    """

    __slots__ = (
        *("folder_columns", "form", "schema", "table", "text", "zone"),
        *("_person", "_previous", "_rows", "_weights", "_whole"),
    )

    def __init__(self, table: Table, used: RowsOfPeople, weight: Callable[[int], int]) -> None:
        self.table, self.schema, self.text = table, table.schema, table.text
        self.form, self.folder_columns, self.zone = table.form, table.folder_columns, table.zone
        self._person, self._rows, self._previous = used.person, used.rows, used.previous
        most, self._whole = int(self._rows.max(initial=0)), weight(1)
        self._weights = np.array([0, *map(weight, range(1, most + 1))], dtype=np.int64)

    def people_by_rows(self, most: int) -> np.ndarray:
        _, first = np.unique(self._person, return_index=True)
        return np.bincount(self._rows[first], minlength=most + 1)[1:].astype(np.int64)

    def profile(self, columns: Sequence[str]) -> dict[str, ColumnProfile]:
        """As of any table, in grains."""
        return profile(self.table, columns, self._weighted(columns))

    def weighed(self, known: Mapping[str, Known]) -> dict[str, ColumnProfile]:
        """As of any table, in parts of a grain."""
        return weighed(self.table, known, self._weighted(list(known)))

    def broken_rows(self, known: Mapping[str, Known], hypotheses: Sequence[Hypothesis]) -> np.ndarray:
        """As of any table, in grains."""
        return count_broken(self.table, known, hypotheses, self._weighted(list(known)))

    def _weighted(self, columns: Sequence[str]) -> Iterator[Weighted]:
        """The rows of these columns, by what each weighs, in grains."""
        for batch in self.table.batches([*columns, ROWS_OF_PERSON]):
            number = batch.column(len(columns)).to_numpy(zero_copy_only=False)
            yield batch.select(range(len(columns))), self._weights[number]

    def constancy(self, columns: Sequence[str]) -> np.ndarray:
        order = np.argsort(self._person, kind="stable")
        begins = np.flatnonzero(np.diff(self._person[order], prepend=-1))
        several = np.diff(begins, append=len(order)) > 1
        same = [
            several & (np.minimum.reduceat(codes, begins) == np.maximum.reduceat(codes, begins))
            for codes in (self._value_codes(name)[order] for name in columns)
            if len(begins)
        ]
        counts = [int(each.sum()) for each in (*same, several)]
        return np.array(counts if len(begins) else [0] * (len(columns) + 1), dtype=np.int64)

    def pairs_alike(
        self, domain: Domain, groupings: Groupings, spill: Spill, family: str | None = None
    ) -> np.ndarray:
        own = domain.project(list(groupings))
        codes = encode_table(own, self.table.once(), spill.most, spill.folder).columns if groupings else []
        person = np.unique(self._person, return_inverse=True)[1]
        by_name = dict(zip(own.names, codes, strict=True))
        parted = None if family is None else self._value_codes(family)
        return agreement_of(person, by_name, groupings, self._whole, parted)

    def _value_codes(self, name: str) -> np.ndarray:
        """int64[row]: equal where the cells of a column are."""
        kind = self.schema.field(name).type
        cells = [plain(batch.column(0)) for batch in self.table.batches([name])]
        whole = pa.chunked_array(cells, plain(pa.array([], kind)).type).combine_chunks()
        if is_text(whole.type):
            whole = whole.cast(pa.large_string())
        return whole.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)

    def encoded(self, domain: Domain, spill: Spill) -> Datavectors:
        """The rows of the domain's columns, and of companions of these.

        A companion's code follows from the rows of the same person alone, and a row weighs what it weighs
        without: so a person adds at most one to a marginal with companions, too, and moves nobody else's.
        """
        own = domain.project([name for name in domain.names if name in self.schema.names])
        whole = encode_table(own, self.table.once(), spill.most, spill.folder)
        if len(own) < len(domain):
            by_name = dict(zip(own.names, whole.columns, strict=True))
            whole = Codes(
                [
                    by_name[a.name] if a.name in by_name else self._companion(a, domain, by_name)
                    for a in domain
                ],
                domain.shape,
            )
        weights, parts = self._weights[self._rows], []
        for weight in np.unique(weights).tolist():
            which = np.flatnonzero(weights == weight)
            parts.append((weight, Codes([column[which] for column in whole.columns], whole.sizes)))
        return WeightedCodes(parts, whole.sizes)

    def _companion(self, a: Attribute, domain: Domain, codes: Mapping[str, np.ndarray]) -> np.ndarray:
        """uint32[row]: of its column the code in the row before, the first or the last, the growth or the
        change.
        """
        assert self._previous is not None, "rows without an order have none before them"
        first, before = self._previous < 0, np.maximum(self._previous, 0)
        if a.name.startswith(PREVIOUS):
            own = codes[a.name.removeprefix(PREVIOUS)].astype(np.uint32)
            return np.where(first, np.uint32(a.size - 1), own[before] if len(own) else own)
        if a.name.startswith((START, END)):
            start = a.name.startswith(START)
            own = codes[a.name.removeprefix(START if start else END)].astype(np.uint32)
            rows = first if start else ~np.isin(np.arange(len(own)), self._previous)
            of_person = np.zeros(int(self._person.max(initial=-1)) + 1, dtype=np.uint32)
            of_person[self._person[rows]] = own[rows]
            return of_person[self._person]
        change = a.name.startswith(CHANGE)
        of = domain[a.name.removeprefix(CHANGE if change else GAP)]
        if change and a.categorical:
            own = codes[of.name]
            differs = np.where(own != own[before], OTHERWISE, SAME) if len(own) else own
            return encode(a, pa.array(np.where(first, FIRST, differs))).astype(np.uint32)
        units, unknown = self._units(of, codes[of.name])
        if not len(units):
            return units.astype(np.uint32)
        apart = steps_between(of, units[before], units) if change else np.maximum(units - units[before], 0)
        none_before = a.specials[0] if change else FIRST
        unknown = ~first & (unknown | unknown[before])
        return encode(a, pa.array(np.where(first, none_before, apart), mask=unknown)).astype(np.uint32)

    def _units(self, of: Attribute, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(int64 or float64[row]: values of a column of numbers or moments, within its bounds; bool[row]:
        where it has none).
        """
        low, high = intervals(of)
        if of.categorical:
            return low[codes], ~placed(of)[codes]
        read = [read_units(of, plain(batch.column(0))) for batch in self.table.batches([of.name])]
        units = np.concatenate([np.zeros(0, dtype=of.cuts.dtype), *(each.filled(0) for each in read)])
        unknown = np.concatenate([np.zeros(0, dtype=bool), *map(np.ma.getmaskarray, read)])
        least, most = low[placed(of)].min(), high[placed(of)].max()
        return np.clip(units, least, most), unknown


def released_people(
    batch: pa.RecordBatch,
    domain: Domain,
    column: str,
    weight: Callable[[int], int],
    order: RowOrder | None,
) -> Datavectors:
    """The codes of released people, all of whose rows are in a batch; `column` names them. They are public,
    and read as private ones are: how many rows each has, what these weigh, and what comes before what.
    """
    used = rows_of_people(open_table(batch), column, max(len(batch), 1), order=order)
    return People(*used, weight).encoded(domain, IN_MEMORY)


class WeightedCodes(Private):
    """Rows as codes, in parts whose rows weigh the same: (grains of a row, rows) each."""

    __slots__ = ("_parts", "sizes")
    dear, weighted = False, True

    def __init__(self, parts: Sequence[tuple[int, Codes]], sizes: Sequence[int]) -> None:
        self._parts, self.sizes = tuple(parts), tuple(sizes)

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """int64[all cells], in grains: see Datavectors."""
        counts = np.zeros(int(offsets[-1]), dtype=np.int64)
        for weight, rows in self._parts:
            part = rows.exact_counts(axes, members, offsets)
            counts += part if weight == 1 else part.astype(np.int64) * weight
        return counts
