"""Ledger: what all releases of a dataset have cost, in a file or in a database.

A release is entered before its first noise, and no entry or cost is ever taken back. Every change is one
transaction that checks the cap, writes the entry and appends the event to the chain, so that jobs that run at
the same time cannot spend the same budget. A ledger holds names, parameters, costs and keyed fingerprints,
and no private value.

Each run enters a random mark in the ledger before it draws, and notes its draws under that mark in a file of
its own, its journal. So a journal with draws under a mark that this ledger lacks shows that an older copy of
the ledger was put back. A journal without draws proves nothing: a crash between `Journal.begin` and
`Ledger.reserve` leaves one, and nothing was paid for.

This class is the same for all kinds of ledger. Each kind adds how it is read and written: `_reading` is a
consistent snapshot; `_writing` is atomic, and nobody else writes meanwhile.
"""

from __future__ import annotations

import datetime
import hmac
import json
import shlex
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

from factored_mwem.accounting.cap import Cap, Cost
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import Busy, InputError, RolledBack, must
from factored_mwem.files.crashpoints import reach
from factored_mwem.ledger import chain
from factored_mwem.ledger.entries import (
    MAX_NAME_LENGTH,
    STATES,
    Dataset,
    Entry,
    Reservation,
    Snapshot,
    admit,
    dataset_of,
    entry_of,
    fraction_of,
    limits_in_text,
)
from factored_mwem.ledger.journal import Journal, Journals
from factored_mwem.ledger.schema import Connection, insert, rows

ADDED_ORDER = "ORDER BY added, name"


