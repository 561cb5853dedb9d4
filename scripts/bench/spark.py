"""A release on Spark beside the same one in this process: CPU of the JVM and of Python, passes, memory here.

    python scripts/bench spark --rows 1000000        # needs the extra `spark`, and /proc

20 columns of text, integers, numbers and dates, all triples, a declared domain. Each way runs in a process of
its own; the JVM and the workers are its children. Wall times are not told: they are the machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GROUP = 2**20


def domain() -> dict[str, Any]:
    fields: list[dict[str, Any]] = []
    for i in range(5):
        fields.append({"name": f"t{i}", "categories": [f"{'v' * i}{j}" for j in range((3, 5, 8, 20, 50)[i])]})
        most = (9, 19, 39, 99, 999)[i]
        whole = {"minimum": 0, "maximum": most}
        fields.append({"name": f"i{i}", "type": "integer", "bins": min(20, most + 1), "constraints": whole})
        fields.append(
            {"name": f"n{i}", "type": "number", "bins": 16, "constraints": {"minimum": -4, "maximum": 4}}
        )
        days = {"minimum": "2020-01-01", "maximum": "2023-12-31"}
        fields.append({"name": f"d{i}", "type": "date", "bins": 12, "constraints": days})
    return {"fields": fields}


def write(path: Path, rows: int) -> None:
    """Columns that hang together, a group of rows at a time."""
    rng, writer = np.random.default_rng(7), None
    for at in range(0, rows, GROUP):
        n = min(GROUP, rows - at)
        hidden, columns = rng.normal(size=(3, n)), {}
        for k, field in enumerate(domain()["fields"]):
            mixed = (hidden[k % 3] + rng.normal(size=n)) / 2**0.5
            share = np.clip((mixed + 4) / 8, 0, 0.999999)
            name = field["name"]
            if "categories" in field:
                codes = (share * len(field["categories"])).astype(np.int32)
                columns[name] = pa.DictionaryArray.from_arrays(codes, field["categories"]).cast(pa.string())
            elif field["type"] == "integer":
                columns[name] = (share * (field["constraints"]["maximum"] + 1)).astype(np.int64)
            elif field["type"] == "number":
                columns[name] = mixed
            else:
                columns[name] = pa.array((18262 + share * 1461).astype(np.int32)).cast(pa.date32())
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def cpu_of(pid: int) -> float:
    """CPU seconds of a process, and of its children that are gone."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def below(pid: int) -> list[int]:
    children = [
        int(c) for t in Path(f"/proc/{pid}/task").iterdir() for c in (t / "children").read_text().split()
    ]
    return [*children, *(grand for child in children for grand in below(child))]


def one(where: str, path: str, cores: int) -> dict[str, Any]:
    """CPU seconds of a release, after a small one: what starting and compiling takes is left out."""
    from factored_mwem import Domain, release
    from factored_mwem.backends.spark_rows import SparkRows

    passes = 0
    if where == "spark":
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "4g")
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        counted = SparkRows.exact_counts

        def noted(self: Any, *arguments: Any) -> np.ndarray:
            nonlocal passes
            passes += 1
            return counted(self, *arguments)

        SparkRows.exact_counts = noted  # type: ignore[method-assign]

    def go(some: str) -> None:
        table = spark.read.parquet(some) if where == "spark" else some
        release(table, 3, domain=Domain.from_dict(domain()), epsilon=1.0, sample_seed=1, rows=1000)

    go(str(Path(path).with_name("small.parquet")))
    passes, own = 0, os.getpid()
    before = {pid: cpu_of(pid) for pid in [own, *below(own)]}
    go(path)
    spent = {"jvm": 0.0, "workers": 0.0, "driver": cpu_of(own) - before[own]}
    for pid in below(own):
        java = "java" in Path(f"/proc/{pid}/comm").read_text()
        spent["jvm" if java else "workers"] += cpu_of(pid) - before.get(pid, 0.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return {**spent, "all": sum(spent.values()), "passes": passes, "peak_gb": peak}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.path, given.cores)))
        return
    print(
        f"{'rows':>12} {'where':6} {'JVM':>7} {'workers':>8} {'driver':>7} {'all':>7}  passes  peak GB here"
    )
    for rows in given.rows:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "table.parquet")
            write(path, rows)
            write(path.with_name("small.parquet"), 20_000)
            for where in ("here", "spark"):
                command = [
                    sys.executable,
                    __file__,
                    "--one",
                    where,
                    "--path",
                    path,
                    "--cores",
                    str(given.cores),
                ]
                told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                x = json.loads(told.splitlines()[-1])
                cpu = f"{x['jvm']:7.1f} {x['workers']:8.1f} {x['driver']:7.1f} {x['all']:7.1f}"
                print(f"{rows:12,} {where:6} {cpu}  {x['passes']:6}  {x['peak_gb']:.2f}", flush=True)


if __name__ == "__main__":
    main()
