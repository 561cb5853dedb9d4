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

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated

from common.runner import markdown, parse, printed

from audit.bulk import Bulk, spread
from audit.check import FAILURE, Check, Finding, run
from audit.discovery import discovery_checks
from audit.exact import exact_checks
from audit.plants import AUDITED
from audit.releases import release_checks
from audit.resume import resume_checks
from audit.stages import stage_checks

FULL = {"stage": 37_000, "release": 2_000}
"""Runs of a check whose share is 1."""
QUICKLY = {
    "exact measure: pure, add-remove, k=2": 0,
    "exact select: zcdp, replace, k=1": 0,
    "measure rows: pure, add-remove, k=1": 2000,
    "measure marginal: zcdp, add-remove, k=1": 600,
    "select marginal: zcdp, replace, k=1": 2000,
    "measure residuals of 2 x 3: zcdp, replace, k=1": 2000,
    "measure question of parities: zcdp, add-remove, k=2": 2000,
    "discover popular texts: zcdp, add-remove, k=1": 600,
    "discover popular numbers: zcdp, add-remove, k=1": 600,
    "discover coarse cells: zcdp, add-remove, k=1": 600,
    "release tree, ranges: epsilon 2, add-remove, k=1": 200,
}
"""Checks of a quick audit, one of each stage, and their runs: enough to see noise at half scale, except in
whole releases.
"""
QUICK = {"stage": 2_000, "release": 200}
"""Runs of any other check in a quick audit, which --only names."""
HEAD = "check | claimed | lower bound | if honest | if noise halved | runs | verdict"
PLANTED = "bug | found by | claimed | lower bound | runs | caught"
LEGEND = f"""A claim is the rho or epsilon that the ledger charged (with the delta beside it), or what the \
manifest of a release states. A lower bound is what an event showed on runs that it was not chosen by. 'if \
honest' and 'if noise halved' were computed beforehand: the bounds to expect in as many runs from the \
mechanism as claimed, and with noise at half scale. A check is weak where the latter is not above the claim. \
All bounds hold together with probability 1 - {FAILURE:g}."""

Job = Callable[[], Finding]
Caught = Sequence[tuple[str, Finding]]


@cache
def checks() -> dict[str, Check]:
    """All checks by runs, by name."""
    rooms = (stage_checks, discovery_checks, release_checks, resume_checks)
    return {check.name: check for room in rooms for check in room()}


def find(name: str, *, runs: int, failure: float) -> Finding:
    """One check."""
    exact = exact_checks()
    return exact[name]() if name in exact else run(checks()[name], runs, failure)


def find_planted(bug: str, name: str, *, runs: int, failure: float) -> Finding:
    """One check with a bug in the package; its tables are made before, for a bug may change who counts as a
    neighbour.
    """
    check = checks()[name]
    with next(plant for plant in AUDITED if plant.name == bug).plant():
        return run(check, runs, failure, power=False)


def runs_of(check: Check, runs: dict[str, int]) -> int:
    """A multiple of four: two tables, two halves."""
    return round(runs["release" if check.whole else "stage"] * (check.share if runs is FULL else 1.0) / 4) * 4


def tasks(mode: dict[str, int], only: str, *, bugs_alone: bool) -> tuple[list[Job], list[tuple[str, Job]]]:
    """(checks, bugs with a check that must find them) to run, each with its part of the probability of a
    false alarm.
    """
    every = () if bugs_alone else (*exact_checks(), *checks())
    names = [n for n in every if only in n and (mode is FULL or n in QUICKLY or only)]
    failure = FAILURE / (len(names) or len(checks()))
    runs = {name: runs_of(check, mode) for name, check in checks().items()}
    runs |= QUICKLY if mode is QUICK else {}
    honest = [partial(find, name, runs=runs.get(name, 0), failure=failure) for name in names]
    return honest, [
        (plant.name, partial(find_planted, plant.name, name, runs=some, failure=failure))
        for plant in AUDITED
        for name, some in (plant.checks if mode is FULL else plant.checks[:1])
        if only in plant.name or only in name
    ]


def row(f: Finding) -> tuple[str, ...]:
    numbers = (number(f.bound), number(f.honest), number(f.halved), f"{f.runs:,}" if f.runs else "exact")
    return f.check, claim(f), *numbers, "FAILS" if not f.holds else "holds" if f.sees else "holds (weak)"


def planted_row(name: str, f: Finding) -> tuple[str, ...]:
    bound = number(f.bound) + (f", {f.off_grid:,} off the grid" if f.off_grid else "")
    return name, f.check, claim(f), bound, f"{f.runs:,}", "NOT CAUGHT" if f.holds else "caught"


def claim(f: Finding) -> str:
    return f"{f.unit} {number(f.claimed)}" + (f", delta {f.delta:.2g}" if f.delta else "")


def number(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 or value == 0 else f"{value:.1e}"


def summary(findings: Sequence[Finding], planted: Caught) -> str:
    """Runs, and what went wrong."""
    stages, whole = (sum(f.runs for f in findings if f.whole is whole) for whole in (False, True))
    took, bugs = (sum(f.seconds for f in some) for some in (findings, [f for _, f in planted]))
    lines = [f"{stages:,} stage runs, {whole:,} whole releases; {took:.0f} s, bugs {bugs:.0f} s"]
    lines += [f"FAILS: {f.check}" for f in findings if not f.holds]
    return "\n".join(lines + [f"NOT CAUGHT: {name}" for name, f in planted if f.holds])


def write(folder: Path, mode: str, findings: Sequence[Finding], planted: Caught) -> None:
    """audit.md and audit.json, into a folder that is made where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    notes = "\n".join(f"- {f.check}: {f.note}" for f in findings if f.note)
    parts = [f"# Privacy audit ({mode})", LEGEND, markdown([row(f) for f in findings], HEAD), notes]
    if planted:
        parts += ["## Planted bugs", markdown([planted_row(*pair) for pair in planted], PLANTED)]
    (folder / "audit.md").write_text(
        "\n\n".join([*parts, summary(findings, planted)]) + "\n", encoding="utf-8"
    )
    facts = {
        "mode": mode,
        "failure": FAILURE,
        "checks": [asdict(f) | {"holds": f.holds, "sees_half_noise": f.sees} for f in findings],
        "bugs": [{"bug": name, "caught": not f.holds} | asdict(f) for name, f in planted],
    }
    (folder / "audit.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Audit(Bulk):
    quick: Annotated[bool, "the default"] = False
    full: bool = False
    output: Annotated[Path | None, "folder for audit.md and audit.json"] = None


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(Audit, __doc__, "audit", arguments)
    honest, planted = tasks(FULL if options.full else QUICK, options.only, bugs_alone=options.bugs)
    bugs = [bug for bug, _ in planted]
    with spread(options.processes) as apply:
        results = iter(apply(_call, honest + [job for _, job in planted]))
        findings = printed(HEAD, itertools.islice(results, len(honest)), row)
        caught = printed(PLANTED, zip(bugs, results, strict=True), lambda pair: planted_row(*pair))
    print(summary(findings, caught))
    if options.output is not None:
        write(options.output, "full" if options.full else "quick", findings, caught)
    return int(any(not f.holds for f in findings) or any(f.holds for _, f in caught))


def _call(job: Job) -> Finding:
    return job()
