"""Delimited text (CSV, TSV) as columns of text, record by record: what one record holds decides nothing about
another.

A record is a line; its end, LF or CRLF, is that of the header line. A line that is not as wide as the header
is a record of nulls; a cell that is not UTF-8 is a null. A quote that is open at a line's end may be a cell
with a line break in it or a slip of the writer's: to guess would lose rows, or let one person's bytes swallow
others', so `checked` refuses the file. Where no line ends inside quotes both readings are the same one.

The library's parser reads a block where that is provably the same (`_plain`); blocks that are not clean take
the exact path (`_mended`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.errors import Ambiguous, InputError
from factored_mwem.kernels.text import FEED, LONG, OPEN, RAGGED, TAIL
from factored_mwem.tables.input_file import InputFile

Records = Literal["checked", "lines", "multiline"]
MOST_HEADER = 4 << 20
"""Bytes of a header."""
BLOCK = 4 << 20
"""Bytes read at a time; fewer than LONGEST, or no block would be plain."""
LONGEST = 8 << 20
"""Bytes of a record. The same for every record, wherever in a block it lies."""
DELIMITERS = ",\t;"
MARK = b"\xef\xbb\xbf"
"""A byte order mark: before the header it is none of its names."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a text file is written, by its header line, which is public, and what a record of it is, by the
    caller's word.
    """

    names: tuple[str, ...]
    delimiter: str
    line_end: bytes
    begins: int
    """Where the first record begins: bytes, unpacked."""
    gzip: bool
    records: Records

    @property
    def both(self) -> bool:
        return self.line_end == b"\r\n"

    @property
    def too_wide(self) -> bytes:
        """A record of one cell too many, which no column can be read of."""
        return self.delimiter.encode() * len(self.names) + self.line_end


def read_form(file: InputFile, records: Records) -> Form:
    """The form of a text file from its first line alone: were a quote missing there, the next lines would
    turn into a name.
    """
    path, gzip = file.path, file.path.name.lower().endswith(".gz")
    line = _first_line(_unpacked(file, gzip))
    if len(line) >= MOST_HEADER:
        raise InputError(
            f"{path}: the header is longer than {MOST_HEADER >> 20} MB; is the file one line, or no text?"
        )
    line_end = b"\r\n" if line.endswith(b"\r\n") else b"\n"
    first = line.removesuffix(b"\n").removesuffix(b"\r")
    if b"\r" in first:
        raise InputError(
            f"{path}: the header holds a carriage return; let lines end in a line feed, or both (for example "
            "with mac2unix)"
        )
    try:
        text = first.decode("utf-8-sig")
        delimiter = _delimiter(path.name, text)
        names = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error:
        raise InputError(
            f"{path}: the header cannot be read; is a quote missing, or does a name hold a line break?"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; convert it first (for example with iconv)") from None
    if not names:
        raise InputError(f"{path} {'starts with a blank line' if line else 'is empty'}; it needs a header")
    nameless = [i + 1 for i, name in enumerate(names) if not name]
    if nameless:
        raise InputError(f"{path}: column {nameless[0]} of the header has no name")
    return Form(tuple(names), delimiter, line_end, len(line), gzip, records)


def _first_line(stream: Any) -> bytes:
    line = b""
    while b"\n" not in line and len(line) < MOST_HEADER:
        more = stream.read(1 << 16)
        if not more:
            return line
        line += more
    return line[: line.index(b"\n") + 1] if b"\n" in line else line


def _delimiter(name: str, header: str) -> str:
    """The tab of a .tsv file, else the first of comma, tab and semicolon that the header holds."""
    if name.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    return next((d for d in DELIMITERS if d in header), ",")


def read_delimited(file: InputFile, form: Form, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records as columns of text, in order; a null is a cell that cannot be read. Ambiguous where it is
    not clear what a record is.
    """
    seen = 0
    for block in _blocks(file, form):
        batch = _plain(block, form, columns)
        if batch is None:
            batch = _mended(block, form, columns, f"{file.path}, ", seen)
        seen += batch.num_rows
        yield batch


