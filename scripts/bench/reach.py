"""CPU and memory of whole releases of tables of many rows: in memory, spilled, and of another version.

    python -m bench reach --rows 1000000,5000000 [--max-memory 2GB] [--other PYTHON] [--folder DIR]

The table has 20 columns (texts, integers, numbers, dates; 2 to 100 codes, dependent), in Parquet, with a
declared domain; asked are all 1,140 triples. Every release runs in a process of its own; a row says which
program, how many rows, CPU seconds of the process and its children, and the most memory that was resident.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = (2, 2, 3, 4, 5, 5, 6, 8, 10, 10, 12, 16, 20, 20, 24, 30, 32, 40, 50, 100)
CHUNK = 10**6
RELEASE = """
import resource, sys, time
from factored_mwem import release
table, domain, spill = sys.argv[1:4]
started = time.perf_counter()
more = {"max_memory": spill} if spill else {}
made = release(table, 3, domain=domain, rows=1000, sample_seed=1, epsilon=1.0, **more)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, time.perf_counter() - started)
"""


def make_table(path: Path, rows: int) -> None:
    """Rows from a hidden variable, a million at a time, each a row group."""
    writer = None
    for at in range(0, rows, CHUNK):
        rng = np.random.default_rng([7, at])
        table = pa.table(_columns(rng, min(CHUNK, rows - at)))
        writer = writer or pq.ParquetWriter(path, table.schema, compression="snappy")
        writer.write_table(table, row_group_size=CHUNK)
    if writer is not None:
        writer.close()


def _columns(rng: np.random.Generator, rows: int) -> dict[str, pa.Array]:
    hidden, columns = rng.random(rows), {}
    for i, size in enumerate(SIZES):
        mixed = np.where(rng.random(rows) < 0.6, hidden, rng.random(rows))
        codes = np.minimum((mixed**1.5 * size).astype(np.int64), size - 1)
        kind = i % 4
        if kind == 0:
            texts = pa.array([f"value {v}" for v in range(size)])
            columns[f"c{i}"] = texts.take(pa.array(codes))
        elif kind == 1:
            columns[f"c{i}"] = pa.array(codes)
        elif kind == 2:
            columns[f"c{i}"] = pa.array(codes + rng.random(rows))
        else:
            columns[f"c{i}"] = pa.array((codes + 10957).astype("datetime64[D]"))
    return columns


def domain() -> dict[str, Any]:
    """What the columns hold."""
    fields: list[dict[str, Any]] = []
    for i, size in enumerate(SIZES):
        field: dict[str, Any] = {"name": f"c{i}"}
        if i % 4 == 0:
            field |= {"type": "string", "categories": [f"value {v}" for v in range(size)]}
        elif i % 4 == 1:
            field |= {"type": "integer", "constraints": {"minimum": 0, "maximum": size - 1}}
        elif i % 4 == 2:
            field |= {"type": "number", "constraints": {"minimum": 0, "maximum": size}, "bins": size}
        else:
            first = np.datetime64(10957, "D")
            field |= {
                "type": "date",
                "constraints": {"minimum": str(first), "maximum": str(first + size - 1)},
            }
        field.setdefault("constraints", {})["required"] = True
        fields.append(field)
    return {"fields": fields}


def measured(python: str, table: Path, described: Path, memory: str) -> tuple[float, float, float]:
    """(CPU seconds, most resident MB, seconds) of a release in a process of its own."""
    done = subprocess.run(
        [python, "-c", RELEASE, str(table), str(described), memory],
        check=True,
        capture_output=True,
        text=True,
        cwd=table.parent,
    )
    cpu, resident, wall = map(float, done.stdout.split()[-3:])
    return cpu, resident, wall


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench reach", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", default="1000000")
    parser.add_argument("--max-memory", default="", help="spill beyond a quarter of this")
    parser.add_argument("--other", help="the Python of another version to run on the same tables")
    parser.add_argument("--folder", type=Path, help="where tables are kept; else they are made and removed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        described = folder / "domain.json"
        described.write_text(json.dumps(domain()))
        print(f"{'program':10} {'rows':>12} {'CPU s':>9} {'MB':>8} {'s':>8}", flush=True)
        for rows in map(int, given.rows.split(",")):
            table = folder / f"rows-{rows}.parquet"
            if not table.exists():
                make_table(table, rows)
            ways = [("memory", sys.executable, "")]
            ways += [("spilled", sys.executable, given.max_memory)] if given.max_memory else []
            ways += [("other", given.other, "")] if given.other else []
            for name, python, memory in ways:
                cpu, resident, wall = measured(python, table, described, memory)
                print(f"{name:10} {rows:12,} {cpu:9.1f} {resident:8.0f} {wall:8.1f}", flush=True)
