"""Linked views: of each table of a package its rows beside those they hang on, by root. Private.

A root is all that bears one value of the root's key: the first of its rows, the rows of other tables that
refer to it, and those that refer to these. What a root comes to follows from its own rows and from what they
refer to alone:

- rows that lead to no root (a reference that is null, or that no key equals) are left out, and so are rows of
  the root without a key;
- of several rows with one key under the same root the first is used, where others may hang on it; nothing
  hangs on a row without a key;
- a row whose parents, of one key, lie under several roots counts in each of them.

So a root more, with all rows that hang on it and on no other, leaves those of all others as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import ROWS_OF, Attribute
from factored_mwem.errors import InputError
from factored_mwem.request.package import LinkedTable, Package
from factored_mwem.tables.backends.local import Local
from factored_mwem.tables.codes.parsing import is_text, plain
from factored_mwem.tables.inputs.arrow_input import MAX_BATCH_ROWS
from factored_mwem.tables.inputs.table import Private, Table

ROOT = "root"
"""The column of a view that names the root of a row."""
PARENT = "row it hangs on"
"""The column of a view that names that row, of rows that hang on others than a root."""


def beside(table: str, column: str) -> str:
    """The name of an ancestor's column in a view."""
    return f"{table}.{column}"


def count_of(child: str) -> str:
    """The name of the column that says how many rows of another table hang on a row."""
    return f"{ROWS_OF}{child}"


def count_attribute(name: str, ends: Sequence[int]) -> Attribute:
    """How many rows hang on a row: none, or a number of the classes that end there (`size_classes`)."""
    facts = {"name": name, "type": "integer", "constraints": {"required": True}}
    if len(ends) == ends[-1]:
        return Attribute.model_validate({**facts, "categories": [0, *ends], "categoriesOrdered": True})
    return Attribute.model_validate({**facts, "edges": [0, 1, *(end + 1 for end in ends)]})


class LinkedRows(Private):
    """The rows of one table that count: `root: int64[row]`, the number of each one's root; `parent`, that of
    the row it hangs on, in the rows of the parent; `cells`: its columns.
    """

    __slots__ = ("cells", "parent", "root")

    def __init__(self, cells: pa.Table, root: np.ndarray, parent: np.ndarray) -> None:
        self.cells, self.root, self.parent = cells, root, parent


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LinkedViews(Private):
    """The rows of all private tables of a package, and the names of those that are modelled."""

    package: Package
    own: Mapping[str, Sequence[str]]
    """The columns of each table that are no keys and no references to private tables."""
    schemas: Mapping[str, pa.Schema]
    zones: Mapping[str, str | None]
    _rows: dict[str, LinkedRows] = field(default_factory=dict)

    @classmethod
    def of(cls, package: Package, tables: Mapping[str, Table]) -> Self:
        """Names and types alone are read."""
        own = {each.name: own_columns(each, tables[each.name].schema.names) for each in package.private}
        schemas = {name: table.schema for name, table in tables.items()}
        return cls(package, own, schemas, {name: table.zone for name, table in tables.items()})

    def read(self, tables: Mapping[str, Table]) -> None:
        """Read the rows, all of them into memory."""
        for each in self.package.private:
            cells = whole(tables[each.name])
            self._rows[each.name] = self._linked(each, cells)

    def _linked(self, table: LinkedTable, cells: pa.Table) -> LinkedRows:
        key = None if table.key is None else key_of(cells, table.key)
        if table.parent is None:
            assert key is not None, "a root has a key"
            rows = np.sort(first_of(key))
            return LinkedRows(cells.take(pa.array(rows)), np.arange(len(rows)), np.arange(len(rows)))
        above = self._rows[table.parent.of]
        keys = key_of(above.cells, next(t.key for t in self.package.private if t.name == table.parent.of))
        parent, rows = pairs(keys, key_of(cells, table.parent.column))
        root = above.root[parent]
        if key is not None and self.package.children(table.name):  # the first of each key under each root
            own = key.take(pa.array(rows))
            unnamed = np.flatnonzero(pc.is_null(own).to_numpy(zero_copy_only=False))
            used = np.sort(np.concatenate([first_of(own, root), unnamed]))
            parent, rows, root = parent[used], rows[used], root[used]
        return LinkedRows(cells.take(pa.array(rows)), root, parent)

    def number(self, table: LinkedTable) -> int:
        """The rows of a table that count. Private."""
        return len(self._rows[table.name].root)

    def roots_of(self, table: LinkedTable) -> np.ndarray:
        """int64[row]: the number of the root that each row of a table hangs on. Private."""
        return self._rows[table.name].root

    def number_of(self, child: str) -> np.ndarray:
        """int64[row of the parent]: how many rows of a table hang on each. Private."""
        table = next(each for each in self.package.private if each.name == child)
        assert table.parent is not None
        return np.bincount(self._rows[child].parent, minlength=len(self._rows[table.parent.of].root))

    def shape(self, table: LinkedTable) -> Local:
        """The view of a table as it is without rows, and without the columns of ancestors."""
        kinds = {
            name: plain(pa.nulls(0, self.schemas[table.name].field(name).type))
            for name in self.own[table.name]
        }
        counts = {
            count_of(child.name): pa.nulls(0, pa.int32()) for child in self.package.children(table.name)
        }
        root = {} if table.parent is None else {ROOT: pa.nulls(0, pa.large_string())}
        return Local(typed_view(root | kinds | counts, self.zones[table.name]))

    def roots(self, table: LinkedTable) -> Local:
        """Which root each row of a table hangs on, and nothing else."""
        return Local(typed_view({ROOT: self._named(table)}, None))

    def _named(self, table: LinkedTable) -> pa.Array:
        """The key of each row's root, as text. Not its number: which rows of a root are used follows from its
        name, and numbers follow from who else is there.
        """
        root = self.package.root
        keys = key_of(self._rows[root.name].cells, root.key).cast(pa.large_string())
        return keys.take(pa.array(self._rows[table.name].root))

    def view(self, table: LinkedTable, known: Sequence[str], most: Mapping[str, int]) -> Local:
        """The rows of a table: ROOT, but for the root itself, the columns that are to be learnt, and those
        that are `known`, in this order: of its own, of what it hangs on, and how many rows of each child, at
        most `most`, hang on it.
        """
        rows = self._rows[table.name]
        columns, at = self._columns(table, most), rows.parent
        to_learn = [name for name in columns if name not in known]
        for above in self.package.ancestors(table):
            for name, cells in self._columns(above, most).items():
                if beside(above.name, name) in known:
                    columns[beside(above.name, name)] = cells.take(pa.array(at))
            at = self._rows[above.name].parent[at]
        ordered = {name: columns[name] for name in (*to_learn, *known)}
        if table.parent is not None:
            ordered = {ROOT: self._named(table), **ordered}
            if table.parent.of != self.package.root.name:
                ordered[PARENT] = pa.array(rows.parent)
        return Local(typed_view(ordered, self.zones[table.name]))

    def _columns(self, table: LinkedTable, most: Mapping[str, int]) -> dict[str, pa.Array]:
        """Those that are modelled."""
        cells = self._rows[table.name].cells
        counts = {
            count_of(child.name): pa.array(
                np.minimum(self.number_of(child.name), most[child.name]), pa.int32()
            )
            for child in self.package.children(table.name)
        }
        return {name: cells.column(name).combine_chunks() for name in self.own[table.name]} | counts


