"""Draw on Spark: the workers of a cluster draw rows of a release, the same as one process draws."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.pipeline.result import Release
from factored_mwem.tables.backends.spark_rows import cores_of

TASKS_A_CORE = 2
"""Each task reads the model once."""


def draw_on_spark(release: Release, session: Any, rows: int, *, seed: int | None = None) -> Any:
    """A data frame of PySpark with the rows of `release.sample(rows, seed=seed)`, in any order. Free: the
    model is public, and all that the workers get.

    Whenever Spark reads the frame, the same rows are drawn again. Text that is coded comes as text, times
    without a zone as `timestamp_ntz`, unsigned numbers as signed. InputError if `rows` < 0.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    if rows < 0:
        raise InputError(f"rows={rows}: must be a whole number, 0 or more")
    seed = secrets.randbits(64) if seed is None else seed
    drawn = release.drawn(rows, seed)
    schema, batches = plain_schema(drawn.schema), len(drawn)
    tasks = max(1, min(batches, TASKS_A_CORE * cores_of(session)))
    numbers = session.range(0, batches, 1, tasks)
    types = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return numbers.mapInArrow(Draw(release, rows, seed, schema), types)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The Spark types for the types of a release."""
    return pa.schema([field.with_type(_plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    wider = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20),
        pa.float16(): pa.float32(),
        pa.date64(): pa.date32(),
    }
    return wider.get(kind, kind)


@dataclass(frozen=True)
class Draw:
    """Batches of rows from batches of their numbers, on a worker."""

    release: Release
    rows: int
    seed: int
    schema: pa.Schema

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        drawn = self.release.drawn(self.rows, self.seed)
        for some in numbers:
            for number in some.column(0).to_pylist():
                yield drawn.batch(number).cast(self.schema)
