"""Ten kills and two other endings of the real command, and planted bugs that the matrix must see:
scripts/crash in its quick size.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.forked import scripted
from support.postgres import Server

pytestmark = pytest.mark.usefixtures("forked_commands")
SCRIPT = Path(__file__).parents[2] / "scripts" / "crash"


def matrix(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        scripted(SCRIPT, "--quick", "-o", folder, *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert (folder / "crash.json").exists(), done.stderr[-2000:]
    return done.returncode, json.loads((folder / "crash.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("database", [False, True])
def test_no_crash_loses_or_doubles_anything(
    tmp_path: Path, database: bool, request: pytest.FixtureRequest
) -> None:
    where = ["--ledger", request.getfixturevalue("server").fresh()] if database else []
    code, found = matrix(tmp_path, *where)
    assert {name: r["violations"] for name, r in found["results"].items() if r["violations"]} == {}
    assert code == 0 and found["struck"] == found["trials"] >= 12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "trial", "seen"),
    [
        ("no-journal", "after journal", "drawn twice|made twice"),
        ("refund", "term", "does not know"),
        ("late-books", "half journalled", "does not know"),
        ("in-place", "sampling", "half a data file"),
    ],
)
def test_the_matrix_sees_a_planted_bug(tmp_path: Path, plant: str, trial: str, seen: str) -> None:
    code, found = matrix(tmp_path, "--plant", plant, "--only", trial)
    (result,) = found["results"].values()
    assert code == 1 and any(
        word in violation for violation in result["violations"] for word in seen.split("|")
    )


@pytest.mark.slow
def test_the_matrix_sees_a_draw_that_is_used_before_its_commit(tmp_path: Path, server: Server) -> None:
    where = ["--ledger", server.fresh(), "--plant", "uncommitted", "--only", "kill, after journal"]
    code, found = matrix(tmp_path, *where)
    (result,) = found["results"].values()
    assert code == 1 and any("draws were made twice" in violation for violation in result["violations"])
