"""Linked rows: synthetic tables that belong together, drawn from the model of each: roots first, then the
rows that hang on them, each given the row it hangs on, exactly. Free, for the models are public.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.pipeline.drawable import generator
from factored_mwem.pipeline.linked_views import beside, count_of
from factored_mwem.pipeline.people import MadeUpIds, PeopleBatches, RowCounts, sloping
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy.people import averaged, last_seen
from factored_mwem.request.package import LinkedTable, Package
from factored_mwem.tables.codes.codec import encode

KEYS = 2**33
"""From here on the numbers of generators of the rows that hang on others, and from twice as many on of keys:
no batch of rows has one.
"""
TRIMMED_BY_NOISE = 2.0
"""How many standard deviations noise is taken to reach in empty classes of how many rows hang on a row."""
MOST_ROWS = 2**17
"""Rows of a table that are drawn at a time, about."""


class HungRows(NamedTuple):
    """Synthetic rows without keys: `cells`, of a table beside the columns of what they hang on; the row of
    the parent that each hangs on, and that of the root, both int64[row].
    """

    cells: pa.Table
    parent: np.ndarray
    root: np.ndarray


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LinkedModels:
    """The models of some tables of a package, by name: of each with those of all that it hangs on."""

    package: Package
    releases: Mapping[str, Release]
    schemas: Mapping[str, pa.Schema]
    """Of the private tables, names and types."""

    def rows(self, names: Collection[str], rows: int | None, seed: int) -> dict[str, HungRows]:
        """Of each table among `names`, and no other: the root has `rows` rows."""
        drawn = dict[str, HungRows]()
        for number, table in enumerate(self.package.private):
            rng = generator(seed, KEYS + number)
            if table.name in names and table.parent is None:
                batches = self.releases[table.name].drawn(rows, seed)
                cells, every = pa.Table.from_batches(batches, schema=batches.schema), np.arange(batches.rows)
                drawn[table.name] = HungRows(self._with_numbers(table, cells, rng), every, every)
            elif table.name in names:
                hung = self._hung(table, drawn, rng)
                drawn[table.name] = hung._replace(cells=self._with_numbers(table, hung.cells, rng))
        return drawn

    def _with_numbers(self, table: LinkedTable, cells: pa.Table, rng: np.random.Generator) -> pa.Table:
        """The rows with numbers of what hangs on them: of a class those that slope (`sloping`)."""
        release = self.releases[table.name]
        for name in (count_of(child.name) for child in self.package.children(table.name)):
            attribute, at = release.domain[name], cells.schema.get_field_index(name)
            own = encode(attribute, cells.column(at).combine_chunks()).astype(np.int64)
            share = release.drawable.of_rows.marginal((release.domain.modelled.index(name),))
            own = _seen(release, name, own, share, rng)
            top = int(attribute.edges[-1]) if attribute.edges is not None else attribute.size
            codes = encode(attribute, pa.array(range(top))).astype(np.int64)
            counts = RowCounts(release.unit, codes, attribute.size, sloping(codes, share))
            numbers = counts.drawn(own, rng) - 1  # the first is of none
            cells = cells.set_column(at, cells.schema.field(at), pa.array(numbers, cells.schema.types[at]))
        return cells

    def parents(
        self, table: LinkedTable, drawn: Mapping[str, HungRows]
    ) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """(the rows that those of a table hang on, their columns under the names that these have beside it;
        int64[parent]: how many rows of the table hang on each, and how many on each one's root).
        """
        assert table.parent is not None
        above = table.parent.of
        counts = {count_of(child.name) for child in self.package.children(above)}
        own, cells = {*self.schemas[above].names, *counts}, drawn[above].cells
        parents = cells.rename_columns([beside(above, n) if n in own else n for n in cells.schema.names])
        each = parents.column(beside(above, count_of(table.name))).to_numpy().astype(np.int64)
        root = drawn[above].root
        return parents, each, np.bincount(root, each).astype(np.int64)[root]

    def _hung(self, table: LinkedTable, drawn: Mapping[str, HungRows], rng: np.random.Generator) -> HungRows:
        assert table.parent is not None
        parents, each, of_root = self.parents(table, drawn)
        order, release = np.repeat(np.arange(len(each)), each), self.releases[table.name]
        rows = release.drawn(len(order), int(rng.integers(2**63)))
        assert isinstance(rows, PeopleBatches)  # as of every table but the root
        known = _known(release, parents, of_root)
        parts = [
            rows.given(0, each[part], {a: codes[part] for a, codes in known.items()}, rng)
            for part in _parts(each)
        ]
        own = [n for n in release.schema.names if n not in parents.schema.names and n != ROWS_OF_PERSON]
        cells = pa.Table.from_batches(parts, schema=rows.schema).select(own)
        for name in parents.schema.names:
            cells = cells.append_column(name, parents.column(name).combine_chunks().take(pa.array(order)))
        return HungRows(cells, order, drawn[table.parent.of].root[order])


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
        hung = LinkedModels(self.package, self.releases, self.schemas).rows(self.releases, rows, seed)
        for number, table in enumerate(self.package.private):
            rng = generator(seed, 2 * KEYS + number)
            drawn[table.name] = self._keyed(table, hung[table.name], drawn, rng)
        return drawn | dict(self.public)

    def _keyed(
        self,
        table: LinkedTable,
        rows: HungRows,
        drawn: Mapping[str, pa.Table],
        rng: np.random.Generator,
    ) -> pa.Table:
        """The rows with fresh keys, and those of what they hang on, in the columns of the private table."""
        columns = {}
        for field in self.schemas[table.name]:
            if field.name == table.key:
                ids = MadeUpIds(pa.types.is_integer(field.type), int(rng.integers(2**64, dtype=np.uint64)))
                columns[field.name] = ids.of(np.arange(len(rows.cells)) + 1)
            elif table.parent is not None and field.name == table.parent.column:
                keys = drawn[table.parent.of].column(self._key_of(table.parent.of)).combine_chunks()
                columns[field.name] = keys.take(pa.array(rows.parent))
            elif field.name in rows.cells.schema.names:
                columns[field.name] = rows.cells.column(field.name)
        return pa.table(columns)

    def _key_of(self, name: str) -> str:
        key = next(each.key for each in self.package.private if each.name == name)
        assert key is not None, "what others hang on has a key"
        return key


def _seen(
    release: Release, name: str, codes: np.ndarray, share: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """int64[row]: the `codes` of how many rows hang on each row, without what noise alone put into classes
    beyond the last that stands out. These are wide: a few too many there would be many rows too many that
    hang on them. As many of them as the noisy counts say get that last class; the others are drawn anew, by
    `share: float64[code]`, how often each code comes, which is set to 0 beyond that class, in place.
    """
    at = release.domain.modelled.index(name)
    measured = [m for m in release.measurements if m.positions == (at,)]
    if not measured:
        return codes
    noisy, stddev = averaged(measured)
    last = 1 + last_seen(noisy[1:], stddev, TRIMMED_BY_NOISE)  # of those with any rows
    there = float(noisy[last + 1 :].sum() / max(noisy.sum(), 1.0)) * len(codes)
    share[last + 1 :] = 0.0
    if not share.any():  # of few roots the model may say that all lie beyond
        share[last] = 1.0
    beyond = np.flatnonzero(codes > last)
    codes, again = codes.copy(), beyond[rng.random(len(beyond)) * len(beyond) >= there]
    codes[beyond] = last
    codes[again] = rng.choice(len(share), len(again), p=share / share.sum())
    return codes


def _known(release: Release, parents: pa.Table, of_root: np.ndarray) -> dict[int, np.ndarray]:
    """int64[parent]: codes of the attributes of a table's model that tell of what its rows hang on."""
    domain, people = release.domain.modelled, release.manifest.people
    assert people is not None
    numbers = pa.array(np.clip(of_root, 1, people.most_rows))  # nothing hangs on who has none
    cells = {name: parents.column(name).combine_chunks() for name in parents.schema.names}
    cells[ROWS_OF_PERSON] = numbers
    return {
        a: encode(domain[name], cells[name]).astype(np.int64)
        for a, name in enumerate(domain.names)
        if name in cells
    }


def _parts(each: np.ndarray) -> Iterator[slice]:
    """Parents one after the other, on which about MOST_ROWS rows hang together."""
    ends = np.cumsum(each)
    at = 0
    while at < len(each):
        begun = int(ends[at - 1]) if at else 0
        stop = max(int(np.searchsorted(ends, begun + MOST_ROWS, side="right")), at + 1)
        yield slice(at, stop)
        at = stop
