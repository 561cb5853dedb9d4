"""Form: what an SQLite file must hold to be a ledger, how it is opened, and how an older one is taken up."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from factored_mwem.errors import Busy, FmwemError, InputError
from factored_mwem.ledger import chain
from factored_mwem.ledger.schema import BOOKS, CHAIN, TABLES, VERSION, Connection, rows

APPLICATION_ID = 0x666D776C
"""SQLite's mark of our files: "fmwl"."""
LOCK_SECONDS = 60.0
"""How long to wait for another process's transaction, each of which takes milliseconds."""
TRIES = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    sys.exit(7)
"""
"""What another process does to find out whether the file system keeps locks: 7 where it is kept out."""


def connect(path: Path, patience: float | None = None) -> sqlite3.Connection:
    """The file, opened to be read and written; `patience` in seconds, LOCK_SECONDS where it is None."""
    patience = LOCK_SECONDS if patience is None else patience
    uri = f"{path.absolute().as_uri()}?mode=rw"
    db = sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA synchronous = EXTRA")  # a commit is on disk, and so is the end of its rollback journal
    return db


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; no other process writes meanwhile."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def keeps_locks(path: Path) -> bool:
    """Whether another process is kept out of a file in whose transaction this one is."""
    command = [sys.executable, "-I", "-c", TRIES, str(path)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 7


def check_form(db: Connection, path: Path) -> int:
    """The file's version. InputError where it is a later one; ValueError where it holds other tables.

    A trigger, for one, would change what is written.
    """
    mark, version = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if mark == APPLICATION_ID and version > VERSION:
        raise InputError(
            f"{path} is a ledger of version {version}, this program reads version {VERSION}; update it"
        )
    tables = {sql for kind, sql in db.execute("SELECT type, sql FROM sqlite_master") if sql is not None}
    if mark != APPLICATION_ID or tables != TABLES.get(version):
        raise ValueError("form")
    return int(version)


def lay_out(db: sqlite3.Connection, key: bytes) -> None:
    """The tables of a new ledger."""
    for table in (*BOOKS, CHAIN):
        db.execute(table)
    db.execute("INSERT INTO secret VALUES (?)", (key,))
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def take_up(db: sqlite3.Connection, key: bytes) -> None:
    """Begin the chain of a ledger of version 1 with its rows, in the transaction that next writes to it."""
    db.execute(CHAIN)
    releases = rows(db, "releases", "ORDER BY id")
    chain.append(db, key, chain.taken_up(rows(db, "datasets", "ORDER BY added, name"), releases), releases)
    db.execute(f"PRAGMA user_version = {VERSION}")


@contextlib.contextmanager
def clear(path: Path) -> Iterator[None]:
    """Turn what SQLite or a damaged file raises into one line."""
    try:
        yield
    except FmwemError:
        raise
    except sqlite3.IntegrityError as error:
        if "events." in str(error):  # the chain knows a release of this number, whose row is gone
            raise InputError(
                f"the ledger {path} is damaged: `fmwem ledger verify` says where; put back its newest whole "
                "copy"
            ) from None
        raise Busy(f"another process entered this run in the ledger {path}; try again") from None
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise Busy(f"the ledger {path} is in use; try again") from None
        if "full" in text or "disk I/O" in text:
            raise Busy(f"no space left to write the ledger {path}; free some and try again") from None
        why = "it is read-only" if "readonly" in text else "it is damaged or cannot be opened"
        raise InputError(f"cannot read or write the ledger {path}: {why}") from None
    except (sqlite3.Error, ValueError, TypeError, ArithmeticError, RecursionError):
        raise InputError(
            f"{path} is not a ledger, or is damaged; put back a whole copy (a new or an older one forgets "
            "what was spent)"
        ) from None
