"""Judges that nobody here wrote, and one of our own, on releases of raw tables. NOT PRIVATE: they read them.

    python scripts/judges --table adult.csv --target income --label --runs 3
    python scripts/judges --table adult.csv hotel.csv --epsilon .1 1 10 --judges marginals --peers
    python scripts/judges --table adult.csv --target income --quick
    python scripts/judges --table *.csv --releases --judges marginals values --peers

A hold-out, drawn by chance, is kept from every release. Judged are releases with a domain learnt in the
budget (with --label also one that is asked for what there is about --target), drafted from the table and
taken as it is, and declared (--domain, or NAME.declared.json beside NAME.csv); each domain alone, which
encodes and decodes real rows without noise; MST from dpmm; the hold-out itself; and the columns shuffled.
`marginals` is `fmwem evaluate`, and `values` looks for values that nobody has; both need no download.
Each other judge and peer has a virtual environment with pinned versions, made by pip at first use in the
folder --environments by --python (some judges need 3.11); what can't be installed, or fails, is named in
the output with the reason.
--target is the label to learn, the rarer of two values, or COLUMN=VALUE; --categories are numbers that are
mere codes; --missing are texts read as null, all the same; --quick is one run on 4,000 rows. Another
checkout is judged where PYTHONPATH names it.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from common.runner import Benchmark, Options, Row, parse, tell

from factored_mwem import FmwemError
from judges.contenders import Case, Contender, anchors, ours, prepare, ways
from judges.environment import JUDGES, PEERS, Environment, NotRun

QUICK_ROWS = 4000
BASE = "drafted"
"""The way to a domain whose 3-way error others are set beside."""
MOST_COMPARED = 20_000
"""Rows of each side in a two-sample test."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "factored-mwem" / "judges"


@dataclass(frozen=True, kw_only=True)
class Judged(Options):
    table: tuple[Path, ...]
    domain: Path | None = None
    label: bool = False
    target: str | None = None
    columns: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    missing: tuple[str, ...] = ("?", "N", "NA", "N/A", "NULL", "null", "nan", "NaN", "None")
    epsilon: tuple[float, ...] = (1.0,)
    delta: float = 1e-9
    marginals: Annotated[int, "all marginals of this order"] = 3
    runs: int = 3
    judges: tuple[str, ...] | None = None
    peers: tuple[str, ...] | None = None
    environments: Path = CACHE
    python: str = sys.executable
    holdout: float = 0.25
    seed: int = 0
    limit: Annotated[float, "seconds after which a judge did not finish"] = 1800.0
    releases: Annotated[bool, "releases alone: no domains alone, no hold-out, nothing shuffled"] = False
    quick: bool = False


class Court:
    """The judges and peers that could be installed, and what has no figure, with the reason and on what."""

    def __init__(self, options: Judged, judges: Sequence[Environment], peers: Sequence[Environment]) -> None:
        self.options, self.environments = options, options.environments.absolute()
        self.failed: dict[tuple[str, str], list[str]] = {}
        self.said: dict[str, str] = {}
        """Of each table, what its releases are made of."""
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


def contend(case: Case, court: Court, epsilon: float, run: int, declared: Path | None) -> Iterator[Contender]:
    """Everything that is judged in one run; what has no chance in it, or little, in the first alone."""
    options = court.options
    for way, domain in ways(case, declared, label=options.label).items():
        try:
            made = ours(case, way, domain(), epsilon, options)
            yield from (c for c in made if run == 0 or not c.codec or way == "learnt")
        except FmwemError as error:
            court.failed[way, str(error)] = []
    for peer in court.peers:
        out = case.folder / f"{peer.name}.csv"
        contender = Contender(peer.name, out, out)
        court.ask(peer, case, contender, epsilon=epsilon, delta=options.delta, out=str(out))
        if out.exists():
            yield contender
            out.unlink()
    if run == 0 and epsilon == options.epsilon[0] and not options.releases:
        yield from anchors(case, options.seed)


def judged(court: Court) -> Iterator[Row]:
    """Every contender's figures as soon as they are there; an interrupt ends it: what is there is shown."""
    options = court.options
    try:
        for table in options.table:
            name = table.name.split(".csv")[0]
            beside = table.with_name(f"{name}.declared.json")
            declared = options.domain or (beside if beside.exists() else None)
            with TemporaryDirectory() as folder:
                case = prepare(options, table, Path(folder), QUICK_ROWS if options.quick else None)
                court.said[name] = said(case, name)
                runs = range(1 if options.quick else options.runs)
                for epsilon, run in itertools.product(options.epsilon, runs):
                    for contender in contend(case, court, epsilon, run, declared):
                        about: Row = {"table": name, "epsilon": epsilon, "rows": contender.name, "run": run}
                        yield about | figures(case, court, contender, run)
    except KeyboardInterrupt:
        court.failed["the rest", "interrupted"] = []


def figures(case: Case, court: Court, contender: Contender, run: int) -> Row:
    size, found = min(case.unseen, MOST_COMPARED), Row()
    if contender.cpu is not None:
        found["cpu"] = contender.cpu
    for judge in [judge for judge in court.judges if judge.of_codec or not contender.codec]:
        told: Row = {"seed": court.options.seed + run, "size": size}
        told |= {"rows": str(getattr(contender, judge.of_codec))} if contender.codec else {}
        found |= court.ask(judge, case, contender, **told)
    return found


def said(case: Case, name: str) -> str:
    """Of what the releases of a table are."""
    kinds, label = Counter(case.kinds.values()), f"; label {case.target} = {case.positive}"
    columns = ", ".join(f"{kinds[kind]} {kind}" for kind in ("category", "number", "date") if kinds[kind])
    rows = f"{case.rows:,} rows released from, {case.unseen:,} held out"
    return f"{name}: {rows}, {columns} columns{label if case.target else ''}"


def main(
    arguments: Sequence[str] | None = None,
    judges: Sequence[Environment] = JUDGES,
    peers: Sequence[Environment] = PEERS,
) -> int:
    options = parse(Judged, __doc__, "judges", arguments)
    known = sorted(environment.name for environment in (*judges, *peers))
    for name in {*(options.judges or ()), *(options.peers or ())}.difference(known):
        sys.exit(f"no judge or peer is called {name!r}; there are {', '.join(known)}")
    if options.label and options.target is None:
        sys.exit("--label: name the label with --target")
    with TemporaryDirectory() as folder:  # what is wrong with a table is said before anything is installed
        for table in options.table:
            prepare(options, table, Path(folder), QUICK_ROWS)
    court = Court(options, judges, peers)
    titles = [figure for judge in court.judges for figure in judge.figures.items()]
    shown = [f"{name} = {{{key}:.4f~}}" for key, name in titles]
    if "e3" in dict(titles):
        shown.insert(0, f"3-way error / {BASE} = {{e3/:.2f}}")
    columns = " | ".join(["runs = {runs}", *shown, "CPU, s = {cpu:.1f}"])
    parts = tuple(part for judge in court.judges for part in judge.parts)
    made = Benchmark(Judged, judged, "table epsilon rows", columns, base=BASE, also=parts)
    rows = list(made.recorded(judged(court), options.output))
    runs = Counter(made.kind(row) for row in rows)
    print(*court.said.values(), f"all {options.marginals}-way marginals, delta {options.delta:g}\n", sep="\n")
    print(*made.table({**row, "runs": runs[made.kind(row)]} for row in rows), "", sep="\n")
    for (name, why), abouts in court.failed.items():
        print(f"not run: {name}{' on ' if abouts else ''}{', '.join(dict.fromkeys(abouts))}: {why}")
    return int(not rows)
