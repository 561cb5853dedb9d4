"""Judges that nobody here wrote, on releases of one table. NOT PRIVATE: they read the table.

    python scripts/judges --table adult.csv --target income --epsilon 1 --runs 3
    python scripts/judges --table adult.csv --domain adult.domain.json --judges sdmetrics twosample
    python scripts/judges --table adult.csv --target income --quick

A hold-out, drawn by chance, is kept from every release. Judged are releases with a domain learnt in the
budget, drafted from the table and taken as it is, and declared (--domain); each domain alone, which encodes
and decodes real rows without noise; MST from dpmm; the hold-out itself; and the columns shuffled. Each judge
and peer has a virtual environment with pinned versions, made by pip at first use in the folder
--environments; what can't be installed, or fails, is named in the output with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from factored_mwem import FmwemError, Workload
from judges.case import Asked, Case, prepare
from judges.contenders import Contender, Promise, anchors, domains, ours, task
from judges.environment import JUDGES, PEERS, Environment, NotRun
from judges.report import Figures, record, shown

QUICK_ROWS = 4000
MISSING = ["?", "N", "NA", "N/A", "NULL", "null", "nan", "NaN", "None"]
MOST_COMPARED = 20_000
"""Rows of each side in a two-sample test."""


class Court:
    """The judges and peers that could be installed, and what went wrong."""

    def __init__(
        self, options: argparse.Namespace, judges: Sequence[Environment], peers: Sequence[Environment]
    ):
        self.options = options
        self.failed: dict[tuple[str, str], list[str]] = {}
        self.judges = [judge for judge in judges if self._stands(judge)]
        self.peers = [peer for peer in peers if self._stands(peer)]

    def _stands(self, environment: Environment) -> bool:
        wanted = self.options.judges if environment.figures else self.options.peers
        if wanted is not None and environment.name not in wanted:
            return False
        tell(f"{environment.name}: environment")
        try:
            environment.make(self.options.environments, self.options.python)
        except NotRun as why:
            self.fails(environment.name, f"not installed: {why}")
            return False
        return True

    def fails(self, name: str, why: str, about: str = "") -> None:
        """Remember what has no figure, and why."""
        self.failed.setdefault((name, why), []).extend([about] if about else [])

    def ask(self, environment: Environment, what: dict[str, Any], about: str, folder: Path) -> dict[str, Any]:
        """Its answer, empty where it fails."""
        path, start = folder / "task.json", time.perf_counter()
        path.write_text(json.dumps(what), encoding="utf-8")
        try:
            found = environment.ask(self.options.environments, path, self.options.limit)
        except NotRun as why:
            self.fails(environment.name, str(why), about)
            return {}
        seconds = time.perf_counter() - start
        said = " ".join(f"{key}={value:.4f}" for key, value in found.items())
        tell(f"{about or 'rows'}: {environment.name} {said} ({seconds:.0f} s)")
        return found


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def contend(case: Case, court: Court, folder: Path, run: int) -> Iterator[Contender]:
    """Everything that is judged in one run; what has no chance in it, or little, in the first alone."""
    options = court.options
    promise = Promise(options.epsilon, options.delta, Workload.marginals(options.marginals))
    for way, domain in domains(case, options.domain).items():
        try:
            made = ours(case, folder, way, domain(), promise)
            yield from (c for c in made if run == 0 or not c.codec or way == "learnt")
        except FmwemError as error:
            court.fails(way, str(error))
    for peer in court.peers:
        out = folder / f"{peer.name}.csv"
        contender = Contender(peer.name, out, out)
        told = task(case, contender, epsilon=options.epsilon, delta=options.delta, out=str(out))
        court.ask(peer, told, "", folder)
        if out.exists():
            yield contender
            out.unlink()
    if run == 0:
        yield from anchors(case, folder, options.seed)


def judge_all(case: Case, court: Court, folder: Path, figures: Figures) -> None:
    """Enter every contender's figures as soon as they are there."""
    size = min(case.unseen, MOST_COMPARED)
    for run in range(court.options.runs):
        for contender in contend(case, court, folder, run):
            found: dict[str, float] = {}
            for judge in [judge for judge in court.judges if judge.of_codec or not contender.codec]:
                told = task(case, contender, seed=court.options.seed + run, size=size)
                if contender.codec:
                    told["rows"] = told[str(judge.of_codec)]
                found |= court.ask(judge, told, contender.name, folder)
            figures.setdefault(contender.name, []).append(found)


