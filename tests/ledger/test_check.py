"""`fmwem ledger verify`: a chain of all that was entered, which rows, heads, journals and manifests must fit;
whatever was changed is named.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.commands import JOB, Fmwem, as_before
from support.runs import DOMAIN, died, go, sql, table

from factored_mwem import Workload, release
from factored_mwem.accounting.cap import Cap, Cost
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.cli.books import books_check_text, books_text
from factored_mwem.errors import InputError
from factored_mwem.ledger import chain
from factored_mwem.ledger import file as ledger_file
from factored_mwem.ledger.chain import Row
from factored_mwem.ledger.entries import Reservation, limits_in_text
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.report import books as read_books
from factored_mwem.ledger.report import export
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.manifest_check import check_books

HALF = Cost(Composition.PURE, Fraction(1, 2))


def enter(file: LedgerFile, cost: Cost, dataset: str = "t", run_id: str | None = None) -> int:
    mark = secrets.token_hex(16)
    return file.reserve(Reservation(dataset, cost, run_id, {"k": [1, True]}, b"f" * 32, "1", mark))


@pytest.fixture
def two(tmp_path: Path, templates: Path) -> Path:
    """Two datasets, and three releases on the first: every kind of event but one."""
    as_before(tmp_path, templates / "two", lambda: make_two(tmp_path / "two"))
    return tmp_path / "two"


def make_two(path: Path) -> None:
    file = LedgerFile.create(path)
    file.add("a", Cap.of(2.0, 0.0), Neighbours.ADD_REMOVE, 1)
    file.add("b", Cap.of(1.0, 1e-9), Neighbours.REPLACE, 3, "person")
    for run_id in ("x", "y", None):
        number = enter(file, HALF, "a", run_id)
        file.change(number, "spent", spent=Cost(Composition.PURE, Fraction(1, 3)))
        file.change(number, "finished", files=[{"data": "00"}])
    enter(file, Cost(Composition.ZCDP, Fraction(1, 1000)), "b", "z")


def test_a_whole_ledger_fits(two: Path) -> None:
    before = two.read_bytes()
    found = check_books(two)
    assert found["fits"] and found["problems"] == [] and found["events"] == 2 + 3 * 3 + 1
    assert [(d["dataset"], d["releases"], d["exact"]) for d in found["datasets"]] == [
        ("a", 3, {"epsilon": "1", "rho": "0", "delta": "0"}),
        ("b", 1, {"epsilon": "0", "rho": "1/1000", "delta": "0"}),
    ]
    assert two.read_bytes() == before


CHANGES = {
    "datasets": {
        "name": "'c'",
        "epsilon": "2.5",
        "delta": "1e-9",
        "rho": "2.0",
        "neighbours": "'replace'",
        "contributions": "2",
        "privacy_id": "'p'",
        "limits": "'{}'",
        "added": "'2001'",
    },
    "releases": {
        "id": "99",
        "dataset": "'b'",
        "run_id": "'w'",
        "state": "'failed'",
        "composition": "'zcdp'",
        "amount": "'1/4'",
        "delta": "'1/9'",
        "spent_amount": "'1/4'",
        "spent_delta": "'1/9'",
        "parameters": "'{\"k\": [1, 1]}'",
        "fingerprint": "x'00'",
        "mark": "'m'",
        "files": "'[]'",
        "tool_version": "'2'",
        "reserved": "'2001'",
        "changed": "'2001'",
    },
    "events": {
        "number": "99",
        "reserved": "99",
        "event": "replace(event, '1', '2')",
        "head": "replace(head, 'a', 'b') || 'c'",
        "code": "x'00'",
    },
    "secret": {"key": f"x'{'00' * 32}'"},
}
CELLS = [(table, column, value) for table, columns in CHANGES.items() for column, value in columns.items()]


@pytest.mark.parametrize(
    ("table", "column", "value"), CELLS, ids=[f"{table}.{column}" for table, column, _ in CELLS]
)
@pytest.mark.parametrize("last", [False, True])
def test_any_cell_that_was_changed_is_named(
    two: Path, table: str, column: str, value: str, last: bool
) -> None:
    of = f"{table} WHERE run_id IS NULL" if (table, last) == ("releases", True) else table
    value = {("neighbours", True): "'add-remove'", ("delta", True): "2e-9"}.get((column, last), value)
    row = f"(SELECT {'max' if last else 'min'}(rowid) FROM {of})"
    sql(two, f"UPDATE {table} SET {column} = {value} WHERE rowid = {row}")
    found = check_books(two)
    assert not found["fits"] and all("\n" not in p and len(p) < 300 for p in found["problems"])
    said = "\n".join(found["problems"])
    if table == "events" or column in ("key", "fingerprint"):
        assert "of the chain" in said
    elif column in ("id", "name"):
        name = "release 99" if column == "id" else "dataset 'c'"
        assert f"{name}: it is in the books, and not in the chain" in said
        assert "it is in the chain, and not in the books" in said
    else:
        first, final = ("dataset 'a'", "dataset 'b'") if table == "datasets" else ("release 1", "release 3")
        assert f"{final if last else first}: {column} in the books is not what the chain says" in said


def test_a_chain_that_was_taken_out_is_not_one_to_come(two: Path, tmp_path: Path) -> None:
    sql(two, "DELETE FROM events")
    assert "its chain has no events" in books_check_text(check_books(two))
    assert "no events yet" in books_check_text(check_books(LedgerFile.create(tmp_path / "new").path))


def test_costs_are_added_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not anew for every release."""
    file = LedgerFile.create(tmp_path / "many")
    file.add("t", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    for _ in range(30):
        enter(file, Cost(Composition.ZCDP, Fraction(1, 2**20)))
    asked, rho = [0], Cost.rho.fget  # type: ignore[attr-defined]

    def counted(cost: Cost) -> Fraction:
        asked[0] += 1
        return rho(cost)

    monkeypatch.setattr(Cost, "rho", property(counted))
    assert check_books(file.path)["fits"] and asked[0] < 5 * 30


def test_who_only_reads_is_not_told_of_writing(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(path: Path, patience: float) -> sqlite3.Connection:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(ledger_file, "connect", connect)
    with pytest.raises(InputError, match="cannot read or write the ledger"):
        check_books(two)


EVIL = "\x1b[2J\rall fits\nall fits\u202e\x9b"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET head = {} WHERE number = 12",
        "UPDATE releases SET run_id = {} WHERE id = 1",
        "UPDATE releases SET reserved = {} WHERE id = 1",
        "UPDATE releases SET dataset = {} WHERE id = 1",
        "UPDATE releases SET parameters = json_object('policy', json_object('privacy_id', {})) WHERE id = 1",
        "UPDATE datasets SET name = {} WHERE name = 'a'",
        "UPDATE datasets SET privacy_id = {} WHERE name = 'a'",
    ],
    ids=range(7),
)
def test_what_a_file_says_steers_no_terminal(two: Path, change: str) -> None:
    """Nor begins a line of its own: the file may be anybody's."""
    path = two.rename(two.with_name("two\x1b[2J\nall fits"))
    sql(path, change.format("'" + EVIL + "'"))
    checked, shown = books_check_text(check_books(path, [path])), books_text(read_books(path))
    for line in (checked + "\n" + shown).split("\n"):
        assert line.isprintable() and line != "all fits"
    assert ("head " in checked) and "[2J\\rall" not in checked.split("\n")[0]


