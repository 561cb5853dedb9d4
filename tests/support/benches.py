"""A tiny table of codes, and the benchmarks as commands."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from pathlib import Path

import numpy as np
from support.forked import scripted

ROOT = Path(__file__).parents[2]
SIZES = {"flag": 2, "a": 3, "b": 4, "alone": 2}
ROWS = 1500


def codes(rows: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    """A flag that one row in six has: nine in ten of those whose a is 2 or b is 3, and nobody else."""
    rng = np.random.default_rng(seed)
    a, b = rng.choice(3, rows, p=[0.5, 0.4, 0.1]), rng.choice(4, rows, p=[0.4, 0.4, 0.1, 0.1])
    alone = rng.integers(0, 2, rows)
    flag = ((a == 2) | (b == 3)) & (rng.random(rows) < 0.9)
    return {"flag": flag.astype(np.int64), "a": a, "b": b, "alone": alone}


def write(path: Path, columns: dict[str, np.ndarray]) -> Path:
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    path.with_suffix(".domain.json").write_text(json.dumps(SIZES))
    return path


def bench(what: str, *options: object) -> subprocess.CompletedProcess[str]:
    """As a child that has everything loaded: see `forked_commands`."""
    command = scripted(ROOT / "scripts" / "bench", what, *options)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FMWEM_")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def runs(out: Path, what: str, *options: object) -> list[dict[str, str]]:
    """The rows of the CSV that a benchmark leaves."""
    done = bench(what, *options, "-o", out)
    assert done.returncode == 0, done.stderr
    with open(out, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
