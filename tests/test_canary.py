"""Canaries: one value outside the domain and one inside it, each in a single row, come out nowhere, whatever comes in and however a run ends."""

from __future__ import annotations

import json
import logging
import os
import pickle
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from test_cli import Fmwem, fmwem  # noqa: F401 - fixture

from factored_mwem import faults, release
from factored_mwem.counts import PrivateRows, Rows
from factored_mwem.domain import Domain
from factored_mwem.levels import Levels
from factored_mwem.profile import ColumnProfile, profile
from factored_mwem.request import Request
from factored_mwem.table import open_table

# ruff: noqa: F811 - the fixture comes from another module

OUTSIDE, INSIDE = "CANARY-4711", 31415926
FIELDS = [
    {"name": "name", "categories": ["ann", "bob", "=1+1", "+2", "-3", "@sum"], "other": "ann"},
    {"name": "pay", "type": "integer", "constraints": {"minimum": 0, "maximum": 99_999_999, "required": True}, "bins": 8},
]
WORDS = (OUTSIDE.encode(), str(INSIDE).encode(), INSIDE.to_bytes(8, "little"))


def table(rows: int = 400) -> pa.Table:
    names = ["ann", "bob", "=1+1", "+2", "-3", "@sum"]
    people = [names[i % 6] for i in range(rows)] + [OUTSIDE]
    return pa.table({"name": people, "pay": [*(i * 7919 % 90_000_000 for i in range(rows)), INSIDE]})


