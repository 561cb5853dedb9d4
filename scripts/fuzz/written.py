"""The door of JSON lines and of text in other encodings: as in `door`, whatever bytes one person's lines
hold, everybody else's records come out as they were.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from factored_mwem.backends.codes import encode_table
from factored_mwem.domain.dialect import ENCODINGS, Dialect
from factored_mwem.tables import json_lines
from factored_mwem.tables.encodings import UTF_8
from factored_mwem.tables.source import open_table
from fuzz import hostile
from fuzz.door import DOMAIN, NAMES, OTHERS, PIECES, blocks_of, check
from fuzz.target import Target

KNOWN = sorted({*ENCODINGS.values()} - {*UTF_8})
JSON_PIECES = (
    b"{",
    b"}",
    b"[",
    b'"a"',
    b":",
    b",",
    b"null",
    b"1e999",
    b"\\ud800",
    b"\\",
    b'{"a":',
    b"\r",
    b"NaN",
)


def _make(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Up to three lines of one person, one after the other, without their ends."""
    return b"\n".join(_line(random) for _ in range(random.randrange(1, 4)))


def _line(random: Random) -> bytes:
    kind = random.random()
    if kind < 0.3:
        return bytes(random.choices(range(256), k=random.randrange(1, 60))).replace(b"\n", b"")
    if kind < 0.6:
        return b"".join(random.choices((*PIECES, *JSON_PIECES), k=random.randrange(1, 40))).replace(
            b"\n", b""
        )
    row: dict[str, Any] = {name: random.choice(hostile.TEXTS) for name in NAMES}
    if random.random() < 0.3:
        row[random.choice(NAMES)] = random.choice((1, 0.5, True, None, [1], {"a": {}}, 10**300))
    data = json.dumps(row, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    return hostile.damaged(data, random).replace(b"\n", b"") if random.random() < 0.5 else data


def run_json_lines(path: Path) -> bool:
    data = path.read_bytes()
    random, theirs = Random(zlib.crc32(data)), data.split(b"\n")
    others = [json.dumps(dict(zip(NAMES, row, strict=True))).encode() for row in OTHERS]
    at = random.randrange(len(others) + 1)
    before = json_lines.READ_BYTES
    json_lines.READ_BYTES = random.choice((7, 300, before)) if len(data) < 10**4 else before
    try:
        found = [
            _encoded(path.with_name("x.jsonl"), b"\n".join([*lines, b""]), Dialect())
            for lines in (others, [*others[:at], *theirs, *others[at:]])
        ]
    finally:
        json_lines.READ_BYTES = before
    check(*found, len(theirs))
    return True


def run_encoded(path: Path) -> bool:
    """The lines in a file of any encoding; of UTF-16, as pairs of bytes."""
    data = path.read_bytes()
    random = Random(zlib.crc32(data))
    encoding = random.choice(KNOWN)
    wide = encoding.startswith("utf-16")
    plain = "utf-16-le" if encoding == "utf-16" else encoding
    end = "\n".encode(plain)
    head = b"\xff\xfe" if encoding == "utf-16" else b""
    lines = [
        "\t".join(cell if cell.isascii() else "" for cell in row).encode(plain) for row in [NAMES, *OTHERS]
    ]
    theirs = data.split(b"\n")
    if wide:
        theirs = [_pairs(line[: len(line) // 2 * 2], end) for line in theirs]
    at = random.randrange(1, len(lines) + 1)
    with blocks_of(random.choice((300, 3000)) if len(data) < 10**5 else 4 << 20):
        found = [
            _encoded(path.with_name("x.tsv"), head + end.join([*rows, b""]), Dialect.of(encoding=encoding))
            for rows in (lines, [*lines[:at], *theirs, *lines[at:]])
        ]
    check(*found, len(theirs))
    return True


def _pairs(line: bytes, end: bytes) -> bytes:
    """The pairs of a line but for those that would end it."""
    pairs = (line[at : at + 2] for at in range(0, len(line), 2))
    return b"".join(pair for pair in pairs if pair != end)


def _encoded(path: Path, data: bytes, dialect: Dialect) -> Counter[tuple[int, ...]]:
    path.write_bytes(data)
    table = open_table(path, "lines", dialect, NAMES)
    return Counter(zip(*(codes.tolist() for codes in encode_table(DOMAIN, table).columns), strict=True))


def _corpus(folder: Path) -> list[bytes]:
    return [b"x\ty", b'{"a": 1}']


TARGETS = {
    "jsonl": Target(".bytes", _corpus, _make, run_json_lines),
    "encodings": Target(".bytes", _corpus, _make, run_encoded),
}
