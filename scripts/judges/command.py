"""Judges that nobody here wrote, on releases of one table. NOT PRIVATE: they read the table.

    python scripts/judges --table adult.csv --target income --epsilon 1 --runs 3
    python scripts/judges --table adult.csv --domain adult.domain.json --judges sdmetrics twosample
    python scripts/judges --table adult.csv --target income --quick

A hold-out, drawn by chance, is kept from every release. Judged are releases with a domain learnt in the
budget, drafted from the table and taken as it is, and declared (--domain); each domain alone, which encodes
and decodes real rows without noise; MST from dpmm; the hold-out itself; and the columns shuffled. Each judge
and peer has a virtual environment with pinned versions, made by pip at first use in the folder
--environments by --python (some judges need 3.11); what can't be installed, or fails, is named in the output
with the reason. --target is the label to learn, the rarer of two values, or COLUMN=VALUE; --categories are
numbers that are mere codes; --missing are texts read as null, all the same; --quick is one run on 4,000 rows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.runner import Benchmark, Options, Row, parse, tell

from factored_mwem import FmwemError
from judges.contenders import Case, Contender, anchors, domains, ours, prepare
from judges.environment import JUDGES, PEERS, Environment, NotRun

QUICK_ROWS = 4000
MOST_COMPARED = 20_000
"""Rows of each side in a two-sample test."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "factored-mwem" / "judges"


@dataclass(frozen=True, kw_only=True)
class Judged(Options):
    table: Path
    domain: Path | None = None
    target: str | None = None
    columns: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    missing: tuple[str, ...] = ("?", "N", "NA", "N/A", "NULL", "null", "nan", "NaN", "None")
    epsilon: float = 1.0
    delta: float = 1e-9
    marginals: int = 3
    runs: int = 3
    judges: tuple[str, ...] | None = None
    peers: tuple[str, ...] | None = None
    environments: Path = CACHE
    python: str = sys.executable
    holdout: float = 0.25
    seed: int = 0
    limit: float = 1800
    quick: bool = False


class Court:
    """The judges and peers that could be installed, and what has no figure, with the reason and on what."""

    def __init__(self, options: Judged, judges: Sequence[Environment], peers: Sequence[Environment]) -> None:
        self.options, self.environments = options, options.environments.absolute()
        self.failed: dict[tuple[str, str], list[str]] = {}
        self.judges = [
            j for j in judges if (options.judges is None or j.name in options.judges) and self._made(j)
        ]
        self.peers = [
            p for p in peers if (options.peers is None or p.name in options.peers) and self._made(p)
        ]

    def _made(self, environment: Environment) -> bool:
        tell(f"{environment.name}: environment")
        try:
            environment.make(self.environments, self.options.python)
        except NotRun as why:
            self.failed[environment.name, f"not installed: {why}"] = []
            return False
        return True

    def ask(self, environment: Environment, case: Case, about: Contender, **told: Any) -> dict[str, Any]:
        """Its answer, empty where it fails."""
        path, start = case.folder / "task.json", time.perf_counter()
        task = {"judge": environment.name, **case.task(about), **told}
        path.write_text(json.dumps(task), encoding="utf-8")
        try:
            answer = environment.ask(self.environments, path, self.options.limit)
        except NotRun as why:
            on = [about.name] if about.name != environment.name else []  # else it is a peer that made nothing
            self.failed.setdefault((environment.name, str(why)), []).extend(on)
            return {}
        tell(f"{about.name}: {environment.name} ({time.perf_counter() - start:.0f} s)")
        return answer


def contend(case: Case, court: Court, run: int) -> Iterator[Contender]:
    """Everything that is judged in one run; what has no chance in it, or little, in the first alone."""
    options = court.options
    for way, domain in domains(case, options.domain).items():
        try:
            made = ours(case, way, domain(), options)
            yield from (c for c in made if run == 0 or not c.codec or way == "learnt")
        except FmwemError as error:
            court.failed[way, str(error)] = []
    for peer in court.peers:
        out = case.folder / f"{peer.name}.csv"
        contender = Contender(peer.name, out, out)
        court.ask(peer, case, contender, epsilon=options.epsilon, delta=options.delta, out=str(out))
        if out.exists():
            yield contender
            out.unlink()
    if run == 0:
        yield from anchors(case, options.seed)


def judged(case: Case, court: Court) -> Iterator[Row]:
    """Every contender's figures as soon as they are there; an interrupt ends it: what is there is shown."""
    size, options = min(case.unseen, MOST_COMPARED), court.options
    try:
        for run in range(1 if options.quick else options.runs):
            for contender in contend(case, court, run):
                row: Row = {"rows": contender.name, "run": run}
                for judge in [judge for judge in court.judges if judge.of_codec or not contender.codec]:
                    told: Row = {"seed": options.seed + run, "size": size}
                    told |= {"rows": str(getattr(contender, judge.of_codec))} if contender.codec else {}
                    row |= court.ask(judge, case, contender, **told)
                yield row
    except KeyboardInterrupt:
        court.failed["the rest", "interrupted"] = []


def main(
    arguments: Sequence[str] | None = None,
    judges: Sequence[Environment] = JUDGES,
    peers: Sequence[Environment] = PEERS,
) -> int:
    options = parse(Judged, __doc__, "judges", sys.argv[1:] if arguments is None else arguments)
    known = sorted(environment.name for environment in (*judges, *peers))
    for name in {*(options.judges or ()), *(options.peers or ())}.difference(known):
        sys.exit(f"no judge or peer is called {name!r}; there are {', '.join(known)}")
    with TemporaryDirectory() as folder:
        case = prepare(options, Path(folder), QUICK_ROWS if options.quick else None)
        court = Court(options, judges, peers)
        figures = [figure for judge in court.judges for figure in judge.figures.items()]
        columns = " | ".join(["runs = {runs}", *(f"{name} = {{{key}:.4f~}}" for key, name in figures)])
        parts = tuple(part for judge in court.judges for part in judge.parts)
        made = Benchmark(Judged, judged, "rows", columns, also=parts)
        rows = list(made.recorded(judged(case, court), options.output))
    kinds, runs = Counter(case.kinds.values()), Counter(row["rows"] for row in rows)
    label = f"; label {case.target} = {case.positive}" if case.target else ""
    print(
        f"{options.table.name.split('.csv')[0]}: {case.rows:,} rows released from, {case.unseen:,} held out;",
        ", ".join(f"{kinds[kind]} {kind}" for kind in ("category", "number", "date") if kinds[kind]),
        f"columns; epsilon {options.epsilon:g}, delta {options.delta:g},",
        f"all {options.marginals}-way marginals{label}\n",
    )
    print(*made.table({**row, "runs": runs[row["rows"]]} for row in rows), "", sep="\n")
    for (name, why), abouts in court.failed.items():
        print(f"not run: {name}{' on ' if abouts else ''}{', '.join(dict.fromkeys(abouts))}: {why}")
    return int(not rows)
