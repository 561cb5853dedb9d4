"""A data frame of PySpark, and what every pass over its rows does: take their marks, and compare them."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.tables.backends import spark_tasks as tasks
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.backends.spark_rows import changed, collected
from factored_mwem.tables.codes.profile import ColumnProfile

ORDER = "factored-mwem: which rows of a person stay"
"""Goes into the hash by which a person's rows are ordered. Anybody may know it: whatever the order, it looks
at that person's rows alone; the hash is there so that no value is favoured. It never changes, so that the
same rows stay when a run is taken up again.
"""
ROWS = "rows"
"""The column of how many rows of its person are used."""


class Seen(NamedTuple):
    """By what two passes over the rows are compared: hashes of the columns `over`, under a `key`."""

    key: str
    over: tuple[str, ...]
    marks: tasks.Marks | None = None


class OnSpark(Source):
    """A table on a cluster.

    `at[name]` is the column of `frame` that holds it; those of types that no release can hold are never
    read. Every pass over rows that Spark has not kept takes their marks; raises Changed if they differ.
    """

    __slots__ = ("__weakref__", "_seen", "at", "frame", "schema")
    text, cluster = False, "Spark"

    def __init__(self, frame: Any, schema: pa.Schema, at: dict[str, str]) -> None:
        self.frame, self.schema, self.at = frame, schema, at
        self._seen: Seen | None = None

    @abstractmethod
    def _rows(self, columns: Sequence[str]) -> Any:
        """The rows of these columns, what they weigh where they do, then two keyed hashes of each, for its
        marks.
        """

    def _broken(self, rows: Any, task: tasks.CountBroken) -> np.ndarray:
        marks, counts = tasks.NO_MARKS, np.zeros(len(task.hypotheses), dtype=np.int64)
        for part, sums in tasks.all_parts(collected(rows.mapInArrow(task, tasks.SUMS)).to_batches()):
            if part == tasks.MARK:
                marks = marks + tasks.unpacked(sums)
            else:
                counts += np.frombuffer(sums, "<i8")
        self._compare(marks)
        return counts

    def _counted(
        self, rows: Any, profiles: dict[str, ColumnProfile], task: tasks.SparkTask
    ) -> dict[str, ColumnProfile]:
        """The profiles, with what the task counts of their columns, which `rows` has in that order."""
        from pyspark.sql import functions as F

        columns = list(profiles)
        each = rows.mapInArrow(task, tasks.VALUES)
        whole = each.groupBy("name", "value").agg(F.sum("rows").alias("rows"))
        marks = tasks.NO_MARKS
        for batch in collected(whole).to_batches():
            numbers = np.asarray(batch.column("name"))
            for number in np.unique(numbers).tolist():
                some = batch.filter(pa.array(numbers == number))
                values, rows_of = some.column("value"), some.column("rows")
                if number == tasks.MARK:
                    hashed = zip(map(tasks.unpacked, values.to_pylist()), rows_of.to_pylist(), strict=True)
                    marks = sum((each * np.uint64(times) for each, times in hashed), marks)
                else:
                    name = columns[number]
                    kind = self.schema.field(name).type
                    profiles[name].add_counted(tasks.cooked(values, kind), rows_of)
        self._compare(marks)
        return profiles

    def _marked(self, columns: Sequence[str]) -> list[Any]:
        """The hashes of each row, over the columns of the first pass."""
        if self._seen is None:
            self._seen = Seen(secrets.token_hex(16), tuple(columns))
        return self._hashes()

    def _hashes(self) -> list[Any]:
        """A hash passes over nulls, so which columns are null is hashed, too."""
        from pyspark.sql import functions as F

        assert self._seen is not None
        columns = [F.col(self.at[name]) for name in self._seen.over]
        hashed = [*columns, *(column.isNull() for column in columns)]
        return [F.xxhash64(F.lit(f"{c} {self._seen.key}"), *hashed).alias(c) for c in "ab"]

    def _compare(self, marks: tasks.Marks) -> None:
        assert self._seen is not None
        if self._seen.marks is None:
            self._seen = self._seen._replace(marks=marks)
        elif not np.array_equal(self._seen.marks, marks):
            raise changed()
