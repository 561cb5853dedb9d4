"""Who looks at a terminal sees words; who reads a pipe gets the line for scripts, the same as ever."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from support.commands import FMWEM

RELEASE = ("release", "t.csv", "--marginals", "1", "--no-progress", "--overwrite", "--sample-seed", "1")


def on_a_terminal(*arguments: str, **environment: str) -> tuple[str, str]:
    """What a command writes to a terminal as stdout, and to a pipe as stderr."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen([FMWEM, *arguments], stdout=theirs, stderr=subprocess.PIPE, env=env)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    assert process.stderr is not None
    said = process.stderr.read().decode()
    process.stderr.close()
    os.close(ours)
    assert process.wait() == 0, said
    return shown.decode(), said


def piped(*arguments: str) -> dict[str, object]:
    done = subprocess.run([FMWEM, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    facts: dict[str, object] = json.loads(done.stdout)
    return facts


def test_a_person_sees_the_summary_alone(here: Path) -> None:
    shown, said = on_a_terminal(*RELEASE)
    assert shown == "" and said.startswith("released ") and "{" not in said
    asked, silent = on_a_terminal(*RELEASE, "--json")
    line = piped(*RELEASE)
    assert silent == "" and list(json.loads(asked)) == list(line)
    assert on_a_terminal(*RELEASE, "-q") == ("", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ledger", "init", "{}.ledger"), "fmwem ledger add"),
        (("ledger", "add", "b.ledger", "--dataset", "{}", "--epsilon", "1"), "its cap is set"),
        (("sample", "t.synthetic.fmwem", "-n", "7", "-o", "{}.csv"), "7 rows in "),
        (
            ("domain", "learn", "t.csv", "--epsilon", "20", "-o", "{}.domain.json"),
            "learnt for epsilon",
        ),
    ],
    ids=["init", "add", "sample", "learn"],
)
def test_small_commands_do_the_same(here: Path, arguments: tuple[str, ...], words: str) -> None:
    piped("ledger", "init", "b.ledger")
    piped(*RELEASE, "--epsilon", "20")
    line = piped(*(word.format("piped") for word in arguments))
    shown, said = on_a_terminal(*(word.format("seen") for word in arguments))
    assert shown == "" and words in said
    asked, silent = on_a_terminal(*(word.format("asked") for word in arguments), "--json")
    assert silent == "" and list(json.loads(asked)) == list(line)
