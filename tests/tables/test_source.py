"""Any table a user has opens, or is refused in one line that quotes no cell: cells are private."""

from __future__ import annotations

import gzip
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs import arrow_input, delimited, typed_files
from factored_mwem.tables.inputs.contributions import bound_contributions
from factored_mwem.tables.inputs.source import Table, open_table

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
        ("quoted.csv", b'a,b\n"1,""2""",x\n', [{"a": '1,"2"', "b": "x"}]),
        ("names.csv", b"a,b\n", []),
        ("names-only.csv", b"a,b", []),
        ("tab.tsv", b"a\tb\n1\tx,y\n", [{"a": "1", "b": "x,y"}]),
        ("zeros.csv", b"a,b\n0311,NA\n", [{"a": "0311", "b": "NA"}]),
    ],
)
def test_text_comes_as_text(tmp_path: Path, name: str, content: bytes, rows: list[dict[str, Any]]) -> None:
    assert read(tmp_path / name, content) == rows


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("header.csv", "a,\xe9\n1,2\n".encode("latin1"), "not UTF-8 text; say --encoding"),
        (
            "open.csv",
            f'a,b\n"{CANARY},2\n3,4\n'.encode(),
            r"record 1: a quote is open where the line ends. .* say --multiline; .* say --lines",
        ),
        (
            "late.csv",
            ("a,b\n" + "1,2\n" * 99 + f'{CANARY},"x\n3,4\n').encode(),
            "record 100: a quote is open",
        ),
        ("mixed.csv", f"a,b\r\n1,2\r\n{CANARY},4\n5,6\r\n".encode(), r"record 2 holds a line feed alone"),
        ("mac.csv", f"a,b\r1,{CANARY}\r".encode(), "the header holds a carriage return"),
        ("wide.csv", f"a,b\0\n1,{CANARY}\n".encode(), "column holds a NUL character; is the table UTF-16"),
        ("quote.csv", f'"a,b\n{CANARY},2\n'.encode(), "the header cannot be read; is a quote missing"),
        ("empty.csv", b"", "is empty; it needs a header"),
        ("blank.csv", b"\n\n", "starts with a blank line; it needs a header"),
        ("twice.csv", b"a,b,a\n1,2,3\n", "columns 1 and 3 of the header have the same name"),
        ("nameless.csv", b"a,,c\n1,2,3\n", "column 2 of the header has no name"),
        ("fake.csv.gz", b"a,b\n1,2\n", "damaged, or not what its name says"),
        ("fake.parquet", b"PAR1 nonsense PAR1", "damaged, or not what its name says"),
        ("empty.parquet", b"", "damaged, or not what its name says"),
        ("fake.feather", b"nonsense", "damaged, or not what its name says"),
        ("table.log", b"a,b\n1,2\n", "unknown kind of file; use .csv"),
        ("table.xlsx", b"PK", ".xlsx files are not read; save the sheet as CSV"),
        ("table.json", b"[]", ".json files are not read; write one object a line"),
        ("table.zip", b"PK", ".zip files are not read; unpack it"),
        ("table.sas7bdat", b"", ".sas7bdat files are not read; read it with pandas.read_sas"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        read(tmp_path / name, content)
    assert "CANARY" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None
    # a traceback would print the library's own message
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_paths_that_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, message in (
        (tmp_path / "none.csv", "no file"),
        (tmp_path / ("x" * 300 + ".csv"), "cannot read"),
        (os.devnull, "unknown kind of file"),
    ):
        with pytest.raises(InputError, match=message):
            open_table(path)

    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "t.csv").write_text("a\n1\n")
    # root may read everything, so no real file can show this
    monkeypatch.setattr(delimited, "read_form", denied)
    with pytest.raises(InputError, match="permission denied"):
        open_table(tmp_path / "t.csv")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("groups", [50, 10_000])
def test_text_of_parquet_comes_as_dictionaries_and_is_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, groups: int
) -> None:
    """Also where names hold dots, or a text is no text. The schema keeps the file's own types."""
    rng = np.random.default_rng(3)
    few = pa.array(["a", "b\0", "", None, "CANARY"], pa.string()).take(pa.array(rng.integers(0, 5, 3000)))
    cells = {b"a": "a", b"\xff\xfe": None, b"caf\xe9": None, None: None, b"caf\xc3\xa9": "café"}
    broken = pa.array([*cells], pa.binary()).take(pa.array(rng.integers(0, 5, 3000)))
    columns = {
        "few.x": few.cast(kind),
        "dotted.x": few.cast(kind),
        "plain": few.cast(kind),
        "own": pa.array([f"{i} {'x' * 500}" for i in range(3000)], kind),
        "broken": pa.Array.from_buffers(pa.string(), 3000, broken.buffers()),
        "few": pa.StructArray.from_arrays([few], ["x"]),  # whose path in the file is few.x, too
        "coded": few.dictionary_encode(),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=groups)
    table = open_table(tmp_path / "t.parquet")
    assert table.schema == pa.table(columns).schema
    names = [name for name in columns if name != "few"]
    read = [next(iter(table.batches([name]))).schema.types[0] for name in names]
    coded = {name for name, type_ in zip(names, read, strict=True) if pa.types.is_dictionary(type_)}
    assert coded == {"plain", "broken", "coded", *(["own"] if groups < 100 else [])}
    found = rows_of(table, names)
    monkeypatch.setattr(typed_files, "_in_dictionaries", lambda *_: [])
    assert rows_of(open_table(tmp_path / "t.parquet"), names) == found
    assert [row["broken"] for row in found] == [cells[cell] for cell in broken.to_pylist()]


