"""Spark tasks: what runs on the workers of a cluster, over Arrow batches. Pure functions of the rows and of
public facts, so that a task may run twice, anywhere and in any order, and the sums stay the same.

No task knows a budget, a ledger or noise. An error leaves one in our own words: a library's would quote a
row, and Spark writes it to its logs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.domain import Domain
from factored_mwem.kernels.counting import MAX_COUNT
from factored_mwem.tables.backends import counting
from factored_mwem.tables.backends.datavectors import Axis
from factored_mwem.tables.codes.agreement import Groupings, agreement_of
from factored_mwem.tables.codes.broken import Hypothesis, broken
from factored_mwem.tables.codes.codec import code_dtype, encode
from factored_mwem.tables.codes.parsing import is_text, plain
from factored_mwem.tables.codes.rest import Known, weigh
from factored_mwem.tables.inputs.arrow_input import sound_batches

CODES = "codes binary, n bigint, a bigint, b bigint"
"""Some rows, encoded: row after row, as `layout` says, their number, and the sums of their marks."""
SUMS = "part bigint, sums binary"
"""A part of a long list of sums; part MARK is that of the rows themselves."""
VALUES = "name int, value binary, rows bigint"
"""How often a value of a column comes; of column MARK, the marks of some rows, in `value`."""
MARK = -1
BLOCK_BYTES = 2**12
"""Of encoded rows that Spark keeps as one: it hands on 10,000 of them at a time, so that is 40 MB."""
PART_CELLS = 2**11
"""Of counts that Spark moves as one: 8 or 16 kB."""
BATCH_PARTS = 2**10
"""Parts that a task hands on at a time."""
BUFFER_BYTES = 2**26
"""Of encoded rows that a task counts at a time: each time it goes through all cells."""
MAX_VALUES = 2**20
"""Values of a column that a task keeps apart before it hands them on."""

Batches = Iterable[pa.RecordBatch]


Marks = np.ndarray
"""uint64[3], a fingerprint of rows in any order: their number, and sums, modulo 2^64, of two keyed hashes of
each row, which Spark takes. Added up, they are those of all rows.
"""
NO_MARKS: Marks = np.zeros(3, dtype="<u8")


def marks_of(rows: int, a: pa.Array, b: pa.Array) -> Marks:
    """Of rows whose hashes, `int64[row]`, are given."""
    hashes = (np.asarray(x).view(np.uint64).sum(dtype=np.uint64) for x in (a, b))
    return np.array([rows, *hashes], dtype="<u8")


def unpacked(marks: bytes) -> Marks:
    return np.frombuffer(marks, "<u8")


class Failed(RuntimeError):
    """What a task says of an error: its type, and nothing of a row."""


def own_version() -> str:
    try:
        return version("factored-mwem")
    except PackageNotFoundError:
        return "not installed"


@dataclass(frozen=True)
class SparkTask(ABC):
    """A function from batches to batches, which Spark sends to its workers with its fields."""

    sent_by: str = field(default_factory=own_version, kw_only=True)

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        what = "another version of this package"
        try:
            if own_version() == self.sent_by:
                yield from self.run(batches)
                return
        except Exception as error:  # noqa: BLE001 - any library's
            what = type(error).__name__
        raise Failed(f"{type(self).__name__}: {what}; see the guide of factored-mwem on Spark")

    @abstractmethod
    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """What the function makes of the batches."""


def layout(domain: Domain, *, weighted: bool = False) -> np.dtype:
    """One encoded row: the codes of all attributes, side by side, lowest byte first; w: what it weighs."""
    fields = [(f"c{i}", np.dtype(code_dtype(a)).newbyteorder("<")) for i, a in enumerate(domain)]
    return np.dtype([*fields, ("w", "<u2")] if weighted else fields)


@dataclass(frozen=True)
class Encode(SparkTask):
    """CODES of rows: the columns of the domain, in its order, their weights where they are `weighted`, then
    both hashes of the row.
    """

    domain: Domain
    weighted: bool = False

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        row = layout(self.domain, weighted=self.weighted)
        some = max(1, BLOCK_BYTES // row.itemsize)
        for batch in sound_batches("the table", lambda: iter(batches)):
            rows = np.empty(batch.num_rows, dtype=row)
            for i, attribute in enumerate(self.domain):
                rows[f"c{i}"] = encode(attribute, batch.column(i))
            if self.weighted:
                rows["w"] = batch.column(len(self.domain))
            *_, a, b = batch.columns
            starts = range(0, len(rows), some)
            marks = [marks_of(len(a[s : s + some]), a[s : s + some], b[s : s + some]) for s in starts]
            columns = np.array(marks, dtype=np.uint64).reshape(-1, 3).T.view(np.int64)
            blocks = pa.array([rows[s : s + some].tobytes() for s in starts], pa.binary())
            yield pa.record_batch([blocks, *map(pa.array, columns)], names=["codes", "n", "a", "b"])


@dataclass(frozen=True)
class CountAgreement(SparkTask):
    """SUMS of rows of the domain's columns, then who they are of, all rows of a person one after the other:
    part 0, see `agreement_of`.
    """

    domain: Domain
    groupings: Groupings
    whole: int

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        sums, waiting = np.zeros(1 + sum(map(len, self.groupings.values())), dtype=np.int64), list[pa.Table]()
        for batch in sound_batches("the table", lambda: iter(batches)):
            person = batch.column(len(self.domain))
            if batch.num_rows:
                last = batch.num_rows - pc.sum(pc.equal(person, person[-1])).as_py()
                waiting.append(pa.Table.from_batches([batch.slice(0, last)]))
                if last:  # who the last rows are of may go on in the next batch
                    sums += self._counted(waiting)
                    waiting = []
                waiting.append(pa.Table.from_batches([batch.slice(last)]))
        if waiting:
            sums += self._counted(waiting)
        yield _sums([(0, sums.tobytes())])

    def _counted(self, tables: Sequence[pa.Table]) -> np.ndarray:
        rows = pa.concat_tables(tables).combine_chunks()
        columns = [column.combine_chunks() for column in rows.columns]
        columns = [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]
        codes = {a.name: encode(a, c) for a, c in zip(self.domain, columns, strict=False)}
        person = columns[-1].dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return agreement_of(person, codes, self.groupings, self.whole)


def _buffered(batches: Batches) -> Iterator[list[pa.RecordBatch]]:
    """So many at a time that counting them is worth while."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(b.nbytes for b in waiting) >= BUFFER_BYTES:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _marks_of(batch: pa.RecordBatch) -> Marks:
    n, a, b = batch.columns[1:]
    return marks_of(int(np.asarray(n).sum()), a, b)


