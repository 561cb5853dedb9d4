"""A statistical audit of what the package claims: lower bounds on its privacy loss, and planted bugs that
must be seen. It reads no private table.

    python scripts/audit --quick                       a few checks and every bug, in less than a minute
    python scripts/audit --full -o results             all checks: 10^6 runs of stages, 10^4 whole releases
    python scripts/audit --full --only "release tree"  the checks, and bugs, whose names hold that text
    python scripts/audit --bugs                        the bugs alone
    python scripts/audit verify                        `fmwem verify` in bulk, with options of its own

Runs every stage (select, measure, discover) and whole releases many times on pairs of tiny neighbouring
tables with the package's own noise. One half of the runs finds the event that tells the two tables apart
best, the other half bounds its probabilities (Clopper and Pearson) and with them the loss, to be compared
with what the ledger charged, or what the manifest states. No bound is too high with a probability of more
than 10^-6, all checks together. Exit code 1 where a bound exceeds a claim, or a planted bug goes unnoticed.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

from audit import report
from audit.check import FAILURE, Check, Finding, run
from audit.discovery import discovery_checks
from audit.exact import exact_checks
from audit.graphs import graph_checks
from audit.plants import PLANTS
from audit.releases import release_checks
from audit.resume import resume_checks
from audit.sketches import sketch_checks
from audit.stages import stage_checks

FULL = {"stage": 37_000, "release": 2_000}
"""Runs of a check whose share is 1."""
QUICK = {"stage": 2_000, "release": 200}
"""Runs of any check."""
QUICKLY = (
    "exact measure: pure, add-remove, k=2",
    "exact select: zcdp, replace, k=1",
    "measure rows: pure, add-remove, k=1",
    "measure marginal: zcdp, add-remove, k=1",
    "select marginal: zcdp, replace, k=1",
    "measure residuals of 2 x 3: zcdp, replace, k=1",
    "measure question of parities: zcdp, add-remove, k=2",
    "discover popular texts: zcdp, add-remove, k=1",
    "discover popular numbers: zcdp, add-remove, k=1",
    "discover coarse cells: zcdp, add-remove, k=1",
    "release tree, ranges: epsilon 2, add-remove, k=1",
)
"""Checks of a quick audit: one of each stage."""

Job = Callable[[], Finding]


@cache
def checks() -> dict[str, Check]:
    """All checks by runs, by name."""
    return {
        check.name: check
        for check in (
            *stage_checks(),
            *graph_checks(),
            *sketch_checks(),
            *discovery_checks(),
            *release_checks(),
            *resume_checks(),
        )
    }


def find(name: str, *, runs: int, failure: float) -> Finding:
    """One check."""
    exact = exact_checks()
    return exact[name]() if name in exact else run(checks()[name], runs, failure)


def find_planted(bug: str, name: str, *, runs: int, failure: float) -> Finding:
    """One check with a bug in the package; its tables are made before, for a bug may change who counts as a
    neighbour.
    """
    check, plant = checks()[name], next(plant for plant in PLANTS if plant.name == bug)
    with plant.plant() as make:
        return run(check, runs, failure, make=make, power=False)


def runs_of(check: Check, runs: dict[str, int]) -> int:
    """A multiple of four: two tables, two halves."""
    return round(runs["release" if check.whole else "stage"] * (check.share if runs is FULL else 1.0) / 4) * 4


def tasks(mode: dict[str, int], only: str, *, bugs_alone: bool) -> tuple[list[Job], list[tuple[str, Job]]]:
    """(checks, bugs with a check that must find them) to run, each with its part of the probability of a
    false alarm.
    """
    names = (
        []
        if bugs_alone
        else [n for n in (*exact_checks(), *checks()) if only in n and (mode is FULL or n in QUICKLY or only)]
    )
    failure = FAILURE / (len(names) or len(checks()))
    planted = [
        (p.name, name, runs)
        for p in PLANTS
        for name, runs in (p.checks if mode is FULL else p.checks[:1])
        if only in p.name or only in name
    ]
    honest = [
        partial(find, name, runs=runs_of(checks()[name], mode) if name in checks() else 0, failure=failure)
        for name in names
    ]
    return honest, [
        (bug, partial(find_planted, bug, name, runs=runs, failure=failure)) for bug, name, runs in planted
    ]


def results(jobs: list[Job], processes: int) -> Iterator[Finding]:
    """The findings in order, as they come."""
    if processes == 1:
        yield from map(_call, jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_call, jobs)


def _call(job: Job) -> Finding:
    return job()


def show(head: tuple[str, ...], rows: Iterator[tuple[str, ...]], widths: tuple[int, ...]) -> None:
    """A table, line by line as its rows come."""
    for cells in itertools.chain([head], rows):
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip(),
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="the default")
    size.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="", metavar="NAME", help="checks and bugs whose names hold this")
    parser.add_argument("--bugs", action="store_true", help="the planted bugs alone")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("-o", dest="folder", type=Path, help="also write audit.md and audit.json there")
    options = parser.parse_args(arguments)
    honest, planted = tasks(FULL if options.full else QUICK, options.only, bugs_alone=options.bugs)
    found = results(honest + [job for _, job in planted], max(options.processes, 1))
    findings: list[Finding] = []
    caught: list[tuple[str, Finding]] = []

    def checked() -> Iterator[tuple[str, ...]]:
        for finding in itertools.islice(found, len(honest)):
            findings.append(finding)
            yield report.row(finding)

    def bugs() -> Iterator[tuple[str, ...]]:
        for (bug, _), finding in zip(planted, found, strict=True):
            caught.append((bug, finding))
            yield report.planted_row(bug, finding)

    if honest:
        show(report.HEAD, checked(), (68, 22, 12, 10, 16, 7, 12))
        print()
    if planted:
        show(report.PLANTED, bugs(), (48, 70, 22, 30, 7, 10))
        print()
    print(report.summary(findings, caught))
    if options.folder is not None:
        report.write(options.folder, "full" if options.full else "quick", findings, caught)
    return int(any(not f.holds for f in findings) or any(f.holds for _, f in caught))
