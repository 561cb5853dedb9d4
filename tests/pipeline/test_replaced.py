"""Replaced: who releases again under the same name is told what both cost together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Fmwem

from factored_mwem.files import crashpoints as faults
from factored_mwem.pipeline.record.manifest import read_record

JOB = ("release", "t.csv", "--marginals", 1, "--rows", 10, "--no-model")
MANIFEST = Path("t.synthetic.manifest.json")


def test_a_first_release_replaces_nothing(here: Path, fmwem: Fmwem) -> None:
    done = fmwem(*JOB)
    assert done.code == 0 and "replaced" not in done.err + done.out
    assert read_record(MANIFEST.read_text()).replaced is None


def test_a_second_release_of_a_name_says_what_both_cost(here: Path, fmwem: Fmwem) -> None:
    fmwem(*JOB, "--epsilon", 0.5)
    done = fmwem(*JOB, "--epsilon", 0.25, "--delta", 1e-7, "--overwrite")
    said = " ".join(done.err.split())
    assert "an earlier record was replaced here: all together cost epsilon 0.75 at delta 1.01e-07" in said
    assert "a ledger keeps count" in said
    replaced = read_record(MANIFEST.read_text()).replaced
    assert replaced is not None and replaced.records == 1
    assert replaced.epsilon == pytest.approx(0.75, rel=1e-9) and replaced.delta == pytest.approx(1.01e-7)
    third = fmwem(*JOB, "--epsilon", 0.25, "--overwrite")
    assert "2 earlier records were replaced here: all together cost epsilon 1 " in " ".join(third.err.split())
    assert third.facts["replaced"]["records"] == 2


@pytest.mark.parametrize("content", ["", "no manifest", "{}", '{"manifest_version": 99}'])
def test_an_earlier_record_that_cannot_be_read_is_said(content: str, here: Path, fmwem: Fmwem) -> None:
    MANIFEST.write_text(content)
    done = fmwem(*JOB, "--overwrite")
    assert "replaced here that cannot be read" in " ".join(done.err.split())
    assert done.facts["replaced"] == {"records": 1, "epsilon": None, "delta": None}


def test_books_are_not_pointed_to_where_they_are_kept(command_books: Path, fmwem: Fmwem) -> None:
    books = ("--ledger", "books", "--dataset", "adult", "--epsilon", 0.25)
    fmwem(*JOB, *books)
    done = fmwem(*JOB, *books, "--overwrite")
    assert "an earlier record was replaced here" in done.err and "a ledger keeps count" not in done.err


def test_a_resumed_run_knows_what_its_first_attempt_removed(command_books: Path, fmwem: Fmwem) -> None:
    """The earlier record goes before the rows appear; the attempt that died there is not the last."""
    fmwem(*JOB, "--epsilon", 0.25)
    books = ("--ledger", "books", "--dataset", "adult", "--run-id", "r", "--epsilon", 0.25, "--overwrite")

    def die(point: str) -> None:
        if point == "before manifest":
            raise KeyboardInterrupt

    faults.hook = die
    try:
        assert fmwem(*JOB, *books).code == 130
    finally:
        faults.hook = lambda _: None
    assert not MANIFEST.exists()
    done = fmwem(*JOB, *books)
    assert done.code == 0 and done.facts["replaced"]["records"] == 1


@pytest.mark.parametrize("kind", ["statistic", "sketch", "graph", "ask"])
def test_every_command_that_spends_says_it(kind: str, here: Path, fmwem: Fmwem) -> None:
    (here / "edges.csv").write_text("u,v\n0,1\n1,2\n")
    (here / "asked.txt").write_text("count where smoker = true\n")
    words = {
        "statistic": ("t.csv", "--column", "age", "--what", "count", "--lower", 0, "--upper", 100),
        "sketch": ("build", "t.csv", "--key", "zip", "--size", 64),
        "graph": ("edges.csv", "--vertices", 4),
        "ask": ("--table", "t.csv", "--queries", "asked.txt", "--alpha", 0.2, "--epsilon", 50),
    }[kind]
    costs = []
    for overwrite in ((), ("--overwrite",)):
        done = fmwem(kind, *words, *overwrite)
        assert done.code == 0, done.err
        (record,) = (json.loads(path.read_text()) for path in here.glob("*.manifest.json"))
        costs.append(record["guarantee"]["spent_epsilon"])
    assert record["replaced"]["records"] == 1
    assert record["replaced"]["epsilon"] == pytest.approx(sum(costs), rel=1e-9)
