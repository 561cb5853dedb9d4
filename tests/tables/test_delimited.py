"""Text files against their definition, read byte by byte; and what one line may do to the others: nothing."""

from __future__ import annotations

import csv
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset as ds
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factored_mwem.errors import Ambiguous, InputError
from factored_mwem.tables.inputs import delimited
from factored_mwem.tables.inputs.delimited import read_delimited
from factored_mwem.tables.inputs.input_file import InputFile
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.inputs.text_form import Records, read_form

Row = tuple[str | None, ...]
REFUSED = "refused"


def records_of(path: Path, records: Records = "checked") -> list[Row] | str:
    """All records of a file, or REFUSED where it is not clear what they are."""
    file = InputFile(path)
    form = read_form(file, records)
    try:
        found = list(read_delimited(file, form, form.names))
    except Ambiguous:
        return REFUSED
    for batch in found:
        batch.validate(full=True)
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


def by_definition(text: bytes, records: Records, width: int) -> list[Row] | str:
    """The records of what follows a header, by the words of the definition, for `checked` and `lines`."""
    header, body = text.split(b"\n", 1)
    end = b"\r\n" if header.endswith(b"\r") else b"\n"
    lines = body.split(end)
    found: list[Row] = []
    for raw in lines if lines[-1] else lines[:-1]:
        line = raw.removesuffix(b"\r") if end == b"\n" else raw
        if not line and width > 1:
            continue
        cells, opened, stray = _cells(line)
        if records == "checked" and (opened or (stray and end == b"\r\n")):
            return REFUSED
        broken = opened or len(cells) != width
        found.append((None,) * width if broken else tuple(map(_text, cells)))
    return found


def _cells(line: bytes) -> tuple[list[bytes], bool, bool]:
    """(cells, whether a quote stays open, whether a line feed stands outside quotes)."""
    cells, cell, state, stray, at = [], b"", "start", False, 0
    while at < len(line):
        c = line[at : at + 1]
        if state == "quoted" and c == b'"' and line[at + 1 : at + 2] == b'"':
            cell, at = cell + c, at + 1
        elif state == "quoted" and c == b'"':
            state = "plain"
        elif state == "quoted":
            cell += c
        elif c == b",":
            cells, cell, state = [*cells, cell], b"", "start"
        elif c == b'"' and state == "start":
            state = "quoted"
        else:
            cell, state, stray = cell + c, "plain", stray or c == b"\n"
        at += 1
    return [*cells, cell], state == "quoted", stray


def _text(cell: bytes) -> str | None:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None


PIECES = (b"a", b",", b'"', b'""', b"\n", b"\r\n", b"\r", b"\xe9", b"\xc3\xa9", b"\0", b" ", b"\xef\xbb\xbf")
CLEAN = (b"a", b'"x"', b'"a,b"', b"", b'"q""r"', b'"t"u', b"\xc3\xa9", b"\xef\xbb\xbfm")


@pytest.mark.slow
@settings(
    max_examples=200, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(st.randoms(use_true_random=False))
def test_any_file_is_read_by_the_definition(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    """Blocks of any size, so that whatever there is lies across their ends; both paths are taken."""
    path = tmp_path_factory.getbasetemp() / "any.csv"
    records: Records = chance.choice(("checked", "lines"))
    width, end = chance.choice((1, 2, 3)), chance.choice((b"\n", b"\r\n"))
    lines = [
        [b"x", b"y", b"z"][:width],
        *(chance.choices(CLEAN, k=width) for _ in range(chance.randrange(5))),
    ]
    text = b"".join(
        [*(b",".join(line) + end for line in lines), *chance.choices(PIECES, k=chance.randrange(25))]
    )
    path.write_bytes(text)
    block = delimited.BLOCK_BYTES
    delimited.BLOCK_BYTES = chance.choice((1, 3, 7, 20, block))
    try:
        assert records_of(path, records) == by_definition(text, records, width), (text, records, width)
    finally:
        delimited.BLOCK_BYTES = block


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block", [1, 5, 64, delimited.BLOCK_BYTES])
def test_a_conforming_writers_file_comes_back_with_multiline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, block: int
) -> None:
    rows = [["a", "b"], ["1", "x\ny"], ['"', 'q"\r\n"r'], ["", "\n"], ["\n,\n", "é"], ["plain", "row"]]
    with open(tmp_path / "t.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator=end).writerows(rows)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
    assert records_of(tmp_path / "t.csv", "multiline") == [tuple(row) for row in rows[1:]]
    assert records_of(tmp_path / "t.csv", "checked") == REFUSED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'a,b\n1,"x\n2,y\n', "ends inside quotes"),
        # two people's quotes: what lies between would be one's
        (b'a,b\neve,"x\n1,2\nbob,"y\n3,4\n', "text behind a closing quote"),
        (b"a,b\r\n1,2\n3,4\r\n", "a line feed alone"),
    ],
)
def test_what_no_writer_leaves_is_refused_with_multiline(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "t.csv").write_bytes(text)
    with pytest.raises(Ambiguous, match=message):
        list(open_table(tmp_path / "t.csv", "multiline").batches(["a", "b"]))


def test_one_open_quote_swallows_nobody(tmp_path: Path) -> None:
    """101 of 1,000 rows were read, and nothing said so."""
    lines = [f"p{i},{i}" for i in range(1000)]
    lines[99] = 'eve,"x'
    (tmp_path / "t.csv").write_text("name,n\n" + "\n".join(lines) + "\n")
    assert records_of(tmp_path / "t.csv", "checked") == REFUSED
    found = records_of(tmp_path / "t.csv", "lines")
    assert len(found) == 1000 and found[99] == (None, None) and found[100] == ("p100", "100")


