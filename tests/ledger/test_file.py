"""The ledger file: one transaction a change, a cap that many processes cannot overspend, and nothing but our
own tables in it.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.commands import Fmwem, shown
from support.marks import others_slow
from support.places import Place
from support.runs import sql

from factored_mwem.accounting.cap import Cap, Cost
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import BudgetExceeded, Busy, InputError
from factored_mwem.ledger import file as ledger_file
from factored_mwem.ledger import ledger as ledger_module
from factored_mwem.ledger import schema
from factored_mwem.ledger.consistency import inspect
from factored_mwem.ledger.entries import Reservation
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.ledger import Ledger
from factored_mwem.ledger.opening import open_ledger
from factored_mwem.ledger.report import books, export
from factored_mwem.request.policy import Policy

PURE = Cost(Composition.PURE, Fraction(1, 4))


@pytest.fixture
def file(tmp_path: Path) -> LedgerFile:
    made = LedgerFile.create(tmp_path / "books")
    made.add("adult", Cap.of(1.0, 0.0), Neighbours.ADD_REMOVE, 1)
    return made


@pytest.fixture
def ledger(new_place: Place) -> Ledger:
    """Of each kind."""
    made = open_ledger(str(new_place))
    made.add("adult", Cap.of(1.0, 0.0), Neighbours.ADD_REMOVE, 1)
    return made


def enter(file: Ledger, run_id: str | None = None, cost: Cost = PURE) -> int:
    mark = secrets.token_hex(16)
    return file.reserve(Reservation("adult", cost, run_id, {"k": [1]}, b"f", "1", mark))


def test_a_new_ledger_is_private_and_never_overwritten(tmp_path: Path) -> None:
    path = LedgerFile.create(tmp_path / "books").path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(InputError, match="never overwritten"):
        LedgerFile.create(path)
    with pytest.raises(InputError, match="choose another folder"):
        LedgerFile.create(tmp_path / "none" / "books")


def test_an_entry_keeps_what_it_was_given_and_moves_on(ledger: Ledger) -> None:
    number = enter(ledger, "r")
    entry = ledger.find("adult", "r")
    assert entry is not None
    assert (entry.state, entry.cost, entry.parameters, entry.fingerprint, entry.files) == (
        "reserved",
        PURE,
        {"k": [1]},
        b"f",
        [],
    )
    less = Cost(Composition.PURE, Fraction(1, 5))
    ledger.change(number, "spent", spent=less)
    assert ledger.entries("adult")[0].cost == less
    ledger.change(number, "finished", files=[{"data": "00"}])
    ledger.change(number, "failed")  # what is finished stays so
    assert (ledger.entries("adult")[0].state, ledger.entries("adult")[0].files) == (
        "finished",
        [{"data": "00"}],
    )


@pytest.mark.parametrize("state", ["reserved", "spent", "finished", "failed"])
def test_every_state_counts(ledger: Ledger, state: str) -> None:
    """No state is a refund: after four quarters nothing more is admitted, whatever became of them."""
    for _ in range(4):
        ledger.change(enter(ledger), state)
    with pytest.raises(BudgetExceeded, match="nothing is left"):
        enter(ledger, cost=Cost(Composition.PURE, Fraction(1, 10**6)))
    assert len(ledger.entries("adult")) == 4


def test_what_is_refused_writes_nothing_and_says_what_is_left(ledger: Ledger) -> None:
    enter(ledger)
    before = ledger.snapshot()
    for attempt in (ledger.check, lambda name, cost: enter(ledger, cost=cost)):
        with pytest.raises(
            BudgetExceeded, match=r"--epsilon 0\.7\d* at --delta 0 is the most that would fit"
        ):
            attempt("adult", Cost(Composition.PURE, Fraction(4, 5)))
    assert ledger.snapshot() == before
    with pytest.raises(InputError, match="no dataset 'census'"):
        ledger.check("census", PURE)
    with pytest.raises(InputError, match="stays what it is"):
        ledger.add("adult", Cap.of(9.0, 0.0), Neighbours.ADD_REMOVE, 1)


def test_the_limits_are_those_of_the_first_release(new_place: Place) -> None:
    """With hindsight a cap would have room for more; but whoever asks has seen the first release."""
    ledger = open_ledger(str(new_place))
    ledger.add("adult", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    small = Cost(Composition.ZCDP, Fraction(1, 1000))
    enter(ledger, cost=small)
    limits = ledger.dataset("adult").limits
    assert limits is not None and limits == ledger.dataset("adult").cap.limits([], small)
    with pytest.raises(BudgetExceeded, match="learnt categories"):
        enter(ledger, cost=Cost(Composition.ZCDP, Fraction(1, 10**6), Fraction(2e-10)))
    enter(ledger, cost=Cost(Composition.ZCDP, Fraction(1, 10**6), Fraction(1e-10)))
    assert ledger.dataset("adult").limits == limits
    assert [e.cost.delta for e in ledger.entries("adult")] == [0, Fraction(1e-10)]


def test_a_learnt_domain_fits_after_a_declared_one_by_default(new_place: Place) -> None:
    """The share of delta that a cap keeps is the one that a release takes, to the last bit of its float."""
    ledger = open_ledger(str(new_place))
    ledger.add("adult", Cap.of(2.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    for learn in (False, True):
        budget = Policy.of(epsilon=0.2, delta=1e-9).budget(learn_domain=learn)
        enter(ledger, cost=Cost(budget.composition, budget.amount, budget.discovery_delta))
    assert len(ledger.entries("adult")) == 2


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    others_slow([(1e-6, 0.01), (2e-5, 0.5), (1e9, 1e-200), (1.0, 1e-9)], lambda cap: cap[0] == 1),
)
def test_extreme_caps_can_be_read_again_and_fit(new_place: Place, epsilon: float, delta: float) -> None:
    ledger, cost = open_ledger(str(new_place)), Cost(Composition.ZCDP, Fraction(1, 2**80), Fraction(1e-205))
    for name, cap in (("adult", Cap.of(epsilon, delta)), ("u", Cap.of(None, delta, epsilon))):
        ledger.add(name, cap, Neighbours.ADD_REMOVE, 1)
        number = ledger.reserve(Reservation(name, cost, None, {}, None, "1", secrets.token_hex(16)))
        ledger.change(number, "spent", spent=cost)
        assert len(ledger.entries(name)) == 1 and ledger.dataset(name).limits is not None
    assert inspect(str(new_place)).problems == []


def test_what_was_spent_is_said_once(ledger: Ledger) -> None:
    """The first to say it had drawn all there was; a later, lower figure would be a refund."""
    number = enter(ledger)
    for amount in (Fraction(1, 5), Fraction(1, 100)):
        ledger.change(number, "spent", spent=Cost(Composition.PURE, amount))
    assert ledger.entries("adult")[0].cost.amount == Fraction(1, 5)


def test_a_commit_waits_for_the_disk(file: LedgerFile) -> None:
    """EXTRA: after a power cut neither a commit nor the removal of its rollback journal is undone."""
    with file._reading() as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)


def test_a_lock_that_stays_is_said(file: LedgerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_file, "LOCK_SECONDS", 0.05)
    holder = sqlite3.connect(file.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy, match="in use") as refused:
        enter(file)
    assert refused.value.retryable and refused.value.exit_code == 4
    holder.execute("ROLLBACK")
    holder.close()
    enter(file)


def test_a_full_disk_is_said_and_writes_nothing(file: LedgerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = ledger_file.connect

    def no_room(path: Path, patience: float) -> sqlite3.Connection:
        db = connect(path, patience)
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
        return db

    monkeypatch.setattr(ledger_file, "connect", no_room)
    with pytest.raises(Busy, match="no space left"):
        file.reserve(Reservation("adult", PURE, None, {"k": "x" * 100_000}, None, "1", "mark"))
    assert file.entries("adult") == []


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_file, "TRIES", "pass")  # another process that gets in
    with pytest.raises(InputError, match="keeps no locks"):
        LedgerFile.create(tmp_path / "books")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER forgive AFTER INSERT ON releases BEGIN DELETE FROM releases; END",
        "CREATE TABLE more (x)",
        "DROP TABLE releases",
        "PRAGMA application_id = 0",
        "DELETE FROM secret",
        "INSERT INTO secret VALUES (x'00')",
    ],
)
def test_a_file_with_more_or_less_than_our_tables_is_no_ledger(file: LedgerFile, statement: str) -> None:
    sql(file.path, statement)
    with pytest.raises(InputError, match="not a ledger"):
        LedgerFile(file.path)


def test_other_versions_and_other_files(file: LedgerFile, tmp_path: Path) -> None:
    for version in (0, schema.VERSION + 1):
        sql(file.path, f"PRAGMA user_version = {version}")
        with pytest.raises(InputError, match=f"of version {version}, this program reads version 1 alone"):
            LedgerFile(file.path)
    for content in (b"", b"age,job\n1,2\n", os.urandom(5000)):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(InputError, match="not a ledger"):
            LedgerFile(tmp_path / "other")
    with pytest.raises(InputError, match="ledger init"):
        LedgerFile(tmp_path / "none")


def test_costs_are_those_of_the_entries(ledger: Ledger) -> None:
    """Admission reads less of a row than a reader of the books; both say the same."""
    ledger.change(enter(ledger), "spent", spent=Cost(Composition.PURE, Fraction(1, 5)))
    enter(ledger)
    with ledger._reading() as db:
        assert ledger_module._costs(db, "adult") == [e.cost for e in ledger.entries("adult")]


@pytest.mark.parametrize(
    "change",
    [
        *(f"amount = '{amount}'" for amount in ("1/0", "-1", "x", "1e99999999")),
        "state = 'free'",
        "composition = 'none'",
        "parameters = '['",
        "files = x'00ff'",
        "files = '[1]'",
        "parameters = '[]'",
        "run_id = x'00'",
    ],
)
def test_a_damaged_entry_is_no_discount(file: LedgerFile, change: str) -> None:
    enter(file)
    sql(file.path, f"UPDATE releases SET {change}")
    with pytest.raises(InputError, match="damaged"):
        file.entries("adult")
    if change.startswith(("amount", "composition")):
        with pytest.raises(InputError, match="damaged"):
            enter(file)


@pytest.mark.parametrize(
    "change",
    [
        "epsilon = '1e9999999'",
        "epsilon = 9e999",
        "rho = 1",
        "neighbours = 'x'",
        "limits = '9'",
        "limits = '{}'",
        """limits = '{"after":-1,"delta":"0","epsilon":"0","order":null,"rest":"0","rho":"9"}'""",
        "delta = -1",
    ],
)
def test_a_damaged_cap_admits_nothing(file: LedgerFile, change: str) -> None:
    sql(file.path, f"UPDATE datasets SET {change}")
    with pytest.raises(InputError):
        enter(file)
    assert file.entries("adult") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write what is read-only")
def test_a_read_only_ledger(file: LedgerFile) -> None:
    file.path.chmod(0o400)
    with pytest.raises(InputError, match="read-only"):
        enter(file)


def test_the_books_can_be_added_up_again(ledger: Ledger, new_place: Place) -> None:
    """What an auditor gets is enough to recompute what is spent; and it holds no key and no fingerprint."""
    for run_id in ("a", "b"):
        enter(ledger, run_id)
    exported: Any = export(str(new_place))
    (dataset,) = exported["datasets"]
    assert sum(Fraction(r["counts"]["amount"]) for r in dataset["releases"]) == Fraction(1, 2)
    shown = books(str(new_place))["datasets"][0]
    assert (shown["spent"], shown["left"], shown["left_pure"]) == (0.5, 0.0, 0.5)
    assert ledger.key.hex() not in str(exported) and "fingerprint" not in str(exported)


# ---- releases of several kinds: what one kind leaves, another may spend


def test_a_pure_task_leaves_the_rest_to_a_release(here: Path, fmwem: Fmwem) -> None:
    """The README's cap: .5 by a pure statistic leaves 1.5, to the last digit, for releases with a delta."""
    assert fmwem("ledger", "init", "books").code == 0
    assert fmwem("ledger", "add", "books", "--dataset", "t", "--epsilon", 2, "--delta", 1e-9).code == 0
    kept = ("--ledger", "books", "--dataset", "t")
    statistic = ("statistic", "t.csv", "--column", "age", "--what", "median", "--lower", 0, "--upper", 9)
    pure = fmwem(*statistic, "--epsilon", 0.5, *kept)
    assert pure.code == 0, pure.err
    books = shown(fmwem)
    assert (books["spent"], books["left"], books["left_pure"]) == (0.5, 1.5, 1.5)
    release = ("release", "t.csv", "--marginals", 1, *kept)
    first = fmwem(*release, "--epsilon", 0.1, "-o", "a.csv")
    assert first.code == 0, first.err
    refused = fmwem(*release, "--epsilon", 1.5, "-o", "b.csv")
    assert refused.code == 3 and "is the most that would fit" in refused.err
    whole = fmwem(*release, "--epsilon", 1.3, "-o", "c.csv")
    assert whole.code == 0, whole.err
    assert shown(fmwem)["spent"] <= 2


