"""The ledger file: what all releases of a dataset have cost, in one SQLite file.

Its owner keeps it private and on a local disk.

A release is an entry from before its first noise until for ever: nothing takes an entry or a cost back. Every
change is one transaction, which looks at the cap and writes the entry in the same breath, so that jobs at the
same time cannot spend the same budget; and the event of the chain that says so with it. The file holds names,
parameters, costs and keyed fingerprints, and no private value.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from factored_mwem.accounting.cap import Cap, Cost
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.crashpoints import reach
from factored_mwem.errors import Busy, InputError
from factored_mwem.ledger import chain
from factored_mwem.ledger.admission import admit
from factored_mwem.ledger.entries import (
    MAX_NAME_LENGTH,
    STATES,
    Dataset,
    Entry,
    Reservation,
    Snapshot,
    dataset_of,
    entry_of,
    fraction_of,
)
from factored_mwem.ledger.form import (
    VERSION,
    check_form,
    clear,
    connect,
    journals_of,
    keeps_locks,
    lay_out,
    refuse_journals,
    rows,
    take_up,
    transaction,
)


class LedgerFile:
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
        self.path = path
        self._place = path.absolute()  # a caller may change its folder
        self.journals = journals_of(path)
        with self._reading() as db:
            check_form(db, path)
            keys = db.execute("SELECT key FROM secret").fetchall()
            if len(keys) != 1 or not isinstance(keys[0][0], bytes) or len(keys[0][0]) != 32:
                raise ValueError("key")
            self.key: bytes = keys[0][0]

    @classmethod
    def create(cls, path: Path) -> LedgerFile:
        """A new, empty ledger, readable by its owner alone. InputError on a disk that keeps no locks."""
        if not os.path.lexists(path):
            refuse_journals(path)
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

    def add(
        self, name: str, cap: Cap, neighbours: Neighbours, contributions: int, privacy_id: str | None = None
    ) -> None:
        """Put a dataset on the books. InputError where its name is taken: a cap is set once."""
        if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
            raise InputError(f"a dataset's name must be 1 to {MAX_NAME_LENGTH} printable characters")
        if contributions < 1:
            raise InputError(f"contributions={contributions}: a person has at least one row")
        if privacy_id == "":
            raise InputError("privacy_id='': must be a column's name")
        numbers = [None if value is None else float(value) for value in (cap.epsilon, cap.delta, cap.rho)]
        with self._writing() as db:
            if db.execute("SELECT 1 FROM datasets WHERE name = ?", (name,)).fetchone():
                raise InputError(f"{self.path} has a dataset {name!r} already; its cap stays what it is")
            facts = (name, *numbers, neighbours.value, contributions, privacy_id, _now())
            db.execute("INSERT INTO datasets VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?)", facts)
            chain.append(db, self.key, chain.added(rows(db, "datasets", "WHERE name = ?", name)[0]))

    def dataset(self, name: str) -> Dataset:
        """InputError where there is none of that name."""
        with self._reading() as db:
            return self._dataset(db, name)

    def datasets(self) -> list[Dataset]:
        with self._reading() as db:
            return [dataset_of(row) for row in rows(db, "datasets", "ORDER BY rowid")]

    def entries(self, dataset: str) -> list[Entry]:
        """All releases of a dataset, in order."""
        with self._reading() as db:
            return _entries(db, dataset)

    def find(self, dataset: str, run_id: str) -> Entry | None:
        with self._reading() as db:
            return next(iter(_entries(db, dataset, "AND run_id = ?", run_id)), None)

    def marks(self) -> set[str]:
        """Those of all releases."""
        with self._reading() as db:
            return {mark for (mark,) in db.execute("SELECT mark FROM releases").fetchall()}

    def head(self, number: int) -> str | None:
        """The chain's head right after a release was reserved; None where the ledger kept no chain then."""
        with self._reading() as db:
            if check_form(db, self.path) < VERSION:
                return None
            row = db.execute("SELECT head FROM events WHERE reserved = ?", (number,)).fetchone()
        return None if row is None else str(row[0])

    def snapshot(self) -> Snapshot:
        """All of it, as it is at one moment."""
        with self._reading() as db:
            db.execute("BEGIN")  # what others commit meanwhile stays out
            version = check_form(db, self.path)
            events = db.execute("SELECT * FROM events ORDER BY number").fetchall() if version > 1 else []
            whole = db.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
            datasets, releases = rows(db, "datasets", "ORDER BY rowid"), rows(db, "releases", "ORDER BY id")
        return Snapshot(version, whole, datasets, releases, [chain.Event(*event) for event in events])

    def check(self, name: str, cost: Cost) -> None:
        """BudgetExceeded where a release of this cost would not be admitted now. Nothing is written."""
        with self._reading() as db:
            admit(self._dataset(db, name), _costs(db, name), cost)

    def reserve(self, asked: Reservation) -> int:
        """Enter a release, before its first noise; its number.

        BudgetExceeded, with nothing written, where the cap does not admit it; Busy where another process has
        entered the same run.
        """
        reach("before reserve")
        name, run_id, cost = asked.dataset, asked.run_id, asked.cost
        with self._writing() as db:
            if run_id is not None and _entries(db, name, "AND run_id = ?", run_id):
                what = f"another process entered run {run_id!r} in the ledger {self.path} meanwhile"
                raise Busy(f"{what}; try again")
            limits = admit(self._dataset(db, name), _costs(db, name), cost)
            db.execute(
                "UPDATE datasets SET limit_rho = ?, limit_delta = ? WHERE name = ?",
                (str(limits.rho), str(limits.delta), name),
            )
            facts = (name, run_id, cost.composition.value, str(cost.amount), str(cost.delta))
            more = (json.dumps(asked.parameters), asked.fingerprint, asked.mark, asked.tool_version)
            number = db.execute(
                "INSERT INTO releases VALUES (NULL, ?, ?, 'reserved', ?, ?, ?, NULL, NULL, ?, ?, ?, '[]', ?, "
                "?, ?)",
                (*facts, *more, _now(), _now()),
            ).lastrowid
            assert number is not None
            entered = rows(db, "releases", "WHERE id = ?", number)
            dataset = rows(db, "datasets", "WHERE name = ?", name)[0]
            chain.append(db, self.key, chain.reserved(entered[0], dataset), entered)
        reach("after reserve")
        return number

    def change(
        self,
        number: int,
        state: str,
        *,
        spent: Cost | None = None,
        files: list[dict[str, str]] | None = None,
        patience: float | None = None,
    ) -> None:
        """Move a release on: to spent, with its cost, to finished, with its files, or to failed.

        What is finished stays so.
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
                (state, _now(), number, state == "finished"),
            )
            if (after := rows(db, "releases", "WHERE id = ?", number)) != before:
                chain.append(db, self.key, chain.changed(after[0]))

    def _dataset(self, db: sqlite3.Connection, name: str) -> Dataset:
        named = rows(db, "datasets", "WHERE name = ?", name)
        if not named:
            to_it = f"{shlex.quote(str(self.path))} --dataset {shlex.quote(name)}"
            add = f"`fmwem ledger add {to_it} --epsilon E --delta D`"
            raise InputError(f"{self.path} has no dataset {name!r}; {add} adds it")
        return dataset_of(named[0])

    @contextlib.contextmanager
    def _reading(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        with clear(self.path), contextlib.closing(connect(self._place, patience)) as db:
            yield db

    @contextlib.contextmanager
    def _writing(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        with self._reading(patience) as db, transaction(db):
            if check_form(db, self.path) < VERSION:
                take_up(db, self.key)
            yield db
            reach("before commit")
        reach("after commit")


def _entries(db: sqlite3.Connection, dataset: str, more: str = "", *values: str) -> list[Entry]:
    where = f"WHERE dataset = ? {more} ORDER BY id"
    return [entry_of(row) for row in rows(db, "releases", where, dataset, *values)]


def _costs(db: sqlite3.Connection, dataset: str) -> list[Cost]:
    """What counts of every release, in order; see `Entry.cost`."""
    fields = "composition, coalesce(spent_amount, amount), coalesce(spent_delta, delta)"
    costs = db.execute(f"SELECT {fields} FROM releases WHERE dataset = ? ORDER BY id", (dataset,)).fetchall()
    return [Cost(Composition(kind), fraction_of(amount), fraction_of(delta)) for kind, amount, delta in costs]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
