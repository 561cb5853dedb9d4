"""`fmwem sketch`: a file, its answers for people and programs, the books, one line for mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Fmwem, refused

from factored_mwem.ledger.opening import open_ledger
from factored_mwem.sessions.sketch import Sketch

BUILD = "sketch build visits.csv --key url --size 4096"


@pytest.fixture
def visits(fmwem: Fmwem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = ["url,person", *["/home,a"] * 700, *["/jobs,b"] * 200, '"a,b",c', "\x1b[31m,d"]
    Path("visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_a_sketch_is_built_and_asked(fmwem: Fmwem, visits: Path) -> None:
    built = fmwem(BUILD)
    assert built.code == 0, built.err
    facts = built.facts
    assert facts["output"] == "visits.sketch" and 0.99 < facts["spent_epsilon"] <= facts["epsilon"] == 1.0
    assert facts["unit"] == "one person with at most 1 row added or removed"
    asked = fmwem("sketch answer visits.sketch /home a,b --json").facts
    assert [a["query"] for a in asked["answers"]] == [["/home"], ["a,b"]]
    home = asked["answers"][0]
    assert abs(home["estimate"] - 700) < 10 * home["stderr"] < 200
    both = fmwem("sketch answer visits.sketch /home /jobs --together --json").facts
    assert [a["keys"] for a in both["answers"]] == [2]
    said = fmwem("sketch answer visits.sketch /home", "\x1b[31m")
    assert said.code == 0 and said.out.startswith("/home: ") and "\x1b" not in said.out and "+-" in said.out


def test_queries_come_from_a_file(fmwem: Fmwem, visits: Path) -> None:
    assert fmwem(BUILD, "-o", "v.sketch").code == 0
    Path("q.jsonl").write_text('["/home", "/jobs"]\n\n{"/home": 0.5}\r\n', encoding="utf-8")
    found = fmwem("sketch answer v.sketch --queries q.jsonl --json").facts["answers"]
    assert [a["query"] for a in found] == [["/home", "/jobs"], {"/home": 0.5}]
    loaded = Sketch.load("v.sketch")
    assert found[1]["estimate"] == loaded.answer({"/home": 0.5}).estimate
    assert "0.5 /home: " in fmwem("sketch answer v.sketch --queries q.jsonl").out


def test_a_list_of_keys_bounds_the_universe(fmwem: Fmwem, visits: Path) -> None:
    Path("keys.txt").write_text("/home\n/jobs\n", encoding="utf-8")
    assert fmwem(BUILD, "--keys", "keys.txt").facts["universe"].startswith("2 listed keys")
    refused(fmwem, "sketch answer visits.sketch a,b", "not in the sketch's list")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--noise laplace", "laplace"),
        ("--delta 0", "laplace"),
        ("--independence 9 --size 64", "gaussian"),
        ("--privacy-id person --contributions 9", "gaussian"),
    ],
)
def test_options_reach_the_sketch(fmwem: Fmwem, visits: Path, more: str, said: str) -> None:
    run = fmwem(f"{BUILD} {more}")
    assert run.code == 0, run.err
    made = Sketch.load("visits.sketch")
    assert made.statement.settings["noise"] == said
    assert made.projection.independence == (9 if "--independence" in more else 4)
    assert made.statement.guarantee.contributions == (9 if "--privacy-id" in more else 1)


def test_the_books_pay_once(fmwem: Fmwem, visits: Path) -> None:
    fmwem("ledger init books")
    fmwem("ledger add books --dataset visits --epsilon 1.5")
    books = ("--ledger", "books", "--dataset", "visits", "--run-id", "monday")
    first = fmwem(BUILD, *books)
    content = Path("visits.sketch").read_bytes()
    again = fmwem(BUILD, *books)
    assert again.facts == {**first.facts, "reused": True} and Path("visits.sketch").read_bytes() == content
    assert [e.state for e in open_ledger("books").entries("visits")] == ["finished"]
    more = fmwem(BUILD, *books[:4], "-o", "more.sketch", "--epsilon", 1.4, "--json")
    assert more.code == 3 and not more.facts["budget_spent"] and not Path("more.sketch").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sketch build visits.csv --key nope", "no column 'nope'"),
        ("sketch build visits.csv", "--key"),
        (f"{BUILD} -o visits.csv", "is an input"),
        (f"{BUILD} -o no/folder.sketch", "no folder"),
        (f"{BUILD} --keys none.txt", "list of keys"),
        (f"{BUILD} --noise cauchy", "gaussian"),
        (f"{BUILD} --columns url", "--columns"),
        (f"{BUILD} --run-id x", "--ledger"),
        ("sketch answer visits.csv x", "not a sketch file"),
        ("sketch answer none.sketch x", "no sketch file"),
        ("sketch answer none.sketch", "one of them"),
        ("sketch answer none.sketch x --queries q", "one of them"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(fmwem: Fmwem, visits: Path, line: str, said: str) -> None:
    refused(fmwem, line, said)


@pytest.mark.parametrize("text", ["x", "[1]", '"a"', '{"a": 2}', '{"a": NaN}', "[" * 100_000, "", "null"])
def test_a_bad_file_of_queries_is_one_line(fmwem: Fmwem, visits: Path, text: str) -> None:
    fmwem(BUILD)
    Path("q").write_text(text, encoding="utf-8")
    refused(fmwem, "sketch answer visits.sketch --queries q")


def test_a_sketch_is_not_replaced_without_a_word(fmwem: Fmwem, visits: Path) -> None:
    fmwem(BUILD)
    before = Path("visits.sketch").read_bytes()
    assert "exists" in fmwem(BUILD).err and Path("visits.sketch").read_bytes() == before
    assert fmwem(BUILD, "--overwrite").code == 0 and Path("visits.sketch").read_bytes() != before
    assert json.loads(fmwem(BUILD, "--json").out)["budget_spent"] is False
