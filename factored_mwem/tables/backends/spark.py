"""Spark: a private table that a cluster reads. Rows never come here: counts, sums and, where a domain is
learnt, the distinct values of its columns do.
"""

from __future__ import annotations

import hmac
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.tables.backends import spark_tasks as tasks
from factored_mwem.tables.backends.source import OpenedSource, Spill, refuse_order
from factored_mwem.tables.backends.spark_frame import ORDER, ROWS, OnSpark, Seen
from factored_mwem.tables.backends.spark_rows import SparkRows, collected, keep, kept_no_more
from factored_mwem.tables.codes.broken import Hypothesis
from factored_mwem.tables.codes.parsing import is_text
from factored_mwem.tables.codes.profile import ColumnProfile, profile
from factored_mwem.tables.codes.rest import Known, empty_rests
from factored_mwem.tables.inputs.arrow_input import MAX_BATCH_ROWS, sound_batches, unquoted
from factored_mwem.tables.inputs.contributions import NOBODY, without
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.inputs.table import Table
from factored_mwem.tables.inputs.text_form import Records
from factored_mwem.tables.inputs.uris import SPARK

if TYPE_CHECKING:
    from factored_mwem.tables.backends.people_spark import SparkPeople
    from factored_mwem.tables.inputs.people import RowOrder

INSTALL = "pip install 'factored-mwem[spark]', and Java 17 or later"
BYTEWISE = "string collate UTF8_BINARY"
"""Text as it is: under other collations, unequal texts may be equal."""


def open_frame(source: Any, records: Records = "checked") -> SparkSource:
    """A data frame of PySpark, or `spark:CATALOG.TABLE`. Reads no row. Raises InputError if there is none."""
    if isinstance(source, str | Path):
        source = _named(str(source).removeprefix(SPARK))
    how = "Spark cannot tell the columns of the data frame; does .printSchema() work?"
    streams, types = unquoted(  # through Spark Connect only now is the query looked at
        lambda: (source.isStreaming, source.schema), lambda _: InputError(how)
    )
    if streams:
        raise InputError("the data frame is a stream without an end; write it to a table and release that")
    from pyspark.sql import functions as F

    frame = source.toDF(*(f"c{i}" for i in range(len(types))))  # names may be anything, also twice
    kinds = [_arrow_type(field.dataType) for field in types]
    known = [pa.int8() if kind is None else kind for kind in kinds]
    schema = open_table(pa.schema(zip(types.names, known, strict=True)).empty_table(), records).schema
    for i, (kind, field) in enumerate(zip(kinds, types, strict=True)):
        if kind is None:
            schema = schema.set(i, pa.field(field.name, _other_type(field.dataType)))
    selected = [
        F.col(f"c{i}").cast(BYTEWISE).alias(f"c{i}") if is_text(schema.field(i).type) else F.col(f"c{i}")
        for i, kind in enumerate(kinds)
        if kind is not None
    ]
    at = {name: f"c{i}" for i, name in enumerate(types.names) if kinds[i] is not None}
    return SparkSource(frame.select(*selected), schema, at)


def _named(name: str) -> Any:
    """The table of the catalog of the session that there is, or of a new one."""
    if not name:
        raise InputError(f"{SPARK} needs the name of a table, such as {SPARK}shop.orders")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError(f"{SPARK}{name} needs PySpark: {INSTALL}") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else another one that comes first in PATH
    how = f"Spark does not start; it needs {INSTALL} (see what it printed)"
    session: Any = unquoted(
        SparkSession.builder.appName("fmwem").getOrCreate, lambda _: InputError(f"{SPARK}{name}: {how}")
    )
    how = "the catalog of this Spark session has no such table"
    return unquoted(lambda: session.table(name), lambda _: InputError(f"{SPARK}{name}: {how}"))


