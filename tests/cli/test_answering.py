"""`fmwem answer`: a table for people, one JSON line for programs, one line for mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import refused


@pytest.fixture
def model(here: Path, fmwem) -> str:
    run = fmwem("release t.csv --marginals 2 --columns zip,age,smoker --model t.fmwem")
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
    refused(fmwem, f"answer {model} '{query}'")
    run = fmwem("answer", model, query, "--json")
    assert run.code == 2 and "error" in run.facts


def test_of_several_questions_the_mistaken_one_is_named(fmwem, model) -> None:
    run = fmwem("answer", model, "count by zip", "count where age > ZIP")
    said = (
        "fmwem: 'count where age > ZIP': 'ZIP' is a column: a condition compares a column with a value alone"
    )
    assert (run.code, run.out, run.err.splitlines()[-1]) == (2, "", said)


def test_no_model_is_a_mistake(fmwem, tmp_path, model) -> None:
    refused(fmwem, f"answer {tmp_path / 'none.parquet'} count", "no model file")
    Path("alone.parquet").write_bytes(Path("t.synthetic.parquet").read_bytes())
    refused(fmwem, "answer alone.parquet count", "alone.fmwem, which came with them, is not beside it")


def test_replicates_are_made_once_and_kept_beside_the_model(here: Path, fmwem) -> None:
    rows = "".join(f"{i % 5},{(i % 5 + i % 2) % 4},{i % 3}\n" for i in range(500))
    Path("table.csv").write_text("a,b,c\n" + rows)
    Path("domain.json").write_text(json.dumps({"a": 5, "b": 4, "c": 3}))
    made = fmwem("release table.csv --domain domain.json --marginals 2 --model x.fmwem --rounds 3")
    assert made.code == 0, made.err
    asked = "answer x.fmwem 'count where a >= 2 and b = 1 and c = 0' --json --replicates"
    first = fmwem(f"{asked} 5")
    group = first.facts["answers"][0]["groups"][0]
    assert group["stderr"] > 0 and group["low"] <= group["high"]
    kept = Path("x.fmwem.replicates").read_bytes()
    assert fmwem(f"{asked} 5").out == first.out
    assert Path("x.fmwem.replicates").read_bytes() == kept
    few = fmwem(f"{asked} 1")
    assert few.code == 2 and "--replicates" in few.err
