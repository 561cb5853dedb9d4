"""Catalogue: the tables of a database, and their keys as it enforces them; no row is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.databases import connect_duckdb, reached, shown_uri

TableInSchema = tuple[str, str]
"""The name of a schema, and of a table in it."""


class ForeignKey(NamedTuple):
    """Columns of a table that name rows of the table `of` by columns of that one."""

    table: TableInSchema
    columns: list[str]
    of: TableInSchema
    of_columns: list[str]


class Catalogue(NamedTuple):
    """The tables of a database, views left out, and their keys."""

    tables: list[TableInSchema]
    primary: dict[TableInSchema, list[str]]
    foreign: list[ForeignKey]

    @classmethod
    def of(cls, tables: Sequence[Any], keys: Iterable[tuple[Any, ...]]) -> Catalogue:
        """`keys`: schema, table and columns of each, and of a foreign one those it refers to, else None."""
        rows = list(keys)
        primary = {(row[0], row[1]): list(row[2]) for row in rows if row[4] is None}
        foreign = [
            ForeignKey((schema, table), list(columns), (of_schema, of), list(of_columns))
            for schema, table, columns, of_schema, of, of_columns in rows
            if of is not None
        ]
        return cls([(schema, table) for schema, table in tables], primary, foreign)


def catalogue_of(uri: str) -> Catalogue:
    """What a database says of its tables. InputError if it cannot be reached, or its keys are not read
    here.
    """
    readers = {"duckdb": _duckdb, "postgresql": _postgres, "postgres": _postgres}
    if "#" in uri:
        raise InputError(f"{shown_uri(uri)} names one table; leave out what stands behind # for all of them")
    reader = readers.get(uri.split("://", 1)[0].lower())
    if reader is None:
        how = "give its tables and their keys in Python, by release_tables"
        raise InputError(f"{shown_uri(uri)}: keys are read from DuckDB and PostgreSQL alone; {how}")
    return reached(uri, lambda _: reader(uri))


def _duckdb(url: str) -> Catalogue:
    """No foreign key there leads into another schema."""
    with connect_duckdb(url) as connection:
        tables = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database() "
            "AND NOT internal AND NOT temporary ORDER BY table_oid"
        ).fetchall()
        keys = connection.execute(
            "SELECT schema_name, table_name, constraint_column_names, referenced_table, "
            "referenced_column_names FROM duckdb_constraints() WHERE database_name = current_database() "
            "AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')"
        ).fetchall()
    return Catalogue.of(tables, ((s, t, own, s, of, there) for s, t, own, of, there in keys))


def _postgres(url: str) -> Catalogue:
    """Partitions are parts of their table. `information_schema` would show only the keys of one's own
    tables.
    """
    from adbc_driver_postgresql import dbapi

    columns = (
        "(SELECT array_agg(a.attname::text ORDER BY each.at) "
        "FROM unnest(k.{}) WITH ORDINALITY each(number, at) "
        "JOIN pg_attribute a ON a.attrelid = k.{} AND a.attnum = each.number)"
    )
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition "
            r"AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\_%' ORDER BY c.oid"
        )
        tables = cursor.fetchall()
        cursor.execute(
            f"SELECT n.nspname::text, c.relname::text, {columns.format('conkey', 'conrelid')}, "
            f"m.nspname::text, d.relname::text, {columns.format('confkey', 'confrelid')} "
            "FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_class d ON d.oid = k.confrelid "
            "LEFT JOIN pg_namespace m ON m.oid = d.relnamespace "
            "WHERE k.contype IN ('p', 'f') AND k.conparentid = 0 ORDER BY k.oid"
        )
        return Catalogue.of(tables, cursor.fetchall())
