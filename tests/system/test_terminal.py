"""Who looks at a terminal sees words and progress; who reads a pipe gets the line for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.commands import program
from support.processes import on_a_terminal, printed

pytestmark = pytest.mark.usefixtures("forked_commands")
RELEASE = "release t.csv --marginals 1 --no-progress --overwrite --sample-seed 1"
NAMES = ["speed [/h]", "[red]", "[/]", ":smile:", "a\x1b[31mb", "{0}", "%s", "\\[x]"]


def facts_of(text: str) -> list[str]:
    """The names in the one line for scripts."""
    assert text.count("\n") == 1
    return list(json.loads(text))


def test_a_person_sees_the_summary_alone(here: Path) -> None:
    shown, said = on_a_terminal("stdout", *program(RELEASE))
    assert shown == "" and said.startswith("released ") and "{" not in said
    asked, silent = on_a_terminal("stdout", *program(RELEASE, "--json"))
    assert silent == "" and facts_of(asked) == facts_of(printed(*program(RELEASE)))
    assert on_a_terminal("stdout", *program(RELEASE, "-q")) == ("", "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ledger init {}.ledger", "fmwem ledger add"),
        ("ledger add b.ledger --dataset {} --epsilon 1", "its cap is set"),
        ("sample t.synthetic.fmwem -n 7 -o {}.csv", "7 rows in "),
        ("domain learn t.csv --epsilon 20 -o {}.domain.json", "learnt for epsilon"),
    ],
)
def test_small_commands_do_the_same(here: Path, line: str, words: str) -> None:
    printed(*program("ledger init b.ledger"))
    printed(*program(RELEASE, "--epsilon", 20))
    piped = printed(*program(line.format("piped")))
    shown, said = on_a_terminal("stdout", *program(line.format("seen")))
    assert shown == "" and words in said
    asked, silent = on_a_terminal("stdout", *program(line.format("asked"), "--json"))
    assert silent == "" and facts_of(asked) == facts_of(piped)


def test_progress_shows_on_a_terminal_only(here: Path) -> None:
    command = program("release t.csv --marginals 2 --overwrite")
    bar, _ = on_a_terminal("stderr", *command)
    assert "measured" in bar and "\x1b[" in bar
    assert any(colour in bar for colour in ("\x1b[3", "\x1b[1;3", "\x1b[38"))
    plain, _ = on_a_terminal("stderr", *command, NO_COLOR="1")
    assert "differential privacy" in plain and "\x1b[38" not in plain and "\x1b[32m" not in plain
    by_flag, _ = on_a_terminal("stderr", *command, "--no-progress")
    by_variable, _ = on_a_terminal("stderr", *command, FMWEM_NO_PROGRESS="1")
    for quiet in (by_flag, by_variable):
        assert "measured " not in quiet.replace("noisy measurements", "") and "differential privacy" in quiet
    piped = json.loads(printed("sh", "-c", '"$@" 2> said', "sh", *command))
    assert piped["output"] == "t.synthetic.parquet" and "\x1b" not in Path("said").read_text()


@pytest.mark.parametrize("flags", [["-v"], []], ids=["verbose", "bar"])
def test_names_are_text_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    """`speed [/h]` was taken for markup: the run failed after it had spent, or written its files."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({name: np.arange(60) % 3 for name in NAMES}).to_csv("t.csv", index=False)
    limits = {"minimum": 0, "maximum": 2, "required": True}
    fields = [{"name": name, "type": "integer", "constraints": limits} for name in NAMES]
    Path("t.domain.json").write_text(json.dumps({"fields": fields}))
    command = program("release t.csv --header first --marginals 2 --engine mwem --rounds 3", *flags)
    text, _ = on_a_terminal("stderr", *command)
    assert Path("t.synthetic.parquet").exists() and "Traceback" not in text and "\x1b[31m" not in text
    assert not flags or "round 1: measured" in text
