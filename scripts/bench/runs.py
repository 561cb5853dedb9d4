"""Accuracy, speed and scale of `fmwem release`, beside other programs and other checkouts. NOT PRIVATE: it
reads the tables.

    python scripts/bench accuracy --data adult_discretised adultcat --epsilons 0.1 1 10 --runs 5 -o out.csv
    python scripts/bench accuracy --epsilons 1 --peers aim-rule
    python scripts/bench speed --epsilons 1 --runs 1 --peers mst swift --peer-python mst=PY1 swift=PY2
    python scripts/bench scale --rows 50000 5000000 --attributes 10 1000 --cells 2 64

Every run, ours or a peer's, is a process of its own that reads the same CSV of codes and the same {"column":
size} domain and writes as many rows. Errors are L1 distances between normalised marginals of the real and the
synthetic rows (0 to 2), over all marginals of an order. CPU seconds are user and system time with children,
wall seconds run from the start of the process to its end, memory is the largest resident set. Our programs
run once unmeasured on every table first, because numba compiles once per installation, not per run.

A table is a name in the folder FMWEM_DATASETS (adult_discretised, adultcat, brfss2015, nltcs) or the path of
a CSV of codes with NAME.domain.json beside it. Peers are the drivers of peers.py, each run by the Python
that `--peer-python` names; aim-rule, AIM's rules on our own engine, needs none and runs once unmeasured, too.
`--checkout` runs the program in another folder beside, or instead of, the installed one.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.case import prepare
from bench.peers import ON_OUR_ENGINE, PEERS, Task
from bench.program import Program
from bench.scale import BASE, scale, scale_table

FIELDS = ("data", "program", "epsilon", "run", "e1", "e2", "e3", "max3", "cpu", "wall", "peak_mb", "status")
TEXTS = ("data", "program", "status")


def programs(options: argparse.Namespace) -> list[Program]:
    checkouts = dict(entry.split("=", 1) for entry in options.checkout)
    empty = [path for path in checkouts.values() if not (Path(path) / "factored_mwem").is_dir()]
    if empty:
        sys.exit(f"--checkout: {empty[0]} holds no factored_mwem")
    ours = [Program(name, sys.executable, os.path.abspath(path)) for name, path in checkouts.items()] or [
        Program("fmwem", sys.executable)
    ]
    pythons = dict.fromkeys(ON_OUR_ENGINE, sys.executable)
    pythons |= dict(entry.split("=", 1) for entry in options.peer_python)
    wanted = options.peers or (list(pythons) if options.peers is not None else [])
    missing = [name for name in wanted if name not in pythons or name not in PEERS]
    if missing:
        sys.exit(
            f"--peers {missing[0]}: name one of {', '.join(PEERS)}, and its Python with --peer-python "
            f"{missing[0]}=PATH"
        )
    return ([] if options.peers_only else ours) + [
        Program(name, pythons[name], ours=False) for name in wanted
    ]


def measure(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Every run asked for, one at a time."""
    for name in options.data:
        case, contenders = prepare(name, folder), programs(options)
        tasks = [
            Task(str(case.table), str(case.sizes_file), epsilon, options.delta, len(case.columns[0]))
            for epsilon in options.epsilons
        ]
        for program in contenders:
            if program.ours or program.name in ON_OUR_ENGINE:
                program.run(program.command(tasks[0], folder / "warm.csv"), options.limit)
        for task, program, run in itertools.product(tasks, contenders, range(options.runs)):
            out = folder / f"{case.name}.{program.name}.{task.epsilon:g}.{run}.csv"
            used = program.run(program.command(task, out), options.limit)
            try:
                used |= case.errors(out) if used["status"] == "ok" else {}
            except (
                ValueError,
                KeyError,
                OSError,
            ) as error:  # a program may leave anything behind, or nothing
                used["status"] = f"failed: {error}"
            yield {"data": case.name, "program": program.name, "epsilon": task.epsilon, "run": run, **used}


def recorded(
    rows: Iterable[dict[str, Any]], fields: tuple[str, ...], out: Path | None
) -> Iterator[dict[str, Any]]:
    """The same rows, each in the CSV and told of as soon as it is there: a long benchmark that breaks off
    leaves what it has.
    """
    file = open(out, "w", encoding="utf-8", newline="") if out else None  # noqa: SIM115
    writer = csv.DictWriter(file, fields, extrasaction="ignore") if file else None
    if writer:
        writer.writeheader()
    for row in rows:
        print(
            " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()),
            file=sys.stderr,
            flush=True,
        )
        if file and writer:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
            file.flush()
        yield row


