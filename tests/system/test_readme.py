"""The README's commands and snippets run as they stand: a document whose examples fail is the first thing a
user meets.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(\w+)( tests)?\n(.*?)```", re.DOTALL)


def blocks(language: str) -> list[str]:
    """The code blocks of a language; the test command itself is left out, since it is what runs this."""
    return [
        body
        for found, tests, body in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
        if found == language and not tests
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the commands expect around them; nothing is written into the checkout."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("datasets", "scripts"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


def run(command: list[str] | str, folder: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FMWEM_")}
    clean["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env=clean,
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_command_runs(folder: Path) -> None:
    commands = [
        line
        for block in blocks("sh")
        for line in block.splitlines()
        if line and not line.startswith("python -m pip")
    ]
    assert len(commands) >= 6, "the README lost its commands"
    for command in commands:
        done = run(command, folder)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    made_by_commands = (
        "adult.synthetic.parquet",
        "adult.synthetic.manifest.json",
        "half.fmwem",
        "more.parquet",
        "draft.domain.json",
    )
    for made in (*made_by_commands, "monday.parquet", "books.json"):
        assert (folder / made).stat().st_size > 0, made


def test_every_python_snippet_runs(folder: Path) -> None:
    snippets = blocks("python")
    assert snippets
    for snippet in snippets:
        done = run([sys.executable, "-c", snippet], folder)
        assert done.returncode == 0, done.stderr


def test_a_broken_snippet_would_be_seen(folder: Path) -> None:
    assert (
        run(
            [sys.executable, "-c", blocks("python")[0].replace("Workload.marginals", "Workload.marginal")],
            folder,
        ).returncode
        != 0
    )


def test_options_named_in_the_readme_exist(folder: Path) -> None:
    """Every flag of the option table is one that `fmwem release --help` lists, and the other way round."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| option of `release`") : text.index("Exit codes")]
    named = set(re.findall(r"--[a-z][a-z-]+", table))
    listed = set(re.findall(r"--[a-z][a-z-]+", run(["fmwem", "release", "--help"], folder).stdout)) - {
        "--help",
        "--output",
        "--verbose",
        "--quiet",
    }
    assert named == listed
