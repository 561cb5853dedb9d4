"""The benchmark of graphs, in small, as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.benches import bench

pytestmark = pytest.mark.system


def test_the_benchmark_compares_mechanisms_in_one_run(tmp_path: Path) -> None:
    small = ("--only", "karate", "--queries", 5, "--epsilons", 4)
    done = bench("graphs", *small, "-o", tmp_path / "lines.jsonl")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    named = [line["mechanism"] for line in lines]
    assert named == ["noise", "weights", "drawn", "even", "laplace", "fk", "mw"]
    assert all(line["edges"] == 78 and line["vertices"] == 34 for line in lines)
    by = {line["mechanism"]: line for line in lines}
    assert by["noise"]["worst"] >= by["noise"]["random"] > 0
    header, *rows = done.stdout.splitlines()
    assert len(rows) == 7 and "ratio" in header and rows[0].split()[-4] == "1.00"