def _blocks(file: InputFile, form: Form) -> Iterator[bytes]:
    """The text behind the header, cut where records end. A record that is too long is handed on as one that
    is too wide.
    """
    stream = _unpacked(file, form.gzip)
    left = form.begins
    while left and (header := stream.read(left)):
        left -= len(header)
    rest, ended = b"", False
    while not ended:
        more = stream.read(BLOCK)
        ended = not more
        rest += more
        if ended and rest and not rest.endswith(form.line_end):
            rest += form.line_end
        cut = _cut(rest, form)
        if cut:
            yield rest[:cut]
        elif len(rest) > LONGEST:
            if form.records != "lines":
                raise Ambiguous(f"{file.path}: {_LONG}{_WAYS_OUT[form.records]}")
            rest = _behind_line(stream, rest[-1:], form)
            yield form.too_wide
            continue
        rest = rest[cut:]
    if rest:
        raise Ambiguous(
            f"{file.path} ends inside quotes, as no writer of --multiline files leaves it; mend it, or say "
            "--lines"
        )


def _unpacked(file: InputFile, gzip: bool) -> Any:
    return pa.CompressedInputStream(file.arrow(), "gzip") if gzip else file.stream()


def _cut(text: bytes, form: Form) -> int:
    """Where the last whole record ends."""
    if form.records != "multiline" or b'"' not in text:
        last = text.rfind(form.line_end)
        return last + len(form.line_end) if last >= 0 else 0
    return _scan(text, form)[2]


def _behind_line(stream: Any, last: bytes, form: Form) -> bytes:
    """What follows the end of the line that is being read, of which `last` is the last byte so far."""
    while more := stream.read(BLOCK):
        found = (last + more).find(form.line_end)
        if found >= 0:
            return (last + more)[found + len(form.line_end) :]
        last = more[-1:]
    return b""


def _plain(block: bytes, form: Form, columns: Sequence[str]) -> pa.RecordBatch | None:
    """The block by the library's parser, or None where that is not sure to read it by our definition.

    Sure: no line is too long or holds a stray carriage return, what is read is UTF-8, and the parser finds as
    many rows as there are line feeds, each of the header's width. It begins a row outside quotes and ends it
    at the first line feed outside quotes, or at the end of the block; so an empty line, which it skips, or a
    line feed inside quotes leaves it with fewer rows, but for one at the very end, which is looked at. Where
    none is inside quotes, its rows are the lines, and inside a line both read alike.
    """
    lines = block.count(b"\n")
    if len(block) > LONGEST or (form.records == "multiline" and b'"' in block):
        return None
    if (form.both or b"\r" in block) and not block.count(b"\r") == block.count(b"\r\n") == (
        lines if form.both else block.count(b"\r\n")
    ):
        return None
    last = block[block.rfind(b"\n", 0, -1) + 1 :]
    if b'"' in last and len(_scan(last, form)[1]):
        return None
    try:
        found = _parse(block, form, columns, check_utf8=not block.isascii())
    except pa.ArrowInvalid:
        return None
    return found if found.num_rows == lines else None


def _parse(block: bytes, form: Form, columns: Sequence[str], *, check_utf8: bool = False) -> pa.RecordBatch:
    from pyarrow import csv as pacsv

    if block.startswith(
        MARK
    ):  # the library takes one away, as if every block were a file: here it is a part of the first cell
        block = MARK + block
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
    return (
        table.combine_chunks().to_batches()[0]
        if table.num_rows
        else pa.RecordBatch.from_pylist([], table.schema)
    )


def _scan(text: bytes, form: Form, *, wide: bool = False) -> tuple[int, np.ndarray, int]:
    """(records, int64[odd record, (begin, end, number, what)], bytes up to the end of the last whole one):
    see the kernel.
    """
    from factored_mwem.kernels import text as kernel

    odd = np.empty((text.count(b"\n"), 4), dtype=np.int64)
    data, multiline = np.frombuffer(bytearray(text), dtype=np.uint8), form.records == "multiline"
    written = kernel.Form(ord(form.delimiter), len(form.names), LONGEST, multiline, form.both, wide)
    records, number, used = kernel.scan(data, written, odd)
    return records, odd[:number], used


