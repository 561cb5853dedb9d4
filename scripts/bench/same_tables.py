"""Tables that `bench same` runs on, the same every time, in memory and as files."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

CONFIGURATIONS = tomllib.loads(Path(__file__).with_name("same.toml").read_text(encoding="utf-8"))
DOMAIN = json.loads(CONFIGURATIONS["inputs"]["people.json"])
SEEN = ["age", "job", "hours", "smoker", "member"]
"""Columns of the table of visits."""


def people(rows: int = 2000) -> pa.Table:
    """Whole numbers, text, decimals, dates, truth values, moments; some missing."""
    rng = np.random.default_rng(12)
    jobs = ["clerk", "smith", 'naïve, "quoted"', "cook", "judge", "rare"]
    age = np.clip(rng.normal(40, 18, rows), 0, 90).astype(int)
    pay = np.round(np.exp(rng.normal(6, 1, rows)) + age * 3, 2)
    job = rng.choice(jobs, rows, p=[0.4, 0.25, 0.15, 0.12, 0.075, 0.005])
    days, seconds = rng.integers(0, 3600, rows), rng.integers(0, 366 * 86400, rows)
    hours = np.where(rng.random(rows) < 0.5, 40, rng.integers(0, 100, rows))
    columns = {
        "age": pa.array(age, pa.int64(), mask=rng.random(rows) < 0.03),
        "job": pa.array(job.tolist(), pa.string()),
        "pay": pa.array(pay, pa.float64(), mask=rng.random(rows) < 0.05),
        "joined": pa.array(np.datetime64("2015-01-01") + days, pa.date32()),
        "member": pa.array(age + rng.normal(0, 20, rows) > 40),
        "smoker": pa.array(np.where(rng.random(rows) < 0.2 + 0.3 * (job == "smith"), "yes", "no").tolist()),
        "level": pa.array(rng.choice(["low", "mid", "high"], rows, p=[0.5, 0.3, 0.2]).tolist()),
        "hours": pa.array(hours, pa.int64()),
        "seen": pa.array(np.datetime64("2020-01-01T00:00:00", "us") + seconds * 10**6, pa.timestamp("us")),
    }
    return pa.table(columns)


def visits() -> pa.Table:
    """Up to several rows a person, some of nobody."""
    rng = np.random.default_rng(13)
    table = people().select(SEEN)
    persons = [f"p{n}" for n in rng.integers(0, 700, len(table))]
    nobody = rng.random(len(table)) < 0.02
    return table.add_column(0, "person", pa.array(np.array(persons, dtype=object), pa.string(), mask=nobody))


def bits() -> pa.Table:
    rng = np.random.default_rng(14)
    base = rng.integers(0, 2, 2000)
    return pa.table({f"b{i}": (base ^ (rng.random(2000) < 0.1 * i)).astype(np.int64) for i in range(6)})


def notes() -> pa.Table:
    """Cells with line breaks and quotes."""
    rng = np.random.default_rng(15)
    words = ["plain", "two\nlines", 'a "word"', "with, comma", ""]
    return pa.table({"note": rng.choice(words, 400).tolist(), "n": rng.integers(0, 9, 400)})


def nulls() -> pa.Table:
    table = people(500).select(["age", "job", "pay", "joined", "member"])
    table = table.append_column("none", pa.nulls(500, pa.int64()))
    return table.append_column("nil", pa.nulls(500, pa.string()))


FRAMES: dict[str, Callable[[], Any]] = {
    "people": people,
    "visits": visits,
    "bits": bits,
    "nulls": nulls,
    "pandas": lambda: people().to_pandas(),
    "polars": lambda: import_module("polars").from_arrow(people()),
    "one column": lambda: people().select(["job"]),
    "one row": lambda: people().slice(0, 1),
    "empty": lambda: people().slice(0, 0),
    "large": lambda: people(60_000).select(["age", "job", "pay", "joined", "smoker", "hours"]),
    "categories": lambda: people().set_column(1, "job", people()["job"].dictionary_encode()),
}
"""Tables in memory, by name."""


def written(table: pa.Table, comma: str = ",") -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=comma, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return file.getvalue().encode()


def odd() -> bytes:
    """Numbers and words between semicolons, some cells missing, some lines too short."""
    rng = np.random.default_rng(16)
    numbers, words = rng.integers(0, 50, 600), rng.choice(["ja", "nein", '"vielleicht; bald"', ""], 600)
    pairs = zip(numbers, words, strict=True)
    lines = ["zahl;wort;rest", *(f"{n};{w};{n % 3}" if n else f"{n};{w}" for n, w in pairs)]
    return b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\r\n1;\xff;x\r\n"


def open_quote() -> bytes:
    lines = written(people()).decode().splitlines()
    lines[5], lines[9] = '40,"clerk,100', lines[9] + ",one more"
    return ("\n".join(lines) + "\n").encode()


def in_arrow(write: Callable[..., None], table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    write(table, sink)
    return sink.getvalue().to_pybytes()


OF_VISITS = [field for field in DOMAIN["fields"] if field["name"] in SEEN]
INPUTS: dict[str, Callable[[], bytes]] = {
    "people.parquet": lambda: in_arrow(pa.parquet.write_table, people()),
    "people.feather": lambda: in_arrow(pa.feather.write_feather, people()),
    "visits.parquet": lambda: in_arrow(pa.parquet.write_table, visits()),
    "people.csv": lambda: written(people()),
    "people.csv.gz": lambda: gzip.compress(written(people()), mtime=0),
    "people.tsv": lambda: written(people(), "\t"),
    "notes.csv": lambda: written(notes()),
    "bits.csv": lambda: written(bits()),
    "large.csv": lambda: written(people(60_000)),
    "odd.csv": odd,
    "lines.csv": open_quote,
    **{name: text.encode for name, text in CONFIGURATIONS["inputs"].items()},
    "draft.json": lambda: json.dumps({**DOMAIN, "draft": True}).encode(),
    "visits.json": lambda: json.dumps({"fields": OF_VISITS}).encode(),
}
"""Files that configurations name as IN/NAME; others are the checkout's own."""


def write_inputs(folder: Path, checkout: Path, names: set[str]) -> None:
    """Those files that are named and not there yet, and domains that lie beside them."""
    folder.mkdir(exist_ok=True)
    for name in {*names, *(name.replace(".csv", ".domain.json") for name in names)}:
        own, path = checkout / "datasets" / name, folder / name
        if path.exists() or (name not in INPUTS and not own.exists()):
            continue
        path.write_bytes(INPUTS[name]() if name in INPUTS else own.read_bytes())