def report(case: Case, court: Court, figures: Figures) -> Iterator[str]:
    options = court.options
    kinds = {kind: sum(k == kind for k in case.kinds.values()) for kind in ("category", "number", "date")}
    yield (
        f"{case.name}: {case.rows:,} rows released from, {case.unseen:,} held out; "
        f"{', '.join(f'{count} {kind}' for kind, count in kinds.items() if count)} columns; "
        f"epsilon {options.epsilon:g}, delta {options.delta:g}, all {options.marginals}-way marginals"
        + (f"; label {case.target} = {case.positive}" if case.target else "")
    )
    yield ""
    yield from shown(figures, court.judges)
    yield ""
    for (name, why), abouts in court.failed.items():
        yield f"not run: {name}{' on ' if abouts else ''}{', '.join(dict.fromkeys(abouts))}: {why}"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "judges", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--table", type=Path, required=True, metavar="CSV")
    made.add_argument(
        "--domain", type=Path, metavar="FILE", help="a declared domain: judged beside the others"
    )
    made.add_argument(
        "--target", metavar="COLUMN", help="label to learn, the rarer of two values; or COLUMN=VALUE"
    )
    made.add_argument("--columns", nargs="+", default=[], help="release and judge these columns only")
    made.add_argument(
        "--categories", nargs="+", default=[], metavar="COLUMN", help="numbers that are mere codes"
    )
    made.add_argument(
        "--missing", nargs="*", default=MISSING, metavar="TEXT", help="read as null, all the same"
    )
    made.add_argument("--epsilon", type=float, default=1.0)
    made.add_argument("--delta", type=float, default=1e-9)
    made.add_argument("--marginals", type=int, default=3, help="order of the marginals that are asked for")
    made.add_argument("--runs", type=int, default=3)
    made.add_argument("--judges", nargs="+", metavar="NAME", help=f"of {', '.join(j.name for j in JUDGES)}")
    made.add_argument("--peers", nargs="*", metavar="NAME", help=f"of {', '.join(p.name for p in PEERS)}")
    made.add_argument(
        "--environments", type=Path, default=cache(), metavar="DIR", help="default: %(default)s"
    )
    made.add_argument(
        "--python", default=sys.executable, help="makes the environments; some judges need 3.11"
    )
    made.add_argument("--holdout", type=float, default=0.25, metavar="SHARE", help="default: %(default)s")
    made.add_argument("--seed", type=int, default=0, help="of the hold-out and of the judges; noise has none")
    made.add_argument("--limit", type=float, default=1800, help="seconds for one answer of a judge or peer")
    made.add_argument(
        "--quick", action="store_true", help=f"one run on {QUICK_ROWS:,} rows: does all of it work?"
    )
    made.add_argument("-o", "--output", type=Path, help="CSV of all figures, run by run")
    return made


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "factored-mwem" / "judges"


def asked(options: argparse.Namespace) -> Asked:
    return Asked(
        columns=tuple(options.columns),
        categories=tuple(options.categories),
        target=options.target,
        missing=tuple(options.missing),
        seed=options.seed,
    )


def main(
    arguments: Sequence[str] | None = None,
    judges: Sequence[Environment] = JUDGES,
    peers: Sequence[Environment] = PEERS,
) -> int:
    options = parser().parse_args(arguments)
    known = {environment.name for environment in (*judges, *peers)}
    if unknown := [name for name in (*(options.judges or ()), *(options.peers or ())) if name not in known]:
        sys.exit(f"no judge or peer is called {unknown[0]!r}; there are {', '.join(sorted(known))}")
    options.environments = options.environments.absolute()
    options.runs = 1 if options.quick else options.runs
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        most = QUICK_ROWS if options.quick else None
        case = prepare(options.table, folder, asked(options), share=options.holdout, most=most)
        court = Court(options, judges, peers)
        figures: Figures = {}
        try:
            judge_all(case, court, folder, figures)
        except KeyboardInterrupt:  # hours of work: what is there is shown
            court.fails("the rest", "interrupted")
    if options.output:
        record(figures, options.output)
    print("\n".join(report(case, court, figures)))
    return int(not figures)
