"""How text is written is said, or seen in the header; no cell decides how another one is read."""

from __future__ import annotations

import bz2
import codecs
import csv
import dataclasses
import datetime
import gzip
import json
import lzma
import random
import tracemalloc
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.marks import others_slow

from factored_mwem import Domain, Policy, draft, release
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.dialect import ENCODINGS, Dialect
from factored_mwem.errors import InputError
from factored_mwem.request.request import Request
from factored_mwem.tables.codes.spelling import respelt
from factored_mwem.tables.inputs import json_lines
from factored_mwem.tables.inputs.recoding import Transcoded
from factored_mwem.tables.inputs.source import Table, open_table
from factored_mwem.tables.inputs.text_form import UTF_8, Records

CANARY = "CANARY-4711"


def rows_of(path: Path, dialect: Dialect | None = None, names: list[str] | None = None) -> list[Any]:
    return cells_of(open_table(path, "checked", dialect or Dialect(), names))


def cells_of(table: Table) -> list[Any]:
    return [tuple(r.values()) for b in table.batches(table.schema.names) for r in b.to_pylist()]


def names_of(path: Path, dialect: Dialect | None = None) -> list[str]:
    return open_table(path, "checked", dialect or Dialect()).schema.names


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


# ---- compression

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
TEXT = b"a,b\n" + b"".join(b"%d,x%d\n" % (i, i % 7) for i in range(20_000))


@pytest.mark.slow
@pytest.mark.parametrize("end", PACKERS)
@pytest.mark.parametrize("kind", [".csv", ".tsv", ".jsonl"])
def test_packed_text_is_the_text(tmp_path: Path, end: str, kind: str) -> None:
    """In one stream, or in several one after the other, as appending leaves it."""
    pack = PACKERS[end]
    text = TEXT.replace(b",", b"\t") if kind == ".tsv" else TEXT
    if kind == ".jsonl":
        text = b"".join(b'{"a": %d, "b": "x%d"}\n' % (i, i % 7) for i in range(20_000))
    plain = rows_of(written(tmp_path / f"t{kind}", text), names=["a", "b"])
    assert len(plain) == 20_000
    assert rows_of(written(tmp_path / f"t{kind}{end}", pack(text)), names=["a", "b"]) == plain
    parts = pack(text[:70_001]) + pack(text[70_001:])
    assert rows_of(written(tmp_path / f"p{kind}{end}", parts), names=["a", "b"]) == plain


