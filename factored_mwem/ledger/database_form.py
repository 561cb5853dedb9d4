"""Form of a database: what it must hold to be a ledger, how that is made, and which copy of it this is."""

from __future__ import annotations

import re

from factored_mwem.errors import InputError
from factored_mwem.ledger.postgres import SCHEMA, Link, driver_of
from factored_mwem.ledger.schema import BOOKS, CHAIN, IN_POSTGRES, SHARED, VERSION

TABLES = (*SHARED, *BOOKS, CHAIN)
UNIQUE = {
    ("datasets", "PRIMARY KEY (name)"),
    ("releases", "PRIMARY KEY (id)"),
    ("releases", "UNIQUE (dataset, run_id)"),
    ("releases", "FOREIGN KEY (dataset) REFERENCES datasets(name)"),
    ("events", "PRIMARY KEY (number)"),
    ("events", "UNIQUE (reserved)"),
    ("journals", "PRIMARY KEY (run, number)"),
}
"""What the tables refuse to hold, as PostgreSQL says it."""


def lay_out(db: Link, key: bytes, folder: str | None, name: str) -> None:
    """The tables of a new ledger. InputError where there is one."""
    driver, problem = driver_of(), None
    try:
        db.execute(f"CREATE SCHEMA {SCHEMA}")
    except driver.errors.DuplicateSchema:
        problem = InputError(f"{name} holds a ledger; a ledger is never overwritten")
    except driver.errors.InsufficientPrivilege:
        problem = InputError(
            f"the user of {name} may not make a schema in it; GRANT CREATE ON DATABASE lets it"
        )
    if problem is not None:
        raise problem
    for table in TABLES:
        db.execute(table)
    # Not compressed: how much room a record takes must not depend on what was drawn.
    db.execute("ALTER TABLE journals ALTER COLUMN record SET STORAGE EXTERNAL")
    db.execute("INSERT INTO secret VALUES (?)", (key,))
    db.execute("INSERT INTO form VALUES (?, ?, ?)", (VERSION, place(db), folder))


def place(db: Link) -> str:
    """Which copy of the ledger this is: another after it was restored, or its server failed over.

    The cluster and its timeline, the database and the tables; a copy of the server's files is the same.
    """
    (found,) = db.execute(
        "SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()), "
        "substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), "
        "(SELECT oid FROM pg_database WHERE datname = current_database()), "
        "'secret'::regclass::oid, 'datasets'::regclass::oid, 'releases'::regclass::oid, "
        "'events'::regclass::oid)"
    ).fetchone()
    return str(found)


def check_form(db: Link, name: str) -> tuple[str, str | None]:
    """(place, folder) of the form. InputError where it is a later one; ValueError where it has other tables.

    A trigger, for one, would change what is written; a policy would hide what was spent.
    """
    forms = db.execute("SELECT version, place, folder FROM form").fetchall()
    if len(forms) == 1 and forms[0][0] > VERSION:
        raise InputError(
            f"{name} holds a ledger of version {forms[0][0]}, this program reads {VERSION}; update it"
        )
    kept = db.execute(
        "SELECT relname, relkind, relpersistence, relrowsecurity, relhasrules, relhassubclass, EXISTS ("
        "SELECT FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) FROM pg_class c WHERE "
        f"relnamespace = '{SCHEMA}'::regnamespace AND relkind NOT IN ('i', 't')"
    ).fetchall()
    columns = db.execute(
        "SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull FROM pg_class c JOIN "
        f"pg_attribute a ON attrelid = c.oid WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind = 'r' "
        "AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    ).fetchall()
    unique = db.execute(
        "SELECT relname, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON c.oid = "
        f"conrelid WHERE relnamespace = '{SCHEMA}'::regnamespace AND contype != 'n'"
    ).fetchall()
    expected = _columns()
    plain = {(table, "r", "p", False, False, False, False) for table in expected}
    found: dict[str, list[tuple[str, str, bool]]] = {}
    for table, *column in columns:
        found.setdefault(table, []).append(tuple(column))
    whole = len(forms) == 1 and forms[0][0] == VERSION and set(kept) == plain
    if not whole or found != expected or set(unique) != UNIQUE:
        raise ValueError("form")
    return forms[0][1], forms[0][2]


def _columns() -> dict[str, list[tuple[str, str, bool]]]:
    """(name, type, whether it must hold something) of each column, by table, as our own statements say."""
    found = {}
    for statement in TABLES:
        table, _, inside = statement.removeprefix("CREATE TABLE ").partition(" (")
        columns = re.findall(r"(?:^|, )(\w+) (TEXT|BLOB|REAL|INTEGER)( NOT NULL| PRIMARY KEY)?", inside)
        found[table] = [(n, IN_POSTGRES.get(kind, kind).lower(), bool(must)) for n, kind, must in columns]
    return found
