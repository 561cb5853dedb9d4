"""`bench statistic`: the whole command on the bundled table."""

from __future__ import annotations

import pytest
from support.benches import bench

pytestmark = pytest.mark.system


def test_ours_and_the_others_come_from_one_run() -> None:
    done = bench("statistic", "--columns", "education-num", "--epsilons", "1", "--runs", "3")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()[2:]]
    assert len(lines) == 18 and {line[1] for line in lines} == {"q10", "median", "q90"}
    ways = {line[-4].strip(",") for line in lines}
    assert {"cauchy", "exponential", "printed", "opendp", "global"} <= ways
    assert all(float(number) >= 0 for line in lines for number in line[-3:])