def _arrow_type(kind: Any) -> pa.DataType | None:
    """How values of a type come to a task, whatever the session's settings; None for what is never read."""
    from pyspark.sql import types

    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    arrow = {
        types.BooleanType: pa.bool_(),
        types.ByteType: pa.int8(),
        types.ShortType: pa.int16(),
        types.IntegerType: pa.int32(),
        types.LongType: pa.int64(),
        types.FloatType: pa.float32(),
        types.DoubleType: pa.float64(),
        types.StringType: pa.string(),
        types.CharType: pa.string(),
        types.VarcharType: pa.string(),
        types.BinaryType: pa.binary(),
        types.DateType: pa.date32(),
        types.TimestampType: pa.timestamp("us", "UTC"),
        types.TimestampNTZType: pa.timestamp("us"),
        types.NullType: pa.null(),
    }
    return arrow.get(type(kind))


def _other_type(kind: Any) -> pa.DataType:
    """A type that is refused in words like Spark's."""
    from pyspark.sql import types

    if isinstance(kind, types.ArrayType | types.MapType | types.StructType):
        from pyspark.sql.pandas.types import to_arrow_type

        try:
            return to_arrow_type(kind, timezone="UTC")
        except Exception:  # noqa: BLE001 - something inside it has no Arrow type
            pass
    return pa.struct([])


