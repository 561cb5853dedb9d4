"""Who imports what: the contracts in pyproject.toml hold, and a violation of them is seen."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from support.processes import ended

ROOT = Path(__file__).parents[1]


def lint(folder: Path) -> Any:
    program = Path(sys.executable).with_name("lint-imports")
    return ended(program, "--no-cache", cwd=folder, env={"PYTHONPATH": str(folder)})


def test_imports_are_as_the_contracts_say() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


PLANTED = [
    ("domain.domain", "from factored_mwem.pipeline.release import release", "factored_mwem.pipeline.release"),
    ("domain.domain", "def f():\n    from factored_mwem import cli", "factored_mwem.cli"),
    ("privacy.noise", "from factored_mwem.model.forest import Forest", "factored_mwem.model.forest"),
    ("privacy.counts", "from factored_mwem.privacy.other import edges", "factored_mwem.privacy.other.edges"),
    (
        "privacy.session",
        "from factored_mwem.privacy.other.cuts import Cut",
        "factored_mwem.privacy.other.cuts",
    ),
    ("model.forest", "from factored_mwem.ledger.file import LedgerFile", "factored_mwem.ledger.file"),
    (
        "cli.releasing",
        "from factored_mwem.owner.evaluation import evaluate",
        "factored_mwem.owner.evaluation",
    ),
    ("cli.answering", "def f():\n    from factored_mwem.owner import draft", "factored_mwem.owner.draft"),
    ("documents.report", "from factored_mwem.owner.page import private_report", "factored_mwem.owner.page"),
    ("pipeline.release", "from factored_mwem.owner.draft import draft", "factored_mwem.owner.draft"),
    ("mechanisms.mwem", "from numba import njit", "numba"),
    ("pipeline.release", "import opendp.prelude as dp", "opendp"),
    ("privacy.noise", "import random", "random"),
    ("privacy.session", "from secrets import randbits", "secrets"),
    ("pipeline.saving.model_file", "import pickle", "pickle"),
    ("privacy.session", "import logging", "logging"),
]
"""Module, what is added to it, what it then imports and must not."""


def test_an_import_that_is_forbidden_is_seen(tmp_path: Path) -> None:
    """Each of them; one that is for type checking alone is not one."""
    shutil.copytree(ROOT / "factored_mwem", tmp_path / "factored_mwem")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    exempt = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pickle"
    for module, planted, _ in [*PLANTED, ("privacy.rows", exempt, "")]:
        with (tmp_path / "factored_mwem" / f"{module.replace('.', '/')}.py").open("a") as file:
            file.write(f"\n{planted}\n")
    done = lint(tmp_path)
    shown = " ".join(done.stdout.split())
    assert done.returncode == 1 and "privacy.rows -> pickle" not in shown
    assert [line for line in PLANTED if f"factored_mwem.{line[0]} -> {line[2]}" not in shown] == []
