"""Package: several tables that belong together, and which column of one names the rows of another.

One private table is the root, and every other hangs on it, at once or by way of others. A row of the root and
all that hangs on it are what the promise protects together: so a private row has one parent, never two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from factored_mwem.errors import InputError, did_you_mean, quoted_names, shortened, shown
from factored_mwem.tables.codes.parsing import is_text, spelt, value_type

MAX_NAME_BYTES = 200
"""Of a table's name, after which a file is called."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A column whose cells name rows of another table, `of`, by its primary key.

    >>> from factored_mwem import Reference
    >>> Reference("user_id", "users")
    Reference(column='user_id', of='users')
    """

    column: str
    of: str


@dataclass(frozen=True, slots=True)
class LinkedTable:
    """A table of a package. `source`: a path, pyarrow or any data frame; `key`: its primary key; `parent`:
    the private table it hangs on; `others`: public tables that it refers to. A `public` table is nobody's
    secret and is published as it is. `order_by`: the column whose values put the rows of each root in order.

    >>> from factored_mwem import LinkedTable, Reference
    >>> LinkedTable("visits", "visits.csv", parent=Reference("user_id", "users")).references
    (Reference(column='user_id', of='users'),)
    """

    name: str
    source: Any = field(repr=False)
    key: str | None = None
    parent: Reference | None = None
    others: tuple[Reference, ...] = ()
    public: bool = False
    order_by: str | None = None

    @property
    def references(self) -> tuple[Reference, ...]:
        """All columns that name rows of other tables."""
        return (*(() if self.parent is None else (self.parent,)), *self.others)


@dataclass(frozen=True, slots=True)
class Package:
    """Tables that hang on one root: `private`, each after its parent, the root first; and `public` ones.

    >>> from factored_mwem import LinkedTable, Package, Reference
    >>> visits = LinkedTable("visits", "visits.csv", parent=Reference("user_id", "users"))
    >>> Package.of([visits, LinkedTable("users", "users.csv", key="user_id")]).root.name
    'users'
    """

    private: tuple[LinkedTable, ...]
    public: tuple[LinkedTable, ...] = ()

    @classmethod
    def of(cls, tables: Sequence[LinkedTable]) -> Package:
        """Tables in any order, checked by what is said of them; no table is read. The root comes first, then
        each table before what hangs on it; public ones stay in their order.

        A reference may stand in `parent` or in `others`: which it is follows from what is public. Raises
        InputError, in a line that says what to declare, where the private tables do not hang on one root.
        """
        by_name = _by_name(tables)
        for table in tables:
            _check_keys(table, by_name)
        private = {
            name: _sorted_references(each, by_name) for name, each in by_name.items() if not each.public
        }
        if not private:
            raise InputError("every table is public, so there is nothing to protect; leave one private")
        roots = [name for name, each in private.items() if each.parent is None]
        if len(roots) > 1:
            how = 'give one a foreign key, leave it out, or declare it public ("public": true)'
            raise InputError(f"{quoted_names(roots)} hang on no private table, and only one may; {how}")
        ordered = _preorder(roots, private)
        if len(ordered) < len(private):
            placed = {each.name for each in ordered}
            raise InputError(_circle([each for name, each in private.items() if name not in placed]))
        for table in (each for each in tables if each.order_by is not None):
            parent = None if table.public else private[table.name].parent
            if parent is None or parent.of != ordered[0].name:
                of = f"only rows that hang on {shortened(ordered[0].name)!r}, the root, come in order"
                raise InputError(f"table {shortened(table.name)!r}: {of}; leave out its orderBy")
        return cls(tuple(ordered), tuple(each for each in tables if each.public))

    @property
    def without_rows(self) -> Package:
        """The private tables by their names and keys alone."""
        return replace(self, private=tuple(replace(each, source=None) for each in self.private))

    @property
    def root(self) -> LinkedTable:
        return self.private[0]

    def children(self, name: str) -> list[LinkedTable]:
        """The tables that hang on the one of this name."""
        return [each for each in self.private if each.parent is not None and each.parent.of == name]

    def ancestors(self, table: LinkedTable) -> Iterator[LinkedTable]:
        """Parent, grandparent, ... up to the root."""
        by_name = {each.name: each for each in self.private}
        while table.parent is not None:
            table = by_name[table.parent.of]
            yield table


def _by_name(tables: Sequence[LinkedTable]) -> dict[str, LinkedTable]:
    """Raises InputError for names that no file can have, or two have."""
    if not tables:
        raise InputError("the package lists no tables; list one, and those that hang on it")
    seen = dict[str, str]()
    for name in (table.name for table in tables):
        odd = (
            not name.isprintable()
            or name != name.strip()
            or name[:1] in (".", "~")
            or set(name) & set("/\\:")
        )
        if not name or odd or len(name.encode()) > MAX_NAME_BYTES:
            how = "a file is called after it; use letters, digits, - and _"
            raise InputError(f"no table can be named {shown(name)}: {how}")
        if name.casefold() in seen:  # the same file on some disks
            both = f"{shortened(seen[name.casefold()])!r} and {shortened(name)!r}"
            raise InputError(f"two tables are named {both}; give each a name of its own")
        seen[name.casefold()] = name
    return {table.name: table for table in tables}


def _check_keys(table: LinkedTable, by_name: Mapping[str, LinkedTable]) -> None:
    """Raises InputError for a reference that leads nowhere, or back to the table itself, and for a column
    that would have to be two things.
    """
    where, columns = f"table {shortened(table.name)!r}", set[str]()
    for reference in table.references:
        said = f"{where}: its column {shortened(reference.column)!r}"
        target = by_name.get(reference.of)
        if target is None:
            known = quoted_names(list(by_name))
            raise InputError(
                f"{said} refers to {shown(reference.of)}, which is no table here; there are {known}"
            )
        if target is table and not table.public:
            how = "remove that foreign key: the column is then one like any other"
            raise InputError(f"{said} refers to its own table, and rows hang on a row of another one; {how}")
        if target.key is None:
            how = "declare its primaryKey, a column that is different in every row"
            raise InputError(f"{said} refers to {shortened(target.name)!r}, which has no primary key; {how}")
        if table.public and not target.public:
            how = "its rows would say which there are; make it private, or leave it out"
            raise InputError(
                f"{where} is public and refers to {shortened(target.name)!r}, which is private; {how}"
            )
        if reference.column in columns:
            raise InputError(f"{said} refers to two tables; keep one of the foreign keys")
        if reference.column == table.key and not table.public:
            how = "leave out its primaryKey, and let what refers to it refer to that table instead"
            raise InputError(
                f"{said} is its primary key and refers to {shortened(target.name)!r}, too; {how}"
            )
        columns.add(reference.column)


def _sorted_references(table: LinkedTable, by_name: Mapping[str, LinkedTable]) -> LinkedTable:
    """A private table with its one private reference as its parent, all others beside. InputError for two."""
    parents = [each for each in table.references if not by_name[each.of].public]
    if len(parents) > 1:
        ways = " and ".join(f"{shortened(p.of)!r} by {shortened(p.column)!r}" for p in parents[:2])
        how = 'declare one of them public ("public": true) if it is nobody\'s secret, or remove a foreign key'
        raise InputError(
            f"table {shortened(table.name)!r} hangs on two private tables, {ways}, and a row may "
            f"belong to one row alone; {how}"
        )
    others = tuple(each for each in table.references if by_name[each.of].public)
    return replace(table, parent=parents[0] if parents else None, others=others)


def _preorder(roots: Sequence[str], private: Mapping[str, LinkedTable]) -> list[LinkedTable]:
    """The root, if there is one, and all that hangs on it: children in their order behind their parent."""
    children = defaultdict[str, list[str]](list)
    for name, each in private.items():
        if each.parent is not None:
            children[each.parent.of].append(name)
    ordered, waiting = list[LinkedTable](), list(roots)
    while waiting:
        ordered.append(private[waiting.pop()])
        waiting += reversed(children[ordered[-1].name])
    return ordered


def _circle(tables: Sequence[LinkedTable]) -> str:
    """What to say of tables each of which has a parent among them, or above them in a circle."""
    parents = {each.name: each.parent.of for each in tables if each.parent is not None}
    path = [tables[0].name]
    while path[-1] not in path[:-1]:
        path.append(parents[path[-1]])
    circle = path[path.index(path[-1]) :]
    way = " -> ".join(repr(shortened(name)) for name in circle[:6]) + (" ..." if len(circle) > 6 else "")
    how = "remove a foreign key of theirs, so that they hang on one root"
    return f"tables refer to each other in a circle, {way}; {how}"


def check_columns(
    package: Package, schemas: Mapping[str, pa.Schema], text: AbstractSet[str] = frozenset()
) -> None:
    """Raises InputError for keys that the opened tables do not have, or that cannot name rows.

    `schemas`: names and types of each table's columns, by its name; `text`: the tables whose columns are raw
    text, as a CSV file's are. Looks at no row.
    """
    tables = {each.name: each for each in (*package.private, *package.public)}
    for table in tables.values():
        kind = "" if table.key is None else _kind_of_key(table, table.key, schemas)
        if kind == "dates" and not table.public:
            how = 'number the rows, or declare the table "public": true'
            raise InputError(f"table {table.name!r}: its primary key {table.key!r} is a date; {how}")
        for reference in table.references:
            target = tables[reference.of]
            here = _kind_of_key(table, reference.column, schemas)
            there = _kind_of_key(target, target.key or "", schemas)
            if here != there:
                both = f"{shortened(reference.column)!r} of {table.name!r} holds {here}"
                both += f", and {shortened(target.key or '')!r} of {target.name!r} {there}"
                typed = [each.name for each in (table, target) if each.name not in text]
                other = {table.name, target.name}.difference(typed)
                how = f"write {other.pop()!r} as Parquet" if len(typed) == 1 else "convert one of them"
                raise InputError(f"keys of two types: {both}; {how}")


def _kind_of_key(table: LinkedTable, column: str, schemas: Mapping[str, pa.Schema]) -> str:
    """What a column that names rows holds, in words; whole numbers of all widths are alike."""
    schema = schemas[table.name]
    if column not in schema.names:
        what = f"no column {shown(column)}, which is to be a key{did_you_mean(column, schema.names)}"
        what += f"; it has {quoted_names(schema.names)}"
        raise InputError(f"table {table.name!r} has {what}")
    arrow = value_type(schema.field(column).type)
    if is_text(arrow):
        return "text"
    if pa.types.is_integer(arrow):
        return "whole numbers"
    if pa.types.is_date(arrow):
        return "dates"
    how = "keys are whole numbers or text; convert it to one of them"
    raise InputError(f"table {table.name!r}: the key {shortened(column)!r} is {spelt(arrow)}; {how}")


def two_tables(
    root: tuple[str, Any], child: tuple[str, Any], key: str, foreign_key: str | None = None
) -> Package:
    """Two private tables, each a name and a source: column `foreign_key` of the child names rows of the root
    by its `key`; without it the child has a column of the same name. Raises InputError as `Package.of` does.
    """
    reference = Reference(foreign_key or key, root[0])
    return Package.of([LinkedTable(*root, key), LinkedTable(*child, parent=reference)])
