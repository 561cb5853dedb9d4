"""An old copy of the ledger put back: the journals hold draws that it does not know, so it is refused, and
nothing is touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import JOB, Fmwem
from support.fakes import FakeNoise
from support.marks import on_linux
from support.runs import DOMAIN, died, go, table

from factored_mwem import release
from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.cli.books import books_text
from factored_mwem.errors import InputError, RolledBack
from factored_mwem.files import crashpoints as faults
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.journal import HEAD, MAGIC
from factored_mwem.ledger.journal_folder import JournalFile, JournalFolder
from factored_mwem.ledger.report import books as show
from factored_mwem.pipeline.record.manifest_check import check_books


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextlib.contextmanager
def put_back(books: Path) -> Iterator[None]:
    """What is done inside is done by another copy: the ledger is as it was before, its journals are not."""
    shutil.copy(books, books.with_name("copy"))
    yield
    os.replace(books.with_name("copy"), books)


@pytest.fixture
def older(books: Path) -> dict[str, bytes]:
    """All there is beside the ledger as it was before a run that drew noise and died."""
    with put_back(books):
        died(books, "before draw", 3)
    return everything(books.parent)


@pytest.mark.parametrize("run_id", ["r", "another"])
def test_a_ledger_older_than_its_journals_is_refused(
    books: Path, older: dict[str, bytes], run_id: str
) -> None:
    """The same id would draw again what was paid; any other would spend what is spent."""
    noise = FakeNoise()
    for _ in range(2):
        with pytest.raises(RolledBack, match="older than its journals") as refused:
            go(books, noise=noise, run_id=run_id)
        assert refused.value.exit_code == 2 and not refused.value.retryable and not refused.value.budget_spent
    assert "\n" not in str(refused.value) and "put the newest copy back" in str(refused.value)
    assert noise.calls == [] and everything(books.parent) == older


def test_show_says_that_something_is_missing(books: Path) -> None:
    assert "older" not in books_text(shown := show(books)) and not shown["older_than_its_journals"]
    with put_back(books):
        died(books, "before draw", 3)
    assert "older than its journals" in books_text(shown := show(books)) and shown["older_than_its_journals"]


def test_neither_a_run_without_an_id_nor_another_dataset_gets_past(books: Path) -> None:
    LedgerFile(books).add("u", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    with put_back(books):
        died(books, "before draw", 3)
    before = everything(books.parent)
    for dataset in ("t", "u"):
        with pytest.raises(RolledBack):
            release(table(), 2, domain=DOMAIN, epsilon=0.1, ledger=books, dataset=dataset)
    assert everything(books.parent) == before


def test_a_release_without_a_run_id_is_not_forgotten(books: Path) -> None:
    """Else the same budget would be admitted twice; a new ledger in its place would forget it, too."""
    more: dict[str, Any] = {"domain": DOMAIN, "epsilon": 0.5, "ledger": books, "dataset": "t"}
    with put_back(books):
        release(table(), 2, **more)
        shutil.copy(books, books.with_name("newest"))
    before = everything(books.parent)
    for run_id in (None, "another"):
        with pytest.raises(RolledBack):
            release(table(), 2, **more, run_id=run_id)
    assert everything(books.parent) == before
    os.unlink(books)
    with pytest.raises(InputError, match="journals of an earlier ledger"):
        LedgerFile.create(books)
    os.replace(books.with_name("newest"), books)
    release(table(), 2, **more)


@pytest.mark.parametrize("point", ["before reserve", "after reserve", "before commit"])
def test_a_release_that_died_before_its_noise_is_no_proof(books: Path, point: str) -> None:
    def killed(reached: str) -> None:
        if reached == point:
            faults.hook = lambda _: None
            raise KeyboardInterrupt

    with put_back(books):
        faults.hook = killed
        with pytest.raises(KeyboardInterrupt):
            release(table(), 2, domain=DOMAIN, epsilon=0.5, ledger=books, dataset="t")
    release(table(), 2, domain=DOMAIN, epsilon=0.5, ledger=books, dataset="t")


def test_the_newest_copy_ends_the_refusal(books: Path) -> None:
    with put_back(books):
        drawn = died(books, "before draw", 3)
        shutil.copy(books, books.with_name("new"))
    with pytest.raises(RolledBack):
        go(books)
    os.replace(books.with_name("new"), books)
    assert go(books)[1].resumed == len(drawn.calls)


def test_commands_say_so_in_one_line(command_books: Path, fmwem: Fmwem) -> None:
    """A run under the same id, another or none; and no dataset is added to an old copy."""
    with put_back(command_books):
        assert fmwem(*JOB, "--epsilon", 0.4, "--run-id", "a").code == 0
    before = everything(command_books.parent)
    for run_id in (["--run-id", "a"], ["--run-id", "b"], []):
        refused = fmwem(*JOB, "--epsilon", 0.4, *run_id, "-o", "again.parquet", "--json")
        assert (refused.code, refused.facts["budget_spent"], refused.facts["retryable"]) == (2, False, False)
        assert "older than its journals" in refused.facts["error"] and refused.err.count("\n") == 1
    refused = fmwem("ledger", "add", "books", "--dataset", "more", "--epsilon", 1)
    assert refused.code == 2 and "older than its journals" in refused.err
    assert everything(command_books.parent) == before


@pytest.mark.parametrize("point", ["before reserve", "after reserve", "before commit", "half journalled"])
def test_a_journal_without_a_draw_is_no_proof(books: Path, point: str) -> None:
    """Nothing was drawn between a journal and its entry; nobody knows of a record that is not whole."""

    def killed(reached: str) -> None:
        if reached == "before commit":
            faults.hook = lambda _: None
            raise KeyboardInterrupt

    with put_back(books):
        if point == "before commit":
            faults.hook = killed
            with pytest.raises(KeyboardInterrupt):
                go(books)
        else:
            died(books, point, 2 if point == "half journalled" else 1)
    (journal,) = Path(f"{books}.journals").iterdir()
    assert journal.stat().st_size > 0 and LedgerFile(books).unknown_journals() == []
    go(books)


def test_a_run_beside_this_one_is_no_alarm(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process reserves and draws between the two looks of this one, whichever of them is first."""
    died(books, "before draw", 3, run_id="first", epsilon=0.3)
    looks = {"files": JournalFolder._files, "marks": LedgerFile.marks}

    def then_another(look: str) -> Any:
        def looked(file: LedgerFile) -> Any:
            found = looks[look](file)
            monkeypatch.undo()
            died(books, "before draw", 3, run_id="beside", epsilon=0.3)
            return found

        return looked

    monkeypatch.setattr(JournalFolder, "_files", then_another("files"))
    monkeypatch.setattr(LedgerFile, "marks", then_another("marks"))
    go(books, epsilon=0.3)
    assert [entry.run_id for entry in LedgerFile(books).entries("t")] == ["first", "beside", "r"]