def earlier(paths: list[Path], texts: tuple[str, ...] = TEXTS) -> Iterator[dict[str, Any]]:
    """Rows of CSV files that `recorded` wrote before; all but `texts` are numbers."""
    for path in paths:
        with open(path, encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                yield {k: v if k in texts else float(v) for k, v in row.items() if v != ""}


Groups = dict[tuple[str, float], dict[str, list[dict[str, Any]]]]


def grouped(rows: Iterable[dict[str, Any]]) -> Groups:
    """(data, epsilon) -> program -> its runs."""
    groups: Groups = {}
    for row in rows:
        groups.setdefault((row["data"], row["epsilon"]), {}).setdefault(row["program"], []).append(row)
    return groups


def mean(runs: list[dict[str, Any]], key: str) -> float:
    """Over the runs that ended well; nan where none did."""
    values = [run[key] for run in runs if run["status"] == "ok"]
    return statistics.mean(values) if values else float("nan")


def accuracy_table(groups: Groups) -> Iterator[str]:
    errors = "3-way mean (sd) | 3-way worst | 2-way mean | 1-way mean"
    yield f"| data | epsilon | program | {errors} | CPU s | wall s | peak MB |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for (data, epsilon), contenders in groups.items():
        for name, runs in contenders.items():
            good = [run["e3"] for run in runs if run["status"] == "ok"]
            if not good:
                yield f"| {data} | {epsilon:g} | {name} | {runs[0]['status']} " + "| " * 6 + "|"
                continue
            spread = f" ({statistics.stdev(good):.4f})" if len(good) > 1 else ""
            shown = name if len(good) == len(runs) else f"{name} ({len(good)} of {len(runs)} runs)"
            costs = f"{mean(runs, 'cpu'):.1f} | {mean(runs, 'wall'):.1f} | {mean(runs, 'peak_mb'):.0f}"
            errors = f"{mean(runs, 'max3'):.3f} | {mean(runs, 'e2'):.4f} | {mean(runs, 'e1'):.4f}"
            yield f"| {data} | {epsilon:g} | {shown} | {mean(runs, 'e3'):.4f}{spread} | {errors} | {costs} |"


def speed_table(groups: Groups, options: argparse.Namespace) -> Iterator[str]:
    """Ratios below one: ours is faster. Both sides come from this invocation, so from the same machine under
    the same load.
    """
    yield "| data | epsilon | ours / other | CPU s | CPU ratio | wall s | wall ratio | 3-way mean |"
    yield "|---|---|---|---|---|---|---|---|"
    first, *others = [program.name for program in programs(options)]
    for (data, epsilon), contenders in groups.items():
        for name in others:
            ours, theirs = contenders[first], contenders[name]
            pairs = [(mean(ours, key), mean(theirs, key)) for key in ("cpu", "wall", "e3")]
            if any(a != a or b != b for a, b in pairs):
                yield (
                    f"| {data} | {epsilon:g} | {first} / {name} | {ours[0]['status']} / "
                    f"{theirs[0]['status']} " + "| " * 4 + "|"
                )
                continue
            shown = [f"{a:.3g} / {b:.3g}" for a, b in pairs]
            ratios = [f"{a / b:.3g}" for a, b in pairs]
            costs = f"{shown[0]} | {ratios[0]} | {shown[1]} | {ratios[1]}"
            yield f"| {data} | {epsilon:g} | {first} / {name} | {costs} | {shown[2]} |"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("what", choices=("accuracy", "speed", "scale"))
    made.add_argument(
        "--data",
        nargs="+",
        default=["adult_discretised", "adultcat", "brfss2015"],
        help="names, or paths of CSV files of codes",
    )
    made.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    made.add_argument("--delta", type=float, default=1e-9)
    made.add_argument("--runs", type=int, default=5)
    made.add_argument(
        "--checkout",
        nargs="+",
        default=[],
        metavar="NAME=PATH",
        help="folders that hold factored_mwem; default: the installed one",
    )
    made.add_argument(
        "--peers",
        nargs="*",
        metavar="NAME",
        help="peers to run beside; without names, all that have a Python",
    )
    made.add_argument("--peer-python", nargs="+", default=[], metavar="NAME=PATH")
    made.add_argument("--peers-only", action="store_true")
    made.add_argument(
        "--beside",
        type=Path,
        nargs="+",
        default=[],
        help="accuracy: also show the rows of these CSV files, written earlier with -o",
    )
    made.add_argument("--limit", type=float, default=1800, help="seconds after which a run did not finish")
    made.add_argument("--rows", type=int, nargs="+", default=[50_000, 500_000, 5_000_000], help="scale")
    made.add_argument("--attributes", type=int, nargs="+", default=[10, 100, 1000], help="scale")
    made.add_argument(
        "--cells", type=int, nargs="+", default=[2, 16, 64], help="scale: codes of every attribute"
    )
    made.add_argument("--marginals", type=int, default=2, help="scale: all marginals of this order")
    made.add_argument(
        "--keep", type=Path, help="folder for the tables, real and synthetic; default: a temporary one"
    )
    made.add_argument("-o", "--output", type=Path, help="CSV of all runs")
    return made


def main() -> None:
    options = parser().parse_args()
    with TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.what == "scale":
            lines: Iterable[str] = scale_table(
                list(
                    recorded(
                        scale(programs(options)[0], options, folder),
                        (*BASE, "cpu", "wall", "peak_mb", "status", "phases"),
                        options.output,
                    )
                )
            )
        else:
            rows = list(recorded(measure(options, folder), FIELDS, options.output))
            shown = (
                grouped([*rows, *earlier(options.beside)]) if options.what == "accuracy" else grouped(rows)
            )
            lines = accuracy_table(shown) if options.what == "accuracy" else speed_table(shown, options)
        print("\n".join(lines))
