"""Spark rows: private rows that stay on a cluster, encoded, kept there and counted there. Sums come back."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import Busy, Changed, InputError
from factored_mwem.tables.backends import spark_tasks as tasks
from factored_mwem.tables.backends.datavectors import Axis
from factored_mwem.tables.inputs.table import Private

TASKS_A_CORE = 3
"""Each task sends all counts that are not zero, so there are few; those that are late hold up few."""
T = TypeVar("T")


class SparkRows(Private):
    """Datavectors over a frame of CODES, see spark_tasks.py, which Spark keeps until nobody asks any more.

    They are made, and kept, when this is: what can fail does so before a charge. Blocks that the cluster
    loses are encoded again, from rows that may have changed meanwhile; so every pass takes the marks again.
    """

    __slots__ = ("__weakref__", "_domain", "_kept", "marks", "sizes", "weighted")
    dear = True

    def __init__(self, codes: Any, domain: Domain, *, weighted: bool = False) -> None:
        self.weighted = weighted
        self._domain, self._kept, self.sizes = domain, keep(self, codes), domain.shape
        self.marks = self._summed(self._kept, tasks.SumMarks(), 1)[0]

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """int64[all cells]: see Datavectors. A task counts, one a part adds up, the rest is here.

        Memory of a task: 12 bytes a cell, and what is counted at a time.
        """
        task = tasks.CountMarginals(
            tasks.layout(self._domain, weighted=self.weighted), tuple(axes), members, offsets
        )
        cells = int(offsets[-1])
        few = self._kept.coalesce(TASKS_A_CORE * cores_of(self._kept.sparkSession))
        marks, summed = self._summed(few, task, -(-cells // tasks.PART_CELLS))
        if not np.array_equal(marks, self.marks):
            raise changed()
        counts = np.zeros(-(-cells // tasks.PART_CELLS) * tasks.PART_CELLS, dtype=np.int64)
        for part, sums in summed:
            counts[part * tasks.PART_CELLS :][: tasks.PART_CELLS] = tasks.counts_of(sums)
        return counts[:cells]

    def _summed(
        self, codes: Any, task: tasks.SparkTask, most: int
    ) -> tuple[tasks.Marks, list[tuple[int, bytes]]]:
        """What a task says of all rows, added up: the marks, and each of at most `most` parts once."""
        adding = max(1, min(cores_of(codes.sparkSession), most))
        each = codes.mapInArrow(task, tasks.SUMS)
        whole = each.repartition(adding, "part").mapInArrow(tasks.Add(), tasks.SUMS)
        table = collected(whole)
        marks, summed = tasks.NO_MARKS, []
        for part, sums in tasks.all_parts(table.to_batches()):
            if part == tasks.MARK:
                marks = marks + tasks.unpacked(sums)
            else:
                summed.append((part, sums))
        return marks, summed


def changed() -> Changed:
    return Changed(
        "the rows that Spark read are not those that it read before; release from what nothing writes to "
        "meanwhile: a snapshot, or a version of the table"
    )


def cores_of(session: Any) -> int:
    """How many tasks run at a time, as far as a session says so."""
    try:
        return max(1, int(session.sparkContext.defaultParallelism))
    except Exception:  # noqa: BLE001 - through Spark Connect there is no context
        return 16


def collected(frame: Any) -> pa.Table:
    """The rows of a frame of sums, here; errors as of `answered`."""
    return answered(frame.sparkSession, frame.toArrow)


def answered(session: Any, what: Callable[[], T]) -> T:
    """What Spark answers. Raises InputError if the workers cannot run this package; Busy if anything else
    failed.

    What Spark raises quotes rows, so nothing of it is said, it hangs on no error as its context, and the log
    that PySpark keeps in this process does not get it.
    """
    with _unlogged():
        try:
            return what()
        except Exception:  # noqa: BLE001 - see above
            pass
        why = _unfit(session)
    if why is not None:
        raise InputError(why)
    raise Busy(
        "Spark did not get through the rows; its own log says why, which is not repeated here, for it may "
        "quote rows"
    )


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    log = logging.getLogger("SQLQueryContextLogger")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def keep(owner: Any, frame: Any) -> Any:
    """The frame, kept in the cluster's memory or on its disks as long as there is its owner."""
    from pyspark import StorageLevel

    kept = answered(frame.sparkSession, lambda: frame.persist(StorageLevel.MEMORY_AND_DISK))
    weakref.finalize(owner, kept_no_more, kept).atexit = False  # when the session ends, so does this
    return kept


def kept_no_more(kept: Any) -> None:
    with contextlib.suppress(Exception):  # the session is gone, and what it kept too
        kept.unpersist()


def _unfit(session: Any) -> str | None:
    """Why workers cannot run tasks of this package, if they cannot: asked without any private row."""
    how = "its Python needs what this one has: pip install 'factored-mwem[spark]' there, or send a packed"
    how = f"{how} environment by spark.archives"
    try:
        each = session.range(0, cores_of(session), 1, cores_of(session))
        answers = each.mapInArrow(_probe(), "version string")
        versions = set(answers.toArrow().column(0).to_pylist())
    except Exception:  # noqa: BLE001 - whatever it is, it is not the rows
        return f"a worker of Spark cannot run Python tasks; {how}"
    wrong = sorted(versions - {tasks.own_version()})
    if not wrong:
        return None
    if wrong[0].startswith("-"):
        return f"a worker of Spark has no module {wrong[0][1:]!r}; {how}"
    return f"a worker of Spark has factored-mwem {wrong[0]}, this is {tasks.own_version()}; {how}"


def _probe() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that Spark sends as it is, not by the name of a module that may be missing there."""

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for _ in batches:
            pass
        try:
            from factored_mwem.tables.backends.spark_tasks import own_version
        except ImportError as error:
            fact = "-" + str(error.name).split(".")[0]
        else:
            fact = own_version()
        yield pyarrow.RecordBatch.from_pydict({"version": [fact]})

    return probe
