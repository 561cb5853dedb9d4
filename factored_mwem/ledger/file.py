"""The ledger file: a ledger in one SQLite file, which its owner keeps private and on a local disk."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from factored_mwem.errors import Busy, FmwemError, InputError, must
from factored_mwem.files.crashpoints import reach
from factored_mwem.ledger.journal_folder import JournalFolder, journals_of, kept_out, refuse_journals
from factored_mwem.ledger.ledger import Ledger, key_in
from factored_mwem.ledger.schema import TABLES, VERSION, Connection

APPLICATION_ID = 0x666D776C
"""The application id in our SQLite files: "fmwl"."""
LOCK_SECONDS = 60.0
"""How long to wait for another process's transaction, each of which takes milliseconds."""
TRIES = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    sys.exit(7)
"""
"""The program of another process that tests whether the file system keeps locks; it exits with 7 if it is
locked out.
"""


def connect(path: Path, patience: float | None = None) -> sqlite3.Connection:
    """The file, opened to be read and written; `patience` in seconds, LOCK_SECONDS where it is None."""
    patience = LOCK_SECONDS if patience is None else patience
    uri = f"{path.absolute().as_uri()}?mode=rw"
    db = sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None)
    # the file may come from anybody, so its schema must not call functions
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


def check_form(db: Connection, path: Path) -> None:
    """Raises InputError if the file is a ledger of another version; ValueError if it holds other tables.

    A trigger, for example, would change what is written.
    """
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if mark == APPLICATION_ID and version != VERSION:
        other = f"is a ledger of version {version}"
        raise InputError(f"{path} {other}, this program reads version {VERSION} alone")
    tables = {sql for kind, sql in db.execute("SELECT type, sql FROM sqlite_master") if sql is not None}
    must(mark == APPLICATION_ID and tables == set(TABLES), "form")


def lay_out(db: Connection, key: bytes) -> None:
    """The tables of a new ledger."""
    for table in TABLES:
        db.execute(table)
    db.execute("INSERT INTO secret VALUES (?)", (key,))
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


@contextlib.contextmanager
def clear(path: Path) -> Iterator[None]:
    """Turn errors of SQLite, or caused by a damaged file, into errors of one line."""
    try:
        yield
    except FmwemError:
        raise
    except sqlite3.IntegrityError as error:
        if "events." in str(error):  # the chain knows a release of this number, whose row is gone
            how = "`fmwem ledger verify` says where; put back its newest whole copy"
            raise InputError(f"the ledger {path} is damaged: {how}") from None
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


class LedgerFile(Ledger):
    """An open ledger file. Every method is one transaction.

    Raises InputError if the file is no ledger, Busy if it stays locked.

    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> from factored_mwem import Cap, LedgerFile, Neighbours, release
    >>> ledger = LedgerFile.create(Path("people.db"))
    >>> ledger.add("people", Cap.of(3.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    >>> _ = release(pa.table({"age": [0, 1]}), 1, domain={"age": 2}, ledger="people.db", dataset="people")
    >>> [entry.state for entry in ledger.entries("people")]
    ['finished']
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            make = f"if there never was one, make it with `fmwem ledger init {shlex.quote(str(path))}`"
            raise InputError(f"no ledger {path}; put it back, or, {make}")
        self.path, self.name = path, str(path)
        self._place = path.absolute()  # a caller may change its folder
        self.journals = JournalFolder(journals_of(path))
        with self._reading() as db:
            check_form(db, path)
            self.key = key_in(db)

    @classmethod
    def create(cls, path: Path) -> LedgerFile:
        """A new, empty ledger, readable by its owner alone. InputError on a disk that keeps no locks."""
        if not os.path.lexists(path):
            refuse_journals(journals_of(path), "choose another name")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise InputError(f"{path} exists; a ledger is never overwritten") from None
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}; choose another folder") from None
        try:
            with clear(path), contextlib.closing(connect(path)) as db, transaction(db):
                lay_out(db, secrets.token_bytes(32))
                if not kept_out(TRIES, path):
                    where = f"{path.parent} is on a file system that keeps no locks"
                    raise InputError(f"{where}; put the ledger on a local disk")
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return cls(path)

    @contextlib.contextmanager
    def _connected(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        with clear(self.path), contextlib.closing(connect(self._place, patience)) as db:
            yield db

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._connected() as db:
            db.execute("BEGIN")  # a snapshot, without what others commit meanwhile
            yield db

    _settled = _reading  # a process that is gone has left no transaction behind

    @contextlib.contextmanager
    def _writing(self, patience: float | None = None) -> Iterator[Connection]:
        with self._connected(patience) as db, transaction(db):
            check_form(db, self.path)
            yield db
            reach("before commit")
        reach("after commit")

    def _whole(self, db: Connection) -> bool:
        return bool(db.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)])

    def clear(self) -> contextlib.AbstractContextManager[None]:
        return clear(self.path)
