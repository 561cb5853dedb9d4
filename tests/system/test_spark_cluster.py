"""Spark on a standalone cluster of two workers that this file starts on the loopback, and stops."""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", minversion="4", reason="PySpark is not installed (the extra `spark`)")
import pyspark
from support import spark as of_spark
from support.fakes import FakeNoise
from support.hostile_table import hostile_domain, hostile_table, hostile_views, oracle_counts
from support.processes import free_port, serving

from factored_mwem.pipeline.release import make
from factored_mwem.request.request import Request
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import IN_MEMORY

HOST = "127.0.0.1"


@contextmanager
def spark_class(folder: Path, name: str, *arguments: object) -> Iterator[None]:
    """A daemon of Spark's as a child of this process, ended with it."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(folder / name),
        "SPARK_LOCAL_DIRS": str(folder),
    }
    command, log = (home / "bin/spark-class", *arguments), (folder / f"{name}.log").open("wb")
    with log, serving(*command, env=environment, stdout=log, stderr=log):
        yield


def workers(web: int) -> int:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{web}/json/", timeout=5) as answer:
            return answer.read().decode().count('"ALIVE"') - 1  # the master says so of itself
    except OSError:
        return 0


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder, port, web = tmp_path_factory.mktemp("cluster"), free_port(), free_port()
    master = ("org.apache.spark.deploy.master.Master", "--host", HOST, "--port", port)
    worker = ("org.apache.spark.deploy.worker.Worker", "--host", HOST, "--cores", "1", "--memory", "1g")
    with ExitStack() as stack:
        stack.enter_context(spark_class(folder, "master", *master, "--webui-port", web))
        for number in (1, 2):
            at = ("--port", 0, "--webui-port", free_port(), f"spark://{HOST}:{port}")
            stack.enter_context(spark_class(folder, f"worker{number}", *worker, *at))
        patience = time.monotonic() + 120
        while workers(web) < 2:
            assert time.monotonic() < patience, (folder / "master.log").read_text()[-2000:]
            time.sleep(0.5)
        settings = {
            "spark.executor.memory": "512m",
            "spark.task.maxFailures": "4",
            "spark.default.parallelism": "2",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }
        yield stack.enter_context(of_spark.session(f"spark://{HOST}:{port}", folder, **settings))


def test_two_workers_give_the_counts_of_plain_python(spark: Any, tmp_path: Path) -> None:
    domain, table = hostile_domain(typed=True), hostile_table(2000, typed=True)
    data = open_source(of_spark.frame(spark, table, tmp_path, 5)).encoded(domain, IN_MEMORY)
    views = hostile_views(domain, 2)
    assert np.array_equal(data.exact_counts(*views), oracle_counts(domain, table, *views))
    hosts = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    assert len(hosts) == 3  # the driver's, and two


def test_a_release_is_that_of_one_process(spark: Any, tmp_path: Path, in_rounds: None) -> None:
    """Tasks that fail when they have counted are retried, here or on the other worker."""
    names = ["word", "age", "day", "member", "share"]
    domain, table = hostile_domain(typed=True).project(names), hostile_table(3000, typed=True)

    def calls(source: Any) -> list[tuple[str, bytes, float]]:
        noise = FakeNoise(offset=lambda values, _: values + np.arange(len(values)) % 3)
        make(Request.of(source, 2, domain=domain, columns=names, sample_seed=1), noise=noise)
        return [(c.method, np.asarray(c.values).tobytes(), c.scale) for c in noise.calls]

    with pytest.MonkeyPatch.context() as patch:
        of_spark.fail_once(patch, tmp_path / "said")
        assert calls(of_spark.frame(spark, table, tmp_path, 4)) == calls(table)
    assert len(list((tmp_path / "said").glob("FailingCount-*"))) >= 4