def test_every_column_is_changed_by_a_test(two: Path) -> None:
    with sqlite3.connect(two) as db:
        columns = {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in CHANGES}
        assert {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")} == set(
            CHANGES
        )
    assert columns == {name: list(changes) for name, changes in CHANGES.items()}


@pytest.mark.parametrize("at", range(1, 13))
def test_an_event_that_was_taken_out_is_named(two: Path, at: int) -> None:
    """Even where the later ones are numbered anew."""
    sql(two, f"DELETE FROM events WHERE number = {at}")
    assert check_books(two)["problems"]
    sql(two, f"UPDATE events SET number = number - 1 WHERE number > {at}")
    assert check_books(two)["problems"]


def test_rows_and_events_must_be_there_both_ways(two: Path) -> None:
    sql(two, "DELETE FROM releases WHERE id = 2")
    assert "release 2: it is in the chain, and not in the books" in check_books(two)["problems"]
    sql(
        two,
        "INSERT INTO releases SELECT 7, dataset, 'new', state, composition, amount, delta, "
        "spent_amount, spent_delta, parameters, fingerprint, "
        "mark, files, tool_version, reserved, changed FROM releases WHERE id = 1",
    )
    assert "release 7: it is in the books, and not in the chain" in check_books(two)["problems"]
    sql(two, "DELETE FROM datasets WHERE name = 'b'")
    assert "release 4: its dataset is not in the books" in check_books(two)["problems"]
    sql(two, "DELETE FROM releases", "DELETE FROM datasets")
    assert "dataset 'a': it is in the chain, and not in the books" in check_books(two)["problems"]
    sql(two, "DELETE FROM events", f"UPDATE secret SET key = x'{'00' * 32}'")
    assert check_books(two)["fits"]  # nothing is left to contradict it


