"""Raw tables: how far off are releases whose domain was learnt, declared by hand or drafted? NOT PRIVATE.

    python scripts/bench raw --tables FOLDER                            # every table there, and Adult
    python scripts/bench raw --tables FOLDER --data adult hotel --epsilons 1 --domains learnt declared
    python scripts/bench raw --tables FOLDER --package OLD --two-sample -o runs.csv --keep FOLDER2

A table is a file NAME.csv, NAME.csv.gz or NAME.parquet as somebody published it; NAME.declared.json beside it
is a domain that a careful person wrote from its documentation. To those of `--tables` come adult of
FMWEM_DATASETS and the bundled rows of Adult (adult-sample), both under the bundled domain. Domains: `learnt`
(none is given), `declared`, and `drafted` (`fmwem domain draft`, not edited). Every release is a process of
its own that reads the file and asks for all marginals of three attributes; `--package` runs another checkout
beside this one.

Errors compare values, not codes of the domain: L1 distances (0 to 2) of marginals in which numbers and dates
are cut into 20 bins of equal real mass and texts stand as they are; `exact` is the mean distance of single
columns on exact values. `independent` are the real columns shuffled one by one, `resampled` real rows drawn
anew. The two-sample test is a classifier's area under the curve, of released rows and (in brackets) of real
rows merely encoded and decoded under the release's domain. `--keep` leaves the rows of all runs, and of every
first run a table of all columns, real beside released, for a person's eye.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.peers import ORDER
from bench.program import LAUNCH, Program
from bench.runs import recorded
from bench.two_sample import auc
from bench.values import Judge, read

DOMAINS = ("learnt", "declared", "drafted")
BUNDLED = Path(__file__).parents[2] / "datasets"
INSIDE = str(Path(__file__).with_name("inside.py"))
ENDINGS = (".csv", ".csv.gz", ".parquet")
ERRORS = ("e1", "e2", "e3", "exact")
KEY = ("data", "epsilon", "program", "domain")
FIELDS = (*KEY, "run", *ERRORS, "auc", "codec_auc", "cpu", "wall", "peak_mb", "status")


@dataclass(frozen=True)
class Raw:
    """A raw table, and the domain somebody declared for it."""

    name: str
    path: Path
    declared: Path | None


def tables(folder: Path | None, wanted: list[str]) -> list[Raw]:
    """The tables of `folder`, then those that need none; SystemExit where a wanted one is missing."""
    adult = BUNDLED / "adult.domain.json"
    found = {"adult-sample": Raw("adult-sample", BUNDLED / "adult.csv", adult)}
    for path in sorted((Path(os.environ.get("FMWEM_DATASETS", ".")) / "adult").glob("adult.csv*")):
        found["adult"] = Raw("adult", path, adult)
    for path in sorted(folder.iterdir()) if folder else []:
        ending = next((e for e in ENDINGS if path.name.endswith(e)), None)
        if ending:
            name = path.name.removesuffix(ending)
            declared = path.with_name(f"{name}.declared.json")
            found[name] = Raw(name, path, declared if declared.exists() else None)
    missing = [name for name in wanted if name not in found]
    if missing:
        sys.exit(f"--data {missing[0]}: no such table; there are {', '.join(found)}")
    return [found[name] for name in wanted or sorted(found)]


@dataclass(frozen=True)
class Job:
    """A release to be made and judged."""

    raw: Raw
    epsilon: float
    program: Program
    kind: str
    domain: Path | None
    run: int

    @property
    def label(self) -> dict[str, Any]:
        return {
            "data": self.raw.name,
            "epsilon": self.epsilon,
            "program": self.program.name,
            "domain": self.kind,
            "run": self.run,
        }

    def command(self, out: Path, delta: float) -> list[str]:
        given = ["--domain", str(self.domain)] if self.domain else []
        asked = ["--marginals", str(ORDER), "--epsilon", f"{self.epsilon:g}", "--delta", f"{delta:g}", *given]
        say = ["-o", str(out), "--overwrite", "--quiet", "--no-progress"]
        return [self.program.python, "-P", "-c", LAUNCH, "release", str(self.raw.path), *asked, *say]


@dataclass
class Bench:
    """One invocation: what to run, the folder of its files, and the codecs that have been judged."""

    options: argparse.Namespace
    folder: Path
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    codecs: dict[tuple[str, ...], float] = field(default_factory=dict)

    def measure(self) -> Iterator[dict[str, Any]]:
        """Every run asked for, one at a time, after the baselines of its table."""
        cold = {program.name for program in self.programs()}
        for raw in tables(self.options.tables, self.options.data):
            judge = Judge(read(raw.path), ORDER)
            for name, errors in judge.baselines(self.rng).items():
                yield {
                    "data": raw.name,
                    "epsilon": "",
                    "program": name,
                    "domain": "",
                    **errors,
                    "status": "ok",
                }
            for job in self.jobs(raw):
                if job.program.name in cold:  # numba compiles once per installation, not per run
                    job.program.run(job.command(self.folder / "cold.parquet", self.options.delta), 1800)
                    cold.remove(job.program.name)
                yield {**job.label, **self.judged(job, judge)}

    def programs(self) -> list[Program]:
        now = Program("now", sys.executable, str(Path(__file__).resolve().parents[2]))
        if self.options.package is None:
            return [now]
        if not (self.options.package / "factored_mwem").is_dir():
            sys.exit(f"--package: {self.options.package} holds no factored_mwem")
        return [Program("before", sys.executable, str(self.options.package.resolve())), now]

    def jobs(self, raw: Raw) -> Iterator[Job]:
        programs = self.programs()
        domains = {program.name: self.domains(program, raw) for program in programs}
        for epsilon, program in itertools.product(self.options.epsilons, programs):
            for kind, run in itertools.product(self.options.domains, range(self.options.runs)):
                if kind in domains[program.name]:
                    yield Job(raw, epsilon, program, kind, domains[program.name][kind], run)

    def domains(self, program: Program, raw: Raw) -> dict[str, Path | None]:
        """The domain file of every kind there is; None where one is to be learnt."""
        found: dict[str, Path | None] = {"learnt": None}
        if raw.declared is not None:
            found["declared"] = raw.declared
        if "drafted" in self.options.domains:
            found["drafted"] = self.folder / f"{raw.name}.{program.name}.drafted.json"
            ask(program, "draft", raw.path, found["drafted"])
        return found

    def judged(self, job: Job, judge: Judge) -> dict[str, Any]:
        """Cost and errors of one release; the first of a kind is looked at more closely."""
        out = self.folder / f"{job.raw.name}.{job.epsilon:g}.{job.program.name}.{job.kind}.{job.run}.parquet"
        used = job.program.run(job.command(out, self.options.delta), self.options.limit)
        if used["status"] != "ok":
            return used
        made = read(out)
        used |= judge.errors(made)
        if job.run == 0 and self.options.two_sample:
            used["auc"] = auc(judge.columns, made, self.rng)
            used["codec_auc"] = self.codec_auc(job, judge, out.with_suffix(".manifest.json"))
        if job.run == 0 and self.options.keep:
            lines = "\n".join(judge.by_column(made))
            out.with_suffix(".columns.md").write_text(f"{lines}\n", encoding="utf-8")
        return used

    def codec_auc(self, job: Job, judge: Judge, manifest: Path) -> float:
        """The same test of real rows, merely encoded and decoded under the release's domain."""
        domain = json.dumps(json.loads(manifest.read_text(encoding="utf-8"))["domain"])
        key = (job.raw.name, job.program.name, domain)
        if key not in self.codecs:
            out = self.folder / "codec.parquet"
            ask(job.program, "codec", job.raw.path, manifest, out)
            self.codecs[key] = auc(judge.columns, read(out), self.rng, same_rows=True)
        return self.codecs[key]


