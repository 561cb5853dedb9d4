"""Any table a user has opens, or is refused in one line; and no message quotes a cell, because cells are
private.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from factored_mwem.errors import InputError
from factored_mwem.tables import opened as opened_module
from factored_mwem.tables import parquet_input
from factored_mwem.tables.contributions import bound_contributions
from factored_mwem.tables.source import Table, open_table

CANARY = "CANARY-4711"
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]


def rows_of(table: Table, columns: list[str] | None = None) -> list[dict[str, Any]]:
    return [row for batch in table.batches(columns or table.schema.names) for row in batch.to_pylist()]


def read(path: Path, content: bytes) -> list[dict[str, Any]]:
    path.write_bytes(content)
    return rows_of(open_table(path))


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("plain.csv", b"a,b\n1,x\n", [{"a": "1", "b": "x"}]),
        ("upper.CSV", b"a,b\n1,x\n", [{"a": "1", "b": "x"}]),
        ("packed.csv.gz", gzip.compress(b"a,b\n1,x\n", mtime=0), [{"a": "1", "b": "x"}]),
        ("packed.CSV.GZ", gzip.compress(b"a,b\n1,x\n", mtime=0), [{"a": "1", "b": "x"}]),
        ("bom.csv", b'\xef\xbb\xbf"a",b\n1,x\n', [{"a": "1", "b": "x"}]),
        ("crlf.csv", b"a,b\r\n1,x\r\n", [{"a": "1", "b": "x"}]),
        ("noend.csv", b"a,b\n1,x", [{"a": "1", "b": "x"}]),
        ("quoted.csv", b'a,b\n"1,""2""",x\n', [{"a": '1,"2"', "b": "x"}]),
        ("behind.csv", b'a,b\n"1"2"3,x"y"\n', [{"a": '12"3', "b": 'x"y"'}]),
        (
            "ragged.csv",
            b"a,b\n1,2\n1,2,3\n1\n3,4\n",
            [{"a": "1", "b": "2"}, *[{"a": None, "b": None}] * 2, {"a": "3", "b": "4"}],
        ),
        ("latin.csv", b"a,b\n1,caf\xe9\n2,caf\xc3\xa9\n", [{"a": "1", "b": None}, {"a": "2", "b": "café"}]),
        ("return.csv", b"a\n1\r2\r3\n4\r\n", [{"a": "1\r2\r3"}, {"a": "4"}]),
        ("names.csv", b"a,b\n", []),
        ("names-only.csv", b"a,b", []),
        ("tab.tsv", b"a\tb\n1\tx,y\n", [{"a": "1", "b": "x,y"}]),
        ("semicolon.csv", b"a;b\n1;x\n", [{"a": "1", "b": "x"}]),
        ("gaps.csv", b"a,b\n,x\n\n,\n", [{"a": "", "b": "x"}, {"a": "", "b": ""}]),
        ("zeros.csv", b"a,b\n0311,NA\n", [{"a": "0311", "b": "NA"}]),
        ("one.csv", b"a\n1\n2\n", [{"a": "1"}, {"a": "2"}]),
        ("nul.csv", b"a,b\n1\x00,x\n", [{"a": "1\x00", "b": "x"}]),
    ],
)
def test_text_tables_come_as_text(
    tmp_path: Path, name: str, content: bytes, rows: list[dict[str, Any]]
) -> None:
    assert read(tmp_path / name, content) == rows


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("header.csv", "a,\xe9\n1,2\n".encode("latin1"), "not UTF-8 text; say --encoding"),
        ("utf16.csv", f"a,b\n1,{CANARY}\n".encode("utf-16"), "not UTF-8 text; say --encoding"),
        (
            "open.csv",
            f'a,b\n"{CANARY},2\n3,4\n'.encode(),
            r"record 1: a quote is open where the line ends. .* say --multiline; .* say --lines",
        ),
        (
            "late.csv",
            ("a,b\n" + "1,2\n" * 99 + f'{CANARY},"x\n3,4\n').encode(),
            r"record 100: a quote is open",
        ),
        ("mixed.csv", f"a,b\r\n1,2\r\n{CANARY},4\n5,6\r\n".encode(), r"record 2 holds a line feed alone"),
        ("mac.csv", f"a,b\r1,{CANARY}\r".encode(), "the header holds a carriage return"),
        (
            "wide.csv",
            f"a,b\0\n1,{CANARY}\n".encode(),
            "the name of a column holds a NUL character; is the table UTF-16",
        ),
        ("quote.csv", f'"a,b\n{CANARY},2\n'.encode(), "the header cannot be read; is a quote missing"),
        ("empty.csv", b"", "is empty; it needs a header"),
        ("blank.csv", b"\n\n", "starts with a blank line; it needs a header"),
        ("twice.csv", b"a,b,a\n1,2,3\n", "two columns named 'a'; rename one"),
        ("nameless.csv", b"a,,c\n1,2,3\n", "column 2 of the header has no name"),
        ("fake.csv.gz", b"a,b\n1,2\n", "damaged, or not what its name says"),
        (
            "cut.csv.gz",
            gzip.compress(b"a,b\n" + b"1,2\n" * 10_000, mtime=0)[:-40],
            "damaged, or not what its name says",
        ),
        (
            "broken.csv.gz",
            gzip.compress(b"a,b\n" + b"1,2\n" * 10, mtime=0)[:10] + b"\xff" * 40,
            "damaged, or not what its name says",
        ),
        ("fake.parquet", b"PAR1 nonsense PAR1", "damaged, or not what its name says"),
        ("empty.parquet", b"", "damaged, or not what its name says"),
        ("fake.feather", b"nonsense", "damaged, or not what its name says"),
        ("table.dat", b"a,b\n1,2\n", "unknown kind of file; use .csv"),
        ("table.xlsx", b"PK", ".xlsx files are not read; save the sheet as CSV"),
        ("table.json", b"[]", ".json files are not read; write one object a line"),
        ("table.zip", b"PK", ".zip files are not read; unpack it"),
        ("table.sas7bdat", b"", ".sas7bdat files are not read; read it with pandas.read_sas"),
    ],
)
def test_bad_files_are_refused_in_one_line_without_a_value(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        read(tmp_path / name, content)
    assert "CANARY" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert (
        refused.value.__suppress_context__ or refused.value.__context__ is None
    )  # a traceback would print the library's own message


def test_paths_that_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no file"):
        open_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match="holds no file of a table"):
        open_table(tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        open_table(tmp_path / ("x" * 300 + ".csv"))

    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "t.csv").write_text("a\n1\n")
    monkeypatch.setattr(
        opened_module, "read_form", denied
    )  # root may read everything, so no real file can show this
    with pytest.raises(InputError, match="permission denied"):
        open_table(tmp_path / "t.csv")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("groups", [7, 10_000])
