"""Spark Connect: the same counts and the same silence through a server. In a process of its own, for one that
has a classic session cannot have the other.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.processes import PYTHON, printed

pytest.importorskip("pyspark", minversion="4", reason="PySpark is not installed (the extra `spark`)")
for needed in ("grpc", "grpc_status", "zstandard"):
    pytest.importorskip(needed, reason="pyspark[connect] is not installed")

SCRIPT = """
import numpy as np, pyarrow as pa
from pyspark.sql import SparkSession
from support.hostile_table import hostile_domain, hostile_table, hostile_views, oracle_counts
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import IN_MEMORY
from factored_mwem.errors import Busy

builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
domain, table = hostile_domain(typed=True), hostile_table(300, typed=True)
source = open_source(spark.createDataFrame(table))
views = hostile_views(domain, 1)
found = source.encoded(domain, IN_MEMORY).exact_counts(*views)
assert np.array_equal(found, oracle_counts(domain, table, *views))
assert source.bounded("word", 1).profile(["age"])["age"].votes().sum() <= 30
bad = spark.sql("select cast(x as int) as a from values ('1'), ('CANARY-4711') as t(x)")
try:
    open_source(bad).profile(["a"])
except Busy as error:
    assert error.__context__ is None and error.__cause__ is None and "CANARY" not in str(error)
else:
    raise AssertionError
print("equal")
"""


def test_counts_through_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SPARK_")]:
        monkeypatch.delenv(name)
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(root / "tests")])
    env = {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "PYTHONWARNINGS": "ignore"}
    said = printed(*PYTHON, SCRIPT, cwd=tmp_path, env=env, timeout=600)
    assert "equal" in said and "CANARY" not in said
