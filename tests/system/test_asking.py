"""`fmwem ask` as a process: killed while somebody asks, and taken up again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.commands import DOMAIN, FMWEM, write_table

pytestmark = pytest.mark.system


def fmwem(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FMWEM, *map(str, words)], capture_output=True, text=True, check=False)


def test_a_session_that_is_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 between two questions: the first answers come again for nothing; the books hold one entry."""
    monkeypatch.chdir(tmp_path)
    write_table(Path("t.csv"))
    Path("t.domain.json").write_text(json.dumps(DOMAIN), encoding="utf-8")
    assert fmwem("ledger", "init", "books").returncode == 0
    terms = ["--dataset", "t", "--epsilon", 2, "--delta", 1e-9]
    assert fmwem("ledger", "add", "books", *terms).returncode == 0
    asking = [
        *("ask", "--table", "t.csv", "--columns", "zip,smoker", "--alpha", 0.2, "--epsilon", 1, "--delta", 0),
        *("--ledger", "books", "--dataset", "t", "--run-id", "r", "-q"),
    ]
    process = subprocess.Popen(
        [FMWEM, *map(str, asking)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    first = []
    for question in ("count by zip", "count where smoker = true"):
        process.stdin.write(question + "\n")
        process.stdin.flush()
        first.append(json.loads(process.stdout.readline()))
    process.kill()
    process.communicate()
    (entry,) = json.loads(fmwem("ledger", "show", "books", "--json").stdout)["datasets"][0]["releases"]
    assert entry["state"] == "reserved"
    later = ["count where smoker = true", "count by zip", "count by smoker, zip"]
    Path("q.txt").write_text("\n".join(later), encoding="utf-8")
    again = fmwem(*asking, "--queries", "q.txt")
    assert again.returncode == 0, again.stderr
    told = [json.loads(line) for line in again.stdout.splitlines()]
    assert told[0]["groups"] == first[1]["groups"] and told[1]["groups"] == first[0]["groups"]
    assert [each["source"] for each in told[:2]] == ["cached", "cached"]
    assert told[0]["spent"] == first[1]["spent"]
    (entry,) = json.loads(fmwem("ledger", "show", "books", "--json").stdout)["datasets"][0]["releases"]
    assert entry["state"] == "finished"
