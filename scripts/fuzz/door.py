"""The door: whatever bytes one person writes, at most k encoded records change, and nobody else's.

A case is k lines of one person (or k rows of a typed table) of any bytes, put somewhere into a table of
others: delimited text, JSON lines, text in other encodings. The table is encoded with and without them: all
of the others' records must be there as they were, and at most k more. An error is as bad, unless the file is
refused because a quote of it stays open (`checked`) or the lines do not even name the person.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from factored_mwem import Domain, InputError
from factored_mwem.domain.dialect import ENCODINGS, Dialect
from factored_mwem.errors import Ambiguous
from factored_mwem.tables.backends.codes import encode_table
from factored_mwem.tables.codes.codec import fit_columns
from factored_mwem.tables.codes.parsing import is_text
from factored_mwem.tables.inputs import delimited, json_lines
from factored_mwem.tables.inputs.contributions import bound_contributions
from factored_mwem.tables.inputs.source import Table, open_table
from factored_mwem.tables.inputs.text_form import UTF_8
from fuzz import hostile, tables
from fuzz.target import Target

DOMAIN = Domain(tables.ATTRIBUTES)
ID = "who"
NAMES = [ID, *DOMAIN.names]
OTHERS = [[f"p{i // 2}", *row] for i, row in enumerate(tables.ROWS * 3)]
OTHERS += [["", *row] for row in tables.ROWS[:2]]
"""Rows of others: two of each person, in turn, and two of nobody."""
PIECES = (
    *(b'"', b'""', b",", b"\t", b";", b"\r", b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", b" "),
    *(b"\xe2\x80\xa8", b"p1", b"x", b"other", b"1e308"),
)
JSON_PIECES = (
    *(b"{", b"}", b"[", b'"a"', b":", b",", b"null", b"1e999", b"\\ud800", b"\\", b'{"a":', b"\r", b"NaN"),
)
KNOWN = sorted({*ENCODINGS.values()} - {*UTF_8})
Records = Counter[tuple[int, ...]]


def check(before: Records, after: Records, most: int) -> None:
    """AssertionError where a record of others is gone, or more than `most` have come."""
    gone, come = (before - after).total(), (after - before).total()
    assert not gone, f"{gone} records of others are gone"
    assert come <= most, f"{come} records have come, {most} at most may"


def _encoded(table: Table, contributions: int = 0) -> Records:
    """How often each encoded record occurs; of at most `contributions` rows of each person where that is not
    0.
    """
    bounded = bound_contributions(table, ID, contributions) if contributions else table
    return Counter(zip(*(codes.tolist() for codes in encode_table(DOMAIN, bounded).columns), strict=True))


def _strange(random: Random, pieces: Sequence[bytes], most: int) -> bytes | None:
    """A line of any bytes, or of pieces; None now and then."""
    kind = random.random()
    if kind < 0.3:
        return random.randbytes(random.randrange(1, 60)).replace(b"\n", b"")
    if kind < 0.6:
        return b"".join(random.choices(pieces, k=random.randrange(1, most))).replace(b"\n", b"")
    return None


def _make_lines(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Up to three lines without their ends; the first byte says where they stand, and in what file (see
    `run_lines`).
    """
    return random.randbytes(1) + b"\n".join(_line(random) for _ in range(random.randrange(1, 4)))


def _line(random: Random) -> bytes:
    line = _strange(random, PIECES, 30)
    if line is not None:
        return line
    texts = [random.choice(hostile.TEXTS) for _ in NAMES]
    cells = [text.encode("utf-8", "surrogatepass").replace(b"\n", b" ") for text in texts]
    if random.random() < 0.12:
        cells[random.randrange(len(cells))] = random.choice(PIECES) * 10_000
    return b",".join(cells)


