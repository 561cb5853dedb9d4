"""What rows of a release are good for: can a rare label be learnt from them, are groups of a rare flag what
they were, which correlations are lost, which columns were left alone? NOT PRIVATE: it reads the table.

    python scripts/bench labels --data census.csv --test census_test.csv --label label --marginals 2 3
    python scripts/bench labels --data flags.csv --label f6 --groups f5:c1 f15:c0
    python scripts/bench labels --data census.csv --label label --peers dpmm-mst --peer-python dpmm-mst=PY

A table is one of codes, as `bench accuracy` takes it; `bench tables` makes some. Every release is a process
of its own; ours come for each of `--marginals` without and with `--label` (COLUMN, or COLUMN@WEIGHT as
`fmwem release` takes it), peers as they are in peers.py. Rows to test on are a file of codes, or else a third
of the table that is held back before any release.

AUC and F1: whether the label has the code `--positive`, learnt by logistic regression (one-hot) and gradient
boosting (codes as numbers) from released rows, and tested on real ones; `real` learns from the real rows that
the releases got. Correlations are Cramer's V of codes, over all pairs of columns: the mean difference from
the real ones (the L1 distance of the matrices, over the number of pairs), and the largest. Lone columns have
no partner in the release's model, as its manifest says. `--groups FLAG:COLUMN` shows the mean code of COLUMN
in the rows of every code of FLAG. Needs scikit-learn.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench.case import Case, prepare, read_codes
from bench.peers import ON_OUR_ENGINE, Task
from bench.program import Program
from bench.runs import earlier, programs, recorded
from bench.utility import MOST_GROUPS, Columns, Learners, Pairs, means, need_learners

SCORES = ("logistic_auc", "logistic_f1", "boosting_auc", "boosting_f1")
KEY = ("data", "epsilon", "program", "marginals", "label")
FIELDS = (*KEY, "run", *SCORES, "v_mean", "v_worst", "e2", "lone", "groups", "cpu", "wall", "status")
TEXTS = ("data", "program", "label", "groups", "status")
HELD_BACK = 3
"""One row in so many is tested on, where no file is."""


@dataclass(frozen=True)
class Variant:
    """A program, and what it is asked for; a peer has neither order nor label."""

    program: Program
    order: int = 0
    label: str = ""

    def command(self, task: Task, out: Path) -> list[str]:
        if not self.program.ours:
            return self.program.command(task, out)
        asked = ["--label", self.label] if self.label else []
        return [*self.program.command(task, out, order=self.order), *asked]

    @property
    def facts(self) -> dict[str, Any]:
        return {"program": self.program.name, "marginals": self.order or "", "label": self.label}


@dataclass(frozen=True)
class Judge:
    """The real table, and all that is asked of rows made from it."""

    learners: Learners
    pairs: Pairs
    groups: list[tuple[str, str]]

    def scores(self, rows: Columns) -> dict[str, Any]:
        sizes = self.pairs.sizes
        shown = {f"{flag}:{column}": means(rows, flag, column, sizes[flag]) for flag, column in self.groups}
        return {**self.learners.scores(rows), **self.pairs.errors(rows), "groups": json.dumps(shown)}


def split(case: Case, test: Path | None) -> tuple[Columns, Columns]:
    """The real rows that releases get, and those to test on. Without a file for these, the table that
    programs read is written anew, without a third of its rows.
    """
    names = list(case.sizes)
    if test is not None:
        held = read_codes(test, case.sizes)
        return dict(zip(names, case.columns, strict=True)), dict(zip(names, held, strict=True))
    order = np.random.default_rng(0).permutation(len(case.columns[0]))
    cut = len(order) // HELD_BACK
    given, held = (
        {n: column[rows] for n, column in zip(names, case.columns, strict=True)}
        for rows in (np.sort(order[cut:]), np.sort(order[:cut]))
    )
    pyarrow.csv.write_csv(pa.table(given), case.table)
    return given, held


def asked_groups(given: Iterable[str], sizes: dict[str, int]) -> list[tuple[str, str]]:
    found = [tuple(entry.rpartition(":")[::2]) for entry in given]
    for flag, column in found:
        if flag not in sizes or column not in sizes or sizes[flag] > MOST_GROUPS:
            sys.exit(f"--groups {flag}:{column}: name two columns, the first of at most {MOST_GROUPS} codes")
    return found


def measure(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """The real rows' scores, then every run asked for, one at a time."""
    case = prepare(options.data, folder)
    label = options.label.partition("@")[0]
    if not 0 <= options.positive < case.sizes.get(label, 0):
        sys.exit(f"--label {options.label}: no column that has the code {options.positive}")
    groups = asked_groups(options.groups, case.sizes)
    real, test = split(case, options.test)
    if len(np.unique(test[label] == options.positive)) < 2:
        sys.exit(f"--label {options.label}: all rows to test on have it, or none; --positive names its code")
    judge = Judge(Learners(case.sizes, label, options.positive, test), Pairs(case.sizes, real), groups)
    blank = dict.fromkeys(KEY, "") | {"data": case.name}
    yield {**blank, "program": "real", **judge.scores(real), "status": "ok"}
    variants = list(asked(options))
    cold = {v.program.name for v in variants if v.program.ours or v.program.name in ON_OUR_ENGINE}
    for epsilon in options.epsilons:
        task = Task(str(case.table), str(case.sizes_file), epsilon, options.delta, len(real[label]))
        for variant in variants:
            for run in range(options.runs):
                if variant.program.name in cold:  # numba compiles once per installation, not per run
                    variant.program.run(variant.command(task, folder / "cold.csv"), options.limit)
                    cold.remove(variant.program.name)
                key = {**blank, "epsilon": epsilon, **variant.facts, "run": run}
                yield {**key, **released(variant, task, judge, folder, options.limit, run)}


