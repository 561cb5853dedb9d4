"""The experiments of the MWEM paper (Hardt, Ligett, McSherry, NIPS 2012) from one command, and the iterative
constructions of Gupta, Roth and Ullman (TCC 2012). NOT PRIVATE: exact n, fixed seeds.

    python scripts/replay all --quick -o results/       all figures, at most 3 minutes on 2 cores
    python scripts/replay figure3 --full -o results/    one figure as in the paper; all take at most an hour

Writes NAME.csv, NAME.png and its panels NAME-1.png, NAME-2.png, ... for every figure and index.html, which
shows all figures beside the claims and how they fared. Each finished case is kept in NAME.cases.jsonl, so a
run that was interrupted goes on where it stopped; after a change of the code take a new folder. Data sets are
looked for in the folder FMWEM_DATASETS (or --data), the National Long-Term Care Survey also in the file
FMWEM_NLTCS. Needs the extra `plot`.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from factored_mwem import FmwemError, InputError
from replay import page
from replay.figure import HLM, OPEN, Claim, panels

NAMES = (
    *("table1", "theorem", "figure2", "figure3", "figure4", "figure5", "figure6", "figure7", "ablation"),
    "iterative",
)
PROCESSES = 2
ONE_THREAD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Row = dict[str, Any]


def work(name: str, case: Row) -> tuple[list[Row], float]:
    """The rows of a case and its seconds, in a process of the pool."""
    started = time.perf_counter()
    rows = importlib.import_module(f"replay.{name}").run(case)
    return rows, time.perf_counter() - started


class Store:
    """The finished cases of a figure, one JSON line each; a line that an interruption tore is not counted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Row] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                self.found[key(entry["case"])] = entry
            except (ValueError, KeyError, TypeError):
                continue
        if text and not text.endswith("\n"):
            with open(path, "a", encoding="utf-8") as lines:
                lines.write("\n")

    def add(self, case: Row, rows: list[Row], seconds: float) -> None:
        line = json.dumps(
            {"case": case, "rows": rows, "seconds": round(seconds, 3)}, default=lambda number: number.item()
        )
        with open(self.path, "a", encoding="utf-8") as lines:
            lines.write(line + "\n")
        self.found[key(case)] = json.loads(line)

    def rows(self, cases: list[Row]) -> list[Row]:
        """In the order of the cases, whatever the order in which they ended."""
        return [row for case in cases for row in self.found[key(case)]["rows"]]

    def seconds(self, cases: list[Row]) -> float:
        return float(sum(self.found[key(case)]["seconds"] for case in cases))


def key(case: Row) -> str:
    return json.dumps(case, sort_keys=True)


def compute(plans: dict[str, list[Row]], stores: dict[str, Store], console: Console) -> dict[str, str]:
    """Run what is not yet there, in two processes; returns figure -> why it cannot be drawn."""
    missing: dict[str, str] = {}
    columns = (TextColumn("{task.description:9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    pool = ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn"))
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks, futures = {}, {}
        for name, cases in plans.items():
            todo = [case for case in cases if key(case) not in stores[name].found]
            tasks[name] = progress.add_task(name, total=len(cases), completed=len(cases) - len(todo))
            futures |= {pool.submit(work, name, case): (name, case) for case in todo}
        try:
            for future in as_completed(futures):
                name, case = futures[future]
                reason = kept(future, case, stores[name])
                if reason and name not in missing:
                    missing[name] = reason
                    console.print(f"{name}: {reason}", soft_wrap=True, highlight=False)
                progress.advance(tasks[name])
        finally:
            pool.shutdown(cancel_futures=True)
    return missing


def kept(future: Future[tuple[list[Row], float]], case: Row, store: Store) -> str:
    """Store what a case found; returns in one line what it lacked, '' where nothing."""
    try:
        store.add(case, *future.result())
    except InputError as error:
        return str(error)
    return ""


def write_csv(rows: list[Row], path: Path) -> None:
    """All columns in the order in which they appear, and `private`, which says no."""
    fields = list(dict.fromkeys(name for row in rows for name in row))
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*fields, "private"])
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {k: f"{v:.8g}" if isinstance(v, float) else v for k, v in row.items()} | {"private": "no"}
            )


def finish(name: str, cases: list[Row], store: Store, folder: Path) -> page.Section:
    """CSV, PNGs, tables and marks of a figure all of whose cases are there."""
    figure, rows = importlib.import_module(f"replay.{name}"), store.rows(cases)
    write_csv(rows, folder / f"{name}.csv")
    whole = folder / f"{name}.png"
    if hasattr(figure, "plot"):
        figure.plot(rows, whole)
    images = [panel.read_bytes() for panel in panels(whole)]
    tables = figure.tables(rows) if hasattr(figure, "tables") else ()
    effort = f"{store.seconds(cases):.1f} s of computing in {len(cases)} cases"
    claims, source = figure.judge(rows), getattr(figure, "SOURCE", HLM)
    return page.Section(name, figure.TITLE, figure.SETTINGS, effort, images, claims, tables, source)


def replay(names: list[str], folder: Path, console: Console, *, full: bool) -> list[page.Section]:
    """Compute, write and show these figures."""
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    plans = {name: importlib.import_module(f"replay.{name}").cases(full) for name in names}
    stores = {name: Store(folder / f"{name}.cases.jsonl") for name in names}
    missing = compute(plans, stores, console)
    sections = []
    for name in names:
        if name in missing:
            figure = importlib.import_module(f"replay.{name}")
            none = Claim("what the paper claims here", OPEN, missing[name])
            section = page.Section(name, figure.TITLE, figure.SETTINGS, missing[name], [], [none])
        else:
            section = finish(name, plans[name], stores[name], folder)
        sections.append(section)
        for claim in section.claims:
            console.print(
                f"{name}: {claim.verdict.upper()}: {claim.text} ({claim.why})",
                soft_wrap=True,
                highlight=False,
                markup=False,
            )
    size = "full" if full else "quick"
    facts = [
        f"{size} size",
        f"{time.perf_counter() - started:.0f} s in this run",
        f"{PROCESSES} processes",
        *page.machine(),
    ]
    (folder / "index.html").write_text(page.html(sections, facts), encoding="utf-8")
    console.print(f"wrote {folder / 'index.html'}", soft_wrap=True, highlight=False)
    return sections


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=(*NAMES, "all"))
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few repetitions and small grids (the default)")
    size.add_argument("--full", action="store_true", help="the paper's repetitions and grids")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--data", type=Path, help="folder of the data sets; default: FMWEM_DATASETS")
    options = parser.parse_args(arguments)
    os.environ |= dict.fromkeys(ONE_THREAD, "1")
    if options.data:
        os.environ["FMWEM_DATASETS"] = str(options.data)
    names = list(NAMES) if options.what == "all" else [options.what]
    try:
        replay(names, options.output, Console(stderr=True), full=options.full)
    except FmwemError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on where this one stopped")
