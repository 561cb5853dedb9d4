"""`fmwem ask`: JSON lines for programs, words for people, one line for mistakes, and books that are told."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import Fmwem, Run, refused, states

from factored_mwem import Release
from factored_mwem.errors import Stopped
from factored_mwem.pipeline.record.manifest import read_record
from factored_mwem.pipeline.record.statement import Statement

QUESTIONS = ["count where smoker = true", "# a comment", "", "count by zip", "count where smoker = true"]
COLD = "ask --table t.csv --alpha 0.2 --epsilon 1 --delta 0"
ASK = f"{COLD} --model t.fmwem"
BOOKS = "--ledger books --dataset adult"


@pytest.fixture
def there(here: Path, fmwem: Fmwem) -> Path:
    run = fmwem("release t.csv --marginals 1 --columns zip,age,smoker --model t.fmwem")
    assert run.code == 0, run.err
    Path("q.txt").write_text("\n".join(QUESTIONS), encoding="utf-8")
    return here


def answers(run: Run) -> list[dict[str, object]]:
    return [json.loads(line) for line in run.out.splitlines()]


def test_a_file_of_queries_gives_a_line_each(fmwem: Fmwem, there: Path) -> None:
    run = fmwem(f"{ASK} --queries q.txt --save better.fmwem --statement said.json")
    assert run.code == 0, run.err
    found = answers(run)
    assert [each["query"] for each in found] == [q for q in QUESTIONS if q.startswith("count")]
    assert [each["source"] for each in found] == ["measured", "measured", "cached"]
    assert set(found[0]) == {"query", "columns", "groups", "bound", "source", "spent", "left", "notes"}
    assert "differ in one person with at most 1 row added or removed" in run.err
    assert "3 answers (2 measured, 1 cached)" in run.err
    assert Release.load(there / "better.fmwem").manifest.notes
    stated = Statement.model_validate_json(Path("said.json").read_bytes())
    assert (stated.kind, stated.guarantee.unit) == ("ask", "one person with at most 1 row added or removed")
    assert stated.recompute() == stated.guarantee.spent_epsilon == found[-1]["spent"]
    assert len(stated.guarantee.assumptions) > 5
    assert fmwem("answer better.fmwem 'count by zip'").code == 0


def test_standard_input_is_the_default_off_a_terminal(
    fmwem: Fmwem, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("count by smoker\nmean age\nquit\ncount\n"))
    run = fmwem(f"{ASK} -q")
    first, second = answers(run)
    assert (run.code, run.err) == (2, "")
    assert first["source"] == "measured"
    assert set(second) == {"query", "error"}


def test_a_session_without_a_model_begins_with_the_domain(fmwem: Fmwem, there: Path) -> None:
    plenty = COLD.replace("--epsilon 1", "--epsilon 50")  # the number of rows is of 400, and must not drown
    run = fmwem(f"{plenty} --columns zip,smoker --queries q.txt --json")
    assert run.code == 0 and run.err == ""
    assert len(answers(run)) == 3
    assert fmwem(f"{COLD} --queries q.txt --save x.fmwem").code == 2
    assert not Path("x.fmwem").exists()


@pytest.mark.parametrize(
    "more",
    [
        *("--alpha 2", "--beta 0.9", "--columns zip", "--domain t.domain.json", "--save t.fmwem --overwrite"),
        *("--save q.txt", "--epsilon -1", "--queries none.txt", "--neighbours both", "--run-id r"),
        "--table none.csv",
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_spent(
    fmwem: Fmwem, there: Path, books: Path, more: str
) -> None:
    assert "budget was spent" not in refused(fmwem, f"{ASK} --queries q.txt {more}").err


def test_a_wrong_line_in_a_file_is_found_before_anything_is_spent(
    fmwem: Fmwem, there: Path, books: Path
) -> None:
    Path("bad.txt").write_text("count by zip\ncount where nothing = 3\n", encoding="utf-8")
    for words in (ASK, COLD):
        refused(fmwem, f"{words} --queries bad.txt {BOOKS}", "bad.txt, line 2")
    assert states(fmwem) == []


def test_the_books_hear_of_it(fmwem: Fmwem, there: Path, books: Path) -> None:
    line = f"{ASK} --queries q.txt {BOOKS} --run-id monday"
    run, again = fmwem(line), fmwem(line)
    assert (run.code, again.code) == (0, 0), run.err + again.err
    first, second = answers(run), answers(again)
    assert [each["groups"] for each in first] == [each["groups"] for each in second]
    assert {each["source"] for each in second} == {"cached"}
    assert states(fmwem) == ["finished"]


def test_the_end_of_the_budget_is_one_line_and_exit_code_3(fmwem: Fmwem, there: Path) -> None:
    lines = [f"count where age >= {a * 10} and smoker = true" for a in range(1, 9)]
    Path("long.txt").write_text("\n".join(lines), encoding="utf-8")
    run = fmwem(f"{ASK} --epsilon 0.3 --queries long.txt --save kept.fmwem")
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
    run = fmwem(ASK)
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
    run = fmwem(f"{ASK} {BOOKS} --run-id r")
    assert run.code == (130 if how == "interrupted" else 0)
    assert states(fmwem) == ["finished"]


def test_ctrl_c_while_a_piped_question_is_awaited_leaves_the_record(
    fmwem: Fmwem, there: Path, books: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that were printed stand, so what was promised of them is said."""

    class Piped(io.StringIO):
        def __iter__(self) -> Iterator[str]:
            yield "count by zip\n"
            raise Stopped(130)

    monkeypatch.setattr("sys.stdin", Piped())
    run = fmwem(f"{ASK} {BOOKS} --statement said.json")
    assert run.code == 130 and len(answers(run)) == 1
    assert read_record(Path("said.json").read_bytes()).kind == "ask"
    assert states(fmwem) == ["finished"]


def test_queries_that_are_no_text_or_come_with_the_table_are_refused(
    fmwem: Fmwem, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("bytes.txt").write_bytes(b"count\n\xff\xfe\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(Path("t.csv").read_text(encoding="utf-8")))
    piped = ASK.replace("t.csv", "-")
    for line, said in (
        (f"{ASK} --queries bytes.txt", "not UTF-8 text"),
        (piped, "--queries"),
        (f"{piped} --queries -", "--queries"),
    ):
        assert "budget was spent" not in refused(fmwem, line, said).err


def test_what_was_refused_before_any_noise_is_not_said_to_be_spent(fmwem: Fmwem, there: Path) -> None:
    run = fmwem(f"{ASK} --epsilon 1e-6 --queries q.txt")
    assert run.code == 3 and "what is left" in run.err
    assert "budget was spent" not in run.err