def extend(path: Path, facts: dict[str, Any], statement: str) -> None:
    """What somebody who writes the ledger by hand would do: the event with its head and code; the row."""
    key = LedgerFile(path).key
    with sqlite3.connect(path) as db:
        db.execute(statement)
        chain.append(db, key, facts)
    db.close()


LATER = {
    "id": 1,
    "state": "finished",
    "spent_amount": "1/3",
    "spent_delta": "0",
    "files": [{"data": "00"}],
    "changed": "2030",
}


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ({"spent_amount": "1/100"}, "spent_amount = '1/100'"),
        ({"spent_amount": None, "spent_delta": None}, "spent_amount = NULL, spent_delta = NULL"),
        ({"state": "failed"}, "state = 'failed'"),
        ({"files": []}, "files = '[]'"),
        ({"amount": "1/100"}, "amount = '1/100'"),
    ],
    ids=range(5),
)
def test_an_event_that_takes_something_back_is_named(two: Path, change: dict[str, Any], row: str) -> None:
    """A chain goes on after it without a gap; but there is no refund."""
    extend(
        two,
        {"event": chain.CHANGED, "release": {**LATER, **change}},
        f"UPDATE releases SET {row}, changed = '2030' WHERE id = 1",
    )
    problems = check_books(two)["problems"]
    assert "event 13 of the chain: it does not follow from the events before it" in problems
    assert not any("head" in p for p in problems)


def test_an_event_may_only_say_what_such_an_event_says(two: Path) -> None:
    sql(two, "UPDATE datasets SET epsilon = 9.0 WHERE name = 'a'")
    row = {"name": "a", "epsilon": 9.0}
    for facts in ({"event": chain.ADDED, "dataset": row}, {"event": "other"}):
        extend(two, facts, "SELECT 1")
    problems = check_books(two)["problems"]
    assert [f"event {n} of the chain: it does not follow from the events before it" for n in (13, 14)] == [
        p for p in problems if "follow" in p
    ]
    assert "dataset 'a': epsilon in the books is not what the chain says" in problems


@pytest.mark.parametrize(
    ("release_", "limits", "row"),
    [
        ({"amount": "1/100"}, None, "releases SET amount = '1/100' WHERE id = 1"),  # entered again, for less
        ({"id": 5, "spent_amount": "1/100"}, None, "releases SET id = 1 WHERE id = 1"),  # never in full
        ({"id": 5, "dataset": "b"}, "{}", "datasets SET limits = '{}' WHERE name = 'b'"),  # limits stay
    ],
    ids=range(3),
)
def test_a_reservation_that_changes_an_earlier_one_is_named(
    two: Path, release_: Row, limits: str | None, row: str
) -> None:
    first = json.loads(export(two)["chain"][2]["event"])
    facts = {**first, "release": {**first["release"], **release_}, "limits": limits}
    if "id" not in release_:
        sql(two, "UPDATE events SET reserved = NULL WHERE reserved = 1")
    extend(two, facts, f"UPDATE {row}")
    follows = "event 13 of the chain: it does not follow from the events before it"
    assert follows in check_books(two)["problems"]


def test_a_cap_that_is_overspent_is_named(two: Path) -> None:
    """The sums are made again from the rows, whatever the chain says."""
    sql(two, "UPDATE releases SET spent_amount = '2' WHERE id = 1")
    problems = check_books(two)["problems"]
    for number in (2, 3):
        assert f"dataset 'a': its cap does not admit release {number} after those before it" in problems
    assert "dataset 'a': release 1 spent more than was reserved" in problems
    limits = LedgerFile(two).dataset("b").limits
    assert limits is not None
    for change in ({"rho": Fraction(100)}, {"after": 1}, {"epsilon": Fraction(1, 10)}):
        sql(
            two,
            f"UPDATE datasets SET limits = '{limits_in_text(replace(limits, **change))}' WHERE name = 'b'",
        )
        assert any(problem.startswith("dataset 'b': its ") for problem in check_books(two)["problems"])
    sql(two, "UPDATE datasets SET limits = NULL WHERE name = 'b'")
    unlimited = "dataset 'b': its cap does not admit release 4 after those before it"
    assert unlimited in check_books(two)["problems"]


