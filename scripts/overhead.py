"""What books and retries cost: the share of a release's wall and processor time that goes into its ledger
file, its journal and its fingerprint.

    python scripts/overhead.py [TABLE] [--runs 3]

The table defaults to the bundled Adult; epsilon 1, all 3-way marginals. Both figures come from the same run:
two runs differ by more than the books cost, since their noise decides how many rounds there are.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.cli import jobs as job
from factored_mwem.kernels.warmup import warm_up
from factored_mwem.ledger import run
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.journal import Journal, Journaled

ADULT = Path(__file__).parents[1] / "datasets" / "adult.csv"
BOOKS = [
    (run, "fingerprint"),
    (LedgerFile, "__init__"),
    (Journal, "__init__"),
    (Journal, "begin"),
    (Journal, "append"),
    (Journal, "make_room"),
]
BOOKS += [(Journaled, "_facts"), (run.Run, "finish"), (run, "refuse_older"), (job, "_in_place")]
BOOKS += [(LedgerFile, name) for name in ("dataset", "find", "check", "reserve", "change", "head")]


class Clock:
    """Seconds (wall, processor) inside the functions it wraps; one inside another counts once."""

    def __init__(self) -> None:
        self.wall = self.processor = 0.0
        self._inside = False

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            if self._inside:
                return call(*given, **named)
            self._inside, wall, processor = True, time.perf_counter(), time.process_time()
            try:
                return call(*given, **named)
            finally:
                self._inside = False
                self.wall += time.perf_counter() - wall
                self.processor += time.process_time() - processor

        return timed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", type=Path, default=ADULT)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    warm_up()
    clock = Clock()
    for home, name in BOOKS:
        setattr(home, name, clock.wrap(getattr(home, name)))
    with tempfile.TemporaryDirectory() as folder:
        books = LedgerFile.create(Path(folder, "books"))
        books.add("t", Cap.of(1000.0, 1e-9), Neighbours.ADD_REMOVE, 1)
        for number in range(given.runs):
            clock.wall = clock.processor = 0.0
            wall, processor = time.perf_counter(), time.process_time()
            facts = {"ledger": str(books.path), "dataset": "t", "run_id": str(number), "overwrite": True}
            job.run(
                given.table,
                {"marginals": 3, "output": str(Path(folder, "out.parquet")), **facts},
                lambda _: None,
            )
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            size = (
                sum(file.stat().st_size for file in Path(folder).glob("books.journals/*"))
                / (number + 1)
                / 1e3
            )
            print(
                f"books: {clock.wall / wall:.2%} of the wall time, {clock.processor / processor:.2%} of the "
                f"processor's; journal {size:.0f} kB"
            )


if __name__ == "__main__":
    main()
