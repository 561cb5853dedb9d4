"""Linked rows: synthetic tables that belong together, drawn from the model of each: roots first, then the
rows that hang on them, each given the row it hangs on, exactly. Free, for the models are public.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.pipeline.drawable import generator
from factored_mwem.pipeline.linked_views import beside, count_of
from factored_mwem.pipeline.people import MadeUpIds, PeopleBatches
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.result import Release
from factored_mwem.request.package import LinkedTable, Package
from factored_mwem.tables.codes.codec import encode

KEYS = 2**33
"""From here on the numbers of generators of a table's keys, and of the rows that hang on others: no batch of
rows has one.
"""
MOST_ROWS = 2**17
"""Rows of a table that are drawn at a time, about."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LinkedRelease:
    """The models of the tables of a package, by name, and the record of what they cost: all public.

    A table comes out with its columns, its types and fresh keys: every row hangs on one that is there.

    >>> import pyarrow as pa
    >>> from factored_mwem import LinkedTable, Package, release_tables
    >>> alone = Package.of([LinkedTable("users", pa.table({"id": [1, 2], "sex": ["F", "M"]}), key="id")])
    >>> sex = {"users": {"fields": [{"name": "sex", "categories": ["F", "M"]}]}}
    >>> made = release_tables(alone, 1, domains=sex, epsilon=1.0)
    >>> made.tables(rows=20)["users"].num_rows, made.statement.guarantee.epsilon
    (20, 1.0)
    """

    package: Package
    releases: Mapping[str, Release]
    schemas: Mapping[str, pa.Schema]
    """Of the private tables, names and types."""
    public: Mapping[str, pa.Table]
    statement: Statement
    seed: int

    def tables(self, rows: int | None = None, seed: int | None = None) -> dict[str, pa.Table]:
        """The synthetic tables by name, the root with `rows` rows; the public ones as they are. The same ones
        for the same `seed`.
        """
        seed, drawn = self.seed if seed is None else seed, dict[str, pa.Table]()
        bare: dict[str, pa.Table] = {}
        for number, table in enumerate(self.package.private):
            rng = generator(seed, KEYS + number)
            if table.parent is None:
                release = self.releases[table.name]
                batches = release.drawn(rows, seed)
                bare[table.name] = pa.Table.from_batches(batches, schema=batches.schema)
                parent = None
            else:
                bare[table.name], parent = self._hung(table, bare, rng)
            drawn[table.name] = self._keyed(table, bare[table.name], parent, drawn, rng)
        return drawn | dict(self.public)

    def _hung(
        self, table: LinkedTable, bare: Mapping[str, pa.Table], rng: np.random.Generator
    ) -> tuple[pa.Table, np.ndarray]:
        """(the rows of a table, beside the columns of what they hang on; int64[row]: which row that is)."""
        assert table.parent is not None
        above, release = table.parent.of, self.releases[table.name]
        parents = self._beside(above, bare[above])
        each = parents.column(beside(above, count_of(table.name))).to_numpy().astype(np.int64)
        order = np.repeat(np.arange(len(each)), each)
        rows = release.drawn(len(order), int(rng.integers(2**63)))
        assert isinstance(rows, PeopleBatches)  # as of every table but the root
        known = self._known(table, release, parents)
        parts = [
            rows.given(0, each[part], {a: codes[part] for a, codes in known.items()}, rng)
            for part in _parts(each)
        ]
        own = [n for n in release.schema.names if n not in parents.schema.names and n != ROWS_OF_PERSON]
        drawn = pa.Table.from_batches(parts, schema=rows.schema).select(own)
        for name in parents.schema.names:
            drawn = drawn.append_column(name, parents.column(name).combine_chunks().take(pa.array(order)))
        return drawn, order

    def _known(self, table: LinkedTable, release: Release, parents: pa.Table) -> dict[int, np.ndarray]:
        """int64[parent]: codes of the attributes of a table's model that tell of what its rows hang on."""
        assert table.parent is not None
        names = {name: name for name in release.domain.modelled.names if name in parents.schema.names}
        if table.parent.of == self.package.root.name:
            names[ROWS_OF_PERSON] = beside(table.parent.of, count_of(table.name))
        domain, known = release.domain.modelled, {}
        for name, column in names.items():
            cells = parents.column(column).combine_chunks()
            if name == ROWS_OF_PERSON:  # nothing hangs on who has none
                cells = pa.array(np.maximum(cells.to_numpy(), 1))
            known[domain.index(name)] = encode(domain[name], cells).astype(np.int64)
        return known

    def _keyed(
        self,
        table: LinkedTable,
        rows: pa.Table,
        parent: np.ndarray | None,
        drawn: Mapping[str, pa.Table],
        rng: np.random.Generator,
    ) -> pa.Table:
        """The rows with fresh keys, and those of what they hang on, in the columns of the private table."""
        columns = {}
        for field in self.schemas[table.name]:
            if field.name == table.key:
                ids = MadeUpIds(pa.types.is_integer(field.type), int(rng.integers(2**64, dtype=np.uint64)))
                columns[field.name] = ids.of(np.arange(len(rows)) + 1)
            elif table.parent is not None and field.name == table.parent.column:
                keys = drawn[table.parent.of].column(self._key_of(table.parent.of)).combine_chunks()
                columns[field.name] = keys.take(pa.array(parent))
            elif field.name in rows.schema.names:
                columns[field.name] = rows.column(field.name)
        return pa.table(columns)

    def _beside(self, name: str, rows: pa.Table) -> pa.Table:
        """The rows of a table, its own columns under the names that they have beside what hangs on it."""
        counts = (count_of(child.name) for child in self.package.children(name))
        own = {*self.schemas[name].names, *counts}
        return rows.rename_columns([beside(name, n) if n in own else n for n in rows.schema.names])

    def _key_of(self, name: str) -> str:
        key = next(each.key for each in self.package.private if each.name == name)
        assert key is not None, "what others hang on has a key"
        return key


def _parts(each: np.ndarray) -> Iterator[slice]:
    """Parents one after the other, on which about MOST_ROWS rows hang together."""
    ends = np.cumsum(each)
    at = 0
    while at < len(each):
        begun = int(ends[at - 1]) if at else 0
        stop = max(int(np.searchsorted(ends, begun + MOST_ROWS, side="right")), at + 1)
        yield slice(at, stop)
        at = stop