def test_damage_to_the_file_itself_is_named(two: Path) -> None:
    """The books look up a run by an index, which could be made to hide it."""
    with sqlite3.connect(two) as db:
        db.execute("PRAGMA writable_schema = ON")
        root = "(SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_events_1')"
        db.execute(f"UPDATE sqlite_master SET rootpage = {root} WHERE name = 'sqlite_autoindex_releases_1'")
    db.close()
    assert "SQLite finds the file damaged" in check_books(two)["problems"]


def test_a_number_is_not_given_out_again(two: Path) -> None:
    """After the last row was taken out, SQLite would give its number to the next release."""
    sql(two, "DELETE FROM releases WHERE id = 4")
    before = two.read_bytes()
    with pytest.raises(InputError, match="ledger verify"):
        enter(LedgerFile(two), Cost(Composition.PURE, Fraction(1, 100)), "a")
    assert two.read_bytes() == before


def test_an_auditor_recomputes_the_chain_from_the_export_alone(two: Path) -> None:
    found = json.loads(json.dumps(export(two)))
    head = "0" * 64
    for one in found["chain"]:
        head = hashlib.sha256((head + one["event"]).encode()).hexdigest()
        assert head == one["head"]
    assert head == check_books(two)["head"] and len(found["chain"]) == 12
    shown = json.dumps(found)
    for row in (
        sqlite3.connect(two)
        .execute("SELECT fingerprint, (SELECT key FROM secret), code FROM releases, events")
        .fetchall()
    ):
        for secret in filter(None, row):
            for form in (
                secret.hex(),
                hashlib.sha256(secret).hexdigest(),
                hashlib.sha256(secret.hex().encode()).hexdigest(),
            ):
                assert form not in shown
    assert "fingerprint" not in shown


def test_every_reservation_holds_a_random_mark(two: Path) -> None:
    events = [json.loads(one["event"]) for one in export(two)["chain"]]
    marks = [event["release"]["mark"] for event in events if event["event"] == chain.RESERVED]
    assert len(set(marks)) == 4 and all(len(mark) == 32 for mark in marks)


# --- manifests ---


@pytest.fixture
def released(command_books: Path, templates: Path, fmwem: Fmwem) -> tuple[Path, Path]:
    def make() -> None:
        assert fmwem(*JOB, "--epsilon", 0.4, "--run-id", "monday", "-o", "monday.parquet").code == 0

    as_before(command_books.parent, templates / "released", make)
    return command_books, command_books.parent / "monday.manifest.json"


def test_a_release_fits_its_ledger(released: tuple[Path, Path], fmwem: Fmwem) -> None:
    path, manifest = released
    done = fmwem("ledger", "verify", "books", "monday.manifest.json", "--json")
    assert (done.code, done.err) == (0, "") and done.facts["fits"] and done.facts["problems"] == []
    assert done.facts["manifests"] == [{"manifest": "monday.manifest.json", "dataset": "adult", "release": 1}]
    text = fmwem("ledger", "verify", "books", "monday.manifest.json")
    assert text.code == 0 and "release 1 of 'adult'" in text.out and text.out.endswith("all fits\n")
    head = Manifest.model_validate_json(manifest.read_bytes()).chain_head
    (entry,) = LedgerFile(path).entries("adult")
    assert head is not None and head == LedgerFile(path).head(entry.number)
    assert head == next(
        one["head"] for one in export(path)["chain"] if json.loads(one["event"])["event"] == chain.RESERVED
    )


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edited(path: Path) -> None:
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found, indent=1))

    return edited