def test_a_record_too_long_is_malformed_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it lies in a block depends on the lines of others."""
    monkeypatch.setattr(delimited, "MAX_RECORD_BYTES", 20)
    for block in (1, 7, 16, 40, 200):
        monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
        for before in range(0, 60, 7):
            lines = ["x,y"] * (before // 4) + ["a," + "b" * 18, "a," + "b" * 19, "c" * 200, "1,2"]
            (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(lines) + "\n")
            kept = [("a", "b" * 18), (None, None), (None, None), ("1", "2")]
            assert records_of(tmp_path / "t.csv", "lines")[-4:] == kept
            assert records_of(tmp_path / "t.csv", "checked") == REFUSED


def test_the_fast_path_is_taken_for_clean_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only there: else the tests above would say nothing of one path or the other."""
    calls: list[str] = []
    plain, mended = delimited._plain, delimited._mended
    monkeypatch.setattr(delimited, "_plain", lambda *a: calls.append("plain") or plain(*a))
    monkeypatch.setattr(delimited, "_mended", lambda *a: calls.append("mended") or mended(*a))
    for text, path in (
        (b'a,b\n1,"2,\xc3\xa9"\n', ["plain"]),
        (b"a,b\n1,2\n\n", ["plain", "mended"]),
        (b"a,b\n1\n", ["plain", "mended"]),
    ):
        (tmp_path / "t.csv").write_bytes(text)
        calls.clear()
        records_of(tmp_path / "t.csv")
        assert calls == path


@pytest.mark.parametrize("records", ["checked", "lines", "multiline"])
@pytest.mark.parametrize("block", [1, 8, 64, delimited.BLOCK_BYTES])
def test_a_byte_order_mark_is_a_part_of_its_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: Records, block: int
) -> None:
    """The library takes one from the front of a block: who stood before decided what a cell held."""
    mark = "\ufeff"
    rows = [(f"{mark}x", "1"), ("z", "2"), (f"{mark}x", "3"), (f"{mark}{mark}x", "4"), (mark, "5")]
    text = "".join(f"{','.join(row)}\n" for row in [(f"{mark}a", "b"), *rows])
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
    assert records_of(tmp_path / "t.csv", records) == rows


def test_columns_alone_are_read_and_only_their_bytes_count(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,\xff\n\xff,2\n")
    (batch,) = open_table(tmp_path / "t.csv").batches(["b"])
    assert batch.to_pylist() == [{"b": None}, {"b": "2"}]


# --- one open file


def rows_in(table: Any) -> int:
    return sum(batch.num_rows for batch in table.batches(table.schema.names))


WRITERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    ".csv": pc.write_csv,
    ".parquet": pq.write_table,
    ".feather": pf.write_feather,
}


def _write(path: Path, rows: int) -> Path:
    WRITERS[path.suffix](pa.table({"a": np.arange(rows), "b": ["x"] * rows}), path)
    return path


every_kind = pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather"])


def check_change_is_seen(batches: Iterable[Any]) -> None:
    with pytest.raises(InputError, match=r"(was|dataset were) changed"):
        list(batches)


@every_kind
def test_a_file_that_is_written_to_stops_the_next_pass(tmp_path: Path, name: str) -> None:
    """A file rewritten between two passes gave 100 rows of one person where one was charged."""
    table = open_table(_write(tmp_path / name, 10))
    assert rows_in(table) == 10
    content = _write(tmp_path / f"new-{name}", 10).read_bytes()
    os.utime(tmp_path / name, ns=(0, 0))
    check_change_is_seen(table.batches(["a"]))
    table = open_table(tmp_path / name)
    with open(tmp_path / name, "r+b") as file:  # in place: the same inode
        file.write(content + b"1,x\n")
    check_change_is_seen(table.batches(["a"]))


@every_kind
def test_a_file_that_another_takes_the_place_of_is_read_on(tmp_path: Path, name: str) -> None:
    table = open_table(_write(tmp_path / name, 10))
    os.replace(_write(tmp_path / f"new-{name}", 20), tmp_path / name)
    assert rows_in(table) == rows_in(table) == 10


def test_a_change_in_the_middle_of_a_pass_is_seen_at_its_end(tmp_path: Path) -> None:
    batches = open_table(_write(tmp_path / "t.csv", 10)).batches(["a"])
    next(batches)
    (tmp_path / "t.csv").write_text("a,b\n")
    check_change_is_seen(batches)


def test_a_new_mode_link_or_name_is_no_change(tmp_path: Path) -> None:
    """Backups link files: a run that ended for that would have paid for nothing."""
    path = _write(tmp_path / "t.csv", 10)
    table = open_table(path)
    path.chmod(0o640)
    os.link(path, tmp_path / "other.csv")
    os.replace(path, tmp_path / "moved.csv")
    assert rows_in(table) == 10


def test_of_a_parquet_file_the_footer_counts(tmp_path: Path) -> None:
    """Written again in the same size at the same time: the footer holds statistics and offsets."""
    path = _write(tmp_path / "t.parquet", 10)
    table, before, data = open_table(path), path.stat(), bytearray(path.read_bytes())
    data[-20] ^= 1
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    check_change_is_seen(table.batches(["a"]))


def test_a_dataset_whose_files_change_stops_too(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.parquet", 10)
    whole = ds.dataset(path)
    tables = [open_table(each) for each in (whole, ds.dataset([whole]), ds.dataset([ds.dataset([whole])]))]
    assert [rows_in(table) for table in tables] == [10] * 3
    _write(path, 11)
    for table in tables:
        check_change_is_seen(table.batches(["a"]))


def test_a_pipe_is_refused_before_it_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(InputError, match="no regular file"):
        open_table(tmp_path / "t.csv")
