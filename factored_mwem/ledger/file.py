"""The ledger file: a ledger in one SQLite file, which its owner keeps private and on a local disk."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from factored_mwem.crashpoints import reach
from factored_mwem.errors import InputError
from factored_mwem.ledger.form import (
    check_form,
    clear,
    connect,
    keeps_locks,
    lay_out,
    take_up,
    transaction,
)
from factored_mwem.ledger.journal_folder import JournalFolder, journals_of, refuse_journals
from factored_mwem.ledger.ledger import Ledger, key_in
from factored_mwem.ledger.schema import VERSION, Connection


class LedgerFile(Ledger):
    """An open ledger file. Every method is one transaction.

    InputError where the file is no ledger, Busy where it stays locked.

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
            make = f"`fmwem ledger init {shlex.quote(str(path))}`"
            raise InputError(
                f"no ledger {path}; put it back, or, if there never was one, make it with {make}"
            )
        self.path, self.name = path, str(path)
        self._place = path.absolute()  # a caller may change its folder
        self.journals = JournalFolder(journals_of(path))
        with self._reading() as db:
            self._version(db)
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
                if not keeps_locks(path):
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
            db.execute("BEGIN")  # what others commit meanwhile stays out
            yield db

    _settled = _reading  # a process that is gone has left no transaction behind

    @contextlib.contextmanager
    def _writing(self, patience: float | None = None) -> Iterator[Connection]:
        with self._connected(patience) as db, transaction(db):
            if self._version(db) < VERSION:
                take_up(db, self.key)
            yield db
            reach("before commit")
        reach("after commit")

    def _version(self, db: Connection) -> int:
        return check_form(db, self.path)

    def _whole(self, db: Connection) -> bool:
        return bool(db.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)])

    def clear(self) -> contextlib.AbstractContextManager[None]:
        return clear(self.path)
