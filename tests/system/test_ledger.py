"""A ledger under processes that are signalled, that race for it, and that die."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from fractions import Fraction
from pathlib import Path

import pytest
from support.commands import FMWEM, JOB, Fmwem, states
from support.places import Place
from support.processes import PYTHON, line, started
from support.runs import go

from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.files import crashpoints as faults
from factored_mwem.ledger.opening import open_ledger
from factored_mwem.pipeline.record.manifest_check import check_books


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_one_line_and_the_run_goes_on_later(
    command_books: Path, fmwem: Fmwem, number: int, code: int
) -> None:
    """The ledger is held until the signal is sent, so that no run is over before it comes: every one waits at
    its first charge at the latest.
    """
    held = sqlite3.connect(command_books, isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    running = started(FMWEM, *JOB, "--run-id", "r", "--json")
    while running.poll() is None and not any(command_books.parent.glob("books.journals/*")):
        time.sleep(0.01)
    running.send_signal(number)
    held.execute("ROLLBACK")
    held.close()
    out, err = running.communicate()
    told = json.loads(out)
    assert running.returncode == told["exit_code"] == code and told["retryable"] and err.count("\n") == 1
    assert fmwem(*JOB, "--run-id", "r").code == 0
    assert states(fmwem) == ["finished"]


RACE = """
import contextlib, secrets, sys, time
from fractions import Fraction
from factored_mwem.ledger import database, file, ledger as ledger_module
from factored_mwem.ledger.entries import Reservation
from factored_mwem.ledger.opening import open_ledger
from factored_mwem.errors import BudgetExceeded, Busy, InputError
from factored_mwem.accounting.cap import Cost
from factored_mwem.accounting.conversion import Composition
place, attempts, plant, dataset = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
ledger, won = open_ledger(place), 0
admit, costs, reserve = ledger_module.admit, ledger_module._costs, ledger_module.Ledger.reserve
if plant != "none":
    ledger_module.admit = lambda *given: (admit(*given), time.sleep(0.002))[0]
if plant == "no lock":
    file.transaction = lambda db: contextlib.nullcontext()
    execute = database.Link.execute
    database.Link.execute = lambda self, text, values=(): execute(
        self, "SELECT 1" if text.startswith("LOCK") else text, values)
if plant == "read before":
    def early(self, asked):
        with self._reading() as db:
            known = costs(db, asked.dataset)
        time.sleep(0.002)
        ledger_module._costs = lambda db, name: known
        return reserve(self, asked)
    ledger_module.Ledger.reserve = early
print("ready", flush=True)
sys.stdin.readline()
for _ in range(attempts):
    try:
        cost = Cost(Composition.PURE, Fraction(1, 40))
        ledger.reserve(Reservation(dataset, cost, None, {}, None, "1", secrets.token_hex(16)))
        won += 1
    except BudgetExceeded:
        pass
    except (Busy, InputError):  # without a lock, entries that clash
        assert plant == "no lock"
print(won)
"""


def race(
    place: Place, plant: str, *, processes: int = 8, attempts: int = 15, dataset: str = "adult"
) -> tuple[int, Fraction]:
    """(admitted, as the processes say; spent, as the ledger says) of 8 processes that ask at once: none
    begins before all have started.
    """
    ledger = open_ledger(str(place))
    ledger.add(dataset, Cap.of(1.0, 0.0), Neighbours.ADD_REMOVE, 1)
    running = [started(*PYTHON, RACE, place, attempts, plant, dataset) for _ in range(processes)]
    assert [line(p) for p in running] == ["ready\n"] * processes
    for p in running:
        assert p.stdin is not None
        p.stdin.write("\n")
        p.stdin.flush()
    won = sum(int(p.communicate()[0]) for p in running)
    assert all(p.returncode == 0 for p in running)
    return won, sum((e.cost.amount for e in ledger.entries(dataset)), Fraction(0))


kinds = pytest.mark.parametrize("new_place", ["file", "database"], indirect=True)


@kinds
def test_eight_processes_cannot_overspend(new_place: Place) -> None:
    assert race(new_place, "none") == (40, 1)
    assert check_books(str(new_place))["problems"] == []


@kinds
@pytest.mark.parametrize("plant", ["no lock", "read before"])
def test_the_race_sees_a_planted_bug(new_place: Place, plant: str) -> None:
    """Whether entries clash in the last moment is up to the machine, so there are some races; and most
    attempts without a lock end in a clash, so there are more of them than the cap has room for many times
    over.
    """
    for number in range(10):
        _, spent = race(new_place, plant, attempts=40, dataset=f"race {number}")
        if spent > 1:
            return
    raise AssertionError("ten races, and none overspent")


@pytest.mark.parametrize("nth", range(1, 6))
@pytest.mark.parametrize(
    "point", ["before reserve", "before commit", "after commit", "after reserve", "before finish"]
)
def test_a_killed_process_leaves_chain_and_rows_together(books: Path, point: str, nth: int) -> None:
    child = os.fork()
    if not child:
        seen = [0]

        def hook(reached: str) -> None:
            seen[0] += reached == point
            if reached == point and seen[0] == nth:
                os._exit(9)

        faults.hook = hook
        try:
            go(books)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert check_books(books)["problems"] == []
    go(books)
    found = check_books(books)
    assert found["problems"] == [] and found["ledger_version"] == 1