def test_a_header_is_all_that_opening_reads(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n\xff\xfe garbage,,,,\n")
    assert open_table(tmp_path / "t.csv").schema.names == ["a", "b"]


def test_columns_are_read_in_the_order_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n")
    assert list(rows_of(open_table(tmp_path / "t.csv"), ["c", "a"])[0].items()) == [("c", "3"), ("a", "1")]


def _file(path: Path, suffix: str = "parquet") -> Path:
    write = pq.write_table if suffix == "parquet" else pf.write_feather
    write(pa.Table.from_pylist(ROWS), path / f"t.{suffix}")
    return path / f"t.{suffix}"


def _duckdb(path: Path) -> Any:
    connection = pytest.importorskip("duckdb").connect()
    return connection.sql("select * from (values (1, 'a'), (2, null), (3, 'c')) t(id, name)")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "parquet": _file,
    "parquet as str": lambda path: str(_file(path)),
    "feather": lambda path: _file(path, "feather"),
    "pandas": lambda path: pd.DataFrame(ROWS),
    "pandas, custom index": lambda path: pd.DataFrame(ROWS, index=pd.Index([7, 8, 9], name="key")),
    "pandas, filtered": lambda path: pd.concat([pd.DataFrame(ROWS), pd.DataFrame(ROWS)]).iloc[3:],
    "polars": lambda path: pl.DataFrame(ROWS),
    "polars, lazy": lambda path: pl.LazyFrame(ROWS),
    "duckdb": _duckdb,
    "table": lambda path: pa.Table.from_pylist(ROWS),
    "batch": lambda path: pa.RecordBatch.from_pylist(ROWS),
    "reader": lambda path: pa.Table.from_pylist(ROWS).to_reader(),
    "dataset": lambda path: ds.dataset(_file(path)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_table_gives_the_same_rows_twice(tmp_path: Path, name: str) -> None:
    """A reader that can be read once must not come out empty the second time."""
    table = open_table(SOURCES[name](tmp_path))
    assert table.schema.names == ["id", "name"]
    assert not table.text
    assert rows_of(table) == ROWS
    assert rows_of(table, ["name"]) == [{"name": row["name"]} for row in ROWS]
    assert open_table(table) is table


@pytest.mark.parametrize(
    "source",
    [
        *(5, None, {"a": [1]}, [1, 2], np.zeros(3), b"t.csv", pd.Series([1, 2]), pl.Series([1])),
        *(pa.array([1]), pa.chunked_array([[1]]), pa.chunked_array([[{"a": 1}]])),
    ],
    ids=lambda s: type(s).__name__,
)
def test_what_is_no_table_is_refused(source: Any) -> None:
    with pytest.raises(
        InputError, match=f"cannot read a table from {type(source).__name__}; give a path, a data frame"
    ):
        open_table(source)


def test_frames_that_cannot_be_used() -> None:
    for frame, message in (
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns"),
        (pa.table([[1], [2]], names=["a", "a"]), "two columns named 'a'"),
        (pa.table({}), "no columns"),
        (pd.DataFrame({"m": [1, CANARY]}), "column 'm' holds values of several types"),
    ):
        with pytest.raises(InputError, match=message) as refused:
            open_table(frame)
        assert "CANARY" not in str(refused.value)
    assert rows_of(open_table(pa.table({"a": pa.array([], pa.int64())}))) == []


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_dataset_of_text_files_is_refused(tmp_path: Path, kind: str) -> None:
    """Its reader takes what follows an open quote for one cell, and guesses types from the first rows."""
    (tmp_path / f"t.{kind}").write_text("a\n1\n" if kind == "csv" else '{"a": 1}\n')
    one = ds.dataset(tmp_path / f"t.{kind}", format=kind)
    for source in (one, ds.dataset([one]), ds.dataset([ds.dataset([one])])):
        with pytest.raises(InputError, match=f"dataset is of {kind} files"):
            open_table(source)


PEOPLE = ["p", "q", "p", None, "p", "q", None, "r", None]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_person_keeps_at_most_k_rows(kind: pa.DataType, most: int) -> None:
    """More of one person's rows would break the promise. Rows without an id are left out."""
    table = pa.table({"who": pa.array(PEOPLE).cast(kind), "row": list(range(len(PEOPLE)))})
    parts = pa.Table.from_batches(table.to_batches(max_chunksize=2))  # a person spans batches
    bounded = bound_contributions(open_table(parts), "who", most)
    assert bounded.schema.names == ["row"]
    # counting below `most + 1`, the planted bug, keeps one row too many and fails here
    expected = [i for i, who in enumerate(PEOPLE) if who is not None and PEOPLE[:i].count(who) < most]
    assert rows_of(bounded) == rows_of(bounded) == [{"row": i} for i in expected]


def test_whose_rows_are_kept_depends_on_that_person_alone() -> None:
    """Else removing another person's rows would change more than k rows."""

    def kept(people: list[str]) -> list[int]:
        own = itertools.count()
        rows = pa.table({"who": people, "row": [next(own) if who == "a" else -1 for who in people]})
        found = rows_of(bound_contributions(open_table(rows), "who", 2))
        return [row["row"] for row in found if row["row"] >= 0]

    assert kept(["b", "a", "b", "a", "a", "b"]) == kept(["a", "a", "a"]) == [0, 1]


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
    assert rows_of(kept) == ([] if None in dictionary else [{"v": 1}])


@pytest.mark.parametrize(
    ("content", "kept"), [("who,v\n,a\n,b\np,c\nNA,d\nNA,e\n", ["c"]), ('who,v\n"",a\n1,b,c\np,d\n', ["d"])]
)
def test_rows_without_an_id_are_nobodys(tmp_path: Path, content: str, kept: list[str]) -> None:
    """As one person, they moved two rows where one was charged. A malformed line has no id."""
    (tmp_path / "t.csv").write_text(content)
    bounded = bound_contributions(open_table(tmp_path / "t.csv"), "who", 1, missing=("NA",))
    assert [row["v"] for row in rows_of(bounded)] == kept


@pytest.mark.parametrize("coded", [False, True])
def test_a_number_with_several_spellings_names_nobody(coded: bool) -> None:
    """0.0 and -0.0, or null and NaN, would be two people."""
    ids = pa.array([0.0, -0.0], pa.float32()).dictionary_encode() if coded else pa.array([0.0, -0.0])
    with pytest.raises(InputError, match="spellings"):
        bound_contributions(open_table(pa.table({"id": ids, "v": [1, 2]})), "id", 1)


def test_ids_may_be_a_dictionary_of_dates() -> None:
    """As of a categorical column of pandas; an empty array of that type raised ArrowNotImplementedError."""
    ids = pa.array([7, 7, 9], pa.int32()).cast(pa.date32()).dictionary_encode()
    kept = bound_contributions(open_table(pa.table({"id": ids, "v": [1, 2, 3]})), "id", 1)
    assert len(rows_of(kept)) == 2


def test_parquet_is_read_one_row_group_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for all at once, the library keeps the bytes of all until the end: memory grows with the file."""
    asked: list[list[int]] = []
    honest = pq.ParquetFile.iter_batches

    def watched(self: Any, size: int, row_groups: list[int], columns: list[str]) -> Any:
        assert len(row_groups) == 1
        if size > 1:  # else it is checked, by one row of it
            asked.append(row_groups)
        return honest(self, size, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    table = pa.table({"a": list(range(25)), "t": [f"t{i % 3}" for i in range(25)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=10)
    read = pa.Table.from_batches(open_table(tmp_path / "t.parquet").batches(["t", "a"]))
    assert asked == [[0], [1], [2]]
    assert read.column("a").to_pylist() == list(range(25))
    assert read.column("t").cast(pa.string()).to_pylist() == table.column("t").to_pylist()


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.large_string())]
)
def test_text_of_any_length_is_read(kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    """More text in a batch than its offsets can address, here 300 bytes; one cell of more is null."""
    monkeypatch.setattr(arrow_input, "MAX_TEXT_BYTES", 300)
    cells = [None if i % 7 == 0 else str(i) * (i % 5) for i in range(500)]
    cells[3] = "x" * 400
    source = open_table(pa.table({"a": pa.array(cells).cast(kind), "n": range(500)}))
    batches = list(source.batches(["a", "n"]))
    cells[3] = None
    assert pa.Table.from_batches(batches).to_pydict() == {"a": cells, "n": [*range(500)]}
    assert len(batches) > 2


def test_a_footer_damaged_at_any_byte_never_ends_the_process(tmp_path: Path) -> None:
    """Seen to fail without the look at each chunk: the library aborted the process."""
    where = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": ["x", "y"] * 100, "b": range(200)}), where)
    whole, refused = where.read_bytes(), 0
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for place in range(footer, len(whole) - 8):
        where.write_bytes(whole[:place] + b"\x15" + whole[place + 1 :])
        try:
            table = open_table(where)
            list(table.batches(table.schema.names))
        except InputError:
            refused += 1
    assert refused > 50
