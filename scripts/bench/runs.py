"""Accuracy and scale of `fmwem release`, beside other programs and other checkouts. NOT PRIVATE: it reads the
tables.

    python scripts/bench accuracy --data adult_discretised adultcat --epsilons 0.1 1 10 --runs 5 -o out.csv
    python scripts/bench scale --rows 50000 5000000 --attributes 10 1000 --cells 2 64

Every run, ours or a peer's, is a process of its own that reads the same CSV of codes and the same {"column":
size} domain and writes as many rows. Errors are L1 distances between normalised marginals of the real and the
synthetic rows (0 to 2), over all marginals of an order. CPU seconds are user and system time with children,
wall seconds run from the start of the process to its end, memory is the largest resident set. Our programs
run once unmeasured on every table first, because numba compiles once per installation, not per run. `scale`
runs made-up tables, one quantity changed at a time.

A table is a name in the folder FMWEM_DATASETS (adult_discretised, adultcat, brfss2015, nltcs) or the path of
a CSV of codes with NAME.domain.json beside it. Peers are the drivers of peers.py, each run by the Python
that `--peer-python` names. `--checkout` runs the program in another folder beside, or instead of, the
installed one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from common.runner import Benchmark, Row

from bench.case import prepare
from bench.peers import Task
from bench.program import Job, Releases

BASE: Row = {"rows": 100_000, "attributes": 20, "cells": 4, "epsilon": 1.0}
"""What `scale` starts from; made-up rows."""


@dataclass(frozen=True, kw_only=True)
class Compared(Releases):
    data: Annotated[tuple[str, ...], "names in FMWEM_DATASETS, or paths of CSV files of codes"] = (
        *("adult_discretised", "adultcat", "brfss2015"),
    )


@dataclass(frozen=True, kw_only=True)
class Scaled(Releases):
    runs: int = 1
    rows: tuple[int, ...] = (50_000, 500_000, 5_000_000)
    attributes: tuple[int, ...] = (10, 100, 1000)
    cells: tuple[int, ...] = (2, 16, 64)
    marginals: Annotated[int, "all marginals of this order"] = 2
    max_memory: Annotated[str, "of our releases, which spill rows where it is too little"] = ""


def compared(options: Compared, folder: Path) -> Iterator[Row]:
    def jobs() -> Iterator[Job]:
        for name in options.data:
            case = prepare(name, folder)
            for epsilon, program in itertools.product(options.epsilons, options.programs()):
                about = {"data": case.name, "epsilon": epsilon, "program": program.name}
                command = partial(program.command, case.task(epsilon, options.delta))
                yield Job(about, program, command, case.errors, cold=case.name)

    return options.made(jobs(), folder)


def scaled(options: Scaled, folder: Path) -> Iterator[Row]:
    """One run for every value of every list, the other quantities as in BASE."""
    lists = {axis: getattr(options, "epsilons" if axis == "epsilon" else axis) for axis in BASE}
    points = [BASE, *({**BASE, axis: value} for axis, values in lists.items() for value in values)]
    program, asked = options.programs()[0], ["--max-memory", options.max_memory] if options.max_memory else []

    def jobs() -> Iterator[Job]:
        for point in [p for i, p in enumerate(points) if p not in points[:i]]:
            table = made_up(folder, *(point[axis] for axis in ("rows", "attributes", "cells")))
            files = (str(table), str(table.with_suffix(".json")))
            task = Task(*files, point["epsilon"], options.delta, point["rows"], options.marginals)
            yield Job(point, program, partial(program.command, task, *asked), lambda out: {}, ".parquet")

    return options.made(jobs(), folder)


def made_up(folder: Path, rows: int, attributes: int, cells: int) -> Path:
    """A table of skewed codes, every tenth column copied from its neighbour with errors, so that there is
    something to find; its domain beside it.
    """
    table = folder / f"made-up.{rows}.{attributes}.{cells}.parquet"
    if not table.exists():
        rng = np.random.default_rng(1)
        columns: dict[str, np.ndarray] = {}
        last = np.zeros(rows, dtype=np.int16)
        for a in range(attributes):
            fresh = (cells * rng.random(rows, dtype=np.float32) ** rng.uniform(1.5, 4)).astype(np.int16)
            last = np.where(rng.random(rows, dtype=np.float32) < 0.8, last, fresh) if a % 10 == 9 else fresh
            columns[f"a{a}"] = last
        pyarrow.parquet.write_table(pa.table(columns), table)
        table.with_suffix(".json").write_text(json.dumps(dict.fromkeys(columns, cells)), encoding="utf-8")
    return table


COSTS = "CPU s = {cpu:.1f} | wall s = {wall:.1f} | peak MB = {peak_mb:.0f}"
ERRORS = "3-way mean (sd) = {e3:.4f~} | 3-way worst = {max3:.3f} | 2-way mean = {e2:.4f}"
TABLE = f"{ERRORS} | 1-way mean = {{e1:.4f}} | {COSTS}"
accuracy = Benchmark(Compared, compared, "data epsilon program", TABLE)
scale = Benchmark(Scaled, scaled, "rows attributes cells epsilon", COSTS)