WRITERS: dict[str, Callable[[pa.Table, str], Any]] = {
    "t.csv": pacsv.write_csv,
    "t.csv.gz": lambda table, path: pacsv.write_csv(table, pa.CompressedOutputStream(path, "gzip")),
    "t.tsv": lambda table, path: pacsv.write_csv(table, path, pacsv.WriteOptions(delimiter="\t")),
    "t.parquet": pq.write_table,
    "t.feather": feather.write_feather,
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").write_text(json.dumps({"fields": FIELDS}))
    yield tmp_path
    faults.hook = lambda _: None


def seen(folder: Path, *texts: str, but: str) -> list[str]:
    """Where a canary is: in the texts, or in any file below the folder but the input."""
    found = [f"text {i}" for i, text in enumerate(texts) if any(word in text.encode() for word in WORDS[:2])]
    return found + [p.name for p in folder.rglob("*") if p.is_file() and p.name != but and any(word in p.read_bytes() for word in WORDS)]


@pytest.mark.parametrize("name", list(WRITERS))
@pytest.mark.parametrize("flag", ["-v", "-q", "--json"])
def test_no_canary_in_any_file_line_or_log(here: Path, fmwem: Fmwem, caplog: pytest.LogCaptureFixture, name: str, flag: str) -> None:
    WRITERS[name](table(), name)
    assert fmwem("ledger", "init", "books").code == 0
    assert fmwem("ledger", "add", "books", "--dataset", "t", "--epsilon", 9).code == 0
    books = ["--ledger", "books", "--dataset", "t", "--run-id", "r"]
    outputs = ["-o", "out.csv", "--model", "out.fmwem"]
    with caplog.at_level(logging.DEBUG):
        done = fmwem("release", name, "--domain", "d.json", "--marginals", 2, "--epsilon", 2, flag, *outputs, *books)
    assert done.code == 0, done.err
    shown = fmwem("ledger", "export", "books").out
    assert seen(here, done.out, done.err, caplog.text, shown, but=name) == []
    assert {"books", "out.csv", "out.manifest.json", "out.fmwem"} <= set(os.listdir(here)) and list(here.glob("books.journals/*"))


def test_the_search_would_see_one(here: Path) -> None:
    (here / "left.tmp").write_bytes(b"..." + WORDS[2])
    assert seen(here, f"unknown value {OUTSIDE}", "fine", but="t.csv") == ["text 0", "left.tmp"]


class Unexpected(Exception):
    """With a text that quotes the data, as errors of libraries do."""


@pytest.mark.parametrize("point", ["after fit", "sampling", "before rename", "before manifest"])
@pytest.mark.parametrize(
    "error", [Unexpected(OUTSIDE), MemoryError(OUTSIDE), ValueError(INSIDE), KeyboardInterrupt(OUTSIDE)], ids=lambda e: type(e).__name__
)
def test_no_canary_in_a_failure(here: Path, fmwem: Fmwem, point: str, error: BaseException) -> None:
    WRITERS["t.csv"](table(), "t.csv")

    def fail(reached: str) -> None:
        if reached == point:
            raise error

    faults.hook = fail
    for flag in ("--json", "-v"):
        done = fmwem("release", "t.csv", "--domain", "d.json", "--marginals", 2, flag)
        assert done.code not in (0, None)
        assert seen(here, done.out, done.err, but="t.csv") == []


BROKEN: dict[str, bytes] = {
    "ragged.csv": f"name,pay\nann,1,{OUTSIDE}\n".encode(),
    "ragged2.csv": f"name,pay\nann,1\n{OUTSIDE}\n".encode(),
    "latin.csv": f"name,pay\n{OUTSIDE}\xe9,1\n".encode("latin-1"),
    "quote.csv": f'name,pay\n"{OUTSIDE},1\n'.encode() + b"x" * (9 << 20),
    "cut.parquet": b"PAR1" + OUTSIDE.encode() + b"PAR1",
    "cut.feather": b"ARROW1" + OUTSIDE.encode(),
    "cut.csv.gz": b"\x1f\x8b" + OUTSIDE.encode(),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_no_canary_in_what_is_said_of_a_broken_table(here: Path, fmwem: Fmwem, name: str) -> None:
    """Nor in the exception, as its traceback would be logged."""
    (here / name).write_bytes(BROKEN[name])
    done = fmwem("release", name, "--domain", "d.json", "--marginals", 2, "--json")
    assert done.code == 2 and not done.facts["budget_spent"]
    with pytest.raises(Exception) as raised:
        release(name, 2, domain="d.json")
    assert seen(here, done.out, done.err, "".join(traceback.format_exception(raised.value)), but=name) == []


def test_what_holds_private_numbers_shows_and_pickles_nothing(here: Path) -> None:
    private = open_table(table())
    domain = Domain.from_dict({"fields": FIELDS})
    codes = [pa.array([0, 1]).to_numpy().astype("u1"), pa.array([0, 1]).to_numpy().astype("u1")]
    profiles = profile(private, ["name"])
    holders: list[Any] = [private, Rows(codes, Levels.fine(domain.shape)), PrivateRows(codes, domain), Request.of(table(), 1), *profiles.values()]
    assert isinstance(holders[-1], ColumnProfile)
    for holder in holders:
        assert not any(word.decode() in repr(holder) for word in WORDS[:2]) and "array(" not in repr(holder)
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
            pickle.dumps(holder)


def test_text_that_a_spreadsheet_would_run_comes_back_as_it_was(here: Path, fmwem: Fmwem) -> None:
    """In Parquet by default, and in CSV, which is written on request only: a program that reads values back must find them."""
    pq.write_table(table(), "t.parquet")
    assert fmwem("release", "t.parquet", "--domain", "d.json", "--marginals", 1, "--epsilon", 9, "-q").code == 0
    assert not list(here.glob("*.csv"))
    assert fmwem("release", "t.parquet", "--domain", "d.json", "--marginals", 1, "--epsilon", 9, "-q", "-o", "out.csv").code == 0
    plain = pacsv.ConvertOptions(column_types={"name": pa.string()})
    for found in (pq.read_table("t.synthetic.parquet"), pacsv.read_csv("out.csv", convert_options=plain)):
        assert {"=1+1", "+2", "-3", "@sum"} <= set(found["name"].to_pylist()) <= {"ann", "bob", "=1+1", "+2", "-3", "@sum", None, ""}