def asked(options: argparse.Namespace) -> Iterator[Variant]:
    for program in programs(options):
        if not program.ours:
            yield Variant(program)
            continue
        for order in options.marginals:
            yield from (Variant(program, order, label) for label in ("", options.label))


def released(
    variant: Variant, task: Task, judge: Judge, folder: Path, limit: float, run: int
) -> dict[str, Any]:
    """Cost and scores of one release."""
    kind = f"{variant.order}.{variant.label}" if variant.program.ours else "peer"
    out = folder / f"{variant.program.name}.{kind}.{task.epsilon:g}.{run}.csv"
    used = variant.program.run(variant.command(task, out), limit)
    if used["status"] != "ok":
        return used
    try:
        rows = dict(zip(judge.pairs.sizes, read_codes(out, judge.pairs.sizes), strict=True))
    except (ValueError, KeyError, OSError) as error:  # a program may leave anything behind, or nothing
        return {**used, "status": f"failed: {error}"}
    found = {**used, **judge.scores(rows)}
    if variant.program.ours:
        components = json.loads(out.with_suffix(".manifest.json").read_text(encoding="utf-8"))["components"]
        found["lone"] = sum(len(names) == 1 for names in components)
    return found


def report(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A row for every kind of run: means, and in brackets the spread over the runs."""
    titles = "logistic AUC | F1 | boosting AUC | F1 | correlations off | worst | 2-way error | lone columns"
    yield f"| table | epsilon | program | marginals | label | {titles} | CPU s |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(tuple(row.get(key, "") for key in KEY), []).append(row)
    for kind, runs in kinds.items():
        good = [run for run in runs if run["status"] == "ok"]
        if not good:
            yield f"{_start(kind)} {runs[0]['status']} |" + " |" * 8
            continue
        digits = {**dict.fromkeys(SCORES, 3), "v_mean": 4, "v_worst": 3, "e2": 4, "lone": 1, "cpu": 1}
        cells = [_shown([run[key] for run in good if key in run], places) for key, places in digits.items()]
        lost = f" ({len(good)} of {len(runs)} runs)" if len(good) < len(runs) else ""
        yield f"{_start(kind)} {' | '.join(cells)}{lost} |"
    yield from group_table(kinds)


def group_table(kinds: dict[tuple[Any, ...], list[dict[str, Any]]]) -> Iterator[str]:
    """The mean code of a column in every group of a flag, of each kind of run."""
    names = list(json.loads(next(iter(kinds.values()))[0]["groups"]))
    if not names:
        return
    yield ""
    yield "Mean code of the second column in the rows of every code of the first (rows without it: nan)."
    yield ""
    yield f"| table | epsilon | program | marginals | label | {' | '.join(names)} |"
    yield "|---|---|---|---|---|" + "---|" * len(names)
    for kind, runs in kinds.items():
        found = [json.loads(run["groups"]) for run in runs if run["status"] == "ok"]
        if found:
            cells = [np.mean([groups[name] for groups in found], axis=0) for name in names]
            yield f"{_start(kind)} {' | '.join(' / '.join(f'{v:.2f}' for v in cell) for cell in cells)} |"


def _start(kind: tuple[Any, ...]) -> str:
    return f"| {' | '.join(f'{part:g}' if isinstance(part, float) else str(part) for part in kind)} |"


def _shown(values: list[float], places: int) -> str:
    if not values:
        return "-"
    spread = f" ({stdev(values):.{places}f})" if len(values) > 1 else ""
    return f"{mean(values):.{places}f}{spread}"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", required=True, help="a name, or the path of a CSV file of codes")
    made.add_argument("--label", required=True, metavar="COLUMN[@WEIGHT]")
    made.add_argument("--positive", type=int, default=1, help="the code that is to be told; default: 1")
    made.add_argument("--test", type=Path, metavar="CSV", help="real rows that no release sees")
    made.add_argument("--groups", nargs="+", default=[], metavar="FLAG:COLUMN")
    made.add_argument("--marginals", type=int, nargs="+", default=[2], help="orders; default: 2")
    made.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    made.add_argument("--delta", type=float, default=1e-9)
    made.add_argument("--runs", type=int, default=5)
    made.add_argument("--checkout", nargs="+", default=[], metavar="NAME=PATH", help="as `bench accuracy`")
    made.add_argument("--peers", nargs="*", metavar="NAME", help="as `bench accuracy`")
    made.add_argument("--peer-python", nargs="+", default=[], metavar="NAME=PATH")
    made.add_argument("--peers-only", action="store_true")
    made.add_argument("--beside", type=Path, nargs="+", default=[], help="as `bench accuracy`")
    made.add_argument("--limit", type=float, default=1800, help="seconds after which a run did not finish")
    made.add_argument("--keep", type=Path, metavar="FOLDER", help="default: a temporary one")
    made.add_argument("-o", "--output", type=Path, help="CSV of all runs")
    return made


def main() -> None:
    options = parser().parse_args()
    need_learners()
    with TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = list(recorded(measure(options, folder), FIELDS, options.output))
    rows += [row for row in earlier(options.beside, TEXTS) if row["program"] != "real"]
    print("\n".join(report(rows)))
