"""The door: whatever bytes one person writes, at most k encoded records change, and nobody else's.

A case is k lines of one person (or k rows of a typed table) of any bytes, put somewhere into a table of
others. The table is encoded with and without them: all of the others' records must be there as they were, and
at most k more. An error is as bad, unless the file is refused because a quote of it stays open (`checked`) or
the lines do not even name the person.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from factored_mwem import Domain, InputError
from factored_mwem.backends.codes import encode_table
from factored_mwem.errors import Ambiguous
from factored_mwem.tables import delimited
from factored_mwem.tables.codec import fit_columns
from factored_mwem.tables.contributions import bound_contributions
from factored_mwem.tables.parsing import is_text
from factored_mwem.tables.source import Table, open_table
from factored_mwem.tables.text_form import Records
from fuzz import hostile, tables
from fuzz.target import Target

DOMAIN = Domain(tables.ATTRIBUTES)
ID = "who"
NAMES = [ID, *DOMAIN.names]
OTHERS = [[f"p{i // 2}", *row] for i, row in enumerate(tables.ROWS * 3)] + [
    ["", *tables.ROWS[0]],
    ["", *tables.ROWS[1]],
]
"""Rows of others: two of each person, in turn, and two of nobody."""
PIECES = (
    b'"',
    b'""',
    b",",
    b"\t",
    b";",
    b"\r",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b" ",
    b"\xe2\x80\xa8",
    b"p1",
    b"x",
    b"other",
    b"1e308",
)


def _make_lines(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Up to three lines without their ends; the first byte says where they stand, and in what file (see
    `run_lines`).
    """
    return bytes([random.randrange(256)]) + b"\n".join(_line(random) for _ in range(random.randrange(1, 4)))


def _line(random: Random) -> bytes:
    kind = random.random()
    if kind < 0.3:
        return bytes(random.choices(range(256), k=random.randrange(1, 60))).replace(b"\n", b"")
    if kind < 0.6:
        return b"".join(random.choices(PIECES, k=random.randrange(1, 30)))
    cells = [
        random.choice(hostile.TEXTS).encode("utf-8", "surrogatepass").replace(b"\n", b" ") for _ in NAMES
    ]
    if kind > 0.95:
        cells[random.randrange(len(cells))] = random.choice(PIECES) * 10_000
    return b",".join(cells)


@cache
def _encoded_others(
    suffix: str, crlf: bool, records: Records, contributions: int, folder: Path
) -> Counter[tuple[int, ...]]:
    found = _encoded_file(
        folder / f"others{suffix}", _file(_texts(OTHERS, suffix, crlf), suffix, crlf), records, contributions
    )
    assert found is not None
    return found


def _texts(rows: Sequence[Sequence[str]], suffix: str, crlf: bool) -> list[bytes]:
    """Each row as a line with its end, as a conforming writer has it."""
    out = []
    for row in rows:
        text = io.StringIO()
        csv.writer(text, delimiter=_delimiter(suffix), lineterminator="\r\n" if crlf else "\n").writerow(row)
        out.append(text.getvalue().encode("utf-8", "surrogatepass"))
    return out


def _delimiter(suffix: str) -> str:
    return "\t" if suffix.startswith(".tsv") else ","


def _file(lines: Sequence[bytes], suffix: str, crlf: bool) -> bytes:
    header = _delimiter(suffix).join(NAMES).encode() + (b"\r\n" if crlf else b"\n")
    text = header + b"".join(lines)
    return gzip.compress(text, 1) if suffix.endswith(".gz") else text


def _encoded_file(
    path: Path, data: bytes, records: Records, contributions: int
) -> Counter[tuple[int, ...]] | None:
    path.write_bytes(data)
    return _encoded(open_table(path, records), contributions)


def _encoded(table: Table, contributions: int) -> Counter[tuple[int, ...]]:
    """How often each encoded record occurs; of at most `contributions` rows of each person where that is not
    0.
    """
    bounded = bound_contributions(table, ID, contributions) if contributions else table
    return Counter(zip(*(codes.tolist() for codes in encode_table(DOMAIN, bounded).columns), strict=True))


