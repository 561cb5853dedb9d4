"""Catalogue: all tables of a database as a package, linked by the keys that the database enforces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from factored_mwem.errors import InputError, quoted_names, shown
from factored_mwem.request.package import LinkedTable, Package, Reference
from factored_mwem.tables.inputs.catalogue import ForeignKey, TableInSchema, catalogue_of
from factored_mwem.tables.inputs.databases import OURS, shown_uri
from factored_mwem.tables.inputs.uris import is_uri

USUAL = ("main", "public")
"""Schemas that tables are in where nothing else is said: DuckDB's and PostgreSQL's."""


def is_whole_database(source: Any) -> bool:
    """Whether a text names a database whose catalogue is read, and no table of it."""
    return is_uri(source) and "#" not in source and source.split("://", 1)[0].lower() in OURS


def read_catalogue(uri: str, public: Sequence[str] = ()) -> Package:
    """The tables of a DuckDB or PostgreSQL database, views left out, whose sources are URIs; those named in
    `public` are declared public. Reads no row.

    A table in another schema than the usual one is called `schema.table`. A primary key of several columns
    that nothing refers to is none here. Each table is read by a connection of its own, so a database that is
    written to meanwhile may show a child without its parent. Raises InputError in one line if the database
    cannot be reached, or its tables do not hang on one root.
    """
    found = catalogue_of(uri)
    try:
        names = {table: _name(table) for table in found.tables}
        unknown = [name for name in public if name not in names.values()]
        if unknown:
            known = quoted_names(list(names.values()))
            raise InputError(f"no table {shown(unknown[0])} to be public; there are {known}")
        links = defaultdict[TableInSchema, list[Reference]](list)
        for key in (each for each in found.foreign if each.table in names):  # a partition may have its own
            links[key.table].append(_reference(key, found.primary, names))
        linked = []
        for table, name in names.items():
            columns, source = found.primary.get(table, []), f"{uri}#{'.'.join(table)}"
            single = columns[0] if len(columns) == 1 else None
            linked.append(
                LinkedTable(name, source, single, others=tuple(links[table]), public=name in public)
            )
        return Package.of(linked)
    except InputError as error:
        raise InputError(f"{shown_uri(uri)}: {error}") from None


def _name(table: TableInSchema) -> str:
    """What a table is called. InputError where a URI could not name it: dots part schema and table there."""
    schema, name = table
    if "." in schema + name or "@" in schema + name:
        raise InputError(
            f"table {shown(name)}: a URI cannot name it, for . and @ mean something there; rename it"
        )
    return name if schema in USUAL else f"{schema}.{name}"


def _reference(
    key: ForeignKey, primary: Mapping[TableInSchema, list[str]], names: Mapping[TableInSchema, str]
) -> Reference:
    """A foreign key. InputError for one of several columns, or to other columns than the primary key."""
    if key.of not in names:
        how = "let it refer to the whole table"
        raise InputError(f"table {names[key.table]!r} refers to the partition {shown(key.of[1])}; {how}")
    columns = quoted_names(key.columns)
    if len(key.columns) > 1:
        how = "a key is a single column here; give the rows it names one of their own"
        raise InputError(f"table {names[key.table]!r} has a foreign key of several columns, {columns}; {how}")
    if key.of_columns != primary.get(key.of):
        what = f"refers by {columns} to {quoted_names(key.of_columns)} of {names[key.of]!r}"
        raise InputError(f"table {names[key.table]!r} {what}, which is not its primary key; refer to that")
    return Reference(key.columns[0], names[key.of])
