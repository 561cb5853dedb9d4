"""A folder of parts whose run is killed: no half part, no manifest, and made whole for nothing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.processes import PYTHON, ended

from factored_mwem import Cap, LedgerFile, Neighbours

RUN = """
import os, signal, sys
from factored_mwem.files import crashpoints
from factored_mwem.cli.main import main
from factored_mwem.pipeline import sampling
from factored_mwem.pipeline import writing

sampling.MAX_BATCH_ROWS, writing.PART_ROWS = 50, 100
point, number, signum, workers = sys.argv[1], *map(int, sys.argv[2:5])
seen = []

def strike(reached):
    seen.append(reached)
    if reached == point and seen.count(point) == number:
        os.kill(os.getpid(), signum)

crashpoints.hook = strike
books = ["--ledger", "books", "--dataset", "t", "--run-id", "r", "--json", "--workers", str(workers)]
sys.argv = ["fmwem", "release", "t.csv", "--marginals", "1", "--rows", "1000", "-o", "out/", *books]
main()
"""
NAMES = [f"part-{number:05}.parquet" for number in range(10)]


def run(folder: Path, *strike: Any, workers: int, forked: Path | None = None) -> Any:
    python = (PYTHON[0], "-P", "-c") if forked is None else (forked / "python-c",)
    return ended(*python, RUN, *(strike or ("never", 0, 0)), workers, cwd=folder, timeout=120)


@pytest.mark.parametrize(
    ("strike", "left", "workers"),
    [
        (("sampling", 7, signal.SIGKILL), range(1, 10), 1),
        (("sampling", 7, signal.SIGKILL), range(10), 3),
        (("before rename", 4, signal.SIGKILL), range(10), 3),
        (("before manifest", 1, signal.SIGKILL), range(10, 11), 3),
        (("before finish", 1, signal.SIGKILL), range(10, 11), 1),
        (("sampling", 7, signal.SIGTERM), range(1), 3),
    ],
    ids=["drawing", "drawing by three", "renaming", "manifest", "finish", "terminated"],
)
def test_a_killed_run_is_made_whole_for_nothing(
    tmp_path: Path, strike: tuple[Any, ...], left: range, workers: int, forked: Path
) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "x,1\ny,2\n" * 200)
    fields = [{"name": "a", "categories": ["x", "y"]}, {"name": "b", "categories": ["1", "2"]}]
    (tmp_path / "t.domain.json").write_text(json.dumps({"fields": fields}))
    LedgerFile.create(tmp_path / "books").add("t", Cap.of(1.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    died = run(tmp_path, *strike, workers=workers)
    assert died.returncode == (-9 if strike[2] == signal.SIGKILL else 143), died.stderr
    found = sorted((tmp_path / "out").glob("part-*")) if (tmp_path / "out").exists() else []
    assert len(found) in left
    assert all(pq.read_table(part).num_rows == 100 for part in found)  # none of them is half
    assert (tmp_path / "out.manifest.json").exists() == (strike[0] == "before finish")
    before = {part.name: part.read_bytes() for part in found}
    again = run(tmp_path, workers=2, forked=forked)
    assert again.returncode == 0, again.stderr
    facts = json.loads(again.stdout)
    assert facts["resumed"] > 0 and not facts["reused"]
    assert sorted(os.listdir(tmp_path / "out")) == NAMES  # nor is a temporary file left
    after = {name: (tmp_path / "out" / name).read_bytes() for name in NAMES}
    assert before.items() <= after.items()
    (entry,) = LedgerFile(tmp_path / "books").entries("t")
    assert entry.state == "finished" and entry.files[-1]["data"]
    assert json.loads(run(tmp_path, workers=1, forked=forked).stdout)["reused"]
