"""Streams by whole commands: piped in, from a database; and memory does not grow with the rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands import program
from support.processes import PYTHON, ended, printed

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
pytestmark = pytest.mark.usefixtures("forked_commands")
DOMAIN = {
    "fields": [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
        {"name": "word", "categories": ["a", "b"]},
    ]
}


def fmwem(folder: Path, line: str, *, given: str = "") -> Any:
    (folder / "d.json").write_text(json.dumps(DOMAIN))
    return ended(
        *program(f"{line} --domain d.json --marginals 2 --json"), cwd=folder, input=given, timeout=300
    )


def test_a_table_is_piped_in(tmp_path: Path) -> None:
    rows = "".join(f"{i % 100},{'ab'[i % 2]}\n" for i in range(5000))
    done = fmwem(tmp_path, "release -", given=f"age,word\n{rows}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == "stdin.synthetic.parquet"
    written = ["d.json", *(f"stdin.synthetic.{kind}" for kind in ("fmwem", "manifest.json", "parquet"))]
    assert sorted(p.name for p in tmp_path.iterdir()) == written
    again = fmwem(tmp_path, "verify -", given="age,word\n1,a\n")
    assert (again.returncode, json.loads(again.stdout)["budget_spent"]) == (2, False)


@pytest.mark.parametrize("how", ["", "--push-down"])
def test_a_table_of_a_database_by_its_uri(tmp_path: Path, how: str) -> None:
    if how:
        pytest.importorskip("ibis", reason="Ibis is not installed: nothing was pushed down")
    with duckdb.connect(str(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE SCHEMA sales")
        columns = "(i % 100)::bigint AS age, ['a', 'b'][i % 2 + 1] AS word"
        connection.execute(f"CREATE TABLE sales.people AS SELECT {columns} FROM range(5000) r(i)")
    uri = f"duckdb://{tmp_path}/shop.db#sales.people"
    before = (tmp_path / "shop.db").read_bytes()
    done = fmwem(tmp_path, f"release {uri} {how}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == "people.synthetic.parquet"
    assert abs(json.loads(done.stdout)["rows"] - 5000) < 200
    assert (tmp_path / "shop.db").read_bytes() == before
    refused = fmwem(tmp_path, f"release duckdb://{tmp_path}/none.db#others {how}")
    assert refused.returncode == 2 and "cannot open duckdb://" in refused.stderr
    assert not (tmp_path / "none.db").exists()


PEAK = """
import resource, sys
import numpy as np, pyarrow as pa
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import Spill
from factored_mwem.domain.domain import Domain
rows, recorded = int(sys.argv[1]), sys.argv[2] == "recorded"
names = [f"c{i}" for i in range(10)]
def batches():
    for at in range(0, rows, 2**17):
        column = pa.array(np.arange(at, at + 2**17) % 7)
        yield pa.RecordBatch.from_arrays([column] * 10, names)
schema = pa.schema([(n, pa.int64()) for n in names])
source = open_source(pa.RecordBatchReader.from_batches(schema, batches()))
if recorded:
    source.fingerprint(b"key")
fields = [{"name": n, "type": "integer", "constraints": {"minimum": 0, "maximum": 6}} for n in names]
data = source.encoded(Domain.from_dict({"fields": fields}), Spill(2**22))
assert len(data.columns[0]) >= rows
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(rows: int, how: str) -> float:
    """Bytes that were resident at most, mapped files included."""
    return float(printed(*PYTHON, PEAK, rows, how, timeout=300)) * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.parametrize("how", ["once", "recorded"])
def test_memory_does_not_grow_with_the_rows(how: str) -> None:
    """Four million rows more are 320 MB of Arrow, and 40 of codes, which are in files here."""
    assert peak(2**22 + 2**17, how) - peak(2**17, how) < 120e6