def test_the_books_keep_the_limits_of_the_first_release_in_rho(tmp_path: Path) -> None:
    """What pure ones are later found to have spent changes nothing; a refusal says its reason."""
    ledger = LedgerFile.create(tmp_path / "books")
    ledger.add("t", Cap.of(2.0, 1e-9), Neighbours.ADD_REMOVE, 1)

    def reserve(composition: Composition, amount: Fraction, delta: float = 0.0) -> int:
        cost = Cost(composition, amount, Fraction(delta))
        return ledger.reserve(Reservation("t", cost, None, {}, None, "1", secrets.token_hex(16)))

    first = reserve(Composition.PURE, Fraction(1, 2))
    assert ledger.dataset("t").limits is None
    with pytest.raises(BudgetExceeded, match="its delta is more than is left of the cap's"):
        reserve(Composition.PURE, Fraction(1, 2), 2e-9)
    reserve(Composition.ZCDP, Fraction(1, 1000))
    limits = ledger.dataset("t").limits
    assert limits is not None and (limits.after, limits.epsilon) == (1, Fraction(1, 2))
    ledger.change(first, "spent", spent=Cost(Composition.PURE, Fraction(1, 10)))
    reserve(Composition.PURE, Fraction(1, 2))
    with pytest.raises(BudgetExceeded, match="most that would fit"):
        reserve(Composition.PURE, Fraction(1, 2))
    with pytest.raises(BudgetExceeded, match="delta kept for learnt categories"):
        reserve(Composition.ZCDP, Fraction(1, 10**6), 5e-10)
    assert ledger.dataset("t").limits == limits and inspect(ledger.path).problems == []
    cap, costs = ledger.dataset("t").cap, [entry.cost for entry in ledger.entries("t")]
    assert [cost.amount for cost in costs] == [Fraction(1, 10), Fraction(1, 1000), Fraction(1, 2)]
    assert 1 < cap.spent(costs, limits) < 2 and 0 < cap.left(costs, limits, pure=True) < 0.5
