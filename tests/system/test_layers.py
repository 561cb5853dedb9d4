"""Imports go down the rooms: the contract in pyproject.toml holds, and a violation of it is seen."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from support.processes import ended

ROOT = Path(__file__).parents[2]


def lint(folder: Path) -> Any:
    program = Path(sys.executable).with_name("lint-imports")
    return ended(program, "--no-cache", cwd=folder, env={"PYTHONPATH": str(folder)})


def test_imports_go_down() -> None:
    found = lint(ROOT)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    ("module", "planted", "seen"),
    [
        ("domain.domain", "from factored_mwem.pipeline.release import release", "pipeline.release"),
        ("domain.domain", "def f():\n    from factored_mwem import cli", "cli"),
        ("privacy.noise", "from factored_mwem.model.forest import Forest", "model.forest"),
        ("privacy.counts", "from factored_mwem.privacy.other.edges import Edges", "privacy.other.edges"),
        ("model.forest", "from factored_mwem.ledger.file import LedgerFile", "ledger.file"),
    ],
)
def test_an_import_that_goes_up_is_seen(module: str, planted: str, seen: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "factored_mwem", tmp_path / "factored_mwem")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "factored_mwem" / f"{module.replace('.', '/')}.py").open("a") as file:
        file.write(f"\n{planted}\n")
    found = lint(tmp_path)
    assert found.returncode == 1
    assert f"factored_mwem.{module} -> factored_mwem.{seen} (l." in " ".join(found.stdout.split())