class Ledger(ABC):
    """An open ledger. Every method is one transaction.

    Raises InputError if what is there is no ledger, Busy if it stays locked or cannot be reached.
    """

    key: bytes
    journals: Journals
    name: str
    """The name in messages: a path, or a URI without its password."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Connection]:
        """A consistent snapshot for reading."""

    @abstractmethod
    def _writing(self, patience: float | None = None) -> AbstractContextManager[Connection]:
        """An atomic transaction, during which nobody else writes. `patience`: seconds to wait for others."""

    @abstractmethod
    def _settled(self) -> AbstractContextManager[Connection]:
        """A snapshot after every earlier transaction has ended, even of processes that died."""

    @abstractmethod
    def _whole(self, db: Connection) -> bool:
        """Whether SQLite or the server finds no damage in its data."""

    @abstractmethod
    def clear(self) -> AbstractContextManager[None]:
        """Turn errors of the store, or caused by damaged rows, into errors of one line."""

    def copied(self) -> bool:
        """Whether this is a different copy from the one that was last written, as far as that can be
        detected.
        """
        return False

    def accept(self) -> None:
        """Confirm that this copy is the newest. Raises InputError if copies cannot be distinguished, as with
        a file.
        """
        raise InputError(
            f"{self.name} is a file; just put back its newest copy: a file needs no `fmwem ledger accept`"
        )

    def add(
        self, name: str, cap: Cap, neighbours: Neighbours, contributions: int, privacy_id: str | None = None
    ) -> None:
        """Add a dataset with its cap. Raises InputError if its name is taken: a cap is set once."""
        if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
            raise InputError(f"a dataset's name must be 1 to {MAX_NAME_LENGTH} printable characters")
        if contributions < 1:
            raise InputError(f"contributions={contributions}: a person has at least one row")
        if privacy_id == "":
            raise InputError("privacy_id='': must be a column's name")
        row: dict[str, Any] = {
            "name": name,
            "epsilon": None if cap.epsilon is None else float(cap.epsilon),
            "delta": float(cap.delta),
            "rho": None if cap.rho is None else float(cap.rho),
            "neighbours": neighbours.value,
            "contributions": contributions,
            "privacy_id": privacy_id,
            "added": now(),
        }
        with self._writing() as db:
            if db.execute("SELECT 1 FROM datasets WHERE name = ?", (name,)).fetchone():
                raise InputError(f"{self.name} has a dataset {name!r} already; its cap stays what it is")
            insert(db, "datasets", row)
            dataset = rows(db, "datasets", "WHERE name = ?", name)[0]
            chain.append(db, self.key, {"event": chain.ADDED, "dataset": dataset})

    def dataset(self, name: str) -> Dataset:
        """Raises InputError if there is none of that name."""
        with self._reading() as db:
            return self._dataset(db, name)

    def datasets(self) -> list[Dataset]:
        with self._reading() as db:
            return [dataset_of(row) for row in rows(db, "datasets", ADDED_ORDER)]

    def entries(self, dataset: str) -> list[Entry]:
        """All releases of a dataset, in order."""
        with self._reading() as db:
            return _entries(db, dataset)

    def find(self, dataset: str, run_id: str) -> Entry | None:
        """The entry of a run, even if its process died during the commit."""
        with self._settled() as db:
            return next(iter(_entries(db, dataset, "AND run_id = ?", run_id)), None)

    def holds(self, mark: str) -> bool:
        """Whether the release with this mark is entered, even if its commit got no answer."""
        with self._settled() as db:
            return db.execute("SELECT 1 FROM releases WHERE mark = ?", (mark,)).fetchone() is not None

    def marks(self) -> set[str]:
        """The marks of all releases."""
        with self._reading() as db:
            return {mark for (mark,) in db.execute("SELECT mark FROM releases").fetchall()}

    def head(self, number: int) -> str | None:
        """The chain's head right after a release was reserved; None if the release is not in the chain."""
        with self._reading() as db:
            row = db.execute("SELECT head FROM events WHERE reserved = ?", (number,)).fetchone()
        return None if row is None else str(row[0])

    def snapshot(self) -> Snapshot:
        """A consistent snapshot of all rows."""
        with self._reading() as db:
            events = db.execute("SELECT * FROM events ORDER BY number").fetchall()
            whole = self._whole(db)
            datasets, releases = rows(db, "datasets", ADDED_ORDER), rows(db, "releases", "ORDER BY id")
        return Snapshot(whole, datasets, releases, [chain.Event(*event) for event in events])

    def check(self, name: str, cost: Cost) -> None:
        """Raises BudgetExceeded if a release of this cost would not be admitted now. Nothing is written."""
        with self._reading() as db:
            admit(self._dataset(db, name), _costs(db, name), cost)

    def reserve(self, reservation: Reservation) -> int:
        """Enter a release, before its first noise; its number.

        Raises BudgetExceeded, with nothing written, if the cap does not admit it; Busy if another process has
        entered the same run.
        """
        reach("before reserve")
        name, run_id, cost = reservation.dataset, reservation.run_id, reservation.cost
        with self._writing() as db:
            if run_id is not None and _entries(db, name, "AND run_id = ?", run_id):
                what = f"another process entered run {run_id!r} in the ledger {self.name} meanwhile"
                raise Busy(f"{what}; try again")
            dataset = self._dataset(db, name)
            limits = admit(dataset, _costs(db, name), cost)
            if limits is not None and dataset.limits is None:
                facts = (limits_in_text(limits), name)
                db.execute("UPDATE datasets SET limits = ? WHERE name = ?", facts)
            (number,) = db.execute("SELECT coalesce(max(id), 0) + 1 FROM releases").fetchone()
            release = {
                "id": number,
                "dataset": name,
                "run_id": run_id,
                "state": "reserved",
                "composition": cost.composition.value,
                "amount": str(cost.amount),
                "delta": str(cost.delta),
                "parameters": json.dumps(reservation.parameters),
                "fingerprint": reservation.fingerprint,
                "mark": reservation.mark,
                "files": "[]",
                "tool_version": reservation.tool_version,
                "reserved": now(),
                "changed": now(),
            }
            insert(db, "releases", release)
            entered = rows(db, "releases", "WHERE id = ?", number)[0]
            within = rows(db, "datasets", "WHERE name = ?", name)[0]
            chain.append(db, self.key, chain.reserved(entered, within), entered)
        reach("after reserve")
        return int(number)

    def change(
        self,
        number: int,
        state: str,
        *,
        spent: Cost | None = None,
        files: list[dict[str, str]] | None = None,
        patience: float | None = None,
    ) -> None:
        """Change the state of a release: to spent, with its cost, to finished, with its files, or to failed.

        A finished release stays finished.
        """
        assert state in STATES
        with self._writing(patience) as db:
            before = rows(db, "releases", "WHERE id = ?", number)
            if spent is not None:
                where = "WHERE id = ? AND spent_amount IS NULL"
                facts = (str(spent.amount), str(spent.delta), number)
                db.execute(f"UPDATE releases SET spent_amount = ?, spent_delta = ? {where}", facts)
            if files is not None:
                db.execute("UPDATE releases SET files = ? WHERE id = ?", (json.dumps(files), number))
            db.execute(
                "UPDATE releases SET state = ?, changed = ? WHERE id = ? AND (state != 'finished' OR ?)",
                (state, now(), number, state == "finished"),
            )
            if (after := rows(db, "releases", "WHERE id = ?", number)) != before:
                chain.append(db, self.key, chain.changed(after[0]))

    def journal(self, dataset: str, run_id: str) -> Journal:
        """A run's journal, locked by this process; without the key its name does not reveal the run."""
        name = hmac.digest(self.key, f"{dataset}\0{run_id}".encode(), "sha256").hex()[:32]
        return self.journals.open(name, self._journal_key(name))

    def _journal_key(self, name: str) -> bytes:
        """The key of the journal of this name, so that a renamed journal cannot be read."""
        return hmac.digest(self.key, name.encode(), "sha256")

    def unknown_journals(self) -> list[str]:
        """Journals with draws that the ledger does not know. Raises Unreadable if they cannot be read."""
        # Journals first, books second: what another process enters meanwhile is in the books before it is in
        # its journal. The other way round, its journal would be taken for one of a newer copy.
        headers = self.journals.headers(self._journal_key)
        known = self.marks() if headers else set()
        return [name for name, header in headers.items() if str(header.get("entry")) not in known]

    def refuse_older(self) -> None:
        """Raises RolledBack if the ledger is older than its journals, or a different copy from the one last
        written.

        Nothing is written.
        """
        if self.copied():
            raise RolledBack(self.name, copied=True)
        if self.unknown_journals():
            raise RolledBack(self.name)

    def _dataset(self, db: Connection, name: str) -> Dataset:
        named = rows(db, "datasets", "WHERE name = ?", name)
        if not named:
            to_it = f"{shlex.quote(self.name)} --dataset {shlex.quote(name)}"
            add = f"`fmwem ledger add {to_it} --epsilon E --delta D`"
            raise InputError(f"{self.name} has no dataset {name!r}; {add} adds it")
        return dataset_of(named[0])


def key_in(db: Connection) -> bytes:
    """The ledger's key. Raises ValueError if there is none."""
    keys = db.execute("SELECT key FROM secret").fetchall()
    must(len(keys) == 1 and isinstance(keys[0][0], bytes) and len(keys[0][0]) == 32, "key")
    return keys[0][0]


def _entries(db: Connection, dataset: str, more: str = "", *values: str) -> list[Entry]:
    where = f"WHERE dataset = ? {more} ORDER BY id"
    return [entry_of(row) for row in rows(db, "releases", where, dataset, *values)]


def _costs(db: Connection, dataset: str) -> list[Cost]:
    """The cost of every release that counts, in order; see `Entry.cost`."""
    fields = "composition, coalesce(spent_amount, amount), coalesce(spent_delta, delta)"
    costs = db.execute(f"SELECT {fields} FROM releases WHERE dataset = ? ORDER BY id", (dataset,)).fetchall()
    return [Cost(Composition(kind), fraction_of(amount), fraction_of(delta)) for kind, amount, delta in costs]


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