def _mended(block: bytes, form: Form, columns: Sequence[str], where: str, seen: int) -> pa.RecordBatch:
    """The block with every odd record written anew, so that the library reads it as we mean it; cells that
    cannot be read become null.
    """
    records, odd, _ = _scan(block, form, wide=not _is_text(block))
    parts, whole, at = list[bytes](), list[int](), 0
    unread: dict[str, list[int]] = {name: [] for name in form.names}
    for begin, end, number, what in odd.tolist():
        _refuse(what, form, f"{where}record {seen + number + 1:,}")
        cells = (
            None
            if what & (RAGGED | OPEN | LONG)
            else _cells(block[begin:end].removesuffix(b"\n").removesuffix(b"\r"), form)
        )
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
    found = _parse(b"".join([*parts, block[at:]]), form, columns)
    if found.num_rows != records:
        raise RuntimeError(
            "the library's parser and the scan disagree"
        )  # our own mistake, which must not pass for rows
    columns_left = [
        _without(column, whole + unread[name])
        for name, column in zip(found.schema.names, found.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns_left, schema=found.schema)


def _without(column: pa.Array, records: Sequence[int]) -> pa.Array:
    """The column with null for some records."""
    if not records:
        return column
    mask = np.zeros(len(column), dtype=bool)
    mask[list(records)] = True
    return pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)


def cells_of(record: bytes, form: Form) -> list[bytes] | None:
    """The cells of a record without its line end; None where it cannot be cut: it is ragged, too long, or
    none at all, or leaves a quote open.
    """
    line = record + form.line_end
    records, odd, used = _scan(line, form)
    if records != 1 or used != len(line) or any(what & (RAGGED | OPEN | LONG) for what in odd[:, 3].tolist()):
        return None
    return _cells(line.removesuffix(b"\n").removesuffix(b"\r"), form)


def leaves_open(line: bytes, form: Form, *, is_open: bool) -> bool:
    """Whether the record goes on behind a line, given without its end, of a file whose cells may hold line
    breaks. `is_open`: before it.
    """
    if b'"' not in line:
        return is_open
    return not _scan((b'"' if is_open else b"") + line + form.line_end, form)[
        2
    ]  # a quote first is one that was open


def _cells(line: bytes, form: Form) -> list[bytes]:
    """The cells of a line all of whose quotes are closed: quotes count where a cell begins with one, and a
    doubled one inside is one.
    """
    pattern, cells, at = _PATTERNS[form.delimiter], [], 0
    while True:
        found = pattern.match(line, at)
        assert found is not None  # as anything matches
        quoted, behind, plain, end = found.groups()
        cells.append(plain if quoted is None else quoted.replace(b'""', b'"') + behind)
        if not end:
            return cells
        at = found.end()


_PATTERNS = {
    d: re.compile(rb'(?:"([^"]*(?:""[^"]*)*)"([^%b]*)|([^%b]*))(%b|\Z)'.replace(b"%b", re.escape(d).encode()))
    for d in DELIMITERS
}
_LONG = f"a record is longer than {LONGEST >> 20} MB; is a quote missing?"
_WAYS_OUT = {
    "checked": (
        " If cells hold line breaks, say --multiline; if every line is a record, whatever its quotes, say "
        "--lines"
    ),
    "multiline": " If every line is a record, whatever its quotes, say --lines",
}


def _refuse(what: int, form: Form, row: str) -> None:
    """Ambiguous where what a record has leaves open where it ends."""
    if form.records == "lines":
        return
    if what & LONG:
        raise Ambiguous(f"{row}: {_LONG}{_WAYS_OUT[form.records]}")
    if what & FEED:
        raise Ambiguous(
            f"{row} holds a line feed alone, where the header ends in a carriage return and a line feed; "
            "make all line ends the same "
            "(for example with dos2unix), for with --lines only such a pair would end a record"
        )
    if what & OPEN:
        raise Ambiguous(f"{row}: a quote is open where the line ends.{_WAYS_OUT[form.records]}")
    if what & TAIL:
        raise Ambiguous(
            f"{row} has text behind a closing quote, as no writer of --multiline files leaves it; mend it, "
            "or say --lines"
        )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