def test_text_of_parquet_comes_as_dictionaries_and_is_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, groups: int
) -> None:
    """Also where names hold dots, a text is no text, and each value is another one. The schema keeps the
    file's own types.
    """
    rng = np.random.default_rng(3)
    few = pa.array(["a", "b\0", "", None, "CANARY"], pa.string()).take(pa.array(rng.integers(0, 5, 3000)))
    broken = pa.array([b"a", b"\xff\xfe", b"caf\xe9", None, b"caf\xc3\xa9"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 5, broken.buffers())
    columns = {
        "few.x": few.cast(kind),
        "dotted.x": few.cast(kind),
        "plain": few.cast(kind),
        "own": pa.array([f"{i} {'x' * 500}" for i in range(3000)], kind),
        "broken": text.take(pa.array(rng.integers(0, 5, 3000))),
        "few": pa.StructArray.from_arrays([few], ["x"]),  # whose path in the file is few.x, too
        "coded": few.dictionary_encode(),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=groups)
    table = open_table(tmp_path / "t.parquet")
    assert table.schema == pa.table(columns).schema
    names = [name for name in columns if name != "few"]
    coded = {name: pa.types.is_dictionary(table_types(table, [name])) for name in names}
    assert coded == {
        "few.x": False,
        "dotted.x": False,
        "plain": True,
        "own": groups < 100,
        "broken": True,
        "coded": True,
    }
    found = rows_of(table, names)
    monkeypatch.setattr(parquet_input, "_in_dictionaries", lambda *_: [])
    assert rows_of(open_table(tmp_path / "t.parquet"), names) == found
    whole = [None if b is None or b[-1] > 0xF0 or b == b"caf\xe9" else b.decode() for b in broken.to_pylist()]
    assert {row["broken"] for row in found} == set(whole) == {"a", None, "café"}
    read = [row["broken"] for row in found]
    assert read == [
        None if v not in (b"a", b"caf\xc3\xa9") else v.decode() for v in bytes_of(columns["broken"])
    ]


def table_types(table: Table, names: list[str]) -> pa.DataType:
    return next(iter(table.batches(names))).schema.types[0]


def bytes_of(texts: pa.Array) -> list[bytes | None]:
    return texts.view(pa.binary()).to_pylist()


def test_a_header_is_all_that_opening_reads(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n\xff\xfe garbage,,,,\n")
    assert open_table(tmp_path / "t.csv").schema.names == ["a", "b"]


def test_columns_are_read_in_the_order_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n")
    assert list(rows_of(open_table(tmp_path / "t.csv"), ["c", "a"])[0].items()) == [("c", "3"), ("a", "1")]


def _parquet(path: Path) -> Any:
    pq.write_table(pa.Table.from_pylist(ROWS), path / "t.parquet")
    return path / "t.parquet"


def _feather(path: Path) -> Any:
    pf.write_feather(pa.Table.from_pylist(ROWS), path / "t.feather")
    return path / "t.feather"


def _polars(path: Path, *, lazy: bool = False) -> Any:
    frame = pytest.importorskip("polars").DataFrame(ROWS)
    return frame.lazy() if lazy else frame


def _duckdb(path: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    return connection.sql("select * from (values (1, 'a'), (2, null), (3, 'c')) t(id, name)")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "parquet": _parquet,
    "parquet as str": lambda path: str(_parquet(path)),
    "feather": _feather,
    "pandas": lambda path: pd.DataFrame(ROWS),
    "pandas, custom index": lambda path: pd.DataFrame(ROWS, index=pd.Index([7, 8, 9], name="key")),
    "pandas, filtered": lambda path: pd.concat([pd.DataFrame(ROWS), pd.DataFrame(ROWS)]).iloc[3:],
    "polars": _polars,
    "polars, lazy": lambda path: _polars(path, lazy=True),
    "duckdb": _duckdb,
    "table": lambda path: pa.Table.from_pylist(ROWS),
    "batch": lambda path: pa.RecordBatch.from_pylist(ROWS),
    "reader": lambda path: pa.Table.from_pylist(ROWS).to_reader(),
    "dataset": lambda path: ds.dataset(_parquet(path)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_table_gives_the_same_rows_twice(tmp_path: Path, name: str) -> None:
    """Discovery and encoding each take a pass: a reader that can be read once must not come out empty the
    second time.
    """
    table = open_table(SOURCES[name](tmp_path))
    assert table.schema.names == ["id", "name"]
    assert not table.text
    assert rows_of(table) == ROWS
    assert rows_of(table, ["name"]) == [{"name": row["name"]} for row in ROWS]
    assert open_table(table) is table


@pytest.mark.parametrize(
    "source",
    [5, None, {"a": [1]}, [1, 2], np.zeros(3), b"t.csv", pd.Series([1, 2]), pa.array([1])],
    ids=lambda s: type(s).__name__,
)
def test_what_is_no_table_is_refused(source: Any) -> None:
    with pytest.raises(
        InputError, match=f"cannot read a table from {type(source).__name__}; give a path, a data frame"
    ):
        open_table(source)


def test_frames_that_cannot_be_used() -> None:
    with pytest.raises(InputError, match="two columns"):
        open_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InputError, match="two columns named 'a'"):
        open_table(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(InputError, match="no columns"):
        open_table(pa.table({}))
    assert rows_of(open_table(pa.table({"a": pa.array([], pa.int64())}))) == []
    with pytest.raises(InputError, match="column 'm' holds values of several types") as refused:
        open_table(pd.DataFrame({"m": [1, CANARY]}))
    assert "CANARY" not in str(refused.value)


def test_a_broken_stream_quotes_nothing(tmp_path: Path) -> None:
    def batches() -> Any:
        yield pa.RecordBatch.from_pylist(ROWS[:1])
        raise pa.ArrowInvalid(f"bad row: {CANARY}")

    reader = pa.RecordBatchReader.from_batches(pa.RecordBatch.from_pylist(ROWS[:1]).schema, batches())
    with pytest.raises(InputError, match="cannot read the") as refused:
        rows_of(open_table(reader))
    assert "CANARY" not in str(refused.value)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_dataset_of_text_files_is_refused(tmp_path: Path, kind: str) -> None:
    """Its reader takes what follows an open quote for one cell, and guesses types from the first rows."""
    (tmp_path / f"t.{kind}").write_text("a\n1\n" if kind == "csv" else '{"a": 1}\n')
    one = ds.dataset(tmp_path / f"t.{kind}", format=kind)
    for source in (one, ds.dataset([one]), ds.dataset([ds.dataset([one])])):
        with pytest.raises(InputError, match=f"dataset is of {kind} files"):
            open_table(source)


def test_dev_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown kind of file"):
        open_table(os.devnull)


PEOPLE = ["p", "q", "p", None, "p", "q", None, "r", None]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_person_keeps_at_most_k_rows(kind: pa.DataType, most: int) -> None:
    """The privacy promise is about k rows a person: more of one person's rows would break it. Rows without an
    id are left out.
    """
    table = pa.table({"who": pa.array(PEOPLE).cast(kind), "row": list(range(len(PEOPLE)))})
    parts = pa.Table.from_batches(
        [b for at in range(0, len(PEOPLE), 2) for b in table.slice(at, 2).to_batches()]
    )  # a person spans batches
    bounded = bound_contributions(open_table(parts), "who", most)
    assert bounded.schema.names == ["row"]
    kept = [row["row"] for row in rows_of(bounded)]
    expected = [
        i for i, person in enumerate(PEOPLE) if person is not None and PEOPLE[:i].count(person) < most
    ]
    assert (
        kept == expected
    )  # counting below `most + 1`, the planted bug, keeps one row too many and fails here
    assert rows_of(bounded) == rows_of(bounded)


def test_whose_rows_are_kept_depends_on_that_person_alone() -> None:
    """Another person's rows must not decide which of mine count: else removing them would change more than k
    rows.
    """

    def kept(people: list[str], of: str) -> list[int]:
        own = [i for i, person in enumerate(people) if person == of]
        table = pa.table(
            {"who": people, "row": [own.index(i) if i in own else -1 for i in range(len(people))]}
        )
        return [
            row["row"] for row in rows_of(bound_contributions(open_table(table), "who", 2)) if row["row"] >= 0
        ]

    assert kept(["b", "a", "b", "a", "a", "b"], "a") == kept(["a", "a", "a"], "a") == [0, 1]


def test_integer_ids_and_text_tables(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,v\n1,a\n1,b\n2,c\n")
    assert rows_of(bound_contributions(open_table(tmp_path / "t.csv"), "who", 1)) == [{"v": "a"}, {"v": "c"}]
    numbered = open_table(pa.table({"v": [1, 2, 3], "who": [9, 9, None]}))
    assert rows_of(bound_contributions(numbered, "who", 1)) == [{"v": 1}]
    with pytest.raises(InputError, match="no column 'x' for --privacy-id in the table; it has v, who"):
        bound_contributions(numbered, "x", 1)


@pytest.mark.parametrize("dictionary", [["p", "p"], ["p", None, None]], ids=["repeated value", "null value"])
def test_one_person_under_two_dictionary_codes_is_one_person(dictionary: list[str | None]) -> None:
    """Seen to keep two rows of one person when the dictionary's codes were taken for people."""
    codes = pa.array([0, 1, 0, 1]) if None not in dictionary else pa.array([1, 2, 1, None])
    ids = pa.DictionaryArray.from_arrays(codes, pa.array(dictionary))
    kept = bound_contributions(open_table(pa.table({"id": ids, "v": [1, 2, 3, 4]})), "id", 1)
    assert [row["v"] for batch in kept.batches(["v"]) for row in batch.to_pylist()] == (
        [] if None in dictionary else [1]
    )


@pytest.mark.parametrize(
    ("content", "kept"), [("who,v\n,a\n,b\np,c\nNA,d\nNA,e\n", ["c"]), ('who,v\n"",a\n1,b,c\np,d\n', ["d"])]
)
def test_rows_without_an_id_are_nobodys(tmp_path: Path, content: str, kept: list[str]) -> None:
    """Counted as one person, the first of them took the place of the second: two rows moved where one was
    charged. A malformed line has no id.
    """
    (tmp_path / "t.csv").write_text(content)
    bounded = bound_contributions(open_table(tmp_path / "t.csv"), "who", 1, missing=("NA",))
    assert [row["v"] for row in rows_of(bounded)] == kept


@pytest.mark.parametrize("kind", [pa.float64(), pa.dictionary(pa.int32(), pa.float32())], ids=str)
def test_a_number_with_several_spellings_names_nobody(kind: pa.DataType) -> None:
    """0.0 and -0.0, or null and NaN, would be two people."""
    ids = pa.array([0.0, -0.0], kind.value_type if pa.types.is_dictionary(kind) else kind)
    table = open_table(
        pa.table({"id": ids.dictionary_encode() if pa.types.is_dictionary(kind) else ids, "v": [1, 2]})
    )
    with pytest.raises(InputError, match="spellings"):
        bound_contributions(table, "id", 1)


def test_a_parquet_file_is_read_one_row_group_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for all at once, the library keeps the bytes of all until the end: memory grows with the file."""
    asked: list[list[int]] = []
    honest = pq.ParquetFile.iter_batches

    def watched(self: Any, size: int, row_groups: list[int], columns: list[str]) -> Any:
        asked.append(row_groups)
        return honest(self, size, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    table = pa.table({"a": list(range(25)), "t": [f"t{i % 3}" for i in range(25)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=10)
    read = pa.Table.from_batches(open_table(tmp_path / "t.parquet").batches(["t", "a"]))
    assert asked == [[0], [1], [2]]
    assert read.column("a").to_pylist() == list(range(25))
    assert read.column("t").cast(pa.string()).to_pylist() == table.column("t").to_pylist()
