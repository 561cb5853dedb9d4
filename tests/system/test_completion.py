"""Completion by Tab: a shell asks, the parser answers, and nothing is written."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.commands import FMWEM

from factored_mwem.guide import TOPICS

PATH = {**os.environ, "PATH": f"{FMWEM.parent}{os.pathsep}{os.environ['PATH']}"}


def completed(*words: str) -> list[str]:
    """What bash offers for the last word."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    script = (
        'source <(fmwem completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_fmwem_completion fmwem; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "-c", script, "bash", *words], capture_output=True, text=True, check=True, env=PATH
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_is_offered_commands_options_choices_and_topics(tmp_path: Path) -> None:
    assert completed("fmwem", "rel") == ["release"]
    assert completed("fmwem", "release", "t.csv", "--marg") == ["--marginals"]
    assert completed("fmwem", "release", "--engine", "") == ["tree", "mwem"]
    assert completed("fmwem", "guide", "") == list(TOPICS)
    assert completed("fmwem", "domain", "le") == ["learn"]
    assert completed("fmwem", "release", "no-such-file") == []  # and bash goes on with files


def test_scripts_are_printed_and_nothing_is_written(tmp_path: Path) -> None:
    env = {**PATH, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    for shell in ("bash", "zsh", "fish", "powershell"):
        done = subprocess.run(
            ["fmwem", "completion", shell], capture_output=True, text=True, check=True, env=env, cwd=tmp_path
        )
        assert "_FMWEM_COMPLETE" in done.stdout and done.stderr == ""
    assert os.listdir(tmp_path) == []
    wrong = subprocess.run(
        ["fmwem", "completion", "csh"], capture_output=True, text=True, env=env, check=False
    )
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell"])
def test_other_shells_get_every_option(shell: str) -> None:
    """Whatever stands in the help of an option, as "[default: 1]" does, the answer is whole."""
    asked = {"_TYPER_COMPLETE_ARGS": "fmwem release --", "_TYPER_COMPLETE_WORD_TO_COMPLETE": "--"}
    asked |= {"_FMWEM_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(["fmwem"], capture_output=True, text=True, check=True, env={**PATH, **asked})
    for option in ("--marginals", "--epsilon", "--ledger", "--json", "--help"):
        assert option in done.stdout
