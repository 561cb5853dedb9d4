"""The ledger database: a ledger in PostgreSQL, for workers that share no disk."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

from factored_mwem.crashpoints import reach
from factored_mwem.errors import InputError, RolledBack
from factored_mwem.ledger import chain
from factored_mwem.ledger.address import Address
from factored_mwem.ledger.database_form import check_form, lay_out, place
from factored_mwem.ledger.journal import Journals
from factored_mwem.ledger.journal_folder import JournalFolder, keeps_locks, refuse_journals
from factored_mwem.ledger.journal_table import JournalTable
from factored_mwem.ledger.ledger import Ledger, key_in, now
from factored_mwem.ledger.postgres import Link, clear, connect
from factored_mwem.ledger.schema import VERSION, Connection


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
        """A new, empty ledger. `folder`: of its journals, where every worker has it under the same path; with
        none, they are kept in the database.
        """
        if folder is not None:
            folder = folder.resolve()
            if not folder.is_dir() or not keeps_locks(folder):
                raise InputError(f"{folder} is no folder, or is on a file system that keeps no locks")
            refuse_journals(folder, "choose another folder")
        with contextlib.closing(connect(address)) as db, clear(address.name), db.transaction():
            encoding = db.execute("SHOW server_encoding").fetchone()
            if encoding != ("UTF8",):
                raise InputError(
                    f"the database of {address.name} does not keep all texts: its encoding must be UTF8"
                )
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
        """A transaction beside which no one else writes, and before which all others have ended."""
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
            chain.append(db, self.key, chain.accepted(now()))

    def _version(self, db: Connection) -> int:
        assert isinstance(db, Link)
        check_form(db, self.name)
        return VERSION

    def _whole(self, db: Connection) -> bool:
        return True  # a page that its checksum does not fit is an error of the server's

    def clear(self) -> contextlib.AbstractContextManager[None]:
        return clear(self.name)
