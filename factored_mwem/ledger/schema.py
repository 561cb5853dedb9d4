"""Schema: the tables of a ledger, one schema for SQLite and PostgreSQL.

Statements are written for SQLite. PostgreSQL takes them once the names of three types and the placeholders
are replaced. How a transaction begins, and what it locks, differs between the two.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

VERSION = 1
TABLES = (
    "CREATE TABLE secret (key BLOB NOT NULL)",
    "CREATE TABLE datasets (name TEXT PRIMARY KEY, epsilon REAL, delta REAL NOT NULL, rho REAL, "
    "neighbours TEXT NOT NULL, contributions INTEGER NOT NULL, privacy_id TEXT, limits TEXT, "
    "added TEXT NOT NULL)",
    "CREATE TABLE releases (id INTEGER PRIMARY KEY, dataset TEXT NOT NULL REFERENCES datasets, run_id TEXT, "
    "state TEXT NOT NULL, composition TEXT NOT NULL, amount TEXT NOT NULL, delta TEXT NOT NULL, "
    "spent_amount TEXT, spent_delta TEXT, parameters TEXT NOT NULL, fingerprint BLOB, mark TEXT NOT NULL, "
    "files TEXT NOT NULL, tool_version TEXT NOT NULL, reserved TEXT NOT NULL, changed TEXT NOT NULL, "
    "UNIQUE (dataset, run_id))",
    "CREATE TABLE events (number INTEGER PRIMARY KEY, reserved INTEGER UNIQUE, event TEXT NOT NULL, "
    "head TEXT NOT NULL, code BLOB NOT NULL)",
)
SHARED = (
    "CREATE TABLE form (version INTEGER NOT NULL, place TEXT NOT NULL, folder TEXT)",
    "CREATE TABLE journals (run TEXT NOT NULL, number INTEGER NOT NULL, record BLOB NOT NULL, "
    "PRIMARY KEY (run, number))",
)
"""Tables that only a database has. `place`: the identifier of the copy that was last written; `folder`: the
folder of the journals, if any.
"""
IN_POSTGRES = {"BLOB": "BYTEA", "REAL": "DOUBLE PRECISION", "INTEGER": "BIGINT"}
"""PostgreSQL's names of types, by SQLite's."""
Row = dict[str, Any]
"""A row of the table `datasets` or `releases`, by column."""


class Connection(Protocol):
    """The methods that both kinds of connection have."""

    def execute(self, statement: str, values: Any = ..., /) -> Any: ...


def in_postgres(statement: str) -> str:
    """One of our statements, rewritten for PostgreSQL."""
    types = "|".join(IN_POSTGRES)
    return re.sub(rf"\b({types})\b", lambda match: IN_POSTGRES[match[0]], statement).replace("?", "%s")


def rows(db: Connection, table: str, more: str, *values: str | int) -> list[Row]:
    """Whole rows, by column."""
    cursor = db.execute(f"SELECT * FROM {table} {more}", values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def insert(db: Connection, table: str, row: Row) -> None:
    """A new row, by column; what it does not name is NULL."""
    marks = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
