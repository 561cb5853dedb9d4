"""`fmwem verify` in bulk, on a slice of Adult: every engine, kind of question, relation and kind of input. It
reads no private table.

    python scripts/audit verify                         a thousand pairs of neighbours in all
    python scripts/audit verify --pairs 10000           more, in about a quarter of an hour on 2 cores
    python scripts/audit verify --only "mwem, replace"  the configurations whose names hold that text
    python scripts/audit verify --bugs                  planted bugs, which must be found

Exit code 1 where one person's rows moved something by more than was charged, or a planted bug went unnoticed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from audit.verify.matrix import Configuration, matrix
from audit.verify.plants import PLANTS
from factored_mwem import Verified


def run(made: Configuration, pairs: int) -> Verified:
    """One configuration, with other neighbours every time."""
    with tempfile.TemporaryDirectory() as folder:
        return made.run(Path(folder), pairs)


def run_planted(number: int) -> Verified:
    """One bug, with the neighbours that tests/slow/test_verify.py shows it on."""
    planted = PLANTS[number]
    with tempfile.TemporaryDirectory() as folder, planted.plant():
        return planted.where.run(Path(folder), planted.pairs, seed=1)


def honest(found: Sequence[Configuration], pairs: int, pool: ProcessPoolExecutor) -> bool:
    """A line for each configuration, then the worst of each stage; whether all of them hold."""
    print(
        f"{'configuration':72} {'pairs':>6} {'draws':>8} {'refused':>7} {'failed':>6}   worst ratio",
        flush=True,
    )
    began, each, all_found = time.monotonic(), -(-pairs // len(found)), []
    for made, verified in zip(found, pool.map(partial(run, pairs=each), found), strict=True):
        all_found.append(verified)
        numbers = f"{verified.pairs:6,} {verified.draws:8,} {verified.refused:7,} {verified.failed:6,}"
        print(f"{made.name:72} {numbers}   {verified.worst:.6f}", flush=True)
        for failure in verified.failures:
            print(f"    {failure.stage}, {failure.neighbour}: {failure.why}", flush=True)
    seconds, total = time.monotonic() - began, sum(v.pairs for v in all_found)
    print(f"\n{'stage':40} {'draws':>9}   worst ratio")
    for name in sorted({stage.name for v in all_found for stage in v.stages}):
        stages = [stage for v in all_found for stage in v.stages if stage.name == name]
        print(f"{name:40} {sum(s.compared for s in stages):9,}   {max(s.worst for s in stages):.6f}")
    print(f"\n{total:,} pairs, {sum(v.failed for v in all_found):,} failed, {total / seconds:.1f} a second")
    return all(v.holds for v in all_found)


def bugs(only: str, pool: ProcessPoolExecutor) -> bool:
    """A line for each planted bug; whether all of them were found."""
    numbers = [number for number, planted in enumerate(PLANTS) if only in planted.name]
    print(f"{'bug':56} {'found':5}   as", flush=True)
    all_caught = True
    for number, verified in zip(numbers, pool.map(run_planted, numbers), strict=True):
        planted = PLANTS[number]
        shown = [f for f in verified.failures if planted.seen in f.why]
        all_caught &= bool(shown)
        print(
            f"{planted.name:56} {'yes' if shown else 'NO':5}   "
            f"{f'{shown[0].stage}, {shown[0].neighbour}: {shown[0].why}' if shown else ''}",
            flush=True,
        )
    return all_caught


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=1000, help="of all configurations together")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="configurations or bugs whose names hold this"
    )
    parser.add_argument("--bugs", action="store_true", help="the planted bugs")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    found = [made for made in matrix() if options.only in made.name]
    with ProcessPoolExecutor(max(options.processes, 1), mp_context=get_context("spawn")) as pool:
        if options.bugs:
            return int(not bugs(options.only, pool))
        if not found:
            parser.error(f"no configuration holds {options.only!r}")
        run(found[0], 1)  # kernels are compiled here, once, and not by both workers at a time
        return int(not honest(found, options.pairs, pool))
