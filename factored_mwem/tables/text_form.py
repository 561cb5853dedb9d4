"""Text form: how a CSV or TSV file is written, as its header line shows, and what a record of it is."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any, Literal

from factored_mwem.domain.dialect import PLAIN, Dialect
from factored_mwem.errors import InputError
from factored_mwem.tables.encodings import UTF_8, Transcoded
from factored_mwem.tables.suffixes import packing_of, suffix_of
from factored_mwem.tables.unpacking import unpacked

Records = Literal["checked", "lines", "multiline"]
MAX_HEADER_BYTES = 4 << 20
DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}
"""Those that are found from a header line, and how messages call them."""
BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Form:
    """How a text file is written, by its public header line; what a record is, by the caller's word."""

    names: tuple[str, ...]
    """Of all columns. The first may have none, as an index that pandas or R wrote: it is left out."""
    delimiter: str
    line_end: bytes
    begins: int
    """Where the first record begins: bytes of the text, unpacked and in UTF-8."""
    packed: str
    """The codec of a compressed file, or none."""
    records: Records
    encoding: str = "utf-8"

    @property
    def both(self) -> bool:
        """Whether lines end in a carriage return and a line feed."""
        return self.line_end == b"\r\n"

    @property
    def too_wide(self) -> bytes:
        """A record of one cell too many, which no column can be read of."""
        return self.delimiter.encode() * len(self.names) + self.line_end

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that can be read."""
        return self.names[1:] if not self.names[0] else self.names

    def text_of(self, file: Any) -> Any:
        """A stream of the file's text, in UTF-8."""
        return text_of(file, self.packed, self.encoding)


def text_of(file: Any, packed: str, encoding: str) -> Any:
    """A stream of the text of `file`, an InputFile or RemoteFile, in UTF-8."""
    stream = unpacked(file, packed)
    return stream if encoding in UTF_8 else Transcoded(stream, encoding)


def read_form(file: Any, records: Records, dialect: Dialect = PLAIN) -> Form:
    """The form of a text file from its first line alone, where nothing is said of it.

    Were a quote missing there, the next lines would turn into a name.
    """
    path, packed = file.path, packing_of(file.path)
    encoding = dialect.encoding or "utf-8"
    if encoding == "utf-16" and unpacked(file, packed).read(2) not in BYTE_ORDER_MARKS:
        raise InputError(f"{path} has no byte order mark; say --encoding utf-16-le, or utf-16-be")
    line = first_line(text_of(file, packed, encoding))
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
        delimiter = dialect.delimiter or _delimiter(path, text)
        names = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error:
        why = "is a quote missing, or does a name hold a line break?"
        raise InputError(f"{path}: the header cannot be read; {why}") from None
    except UnicodeDecodeError:
        how = (
            f"say --encoding, for example latin-1, cp1252 or utf-16{', another one' * (encoding != 'utf-8')}"
        )
        raise InputError(f"{path} is not {encoding.upper()} text; {how}") from None
    if not names:
        raise InputError(f"{path} {'starts with a blank line' if line else 'is empty'}; it needs a header")
    if "" in names[1:] or names == [""]:
        which = names.index("", 1 if len(names) > 1 else 0) + 1
        raise InputError(f"{path}: column {which} of the header has no name; give it one")
    return Form(tuple(names), delimiter, line_end, len(line), packed, records, encoding)


def first_line(stream: Any) -> bytes:
    """The first line with its end, or what is there of MAX_HEADER_BYTES."""
    line = b""
    while b"\n" not in line and len(line) < MAX_HEADER_BYTES:
        more = stream.read(1 << 16)
        if not more:
            return line
        line += more
    return line[: line.index(b"\n") + 1] if b"\n" in line else line


def _delimiter(path: Any, header: str) -> str:
    """The tab of a .tsv file, else the one of DELIMITERS that the header holds outside quotes."""
    if suffix_of(path).startswith(".tsv"):
        return "\t"
    outside = "".join(header.split('"')[::2])
    found = [sign for sign in DELIMITERS if sign in outside]
    if len(found) > 1:
        signs = " and ".join(f"{DELIMITERS[sign]}s" for sign in found)
        raise InputError(f"{path}: the header holds {signs}; say --delimiter which of them parts the columns")
    return found[0] if found else ","
