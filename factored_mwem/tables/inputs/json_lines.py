"""JSON lines as columns of text: one object a line, and no line decides how another one is read.

A cell is the text of its value: a number as it is written, true and false by those words. Null, a key that is
not there, and an object or a list are nulls; a line that is no object is a record of nulls. The keys of a
line are somebody's: so the columns are those that a domain or --columns names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.arrow_input import readable
from factored_mwem.tables.inputs.delimited import BYTE_ORDER_MARK, MAX_RECORD_BYTES
from factored_mwem.tables.inputs.table import Table
from factored_mwem.tables.inputs.text_form import Reading, packing_of, text_of

READ_BYTES = 4 << 20
BATCH_ROWS, BATCH_BYTES = 2**15, 64 << 20
"""Of a batch, whichever is reached first: a column of text has room for 2 GB."""
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def open_json_lines(file: Any, reading: Reading) -> Table:
    """The table that a file is, of the columns that are named. Reads nothing."""
    if reading.names is None:
        why = "the keys of its lines are somebody's data"
        raise InputError(f"{file.path}: say with --columns or a domain which columns it has, for {why}")
    schema = pa.schema([(name, pa.string()) for name in reading.names])
    packed, encoding = packing_of(file.path), reading.dialect.encoding or "utf-8"

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return readable(file.path, lambda: read_json_lines(file, packed, encoding, columns))

    return Table(schema, True, read, None, file)


def read_json_lines(
    file: Any, packed: str, encoding: str, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The records of `file`, an InputFile or RemoteFile, in order. A line without any sign is none."""
    rows: list[dict[str, Any]] = []
    held = 0
    for line in _lines(text_of(file, packed, encoding)):
        if line is None or line.strip(b" \t\r"):
            rows.append(_object(line))
            held += len(line or b"")
        if len(rows) == BATCH_ROWS or held > BATCH_BYTES:
            yield _batch(rows, columns)
            rows, held = [], 0
    if rows:
        yield _batch(rows, columns)


def _lines(stream: Any) -> Iterator[bytes | None]:
    """The lines without their ends; None for one that is too long."""
    rest, long, begun = b"", False, False
    while more := stream.read(READ_BYTES):
        *lines, rest = (rest + more).split(b"\n")
        if lines and not begun:
            begun, lines[0] = True, lines[0].removeprefix(BYTE_ORDER_MARK)
        for line in lines:
            yield None if long or len(line) > MAX_RECORD_BYTES else line
            long = False
        if len(rest) > MAX_RECORD_BYTES:
            rest, long = b"", True
    if rest or long:
        yield None if long else rest if begun else rest.removeprefix(BYTE_ORDER_MARK)


def _object(line: bytes | None) -> dict[str, Any]:
    """The object of a line; an empty one where it is none."""
    try:
        value = _DECODER.decode(line.decode()) if line is not None else None
    except (ValueError, RecursionError):  # of which UnicodeDecodeError is one
        return {}
    return value if isinstance(value, dict) else {}


def _batch(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> pa.RecordBatch:
    cells = [[_cell(row.get(name)) for row in rows] for name in columns]
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in cells], list(columns))


def _cell(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write
        return None
    return value
