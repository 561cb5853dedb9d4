"""Delimited text (CSV, TSV) as columns of text: what one record holds decides nothing about another.

A record is a line; its end, LF or CRLF, is that of the header line. A line that is not as wide as the header
is a record of nulls; a cell that is not UTF-8 is a null. A quote that is open at a line's end may be a cell
with a line break in it or a slip of the writer's: to guess would lose rows, or let one person's bytes swallow
others', so `checked` refuses the file. Where no line ends inside quotes both readings are the same one.

The library's parser reads a block where that is provably the same (`_plain`); blocks that are not clean take
the exact path (`_mended`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.errors import Ambiguous
from factored_mwem.kernels.text import FEED, LONG, OPEN, RAGGED, TAIL
from factored_mwem.tables.inputs.arrow_input import readable
from factored_mwem.tables.inputs.table import Table
from factored_mwem.tables.inputs.text_form import Reading, TextForm, read_form

BLOCK_BYTES = 4 << 20
"""Bytes read at a time; fewer than MAX_RECORD_BYTES, or no block would be plain."""
MAX_RECORD_BYTES = 8 << 20
"""The same for every record, wherever in a block it lies."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Before the header it is none of its names."""
UNCUT = RAGGED | OPEN | LONG
"""What keeps a record from being cut into its cells."""


def open_delimited(file: Any, reading: Reading) -> Table:
    """The table that a text file is: its header line alone is read."""
    form = read_form(file, reading.records, reading.dialect)
    schema = pa.schema([(name, pa.string()) for name in form.columns])

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return readable(file.path, lambda: read_delimited(file, form, columns))

    return Table(schema, True, read, form, file)


