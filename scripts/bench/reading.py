"""Reading of text files: CPU of our reader beside that of the library's own stream, which lets a quote run on
over lines. NOT PRIVATE.

    python scripts/bench reading                          # a made-up table of 494,021 x 42, numbers and text
    python scripts/bench reading big.csv --runs 9
    python scripts/bench reading --checkout OTHER/PATH    # also encode, with this checkout and another

Both read the same file in turn, whole, into columns of text, on one thread; what is shown is the ratio of
each pair of runs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

ROWS, COLUMNS = 494_021, 42
WORDS = (
    "tcp",
    "udp",
    "icmp",
    "http",
    "private",
    "ecr_i",
    "Self-emp, not inc",
    'say "hi"',
    "São Paulo",
    "SF",
    "S0",
    "normal.",
)
ENCODE = """
import sys, time
from factored_mwem import Domain
try:
    from factored_mwem.backends.codes import encode_table
    from factored_mwem.tables.source import open_table
except ModuleNotFoundError:  # a checkout without rooms
    from factored_mwem.codec import encode_table
    from factored_mwem.table import open_table
domain = Domain.load(sys.argv[2])
begun = time.process_time()
encode_table(domain, open_table(sys.argv[1]))
print(time.process_time() - begun)
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--checkout", type=Path, help="another checkout of this program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = options.file or made_up(Path(folder) / "table.csv")
        print(f"{file.name}: {file.stat().st_size / 1e6:.0f} MB")
        pairs(
            "read, ours / pyarrow's stream", lambda: cpu(ours, file), lambda: cpu(stream, file), options.runs
        )
        if options.checkout:
            domain = domain_of(file, Path(folder) / "domain.json")
            here = Path(__file__).parents[2]
            pairs(
                "encode, ours / the other checkout",
                lambda: encode(here, file, domain),
                lambda: encode(options.checkout, file, domain),
                options.runs,
            )


def made_up(path: Path) -> Path:
    """Numbers of one to six digits, decimals, and words, some of which must be quoted."""
    rng = np.random.default_rng(0)
    columns: dict[str, np.ndarray] = {}
    for i in range(COLUMNS):
        kind = i % 4
        numbers = rng.integers(0, 10 ** int(rng.integers(1, 7)), ROWS)
        columns[f"c{i}"] = (
            numbers if kind < 2 else np.round(rng.random(ROWS), 2) if kind == 2 else rng.choice(WORDS, ROWS)
        )
    csv.write_csv(pa.table(columns), path, csv.WriteOptions(quoting_style="needed"))
    return path


def domain_of(file: Path, path: Path) -> Path:
    """Every column as what it is, as a domain that nobody looked for in the data would say."""
    with open(file, encoding="utf-8") as lines:
        names = next(lines).strip().replace('"', "").split(",")
    number = {"type": "number", "constraints": {"minimum": 0, "maximum": 10**6}}
    words = {"type": "string", "categories": [*WORDS, "other"], "other": "other"}
    path.write_text(
        json.dumps(
            {"fields": [{"name": name, **(words if i % 4 == 3 else number)} for i, name in enumerate(names)]}
        )
    )
    return path


def ours(file: Path) -> int:
    from factored_mwem.tables.source import open_table

    table = open_table(file)
    return sum(batch.num_rows for batch in table.batches(table.schema.names))


def stream(file: Path) -> int:
    """As it was read before records had a definition: blocks of the library's choice, cells that run over
    lines, every batch validated.
    """
    with open(file, encoding="utf-8") as lines:
        names = next(lines).strip().replace('"', "").split(",")
    rows = 0
    for batch in csv.open_csv(
        pa.input_stream(str(file)),
        read_options=csv.ReadOptions(column_names=names, skip_rows=1, block_size=8 << 20, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=names,
            strings_can_be_null=False,
            null_values=[],
        ),
    ):
        batch.validate(full=True)
        rows += batch.num_rows
    return rows


def cpu(act: Callable[[Path], int], file: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    act(file)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def encode(checkout: Path, file: Path, domain: Path) -> float:
    """CPU seconds of encoding in a process of its own, by the package in `checkout`."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    found = subprocess.run(
        [sys.executable, "-c", ENCODE, str(file), str(domain)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(found.stdout)


def pairs(what: str, first: Callable[[], float], second: Callable[[], float], runs: int) -> None:
    first(), second()  # warm up
    ratios = [first() / second() for _ in range(runs)]
    print(
        f"{what}: CPU ratio {statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f}, "
        f"{runs} pairs)"
    )