def _make_json(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Up to three lines of one person, one after the other, without their ends."""
    return b"\n".join(_json_line(random) for _ in range(random.randrange(1, 4)))


def _json_line(random: Random) -> bytes:
    line = _strange(random, (*PIECES, *JSON_PIECES), 40)
    if line is not None:
        return line
    row: dict[str, Any] = {name: random.choice(hostile.TEXTS) for name in NAMES}
    if random.random() < 0.3:
        row[random.choice(NAMES)] = random.choice((1, 0.5, True, None, [1], {"a": {}}, 10**300))
    data = json.dumps(row, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    return hostile.damaged(data, random).replace(b"\n", b"") if random.random() < 0.5 else data


def _row(cells: Sequence[str], delimiter: str) -> bytes:
    return hostile.line(cells, delimiter).encode("utf-8", "surrogatepass")


def run_lines(path: Path) -> bool:
    """Any bytes as one person's lines of a text file. Whether the file was taken."""
    data = path.read_bytes()
    random, lines = Random(zlib.crc32(data)), [line for line in data[1:].split(b"\n") if line]
    suffix = random.choice((".csv", ".tsv", ".csv.gz", ".tsv.gz"))
    end, contributions = b"\r\n" if random.random() < 0.3 else b"\n", random.choice((0, 0, 1, 3))
    records, tab = random.choice(("checked", "lines", "multiline")), "\t" if "tsv" in suffix else ","
    if records == "multiline":  # what a conforming writer makes of the same bytes
        lines = [_written(line, tab, random) for line in lines]
    elif contributions:  # one person's: their id, and any bytes behind it
        lines = [b"new" + tab.encode() + line for line in lines]
    if end == b"\r\n":
        lines = [line.replace(end, b"") for line in lines]
    others, at = [_row(row, tab) for row in OTHERS], random.randrange(len(OTHERS) + 1)
    # any line may be the first of a block
    block = random.choice((300, 3000, delimited.BLOCK_BYTES)) if len(data) < 10**5 else delimited.BLOCK_BYTES

    def encoded(rows: Sequence[bytes]) -> Records:
        text = end.join([_row(NAMES, tab), *rows, b""])
        target = path.with_name(f"with{suffix}")
        target.write_bytes(gzip.compress(text, 1) if suffix.endswith(".gz") else text)
        return _encoded(open_table(target, records), contributions)

    before = encoded(others)
    try:
        with mock.patch.object(delimited, "BLOCK_BYTES", block):
            after = encoded([*others[:at], *lines, *others[at:]])
    except Ambiguous:
        assert records == "checked", "one person's bytes decide whether there is a release"
        assert any(b'"' in line for line in lines) or end == b"\r\n", "refused without a quote or a line feed"
        return False
    check(before, after, min(len(lines), contributions or len(lines)))
    return True


def _written(line: bytes, delimiter: str, random: Random) -> bytes:
    """A row of the person `new` with the bytes in one cell, and line breaks, as a conforming writer has
    it.
    """
    cells = ["new", *tables.ROWS[0]]
    cells[random.randrange(1, len(cells))] = random.choice(("", "\n", "\r\n")) + line.decode("latin-1")
    return _row(cells, delimiter)


def run_rows(path: Path) -> bool:
    """Up to three rows of any bytes in a typed table, as a frame's or a Parquet file's. Whether any column
    can be encoded.
    """
    random = Random(path.read_bytes())
    kind, k = random.choice(tables.TYPES), random.randrange(1, 4)
    attribute, file = random.choice(tables.ATTRIBUTES), random.random() < 0.5
    if file and pa.types.is_dictionary(kind) and is_text(kind.value_type):
        return False  # the library itself reads no such column where a text in it is none
    others, theirs = tables.any_column(kind, random, 6), tables.any_column(kind, random, k)
    at, records = random.randrange(7), list[Records]()
    for parts in ([others], [others.slice(0, at), theirs, others.slice(at)]):
        source: Any = pa.table({attribute.name: pa.chunked_array(parts)})
        try:
            if file:
                pq.write_table(source, path.with_name("rows.parquet"), row_group_size=4)
                source = path.with_name("rows.parquet")
            table = open_table(source)
            fit_columns(Domain([attribute]), table, None)
        except (pa.ArrowException, OSError, UnicodeError, InputError):
            return False  # there is no such file or frame, or the column's type does not fit
        (codes,) = encode_table(Domain([attribute]), table).columns
        records.append(Counter(zip(codes.tolist(), strict=True)))
    check(*records, k)
    return True


def run_json_lines(path: Path) -> bool:
    data = path.read_bytes()
    random, lines = Random(zlib.crc32(data)), data.split(b"\n")
    others = [json.dumps(dict(zip(NAMES, row, strict=True))).encode() for row in OTHERS]
    at, most = random.randrange(len(others) + 1), json_lines.READ_BYTES
    block = random.choice((7, 300, most)) if len(data) < 10**4 else most
    with mock.patch.object(json_lines, "READ_BYTES", block):
        return _beside(path.with_name("x.jsonl"), others, lines, at, Dialect())


def run_encoded(path: Path) -> bool:
    """The lines in a file of any encoding; of UTF-16, as pairs of bytes."""
    data = path.read_bytes()
    random, lines = Random(zlib.crc32(data)), data.split(b"\n")
    encoding = random.choice(KNOWN)
    plain, head = ("utf-16-le", b"\xff\xfe") if encoding == "utf-16" else (encoding, b"")
    end = "\n".encode(plain)
    cells = [[cell if cell.isascii() else "" for cell in row] for row in [NAMES, *OTHERS]]
    others = ["\t".join(row).encode(plain) for row in cells]
    if encoding.startswith("utf-16"):  # the pairs of each line but for those that would end it
        pairs = [[line[at : at + 2] for at in range(0, len(line) - 1, 2)] for line in lines]
        lines = [b"".join(pair for pair in line if pair != end) for line in pairs]
    at, block = random.randrange(1, len(others) + 1), random.choice((300, 3000))
    with mock.patch.object(delimited, "BLOCK_BYTES", block if len(data) < 10**5 else 4 << 20):
        return _beside(path.with_name("x.tsv"), others, lines, at, Dialect.of(encoding=encoding), head, end)


def _beside(
    path: Path,
    others: list[bytes],
    lines: list[bytes],
    at: int,
    dialect: Dialect,
    head: bytes = b"",
    end: bytes = b"\n",
) -> bool:
    """The records of others in a file, and the same with one person's lines among them."""
    records = []
    for rows in (others, [*others[:at], *lines, *others[at:]]):
        path.write_bytes(head + end.join([*rows, b""]))
        records.append(_encoded(open_table(path, "lines", dialect, NAMES)))
    check(*records, len(lines))
    return True


DOOR = (b"\0x,y", b'\1new,"x', b"\2" + ",".join(map(str, OTHERS[0])).encode())
JSON = (b"x\ty", b'{"a": 1}')
TARGETS = {
    "door": Target(".bytes", lambda _: list(DOOR), _make_lines, run_lines),
    "rows": Target(".bytes", lambda _: [b"3"], lambda random, _: random.randbytes(8), run_rows),
    "jsonl": Target(".bytes", lambda _: list(JSON), _make_json, run_json_lines),
    "encodings": Target(".bytes", lambda _: list(JSON), _make_json, run_encoded),
}