def run_lines(path: Path) -> bool:
    """Any bytes as one person's lines of a text file. Whether the file was taken."""
    data = path.read_bytes()
    random, lines = Random(zlib.crc32(data)), [line for line in data[1:].split(b"\n") if line]
    suffix = random.choice((".csv", ".tsv", ".csv.gz", ".tsv.gz"))
    crlf, contributions = random.random() < 0.3, random.choice((0, 0, 1, 3))
    records: Records = random.choice(("checked", "lines", "multiline"))
    if records == "multiline":  # what a conforming writer makes of the same bytes
        lines = [_written(line, suffix, random) for line in lines]
    elif contributions:  # one person's: their id, and any bytes behind it
        lines = [b"new" + _delimiter(suffix).encode() + line for line in lines]
    if crlf:
        lines = [line.replace(b"\r\n", b"") for line in lines]
    most = min(len(lines), contributions) if contributions else len(lines)
    end = b"\r\n" if crlf else b"\n"
    texts, at = _texts(OTHERS, suffix, crlf), random.randrange(len(OTHERS) + 1)
    texts[at:at] = [line + end for line in lines]
    before = _encoded_others(suffix, crlf, records, contributions, path.parent)
    block = random.choice(
        (300, 3000, delimited.BLOCK_BYTES) if len(data) < 10**5 else (delimited.BLOCK_BYTES,)
    )  # any line may be the first of one
    try:
        with blocks_of(block):
            after = _encoded_file(
                path.with_name(f"with{suffix}"), _file(texts, suffix, crlf), records, contributions
            )
    except Ambiguous:
        assert records == "checked", "one person's bytes decide whether there is a release"
        assert any(b'"' in line for line in lines) or crlf, "refused without a quote or a line feed"
        return False
    check(before, after, most)
    return True


@contextlib.contextmanager
def blocks_of(size: int) -> Iterator[None]:
    """Text read in blocks of that many bytes."""
    before, delimited.BLOCK_BYTES = delimited.BLOCK_BYTES, size
    try:
        yield
    finally:
        delimited.BLOCK_BYTES = before


def _written(line: bytes, suffix: str, random: Random) -> bytes:
    """A row of the person `new` with the bytes in one cell, and line breaks, as a conforming writer has
    it.
    """
    cells = ["new", *tables.ROWS[0]]
    cells[random.randrange(1, len(cells))] = random.choice(("", "\n", "\r\n")) + line.decode("latin-1")
    return _texts([cells], suffix, False)[0].removesuffix(b"\n")


def check(before: Counter[tuple[int, ...]], after: Counter[tuple[int, ...]], most: int) -> None:
    """AssertionError where a record of others is gone, or more than `most` have come."""
    assert not before - after, f"{sum((before - after).values())} records of others are gone"
    assert sum((after - before).values()) <= most, (
        f"{sum((after - before).values())} records have come, {most} at most may"
    )


def _make_rows(random: Random, corpus: Sequence[bytes]) -> bytes:
    return random.randbytes(8)


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
    whole = {"before": [others], "after": _inside(others, theirs, random.randrange(7))}
    found: dict[str, Counter[Any]] = {}
    for name, parts in whole.items():
        try:
            table = _typed(attribute.name, parts, file, path.with_name(f"{name}.parquet"))
            fit_columns(Domain([attribute]), table, None)
        except (
            pa.ArrowException,
            OSError,
            UnicodeError,
            InputError,
        ):  # there is no such file or frame, or the column's type does not fit
            return False
        (codes,) = encode_table(Domain([attribute]), table).columns
        found[name] = Counter(zip(codes.tolist(), strict=True))
    check(found["before"], found["after"], k)
    return True


def _inside(others: pa.Array, theirs: pa.Array, at: int) -> list[pa.Array]:
    return [others.slice(0, at), theirs, others.slice(at)]


def _typed(name: str, parts: Sequence[pa.Array], file: bool, path: Path) -> Table:
    table = pa.table({name: pa.chunked_array(parts)})
    if not file:
        return open_table(table)
    pq.write_table(table, path, row_group_size=4)
    return open_table(path)


TARGETS = {
    "door": Target(
        ".bytes",
        lambda folder: [b"\0x,y", b'\1new,"x', b"\2" + ",".join(map(str, OTHERS[0])).encode()],
        _make_lines,
        run_lines,
    ),
    "rows": Target(".bytes", lambda folder: [b"3"], _make_rows, run_rows),
}
