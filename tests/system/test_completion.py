"""Completion by Tab: a shell asks, the parser answers, and nothing is written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.processes import ended

from factored_mwem.documents.guide import TOPICS

pytestmark = pytest.mark.usefixtures("forked_commands")
BASH = (
    'source <(fmwem completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
    '_fmwem_completion fmwem; printf "%s\\n" "${COMPREPLY[@]}"'
)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["rel"], ["release"]),
        (["release", "t.csv", "--marg"], ["--marginals"]),
        (["release", "--engine", ""], ["tree", "mwem"]),
        (["guide", ""], list(TOPICS)),
        (["domain", "le"], ["learn"]),
        (["release", "no-such-file"], []),  # and bash goes on with files
    ],
)
def test_bash_is_offered_commands_options_choices_and_topics(words: list[str], offered: list[str]) -> None:
    done = ended("bash", "-c", BASH, "bash", "fmwem", *words)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", offered)


def test_scripts_are_printed_and_nothing_is_written(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    for shell in ("bash", "zsh", "fish", "powershell"):
        done = ended("fmwem", "completion", shell, env=env, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "") and "_FMWEM_COMPLETE" in done.stdout
    assert os.listdir(tmp_path) == []
    wrong = ended("fmwem", "completion", "csh", env=env)
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell"])
def test_other_shells_get_every_option(shell: str) -> None:
    """Whatever stands in the help of an option, as "[default: 1]" does, the answer is whole."""
    asked = {"_TYPER_COMPLETE_ARGS": "fmwem release --", "_TYPER_COMPLETE_WORD_TO_COMPLETE": "--"}
    asked |= {"_FMWEM_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = ended("fmwem", env=asked)
    assert done.returncode == 0
    for option in ("--marginals", "--epsilon", "--ledger", "--json", "--help"):
        assert option in done.stdout
