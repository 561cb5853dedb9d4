"""`fmwem report` and `release --report`: whole or not at all, the same bytes for the same run, one line for a
mistake.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.commands import CANARY, Fmwem

from factored_mwem.pipeline import publication


def test_a_release_with_its_report(here: Path, fmwem: Fmwem) -> None:
    done = fmwem("release", "t.csv", "--marginals", 2, "--model", "t.fmwem", "--report")
    assert done.code == 0 and done.facts["report"] == "t.synthetic.report.html"
    page = (here / "t.synthetic.report.html").read_bytes()
    os.unlink(here / "t.csv")
    again = fmwem("report", "t.synthetic.manifest.json", "-o", "again.html")
    assert again.facts == {"report": "again.html", "public": True} and again.err == ""
    assert (here / "again.html").read_bytes() == page
    assert CANARY not in page.decode()


def test_a_page_says_what_it_takes_to_make_it_again(here: Path, fmwem: Fmwem) -> None:
    """A release that keeps no model has error bars on its page, and `fmwem report` cannot make them again."""
    assert fmwem("release", "t.csv", "--marginals", 1, "--no-model", "--report").code == 0
    words = "the rows and the model among them"
    assert words in (here / "t.synthetic.report.html").read_text()
    assert fmwem("report", "t.synthetic.manifest.json", "-o", "again.html").code == 0
    assert words not in (here / "again.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t.parquet", "rows/"])
def test_a_run_again_keeps_its_page(kind: str, here: Path, fmwem: Fmwem, command_books: Path) -> None:
    booked = ("--ledger", command_books, "--dataset", "adult", "--run-id", "monday")
    asked: tuple[Any, ...] = ("release", "t.csv", "--marginals", 1, "-o", kind, *booked)
    first = fmwem(*asked, "--report")
    assert first.code == 0, first.err
    page = Path(first.facts["report"])
    content = page.read_bytes()
    second = fmwem(*asked, "--report")
    assert second.facts["reused"] and page.read_bytes() == content
    page.unlink()
    third = fmwem(*asked, "--report")
    assert third.code == 0 and not third.facts["reused"] and page.read_bytes() == content
    page.write_text("another page")
    fourth = fmwem(*asked, "--report")
    assert fourth.code == 2 and "is not what this run would write" in fourth.err
    assert page.read_text() == "another page"
    page.unlink()
    without = fmwem(*asked)
    assert without.facts["spent_epsilon"] == first.facts["spent_epsilon"]


def test_nothing_is_left_where_the_manifest_fails(
    here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        assert (here / "t.synthetic.report.html").exists()  # the manifest is the last
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publication, "write_text", fail)
    failed = fmwem("release", "t.csv", "--marginals", 1, "--report", "--model", "t.fmwem")
    assert failed.code != 0
    assert sorted(os.listdir(here)) == ["t.csv", "t.domain.json"]


def test_what_is_there_stays(here: Path, fmwem: Fmwem) -> None:
    (here / "t.synthetic.report.html").write_text("mine")
    refused = fmwem("release", "t.csv", "--marginals", 1, "--report")
    assert refused.code == 2 and "t.synthetic.report.html exists" in refused.err
    assert refused.out == ""
    assert (here / "t.synthetic.report.html").read_text() == "mine"
    done = fmwem("release", "t.csv", "--marginals", 1, "--report", "--overwrite")
    assert done.code == 0 and b"<!DOCTYPE html>" in (here / "t.synthetic.report.html").read_bytes()


# what `report` itself refuses is in test_public_page.py
MISTAKES: list[tuple[str, list[Any]]] = [
    ("no manifest", ["nothing.manifest.json"]),
    ("no manifest", ["."]),
    ("no folder", ["t.synthetic.manifest.json", "-o", "nowhere/x.html"]),
    ("go with --against", ["t.synthetic.manifest.json", "--delimiter", ";"]),
    ("must say NOT-PRIVATE", ["t.synthetic.manifest.json", "--against", "t.csv", "-o", "x.html"]),
    ("is for the public page", ["t.synthetic.manifest.json", "--against", "t.csv", "--model", "m"]),
    ("is an input", ["t.synthetic.manifest.json", "--against", "NOT-PRIVATE.csv", "-o", "NOT-PRIVATE.csv"]),
    ("no column of the release", ["t.synthetic.manifest.json", "--against", "other.csv"]),
]


def test_every_mistake_is_one_line(here: Path, fmwem: Fmwem) -> None:
    assert fmwem("release", "t.csv", "--marginals", 1).code == 0
    (here / "other.csv").write_text("strange\n1\n")
    (here / "NOT-PRIVATE.csv").write_bytes((here / "t.csv").read_bytes())
    for words, given in MISTAKES:
        failed = fmwem("report", *given)
        assert failed.code == 2 and words in failed.err, (given, failed.err)
        assert len(failed.err.strip().splitlines()) == 1 and "Traceback" not in failed.err
    assert not list(here.glob("*.html"))


def test_a_variable_that_a_release_needs_is_no_mistake_for_its_page(
    here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FMWEM_COLUMNS", "age")
    assert fmwem("release", "t.csv", "--marginals", 1).code == 0
    assert fmwem("report", "t.synthetic.manifest.json").code == 0


@pytest.mark.parametrize("file", ["t.synthetic.parquet", "t.synthetic.fmwem"])
def test_no_page_takes_the_place_of_its_release(file: str, here: Path, fmwem: Fmwem) -> None:
    assert fmwem("release", "t.csv", "--marginals", 1).code == 0
    before = (here / file).read_bytes()
    failed = fmwem("report", "t.synthetic.manifest.json", "-o", file, "--overwrite")
    assert failed.code == 2 and "is a file of the release" in failed.err
    assert (here / file).read_bytes() == before


@pytest.mark.slow
def test_the_page_against_the_table(here: Path, fmwem: Fmwem) -> None:
    assert fmwem("release", "t.csv", "--marginals", 1, "--report").code == 0
    done = fmwem("report", "t.synthetic.manifest.json", "--against", "t.csv")
    assert done.facts == {"report": "t.synthetic.NOT-PRIVATE.html", "public": False}
    public, private = ((here / f"t.synthetic.{kind}.html").read_text() for kind in ("report", "NOT-PRIVATE"))
    assert "NOT PRIVATE" in private and "NOT PRIVATE" not in public
