"""The ledger file: what all releases of a dataset have cost, in one SQLite file that its owner keeps private and on a local disk.

A release is an entry from before its first noise until for ever: nothing takes an entry or a cost back. Every change is one transaction, which
looks at the cap and writes the entry in the same breath, so that jobs at the same time cannot spend the same budget. The file holds names,
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
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from factored_mwem.entries import STATES, Dataset, Entry, entry_of, fraction_of
from factored_mwem.errors import BudgetExceeded, Busy, FmwemError, InputError
from factored_mwem.faults import reach
from factored_mwem.privacy.cap import Cap, Cost, Limits, floor_digits
from factored_mwem.privacy.neighbours import Neighbours
from factored_mwem.privacy.noise import Composition, epsilon_of

VERSION = 1
MARK = 0x666D776C
"""SQLite's application id of our files: "fmwl"."""
PATIENCE = 60.0
"""Seconds to wait for another process's transaction, each of which takes milliseconds."""
TABLES = (
    "CREATE TABLE secret (key BLOB NOT NULL)",
    "CREATE TABLE datasets (name TEXT PRIMARY KEY, epsilon REAL, delta REAL NOT NULL, rho REAL, neighbours TEXT NOT NULL, "
    "contributions INTEGER NOT NULL, privacy_id TEXT, limit_rho TEXT, limit_delta TEXT, added TEXT NOT NULL)",
    "CREATE TABLE releases (id INTEGER PRIMARY KEY, dataset TEXT NOT NULL REFERENCES datasets, run_id TEXT, state TEXT NOT NULL, "
    "composition TEXT NOT NULL, amount TEXT NOT NULL, delta TEXT NOT NULL, spent_amount TEXT, spent_delta TEXT, parameters TEXT NOT NULL, "
    "fingerprint BLOB, mark TEXT, files TEXT NOT NULL, tool_version TEXT NOT NULL, reserved TEXT NOT NULL, changed TEXT NOT NULL, "
    "UNIQUE (dataset, run_id))",
)
TRIES = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    sys.exit(7)
"""
"""What another process does to find out whether the file system keeps locks: 7 where it is kept out."""


class LedgerFile:
    """An open ledger file. Every method is one transaction; InputError where the file is no ledger, Busy where it stays locked."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(f"no ledger {path}; put it back, or, if there never was one, make it with `fmwem ledger init {shlex.quote(str(path))}`")
        self.path = path
        self._place = path.absolute()  # a caller may change its folder
        whole = path.resolve()  # whatever name a job calls it by, its journals lie in one place
        self.journals = whole.with_name(f"{whole.name}.journals")
        with self._reading() as db:
            _check_form(db, path)
            keys = db.execute("SELECT key FROM secret").fetchall()
            if len(keys) != 1 or not isinstance(keys[0][0], bytes) or len(keys[0][0]) != 32:
                raise ValueError("key")
            self.key: bytes = keys[0][0]

    @classmethod
    def create(cls, path: Path) -> LedgerFile:
        """A new, empty ledger, readable by its owner alone. InputError where there is a file, or the disk keeps no locks."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise InputError(f"{path} exists; a ledger is never overwritten") from None
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}; choose another folder") from None
        try:
            with _clear(path), contextlib.closing(_connect(path)) as db, _transaction(db):
                for table in TABLES:
                    db.execute(table)
                db.execute("INSERT INTO secret VALUES (?)", (secrets.token_bytes(32),))
                db.execute(f"PRAGMA user_version = {VERSION}")
                db.execute(f"PRAGMA application_id = {MARK}")
                if subprocess.run([sys.executable, "-I", "-c", TRIES, str(path)], check=False, capture_output=True).returncode != 7:
                    raise InputError(f"{path.parent} is on a file system that keeps no locks; put the ledger on a local disk")
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return cls(path)

    def add(self, name: str, cap: Cap, neighbours: Neighbours, contributions: int, privacy_id: str | None = None) -> None:
        """Put a dataset on the books. InputError where its name is taken: a cap is set once. `privacy_id`: the column that names the person."""
        if not name or len(name) > 200 or not name.isprintable():
            raise InputError("a dataset's name must be 1 to 200 printable characters")
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

    def dataset(self, name: str) -> Dataset:
        """InputError where there is none of that name."""
        with self._reading() as db:
            return self._dataset(db, name)

    def datasets(self) -> list[Dataset]:
        with self._reading() as db:
            return [self._dataset(db, name) for (name,) in db.execute("SELECT name FROM datasets ORDER BY rowid").fetchall()]

    def entries(self, dataset: str) -> list[Entry]:
        """All releases of a dataset, in order."""
        with self._reading() as db:
            return _entries(db, dataset)

    def find(self, dataset: str, run_id: str) -> Entry | None:
        with self._reading() as db:
            found = _entries(db, dataset, "AND run_id = ?", run_id)
        return found[0] if found else None

    def check(self, name: str, cost: Cost) -> None:
        """BudgetExceeded where a release of this cost would not be admitted now. Nothing is written."""
        with self._reading() as db:
            self._admit(self._dataset(db, name), _costs(db, name), cost)

    def reserve(
        self,
        name: str,
        cost: Cost,
        *,
        run_id: str | None,
        mark: str | None = None,
        parameters: dict[str, Any],
        fingerprint: bytes | None,
        tool_version: str,
    ) -> int:
        """Enter a release, before its first noise; its number. `mark`: a number of its own, which is in the head of its journal, too.

        BudgetExceeded, with nothing written, where the cap does not admit it; Busy where another process has entered the same run.
        """
        reach("before reserve")
        with self._writing() as db:
            if run_id is not None and _entries(db, name, "AND run_id = ?", run_id):
                raise Busy(f"another process entered run {run_id!r} in the ledger {self.path} meanwhile; try again")
            dataset = self._dataset(db, name)
            limits = self._admit(dataset, _costs(db, name), cost)
            db.execute("UPDATE datasets SET limit_rho = ?, limit_delta = ? WHERE name = ?", (str(limits.rho), str(limits.delta), name))
            facts = (name, run_id, "reserved", cost.composition.value, str(cost.amount), str(cost.delta), json.dumps(parameters))
            number = db.execute(
                "INSERT INTO releases VALUES (NULL, ?, ?, ?, ?, ?, ?, NULL, NULL, ?, ?, ?, '[]', ?, ?, ?)",
                (*facts, fingerprint, mark, tool_version, _now(), _now()),
            ).lastrowid
        reach("after reserve")
        assert number is not None
        return number

    def change(
        self, number: int, state: str, *, spent: Cost | None = None, files: list[dict[str, str]] | None = None, patience: float = PATIENCE
    ) -> None:
        """Move a release on: to spent, with what it cost, to finished, with its files, or to failed. What is finished stays so."""
        assert state in STATES
        with self._writing(patience) as db:
            if spent is not None:
                facts = (str(spent.amount), str(spent.delta), number)
                db.execute("UPDATE releases SET spent_amount = ?, spent_delta = ? WHERE id = ? AND spent_amount IS NULL", facts)
            if files is not None:
                db.execute("UPDATE releases SET files = ? WHERE id = ?", (json.dumps(files), number))
            db.execute(
                "UPDATE releases SET state = ?, changed = ? WHERE id = ? AND (state != 'finished' OR ?)", (state, _now(), number, state == "finished")
            )

    def _admit(self, dataset: Dataset, costs: list[Cost], cost: Cost) -> Limits:
        limits = dataset.limits or dataset.cap.limits(cost)
        if dataset.cap.admits([*costs, cost], limits):
            return limits
        left = dataset.cap.left(costs, dataset.limits, pure=cost.pure)
        unit = "epsilon" if cost.pure or dataset.cap.rho is None else "rho"
        amounts = {"asked": cost.amount, "left": Fraction(left)}
        if dataset.cap.rho is None and dataset.cap.delta == 0 and not cost.pure:
            why = "its cap has delta 0, which admits pure releases only; use --delta 0"
        elif left > 0 and cost.delta + sum(c.delta for c in costs) > limits.delta:
            why = "the delta kept for learnt categories does not suffice; declare a domain or use a smaller --delta"
        elif not left:
            why = "nothing is left"
        elif unit == "rho":
            why = f"rho {left:g} is left; --epsilon {floor_digits(epsilon_of(Fraction(left), Fraction(1, 10**9))):g} at --delta 1e-9 would fit"
        else:
            why = f"--epsilon {left:g} at --delta {0 if cost.pure else float(dataset.cap.delta):g} is the most that would fit"
        raise BudgetExceeded(dataset.name, **amounts, message=f"dataset {dataset.name!r} does not admit this release: {why}. Nothing was spent")

    def _dataset(self, db: sqlite3.Connection, name: str) -> Dataset:
        row = db.execute(
            "SELECT name, epsilon, delta, rho, neighbours, contributions, limit_rho, limit_delta, privacy_id FROM datasets WHERE name = ?", (name,)
        ).fetchone()
        if row is None:
            add = f"fmwem ledger add {shlex.quote(str(self.path))} --dataset {shlex.quote(name)} --epsilon E --delta D"
            raise InputError(f"{self.path} has no dataset {name!r}; `{add}` adds it")
        if not all(value is None or isinstance(value, float) for value in row[1:4]):
            raise ValueError("cap")
        epsilon, delta, rho = (None if value is None else Fraction(value) for value in row[1:4])
        limits = None if row[6] is None else Limits(fraction_of(row[6]), fraction_of(row[7]))
        if limits is not None and not (limits.delta == 0 or limits.delta < (delta or 0) or (rho is not None and limits.delta == delta)):
            raise ValueError("limits")
        if not isinstance(row[8], str | None):
            raise ValueError("privacy id")
        return Dataset(row[0], Cap(epsilon, delta or Fraction(0), rho), Neighbours(row[4]), int(row[5]), row[8], limits)

    @contextlib.contextmanager
    def _reading(self, patience: float = PATIENCE) -> Iterator[sqlite3.Connection]:
        with _clear(self.path), contextlib.closing(_connect(self._place, patience)) as db:
            yield db

    @contextlib.contextmanager
    def _writing(self, patience: float = PATIENCE) -> Iterator[sqlite3.Connection]:
        with self._reading(patience) as db, _transaction(db):
            yield db
            reach("before commit")
        reach("after commit")


def _connect(path: Path, patience: float = PATIENCE) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=patience, isolation_level=None)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA synchronous = EXTRA")  # a commit is on disk, and so is the end of its rollback journal
    return db


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; no other process writes meanwhile."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _clear(path: Path) -> Iterator[None]:
    """Turn what SQLite or a damaged file raises into one line."""
    try:
        yield
    except FmwemError:
        raise
    except sqlite3.IntegrityError:
        raise Busy(f"another process entered this run in the ledger {path}; try again") from None
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise Busy(f"the ledger {path} is in use; try again") from None
        if "full" in text or "disk I/O" in text:
            raise Busy(f"no space left to write the ledger {path}; free some and try again") from None
        raise InputError(
            f"cannot write the ledger {path}: {'it is read-only' if 'readonly' in text else 'it is damaged or cannot be opened'}"
        ) from None
    except (sqlite3.Error, ValueError, TypeError, ArithmeticError, RecursionError):
        raise InputError(f"{path} is not a ledger, or is damaged; put back a whole copy (a new or an older one forgets what was spent)") from None


def _check_form(db: sqlite3.Connection, path: Path) -> None:
    """InputError where the file is of another version, or holds more or less than our tables: a trigger would change what is written."""
    mark, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if mark == MARK and version > VERSION:
        raise InputError(f"{path} is a ledger of version {version}, this program reads version {VERSION}; update it")
    found = {sql for kind, sql in db.execute("SELECT type, sql FROM sqlite_master") if sql is not None}
    if mark != MARK or version != VERSION or found != set(TABLES):
        raise ValueError("form")


FIELDS = (
    "id, run_id, state, composition, amount, delta, spent_amount, spent_delta, parameters, fingerprint, mark, files, tool_version, reserved, changed"
)


def _entries(db: sqlite3.Connection, dataset: str, more: str = "", *values: str) -> list[Entry]:
    rows = db.execute(f"SELECT {FIELDS} FROM releases WHERE dataset = ? {more} ORDER BY id", (dataset, *values))
    return [entry_of(row) for row in rows.fetchall()]


def _costs(db: sqlite3.Connection, dataset: str) -> list[Cost]:
    """What counts of every release, in order: what was spent once that is known, until then all that was reserved."""
    fields = "composition, coalesce(spent_amount, amount), coalesce(spent_delta, delta)"
    rows = db.execute(f"SELECT {fields} FROM releases WHERE dataset = ? ORDER BY id", (dataset,)).fetchall()
    return [Cost(Composition(kind), fraction_of(amount), fraction_of(delta)) for kind, amount, delta in rows]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