@pytest.mark.parametrize("end", PACKERS)
def test_damaged_packing_is_one_line(tmp_path: Path, end: str) -> None:
    data = PACKERS[end](TEXT)
    cut = (data[:-30], data[: len(data) // 2], data[:10] + b"\xff" * 40)
    for number, wrong in enumerate((*cut, TEXT, data + b"x" * 50, b"\xff" * 99)):
        with pytest.raises(InputError, match=r"damaged, or not what its name says|is empty") as refused:
            rows_of(written(tmp_path / f"{number}.csv{end}", wrong))
        assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("end", PACKERS)
def test_what_unpacks_to_very_much_is_read_as_a_stream(tmp_path: Path, end: str) -> None:
    path = written(tmp_path / f"t.csv{end}", PACKERS[end](b"a,b\n" + b"1,2\n" * 10_000_000))
    table = open_table(path)
    tracemalloc.start()
    first = next(iter(table.batches(["a"])))
    assert first.num_rows and tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


# ---- the separator


HEADERS = {"a|b": "|", "a;b": ";", "a\tb": "\t", '"a;x",b': ",", '"a|x"|"b,c"': "|", "a b": ","}


@pytest.mark.parametrize("header", HEADERS)
def test_the_separator_is_the_one_in_the_header(tmp_path: Path, header: str) -> None:
    """A file with bars was one column, all of it `other`, and paid for."""
    names = next(csv.reader([header], delimiter=HEADERS[header]))
    assert names_of(written(tmp_path / "t.csv", f"{header}\n".encode())) == names


def test_two_separators_are_asked_about(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", b"a;b|c,d\n1;2|3,4\n")
    with pytest.raises(InputError, match=r"holds commas and semicolons and bars; say with --delimiter"):
        open_table(path)
    assert rows_of(path, Dialect.of(delimiter="|")) == [("1;2", "3,4")]
    assert rows_of(path, Dialect.of(delimiter=";")) == [("1", "2|3,4")]
    odd = written(tmp_path / "o.csv", b'a^b\n1^"2^""3"\nx^y^z\n')
    assert rows_of(odd, Dialect.of(delimiter="^")) == [("1", '2^"3'), (None, None)]
    assert rows_of(written(tmp_path / "t.tsv", b"a,b\n1,2\n"), Dialect.of(delimiter=",")) == [("1", "2")]


def test_the_index_that_a_frame_left_is_no_column(tmp_path: Path) -> None:
    """What pandas reads back is the frame without it; a frame's own index is left out, too."""
    import pandas as pd

    frame = pd.DataFrame({"a": [5, 6], "b": ["x,y", "z"]})
    frame.to_csv(tmp_path / "t.csv")
    assert names_of(tmp_path / "t.csv") == open_table(frame).schema.names == ["a", "b"]
    assert rows_of(tmp_path / "t.csv") == [("5", "x,y"), ("6", "z")]
    with pytest.raises(InputError, match="column 1 of the header has no name"):
        open_table(written(tmp_path / "n.csv", b'""\n1\n'))
    with pytest.raises(InputError, match="column 3 of the header has no name; give it one"):
        open_table(written(tmp_path / "m.csv", b",a,,b\n1,2,3,4\n"))


@pytest.mark.parametrize("records", ["checked", "lines", "multiline"])
def test_what_is_behind_a_delimiter_too_many_is_no_column(tmp_path: Path, records: Records) -> None:
    path = written(tmp_path / "t.csv", b"a;b;;\n1;x;;\n2;y;;z\n;;;\n")
    table = open_table(path, records)
    assert table.schema.names == ["a", "b"]
    rows = [row for batch in table.batches(["a", "b"]) for row in batch.to_pylist()]
    assert [tuple(row.values()) for row in rows][:2] == [("1", "x"), ("2", "y")]
    with pytest.raises(InputError, match="of the header has no name"):
        open_table(written(tmp_path / "n.csv", b";;\n1;2;3\n"))


# ---- encodings


@pytest.mark.parametrize(
    "encoding",
    others_slow(
        sorted({*ENCODINGS.values()} - {*UTF_8}),
        lambda name: name in ("cp1252", "utf-16", "gb18030", "shift_jis"),
    ),
)
def test_no_bytes_of_a_record_reach_beyond_its_line_feed(encoding: str) -> None:
    """What is behind one comes out as if it stood alone. Seen to fail where iso-2022-jp is let in."""
    wide = encoding.startswith("utf-16")
    head = codecs.BOM_UTF16_LE if encoding == "utf-16" else b""
    plain = "utf-16-le" if head else encoding
    end, behind = "\n".encode(plain), 'x,1\n\r"z"'.encode(plain)
    alone = _read(head + behind, encoding)
    rng = random.Random(encoding)
    firsts = [bytes([a]) * (1 + wide) for a in range(256)]
    some = [rng.randbytes(2 * rng.randrange(1, 5)) for _ in range(3000)]
    pairs = [bytes(p) for a in range(0x80, 256) for p in ((a, 0x30), (a, 0x7C), (a, a))]
    for before in (*firsts, *some, *pairs):
        whole = _read(head + before + end + behind, encoding)
        assert whole.endswith(b"\n" + alone), before
        assert _read(head + before, encoding) == whole[: -len(alone) - 1]


def _read(data: bytes, encoding: str) -> bytes:
    class Drops:
        """A stream that gives what it likes, at most three bytes."""

        def __init__(self) -> None:
            self.at = 0

        def read(self, size: int) -> bytes:
            given = data[self.at : self.at + 3]
            self.at += len(given)
            return given

    return Transcoded(Drops(), encoding).read()


@pytest.mark.parametrize(
    "name", ["iso2022_jp", "utf-7", "hz", "idna", "rot13", "cp037", "utf-32", "nonsense", "\0"]
)
def test_encodings_that_one_cell_could_switch_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="encoding: is no encoding that is read here"):
        Dialect.of(encoding=name)


@pytest.mark.parametrize(
    ("encoding", "text", "bad"),
    [
        ("latin-1", "é", None),
        ("cp1252", "é€", b"\x81"),
        ("cp932", "日本", b"\x81"),
        ("utf-16", "é日", b"\x00\xd8"),
        ("gb18030", "日€", b"\xff"),
        ("euc_kr", "한국", b"\xc7"),
    ],
)
@pytest.mark.parametrize("end", ["", ".xz"])
def test_other_encodings_and_bytes_that_are_none(
    tmp_path: Path, encoding: str, text: str, bad: bytes | None, end: str
) -> None:
    lines = f"a{text},b\n{text},1\n@,2\n".encode(encoding)
    rows = [(text, "1"), ("@", "2")]
    if bad is not None:
        at = "@".encode("utf-16-le" if encoding == "utf-16" else encoding)
        lines, rows = lines.replace(at, bad), [(text, "1"), (None, "2")]
    path = written(tmp_path / f"t.csv{end}", lzma.compress(lines) if end else lines)
    dialect = Dialect.of(encoding=encoding)
    assert names_of(path, dialect) == [f"a{text}", "b"]
    assert rows_of(path, dialect) == rows


def test_utf_16_needs_its_mark_and_marks_are_no_names(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "a,b\n1,2\n".encode("utf-16-be"))
    with pytest.raises(InputError, match="has no byte order mark; say --encoding utf-16-le"):
        rows_of(path, Dialect.of(encoding="utf-16"))
    assert rows_of(path, Dialect.of(encoding="UTF-16BE")) == [("1", "2")]
    marked = written(tmp_path / "m.csv", "\ufeffa,b\n1,2\n".encode("utf-16-le"))
    assert names_of(marked, Dialect.of(encoding="utf-16-le")) == ["a", "b"]


# ---- spelling


def spelt(cells: list[str | None], domain: Domain | None = None, **said: Any) -> list[str | None]:
    text = dataclasses.replace(open_table(pa.table({"x": pa.array(cells, pa.string())})), text=True)
    return [cell for (cell,) in cells_of(respelt(text, Dialect.of(**said), domain))]


def test_numbers_with_a_comma(tmp_path: Path) -> None:
    told: dict[str | None, str | None] = {
        "1,5": "1.5",
        "-1.234,5": "-1234.5",
        " 1.234.567 ": "1234567",
        "+,5": "+.5",
        "2": "2",
        "1 234,5": "1234.5",
        "1'234": "1234",
        "1,5e-3": "1.5e-3",
        ",": ".",
        "1,": "1.",
        **{same: same for same in ("12.34,5", "1,2,3", "1.5", "x", "", None, "9" * 10_000, "1.23")},
    }
    assert spelt([*told], decimalChar=",") == [*told.values()]
    assert spelt(["1,234.5", "1,23", "1.5"], decimalChar=".") == ["1234.5", "1,23", "1.5"]


@pytest.mark.parametrize(
    ("pattern", "cell", "told"),
    [
        ("%d/%m/%Y", "31/12/2023", "2023-12-31"),
        ("%d/%m/%Y", " 1/2/2023 ", "2023-02-01"),
        ("%d.%m.%y", "31.12.68", "2068-12-31"),
        ("%d.%m.%y", "31.12.69", "1969-12-31"),
        ("%d-%b-%Y", "05-MAR-2021", "2021-03-05"),
        ("%d-%b-%Y", "05-xyz-2021", "05-xyz-2021"),
        ("%m/%d/%Y %H:%M", "2/1/2023 7:05", "2023-02-01 07:05:00"),
        ("%Y%m%d%H%M%S", "20230201070509", "2023-02-01 07:05:09"),
        ("%d/%m/%Y %H:%M:%S.%f%z", "31/12/2023 23:59:59.25+0100", "2023-12-31 23:59:59.25+0100"),
        ("%d/%m/%Y", "2023-12-31", "2023-12-31"),
        ("%d/%m/%Y", "31/12/23", "31/12/23"),
        ("%d/%m/%Y", None, None),
        ("%d%%(%m)%Y", "31%(12)2023", "2023-12-31"),
        ("%m/%d/%Y %I:%M %p", "2/1/2023 12:05 am", "2023-02-01 00:05:00"),
        ("%m/%d/%Y %I:%M:%S %p", "2/1/2023 1:05:09 PM", "2023-02-01 13:05:09"),
        ("%m/%d/%Y %I:%M %p", "2/1/2023 13:05 PM", "2/1/2023 13:05 PM"),
    ],
)
def test_dates_of_a_pattern(pattern: str, cell: str | None, told: str | None) -> None:
    assert spelt([cell], dateFormat=pattern) == [told]


@pytest.mark.parametrize(
    "pattern",
    ["%c", "%d/%m", "%d/%m/%Y %", "%d/%d/%m/%Y", "x", "%A %d %m %Y", "%d/%m/%Y %I", "%d/%m/%Y %H %p"],
)
def test_patterns_whose_meaning_is_not_fixed_are_refused(pattern: str) -> None:
    with pytest.raises(InputError, match=r"date_?[fF]ormat"):
        Dialect.of(dateFormat=pattern)


def test_clocks_of_a_zone(tmp_path: Path) -> None:
    """Against the standard library's own; moments of an hour that comes twice are the first."""
    zone, rng = zoneinfo.ZoneInfo("Europe/Berlin"), random.Random(3)
    days = [datetime.datetime(2023, 3, 26, h, 30) for h in range(5)]
    days += [datetime.datetime(2023, 10, 29, h, 15) for h in range(5)]
    days += [
        datetime.datetime(1950, 1, 1) + datetime.timedelta(seconds=rng.randrange(2**31)) for _ in range(500)
    ]
    found = spelt([day.isoformat() for day in days], timeZone="Europe/Berlin")
    for day, text in zip(days, found, strict=True):
        real = day.replace(tzinfo=zone).astimezone(datetime.UTC).replace(tzinfo=None)
        there = datetime.datetime.fromisoformat(text or "")
        gone = real.replace(tzinfo=datetime.UTC).astimezone(zone).replace(tzinfo=None) != day
        assert there == real or (gone and abs(there - real) <= datetime.timedelta(hours=1)), day
    put_forward = spelt(["2024-03-31 02:30"], timeZone="Europe/Berlin")
    assert put_forward == ["2024-03-31 01:00:00.000000"]  # the moment that it is, not the tick before
    kept = ["2023-07-01T12:00+02:00", "2023-07-01T10:00Z", "2023-07-01", "x", "", None, "2023-02-31 10:00"]
    assert spelt(kept, timeZone="Europe/Berlin") == kept
    domain = Domain([Attribute(name="x", type="datetime", edges=("2023-01-01", "2024-01-01"))])
    assert spelt(["2023-07-01"], domain, timeZone="Europe/Berlin") == ["2023-06-30 22:00:00.000000"]


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "Asia/Tokyo", "America/Los_Angeles", "UTC", "Pacific/Apia"]
)
def test_no_cell_makes_respelling_fail(zone: str) -> None:
    cells: list[str | None] = [
        *("0001-01-01 00:00", "9999-12-31 23:59:59.999999999", "0000-01-01 00:00", "9999-99-99 99:99"),
        *("1" * 9999, "\0", "1,5\n", "\U0001d7d9,5", "\u0663,\u0665", "31/12/9999 25:61", "00/00/0000"),
        *("2023-07-01 24:00", "", None),
    ]
    said = {"decimalChar": ",", "dateFormat": "%d/%m/%Y %H:%M", "timeZone": zone}
    together = spelt(cells, **said)
    assert together == [spelt([cell], **said)[0] for cell in cells]  # each by itself
    assert spelt([], **said) == []