def ask(program: Program, *what: str | Path | None) -> None:
    """Run inside.py with that program's package; SystemExit with its last line where it fails."""
    command = [program.python, "-P", INSIDE, *(str(part) for part in what)]
    environment = {**os.environ, "PYTHONPATH": str(program.checkout)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{program.name}, {what[0]} of {what[1]}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")


def report(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The table of all kinds of runs: means, and the spread of the errors of three attributes."""
    costs = "2-way | 1-way | exact | two-sample (codec) | CPU s"
    yield f"| table | epsilon | program | domain | 3-way mean (sd) | of declared | {costs} |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(tuple(row[key] for key in KEY), []).append(row)
    for (data, epsilon, program, kind), runs in kinds.items():
        good = [run for run in runs if run["status"] == "ok"]
        start = f"| {data} | {epsilon if epsilon == '' else format(epsilon, 'g')} | {program} | {kind} |"
        if not good:
            yield f"{start} {runs[0]['status']} | | | | | | |"
            continue
        error = mean(run["e3"] for run in good)
        spread = f" ({stdev(run['e3'] for run in good):.4f})" if len(good) > 1 else ""
        lost = f", {len(good)} of {len(runs)} runs" if len(good) < len(runs) else ""
        declared = [
            r["e3"] for r in kinds.get((data, epsilon, program, "declared"), []) if r["status"] == "ok"
        ]
        ratio = f"{error / mean(declared):.2f}" if declared and kind else ""
        yield (
            f"{start} {error:.4f}{spread}{lost} | {ratio} | "
            + " | ".join(
                [*(_mean(good, key, 4) for key in ("e2", "e1", "exact")), _tests(good), _mean(good, "cpu", 1)]
            )
            + " |"
        )


def _mean(runs: list[dict[str, Any]], key: str, digits: int) -> str:
    values = [run[key] for run in runs if key in run]
    return f"{mean(values):.{digits}f}" if values else ""


def _tests(runs: list[dict[str, Any]]) -> str:
    return next((f"{run['auc']:.3f} ({run['codec_auc']:.3f})" for run in runs if "auc" in run), "")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--tables", type=Path, metavar="FOLDER", help="raw tables; see scripts/README.md")
    made.add_argument("--data", nargs="+", default=[], metavar="NAME", help="default: every table there is")
    made.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    made.add_argument("--delta", type=float, default=1e-9)
    made.add_argument("--runs", type=int, default=5)
    made.add_argument("--domains", nargs="+", choices=DOMAINS, default=DOMAINS)
    made.add_argument("--package", type=Path, metavar="CHECKOUT", help="also run the package in this folder")
    made.add_argument("--two-sample", action="store_true", help="of every first run; needs scikit-learn")
    made.add_argument("--limit", type=float, default=1800, help="seconds after which a run did not finish")
    made.add_argument("--keep", type=Path, metavar="FOLDER", help="default: a temporary one")
    made.add_argument("-o", "--output", type=Path, help="CSV of all runs")
    return made


def main() -> None:
    options = parser().parse_args()
    with TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = list(recorded(Bench(options, folder).measure(), FIELDS, options.output))
    print("\n".join(report(rows)))
