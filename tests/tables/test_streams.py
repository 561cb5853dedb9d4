"""A source that may give other rows at the next read is read once; its library's words go nowhere."""

from __future__ import annotations

import gzip
import io
import os
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
from support.fakes import FakeNoise
from support.hostile_table import hostile_domain, hostile_table
from support.marks import on_linux

from factored_mwem.errors import Busy, InputError
from factored_mwem.pipeline.release import make
from factored_mwem.request.request import Request
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import IN_MEMORY
from factored_mwem.tables.inputs import streams
from factored_mwem.tables.inputs.contributions import bound_contributions
from factored_mwem.tables.inputs.fingerprint import fingerprint
from factored_mwem.tables.inputs.source import Table, open_table

pl = pytest.importorskip("polars", reason="Polars is not installed")
duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
CANARY = "CANARY-4711"
READS: tuple[Callable[[Table], Table], ...] = (lambda table: table, lambda table: table.once())


def rows_of(table: Table, columns: list[str] | None = None) -> list[dict[str, Any]]:
    return [row for batch in table.batches(columns or table.schema.names) for row in batch.to_pylist()]


class Restless:
    """Streams the same rows in another order every time, and counts the times."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.reads = table, 0

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self.reads += 1
        order = np.random.default_rng(self.reads).permutation(self.table.num_rows)
        return self.table.take(order).__arrow_c_stream__(requested_schema)


def people() -> pa.Table:
    return pa.table({"id": [i % 40 for i in range(200)], "age": list(range(200)), "word": ["a", "b"] * 100})


def test_later_passes_see_the_rows_of_the_first() -> None:
    source = Restless(people())
    table = open_table(source)
    first = rows_of(table, ["age"])
    assert [row["age"] for row in rows_of(table)] == [row["age"] for row in first]
    assert sorted(row["age"] for row in first) == list(range(200))
    assert [row["age"] for row in rows_of(table.once())] == [row["age"] for row in first]
    assert source.reads == 1


def test_which_rows_of_a_person_are_kept_is_decided_once() -> None:
    """Masks go by place: over another order they would let more rows of a person in."""
    for _ in range(5):
        kept = bound_contributions(open_table(Restless(people())), "id", 2)
        ages = [row["age"] for row in rows_of(kept)]
        assert max(np.bincount([age % 40 for age in ages])) == 2
        assert len(ages) == 80


def test_a_release_reads_a_stream_once() -> None:
    """With a person's column, a fingerprint or a domain to learn there are more passes than one."""
    fields = [
        {"name": "age", "type": "integer", "edges": [0, 100, 199]},
        {"name": "word", "categories": ["a"]},
    ]
    domain = {"fields": fields}
    for options in (
        {"domain": domain, "columns": ["age", "word"]},
        {"privacy_id": "id", "domain": domain},
        {},
    ):
        source = Restless(people())
        request = Request.of(source, 2, rows=3, epsilon=100, **options)
        request.private.fingerprint(b"key") if not options else None
        make(request, noise=FakeNoise())
        assert source.reads == 1, options


def test_one_pass_leaves_no_record_others_in_spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    plain = streams.nameless
    monkeypatch.setattr(streams, "nameless", lambda where, end: made.append(where) or plain(where, end))
    domain = hostile_domain()
    for build in (lambda t: t.to_reader(99), lambda t: pl.from_arrow(t).lazy()):
        open_source(build(hostile_table(300))).encoded(domain, IN_MEMORY)
    assert not made
    make(Request.of(people().to_reader(99), 1, rows=3, epsilon=100, spill=tmp_path), noise=FakeNoise())
    assert made == [tmp_path]


@on_linux
def test_a_record_has_no_name_and_is_gone_with_its_table(tmp_path: Path) -> None:
    def held() -> int:
        return sum(
            os.path.realpath(path).startswith(f"{tmp_path}/") for path in Path("/proc/self/fd").iterdir()
        )

    table = open_table(people().to_reader(), folder=tmp_path)
    assert len(rows_of(table, ["age"])) == 200
    assert not list(tmp_path.iterdir()) and held() == 1
    del table
    assert held() == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(hostile_table(20_000).to_reader(1000))
    monkeypatch.setattr(streams, "nameless", lambda *_: os.open("/dev/full", os.O_RDWR))
    with pytest.raises(Busy, match=r"cannot keep rows in .*No space left.*by --spill") as refused:
        rows_of(table)
    assert refused.value.__context__ is None


@pytest.mark.parametrize("kind", ["reader", "polars", "duckdb"])
def test_every_kind_of_column_survives(kind: str) -> None:
    """Dictionaries that differ between batches, columns without a value, views, odd names."""
    table = hostile_table(3000, typed=True)
    table = table.append_column('a"b.c', pa.array([None] * 3000, pa.null()))
    parts = [pa.array(words * 500).dictionary_encode() for words in (["x", "y"], ["y", "z"], [None, "x"])]
    table = table.append_column("dict", pa.chunked_array(parts))
    if kind == "reader":
        views = pa.array(["long enough to be out of line", None] * 1500, pa.string_view())
        table = table.append_column("view", views)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("t", table)
    build: dict[str, Callable[[], Any]] = {
        "reader": lambda: table.to_reader(700),
        "polars": lambda: pl.from_arrow(table).lazy(),
        "duckdb": lambda: connection.sql("SELECT * FROM t"),
    }
    wanted = [repr(row) for row in _same_zone(table).to_pylist()]
    for read in READS:
        opened = open_table(build[kind]())
        assert opened.schema.field('a"b.c').type == pa.string()
        batches = list(read(opened).batches(opened.schema.names))
        assert {batch.schema for batch in batches} == {opened.schema}
        assert [repr(row) for row in _same_zone(pa.Table.from_batches(batches)).to_pylist()] == wanted


