"""Databases: opens a table that a URI names, to be streamed from where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pyarrow as pa

from factored_mwem.errors import FmwemError, InputError
from factored_mwem.tables.database_uri import parts_of, shown_uri
from factored_mwem.tables.streams import Query, query_of, quoted

OURS = ("duckdb", "postgresql", "postgres")
"""Those whose drivers our extra brings; of the others, Ibis has an extra each."""
T = TypeVar("T")


def database_query(uri: str) -> Query:
    """The rows of a table in a database. Reads none; InputError where it cannot be reached, or a package is
    missing.
    """
    openers = {"duckdb": _duckdb, "postgresql": _postgres, "postgres": _postgres}
    return _opened(uri, lambda scheme, url, path: openers.get(scheme, _by_ibis)(url, path))


def ibis_table(uri: str) -> Any:
    """The same as a table of Ibis."""
    return _opened(uri, lambda scheme, url, path: _by_name(url, path))


def _opened(uri: str, opener: Callable[[str, str, list[str]], T]) -> T:
    scheme, url, path = parts_of(uri)
    try:
        return opener(scheme, url, path)
    except (FmwemError, MemoryError):
        raise
    except ImportError:
        extra = "factored-mwem[sql]" if scheme in OURS else f"ibis-framework[{scheme}]"
        why = f"a package is missing: pip install '{extra}'"
    except Exception:  # noqa: BLE001 - a driver may raise anything, with the password in it
        why = "is it there, are name and credentials right, and is nobody else writing it?"
    raise InputError(f"cannot open {shown_uri(uri)}: {why}")


def _duckdb(url: str, path: list[str]) -> Query:
    import duckdb

    connection = duckdb.connect(url.split("://", 1)[1].split("?", 1)[0], read_only=True)
    query = query_of(connection.sql(f"SELECT * FROM {'.'.join(map(quoted, path))}"))
    assert query is not None  # as of any relation
    return query._replace(kind="DuckDB table")


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
    query = query_of(_by_name(url, path))
    assert query is not None  # as of any Ibis table
    return query


def _by_name(url: str, path: list[str]) -> Any:
    import ibis

    if url.lower().startswith("duckdb:"):
        url += ("&" if "?" in url else "?") + "read_only=True"
    backend = ibis.connect(url)
    return backend.table(path[-1], database=tuple(path[:-1]) if len(path) > 1 else None)
