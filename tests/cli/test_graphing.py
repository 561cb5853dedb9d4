"""`fmwem graph` in this process: files, the line for scripts, refusals, books."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.commands import Fmwem, refused
from support.graphs import KARATE

CLUB = "graph club.csv --vertices 34 --epsilon 2"


@pytest.fixture
def edges(here: Path) -> Path:
    (here / "club.csv").write_bytes(KARATE.read_bytes())
    return here


def test_a_graph_is_written_with_its_statement(fmwem: Fmwem, edges: Path) -> None:
    (edges / "q.jsonl").write_text('{"from": [0, 1]}\n{"from": [0], "to": [33, 32]}\n')
    done = fmwem(CLUB, "--queries", "q.jsonl", "--weights", "w.parquet")
    facts = done.facts
    assert done.code == 0 and facts["output"] == "club.synthetic.csv" and facts["method"] == "spectral"
    assert facts["unit"] == "one edge added or removed" and facts["spent_epsilon"] == 2.0
    with open("club.synthetic.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["from", "to"] and len(rows) == facts["rows"] + 1
    assert all(0 <= int(a) < int(b) < 34 for a, b in rows[1:])
    stated = json.loads(Path("club.synthetic.manifest.json").read_text())
    assert stated["output"]["file"] == "club.synthetic.csv" and stated["kind"] == "graph"
    assert pq.read_table("w.parquet").num_rows == 561
    with open("club.synthetic.answers.csv", newline="") as file:
        answers = list(csv.DictReader(file))
    assert [int(each["pairs"]) for each in answers] == [64, 2]
    assert "released" in done.err and "the vertex set is public" in done.err


def test_edges_without_a_header_are_read_by_the_names_given(fmwem: Fmwem, edges: Path) -> None:
    """Before, --header and --names were passed over, and the refusal asked for them."""
    lines = (edges / "club.csv").read_text().split("\n", 1)[1]
    (edges / "bare.csv").write_text(lines)
    assert fmwem(CLUB.replace("club", "bare")).code == 2
    done = fmwem(CLUB.replace("club", "bare"), "--header", "none", "--names", "a,b")
    assert done.code == 0, done.err
    stated = json.loads(Path("bare.synthetic.manifest.json").read_text())
    assert stated["settings"]["columns"] == ["a", "b"]
    (edges / "years.csv").write_text(f"2023,2024\n{lines}")
    assert fmwem(CLUB.replace("club", "years"), "--header", "first").code == 0


def test_the_same_file_is_not_written_over(fmwem: Fmwem, edges: Path) -> None:
    assert fmwem(CLUB, "--json").code == 0
    before = Path("club.synthetic.csv").read_bytes()
    again = fmwem(CLUB)
    assert again.code == 2 and "--overwrite" in again.err
    assert Path("club.synthetic.csv").read_bytes() == before
    assert fmwem(CLUB, "--overwrite", "--sample-seed", 1).code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--vertices 1", "from 2 to"),
        ("--vertices nobody.txt", "cannot read"),
        ("--vertices 34 --method guess", "must be one of"),
        ("--vertices 100 --method lp", "64 vertices"),
        ("--vertices 34 --epsilon -1", "epsilon"),
        ("--vertices 34 --columns from", "two columns"),
        ("--vertices 34 --columns from,who", "no column"),
        ("--vertices 34 -o club.csv", "input"),
        ("--vertices 34 -o out.xml", "format"),
        ("--vertices 34 --queries none.jsonl", "cannot read"),
        ("--vertices 34 --queries empty.jsonl", "holds no cut"),
        ("--vertices 34 --run-id a", "--ledger"),
        ("--vertices 20000", "pairs"),
    ],
)
def test_a_refusal_is_one_line_and_leaves_nothing(
    fmwem: Fmwem, edges: Path, options: str, words: str
) -> None:
    Path("empty.jsonl").touch()
    refused(fmwem, f"graph club.csv {options}", words, 4 if "20000" in options else 2)


def test_books_are_kept_and_a_run_pays_once(fmwem: Fmwem, edges: Path) -> None:
    fmwem("ledger init books")
    fmwem("ledger add books --dataset club --epsilon 3 --delta 0")
    asked = (CLUB, "--ledger", "books", "--dataset", "club", "--run-id", "may")
    first = fmwem(*asked).facts
    second = fmwem(*asked).facts
    assert (first["reused"], second["reused"]) == (False, True)
    third = fmwem(CLUB, "-o", "b.csv", "--ledger", "books", "--dataset", "club")
    assert third.code == 3 and not Path("b.csv").exists()
    Path("club.synthetic.csv").unlink()
    (edges / "club.synthetic.manifest.json").unlink()
    resumed = fmwem(*asked).facts
    assert resumed["resumed"] == 1 and resumed["rows"] == first["rows"]


def test_hostile_lines_are_passed_over_in_silence(fmwem: Fmwem, edges: Path) -> None:
    clean = fmwem(CLUB, "--json", "-o", "clean.csv")
    with open("club.csv", "ab") as file:
        file.write(b'"0,1\n\x00\xff,3\n7,7\n1,2,3\n99999999999999999999,CANARY-4711\n')
    dirty = fmwem(CLUB, "--json", "-o", "dirty.csv")
    assert (clean.code, dirty.code) == (0, 0) and dirty.err == clean.err == ""
    assert "CANARY" not in dirty.out + Path("dirty.manifest.json").read_text()
