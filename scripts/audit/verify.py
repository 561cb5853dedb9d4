"""`fmwem verify` in bulk, on a slice of Adult: every engine, kind of question, relation and kind of input. It
reads no private table.

    python scripts/audit verify                         a thousand pairs of neighbours in all
    python scripts/audit verify --pairs 10000           more, in about a quarter of an hour on 2 cores
    python scripts/audit verify --only "mwem, replace"  the configurations whose names hold that text
    python scripts/audit verify --bugs                  planted bugs, which must be found

Exit code 1 where one person's rows moved something by more than was charged, or a planted bug went unnoticed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from common.runner import parse, printed, refuse

from audit.bulk import Bulk, spread
from audit.matrix import Configuration, matrix
from audit.plants import VERIFIED
from factored_mwem import Verified
from factored_mwem.owner.verifier.verify import VerifiedStage


def run(configuration: Configuration, pairs: int) -> Verified:
    """One configuration, with other neighbours every time."""
    with tempfile.TemporaryDirectory() as folder:
        return configuration.run(Path(folder), pairs)


def run_planted(name: str) -> Verified:
    """One bug, with the neighbours that tests/verifier/test_verify.py shows it on."""
    planted = VERIFIED[name]
    with tempfile.TemporaryDirectory() as folder, planted.plant():
        return planted.verify.where.run(Path(folder), planted.verify.pairs, seed=1)


def row(result: tuple[Configuration, Verified]) -> tuple[str, ...]:
    """One configuration, and below it what failed."""
    made, v = result
    failures = "".join(f"\n    {f.stage}, {f.neighbour}: {f.why}" for f in v.failures)
    numbers = (f"{number:,}" for number in (v.pairs, v.draws, v.refused, v.failed))
    return made.name, *numbers, f"{v.worst:.6f}{failures}"


def stage_row(stages: Sequence[VerifiedStage]) -> tuple[str, str, str]:
    """The worst of one stage."""
    draws, worst = sum(s.compared for s in stages), max(s.worst for s in stages)
    return stages[0].name, f"{draws:,}", f"{worst:.6f}"


def bug_row(result: tuple[str, Verified]) -> tuple[str, str, str]:
    name, verified = result
    shown = next((f for f in verified.failures if VERIFIED[name].verify.seen in f.why), None)
    return name, "yes" if shown else "NO", f"{shown.stage}, {shown.neighbour}: {shown.why}" if shown else ""


@dataclass(frozen=True, kw_only=True)
class Pairs(Bulk):
    pairs: Annotated[int, "of all configurations together"] = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(Pairs, __doc__, "audit verify", arguments)
    every = [made for made in matrix() if options.only in made.name]
    with spread(options.processes) as apply:
        if options.bugs:
            names = [name for name in VERIFIED if options.only in name]
            shown = printed("bug | found | as", zip(names, apply(run_planted, names), strict=True), bug_row)
            return int(any(bug_row(result)[1] == "NO" for result in shown))
        if not every:
            refuse(f"--only: no configuration holds {options.only!r}")
        run(every[0], 1)  # kernels are compiled here, once, and not by both workers at a time
        began, each = time.monotonic(), -(-options.pairs // len(every))
        results = zip(every, apply(partial(run, pairs=each), every), strict=True)
        head = "configuration | pairs | draws | refused | failed | worst ratio"
        verified = [v for _, v in printed(head, results, row)]
    seconds, total = time.monotonic() - began, sum(v.pairs for v in verified)
    stages = sorted((stage for v in verified for stage in v.stages), key=lambda stage: stage.name)
    by_name = [[s for s in stages if s.name == name] for name in dict.fromkeys(s.name for s in stages)]
    printed("stage | draws | worst ratio", by_name, stage_row)
    print(f"{total:,} pairs, {sum(v.failed for v in verified):,} failed, {total / seconds:.1f} a second")
    return int(not all(v.holds for v in verified))