CHARGES: list[dict[str, Any]] = [
    *({"delta": delta} for delta in ("1e999999999", "1/0", "1/" + "9" * 2000, "-1")),
    *({"scale": scale} for scale in (0, 0.0, -1.0, 1e999)),
]
EDITS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a space": ("not a file that release 1 wrote", lambda path: path.write_text(path.read_text() + " ")),
    "spent": ("its charges amount to", edit(lambda m: m["guarantee"].update(spent_epsilon=0.1))),
    "promise": (
        "more than the epsilon 0.01 that it promises",
        edit(lambda m: m["guarantee"].update(epsilon=0.01)),
    ),
    "a charge less": ("do not add up to what release 1 spent", edit(lambda m: m["ledger"].pop())),
    "a scale": ("do not add up to what release 1 spent", edit(lambda m: m["ledger"][0].update(scale=1e3))),
    "a delta": (
        "do not add up to what release 1 spent",
        edit(lambda m: m["ledger"][0].update(delta="1/10000000000")),
    ),
    **{
        f"charge {i}": ("its charges cannot be added up", edit(lambda m, c=c: m["ledger"][0].update(c)))  # type: ignore[misc]
        for i, c in enumerate(CHARGES)
    },
    "no promise": ("cannot be added up", edit(lambda m: m["guarantee"].update(delta=0.0))),
    "tiny delta": ("cannot be added up", edit(lambda m: m["guarantee"].update(delta=5e-324))),
    "composition": (
        "its composition is not that of release 1",
        edit(lambda m: m["guarantee"].update(composition="pure")),
    ),
    "another head": ("its chain_head is not in the chain", edit(lambda m: m.update(chain_head="0" * 64))),
    "no head": ("it has no chain_head", edit(lambda m: m.pop("chain_head"))),
    "no manifest": ("it is no manifest", lambda path: path.write_text("{}")),
    "no text": ("it is no manifest", lambda path: path.write_bytes(os.urandom(99))),
    "nothing": ("cannot read it: No such file or directory", lambda path: path.unlink()),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_manifest_is_named(released: tuple[Path, Path], name: str) -> None:
    """And is at fault itself, whatever it says: not the books."""
    (words, change), (path, manifest) = EDITS[name], released
    change(manifest)
    found = check_books(path, [manifest])
    assert not found["fits"]
    assert any(words in problem and problem.startswith(f"{manifest}: ") for problem in found["problems"])
    assert not any("the row of its release" in problem for problem in found["problems"])


def test_the_command_names_what_does_not_fit(released: tuple[Path, Path], fmwem: Fmwem) -> None:
    EDITS["a space"][1](released[1])
    done = fmwem("ledger", "verify", "books", "monday.manifest.json", "--json")
    assert done.code == 2 and not done.facts["fits"] and done.err == ""
    (problem,) = done.facts["problems"]
    assert problem == "monday.manifest.json: it is not a file that release 1 wrote, or was changed since"
    text = fmwem("ledger", "verify", "books", "monday.manifest.json")
    assert text.code == 2 and f"does not fit: {problem}" in text.out and "all fits" not in text.out


def test_a_head_that_is_no_reservation_is_named(released: tuple[Path, Path]) -> None:
    path, manifest = released
    edit(lambda m: m.update(chain_head=check_books(path)["head"]))(manifest)
    assert (
        f"{manifest}: its chain_head is not that of a release in the books"
        in check_books(path, [manifest])["problems"]
    )


def test_a_manifest_of_a_release_that_spent_nothing_yet_is_named(released: tuple[Path, Path]) -> None:
    path, manifest = released
    sql(path, "UPDATE releases SET spent_amount = NULL, spent_delta = NULL")
    assert (
        f"{manifest}: the books do not say what release 1 spent" in check_books(path, [manifest])["problems"]
    )


def test_a_release_of_the_chain_is_not_known_by_its_file_alone(released: tuple[Path, Path]) -> None:
    """Its manifest names a head; one without it is not that manifest, whatever the books list."""
    path, manifest = released
    edit(lambda m: m.pop("chain_head"))(manifest)
    sql(
        path,
        f'UPDATE releases SET files = \'[{{"manifest": '
        f'"{hashlib.sha256(manifest.read_bytes()).hexdigest()}"}}]\'',
    )
    assert any("it has no chain_head" in problem for problem in check_books(path, [manifest])["problems"])


def test_a_manifest_of_another_ledger_is_named(released: tuple[Path, Path], fmwem: Fmwem) -> None:
    """The same release, entered with the same parameters in a ledger of the same datasets."""
    assert fmwem("ledger", "init", "other").code == 0
    assert fmwem("ledger", "add", "other", "--dataset", "adult", "--epsilon", 1, "--delta", "1e-9").code == 0
    arguments = [a if a != "books" else "other" for a in JOB]
    assert fmwem(*arguments, "--epsilon", 0.4, "--run-id", "monday", "-o", "other.parquet").code == 0
    assert fmwem("ledger", "verify", "other", "other.manifest.json").code == 0
    refused = fmwem("ledger", "verify", "books", "other.manifest.json", "monday.manifest.json", "--json")
    assert refused.code == 2 and [m["release"] for m in refused.facts["manifests"]] == [None, 1]
    (problem,) = refused.facts["problems"]
    assert problem.startswith("other.manifest.json: its chain_head is not in the chain")


