"""`fmwem ask`: JSON lines for programs, words for people, one line for mistakes, and books that are told."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from support.commands import DOMAIN, Fmwem, Run, write_table

from factored_mwem import Release
from factored_mwem.cli import asking as asking_cli
from factored_mwem.errors import Stopped
from factored_mwem.pipeline.statement import Statement

QUESTIONS = ["count where smoker = true", "# a comment", "", "count by zip", "count where smoker = true"]
ASK = ["ask", "--model", "t.fmwem", "--table", "t.csv", "--alpha", 0.2, "--epsilon", 1, "--delta", 0]

COLD = [word for word in ASK if word not in ("--model", "t.fmwem")]


@pytest.fixture
def there(fmwem: Fmwem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_table(Path("t.csv"))
    Path("t.domain.json").write_text(json.dumps(DOMAIN), encoding="utf-8")
    run = fmwem("release", "t.csv", "--marginals", 1, "--columns", "zip,age,smoker", "--model", "t.fmwem")
    assert run.code == 0, run.err
    Path("q.txt").write_text("\n".join(QUESTIONS), encoding="utf-8")
    return tmp_path


def answers(run: Run) -> list[dict[str, object]]:
    return [json.loads(line) for line in run.out.splitlines()]


def test_a_file_of_queries_gives_a_line_each(fmwem: Fmwem, there: Path) -> None:
    run = fmwem(*ASK, "--queries", "q.txt", "--save", "better.fmwem", "--statement", "said.json")
    assert run.code == 0, run.err
    found = answers(run)
    assert [each["query"] for each in found] == [q for q in QUESTIONS if q.startswith("count")]
    assert [each["source"] for each in found] == ["measured", "measured", "cached"]
    assert set(found[0]) == {"query", "columns", "groups", "bound", "source", "spent", "left", "notes"}
    assert "differ in one row added or removed" in run.err
    assert "3 answers (2 measured, 1 cached)" in run.err
    assert Release.load(there / "better.fmwem").manifest.notes
    stated = Statement.model_validate_json(Path("said.json").read_bytes())
    assert (stated.kind, stated.promise.unit) == ("ask", "one row added or removed")
    assert stated.recompute() == stated.promise.spent_epsilon == found[-1]["spent"]
    assert len(stated.assumptions) > 5
    assert fmwem("answer", "better.fmwem", "count by zip").code == 0


def test_standard_input_is_the_default_off_a_terminal(
    fmwem: Fmwem, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("count by smoker\nmean age\nquit\ncount\n"))
    run = fmwem(*ASK, "-q")
    first, second = answers(run)
    assert (run.code, run.err) == (2, "")
    assert first["source"] == "measured"
    assert set(second) == {"query", "error"}


def test_a_session_without_a_model_begins_with_the_domain(fmwem: Fmwem, there: Path) -> None:
    run = fmwem(*COLD, "--columns", "zip,smoker", "--queries", "q.txt", "--json")
    assert run.code == 0 and run.err == ""
    assert len(answers(run)) == 3
    assert fmwem(*COLD, "--queries", "q.txt", "--save", "x.fmwem").code == 2
    assert not Path("x.fmwem").exists()


@pytest.mark.parametrize(
    "more",
    [
        ["--alpha", 2], ["--beta", 0.9], ["--columns", "zip"], ["--domain", "t.domain.json"],
        ["--save", "t.fmwem", "--overwrite"], ["--save", "q.txt"], ["--epsilon", -1],
        ["--queries", "none.txt"], ["--neighbours", "both"], ["--run-id", "r"], ["--table", "none.csv"],
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_nothing_is_spent(
    fmwem: Fmwem, there: Path, books: Path, more: list[object]
) -> None:
    run = fmwem(*ASK, "--queries", "q.txt", *more)
    assert (run.code, run.out) == (2, "")
    assert len(run.err.strip().splitlines()) == 1
    assert "budget was spent" not in run.err


def test_a_wrong_line_in_a_file_is_found_before_anything_is_spent(
    fmwem: Fmwem, there: Path, books: Path
) -> None:
    Path("bad.txt").write_text("count by zip\ncount where nothing = 3\n", encoding="utf-8")
    for words in (ASK, COLD):
        run = fmwem(*words, "--queries", "bad.txt", "--ledger", books, "--dataset", "adult")
        assert (run.code, run.out) == (2, "") and "bad.txt, line 2" in run.err
    assert fmwem("ledger", "show", books, "--json").facts["datasets"][0]["releases"] == []


def test_the_books_hear_of_it(fmwem: Fmwem, there: Path, books: Path) -> None:
    run = fmwem(*ASK, "--queries", "q.txt", "--ledger", books, "--dataset", "adult", "--run-id", "monday")
    assert run.code == 0, run.err
    again = fmwem(*ASK, "--queries", "q.txt", "--ledger", books, "--dataset", "adult", "--run-id", "monday")
    assert again.code == 0, again.err
    first, second = answers(run), answers(again)
    assert [each["groups"] for each in first] == [each["groups"] for each in second]
    assert {each["source"] for each in second} == {"cached"}
    (entry,) = fmwem("ledger", "show", books, "--json").facts["datasets"][0]["releases"]
    assert entry["state"] == "finished"


def test_the_end_of_the_budget_is_one_line_and_exit_code_3(fmwem: Fmwem, there: Path) -> None:
    lines = [f"count where age >= {a * 10} and smoker = true" for a in range(1, 9)]
    Path("long.txt").write_text("\n".join(lines), encoding="utf-8")
    small = [*ASK[:-3], 0.3, *ASK[-2:]]
    run = fmwem(*small, "--queries", "long.txt", "--save", "kept.fmwem")
    assert run.code == 3
    assert 0 < len(answers(run)) < len(lines)
    last = run.err.strip().splitlines()[-1]
    assert "what is left" in last and "the session is closed; its answers stand" in last
    assert Release.load(there / "kept.fmwem").sample(3).num_rows == 3


def test_words_for_people(
    fmwem: Fmwem, there: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["count by zip", "mean age", "count where age > 200", "exit"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("factored_mwem.cli.console.for_scripts", lambda as_json: False)
    run = fmwem(*ASK)
    assert run.code == 0
    assert "records, each within" in run.out and "(missing)" in run.out
    assert "for certain (public" in run.out
    assert "ask answers counts" in run.err


@pytest.mark.parametrize("how", ["interrupted", "end"])
def test_ctrl_c_at_the_prompt_closes_the_session(
    fmwem: Fmwem, there: Path, books: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    asked = iter(["count by zip"])

    def typed(prompt: str) -> str:
        for line in asked:
            return line
        raise Stopped(130) if how == "interrupted" else EOFError

    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    run = fmwem(*ASK, "--ledger", books, "--dataset", "adult", "--run-id", "r")
    assert run.code == (130 if how == "interrupted" else 0)
    (entry,) = fmwem("ledger", "show", books, "--json").facts["datasets"][0]["releases"]
    assert entry["state"] == "finished"
    assert float(entry["spent"]["epsilon"] if isinstance(entry.get("spent"), dict) else 1.0) < 5.0
    assert asking_cli.PROMPT