def _same_zone(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("seen")
    return table.set_column(at, "seen", table.column(at).cast(pa.timestamp("us", "UTC")))


def test_large_batches_are_cut() -> None:
    table = open_table(pa.table({"a": range(300_000)}).to_reader())
    assert max(batch.num_rows for batch in table.once().batches(["a"])) <= 2**17


@pytest.mark.parametrize("kind", ["reader", "table", "views", "parquet"])
def test_a_cell_that_is_none_of_its_type_is_null(kind: str, tmp_path: Path) -> None:
    raw = pa.array([b"v0", b"\xff", None, b"v1\xc3", b"v1"], pa.binary())
    views = raw.cast(pa.binary_view()).view(pa.string_view())
    table = pa.table({"c": views if kind == "views" else raw.view(pa.string())})
    pq.write_table(table, tmp_path / "t.parquet")
    for read in READS:
        source = {"reader": table.to_reader(), "parquet": tmp_path / "t.parquet"}.get(kind, table)
        found = [row["c"] for row in rows_of(read(open_table(source)))]
        assert found == ["v0", None, None, None, "v1"]


def test_a_reader_is_read_once_in_its_life() -> None:
    reader = people().to_reader()
    rows_of(open_table(reader))
    with pytest.raises(
        InputError, match="RecordBatchReader was read before, and its rows are gone; give a new"
    ):
        open_table(reader)
    table = open_table(people().to_reader())
    rows_of(table.once())
    with pytest.raises(InputError, match="was read before, and its rows are gone"):
        rows_of(table)


def test_cursors_are_read() -> None:
    """What ADBC gives after a query."""
    cursor = types.SimpleNamespace(fetch_record_batch=lambda: people().to_reader())
    assert rows_of(open_table(cursor)) == people().to_pylist()


def failing() -> Iterator[Any]:
    """Streams whose library fails after the first rows, with a row in its message."""

    def batches(error: type[Exception]) -> Iterator[pa.RecordBatch]:
        yield people().to_batches()[0]
        raise error(f"bad row {CANARY}")

    def fail(_: Any) -> Any:
        raise ValueError(CANARY)

    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS SELECT '{CANARY}' AS a")
    for error in (RuntimeError, pa.ArrowInvalid):
        yield pa.RecordBatchReader.from_batches(people().schema, batches(error))
    yield pl.LazyFrame({"a": [CANARY]}).select(pl.col("a").cast(pl.Int64))
    yield pl.LazyFrame({"a": [CANARY]}).select(pl.col("a").map_elements(fail, return_dtype=pl.Int64))
    yield pl.scan_parquet(f"/none/{CANARY}.parquet")
    yield connection.sql("SELECT a::bigint AS a FROM t")


def test_what_a_library_says_of_its_failure_goes_nowhere() -> None:
    for source in failing():
        for read in READS:
            with pytest.raises(InputError, match=r"cannot read the|was read before") as refused:
                rows_of(read(open_table(source)))
            assert CANARY not in str(refused.value) and "\n" not in str(refused.value)
            assert refused.value.__context__ is refused.value.__cause__ is None


def test_a_fingerprint_does_not_hang_on_batches() -> None:
    words = pa.array([None, "", "a", "bcd", "é" * 9], pa.string()).take(np.arange(200_003) ** 2 % 5)
    table = pa.table({"word": words, "number": np.arange(200_003)})
    whole = fingerprint(open_table(table), b"k")
    for rows in (999, 2**16, 70_000):
        assert fingerprint(open_table(table.to_reader(rows)), b"k") == whole
    other = table.set_column(0, "word", pa.chunked_array([["b"], table["word"].slice(1)]))
    assert fingerprint(open_table(other), b"k") != whole


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def pipe(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))

    return pipe


def written(kind: str) -> bytes:
    table, sink = people(), io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, sink)
    elif kind == "feather":
        pf.write_feather(table, sink)
    elif kind == "stream":
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=33)
    else:
        text = "id,age,word\n" + "".join(f"{r['id']},{r['age']},{r['word']}\n" for r in table.to_pylist())
        return gzip.compress(text.encode()) if kind == "gz" else text.encode()
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["csv", "gz", "parquet", "feather", "stream"])
def test_standard_input_is_what_its_first_bytes_say(piped: Any, kind: str, tmp_path: Path) -> None:
    piped(written(kind))
    table = open_table("-", folder=tmp_path)
    assert table.text == (kind in ("csv", "gz"))
    expected = [{k: str(v) if table.text else v for k, v in row.items()} for row in people().to_pylist()]
    for _ in range(2):
        assert rows_of(table, ["age", "word"]) == [{k: row[k] for k in ("age", "word")} for row in expected]
    assert not list(tmp_path.iterdir())
    assert fingerprint(table, b"k") == fingerprint(table, b"k")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "stdin.csv is empty"),
        (b"a,b\n" + f'{CANARY},"x\n'.encode(), r"stdin.csv, record 1: a quote is open"),
        (b"PAR1" + CANARY.encode(), "cannot read standard input: it is damaged"),
        (b"ARROW1" + CANARY.encode(), "cannot read standard input: it is damaged"),
        (b"\xff\xff\xff\xff" + CANARY.encode(), "cannot read standard input: it is damaged"),
        (written("stream")[:-200], "cannot read the Arrow stream on standard input"),
    ],
)
def test_damaged_standard_input_is_refused_in_one_line(piped: Any, content: bytes, message: str) -> None:
    piped(content)
    with pytest.raises(InputError, match=message) as refused:
        rows_of(open_table("-"))
    assert CANARY not in str(refused.value)
    assert refused.value.__context__ is None or refused.value.__suppress_context__