def read_delimited(file: Any, form: TextForm, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records of `file`, an InputFile or RemoteFile, as columns of text, in order; a null is a cell that
    cannot be read.

    Raises Ambiguous if it is not clear what a record is.
    """
    seen = 0
    for block in _blocks(file, form):
        batch = _plain(block, form, columns)
        if batch is None:
            batch = _mended(block, form, columns, f"{file.path}, ", seen)
        seen += batch.num_rows
        yield batch


def _blocks(file: Any, form: TextForm) -> Iterator[bytes]:
    """The text behind the header, cut where records end; too long a record becomes one that is too wide."""
    stream = form.text_of(file)
    left = form.begins
    while left and (header := stream.read(left)):
        left -= len(header)
    rest, ended = b"", False
    while not ended:
        more = stream.read(BLOCK_BYTES)
        ended = not more
        rest += more
        if ended and rest and not rest.endswith(form.line_end):
            rest += form.line_end
        cut = _cut(rest, form)
        if cut:
            yield _without_blanks(rest[:cut], form) if form.spaced else rest[:cut]
        elif len(rest) > MAX_RECORD_BYTES:
            if form.records != "lines":
                raise Ambiguous(f"{file.path}: {_TOO_LONG}{_WAYS_OUT[form.records]}")
            rest = _behind_line(stream, rest[-1:], form)
            yield form.too_wide
            continue
        rest = rest[cut:]
    if rest:
        how = "which --multiline does not allow; repair the file, or say --lines"
        raise Ambiguous(f"{file.path} ends inside quotes, {how}")


def _without_blanks(lines: bytes, form: TextForm) -> bytes:
    """Whole lines without the blanks that follow delimiters; what is in quotes stays."""
    sign = form.delimiter.encode()
    return _blanks(sign).sub(lambda found: found[1] or sign + (found[2] or b""), lines)


@cache
def _blanks(sign: bytes) -> re.Pattern[bytes]:
    """A line's first cell if it is quoted, or a delimiter, its blanks and a quoted cell behind them.

    Linear whatever the text: an attempt ends at the first odd run of quotes, and only such a run begins one.
    """
    sign = re.escape(sign)
    quoted = rb'"(?:[^"\n]|"")*+"(?=[\r\n]|%b|\Z)' % sign
    return re.compile(rb"(?m)^(%b)|%b *+(%b)?" % (quoted, sign, quoted))


def _cut(text: bytes, form: TextForm) -> int:
    """Where the last whole record ends."""
    if form.records != "multiline" or b'"' not in text:
        last = text.rfind(form.line_end)
        return last + len(form.line_end) if last >= 0 else 0
    return _scan(text, form).used


def _behind_line(stream: Any, last: bytes, form: TextForm) -> bytes:
    """What follows the end of the line that is being read, of which `last` is the last byte so far."""
    while more := stream.read(BLOCK_BYTES):
        at = (last + more).find(form.line_end)
        if at >= 0:
            return (last + more)[at + len(form.line_end) :]
        last = more[-1:]
    return b""


def _plain(block: bytes, form: TextForm, columns: Sequence[str]) -> pa.RecordBatch | None:
    """The block by the library's parser, or None if that is not sure to read it by our definition.

    Sure: no line is too long or holds a stray carriage return, what is read is UTF-8, and the parser finds as
    many rows as there are line feeds, each of the header's width. It begins a row outside quotes and ends it
    at the first line feed outside quotes, or at the end of the block; so an empty line, which it skips, or a
    line feed inside quotes leaves it with fewer rows, but for one at the very end, which is looked at. Where
    none is inside quotes, its rows are the lines, and inside a line both read alike.
    """
    lines = block.count(b"\n")
    if len(block) > MAX_RECORD_BYTES or (form.records == "multiline" and b'"' in block):
        return None
    if form.both or b"\r" in block:
        pairs = block.count(b"\r\n")
        if block.count(b"\r") != pairs or (form.both and pairs != lines):
            return None
    last = block[block.rfind(b"\n", 0, -1) + 1 :]
    if b'"' in last and len(_scan(last, form).odd):
        return None
    try:
        batch = _parse(block, form, columns, check_utf8=not block.isascii())
    except pa.ArrowInvalid:
        return None
    return batch if batch.num_rows == lines else None


def _parse(
    block: bytes, form: TextForm, columns: Sequence[str], *, check_utf8: bool = False
) -> pa.RecordBatch:
    from pyarrow import csv as pacsv

    # The library takes one away, as if every block were a file: here it is a part of the first cell.
    if block.startswith(BYTE_ORDER_MARK):
        block = BYTE_ORDER_MARK + block
    table = pacsv.read_csv(
        pa.BufferReader(block),
        read_options=pacsv.ReadOptions(
            column_names=list(form.names), block_size=len(block) + 1, use_threads=False
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=form.delimiter, newlines_in_values=True, ignore_empty_lines=len(form.names) > 1
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            include_columns=list(columns),
            strings_can_be_null=False,
            null_values=[],
            check_utf8=check_utf8,
        ),
    )
    if not table.num_rows:
        return pa.RecordBatch.from_pylist([], table.schema)
    return table.combine_chunks().to_batches()[0]


class Scanned(NamedTuple):
    """What the kernel found: `odd: int64[odd record, (begin, end, number, what)]`."""

    records: int
    odd: np.ndarray
    used: int
    """Bytes up to the end of the last whole record."""


def _scan(text: bytes, form: TextForm, *, wide: bool = False) -> Scanned:
    from factored_mwem.kernels import text as kernel

    odd = np.empty((text.count(b"\n"), 4), dtype=np.int64)
    data, multiline = np.frombuffer(bytearray(text), dtype=np.uint8), form.records == "multiline"
    written = kernel.Form(ord(form.delimiter), len(form.names), MAX_RECORD_BYTES, multiline, form.both, wide)
    records, count, used = kernel.scan(data, written, odd)
    return Scanned(records, odd[:count], used)


def _mended(block: bytes, form: TextForm, columns: Sequence[str], where: str, seen: int) -> pa.RecordBatch:
    """The block with every odd record written anew, so that the library reads it as we mean it.

    Cells that cannot be read become null.
    """
    scanned = _scan(block, form, wide=not _is_text(block))
    parts, whole, at = list[bytes](), list[int](), 0
    unread: dict[str, list[int]] = {name: [] for name in form.names}
    for begin, end, number, what in scanned.odd.tolist():
        _refuse(what, form, f"{where}record {seen + number + 1:,}")
        cells = None if what & UNCUT else _cells(block[begin:end], form)
        if cells is None:
            whole.append(number)
            cells = [b""] * len(form.names)
        for i, cell in enumerate(cells):
            if not _is_text(cell):
                unread[form.names[i]].append(number)
                cells[i] = b""
        quoted = (b'"' + cell.replace(b'"', b'""') + b'"' for cell in cells)
        parts += [block[at:begin], form.delimiter.encode().join(quoted), b"\n"]
        at = end
    batch = _parse(b"".join([*parts, block[at:]]), form, columns)
    if batch.num_rows != scanned.records:  # our own mistake, which must not pass for rows
        raise RuntimeError("the library's parser and the scan disagree")
    named = zip(batch.schema.names, batch.columns, strict=True)
    read = [_with_nulls(column, whole + unread[name]) for name, column in named]
    return pa.RecordBatch.from_arrays(read, schema=batch.schema)


def _with_nulls(column: pa.Array, records: Sequence[int]) -> pa.Array:
    """The column with null for some records."""
    if not records:
        return column
    mask = np.zeros(len(column), dtype=bool)
    mask[list(records)] = True
    return pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)


def cells_of(record: bytes, form: TextForm) -> list[bytes] | None:
    """The cells of a record, given without its line end; None if it cannot be cut or is not one."""
    line = (_without_blanks(record, form) if form.spaced else record) + form.line_end
    records, odd, used = _scan(line, form)
    if records != 1 or used != len(line) or any(what & UNCUT for what in odd[:, 3].tolist()):
        return None
    return _cells(line, form)


def leaves_open(line: bytes, form: TextForm, *, is_open: bool) -> bool:
    """Whether a record of a --multiline file goes on behind a line, given without its end.

    `is_open`: whether a quote was open before it.
    """
    if b'"' not in line:
        return is_open
    opened = b'"' if is_open else b""  # a quote first is one that was open
    return not _scan(opened + line + form.line_end, form).used


def _cells(record: bytes, form: TextForm) -> list[bytes]:
    """The cells of a record all of whose quotes are closed.

    Quotes count where a cell begins with one, and a doubled one inside is one.
    """
    line = record.removesuffix(b"\n").removesuffix(b"\r")
    pattern, cells, at = _pattern(form.delimiter), [], 0
    while True:
        cell = pattern.match(line, at)
        assert cell is not None  # as anything matches
        quoted, behind, plain, end = cell.groups()
        cells.append(plain if quoted is None else quoted.replace(b'""', b'"') + behind)
        if not end:
            return cells
        at = cell.end()


@cache
def _pattern(delimiter: str) -> re.Pattern[bytes]:
    """A cell and its end."""
    cell = rb'(?:"([^"]*(?:""[^"]*)*)"([^%b]*)|([^%b]*))(%b|\Z)'
    return re.compile(cell.replace(b"%b", re.escape(delimiter).encode()))


_TOO_LONG = f"a record is longer than {MAX_RECORD_BYTES >> 20} MB; is a quote missing?"
_WAYS_OUT = {
    "checked": " If cells hold line breaks, say --multiline; "
    "if every line is a record, whatever its quotes, say --lines",
    "multiline": " If every line is a record, whatever its quotes, say --lines",
}


def _refuse(what: int, form: TextForm, row: str) -> None:
    """Raise Ambiguous if the cells of a record do not show where the record ends."""
    if form.records == "lines":
        return
    if what & LONG:
        raise Ambiguous(f"{row}: {_TOO_LONG}{_WAYS_OUT[form.records]}")
    if what & FEED:
        raise Ambiguous(
            f"{row} holds a line feed alone, where the header ends in a carriage return and a line feed; "
            "make all line ends the same (for example with dos2unix): --lines would not help, for then only "
            "such a pair ends a record"
        )
    if what & OPEN:
        raise Ambiguous(f"{row}: a quote is open where the line ends.{_WAYS_OUT[form.records]}")
    if what & TAIL:
        how = "which --multiline does not allow; repair the file, or say --lines"
        raise Ambiguous(f"{row} has text behind a closing quote, {how}")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
