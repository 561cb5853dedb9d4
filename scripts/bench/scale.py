"""Time, memory and where the time goes, on made-up tables of any size."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from bench.peers import Task
from bench.program import Program

BASE = {"rows": 100_000, "attributes": 20, "cells": 4, "epsilon": 1.0}
"""What `scale` starts from; made-up rows."""


def made_up(rows: int, attributes: int, cells: int, folder: Path) -> tuple[Path, Path]:
    """A table of skewed codes, every tenth column copied from its neighbour with errors, so that there is
    something to find; its domain.
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
    return table, table.with_suffix(".json")


def scale(program: Program, options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """One run for every value of every list, the other quantities as in BASE."""
    points = [BASE] + [
        {**BASE, axis: value}
        for axis in BASE
        for value in getattr(options, axis if axis != "epsilon" else "epsilons")
    ]
    for number, point in enumerate([BASE, *[p for i, p in enumerate(points) if p not in points[:i]]]):
        table, sizes = made_up(point["rows"], point["attributes"], point["cells"], folder)
        task = Task(str(table), str(sizes), point["epsilon"], options.delta, point["rows"])
        spent = folder / f"{number}.json"
        used = program.run(
            program.command(task, folder / "out.parquet", order=options.marginals, seconds=spent),
            options.limit,
        )
        phases = json.loads(spent.read_text(encoding="utf-8")) if used["status"] == "ok" else {}
        phases = {"start-up": round(used["wall"] - sum(phases.values()), 4), **phases} if phases else {}
        if number:  # the first run only compiles
            yield {**point, **used, "phases": phases}


def scale_table(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield "| rows | attributes | cells each | epsilon | wall s | CPU s | peak MB | where the time goes |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        phases = sorted(row["phases"].items(), key=lambda entry: -entry[1])
        shares = ", ".join(
            f"{name} {seconds / row['wall']:.0%}" for name, seconds in phases if seconds > 0.01 * row["wall"]
        )
        costs = f"{row['wall']:.1f} | {row['cpu']:.1f} | {row['peak_mb']:.0f}" if "wall" in row else "| |"
        where = f"{row['rows']:,} | {row['attributes']} | {row['cells']} | {row['epsilon']:g}"
        yield f"| {where} | {costs} | {shares if row['status'] == 'ok' else row['status']} |"