class Bound(NamedTuple):
    """At most `most` rows of each person, whom column `person` names, but for the texts `nobody`."""

    person: str
    text: bool
    most: int
    nobody: tuple[str, ...]

    def applied(self, frame: Any, names: Sequence[str]) -> Any:
        """The frame with at most so many rows of each person, whatever its partitions: the first in the order
        of a hash over the columns `names`, and then of these; rows that come together are equal in them.

        Nobody's rows are left out.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        person = F.col(self.person)
        if self.text:
            person = F.when(F.is_valid_utf8(person) & ~person.isin(*self.nobody), person)
        keys = [F.col(name) for name in names]
        order = Window.partitionBy("person").orderBy(F.xxhash64(F.lit(ORDER), *keys), *keys)
        named_rows = frame.withColumn("person", person).where(F.col("person").isNotNull())
        return named_rows.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= self.most)


class SparkSource(OnSpark, OpenedSource):
    """A data frame of PySpark, as it was opened."""

    __slots__ = ("_bound", "_kept")

    def __init__(self, frame: Any, schema: pa.Schema, at: dict[str, str], bound: Bound | None = None) -> None:
        super().__init__(frame, schema, at)
        self._bound = bound
        self._kept: tuple[tuple[str, ...], Any] | None = None

    def without(self, privacy_id: str) -> SparkSource:
        schema = without(open_table(self.schema.empty_table()), privacy_id).schema
        return SparkSource(self.frame, schema, self.at, self._bound)

    def bounded(self, privacy_id: str, most: int, missing: Sequence[str] = ()) -> SparkSource:
        schema = self.without(privacy_id).schema
        text = is_text(self.schema.field(privacy_id).type)
        bound = Bound(self.at[privacy_id], text, most, (*NOBODY, *missing))
        return SparkSource(self.frame, schema, self.at, bound)

    def with_rows_of_people(self, privacy_id: str) -> SparkSource:
        from factored_mwem.tables.inputs.people import with_rows_of_person

        schema = with_rows_of_person(open_table(self.schema.empty_table()), privacy_id).schema
        return SparkSource(self.frame, schema, {**self.at, ROWS_OF_PERSON: ROWS})

    def people(
        self,
        privacy_id: str,
        most: int,
        weight: Callable[[int], int],
        missing: Sequence[str] = (),
        order: RowOrder | None = None,
    ) -> SparkPeople:
        from factored_mwem.tables.backends.people_spark import SparkPeople, rows_used

        refuse_order(order)
        shown = self.with_rows_of_people(privacy_id)
        nobody = (*NOBODY, *missing) if is_text(self.schema.field(privacy_id).type) else None
        used = rows_used(self, privacy_id, most, nobody)
        return SparkPeople(used, shown, [weight(n) for n in range(1, most + 1)])

    def gathered(self, reference: str | None, most: int) -> Table:
        """See OpenedSource. Spark has no order of rows: one that followed from its partitions would follow
        from everybody's rows, and so would which of several rows with one key is the first.
        """
        source: SparkSource = self
        if reference is not None:
            text = is_text(self.schema.field(reference).type)
            source = SparkSource(
                self.frame, self.schema, self.at, Bound(self.at[reference], text, most, NOBODY)
            )
        return Table(self.schema, False, source._pulled)

    def _pulled(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of these columns, here; names may come twice in a frame, so they go by their places."""
        *cells, a, b = collected(self._rows(columns)).columns
        self._compare(tasks.marks_of(len(a), a, b))
        kinds = [self.schema.field(name).type for name in columns]
        rows = pa.table(
            [cell.cast(kind) for cell, kind in zip(cells, kinds, strict=True)], names=list(columns)
        )
        ordered = rows.sort_by([(name, "ascending") for name in columns])
        yield from sound_batches("the table", lambda: iter(ordered.to_batches(MAX_BATCH_ROWS)))

    def profile(self, columns: Sequence[str]) -> dict[str, ColumnProfile]:
        """What each column holds. Spark adds up how often each value comes; all distinct values of all
        columns come here, and memory must hold them.
        """
        profiles = profile(open_table(self.schema.empty_table()), columns)
        rows = self._rows(columns)
        if self._bound is not None:  # they are encoded next, and who stays takes a sort to know
            rows = keep(self, rows)
            self._kept = tuple(columns), rows
        return self._counted(rows, profiles, tasks.CountValues())

    def weighed(self, known: Mapping[str, Known]) -> dict[str, ColumnProfile]:
        """What each row gives the values that it holds is for the workers to say."""
        profiles = empty_rests(self.schema, known)
        return self._counted(self._rows_kept(list(known)), profiles, tasks.WeighValues(tuple(known.values())))

    def broken_rows(self, known: Mapping[str, Known], hypotheses: Sequence[Hypothesis]) -> np.ndarray:
        """Each row is looked at by a worker; one number for each hypothesis comes back of each."""
        task = tasks.CountBroken(tuple(known), tuple(known.values()), tuple(hypotheses))
        return self._broken(self._rows_kept(list(known)), task)

    def encoded(self, domain: Domain, spill: Spill) -> SparkRows:
        """The rows' codes, which Spark keeps in memory, or on the disks of its workers."""
        kept, rows = self._kept, self._rows_kept(domain.names)
        encoded = SparkRows(rows.mapInArrow(tasks.Encode(domain), tasks.CODES), domain)
        self._compare(encoded.marks)
        if kept is not None:
            kept_no_more(kept[1])
            self._kept = None
        return encoded

    def fingerprint(self, key: bytes) -> bytes:
        """Of the columns that a release can hold. Workers get a key that follows from `key`."""
        own = hmac.new(key, b"rows on Spark", "sha256").hexdigest()
        self._seen = Seen(own, tuple(self.at))
        from pyspark.sql import functions as F

        rows = self.frame.select(*self._hashes())
        # in quarters of 16 bits, whose sums do not overflow, which Spark takes for an error
        hashes = [(c, i, F.shiftrightunsigned(F.col(c), 16 * i)) for c in "ab" for i in range(4)]
        quarters = [F.sum(x.bitwiseAND(F.lit(0xFFFF))).alias(f"{c}{i}") for c, i, x in hashes]
        (sums,) = collected(rows.agg(F.count(F.lit(1)).alias("n"), *quarters)).to_pylist()
        a, b = (sum((sums[f"{c}{i}"] or 0) << 16 * i for i in range(4)) % 2**64 for c in "ab")
        marks = np.array([sums["n"], a, b], dtype="<u8")
        self._compare(marks)
        about = repr([(field.name, str(field.type)) for field in self.schema]).encode()
        return hmac.new(key, about + marks.tobytes(), "sha256").digest()

    def _rows(self, columns: Sequence[str]) -> Any:
        """The rows of these columns, then two keyed hashes of each row, for its marks."""
        names, marks = [self.at[name] for name in columns], self._marked(columns)
        frame = self.frame
        if self._bound is not None:
            assert self._seen is not None
            hashed = [self.at[name] for name in self._seen.over]
            frame = self._bound.applied(frame, list(dict.fromkeys([*hashed, *names])))
        return frame.select(*names, *marks)

    def _rows_kept(self, columns: Sequence[str]) -> Any:
        """The same, of what Spark has kept, where that has the columns."""
        if self._kept is not None and set(columns) <= set(self._kept[0]):
            return self._kept[1].select(*(self.at[name] for name in columns), "a", "b")
        return self._rows(columns)
