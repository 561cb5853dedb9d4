"""Completed: rows of which some cells are known, with the others drawn from a model given these. Free, for
the model is public; the known rows are whoever's they are, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import Attribute
from factored_mwem.errors import InputError, shortened, some_names
from factored_mwem.model.evidence import EvidenceDrawing
from factored_mwem.pipeline.conditional import computed_in
from factored_mwem.pipeline.drawable import Drawable, generator
from factored_mwem.tables.codes.codec import encode, missing_in, unknown_in
from factored_mwem.tables.codes.decode import from_units, typed
from factored_mwem.tables.codes.derive import decode_table
from factored_mwem.tables.codes.parsing import plain, read_units
from factored_mwem.tables.inputs.source import open_table

ROWS = 2**16
"""Rows that are completed at a time."""


@dataclass(eq=False)
class CompletedRows:
    """The rows of a table, each with its empty cells drawn given the others, in its columns and
    order. `contradicted`: rows so far that hold what cannot be together in the model; there, what is drawn
    does not depend on what is known of the columns that contradict each other.
    """

    drawable: Drawable
    source: Any
    seed: int
    contradicted: int = 0
    rows: int = 0
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        """Raises InputError for columns that are not the model's, or follow from others there."""
        if self.drawable.people is not None:
            raise InputError("a release of people draws whole people: single rows cannot be completed")
        domain, self.schema = self.drawable.domain, self.drawable.schema
        self._table, computed = open_table(self.source), computed_in(domain)
        self._names = self._table.schema.names
        for name in self._names:
            if name not in domain:
                known = some_names(domain.names)
                raise InputError(f"column {shortened(name)!r} is not in the model; it has {known}")
            if name in computed:
                how = "leave it out, and give what it follows from"
                raise InputError(f"column {shortened(name)!r} follows from others when rows are drawn; {how}")
        self._drawing = EvidenceDrawing(self.drawable.model)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Raises InputError for a cell that holds no value of its column."""
        number = 0
        for batch in self._table.batches(self._names):
            for at in range(0, len(batch), ROWS):
                yield self._completed(batch.slice(at, ROWS), generator(self.seed, number))
                number += 1

    def _completed(self, known: pa.RecordBatch, rng: np.random.Generator) -> pa.RecordBatch:
        domain, rows = self.drawable.domain, len(known)
        positions = [domain.modelled.index(name) for name in self._names]
        empty = np.zeros((len(positions), rows), dtype=bool)
        codes = np.zeros((len(positions), rows), dtype=np.int64)
        for i, name in enumerate(self._names):
            column = plain(known.column(name))
            self._check(domain[name], column)
            empty[i], codes[i] = missing_in(domain[name], column), encode(domain[name], column)
        drawn = np.zeros((len(domain.modelled.names), rows), dtype=np.int64)
        lost = np.zeros(rows, dtype=bool)
        patterns, pattern_of = np.unique(empty, axis=1, return_inverse=True)
        for number, pattern in enumerate(patterns.T):
            own = np.flatnonzero(pattern_of.ravel() == number)
            given = {positions[i]: codes[i, own] for i in np.flatnonzero(~pattern).tolist()}
            failed = np.zeros(len(own), dtype=bool)
            drawn[:, own] = self._drawing.codes_given(len(own), given, rng, lost=failed)
            lost[own] = failed
        columns = dict(
            zip(
                self.schema.names,
                decode_table(domain, list(drawn), self.schema, rng, exchange=False),
                strict=True,
            )
        )
        for i, name in enumerate(self._names):
            own_values = self._as_released(domain[name], plain(known.column(name)), columns[name])
            columns[name] = pc.if_else(pa.array(empty[i]), columns[name], own_values)
        self.contradicted, self.rows = self.contradicted + int(lost.sum()), self.rows + rows
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    def _check(self, attribute: Attribute, column: pa.Array) -> None:
        if attribute.other is not None:
            return
        unknown = np.flatnonzero(unknown_in(attribute, column))
        if len(unknown):
            row, column_name = self.rows + int(unknown[0]) + 1, shortened(attribute.name)
            what = (
                f"row {row:,} of the known rows holds no value that column {column_name!r} has in the model"
            )
            raise InputError(f"{what}; leave the cell empty, and it is drawn")

    def _as_released(self, attribute: Attribute, column: pa.Array, drawn: pa.Array) -> pa.Array:
        """The known cells in the column's released type; texts beside numbers as they were drawn, which is by
        their code.
        """
        kind = self.schema.field(attribute.name).type
        if pa.types.is_dictionary(kind):
            return drawn  # it holds the domain's values alone, and the code is known
        if attribute.type == "string" or column.type == kind:
            return column.cast(kind)
        units = read_units(attribute, column)
        values = typed(attribute, from_units(attribute, units.filled(0)), kind, safe=False)
        return pc.if_else(pa.array(np.ma.getmaskarray(units)), drawn, values)
