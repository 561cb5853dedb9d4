"""Drawing: CPU of rows drawn from a model, decoded and written, beside another checkout, in one run.

    python scripts/bench draw                                # 5,000,000 rows of a made-up model of 20 columns
    python scripts/bench draw --checkout OLD --rows 2e6 --runs 5
    python scripts/bench draw --rows 100e6 --workers 2 --parts -o /tmp

The model: 20 columns of 2 to 100 codes, text, integers, numbers and dates in turn, each drawn given two
earlier ones, from a million rows, released at epsilon 1 by the pairs that were tied (by the other checkout,
where one is given: this one reads its model file). Every measurement is a process of its own;
what it spends before the first row, reading and compiling too, is measured with one row and taken off.
`--parts`: a folder, by so many `--workers`; else, and in an older checkout always, one Parquet file.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from bench.program import LAUNCH, Program
from bench.tables import network

SIZES = [2, 3, 5, 2, 8, 12, 20, 4, 30, 50, 100, 6, 16, 10, 24, 3, 7, 40, 64, 9]
LIMIT = 7200.0
"""Seconds of one process."""


def make_table(folder: Path) -> Path:
    """A table, its domain and the workload, in a folder; the same bytes every time."""
    codes, parents = network(np.random.default_rng(0), SIZES, 1_000_000, concentration=0.3, evenly=0.1)
    columns, fields = {}, []
    days = np.datetime64("2020-01-01")
    for (name, code), size, kind in zip(codes.items(), SIZES, list(range(4)) * 5, strict=True):
        field: dict[str, object] = {"name": name, "constraints": {"required": True}}
        if kind == 0:
            values = [f"value {i:03} of {name}" for i in range(size)]
            columns[name] = pa.array(values).take(pa.array(code))
            field |= {"type": "string", "categories": values}
        elif kind == 1:
            columns[name] = pa.array(code.astype(np.int64))
            field |= {"type": "integer", "categories": list(range(size))}
        elif kind == 2:
            columns[name] = pa.array(code + 0.25)
            ends = {"minimum": 0, "maximum": size, "required": True}
            field |= {"type": "number", "constraints": ends, "bins": size}
        else:
            columns[name] = pa.array((days + 7 * code).astype("datetime64[D]"))
            ends = {"minimum": str(days), "maximum": str(days + 7 * size - 1), "required": True}
            field |= {"type": "date", "constraints": ends, "bins": size}
        fields.append(field)
    path = folder / "table.parquet"
    pyarrow.parquet.write_table(pa.table(columns), path)
    (folder / "table.domain.json").write_text(json.dumps({"fields": fields}), encoding="utf-8")
    pairs = [[f"c{parent}", name] for name, of in parents.items() for parent in of]
    (folder / "pairs.json").write_text(json.dumps({"marginals": 1, "cliques": pairs}), encoding="utf-8")
    return path


def measure(
    program: Program, model: Path, rows: int, options: argparse.Namespace, folder: Path
) -> dict[str, float]:
    """What drawing so many rows costs this program."""
    new = program.name == "now"
    out = folder / "drawn" if new and options.parts else folder / "drawn.parquet"
    workers = ["--workers", str(options.workers)] if new else []
    where = f"{out}/" if new and options.parts else str(out)
    command = [
        program.python,
        "-P",
        "-c",
        LAUNCH,
        "sample",
        str(model),
        "-n",
        str(rows),
        *workers,
        "-o",
        where,
    ]
    used = program.run([*command, "--sample-seed", "1", "--overwrite"], LIMIT)
    if used["status"] != "ok":
        sys.exit(f"{program.name}: {used['status']}")
    used["bytes"] = sum(file.stat().st_size for file in (out.iterdir() if out.is_dir() else [out]))
    shutil.rmtree(out) if out.is_dir() else out.unlink()
    return used


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--checkout", type=Path, metavar="OLD", help="also measure the package in this folder")
    made.add_argument("--rows", type=lambda text: int(float(text)), default=5_000_000)
    made.add_argument("--runs", type=int, default=3)
    made.add_argument("--workers", type=int, default=1)
    made.add_argument("--parts", action="store_true", help="write a folder of parts")
    made.add_argument("--model", type=Path, help="a model file of your own")
    made.add_argument("-o", "--output", type=Path, help="where rows are written for a while; default: TMPDIR")
    options = made.parse_args()
    programs = [Program("now", sys.executable, str(Path(__file__).resolve().parents[2]))]
    if options.checkout:
        programs.insert(0, Program("before", sys.executable, str(options.checkout.resolve())))
    with TemporaryDirectory(dir=options.output) as temporary:
        folder = Path(temporary)
        model = options.model or release(programs[0], folder)
        costs: dict[str, list[float]] = {program.name: [] for program in programs}
        for program in programs:
            measure(program, model, 1, options, folder)  # numba compiles once per installation, not per run
        for _ in range(options.runs):
            for program in programs:
                start = measure(program, model, 1, options, folder)
                whole = measure(program, model, options.rows, options, folder)
                each = (whole["cpu"] - start["cpu"]) / options.rows * 1e6
                costs[program.name].append(each)
                print(
                    f"{program.name:6} {each:.2f} CPU s per 1e6 rows, {start['cpu']:.1f} s before the first; "
                    f"{whole['wall']:.0f} s wall, peak {whole['peak_mb']:.0f} MB, "
                    f"{whole['bytes'] / options.rows:.1f} bytes a row",
                    flush=True,
                )
    medians = {name: statistics.median(each) for name, each in costs.items()}
    print(" ".join(f"{name} {median:.2f}" for name, median in medians.items()), end="")
    print(f", now/before {medians['now'] / medians['before']:.2f}" if options.checkout else "")


def release(program: Program, folder: Path) -> Path:
    """The model file, made once."""
    table, model = make_table(folder), folder / "model.fmwem"
    asked = ["--workload", str(folder / "pairs.json"), "--rows", "1000", "--model", str(model)]
    command = [program.python, "-P", "-c", LAUNCH, "release", str(table), *asked, "-q", "--no-progress"]
    used = program.run([*command, "-o", str(folder / "small.parquet")], LIMIT)
    if used["status"] != "ok":
        sys.exit(f"{program.name}: {used['status']}")
    return model
