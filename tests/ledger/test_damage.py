"""Ledger files and journals with bytes changed, cut out and spliced in: read, or refused in one line; never a
discount, never another draw.

`FMWEM_FUZZ_CASES` sets how many cases each test takes.
"""

from __future__ import annotations

import json
import os
import sqlite3
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factored_mwem.accounting.cap import Cap, Cost
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import BudgetExceeded, FmwemError
from factored_mwem.ledger import file as ledger_file
from factored_mwem.ledger.entries import Reservation
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.journal_folder import JournalFile
from factored_mwem.ledger.report import books, export
from factored_mwem.pipeline.record.manifest_check import check_books

CASES = int(os.environ.get("FMWEM_FUZZ_CASES", "150"))
fuzzed = settings(
    max_examples=CASES,
    deadline=10_000,
    derandomize=CASES < 1000,
    suppress_health_check=list(HealthCheck),
    database=None,
)
edits = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.sampled_from(["flip", "cut", "splice", "zero"]),
        st.binary(min_size=1, max_size=40),
    ),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, changes: list[tuple[float, str, bytes]]) -> bytes:
    """The bytes with each change made at its relative place."""
    for where, kind, new in changes:
        at = int(where * len(data))
        gap = {"flip": len(new), "cut": len(new) * 50, "splice": 0, "zero": len(new) * 20}[kind]
        data = (
            data[:at] + {"flip": new, "cut": b"", "splice": new, "zero": bytes(gap)}[kind] + data[at + gap :]
        )
    return data


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = LedgerFile.create(tmp_path_factory.mktemp("books") / "books")
    for name in ("one", "two"):
        file.add(name, Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    for i in range(6):
        cost = Cost(Composition.PURE, Fraction(1, 6))
        parameters = {"a": list(range(50))}
        number = file.reserve(Reservation("one", cost, f"r{i}", parameters, b"f" * 32, "1", f"mark {i}"))
        file.change(number, "finished", spent=cost, files=[{"data": "0" * 64}])
    return file.path


def one_line(error: FmwemError) -> bool:
    return "\n" not in str(error) and 10 < len(str(error)) < 1000


@fuzzed
@given(edits)
def test_a_damaged_ledger_is_read_or_refused(ledger: Path, changes: list[tuple[float, str, bytes]]) -> None:
    """A full cap stays full: where all six releases can still be read, nothing is admitted."""
    path = ledger.with_name("changed")
    path.write_bytes(edited(ledger.read_bytes(), changes))
    ledger_file.LOCK_SECONDS, patience = 0.1, ledger_file.LOCK_SECONDS
    try:
        file = LedgerFile(path)
        books(path), export(path)
        assert all("\n" not in problem for problem in check_books(path)["problems"])
        costs = [e.cost.amount for e in file.entries("one")]
        if costs == [Fraction(1, 6)] * 6 and file.dataset("one").cap == Cap.of(1.0, 1e-9):
            with pytest.raises(BudgetExceeded):
                file.check("one", Cost(Composition.PURE, Fraction(1, 6)))
    except FmwemError as error:
        assert one_line(error)
    finally:
        ledger_file.LOCK_SECONDS = patience
        for left in path.parent.glob("changed-*"):
            left.unlink()


NO_NUMBERS = ("1e999999999", "0/0", "-1", "9" * 2000, "NaN", "", "1/3/5", "٣", "0x10")
HOSTILE = [*NO_NUMBERS, None, 7, 1.5, b"\x00", "[" * 100_000, '{"a": 1e400}', "\ud800"]


@fuzzed
@given(
    st.sampled_from(["releases", "datasets", "events", "secret"]),
    st.integers(0, 15),
    st.one_of(
        st.sampled_from(HOSTILE),
        st.text(max_size=30),
        st.binary(max_size=30),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
    ),
)
def test_any_value_in_any_cell_is_read_or_refused(
    ledger: Path, table: str, column: int, value: object
) -> None:
    path = ledger.with_name("cells")
    path.write_bytes(ledger.read_bytes())
    db = sqlite3.connect(path)
    names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    try:
        with db:
            db.execute(f"UPDATE {table} SET {names[column % len(names)]} = ? WHERE rowid = 1", (value,))
    except (sqlite3.Error, UnicodeEncodeError, OverflowError):
        return  # SQLite itself refuses it
    finally:
        db.close()
    try:
        json.dumps(check_books(path))
        file = LedgerFile(path)
        for read in (books, export):
            read(path)
        file.check("one", Cost(Composition.PURE, Fraction(1, 100)))
    except FmwemError as error:
        assert one_line(error)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("journal") / "journal"
    written = JournalFile(path, b"key")
    written.begin({"seed": 1})
    for i in range(8):
        written.append({"draw": "add", "i": i}, np.arange(i))
    written.close()
    return path


@fuzzed
@given(edits)
def test_a_glimpse_of_a_damaged_journal_is_its_header_or_nothing(
    journal: Path, changes: list[tuple[float, str, bytes]]
) -> None:
    path = journal.with_name("glimpsed")
    path.write_bytes(edited(journal.read_bytes(), changes))
    assert JournalFile.glimpse(path, b"key") in ({"seed": 1}, None)


@fuzzed
@given(edits)
def test_a_damaged_journal_is_a_prefix_or_refused(
    journal: Path, changes: list[tuple[float, str, bytes]]
) -> None:
    """What is read is what was written, in order from the first; nothing between is left out."""
    path = journal.with_name("torn")
    path.write_bytes(edited(journal.read_bytes(), changes))
    try:
        read = JournalFile(path, b"key")
    except FmwemError as error:
        assert one_line(error)
        return
    found = []
    while (record := read.replay()) is not None:
        found.append((record[0]["i"], record[1].tolist()))
    read.close()
    assert found == [(i, list(range(i))) for i in range(len(found))]