def test_books_that_were_read_first_would_be_a_false_alarm(
    books: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other way round, the run beside this one would look like a ledger put back."""
    known = LedgerFile(books).marks()
    died(books, "before draw", 3)
    monkeypatch.setattr(LedgerFile, "marks", lambda self: known)
    assert len(LedgerFile(books).unknown_journals()) == 1


def test_a_ledger_put_back_while_a_run_begins_is_seen(
    books: Path, older: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at all journals and the lock on this run's own: its draws are not forgotten either."""
    monkeypatch.setattr(LedgerFile, "refuse_older", lambda file: None)
    with pytest.raises(RolledBack):
        go(books)
    assert everything(books.parent) == older


def test_journals_of_another_ledger_prove_nothing(books: Path, tmp_path: Path) -> None:
    died(books, "before draw", 3)
    LedgerFile.create(tmp_path / "new").add("t", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    os.replace(tmp_path / "new", books)
    assert LedgerFile(books).unknown_journals() == []


@pytest.mark.parametrize("size", [0, 3, 100, 2**40])
def test_what_is_no_journal_is_passed_over(books: Path, size: int) -> None:
    """And a length that a disk made up takes no memory."""
    folder = Path(f"{books}.journals")
    folder.mkdir()
    (folder / f"{'a' * 32}.journal").mkdir()
    os.mkfifo(folder / f"{'b' * 32}.journal")
    with open(folder / f"{'c' * 32}.journal", "wb") as file:
        file.truncate(size)
    for name, length in (("d", 2**40), ("e", 2**64 - 1)):
        (folder / f"{name * 32}.journal").write_bytes(HEAD.pack(MAGIC, 0, length) + bytes(50))
    assert LedgerFile(books).unknown_journals() == []


def test_only_the_start_of_a_journal_is_read(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run looks at all of them."""
    go(books)
    (path,) = Path(f"{books}.journals").iterdir()
    with open(path, "r+b") as file:
        file.truncate(2**40)
    monkeypatch.setattr(LedgerFile, "marks", lambda self: set())
    assert LedgerFile(books).unknown_journals() == [path.name]


STRAY = [
    b"\xff.journal",
    b"x.journal",
    b"\xff" * 32 + b".journal",
    ("\u0663" * 32).encode() + b".journal",
    b"a" * 32 + b".journal\n",
    b".DS_Store",
]


def stray(books: Path) -> Path:
    folder = Path(f"{books}.journals")
    folder.mkdir(exist_ok=True)
    for name in STRAY:
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(b"anything")
    return folder


@on_linux
def test_a_file_of_another_name_is_no_journal(books: Path) -> None:
    stray(books)
    assert LedgerFile(books).unknown_journals() == [] and not show(books)["older_than_its_journals"]
    assert check_books(books)["fits"]
    go(books)
    assert len(list(Path(f"{books}.journals").iterdir())) == len(STRAY) + 1


@on_linux
def test_a_file_of_another_name_does_not_keep_a_new_ledger_away(tmp_path: Path) -> None:
    folder = stray(tmp_path / "new")
    LedgerFile.create(tmp_path / "new").path.unlink()
    (folder / f"{'0f' * 16}.journal").touch()
    with pytest.raises(InputError, match="journals of an earlier ledger"):
        LedgerFile.create(tmp_path / "new")


def test_journals_that_cannot_be_read_are_said(books: Path) -> None:
    Path(f"{books}.journals").write_text("a file where the folder should be")
    with pytest.raises(InputError, match=r"cannot read the journals.*nothing is spent before"):
        go(books)


def test_books_are_read_though_their_journals_cannot_be(command_books: Path, fmwem: Fmwem) -> None:
    """An auditor may have the ledger alone, or no right to the folder."""
    Path(f"{command_books}.journals").write_text("a file where the folder should be")
    done = fmwem("ledger", "show", "books", "--json")
    assert (done.code, done.facts["older_than_its_journals"]) == (0, None) and done.facts["datasets"]
    text = fmwem("ledger", "show", "books")
    assert text.code == 0 and "adult: cap" in text.out and "the journals could not be looked at" in text.out
    done = fmwem("ledger", "verify", "books", "--json")
    assert (done.code, done.err) == (2, "") and done.facts["datasets"]
    assert done.facts["problems"] == [
        f"the journals could not be looked at: {command_books}.journals: Not a directory"
    ]
    assert "nothing is spent" not in fmwem("ledger", "verify", "books").out
    refused = fmwem(*JOB, "--epsilon", 0.4)
    assert refused.code == 2 and "nothing is spent before they can be looked at" in refused.err


def test_a_new_ledger_does_not_take_over_the_journals_of_another(command_books: Path, fmwem: Fmwem) -> None:
    assert fmwem(*JOB, "--epsilon", 0.4, "--run-id", "a").code == 0
    command_books.unlink()
    before = everything(command_books.parent)
    refused = fmwem("ledger", "init", "books")
    assert refused.code == 2 and "books.journals" in refused.err and refused.err.count("\n") == 1
    assert "put that ledger back" in refused.err and everything(command_books.parent) == before
    for path in Path(f"{command_books}.journals").iterdir():
        path.unlink()
    assert fmwem("ledger", "init", "books").code == 0  # an empty folder holds nothing


def test_a_journal_is_glimpsed_by_its_own_key_alone(books: Path) -> None:
    died(books, "before draw", 3)
    (path,) = Path(f"{books}.journals").iterdir()
    assert JournalFile.glimpse(path, b"other") is None
