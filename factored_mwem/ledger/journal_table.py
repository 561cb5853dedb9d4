"""A table of journals: each of them rows of the ledger's database, which its process locks.

A record is a row, written by one transaction, so no record is ever torn. The lock ends with the connection,
so when a worker dies, on any machine, another can resume its run. Even without the lock (a connection pooler
may lose it) two workers cannot continue one run, because no record number can be used twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from factored_mwem.errors import Busy, FmwemError
from factored_mwem.files.crashpoints import reach
from factored_mwem.ledger.address import Address
from factored_mwem.ledger.journal import (
    CODE_BYTES,
    HEAD,
    Journal,
    Record,
    damaged,
    frame_at,
    record_of,
    under_way,
)
from factored_mwem.ledger.postgres import clear, connect

LOCK_SECONDS = 1.0
"""How long to wait for the lock of a run, whose process may have just died."""


class JournalTable:
    """The journals in a ledger's database."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def open(self, name: str, key: bytes) -> Journal:
        return JournalRows(self._address, name, key)

    @contextlib.contextmanager
    def remembered(self, mark: str) -> Iterator[Callable[[], None]]:
        """Nothing is kept: what lies in the database is put back with it, which its server shows."""
        yield lambda: None

    def headers(self, key_of: Callable[[str], bytes]) -> dict[str, dict[str, Any]]:
        with contextlib.closing(connect(self._address)) as db, clear(self._address.name):
            firsts = db.execute(
                "SELECT run, record FROM journals h WHERE number = 0 AND EXISTS (SELECT 1 FROM journals d "
                "WHERE d.run = h.run AND d.number > 0) ORDER BY run"
            ).fetchall()
        bodies = {run: frame_at(key_of(run), record, 0) for run, record in firsts}
        return {run: record_of(body, run)[0] for run, body in bodies.items() if body is not None}


class JournalRows(Journal):
    """A journal in rows of a table, under a lock that this process's connection holds."""

    def __init__(self, address: Address, name: str, key: bytes) -> None:
        super().__init__(key)
        self._name, self._where, self._room = name, address.name, 0
        # the key of an advisory lock is a signed number of 64 bits
        self._lock = int.from_bytes(bytes.fromhex(name)[:8], "big", signed=True)
        self._db = connect(address)
        try:
            self._take_hold()
            self._take_up(self._read())
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        with contextlib.suppress(FmwemError), clear(self._where):
            self._db.execute("SELECT pg_advisory_unlock(?)", (self._lock,))
        self._db.close()

    def make_room(self, size: int) -> None:
        """Write a placeholder of `size` bytes, so that whether the server has room does not depend on what is
        drawn.
        """
        self._room = HEAD.size + size + CODE_BYTES
        with clear(self._where):
            self._db.execute("SELECT 1")  # nothing is drawn for a connection that is lost

    def _clear(self) -> None:
        # A draw stays, whatever this process believes; the header to come then finds its number taken.
        where = "run = ? AND NOT EXISTS (SELECT 1 FROM journals WHERE run = ? AND number > 0)"
        with clear(self._where):
            self._db.execute(f"DELETE FROM journals WHERE {where}", (self._name, self._name))

    # Whether a record was kept for which the server did not answer, the next attempt sees: this one ends, and
    # uses no draw of it.
    def _keep(self, start: bytes, rest: bytes) -> None:
        frame, number = start + rest, self._written
        whole = frame.ljust(self._room, b"\0")
        with clear(self._where), self._db.transaction():
            self._db.execute("INSERT INTO journals VALUES (?, ?, ?)", (self._name, number, whole))
            reach("half journalled")
        if len(whole) > len(frame):
            self._trim(number, frame)
        self._room = 0

    def _trim(self, number: int, frame: bytes) -> None:
        """Cut the placeholder to the record: its size is private, as it grows with the number of keys."""
        with clear(self._where):
            values = (frame, self._name, number)
            self._db.execute("UPDATE journals SET record = ? WHERE run = ? AND number = ?", values)

    def _take_hold(self) -> None:
        try:
            with clear(self._where):
                self._db.execute("SELECT set_config('lock_timeout', ?, false)", (f"{LOCK_SECONDS:g}s",))
                self._db.execute("SELECT pg_advisory_lock(?)", (self._lock,))
        except Busy:
            pass
        else:
            return
        raise under_way()

    def _read(self) -> list[Record]:
        """All records. Raises Lost if one is missing or was changed; a record is never half written."""
        with clear(self._where):
            where = "WHERE run = ? ORDER BY number"
            kept = self._db.execute(f"SELECT number, record FROM journals {where}", (self._name,)).fetchall()
        records = []
        for place, (number, frame) in enumerate(kept):
            body = frame_at(self._key, frame, 0)
            if number != place or body is None or HEAD.unpack_from(frame)[1] != place:
                raise damaged(f"{self._name} in {self._where}")
            records.append(record_of(body, self._where))
            size = HEAD.size + len(body) + CODE_BYTES
            if len(frame) > size:  # its process died before it cut the placeholder
                self._trim(number, frame[:size])
        return records
