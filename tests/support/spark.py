"""Spark sessions for tests, and tasks that fail on purpose."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", minversion="4", reason="PySpark is not installed (the extra `spark`)")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("there is no Java for Spark", allow_module_level=True)

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from factored_mwem.tables.backends import spark_tasks as tasks

PERSISTENT = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@contextmanager
def session(master: str, folder: Path, **more: str) -> Iterator[SparkSession]:
    """The one session of this process; its workers run this Python."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).config("spark.local.dir", str(folder))
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    for name, value in {**PERSISTENT, **more}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        yield spark
    finally:
        spark.stop()


def frame(spark: SparkSession, table: pa.Table, folder: Path, parts: int) -> Any:
    """The table as Spark reads it from Parquet, in shuffled parts, of which some may be empty."""
    import pyarrow.parquet as pq

    path = folder / f"{id(table)}.parquet"
    pq.write_table(table, path)
    found = spark.read.parquet(str(path))
    return found.repartition(parts) if parts > 1 else found


def kept(spark: SparkSession) -> int:
    """How many frames Spark keeps."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


def lose_blocks(spark: SparkSession) -> None:
    """All blocks that Spark keeps are gone, as when a worker dies; it knows how to make them again."""
    for rdd in list(spark.sparkContext._jsc.getPersistentRDDs().values()):
        rdd.unpersist(True)


class _Failing:
    """Fails at its first attempt, after its work is done and handed on; leaves a file to say so."""

    def __call__(self, batches: Any) -> Any:
        from pyspark import TaskContext

        yield from super().__call__(batches)  # type: ignore[misc]
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            number = f"{type(self).__name__}-{context.stageId()}-{context.partitionId()}"
            Path(self.said, number).touch()  # type: ignore[attr-defined]
            raise RuntimeError("on purpose")


@dataclass(frozen=True)
class FailingEncode(_Failing, tasks.Encode):
    said: str = ""


@dataclass(frozen=True)
class FailingCount(_Failing, tasks.CountMarginals):
    said: str = ""


@dataclass(frozen=True)
class FailingAdd(_Failing, tasks.Add):
    said: str = ""


def fail_once(patch: pytest.MonkeyPatch, said: Path) -> None:
    """Every task dies once when its work is done, and leaves a file in `said`, a new folder."""
    said.mkdir()
    for name, failing in (("Encode", FailingEncode), ("CountMarginals", FailingCount), ("Add", FailingAdd)):
        patch.setattr(tasks, name, functools.partial(failing, said=str(said)))


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers know nothing of the tests
