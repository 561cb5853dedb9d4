"""What public facts refuse is refused before the ledger hears of it; what votes tell costs the votes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Fmwem

BOOKS = ("--ledger", "books", "--dataset", "adult")
REFUSED = {
    "a record as header": (b"44,pilot\n31,nurse\n", "--header none"),
    "an empty name": (b"age,,job\n1,2,3\n", "has no name"),
    "a name twice": (b"a,a\n1,2\n", "same name"),
    "only delimiters": (b",,,\n1,2,3,4\n", "has no name"),
    "an open quote": (b'"a,b\n1,2\n', "is a quote missing"),
    "a header of 10 MB": (b"a" * 10_000_000 + b",b\n1,2\n", "longer than 4 MB"),
    "a NUL": (b"a\0b,c\n1,2\n", "NUL"),
    "two delimiters": (b"a;b,c\n1;2,3\n", "say with --delimiter"),
    "another encoding": ("Größe,b\n1,2\n".encode("latin-1"), "say --encoding"),
    "no line": (b"", "is empty"),
}


def state(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def ledger_of(books: Path) -> bytes | dict[str, bytes]:
    return state(books) if books.is_dir() else books.read_bytes()


@pytest.mark.parametrize("command", ["release", "learn"])
@pytest.mark.parametrize("what", REFUSED)
def test_a_file_that_cannot_be_read_spends_nothing(
    what: str, command: str, command_books: Path, fmwem: Fmwem
) -> None:
    content, why = REFUSED[what]
    (command_books.parent / "raw.csv").write_bytes(content)
    before = ledger_of(command_books)
    words = (
        ("release", "raw.csv", "--marginals", 1) if command == "release" else ("domain", "learn", "raw.csv")
    )
    done = fmwem(*words, *BOOKS)
    assert done.code == 2 and why in done.err and done.err.count("\n") == 1, done.err
    assert "pilot" not in done.out + done.err
    assert ledger_of(command_books) == before
    assert [path.name for path in command_books.parent.glob("raw*")] == ["raw.csv"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("release typo.csv --marginals 2", "no file typo.csv"),
        ("release people.csv --marginals 2 --columns agee", "agee"),
        ("release people.csv --marginals 2 --domain none.json", "none.json"),
        ("release people.csv --marginals 2 --header none", "--names"),
        ("release people.csv --marginals 2 --names a,b", "--header none"),
        ("release people.csv --marginals 2 --encoding utf-7", "is no encoding"),
        ("release people.csv --marginals 2 --date-format %x", "is not read"),
        ("release people.xlsx --marginals 2", "save the sheet as CSV"),
        ("release people.csv --marginals 2 --delta 0", "--delta is 0"),
    ],
)
def test_what_is_said_wrongly_spends_nothing(words: str, why: str, command_books: Path, fmwem: Fmwem) -> None:
    """And the input is looked at before the outputs, which are there."""
    folder = command_books.parent
    (folder / "people.csv").write_text("age,work\n" + "44,pilot\n" * 1000)
    (folder / "people.xlsx").write_bytes(b"PK")
    (folder / "typo.synthetic.parquet").touch()
    before = ledger_of(command_books)
    done = fmwem(*words.split(), *BOOKS)
    assert done.code == 2 and why in done.err and "exists" not in done.err, done.err
    assert ledger_of(command_books) == before


def test_a_table_that_is_too_small_costs_its_votes(command_books: Path, fmwem: Fmwem) -> None:
    """A thirtieth of the budget: an epsilon of .18 at 1; the rest is still there for a declared domain."""
    folder = command_books.parent
    names = [f"c{i}" for i in range(12)]
    (folder / "small.csv").write_text("\n".join([",".join(names), *[",".join(["a", "b"] * 6)] * 60]) + "\n")
    small = ("release", "small.csv", "--marginals", 1, "--epsilon", 0.9, "--delta", "5e-10", *BOOKS)
    done = fmwem(*small)
    assert done.code == 3 and "to learn 12 columns takes some" in done.err, done.err
    assert not list(folder.glob("small.synthetic*"))
    spent = float(done.err.split("spent so far: epsilon ")[1].split()[0])
    assert 0 < spent < 0.18
    (folder / "small.domain.json").write_text(
        json.dumps({"fields": [{"name": name, "categories": ["a", "b"]} for name in names]})
    )
    assert (
        fmwem("release", "small.csv", "--marginals", 1, "--epsilon", 0.7, "--delta", "4e-10", *BOOKS).code
        == 0
    )
