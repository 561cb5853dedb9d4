"""Folders, globs and several files are one table; names of partitions are values, in no message."""

from __future__ import annotations

import datetime
import os
import resource
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from support.marks import on_linux

from factored_mwem import Domain
from factored_mwem.domain.dialect import Dialect
from factored_mwem.errors import InputError
from factored_mwem.tables.backends.codes import encode_table
from factored_mwem.tables.codes.codec import fit_columns
from factored_mwem.tables.codes.spelling import respelt
from factored_mwem.tables.inputs.fingerprint import fingerprint
from factored_mwem.tables.inputs.places import NO_VALUE, places_of
from factored_mwem.tables.inputs.source import Table, open_table

CANARY = "CANARY-4711"
ROWS = [{"a": i % 5, "b": f"v{i % 3}" if i % 7 else None} for i in range(40)]
WRITERS: dict[str, Any] = {
    "parquet": lambda table, path: pq.write_table(table, path, row_group_size=4),
    "orc": orc.write_table,
    "feather": lambda table, path: pf.write_feather(table, str(path)),
    "csv": lambda table, path: path.write_text(_lines(table, ",")),
    "tsv": lambda table, path: path.write_text(_lines(table, "\t")),
}


def _lines(table: pa.Table, sign: str) -> str:
    rows = [sign.join("" if v is None else str(v) for v in row.values()) for row in table.to_pylist()]
    return "\n".join([sign.join(table.schema.names), *rows]) + "\n"


def rows_of(table: Table, columns: list[str] | None = None) -> Counter[Any]:
    names = columns or table.schema.names
    return Counter(tuple(row.values()) for batch in table.batches(names) for row in batch.to_pylist())


def spread(folder: Path, kind: str, parts: int = 3) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(parts):
        WRITERS[kind](pa.Table.from_pylist(ROWS[number::parts]), folder / f"part-{number}.{kind}")
    return folder


@pytest.mark.parametrize("kind", WRITERS)
def test_a_folder_a_glob_and_a_list_are_the_one_file(tmp_path: Path, kind: str) -> None:
    spread(tmp_path / "one", kind, 1)
    whole = open_table(tmp_path / "one" / f"part-0.{kind}")
    folder = spread(tmp_path / "people", kind)
    (folder / "_temporary").mkdir()
    for name in ("_SUCCESS", ".part-0.crc", "x.crc", "_manifest.json", "people.domain.json"):
        (folder / name).write_text("no table")
    (folder / "_temporary" / f"part-9.{kind}").write_text("no table")
    files = sorted(folder.glob(f"part*.{kind}"))
    turned, mixed = tuple(map(str, reversed(files))), [f"{folder}/part-[01].{kind}", files[2]]
    for source in (folder, f"{folder}/", f"{folder}/*.{kind}", files, turned, f"file://{folder}", mixed):
        table = open_table(source)
        assert table.schema == whole.schema and table.text == whole.text
        assert rows_of(table) == rows_of(table) == rows_of(whole)
        assert rows_of(table, ["b"]) == rows_of(whole, ["b"])


def test_names_of_partitions_are_columns(tmp_path: Path) -> None:
    years = {"2024/month=01": 1, "2024/month=a%2Fb%25": 2, "x/month=__HIVE_DEFAULT_PARTITION__": 3}
    for name, value in years.items():
        folder = tmp_path / "p" / f"year={name}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"v": [value, value]}), folder / "x.parquet")
    (tmp_path / "p" / "year=2077" / "month=12").mkdir(parents=True)  # empty: says nothing, not even its name
    found = open_table(tmp_path / "p")
    assert found.schema == pa.schema({"v": pa.int64(), "year": pa.string(), "month": pa.string()})
    rows = {(1, "2024", "01"): 2, (2, "2024", "a/b%"): 2, (3, "x", None): 2}
    assert rows_of(found) == rows
    assert rows_of(found, ["month", "v"]) == {(m, v): n for (v, _, m), n in rows.items()}
    assert rows_of(found, ["year"]) == {("2024",): 4, ("x",): 2}
    assert rows_of(open_table(f"{tmp_path}/p/year=2024/*/x.parquet")) == {(1, "01"): 2, (2, "a/b%"): 2}
    bounds = {"minimum": 2020, "maximum": 2029}
    domain = Domain.from_dict({"fields": [{"name": "year", "type": "integer", "constraints": bounds}]})
    fitted, schema = fit_columns(domain, found, ["year"])
    assert schema.field("year").type == pa.int64()  # as the domain says
    (codes,) = encode_table(fitted, found).columns
    assert sorted(codes.tolist()) == [*[4] * 4, 10, 10]


