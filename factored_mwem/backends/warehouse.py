"""Warehouse: opens a table in a database, whose rows are streamed from there or stay where they are."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from factored_mwem.backends.source import Local, Source
from factored_mwem.backends.sql import PushedDown, engine_of
from factored_mwem.backends.warehouse_uri import is_warehouse, parts_of, shown_uri
from factored_mwem.errors import FmwemError, InputError
from factored_mwem.tables.source import table_of
from factored_mwem.tables.streams import Query, query_of, quoted

PACKAGES = {"duckdb": "sql", "postgresql": "sql", "postgres": "sql"}
"""The extra with a driver; of the others, Ibis has one each."""


def open_warehouse(uri: str, folder: Path | None = None, *, stay: bool = False) -> Source:
    """The table that a URI names: its rows are streamed, or `stay` where they are. InputError where it cannot
    be reached, or a package is missing; reads no row.
    """
    scheme, url, path = parts_of(uri)
    try:
        if stay:
            return _staying(_ibis_table(url, path))
        opener = {"duckdb": _duckdb, "postgresql": _postgres, "postgres": _postgres}.get(scheme, _by_ibis)
        return Local(table_of(opener(url, path), folder))
    except (FmwemError, MemoryError):
        raise
    except ImportError:
        extra = f"factored-mwem[{PACKAGES[scheme]}]" if scheme in PACKAGES else f"ibis-framework[{scheme}]"
        why = f"a package is missing: pip install '{extra}'"
    except Exception:  # noqa: BLE001 - a driver may raise anything, with the password in it
        why = "is it there, are name and credentials right, and is nobody else writing it?"
    raise InputError(f"cannot open {shown_uri(uri)}: {why}")


def push_down(table: Any) -> Source:
    """A table whose rows stay in their database: an Ibis table or a URI such as
    `postgresql://ana@db/shop#sales.people`, for `release` and whatever else takes a table. The database
    encodes and counts; nothing but counts comes out. InputError where it cannot be done.

    >>> from factored_mwem import InputError, push_down
    >>> try:
    ...     push_down("people.csv")
    ... except InputError as error:
    ...     print(error)
    rows can be left where they are only in a database: give --push-down (push_down) an Ibis table ...
    """
    ibis = sys.modules.get("ibis")
    if ibis is not None and isinstance(table, ibis.Table):
        return _staying(table)
    if not is_warehouse(table):
        raise InputError(
            "rows can be left where they are only in a database: give --push-down (push_down) an Ibis table "
            "or the URI of one such as duckdb:///shop.db#people"
        )
    return open_warehouse(table, stay=True)


def _staying(table: Any) -> PushedDown:
    return PushedDown(table, engine_of(table))


def _file_of(url: str) -> str:
    return url.split("://", 1)[1].split("?", 1)[0]


def _duckdb(url: str, path: list[str]) -> Query:
    import duckdb

    connection = duckdb.connect(_file_of(url), read_only=True)
    query = query_of(connection.sql(f"SELECT * FROM {'.'.join(map(quoted, path))}"))
    assert query is not None  # as of any relation
    return query._replace(kind="DuckDB table")


def _postgres(url: str, path: list[str]) -> Query:
    """By the driver that reads the wire's own binary form: it has a value for every date there can be."""
    from adbc_driver_postgresql import dbapi

    connection = dbapi.connect(url)
    table = ".".join(map(quoted, path))

    def start(columns: list[str]) -> Iterable[pa.RecordBatch]:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(map(quoted, columns))} FROM {table}")
            yield from cursor.fetch_record_batch()

    with connection.cursor() as cursor:
        return Query("PostgreSQL table", cursor.adbc_execute_schema(f"SELECT * FROM {table}"), start)


def _ibis_table(url: str, path: list[str]) -> Any:
    import ibis

    if url.lower().startswith("duckdb:"):
        url += ("&" if "?" in url else "?") + "read_only=True"
    backend = ibis.connect(url)
    return backend.table(path[-1], database=tuple(path[:-1]) if len(path) > 1 else None)


def _by_ibis(url: str, path: list[str]) -> Query:
    query = query_of(_ibis_table(url, path))
    assert query is not None  # as of any Ibis table
    return query