def test_an_old_copy_does_not_know_the_manifest(command_books: Path, fmwem: Fmwem) -> None:
    """What lies beside the ledger shows it, too, with a run id and without."""
    shutil.copy(command_books, command_books.with_name("copy"))
    assert fmwem(*JOB, "--epsilon", 0.2, "-o", "monday.parquet").code == 0
    shutil.copy(command_books, command_books.with_name("newest"))
    shutil.copy(command_books.with_name("copy"), command_books)
    refused = fmwem("ledger", "verify", "books", "monday.manifest.json", "--json")
    assert refused.code == 2
    older, head = refused.facts["problems"]
    assert "of a release that the books do not know" in older and "chain_head is not in the chain" in head
    shutil.copy(command_books.with_name("newest"), command_books)
    assert fmwem(*JOB, "--epsilon", 0.2, "-o", "tuesday.parquet", "--run-id", "tuesday").code == 0
    assert fmwem("ledger", "verify", "books", "tuesday.manifest.json").code == 0
    shutil.copy(command_books.with_name("copy"), command_books)
    refused = fmwem("ledger", "verify", "books", "--json")
    assert refused.code == 2 and len(refused.facts["problems"]) == 2
    assert all("of a release that the books do not know" in problem for problem in refused.facts["problems"])


def test_a_repeated_run_says_the_same_head(books: Path) -> None:
    died(books, "before draw", 3)
    heads = [go(books)[0].manifest.chain_head for _ in range(2)]
    assert heads[0] == heads[1] == LedgerFile(books).head(1) is not None
    assert release(table(), 2, domain=DOMAIN, epsilon=0.5).manifest.chain_head is None


def from_python(books: Path, **choices: Any) -> Path:
    """The manifest of a release of which the books list no file."""
    settings = {"table": table(), "workload": 2, "domain": DOMAIN, "epsilon": 0.5, "rows": 50}
    made = release(**{**settings, "sample_seed": 3, **choices}, ledger=books, dataset="t")
    made.write(books.with_name("made.parquet"))
    return books.with_name("made.manifest.json")


def test_a_release_from_python_fits_by_what_the_books_say_of_it(books: Path) -> None:
    """The books list no file of it, and the check says so."""
    manifest = from_python(books)
    found = check_books(books, [manifest])
    assert found["fits"] and found["problems"] == []
    assert found["notes"] == [
        f"{manifest}: the books list no file of this release: only its costs, policy, workload and domain "
        "were compared"
    ]
    assert f"note: {found['notes'][0]}\n" in books_check_text(found)
    assert books_check_text(found).endswith("all fits")


