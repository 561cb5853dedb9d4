"""The guide's page of graphs after `pip install .`: neither SciPy nor networkx can be imported."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

pytestmark = pytest.mark.system
PLAIN = "import sys; sys.modules['scipy'] = sys.modules['networkx'] = None\n"
COMMAND = PLAIN + "from factored_mwem.cli.main import main\nsys.exit(main())"
PAGE = (files("factored_mwem") / "guide" / "graph.md").read_text(encoding="utf-8")
ROOT = Path(__file__).parents[3]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Runs a text of Python, or a command of `fmwem`, without the libraries of the extra."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    (tmp_path / "cuts.jsonl").write_text('{"from": [0, 1, 2, 3]}\n{"from": [32, 33], "to": [8, 14, 15]}\n')

    def of(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", text, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return of


def test_the_commands_of_the_page_work(run) -> None:  # type: ignore[no-untyped-def]
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("fmwem graph ")]
    assert len(lines) >= 2
    for line in lines:
        done = run(COMMAND, *shlex.split(line)[1:])
        assert done.returncode == 0, done.stderr


def test_the_python_of_the_page_works(run) -> None:  # type: ignore[no-untyped-def]
    done = run(PLAIN + "\n".join(blocks("python")))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("options", [("34", "--method", "lp"), ("1501",)])
def test_what_needs_the_extra_says_so(run, options: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    """Before anything is spent, with the command that installs it."""
    done = run(COMMAND, "graph", "datasets/karate.csv", "--vertices", *options)
    assert done.returncode == 2 and "pip install 'factored-mwem[graphs]'" in done.stderr