def own_columns(table: LinkedTable, names: Sequence[str]) -> list[str]:
    """The columns of a table that are modelled, by public facts."""
    left_out = {table.key, table.parent.column if table.parent is not None else None}
    return [name for name in names if name not in left_out]


def typed_view(columns: Mapping[str, pa.Array], zone: str | None) -> Table:
    """Columns as a table: those of text are as a file's, of which the domain tells the type."""
    whole = pa.table(dict(columns))
    text = tuple(field.name for field in whole.schema if is_text(field.type))

    def read(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from whole.select(list(names)).to_batches(MAX_BATCH_ROWS)

    return Table(whole.schema, False, read, folder_columns=text, zone=zone)


def whole(table: Table) -> pa.Table:
    """All rows of a table."""
    names = table.schema.names
    batches = [
        pa.RecordBatch.from_arrays([plain(column) for column in batch.columns], names=names)
        for batch in table.batches(names)
    ]
    types = [plain(pa.nulls(0, field.type)).type for field in table.schema]
    empty = pa.schema(list(zip(names, types, strict=True)))
    return pa.Table.from_batches(batches, schema=batches[0].schema if batches else empty)


def key_of(cells: pa.Table, name: str | None) -> pa.Array:
    """A column of keys or of references: whole numbers, or texts, of which the empty one is none."""
    column = cells.column(name).combine_chunks()
    if pa.types.is_integer(column.type):
        return column.cast(pa.decimal128(20))
    if not is_text(column.type):
        raise InputError(f"column {name!r} is a key, and must hold whole numbers or texts")
    column = column.cast(pa.large_string())
    return pc.if_else(pc.equal(column, ""), None, column)


def codes_of(keys: pa.Array, known: pa.Array) -> np.ndarray:
    """int64[row]: the place of each key among the known ones, -1 where it is none of them."""
    places = pc.index_in(keys, value_set=known, skip_nulls=True)
    return pc.fill_null(places, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def first_of(keys: pa.Array, root: np.ndarray | None = None) -> np.ndarray:
    """int64: the first row of each key that is not null, of each root."""
    codes = codes_of(keys, pc.unique(keys.drop_null()))
    rows = np.flatnonzero(codes >= 0)
    both = codes[rows] if root is None else np.stack([root[rows], codes[rows]])
    return rows[np.unique(both, return_index=True, axis=-1)[1]]


def pairs(keys: pa.Array, references: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(int64: a row of the parent, int64: a row of the child that refers to it), of each child's row in
    order all rows of the parent with its key.
    """
    known = pc.unique(keys.drop_null())
    own, wanted = codes_of(keys, known), codes_of(references, known)
    order = np.argsort(own, kind="stable")
    first = np.searchsorted(own[order], np.arange(len(known) + 1))
    children = np.flatnonzero(wanted >= 0)
    many = np.diff(first)[wanted[children]]
    rows = np.repeat(children, many)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(many) - many, many)
    return order[first[wanted[rows]] + within], rows