@dataclass(frozen=True)
class SumMarks(SparkTask):
    """SUMS of CODES: the marks alone."""

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        yield _sums([(MARK, sum(map(_marks_of, batches), NO_MARKS).tobytes())])


@dataclass(frozen=True)
class CountMarginals(SparkTask):
    """SUMS of CODES: the counts of marginals, as `Datavectors.exact_counts` says, where they are not all
    zero, and the marks of the rows that were counted.
    """

    row: np.dtype
    axes: Sequence[Axis]
    members: np.ndarray
    offsets: np.ndarray

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        counting.WORKERS = 1  # in this process, which Spark gives one core
        cells = int(self.offsets[-1])
        marks, counts = NO_MARKS, np.zeros(cells, dtype=np.int32)
        for some in _buffered(batches):
            marks = sum(map(_marks_of, some), marks)
            if marks[0] > MAX_COUNT or self._weighted:
                counts = counts.astype(np.int64, copy=False)
            counts += self._count([block for batch in some for block in batch.column(0).to_pylist()])
        yield _sums([(MARK, marks.tobytes())])
        yield from parts(0, counts)

    @property
    def _weighted(self) -> bool:
        return "w" in (self.row.names or ())

    def _count(self, blocks: Sequence[bytes]) -> np.ndarray:
        rows = np.frombuffer(b"".join(blocks), self.row)
        if not self._weighted:
            return self._count_rows(rows)
        counts = np.zeros(int(self.offsets[-1]), dtype=np.int64)
        for weight in np.unique(rows["w"]).tolist():
            counts += self._count_rows(rows[rows["w"] == weight]).astype(np.int64) * weight
        return counts

    def _count_rows(self, rows: np.ndarray) -> np.ndarray:
        codes = {axis.column: np.ascontiguousarray(rows[f"c{axis.column}"]) for axis in self.axes}
        columns = [counting.AxisCodes(codes[axis.column], axis.lookup) for axis in self.axes]
        sizes = np.array([axis.size for axis in self.axes], dtype=np.int64)
        return counting.count_all(columns, sizes, self.members, self.offsets)


@dataclass(frozen=True)
class Add(SparkTask):
    """SUMS from SUMS: each part once. Holds the parts of one task."""

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        totals: dict[int, np.ndarray] = {}
        marks = NO_MARKS
        for part, sums in all_parts(batches):
            if part == MARK:
                marks = marks + unpacked(sums)
            elif part in totals:
                totals[part] += counts_of(sums)
            else:
                totals[part] = counts_of(sums).astype(np.int64)
        yield _sums([(MARK, marks.tobytes())])
        for part, counts in totals.items():
            yield from parts(part, counts)