FORGED: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "epsilon": ("guarantee.epsilon", lambda m: m["guarantee"].update(epsilon=0.9)),
    "delta": ("guarantee.delta", lambda m: m["guarantee"].update(delta=1e-8)),
    "neighbours": ("guarantee.neighbours", lambda m: m["guarantee"].update(neighbours="replace")),
    "contributions": ("guarantee.contributions", lambda m: m["guarantee"].update(contributions=100)),
    "statement": (
        "guarantee.statement",
        lambda m: m["guarantee"].update(statement="0.5-differential privacy against everything"),
    ),
    "assumption": (
        "guarantee.assumptions",
        lambda m: m["guarantee"]["assumptions"]["domain"].update(statement="it was learnt", enforced=True),
    ),
    "enforced": (
        "guarantee.assumptions",
        lambda m: m["guarantee"]["assumptions"]["contributions"].update(enforced=True),
    ),
    "policy": ("policy", lambda m: m["policy"].update(contributions=100)),
    "another field": ("policy", lambda m: m["policy"].update(safe=True)),
    "workload": ("workload", lambda m: m["workload"].update(marginals=[3])),
    "seed": ("sample_seed", lambda m: m.update(sample_seed=None)),
    "rows": ("output.rows", lambda m: m["output"].update(rows=51)),
    "bounds": ("domain of 'a'", lambda m: m["domain"]["fields"][0]["constraints"].update(maximum=9)),
    "no column": (
        "domain is not of the columns",
        lambda m: (m["domain"]["fields"].pop(), m["attributes"].pop()),
    ),
    "a name": ("domain is not of the columns", lambda m: m["domain"]["fields"][0].update(name="z")),
    "a field twice": ("its domain is none", lambda m: m["domain"]["fields"].append(m["domain"]["fields"][0])),
    "no domain": ("its domain is none", lambda m: m.update(domain={"fields": [7]})),
    "attributes": (
        "attributes are not those of its domain",
        lambda m: m["attributes"][0].update(domain="learnt"),
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_promise_is_named_though_no_file_is_listed(books: Path, templates: Path, name: str) -> None:
    """Its charges and its head are as they were."""
    words, change = FORGED[name]
    as_before(books.parent, templates / "from python", lambda: from_python(books))
    manifest = books.with_name("made.manifest.json")
    edit(change)(manifest)
    problems = check_books(books, [manifest])["problems"]
    assert any(words in problem for problem in problems), problems


CHOICES: dict[str, dict[str, Any]] = {
    "columns": {"columns": ["c", "a"]},
    "learnt": {"domain": None, "rows": None, "sample_seed": None, "table": table(12_000)},
    "pure": {"delta": 0.0},
    "mwem": {"engine": "mwem", "rounds": 3, "max_cells": 4000},
    "limits": {"max_memory": 2**30, "time_budget": 60.0},
    "asked": {"workload": Workload.cube("a", "b") + Workload.marginals(1)},
    "by id": {
        "table": table().append_column("p", table()["a"]),
        "privacy_id": "p",
        "domain": {**DOMAIN, "p": 4},
    },
    "by id, learnt": {
        "table": table(12_000).append_column("p", pa.array(range(12_000))),
        "privacy_id": "p",
        "domain": None,
        "columns": ["a", "p"],
        "workload": 1,
    },
    "replace": {"neighbours": "replace"},
}


@pytest.mark.parametrize("name", CHOICES)
def test_whatever_was_asked_for_fits(tmp_path: Path, name: str) -> None:
    file, choices = LedgerFile.create(tmp_path / "books"), CHOICES[name]
    relation = Neighbours(choices.get("neighbours", "add-remove"))
    file.add("t", Cap.of(1.0, 1e-9), relation, 1, choices.get("privacy_id"))
    found = check_books(file.path, [from_python(file.path, **choices)])
    assert found["problems"] == [] and len(found["notes"]) == 1


def test_another_attempt_may_bear_less(books: Path) -> None:
    died(books, "before draw", 3, max_cells=4000)
    go(books, max_cells=5000)[0].write(books.with_name("made.parquet"))
    found = check_books(books, [books.with_name("made.manifest.json")])
    assert found["problems"] == [] and "another version of this program" in found["notes"][1]


def test_a_domain_that_the_books_do_not_keep_is_their_fault(books: Path) -> None:
    manifest = from_python(books)
    for parameters in (
        "{}",
        '{"policy": 1}',
        '{"policy": {"epsilon": 0.5}, "workload": 1, "sample_seed": 1, "rows": 1, "domain": 1, "columns": 1}',
    ):
        sql(books, f"UPDATE releases SET parameters = '{parameters}'")
        assert (
            f"{manifest}: the row of its release is not as this program writes it"
            in check_books(books, [manifest])["problems"]
        )


def test_charges_whose_sum_only_grows_are_given_up(released: tuple[Path, Path]) -> None:
    """Denominators without a common factor: each is short, and their sum is as long as all of them."""
    path, manifest = released
    edit(lambda m: m.update(ledger=[{**m["ledger"][0], "delta": f"1/{10**900 + i}"} for i in range(5000)]))(
        manifest
    )
    assert f"{manifest}: its charges cannot be added up" in check_books(path, [manifest])["problems"]


def test_a_ledger_and_its_manifests_are_verified_without_being_written(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(path: Path, patience: float) -> sqlite3.Connection:
        return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)

    monkeypatch.setattr(ledger_file, "connect", connect)
    assert check_books(two)["fits"] and export(two)["chain"]


# --- crashes ---


def test_an_event_outside_its_transaction_would_be_seen(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above would find, if rows were committed before their event."""

    def dies(db: sqlite3.Connection, *_: Any) -> None:
        db.execute("COMMIT")
        raise KeyboardInterrupt

    monkeypatch.setattr(chain, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        go(books)
    assert "release 1: it is in the books, and not in the chain" in check_books(books)["problems"]
