"""`bench coverage`: the whole command on a tiny table, and its sums by hand."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from bench.coverage import Outcome, rows_as_people, summed_up
from support.benches import bench, codes, write


def test_the_whole_command(tmp_path: Path) -> None:
    """Measured answers of a dozen releases: intervals that hold nothing, or no interval at all, are seen."""
    table = write(tmp_path / "tiny.csv", codes())
    kept = tmp_path / "kept"
    command = ("coverage", "--data", table, "--releases", 12, "--replicates", 4, "--models", kept)
    done = bench(*command)
    assert done.returncode == 0, done.stderr
    found = {(row["kind"], row["basis"]): row for row in csv.DictReader(io.StringIO(done.stdout))}
    measured = found["measured", "measured"]
    assert int(measured["asked"]) >= 12 * 4 and float(measured["within"]) > 0.7
    assert 0.5 < float(measured["spread"]) < 2 and float(measured["width"]) > float(measured["direct"])
    assert len(list((kept / "tiny_1").iterdir())) >= 12  # kept, so that the next look is the same
    assert bench(*command).stdout == done.stdout


def test_what_is_summed_up() -> None:
    outcomes = [
        Outcome("k", "measured", 1.0, 2.0, True, 7.84, True),
        Outcome("k", "measured", -4.0, 2.0, False, 7.84, False),
    ]
    found = summed_up(outcomes, 3.0)
    assert found["within"] == found["rows"] == 0.5 and found["asked"] == 2 and found["direct"] == 3.0
    assert found["bias"] == pytest.approx(-0.75) and found["spread"] == pytest.approx(np.std([0.5, -2.0]))
    assert rows_as_people(50, 100, 59, 100) and not rows_as_people(50, 100, 61, 100)