def all_parts(batches: Batches) -> Iterator[tuple[int, bytes]]:
    """(part, sums) of SUMS."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def counts_of(sums: bytes) -> np.ndarray:
    """int32 or int64[PART_CELLS]"""
    return np.frombuffer(sums, "<i4" if len(sums) == 4 * PART_CELLS else "<i8")


def parts(first: int, counts: np.ndarray) -> Iterator[pa.RecordBatch]:
    """SUMS: `counts` in parts from `first` on, without those that are zero; 32 bits a cell where they do."""
    step = PART_CELLS * BATCH_PARTS
    for at in range(0, len(counts), step):
        some = counts[at : at + step]
        table = np.zeros((-(-len(some) // PART_CELLS), PART_CELLS), dtype=counts.dtype)
        table.reshape(-1)[: len(some)] = some
        which = np.flatnonzero(table.any(axis=1))
        small = table.max(axis=1, initial=0) <= MAX_COUNT
        kinds = np.where(small, "<i4", "<i8")
        number = first + at // PART_CELLS
        if len(which):
            yield _sums([(number + i, table[i].astype(kinds[i]).tobytes()) for i in which.tolist()])


def _sums(pairs: Sequence[tuple[int, bytes]]) -> pa.RecordBatch:
    numbers, sums = zip(*pairs, strict=True)
    columns = [pa.array(numbers, pa.int64()), pa.array(sums, pa.binary())]
    return pa.record_batch(columns, names=["part", "sums"])


@dataclass(frozen=True)
class CountValues(SparkTask):
    """VALUES of rows of some columns, then both hashes of the row: each value once or several times."""

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        tables_of: dict[int, list[pa.Table]] = {}
        marks = NO_MARKS
        for batch in sound_batches("the table", lambda: iter(batches)):
            *columns, a, b = batch.columns
            marks = marks + marks_of(batch.num_rows, a, b)
            for i, (values, rows) in enumerate(self.counted(columns)):
                some = pa.table([raw(values), rows], names=["value", "rows"])
                tables_of.setdefault(i, []).append(some)
                if sum(map(len, tables_of[i])) > MAX_VALUES:
                    yield from _tallied(i, tables_of.pop(i))
        for i, tables in tables_of.items():
            yield from _tallied(i, tables)
        own = [pa.array([MARK], pa.int32()), pa.array([marks.tobytes()]), pa.array([1])]
        yield pa.record_batch(own, names=["name", "value", "rows"])

    def counted(self, columns: Sequence[pa.Array]) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Of each column (its values, int64: how often each comes)."""
        for column in columns:
            counts = pc.value_counts(raw(plain(column)))
            yield counts.field("values"), counts.field("counts")


@dataclass(frozen=True)
class WeighValues(CountValues):
    """The same of the values that are not known yet, with what the rows give them for their number."""

    known: tuple[Known, ...]

    def counted(self, columns: Sequence[pa.Array]) -> Iterator[tuple[pa.Array, pa.Array]]:
        for values, sums in weigh(columns, self.known):
            yield values, pa.array(sums)


@dataclass(frozen=True)
class CountBroken(SparkTask):
    """SUMS of rows of the columns `names`, then both hashes of the row: the marks, and as part 0 the rows
    that break each hypothesis, int64 each; `weighted`: by what a last column says that each row weighs.
    """

    names: tuple[str, ...]
    known: tuple[Known, ...]
    hypotheses: tuple[Hypothesis, ...]
    weighted: bool = False

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        marks, counts = NO_MARKS, np.zeros(len(self.hypotheses), dtype="<i8")
        known = dict(zip(self.names, self.known, strict=True))
        for batch in sound_batches("the table", lambda: iter(batches)):
            *columns, a, b = batch.columns
            marks = marks + marks_of(batch.num_rows, a, b)
            weights = columns.pop().to_numpy() if self.weighted else None
            cells = dict(zip(self.names, columns, strict=True))
            counts += broken(cells, known, self.hypotheses, weights)
        yield _sums([(MARK, marks.tobytes()), (0, counts.tobytes())])


@dataclass(frozen=True)
class CountGrains(CountValues):
    """The same of rows that weigh what their last column says."""

    def counted(self, columns: Sequence[pa.Array]) -> Iterator[tuple[pa.Array, pa.Array]]:
        *own, weights = columns
        for column in own:
            words = raw(plain(column)).dictionary_encode(null_encoding="encode")
            sums = np.bincount(words.indices.to_numpy(), weights.to_numpy(), minlength=len(words.dictionary))
            yield words.dictionary, pa.array(sums.astype(np.int64))


@dataclass(frozen=True)
class WeighGrains(WeighValues):
    """The same of rows that have as much more to give as their last column says."""

    def counted(self, columns: Sequence[pa.Array]) -> Iterator[tuple[pa.Array, pa.Array]]:
        *own, weights = columns
        for values, sums in weigh(own, self.known, weights.to_numpy()):
            yield values, pa.array(sums)


def _tallied(name: int, tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    whole = pa.concat_tables(tables).group_by("value").aggregate([("rows", "sum")])
    for batch in whole.to_batches(max_chunksize=2**14):
        names = pa.array(np.full(batch.num_rows, name, dtype=np.int32))
        yield pa.record_batch([names, *batch.columns], names=["name", "value", "rows"])


def raw(column: pa.Array) -> pa.Array:
    """binary[row]: each value as its bytes in memory; null if it is null."""
    if is_text(column.type) or pa.types.is_binary(column.type):
        return column.cast(pa.binary())
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column.view(pa.binary(column.type.bit_width // 8)).cast(pa.binary())


def cooked(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of a type whose bytes `raw` gave."""
    values = values.cast(pa.binary())
    if is_text(kind) or pa.types.is_binary(kind):
        return values.cast(kind)
    own = pa.int8() if pa.types.is_boolean(kind) else kind
    return values.cast(pa.binary(own.bit_width // 8)).view(own).cast(kind)
