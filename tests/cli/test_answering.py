"""`fmwem answer`: a table for people, one JSON line for programs, one line for mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import DOMAIN, write_table


@pytest.fixture
def model(fmwem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write_table(Path("t.csv"))
    Path("t.domain.json").write_text(json.dumps(DOMAIN), encoding="utf-8")
    run = fmwem("release", "t.csv", "--marginals", 2, "--columns", "zip,age,smoker", "--model", "t.fmwem")
    assert run.code == 0, run.err
    return "t.fmwem"


def test_answers_are_tables_on_stdout(fmwem, model) -> None:
    run = fmwem("answer", model, "count by smoker", "median age")
    assert run.code == 0 and run.out.count("answer: ") == 2
    assert "95% intervals" in run.out and "(missing)" in run.out and "measured" in run.out
    more = fmwem("answer", model, "count by smoker", "--population")
    assert "sampling error" in more.out


def test_json_is_one_line_without_nan(fmwem, model) -> None:
    (facts,) = fmwem("answer", model, "share where smoker = true by zip", "--json").facts["answers"]
    assert facts["query"] == "share where smoker = true by zip" and facts["columns"] == ["zip"]
    assert [group["labels"] for group in facts["groups"]][-1] == [None]
    assert {"estimate", "stderr", "low", "high"} < set(facts["groups"][0])


@pytest.mark.parametrize(
    "query", ["counts", "count where nothing = 1", "count where zip = 1", "count by zip, zip", ""]
)
def test_a_mistake_is_one_line_and_exit_code_2(fmwem, model, query) -> None:
    run = fmwem("answer", model, query)
    assert (run.code, run.out) == (2, "") and len(run.err.strip().splitlines()) == 1
    run = fmwem("answer", model, query, "--json")
    assert run.code == 2 and "error" in run.facts


def test_no_model_is_a_mistake(fmwem, tmp_path) -> None:
    assert fmwem("answer", tmp_path / "none.fmwem", "count").code == 2
