"""The experiments of the MWEM paper (Hardt, Ligett and McSherry, NIPS 2012) from one command, and the
iterative constructions of Gupta, Roth and Ullman (TCC 2012). NOT PRIVATE: exact n, fixed seeds.

    python scripts/replay all --quick -o results/       all figures, at most 3 minutes on 2 cores
    python scripts/replay figure3 --full -o results/    one figure as in the paper; all take at most an hour

Writes NAME.csv, NAME.png and its panels NAME-1.png, NAME-2.png, ... for every figure and index.html, which
shows all figures that were finished in the folder beside the claims and how they fared. Each finished case is
kept in NAME.cases.jsonl, so a run that was interrupted goes on where it stopped; after a change of the code
take a new folder. Data sets are looked for in the folder FMWEM_DATASETS (or --data), the National Long-Term
Care Survey also in the file FMWEM_NLTCS. Needs the extra `plot`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import sys
import time
import typing
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pandas as pd
from common.runner import parse
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from factored_mwem import FmwemError, InputError
from replay import page
from replay.drawing import save
from replay.figure import OPEN, Claim, Row, judge, told

What = Literal[
    *("table1", "theorem", "figure2", "figure3", "figure4", "figure5", "figure6", "figure7", "ablation"),
    *("iterative", "all"),
]
NAMES = typing.get_args(What)[:-1]
PROCESSES = 2
ONE_THREAD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def work(name: str, case: Row) -> tuple[list[Row], float]:
    """The rows of a case and its seconds, in a process of the pool."""
    started = time.perf_counter()
    rows = importlib.import_module(f"replay.{name}").run(case)
    return rows, time.perf_counter() - started


class Store:
    """The cases of a figure and those of them that are finished, one JSON line each; a line that an
    interruption tore is not counted.
    """

    def __init__(self, path: Path, cases: list[Row]) -> None:
        self.path, self.cases, self.entries = path, {json.dumps(c, sort_keys=True): c for c in cases}, {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for line in text.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self._keep(line)
        if text and not text.endswith("\n"):
            self._append("")

    def _keep(self, line: str) -> None:
        entry = json.loads(line)
        self.entries[json.dumps(entry["case"], sort_keys=True)] = entry

    def _append(self, line: str) -> None:
        with open(self.path, "a", encoding="utf-8") as lines:
            lines.write(line + "\n")

    def add(self, case: Row, rows: list[Row], seconds: float) -> None:
        entry = {"case": case, "rows": rows, "seconds": round(seconds, 3)}
        line = json.dumps(entry, default=lambda number: number.item())
        self._append(line)
        self._keep(line)

    def missing(self) -> list[Row]:
        return [case for key, case in self.cases.items() if key not in self.entries]

    def finished(self) -> list[Row]:
        """In the order of the cases, whatever the order in which they ended."""
        return [self.entries[key] for key in self.cases]


def compute(stores: dict[str, Store], console: Console) -> dict[str, str]:
    """Run what is not yet there, in two processes; returns figure -> why it cannot be drawn."""
    lacking: dict[str, str] = {}
    columns = (TextColumn("{task.description:9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    pool = ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn"))
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks, futures = {}, {}
        for name, store in stores.items():
            todo, total = store.missing(), len(store.cases)
            tasks[name] = progress.add_task(name, total=total, completed=total - len(todo))
            futures |= {pool.submit(work, name, case): (name, case) for case in todo}
        try:
            for future in as_completed(futures):
                name, case = futures[future]
                try:
                    stores[name].add(case, *future.result())
                except InputError as error:
                    if name not in lacking:
                        lacking[name] = str(error)
                        console.print(f"{name}: {error}", soft_wrap=True, highlight=False)
                progress.advance(tasks[name])
        finally:
            pool.shutdown(cancel_futures=True)
    return lacking


def section(name: str, store: Store, lacking: str, folder: Path) -> page.Section:
    """CSV, PNGs, tables and marks of a figure all of whose cases are there, or what it lacks."""
    figure = importlib.import_module(f"replay.{name}")
    shown = page.Section(name, *(told(figure, key) for key in ("title", "settings", "source")))
    if lacking:
        claim = Claim("what the paper claims here", OPEN, lacking)
        return shown._replace(effort=lacking, claims=[claim])
    finished = store.finished()
    rows = [row for entry in finished for row in entry["rows"]]
    cells = [{k: f"{v:.8g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    table = pd.DataFrame(cells, dtype=object).assign(private="no")
    table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\r\n")
    panels = save(figure.plot(rows), folder / f"{name}.png") if hasattr(figure, "plot") else []
    seconds = float(sum(entry["seconds"] for entry in finished))
    return shown._replace(
        effort=f"{seconds:.1f} s of computing in {len(finished)} cases",
        images=[panel.read_bytes() for panel in panels],
        claims=judge(figure, rows),
        tables=figure.tables(rows) if hasattr(figure, "tables") else (),
    )


def earlier(names: list[str], folder: Path, *, full: bool) -> list[page.Section]:
    """The figures beside `names` that earlier runs finished in the folder, of this size or else of the other:
    they stay on the page.
    """
    kept = []
    for name in NAMES:
        path = folder / f"{name}.cases.jsonl"
        if name in names or not path.exists():
            continue
        for size in (full, not full):
            store = Store(path, importlib.import_module(f"replay.{name}").cases(size))
            if not store.missing():
                shown = section(name, store, "", folder)
                ran = f"{shown.effort}, in an earlier run of {'full' if size else 'quick'} size"
                kept.append(shown._replace(effort=ran))
                break
    return kept


def replay(names: list[str], folder: Path, console: Console, *, full: bool) -> list[page.Section]:
    """Compute, write and show these figures."""
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    cases = {name: importlib.import_module(f"replay.{name}").cases(full) for name in names}
    stores = {name: Store(folder / f"{name}.cases.jsonl", cases[name]) for name in names}
    lacking = compute(stores, console)
    sections = [section(name, stores[name], lacking.get(name, ""), folder) for name in names]
    for each in sections:
        for claim in each.claims:
            line = f"{each.name}: {claim.verdict.upper()}: {claim.text} ({claim.why})"
            console.print(line, soft_wrap=True, highlight=False, markup=False)
    shown = sorted([*sections, *earlier(names, folder, full=full)], key=lambda s: NAMES.index(s.name))
    took = f"{time.perf_counter() - started:.0f} s in this run"
    facts = [f"{'full' if full else 'quick'} size", took, f"{PROCESSES} processes", *page.machine()]
    (folder / "index.html").write_text(page.html(shown, facts), encoding="utf-8")
    console.print(f"wrote {folder / 'index.html'}", soft_wrap=True, highlight=False)
    return sections


@dataclass(frozen=True, kw_only=True)
class Replay:
    places: ClassVar[tuple[str, ...]] = ("what",)
    what: What
    output: Annotated[Path, "folder for the results"]
    quick: Annotated[bool, "few repetitions and small grids (the default)"] = False
    full: Annotated[bool, "the paper's repetitions and grids"] = False
    data: Annotated[Path | None, "folder of the data sets; default: FMWEM_DATASETS"] = None


def main(arguments: list[str] | None = None) -> None:
    options = parse(Replay, __doc__, "replay", arguments)
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
