"""Text form: how a CSV or TSV file is written, as its header line shows, and what a record of it is."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from factored_mwem.domain.dialect import PLAIN, Dialect
from factored_mwem.errors import InputError

Records = Literal["checked", "lines", "multiline"]
UTF_8 = ("utf-8", "utf-8-sig")
PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
"""How text may be compressed, by what stands behind its own suffix."""
MAX_HEADER_BYTES = 4 << 20
DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}
"""Those that are found from a header line, and how messages call them."""
BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
DATA = re.compile(
    r"""(?=\D*+\d)[\W\d_]++  # digits without a letter: a number, a date, a time, a telephone's
    |[-+\u2212]?(\d++([.,]\d*+)?|[.,]\d++)e[-+]?\d+  # 1e-5
    |\d{1,2}[ .-]+(jan|feb|ma[ry]|apr|ju[nl]|aug|sep|o[ck]t|nov|de[cz])[a-z]*[ .,-]+\d{2,4}  # 3-Jan-98
    |(jan|feb|ma[ry]|apr|ju[nl]|aug|sep|oct|nov|dec)[a-z]*[ ]\d{1,2},?[ ]\d{4}  # March 3, 2020
    |\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}[T ]\d.*|\d{1,2}:\d{2}.*  # a date and a time, a time
    |[^\s@]++@[^\s@]+\.[^\s@.]+|https?://\S+  # an address
    |[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}|[\[{].*[":].*  # a key, JSON
    |n/?a|\#n/a|nan|null|none|\?|true|false  # a missing value, a flag""",
    re.VERBOSE | re.IGNORECASE,
)
"""What a cell of a record may be, and hardly a name."""


class Reading(NamedTuple):
    """How text files are read, as somebody says: what a record is, how it is written, and the `names` of the
    columns, for files whose rows alone tell them.
    """

    records: Records = "checked"
    dialect: Dialect = PLAIN
    names: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a text file is written, by its public header line; what a record is, by the caller's word."""

    names: tuple[str, ...]
    """Of all columns. The first may have none, as an index that pandas or R wrote, and the last, behind which
    each line has a delimiter too many: these are left out.
    """
    delimiter: str
    line_end: bytes
    begins: int
    """Where the first record begins: bytes of the text, unpacked and in UTF-8."""
    packed: str
    """The codec of a compressed file, or none."""
    records: Records
    encoding: str = "utf-8"
    header: bool = True
    """Whether the first line names the columns; else their names were given."""
    spaced: bool = False
    """Whether blanks follow the delimiter; they belong to no cell."""

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
        return tuple(name for name in self.names if name)

    def text_of(self, file: Any) -> Any:
        """A stream of the file's text, in UTF-8."""
        return text_of(file, self.packed, self.encoding)


def packing_of(path: Any) -> str:
    """The codec of a compressed text file; "" where it is none."""
    return next((codec for end, codec in PACKED.items() if str(path).lower().endswith(end)), "")


def text_of(file: Any, packed: str, encoding: str) -> Any:
    """A stream of the text of `file`, an InputFile or RemoteFile, in UTF-8."""
    if not packed and encoding in UTF_8:
        return file.stream()
    from factored_mwem.tables.inputs.recoding import Transcoded, unpacked

    stream = unpacked(file, packed)
    return stream if encoding in UTF_8 else Transcoded(stream, encoding)


def read_form(file: Any, records: Records, dialect: Dialect = PLAIN) -> TextForm:
    """The form of a text file from its first line alone, where nothing is said of it; of a file without a
    header, from what is said alone, for all its lines are somebody's.

    Were a quote missing there, the next lines would turn into a name.
    """
    path, packed = file.path, packing_of(file.path)
    encoding = dialect.encoding or "utf-8"
    if dialect.encoding is None and text_of(file, packed, "utf-8").read(2) in BYTE_ORDER_MARKS:
        encoding = "utf-16"
    if encoding == "utf-16" and text_of(file, packed, "utf-8").read(2) not in BYTE_ORDER_MARKS:
        raise InputError(f"{path} has no byte order mark; say --encoding utf-16-le, or utf-16-be")
    if dialect.names is not None:
        mark = "\ufeff".encode()
        begins = len(mark) if text_of(file, packed, encoding).read(len(mark)) == mark else 0
        delimiter, spaced = _parted(dialect.delimiter or _delimiter(path, ""))
        return TextForm(
            dialect.names, delimiter, b"\n", begins, packed, records, encoding, header=False, spaced=spaced
        )
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
        delimiter, spaced = _parted(dialect.delimiter or _delimiter(path, text))
        names = next(csv.reader([text], delimiter=delimiter, strict=True), [])
        if spaced or (dialect.delimiter is None and _all_spaced(names)):
            spaced = True
            names = next(csv.reader([text], delimiter=delimiter, strict=True, skipinitialspace=True), [])
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
    if spaced and records == "multiline":
        how = "write it without them, or say --lines"
        raise InputError(f"{path}: blanks follow the delimiters, which --multiline does not take; {how}")
    _check_names(path, names, sure=dialect.header == "first")
    return TextForm(tuple(names), delimiter, line_end, len(line), packed, records, encoding, spaced=spaced)


def _parted(delimiter: str) -> tuple[str, bool]:
    """(the sign between columns, whether blanks follow it)."""
    return delimiter[0], len(delimiter) > 1


def _all_spaced(names: Sequence[str]) -> bool:
    """Whether a header has a blank behind every delimiter, as UCI's files do behind commas."""
    return len(names) > 1 and all(name.startswith(" ") for name in names[1:])


def _check_names(path: Any, names: Sequence[str], *, sure: bool) -> None:
    """Raises InputError if the first line looks like a record, which would be published as the columns'
    names. A rule on that line alone, which the message does not quote: it may be a person's.

    `sure`: somebody said that it names the columns; they must be there all the same.
    """
    ways = "if the file has no header line, say --header none and --names a,b,c"
    while any(names) and not names[-1]:
        names = names[:-1]
    blank = [not name.strip() for name in names]
    if any(blank[1:]) or blank == [True] or (blank[0] and names[0]):
        which = blank.index(True, 1 if len(names) > 1 and not names[0] else 0) + 1
        raise InputError(f"{path}: column {which} of the header has no name; give it one, or {ways}")
    if len(set(names)) < len(names):
        which = next(i for i, name in enumerate(names) if name in names[:i])
        raise InputError(
            f"{path}: columns {list(names).index(names[which]) + 1} and {which + 1} of the header have the "
            f"same name; rename one, or {ways}"
        )
    data = [i for i, name in enumerate(names) if DATA.fullmatch(name.strip())]
    if data and not sure:
        raise InputError(
            f"{path}: column {data[0] + 1} of the header looks like a value, and would be published as a "
            f"name; {ways}; if that is its name, say --header first"
        )


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
    name = str(path).lower()
    if any(name.endswith(f".tsv{end}") for end in ("", *PACKED)):
        return "\t"
    outside = "".join(header.split('"')[::2])
    found = [sign for sign in DELIMITERS if sign in outside]
    if len(found) > 1:
        signs = " and ".join(f"{DELIMITERS[sign]}s" for sign in found)
        raise InputError(f"{path}: the header holds {signs}; say with --delimiter which of them it is")
    return found[0] if found else ","
