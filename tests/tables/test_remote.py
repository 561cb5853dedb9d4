"""Tables beyond the local disk, by their URIs: the same rows, the same refusals, and no word of a store's."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.arrow_input import unquoted
from factored_mwem.tables.inputs.source import Table, open_table

fsspec = pytest.importorskip("fsspec", reason="memory:// is fsspec's")
ROWS = [{"a": i % 5, "b": f"v{i % 3}"} for i in range(30)]


def rows_of(table: Table) -> Counter[Any]:
    return Counter(tuple(r.values()) for b in table.batches(table.schema.names) for r in b.to_pylist())


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=4)
    return sink.getvalue()


def text(rows: list[dict[str, Any]]) -> bytes:
    return "".join(["a,b\n", *(f"{r['a']},{r['b']}\n" for r in rows)]).encode()


@pytest.fixture
def store() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


@pytest.mark.parametrize(("suffix", "write"), [("parquet", parquet), ("csv", text)])
def test_one_file_a_folder_and_a_glob(store: Any, suffix: str, write: Any) -> None:
    kind: Any = int if suffix == "parquet" else str
    expected = Counter((kind(row["a"]), row["b"]) for row in ROWS)
    for number in range(3):
        store.pipe(f"/bucket/people/part-{number}.{suffix}", write(ROWS[number::3]))
        store.pipe(f"/bucket/hive/k={number}/x.{suffix}", write(ROWS[number::3]))
    store.pipe("/bucket/people/_SUCCESS", b"")
    store.pipe(f"/bucket/whole.{suffix}", write(ROWS))
    parts = [f"memory://bucket/people/part-{number}.{suffix}" for number in (2, 0, 1)]
    names = [f"whole.{suffix}", "people", "people/", f"people/*.{suffix}", f"*/part-?.{suffix}"]
    for source in (*(f"memory://bucket/{name}" for name in names), parts):
        table = open_table(source)
        assert rows_of(table) == rows_of(table) == expected
    found = open_table("memory://bucket/hive")
    assert found.schema.names == ["a", "b", "k"]
    assert {row[2] for row in rows_of(found)} == {"0", "1", "2"} and sum(rows_of(found).values()) == 30
    assert sum(rows_of(open_table("memory://bucket/hive/k=[01]")).values()) == 20


@pytest.mark.parametrize("several", [False, True])
def test_a_file_that_changes_between_passes_is_seen(store: Any, several: bool) -> None:
    """Seen to give the new rows where a file of several is not asked when it is read."""
    store.pipe("/b/p/1.parquet", parquet(ROWS[:10]))
    if several:
        store.pipe("/b/p/0.parquet", parquet(ROWS[:10]))
    table = open_table("memory://b/p" if several else "memory://b/p/1.parquet")
    rows_of(table)
    store.pipe("/b/p/1.parquet", parquet(ROWS[10:20]))
    with pytest.raises(InputError, match=r"b/p/1.parquet was changed while it was read"):
        rows_of(table)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("memory://b/none.csv", "no file memory://b/none.csv"),
        ("memory://b/none/*.csv", r"no file memory://b/none/\*.csv"),
        ("memory://b/none/", "no file memory://b/none/"),
        ("memory://b/t.xlsx", ".xlsx files are not read"),
        ("nonsense://b/t.csv", "no package knows nonsense://"),
        ("sqlite:///a.db#t", "tables in SQLite are not read; write the table as Parquet"),
        (["memory://b/t.csv", "memory://b/t.csv"], "is given twice"),
        ("file:///none/t.csv", "no file /none/t.csv"),
    ],
)
def test_places_without_a_table(store: Any, source: Any, message: str) -> None:
    store.pipe("/b/t.csv", text(ROWS))
    store.pipe("/b/t.xlsx", b"PK")
    with pytest.raises(InputError, match=message) as refused:
        open_table(source)
    assert "\n" not in str(refused.value)


def test_what_a_store_s_library_says_stays_there(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words may hold a signed address, a key, or what was read."""

    store.pipe("/b/t.csv", text(ROWS))
    store.pipe("/b/t.parquet", parquet(ROWS))
    tables = [open_table("memory://b/t.csv"), open_table("memory://b/t.parquet")]
    strange = type("Strange", (Exception,), {})

    def failing(*_: Any, **__: Any) -> Any:
        raise strange("CANARY-4711 Signature=abc")

    opened = type(store.open("/b/t.csv"))
    for table in tables:
        for where, method, words in (
            (opened, "read", "cannot read memory://b/t"),
            (type(store), "info", "its store does not answer, or refuses"),
        ):
            with monkeypatch.context() as patch, pytest.raises(InputError, match=words) as refused:
                patch.setattr(where, method, failing)
                rows_of(table)
            assert "CANARY" not in str(refused.value)
            assert method == "read" or refused.value.__context__ is None


def test_a_panic_of_a_library_is_a_line_too_and_a_signal_is_not() -> None:
    """Libraries in Rust raise what is no Exception, with a row in it; Ctrl-C goes through."""

    class PanicException(BaseException):
        pass

    def fail(error: BaseException) -> None:
        raise error

    refusal = lambda _: InputError("cannot read it")  # noqa: E731
    with pytest.raises(InputError, match="cannot read it") as refused:
        unquoted(lambda: fail(PanicException("secret")), refusal)
    assert refused.value.__context__ is None
    with pytest.raises(KeyboardInterrupt):
        unquoted(lambda: fail(KeyboardInterrupt()), refusal)