@on_linux
def test_a_partition_that_is_no_text_is_null(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "p") + b"/k=%FF\xfe"
    os.makedirs(folder)
    pq.write_table(pa.table({"v": [1]}), tmp_path / "x.parquet")
    os.rename(tmp_path / "x.parquet", folder + b"/x.parquet")
    assert rows_of(open_table(tmp_path / "p")) == {(1, None): 1}


def both(folder: Path, one: pa.Table | str, other: pa.Table | str, suffix: str = "parquet") -> Path:
    for name, table in ((f"k={CANARY}", one), (f"k=b{CANARY}", other)):
        (folder / name).mkdir(parents=True)
        path = folder / name / f"x.{suffix}"
        path.write_text(table) if isinstance(table, str) else WRITERS[suffix](table, path)
    return folder


INTEGERS = pa.table({"v": [1]})


@pytest.mark.parametrize(
    ("one", "other", "suffix", "message"),
    [
        (INTEGERS, pa.table({"v": [1.5]}), "parquet", r"k=\*/x.parquet: column 'v' is double, and int64 in"),
        (INTEGERS, pa.table({"w": [1]}), "parquet", r"has column 'w' where .* has 'v'"),
        (INTEGERS, pa.table({"v": [1], "w": [1]}), "parquet", r"has column 'w' where .* has none"),
        (pa.table({"k": [1]}), pa.table({"k": [1]}), "parquet", "'k' is in the files and in the names of"),
        ("a,b\n1,2\n", "b,a\n1,2\n", "csv", "has column 'b' where .* has 'a'"),
        ("a,b\n1,2\n", "a;b\n1;2\n", "csv", "has another delimiter"),
        ("a,b\n1,2\n", "a,b\r\n1,2\r\n", "csv", "has another line end"),
        ("a,b\n1,2\n", "", "csv", r"k=\*/x.csv is empty; it needs a header"),
        ("a,b\n1,2\n", 'a\n"', "csv", r"has column none where .* has 'b'"),
    ],
)
def test_files_that_are_no_one_table_are_refused_without_a_partition_s_value(
    tmp_path: Path, one: Any, other: Any, suffix: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        open_table(both(tmp_path / "p", one, other, suffix))
    assert "CANARY" not in str(refused.value) and "\n" not in str(refused.value)


def test_no_message_of_a_pass_quotes_a_partition(tmp_path: Path) -> None:
    quoted = both(tmp_path / "p", "a,b\n1,2\n", 'a,b\n"1,2\n', "csv")
    gone = both(tmp_path / "q", INTEGERS, INTEGERS)
    tables = [open_table(quoted), open_table(gone)]
    (gone / f"k={CANARY}" / "x.parquet").unlink()
    said = (r"k=\*/x.csv, record 1: a quote is open", r"k=\*/x.parquet was changed while it was read")
    for table, message in zip(tables, said, strict=True):
        with pytest.raises(InputError, match=message) as refused:
            rows_of(table)
        assert "CANARY" not in str(refused.value)
    assert CANARY not in repr(places_of(gone))


def test_a_column_without_a_value_in_one_file_goes_with_any_type(tmp_path: Path) -> None:
    """Some writers call it null there: the first value in it would change the type, and be seen."""
    empty, large = pa.table({"v": pa.nulls(2)}), pa.table({"v": pa.array(["x"], pa.large_string())})
    for number, order in enumerate(([empty, INTEGERS], [INTEGERS, empty])):
        found = open_table(both(tmp_path / f"{number}", *order))
        assert found.schema.field("v").type == pa.int64()
        assert rows_of(found, ["v"]) == {(None,): 2, (1,): 1}
    texts = open_table(both(tmp_path / "t", large, pa.table({"v": ["x"]})))
    assert texts.schema.field("v").type == pa.string() and rows_of(texts, ["v"]) == {("x",): 2}
    assert rows_of(open_table(both(tmp_path / "e", empty, empty)), ["v"]) == {(None,): 4}


def test_no_file_counts_twice(tmp_path: Path) -> None:
    """A person's rows would be twice as many as was charged. Seen to give 80 rows without the check."""
    folder = spread(tmp_path / "people", "parquet")
    os.symlink(folder / "part-0.parquet", tmp_path / "again.parquet")
    os.link(folder / "part-0.parquet", tmp_path / "linked.parquet")
    for source in (
        [folder, folder / "part-1.parquet"],
        [f"{folder}/*.parquet", f"{folder}/part-2.*"],
        [folder, tmp_path / "again.parquet"],
        [folder, tmp_path / "linked.parquet"],
        [folder, f"{folder}/../people"],
    ):
        with pytest.raises(InputError, match=r"is given twice; its rows would count twice"):
            open_table(source)
    os.symlink(folder, folder / "loop")
    assert sum(rows_of(open_table(folder)).values()) == len(ROWS)


def test_a_table_s_log_is_not_passed_over(tmp_path: Path) -> None:
    """Files of a lake's past lie beside those that count: read as a folder, deleted rows would come back."""
    folder = spread(tmp_path / "people", "parquet")
    (folder / "_delta_log").mkdir()
    with pytest.raises(InputError, match=r"cannot read .*people: its log|pip install 'factored-mwem.lake.'"):
        open_table(folder)
    for source in ([folder], f"{tmp_path}/peop*", tmp_path):
        with pytest.raises(InputError, match="is a Delta table: its log says which files count"):
            open_table(source)
    other = spread(tmp_path / "berg" / "data", "parquet").parent
    (other / "metadata").mkdir()
    with pytest.raises(InputError, match="is an Iceberg table"):
        open_table(other)


@pytest.mark.parametrize("how", ["touched", "grown", "replaced", "gone"])
@pytest.mark.parametrize("when", ["between", "within"])
def test_a_file_that_changes_stops_the_pass(tmp_path: Path, how: str, when: str) -> None:
    """A file that comes to the folder is no part of what was opened."""
    folder = spread(tmp_path / "people", "parquet")
    table, last = open_table(folder), folder / "part-2.parquet"
    batches = table.batches(["a"])
    assert next(batches).num_rows
    if when == "between":
        WRITERS["parquet"](pa.Table.from_pylist(ROWS), folder / "part-9.parquet")
        assert sum(rows_of(table).values()) == len(ROWS)
        batches = table.batches(["a"])
    if how == "touched":
        os.utime(last, ns=(0, 0))
    elif how == "grown":
        last.write_bytes(last.read_bytes() + b"x")
    elif how == "replaced":
        os.replace(folder / "part-1.parquet", last)
    else:
        last.unlink()
    with pytest.raises(InputError, match=r"was changed while it was read|no file|cannot read"):
        list(batches)


def test_more_files_than_a_process_may_hold_open(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.csv").write_text(f"a,b\n{number},x\n")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        assert sum(rows_of(open_table(tmp_path)).values()) == 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_fingerprints_tell_folders_apart(tmp_path: Path) -> None:
    """Where a file ends shows, whatever the rows: one may look like an end and the next one's folders."""
    one, other = (both(tmp_path / name, INTEGERS, INTEGERS) for name in "ab")
    prints = {fingerprint(open_table(folder), b"k") for folder in (one, one, other)}
    assert len(prints) == 1
    os.rename(one / f"k={CANARY}", one / "k=2")
    WRITERS["parquet"](pa.table({"v": [2]}), other / f"k={CANARY}" / "x.parquet")
    for name, parts in (("one", ("h\n1\n", "h\n2\n", "h\n3\n")), ("two", ("h\n1\n()h\n2\n", "h\n3\n"))):
        (tmp_path / name).mkdir()
        for number, text in enumerate(parts):
            (tmp_path / name / f"{number}.csv").write_text(text)
    folders = (one, other, tmp_path / "one", tmp_path / "two")
    assert len({fingerprint(open_table(folder), b"k") for folder in folders} | prints) == 5


@pytest.mark.parametrize("source", [[], ["a.parquet", 1], [b"a.parquet"]], ids=str)
def test_what_names_no_files_is_refused(source: Any) -> None:
    with pytest.raises(InputError, match="cannot read a table from list"):
        open_table(source)


def test_folders_without_a_file_and_globs_without_a_match(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").write_text("")
    for source in (tmp_path, f"{tmp_path}/*.parquet"):
        with pytest.raises(InputError, match="holds no file of a table"):
            open_table(source)
    (tmp_path / "README.md").write_text("")
    with pytest.raises(InputError, match=r"README.md: unknown kind of file"):
        open_table(tmp_path)
    (tmp_path / "[x].csv").write_text("a\n1\n")  # a name with a bracket is a name where there is such a file
    assert rows_of(open_table(f"{tmp_path}/[x].csv")) == {("1",): 1}


def test_names_of_partitions_are_respelt_as_cells_are(tmp_path: Path) -> None:
    for day in ("31.12.1999", "01.02.2000", NO_VALUE):
        part = tmp_path / "days" / f"day={day}"
        part.mkdir(parents=True)
        (part / "x.csv").write_text("price\n1\n")
    dialect = Dialect.of(date_format="%d.%m.%Y", decimal=",", time_zone="UTC")
    table = respelt(open_table(tmp_path / "days", dialect=dialect), dialect, None)
    assert rows_of(table, ["day"]) == {("1999-12-31",): 1, ("2000-02-01",): 1, (None,): 1}


def test_how_wide_a_dictionary_s_codes_are_makes_no_difference(tmp_path: Path) -> None:
    """A writer chooses it by the number of values: one row more, and a folder would be none any more."""
    (tmp_path / "people").mkdir()
    for name, kind, count in (("a", pa.int8(), 3), ("b", pa.int16(), 200), ("c", pa.int8(), 1)):
        values = pa.array([f"{name}{i}" for i in range(count)], pa.large_string() if name == "c" else None)
        column = pa.DictionaryArray.from_arrays(pa.array([count - 1], kind), values)
        pf.write_feather(pa.table({"c": column}), str(tmp_path / "people" / f"{name}.feather"))
    table = open_table(tmp_path / "people")
    assert table.schema.field("c").type == pa.dictionary(pa.int32(), pa.string())
    assert rows_of(table) == {("a2",): 1, ("b199",): 1, ("c0",): 1}


@pytest.mark.parametrize("year", [1, 1600, 2020, 9999])
def test_no_row_s_timestamp_decides_whether_an_orc_file_is_read(tmp_path: Path, year: int) -> None:
    """The library reads no stripe with a moment that 64 bits of nanoseconds do not hold."""
    path, moment = tmp_path / "t.orc", pa.array([datetime.datetime(year, 12, 31)], pa.timestamp("us"))
    orc.write_table(pa.table({"t": moment, "s": ["x"]}), path)
    table = open_table(path)
    assert rows_of(table, ["s"]) == {("x",): 1}
    with pytest.raises(InputError, match="column 't' is a timestamp, not read from ORC; leave it out"):
        rows_of(table)
