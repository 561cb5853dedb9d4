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
from factored_mwem.tables.codes.decode import from_units, replaced, typed
from factored_mwem.tables.codes.derive import Columns, decode_table
from factored_mwem.tables.codes.parsing import plain, read_units
from factored_mwem.tables.inputs.source import open_table

ROWS = 2**16
"""Rows that are completed at a time."""
MAX_TRIES = 64
"""How often a row is drawn again whose values are out of order."""


@dataclass(eq=False)
class CompletedRows:
    """The rows of a table, each with its empty cells drawn given the others, in its columns and
    order. `contradicted`: rows so far that hold what cannot be together in the model; there, what is drawn
    does not depend on what is known of the columns that contradict each other. So are rows beside whose
    known values nothing was found that is in order.
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
        empty = np.zeros((len(self._names), rows), dtype=bool)
        codes = np.zeros((len(self._names), rows), dtype=np.int64)
        for i, name in enumerate(self._names):
            column = plain(known.column(name))
            self._check(domain[name], column)
            empty[i], codes[i] = missing_in(domain[name], column), encode(domain[name], column)
        columns, lost = self._drawn(known, empty, codes, rng)
        wrong, without = np.flatnonzero(self._out_of_order(columns, empty)), self._without(columns)
        for _ in range(MAX_TRIES):
            if not len(wrong):
                break
            now, _lost = self._drawn(known.take(pa.array(wrong)), empty[:, wrong], codes[:, wrong], rng)
            columns = {name: replaced(column, wrong, now[name]) for name, column in columns.items()}
            other = (self._without(now) != without[:, wrong]).any(axis=0)
            wrong = wrong[self._out_of_order(now, empty[:, wrong]) | other]
        lost[wrong] = True
        self.contradicted, self.rows = self.contradicted + int(lost.sum()), self.rows + rows
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    def _out_of_order(self, columns: Columns, empty: np.ndarray) -> np.ndarray:
        """bool[row]: where two values, of which one was drawn, are not in the order that other rows keep by
        an exchange: what is known of a row tells of that row alone, so these are drawn again instead.
        """
        domain = self.drawable.domain
        out = np.zeros(len(next(iter(columns.values()))), dtype=bool)
        for pair in (pair for chain in domain.exchanges for pair in chain.pairs):
            first, second = (read_units(domain[name], plain(columns[name])) for name in pair)
            fixed = [self._names.index(name) for name in pair if name in self._names]
            drawn = empty[fixed].any(axis=0) | (len(fixed) < len(pair))
            out |= (first > second).filled(False) & drawn
        return out

    def _without(self, columns: Columns) -> np.ndarray:
        """bool[column in order, row]: where there is no value. What is drawn again has values where it had:
        else rows without, which are always in order, would become too many.
        """
        domain = self.drawable.domain
        names = [name for chain in domain.exchanges for name in chain.names]
        return np.array([np.ma.getmaskarray(read_units(domain[n], plain(columns[n]))) for n in names])

    def _drawn(
        self, known: pa.RecordBatch, empty: np.ndarray, codes: np.ndarray, rng: np.random.Generator
    ) -> tuple[Columns, np.ndarray]:
        """(all columns, bool[row]: whether known cells contradict each other) of rows of which `codes:
        int64[known column, row]` are known where they are not `empty`.
        """
        domain, rows = self.drawable.domain, len(known)
        positions = [domain.modelled.index(name) for name in self._names]
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
        return columns, lost

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
