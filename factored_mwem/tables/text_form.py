"""Text form: how a CSV or TSV file is written, as its header line shows, and what a record of it is."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.tables.input_file import InputFile

Records = Literal["checked", "lines", "multiline"]
MAX_HEADER_BYTES = 4 << 20
DELIMITERS = ",\t;"


@dataclass(frozen=True, slots=True)
class Form:
    """How a text file is written, by its public header line; what a record is, by the caller's word."""

    names: tuple[str, ...]
    delimiter: str
    line_end: bytes
    begins: int
    """Where the first record begins: bytes, unpacked."""
    gzip: bool
    records: Records

    @property
    def both(self) -> bool:
        """Whether lines end in a carriage return and a line feed."""
        return self.line_end == b"\r\n"

    @property
    def too_wide(self) -> bytes:
        """A record of one cell too many, which no column can be read of."""
        return self.delimiter.encode() * len(self.names) + self.line_end


def read_form(file: InputFile, records: Records) -> Form:
    """The form of a text file from its first line alone.

    Were a quote missing there, the next lines would turn into a name.
    """
    path, gzip = file.path, file.path.name.lower().endswith(".gz")
    line = _first_line(unpacked(file, gzip=gzip))
    if len(line) >= MAX_HEADER_BYTES:
        most = f"{MAX_HEADER_BYTES >> 20} MB"
        raise InputError(f"{path}: the header is longer than {most}; is the file one line, or no text?")
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
        why = "is a quote missing, or does a name hold a line break?"
        raise InputError(f"{path}: the header cannot be read; {why}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; convert it first (for example with iconv)") from None
    if not names:
        raise InputError(f"{path} {'starts with a blank line' if line else 'is empty'}; it needs a header")
    if "" in names:
        raise InputError(f"{path}: column {names.index('') + 1} of the header has no name")
    return Form(tuple(names), delimiter, line_end, len(line), gzip, records)


def unpacked(file: InputFile, *, gzip: bool) -> Any:
    """A stream of the file's text."""
    return pa.CompressedInputStream(file.arrow(), "gzip") if gzip else file.stream()


def _first_line(stream: Any) -> bytes:
    line = b""
    while b"\n" not in line and len(line) < MAX_HEADER_BYTES:
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
