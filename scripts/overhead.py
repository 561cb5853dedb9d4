"""What books and retries cost: releases of a table with and without a ledger and a run id, in turn, as ratios of processor and wall time.

    python scripts/overhead.py [TABLE] [--runs 5]

The table defaults to the bundled Adult at epsilon 1, all 3-way marginals. Each run is the whole command in a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FMWEM = str(Path(sys.executable).with_name("fmwem"))
ADULT = Path(__file__).parents[1] / "datasets" / "adult.csv"


def timed(arguments: list[str]) -> tuple[float, float]:
    """(processor seconds, wall seconds) of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(arguments, check=True, capture_output=True)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", default=str(ADULT))
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    plain, booked = [], []
    with tempfile.TemporaryDirectory() as folder:
        books = str(Path(folder, "books"))
        subprocess.run([FMWEM, "ledger", "init", books], check=True, capture_output=True)
        subprocess.run([FMWEM, "ledger", "add", books, "--dataset", "t", "--epsilon", "1000"], check=True, capture_output=True)
        release = [FMWEM, "release", given.table, "--marginals", "3", "--json", "--overwrite", "-o", str(Path(folder, "out.parquet"))]
        timed(release)  # compiles, and reads the table into the disk's cache
        for number in range(given.runs):
            plain.append(timed(release))
            booked.append(timed([*release, "--ledger", books, "--dataset", "t", "--run-id", str(number)]))
    for name, at in (("processor", 0), ("wall", 1)):
        with_books, without = (statistics.median(run[at] for run in runs) for runs in (booked, plain))
        lowest = min(run[at] for run in booked) / min(run[at] for run in plain)
        print(f"{name} time with books over without: {with_books / without:.3f} (medians of {given.runs}), {lowest:.3f} (fastest)")


if __name__ == "__main__":
    main()
