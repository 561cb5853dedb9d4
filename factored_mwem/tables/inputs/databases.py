"""Databases: opens a table that a URI names, to be streamed from where it is. The database is named as Ibis
names it, and the table behind #.

`duckdb:///data/shop.db#people`, `postgresql://ana@db/shop#sales.people`, `bigquery://project/set#people`,
`snowflake://...#people`. What else is in a URI may be a secret: messages show its place alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.arrow_input import unquoted
from factored_mwem.tables.inputs.streams import Query, known_query, quoted
from factored_mwem.tables.inputs.uris import shown

OURS = ("duckdb", "postgresql", "postgres")
"""Those whose drivers our extra brings; of the others, Ibis has an extra each."""
T = TypeVar("T")


def database_query(uri: str) -> Query:
    """The rows of a table. Reads none; InputError if it cannot be reached, or a package is missing."""
    openers = {"duckdb": _duckdb, "postgresql": _postgres, "postgres": _postgres}
    return _opened(uri, lambda scheme, url, path: openers.get(scheme, _by_ibis)(url, path))


def ibis_table(uri: str) -> Any:
    """The same as a table of Ibis."""
    return _opened(uri, lambda scheme, url, path: _by_name(url, path))


def _opened(uri: str, opener: Callable[[str, str, list[str]], T]) -> T:
    url, _, name = uri.partition("#")
    if not name:
        raise InputError(f"{shown_uri(uri)} names no table; add it behind #, as in #people or #sales.people")
    return reached(uri, lambda scheme: opener(scheme, url, name.split(".")))


def reached(uri: str, ask: Callable[[str], T]) -> T:
    """What `ask` gives for the scheme of a database's URI. InputError if it cannot be reached, or a package
    is missing.
    """
    scheme = uri.split("://", 1)[0].lower()

    def refusal(error: BaseException) -> InputError:
        why = "is it there, are name and credentials right, and is nobody else writing it?"
        if isinstance(error, ImportError):
            extra = "factored-mwem[sql]" if scheme in OURS else f"ibis-framework[{scheme}]"
            why = f"a package is missing: pip install '{extra}'"
        return InputError(f"cannot open {shown_uri(uri)}: {why}")

    return unquoted(lambda: ask(scheme), refusal)


def connect_duckdb(url: str) -> Any:
    """A connection to a file that reads alone."""
    import duckdb

    return duckdb.connect(url.split("://", 1)[1].split("?", 1)[0], read_only=True)


def _duckdb(url: str, path: list[str]) -> Query:
    relation = connect_duckdb(url).sql(f"SELECT * FROM {'.'.join(map(quoted, path))}")
    return known_query(relation)._replace(kind="DuckDB table")


def _postgres(url: str, path: list[str]) -> Query:
    """By the driver that reads the wire's own binary form: no value there can be makes it fail."""
    from adbc_driver_postgresql import dbapi

    connection = dbapi.connect(url)
    table = ".".join(map(quoted, path))

    def start(columns: list[str]) -> Iterable[pa.RecordBatch]:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(map(quoted, columns))} FROM {table}")
            yield from cursor.fetch_record_batch()

    with connection.cursor() as cursor:
        return Query("PostgreSQL table", cursor.adbc_execute_schema(f"SELECT * FROM {table}"), start)


def _by_ibis(url: str, path: list[str]) -> Query:
    return known_query(_by_name(url, path))


def _by_name(url: str, path: list[str]) -> Any:
    import ibis

    if url.lower().startswith("duckdb:"):
        url += ("&" if "?" in url else "?") + "read_only=True"
    backend = ibis.connect(url)
    return backend.table(path[-1], database=tuple(path[:-1]) if len(path) > 1 else None)


def shown_uri(uri: str) -> str:
    """A URI without what may be secret: user, password, options."""
    url, _, name = uri.partition("#")
    if "@" in name:  # a password with a # in it, perhaps
        return f"{url.split('://', 1)[0]}://..."
    return shown(url) + (f"#{name}" if name else "")
