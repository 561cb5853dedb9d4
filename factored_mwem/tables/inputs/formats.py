"""Formats: the kinds of files that are read, one line each, and what a file is by the end of its name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.table import Table
from factored_mwem.tables.inputs.text_form import PACKED, Reading
from factored_mwem.tables.inputs.uris import is_uri, name_of


class InputFormat(NamedTuple):
    """A kind of file. `opener`: the function of a module here that makes a Table of a file, the suffix of its
    name and how text is read; the module is loaded when such a file is.
    """

    suffixes: tuple[str, ...]
    opener: str
    text: bool = False
    """Whether it is text, which may be compressed."""

    @property
    def endings(self) -> tuple[str, ...]:
        """All ends of names that it is known by."""
        return tuple(s + end for s in self.suffixes for end in (("", *PACKED) if self.text else ("",)))

    def open(self, file: Any, reading: Reading) -> Table:
        module, function = self.opener.split(".")
        return getattr(import_module(f"{__package__}.{module}"), function)(file, reading)


DELIMITED = InputFormat((".csv", ".tsv", ".txt", ".dat", ".data"), "delimited.open_delimited", text=True)
JSON_LINES = InputFormat((".jsonl", ".ndjson"), "json_lines.open_json_lines", text=True)
PARQUET = InputFormat((".parquet", ".pq"), "typed_files.open_parquet")
FORMATS = (
    DELIMITED,
    JSON_LINES,
    PARQUET,
    InputFormat((".orc",), "typed_files.open_orc"),
    InputFormat((".feather", ".arrow"), "typed_files.open_arrow"),
)
BY_ENDING = {ending: kind for kind in FORMATS for ending in kind.endings}
TEXT_SUFFIXES = tuple(ending for ending, kind in BY_ENDING.items() if kind.text)
_SHEET = "save the sheet as CSV, or read it with pandas.read_excel and give the frame in Python"
WAYS_OUT = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), _SHEET),
    ".zip": "unpack it, or compress its file with gzip, zstd, bzip2 or xz instead",
    ".json": "write one object a line (.jsonl, for example with `jq -c '.[]'`)",
    ".sas7bdat": "read it with pandas.read_sas and give the frame in Python",
    ".sav": "read it with pandas.read_spss and give the frame in Python",
    ".dta": "read it with pandas.read_stata and give the frame in Python",
    ".avro": "write it as Parquet",
}
"""What to do with files that are not read."""


def name_in(source: str | Path) -> str:
    """The last part of a path or URI."""
    return name_of(source) if isinstance(source, str) and is_uri(source) else Path(source).name


def suffix_of(source: str | Path) -> str:
    """The longest known ending of the name, in whatever case; "" if there is none."""
    name = name_in(source).lower()
    return max((ending for ending in BY_ENDING if name.endswith(ending)), key=len, default="")


def stem(source: str | Path) -> str:
    """The table's name without its suffixes: `adult.csv.gz` -> `adult`."""
    name = name_in(source)
    return name[: -len(suffix)] if (suffix := suffix_of(source)) else PurePosixPath(name).stem


def check_known(source: str | Path, label: str) -> None:
    """Raises InputError if a name has no known ending, with a way out."""
    if suffix_of(source):
        return
    end = PurePosixPath(name_in(source)).suffix.lower()
    if end in WAYS_OUT:
        raise InputError(f"{label}: {end} files are not read; {WAYS_OUT[end]}")
    raise InputError(f"{label}: unknown kind of file; use {known_suffixes()}")


def known_suffixes() -> str:
    """All suffixes of files that are read, in words."""
    text = ", ".join(suffix for kind in FORMATS if kind.text for suffix in kind.suffixes)
    *typed, last = [suffix for kind in FORMATS if not kind.text for suffix in kind.suffixes]
    return f"{text} (also {', '.join(PACKED)}), {', '.join(typed)} or {last}"
