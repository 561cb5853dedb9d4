"""Package draft: which columns of several tables are keys, guessed from names alone, for a person to correct.

A table `users` is known by its column `id`, `user_id`, `id_user`, `user_no` or `user`; what is called like
another table's key, or like that table, names its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.request.data_package import check_inside, descriptor_of
from factored_mwem.request.package import LinkedTable, Reference
from factored_mwem.tables.outputs import descriptors

SUFFIXES = ("id", "key", "uuid", "no", "nr", "num", "number", "code", "")
"""What follows a table's name in that of its key, the likeliest first."""
ANYBODYS = ("id", "uuid", "guid")
"""Names of keys that say nothing of their table."""


def guessed(columns: Mapping[str, Sequence[str]], sources: Mapping[str, Any]) -> list[LinkedTable]:
    """The tables with their keys, as far as names tell: `columns` and `sources` are of each table, by its
    name.
    """
    keys = {name: _own_key(name, columns[name]) for name in columns}
    links = {name: _references(name, columns, keys) for name in columns}
    for name in columns:
        if keys[name] is None and not links[name]:
            keys[name] = _shared_key(name, columns, keys)
            links = {other: _references(other, columns, keys) for other in columns}
    return [LinkedTable(name, sources[name], keys[name], others=links[name]) for name in columns]


def _plain(name: str) -> str:
    """Letters and digits of a name, small: `User-ID` and `user_id` are the same."""
    return re.sub(r"[\W_]", "", name).casefold() or name


def _singulars(table: str) -> Iterator[str]:
    """What one row of a table may be called, as its name tells."""
    name = _plain(table)
    if name == "people":
        yield "person"
    if name.endswith("ies"):
        yield f"{name[:-3]}y"
    if name.endswith("s"):
        yield name[:-1]
    if name.endswith("es"):
        yield name[:-2]
    yield name


def _names_of_key(table: str) -> list[str]:
    """The names by which columns name rows of a table, the likeliest first."""
    rows = list(_singulars(table))
    ways = (name for suffix in SUFFIXES for row in rows for name in (f"{row}{suffix}", f"{suffix}{row}"))
    return list(dict.fromkeys(ways))


def _own_key(table: str, columns: Sequence[str]) -> str | None:
    """`drug` of a table of drugs says what a row is about: many rows may be about the same."""
    by_name, bare = {_plain(column): column for column in reversed(columns)}, {*_singulars(table)}
    names = (*ANYBODYS, *(name for name in _names_of_key(table) if name not in bare))
    return next((by_name[name] for name in names if name in by_name), None)


def _references(
    table: str, columns: Mapping[str, Sequence[str]], keys: Mapping[str, str | None]
) -> tuple[Reference, ...]:
    """The columns of a table that are called like another one, or like its key."""
    others = {other: key for other, key in keys.items() if key is not None and other != table}
    found = []
    for column in columns[table]:
        name = _plain(column)
        called = [other for other in others if name in _names_of_key(other)]
        alike = [other for other, key in others.items() if name == _plain(key) and name not in ANYBODYS]
        of = next(iter(called + alike), None) if column != keys[table] else None
        if of is not None:
            found.append(Reference(column, of))
    return tuple(found)


def _shared_key(
    table: str, columns: Mapping[str, Sequence[str]], keys: Mapping[str, str | None]
) -> str | None:
    """The one column that a table shares with later ones; of several none is likelier."""
    later = list(columns)[list(columns).index(table) + 1 :]
    theirs = {_plain(column) for other in later for column in columns[other] if column != keys[other]}
    shared = [column for column in columns[table] if _plain(column) in theirs]
    return shared[0] if len(shared) == 1 else None


def drafted(
    tables: Sequence[LinkedTable], schemas: Mapping[str, pa.Schema], text: AbstractSet[str]
) -> dict[str, Any]:
    """The descriptor of tables whose sources are paths from its folder. `schemas`: names and types of their
    columns; `text`: the tables whose types only their rows would tell. InputError for a path out of there.
    """
    files = {each.name: Path(each.source).as_posix() for each in tables}
    for name, path in files.items():
        try:
            check_inside(path)
        except InputError as error:
            raise InputError(f"table {name!r}: {error}") from None
    kinds = {
        (name, field.name): "any" if name in text else descriptors.kind_of(field.type)
        for name in files
        for field in schemas[name]
    }
    return descriptor_of(tables, kinds, files)
