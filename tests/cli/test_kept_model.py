"""The model of a release is kept unless somebody says no: who needs it later, and has none, pays again."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from support.commands import JOB, Fmwem, killed_at, states

from factored_mwem import Release
from factored_mwem.cli.settings import layered
from factored_mwem.errors import InputError
from factored_mwem.files.files import sha256

ONE = ("release", "t.csv", "--marginals", 1, "-q")


def test_it_lies_beside_the_manifest_and_rows_come_from_it(here: Path, fmwem: Fmwem) -> None:
    for output, model in (("a.csv", "a.fmwem"), ("rows/", "rows.fmwem"), ("b.c.parquet", "b.c.fmwem")):
        assert fmwem(*ONE, "-o", output).facts["model"] == model
        assert Release.load(model).manifest.recompute() > 0
    assert not [name for name in os.listdir("rows") if "fmwem" in name]
    assert fmwem("sample a.fmwem -n 5 -o five.csv").facts["rows"] == 5


def test_it_is_left_out_where_somebody_says_so(here: Path, fmwem: Fmwem) -> None:
    done = fmwem(*ONE[:-1], "--no-model")
    assert done.facts["model"] is None and not list(here.glob("*.fmwem"))
    assert "no model was kept" in done.err and "fmwem sample" not in done.err
    assert fmwem(*ONE, "--overwrite", FMWEM_NO_MODEL="1").facts["model"] is None
    (here / "c.toml").write_text("no_model = true\n")
    assert fmwem(*ONE, "--overwrite", "--config", "c.toml").facts["model"] is None
    named = fmwem(*ONE, "--overwrite", "--config", "c.toml", "--model", "m.fmwem")
    assert named.facts["model"] == "m.fmwem"  # a flag goes above the file
    both = fmwem(*ONE, "--no-model", "--model", "m.fmwem")
    assert both.code == 2 and "--model and --no-model say different things" in both.err
    assert layered({"no_model": True}, {"model": "x"}).model is None
    assert not layered({"model": "x"}, {"no_model": True}).no_model
    with pytest.raises(InputError, match="different things"):
        layered({}, {"model": "x", "no_model": True})


@pytest.mark.parametrize("kind", ["fmwem", "parquet", "manifest.json"])
def test_what_is_there_is_not_replaced_and_nothing_is_spent(books: Path, fmwem: Fmwem, kind: str) -> None:
    taken = books.parent / f"t.synthetic.{kind}"
    taken.write_bytes(b"mine")
    told = fmwem(*JOB, "--json")
    assert (told.code, told.facts["budget_spent"]) == (2, False)
    assert f"t.synthetic.{kind} exists; use --overwrite" in told.facts["error"]
    assert taken.read_bytes() == b"mine" and states(fmwem) == []
    assert [path.name for path in books.parent.glob("t.synthetic.*")] == [taken.name]


@pytest.mark.parametrize("point", ["after fit", "before rename", "after rename", "before manifest"])
def test_a_run_that_dies_leaves_no_model_of_another_release(books: Path, fmwem: Fmwem, point: str) -> None:
    """Also where it died twice. What goes on writes the model that fits its rows, and is reused."""
    for more in (("-o", "1.parquet"), ()):
        killed_at(point)
        assert fmwem(*JOB, "--run-id", "a", *more).code == 137
    assert not list(books.parent.glob("?.parquet"))
    done = fmwem(*JOB, "--run-id", "a")
    assert done.code == 0, done.err
    kept = {path.name: sha256(path) for path in books.parent.glob("t.synthetic.*")}
    assert set(kept) == {"t.synthetic.parquet", "t.synthetic.manifest.json", "t.synthetic.fmwem"}
    again = fmwem(*JOB, "--run-id", "a")
    assert again.facts["reused"] and {p.name: sha256(p) for p in books.parent.glob("t.synthetic.*")} == kept
    assert len(states(fmwem)) == 1


def test_a_run_that_kept_none_is_still_finished(books: Path, fmwem: Fmwem) -> None:
    """As of a version that did not keep it: the same command again is that release. A lost one comes back."""
    assert fmwem(*JOB, "--run-id", "a", "--no-model").facts["reused"] is False
    again = fmwem(*JOB, "--run-id", "a")
    assert again.facts["reused"] is True and again.facts["model"] is None
    wanted = fmwem(*JOB, "--run-id", "a", "--model", "t.synthetic.fmwem")
    assert wanted.code == 0 and wanted.facts["reused"] is False
    (books.parent / "t.synthetic.fmwem").unlink()
    assert fmwem(*JOB, "--run-id", "a", "-o", "b.csv").facts["model"] == "b.fmwem"
    (books.parent / "b.fmwem").unlink()
    made = fmwem(*JOB, "--run-id", "a", "-o", "b.csv")
    assert (made.facts["reused"], made.facts["model"]) == (False, "b.fmwem")
    assert len(states(fmwem)) == 1


def test_rows_that_meet_a_condition_or_complete_a_file(here: Path, fmwem: Fmwem) -> None:
    assert fmwem(*ONE, "-o", "a.csv").code == 0
    where = fmwem("sample", "a.fmwem", "-n", 50, "--where", "smoker = true", "-o", "f.csv", "--json")
    assert where.facts["rows"] == 50 and 0 < where.facts["probability"] < 1
    with open(here / "f.csv", newline="", encoding="utf-8") as file:
        assert {row["smoker"].lower() for row in csv.DictReader(file)} == {"true"}
    (here / "known.csv").write_text("age,smoker\n3,true\n,\n5,false\n")
    given = fmwem("sample a.fmwem --given known.csv -o g.csv")
    assert given.facts["rows"] == 3 and given.facts["contradicted"] == 0
    with open(here / "g.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["age"] for row in rows][::2] == ["3", "5"] and 0 <= int(rows[1]["age"]) <= 99
    assert [row["smoker"].lower() for row in rows][::2] == ["true", "false"]
    assert fmwem("sample a.fmwem -n 50 --balance smoker -o b.csv").facts["rows"] == 50


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-o x.csv", "say how many rows with -n"),
        ("-n 3 --given known.csv -o x.csv", "--given completes the rows of a file"),
        ("-n 3 --balance smoker -o x/", "--balance writes one file"),
        ("-n 3 --unit people -o x/", "--unit people writes one file"),
        ("--given no.csv -o x.csv", "no file no.csv"),
        ("-n 3 --balance smokes -o x.csv", "no column 'smokes'"),
    ],
)
def test_what_does_not_go_together_is_refused(here: Path, fmwem: Fmwem, words: str, message: str) -> None:
    assert fmwem(*ONE, "-o", "a.csv").code == 0
    (here / "known.csv").write_text("age\n3\n")
    refused = fmwem(f"sample a.fmwem {words}")
    assert refused.code == 2 and message in refused.err and not [*here.glob("x*")]