def test_of_a_declared_domain_each_column_by_its_type(tmp_path: Path) -> None:
    first = b"1,5;1,5;31.12.2023;2023-07-01T12:00;1,5\n"
    second = b'"NA,0";-9,9;x;2023-07-01T12:00+05:00;1.5\n'
    path = written(tmp_path / "t.csv", b"text;n;d;t;who\n" + first + second)
    fields = [
        {"name": "text", "categories": ["1,5", "NA,0"]},
        {"name": "n", "type": "number", "edges": [0, 9], "missingValues": ["-9,9"]},
        {"name": "d", "type": "date", "edges": ["2023-12-01", "2023-12-31"]},
        {"name": "t", "type": "datetime", "edges": ["2023-07-01", "2023-07-02"]},
    ]
    said = {"delimiter": ";", "decimalChar": ",", "dateFormat": "%d.%m.%Y", "timeZone": "Europe/Berlin"}
    domain = Domain.from_dict({"fields": fields, "dialect": said, "encoding": "latin-1"})
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain
    request = Request.of(path, 1, domain=domain, privacy_id="who")  # type: ignore[arg-type]
    assert cells_of(request.private.table) == [
        ("1,5", "1.5", "2023-12-31", "2023-07-01 10:00:00.000000", "1,5"),
        ("NA,0", "-9,9", "x", "2023-07-01T12:00+05:00", "1.5"),
    ]
    made = release(path, 1, domain=domain, epsilon=50.0, columns=["t", "n"], rows=3)
    assert made.schema.field("t").type == pa.timestamp("us", "Europe/Berlin")
    with pytest.raises(InputError, match=r"--delimiter ',', but the domain file says ';'; correct one"):
        release(path, 1, domain=domain, delimiter=",")
    with pytest.raises(InputError, match=r"--decimal, or the domain file's dialect, says how .*; leave it"):
        release(pa.table({"n": [1.5]}), 1, decimal=",", epsilon=1.0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"dialect": {"quote": "'"}}, "unknown key 'quote' in the dialect"),
        ({"dialect": "x"}, '"dialect" must be an'),
        ({"dialect": {"delimiter": "ab"}}, "delimiter: must be one ASCII sign"),
        ({"encoding": "hz"}, "encoding: is no"),
        ({"dialect": {"timeZone": "Mars/X"}}, "is no time zone"),
        ({"dialect": {"decimalChar": "x"}}, "decimalChar"),
    ],
)
def test_dialects_that_say_nothing_known(data: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Domain.from_dict({"fields": [{"name": "a", "categories": ["x"]}], **data})
    with pytest.raises(InputError, match="delimiter"):
        Policy.of(delimiter="ab")


def test_a_draft_says_how_its_table_is_written(tmp_path: Path) -> None:
    rows = "".join(f"{i % 3},5;x,{i % 2};{1 + i % 28:02}.01.2020\n" for i in range(90))
    path = written(tmp_path / "t.csv", f"n;s;d\n{rows}".encode())
    found = draft(path, dialect=Dialect.of(decimalChar=",", dateFormat="%d.%m.%Y"))
    assert [(a.name, a.type) for a in found] == [("n", "number"), ("s", "string"), ("d", "date")]
    assert found["s"].categories == ("x,0", "x,1")  # as it is written
    assert found.to_dict()["dialect"] == {"decimalChar": ",", "dateFormat": "%d.%m.%Y"}
    made = release(path, 1, domain=found.reviewed(), epsilon=99.0, rows=9)
    assert set(made.to_arrow()["n"].to_pylist()) <= {0.5, 1.5, 2.5}


# ---- JSON lines


def test_each_line_is_read_by_itself(tmp_path: Path) -> None:
    nothing = (None, None)
    told: dict[bytes, tuple[str | None, str | None] | None] = {
        b'{"a": 1, "b": "x"}': ("1", "x"),
        b'{"b": null, "a": 1.50}': ("1.50", None),
        b'{"a": true, "b": [1]}': ("true", None),
        b"": None,
        **dict.fromkeys((b"[1]", b'{"a": "\\ud800"}', b'{"a": "\xff"}', b'{"a":' * 50_000), nothing),
        b'{"a": 1e999, "b": NaN}': ("1e999", "NaN"),
        b'{"a": ' + b"9" * 9000 + b"}": ("9" * 9000, None),
        b'{"a": 1, "a": 2}': ("2", None),
        b'{"a": "x\\u0000"}': ("x\0", None),
        b"\r": None,
        b'{"a": -0.0, "b": {"c": 1}} ': ("-0.0", None),
        b"\xef\xbb\xbf{}": nothing,
    }
    whole = rows_of(written(tmp_path / "t.jsonl", b"\n".join(told)), names=["a", "b"])
    assert whole == [row for row in told.values() if row is not None]
    for line, row in list(told.items())[:-1]:
        before, behind = b'{"a": "p"}\n', b'\n{"a": "q"}\n'
        found = rows_of(written(tmp_path / "l.ndjson", before + line + behind), names=["a", "b"])
        assert found == [("p", None), *([row] if row else []), ("q", None)]


def test_blocks_and_lines_that_are_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [b'{"a": "%d"}' % i for i in range(50)] + [b'{"a": "' + b"x" * 300 + b'"}', b'{"a": "z"}']
    path = written(tmp_path / "t.jsonl", b"\xef\xbb\xbf" + b"\n".join(rows))
    monkeypatch.setattr(json_lines, "MAX_RECORD_BYTES", 200)
    for block in (1, 7, 64, 4096):
        monkeypatch.setattr(json_lines, "READ_BYTES", block)
        found = rows_of(path, names=["a"])
        assert found == [*((str(i),) for i in range(50)), (None,), ("z",)]


def test_columns_of_json_lines_come_from_a_person(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", b'{"a": 1, "secret": "CANARY", "id": "p"}\n' * 40)
    with pytest.raises(InputError, match="say with --columns or a domain which columns it has") as refused:
        release(path, 1, epsilon=1.0)
    assert "CANARY" not in str(refused.value) and "secret" not in str(refused.value)
    made = release(path, 1, epsilon=99.0, domain={"a": 3}, privacy_id="id", contributions=40, rows=5)
    assert made.schema.names == ["a"] and set(made.to_arrow()["a"].to_pylist()) <= {0, 1, 2}
    assert Request.of(path, 1, columns=["a"]).private.schema.names == ["a"]
