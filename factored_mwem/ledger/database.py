"""The ledger database: a ledger in PostgreSQL, for workers that share no disk."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from factored_mwem.errors import InputError, RolledBack, must
from factored_mwem.files.crashpoints import reach
from factored_mwem.ledger import chain
from factored_mwem.ledger.address import Address
from factored_mwem.ledger.journal import Journals
from factored_mwem.ledger.journal_folder import JournalFolder, keeps_locks, refuse_journals
from factored_mwem.ledger.journal_table import JournalTable
from factored_mwem.ledger.ledger import Ledger, key_in, now
from factored_mwem.ledger.postgres import SCHEMA, Link, clear, connect, driver_of
from factored_mwem.ledger.schema import IN_POSTGRES, SHARED, TABLES, VERSION, Connection

ALL_TABLES = (*SHARED, *TABLES)
UNIQUE = {
    ("datasets", "PRIMARY KEY (name)"),
    ("releases", "PRIMARY KEY (id)"),
    ("releases", "UNIQUE (dataset, run_id)"),
    ("releases", "FOREIGN KEY (dataset) REFERENCES datasets(name)"),
    ("events", "PRIMARY KEY (number)"),
    ("events", "UNIQUE (reserved)"),
    ("journals", "PRIMARY KEY (run, number)"),
}
"""The constraints of the tables, as PostgreSQL writes them."""


def lay_out(db: Link, key: bytes, folder: str | None, name: str) -> None:
    """The tables of a new ledger. Raises InputError if there is one."""
    driver, problem = driver_of(), None
    try:
        db.execute(f"CREATE SCHEMA {SCHEMA}")
    except driver.errors.DuplicateSchema:
        problem = InputError(f"{name} holds a ledger; a ledger is never overwritten")
    except driver.errors.InsufficientPrivilege:
        how = "may not make a schema in it; GRANT CREATE ON DATABASE lets it"
        problem = InputError(f"the user of {name} {how}")
    if problem is not None:
        raise problem
    for table in ALL_TABLES:
        db.execute(table)
    # Not compressed: how much room a record takes must not depend on what was drawn.
    db.execute("ALTER TABLE journals ALTER COLUMN record SET STORAGE EXTERNAL")
    db.execute("INSERT INTO secret VALUES (?)", (key,))
    db.execute("INSERT INTO form VALUES (?, ?, ?)", (VERSION, place(db), folder))


def place(db: Link) -> str:
    """An identifier of this copy of the ledger: it changes when the ledger is restored, or its server fails
    over.

    It consists of the cluster with its timeline, the database and the tables. A copy of the server's files
    has the same identifier.
    """
    (copy,) = db.execute(
        "SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()), "
        "substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), "
        "(SELECT oid FROM pg_database WHERE datname = current_database()), "
        "'secret'::regclass::oid, 'datasets'::regclass::oid, 'releases'::regclass::oid, "
        "'events'::regclass::oid)"
    ).fetchone()
    return str(copy)


def check_form(db: Link, name: str) -> tuple[str, str | None]:
    """(place, folder) of the table `form`. Raises InputError if the ledger has another version; ValueError if
    there are other tables.

    A trigger, for example, would change what is written; a policy would hide what was spent.
    """
    forms = db.execute("SELECT version, place, folder FROM form").fetchall()
    if len(forms) == 1 and forms[0][0] != VERSION:
        version = f"{forms[0][0]}, this program reads version {VERSION} alone"
        raise InputError(f"{name} holds a ledger of version {version}")
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
    present: dict[str, list[tuple[str, str, bool]]] = {}
    for table, *column in columns:
        present.setdefault(table, []).append(tuple(column))
    as_laid_out = set(kept) == plain and present == expected and set(unique) == UNIQUE
    must(len(forms) == 1 and as_laid_out, "form")
    return forms[0][1], forms[0][2]


def _columns() -> dict[str, list[tuple[str, str, bool]]]:
    """(name, type, whether NOT NULL) of each column, by table, read from our own CREATE statements."""
    expected = {}
    for statement in ALL_TABLES:
        table, _, inside = statement.removeprefix("CREATE TABLE ").partition(" (")
        listed = re.findall(r"(?:^|, )(\w+) (TEXT|BLOB|REAL|INTEGER)( NOT NULL| PRIMARY KEY)?", inside)
        expected[table] = [(n, IN_POSTGRES.get(kind, kind).lower(), bool(must)) for n, kind, must in listed]
    return expected


class LedgerDatabase(Ledger):
    """An open ledger in a database; it holds no connection between transactions."""

    def __init__(self, address: Address) -> None:
        self._address, self.name = address, address.name
        with self._reading() as db:
            _, folder = check_form(db, self.name)
            self.key = key_in(db)
        self.journals: Journals = JournalTable(address) if folder is None else JournalFolder(Path(folder))

    @classmethod
    def create(cls, address: Address, folder: Path | None = None) -> LedgerDatabase:
        """A new, empty ledger. `folder`: the folder of its journals, which every worker has under the same
        path; without one, they are kept in the database.
        """
        if folder is not None:
            folder = folder.resolve()
            if not folder.is_dir() or not keeps_locks(folder):
                raise InputError(f"{folder} is no folder, or is on a file system that keeps no locks")
            refuse_journals(folder, "choose another folder")
        with contextlib.closing(connect(address)) as db, clear(address.name), db.transaction():
            if db.execute("SHOW server_encoding").fetchone() != ("UTF8",):
                why = "does not keep all texts: its encoding must be UTF8"
                raise InputError(f"the database of {address.name} {why}")
            lay_out(db, secrets.token_bytes(32), None if folder is None else str(folder), address.name)
        return cls(address)

    @contextlib.contextmanager
    def _connected(self, patience: float | None = None) -> Iterator[Link]:
        with contextlib.closing(connect(self._address, patience)) as db, clear(self.name):
            yield db

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Link]:
        with self._connected() as db, db.transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield db

    @contextlib.contextmanager
    def _writing(self, patience: float | None = None) -> Iterator[Link]:
        with self._held(patience) as db:
            if check_form(db, self.name)[0] != place(db):
                raise RolledBack(self.name, copied=True)
            yield db
            reach("before commit")
        reach("after commit")

    @contextlib.contextmanager
    def _held(self, patience: float | None = None) -> Iterator[Link]:
        """A transaction during which nobody else writes, and which begins after all others have ended."""
        with self._connected(patience) as db, db.transaction():
            db.execute("LOCK TABLE datasets, releases, events IN EXCLUSIVE MODE")
            yield db

    _settled = _held

    def copied(self) -> bool:
        with self._reading() as db:
            return check_form(db, self.name)[0] != place(db)

    def accept(self) -> None:
        with self._held() as db:
            check_form(db, self.name)
            db.execute("UPDATE form SET place = ?", (place(db),))
            chain.append(db, self.key, {"event": chain.ACCEPTED, "at": now()})

    def _whole(self, db: Connection) -> bool:
        return True  # the server reports a page whose checksum is wrong

    def clear(self) -> contextlib.AbstractContextManager[None]:
        return clear(self.name)
