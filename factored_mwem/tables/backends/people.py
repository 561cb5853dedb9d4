"""People: a table of which each person weighs one: a row of a person with n rows, floor(G / n) grains.

The rows of people with equally many rows weigh the same, so a weighted count is a sum of plain counts, one
for each n, times whole numbers: exact, and whatever counts plain rows counts these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import pyarrow as pa

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.tables.backends.codes import Codes, encode_table
from factored_mwem.tables.backends.datavectors import Axis, Datavectors
from factored_mwem.tables.backends.source import Local, Spill
from factored_mwem.tables.codes.profile import ColumnProfile, Weighted, profile
from factored_mwem.tables.inputs.people import ROWS_OF_PERSON, rows_of_people
from factored_mwem.tables.inputs.table import Private, Table


class People(Local):
    """A table without its ids, at most so many rows of each person, beside how many rows that person has."""

    __slots__ = ("_rows", "_unit")

    def __init__(self, table: Table, rows: np.ndarray, unit: Unit) -> None:
        """`rows: int32[row]`: how many rows the person of each row has."""
        super().__init__(table)
        self._rows, self._unit = rows, unit

    @classmethod
    def of(cls, table: Table, privacy_id: str, unit: Unit, missing: Sequence[str]) -> Self:
        """Reads the ids."""
        used, rows = rows_of_people(table, privacy_id, unit.contributions, missing)
        return cls(used, rows, unit)

    def profile(self, columns: Sequence[str]) -> dict[str, ColumnProfile]:
        """As of any table, in grains."""
        wanted = dict.fromkeys([*columns, ROWS_OF_PERSON])
        profiles = profile(self.table, list(wanted), self._weighted)
        return {name: profiles[name] for name in columns}

    def _weighted(self, batch: pa.RecordBatch) -> Iterator[Weighted]:
        rows = batch.column(ROWS_OF_PERSON).to_numpy(zero_copy_only=False)
        for number in np.unique(rows).tolist():
            yield batch.filter(pa.array(rows == number)), self._unit.row_weight(number)

    def encoded(self, domain: Domain, spill: Spill) -> Datavectors:
        whole = encode_table(domain, self.table.once(), spill.most, spill.folder)
        parts = []
        for number in np.unique(self._rows).tolist():
            which = np.flatnonzero(self._rows == number)
            codes = Codes([column[which] for column in whole.columns], whole.sizes)
            parts.append((self._unit.row_weight(number), codes))
        return WeightedCodes(parts, whole.sizes)


class WeightedCodes(Private):
    """Rows as codes, in parts whose rows weigh the same: (grains of a row, rows) each."""

    __slots__ = ("_parts", "sizes")
    dear = False

    def __init__(self, parts: Sequence[tuple[int, Codes]], sizes: Sequence[int]) -> None:
        self._parts, self.sizes = tuple(parts), tuple(sizes)

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """int64[all cells], in grains: see Datavectors."""
        counts = np.zeros(int(offsets[-1]), dtype=np.int64)
        for weight, rows in self._parts:
            part = rows.exact_counts(axes, members, offsets)
            counts += part if weight == 1 else part.astype(np.int64) * weight
        return counts
