"""Suffixes: what a file is, by the end of its name."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from factored_mwem.errors import InputError
from factored_mwem.tables.uris import is_uri, name_of

PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
"""How text may be compressed, by what stands behind its own suffix."""


def _packed(*suffixes: str) -> tuple[str, ...]:
    return tuple(suffix + end for suffix in suffixes for end in ("", *PACKED))


DELIMITED_SUFFIXES = _packed(".csv", ".tsv")
JSON_LINES_SUFFIXES = _packed(".jsonl", ".ndjson")
TEXT_SUFFIXES = (*DELIMITED_SUFFIXES, *JSON_LINES_SUFFIXES)
ARROW_SUFFIXES = (".feather", ".arrow")
PARQUET_SUFFIXES = (".parquet", ".pq")
ORC_SUFFIXES = (".orc",)
SUFFIXES = (*TEXT_SUFFIXES, *ARROW_SUFFIXES, *PARQUET_SUFFIXES, *ORC_SUFFIXES)
WAYS_OUT = {
    ".xlsx": "save the sheet as CSV, or read it with pandas.read_excel and give the frame in Python",
    ".xls": "save the sheet as CSV, or read it with pandas.read_excel and give the frame in Python",
    ".ods": "save the sheet as CSV, or read it with pandas.read_excel and give the frame in Python",
    ".zip": "unpack it, or compress its file with gzip, zstd, bzip2 or xz instead",
    ".json": "write one object a line (.jsonl, for example with `jq -c '.[]'`)",
    ".sas7bdat": "read it with pandas.read_sas and give the frame in Python",
    ".sav": "read it with pandas.read_spss and give the frame in Python",
    ".dta": "read it with pandas.read_stata and give the frame in Python",
    ".avro": "write it as Parquet",
    ".txt": "name it .csv and say --delimiter, if it is delimited text",
}
"""What to do with files that are not read."""


def name_in(source: str | Path) -> str:
    """The last part of a path or URI."""
    return name_of(source) if isinstance(source, str) and is_uri(source) else Path(source).name


def suffix_of(source: str | Path) -> str:
    """The longest of SUFFIXES that the name ends with, in whatever case; "" where there is none."""
    name = name_in(source).lower()
    return max((suffix for suffix in SUFFIXES if name.endswith(suffix)), key=len, default="")


def packing_of(source: str | Path) -> str:
    """The codec of a compressed text file; "" where it is none."""
    suffix = suffix_of(source)
    return next((codec for end, codec in PACKED.items() if suffix.endswith(end)), "")


def stem(source: str | Path) -> str:
    """The table's name without its suffixes: `adult.csv.gz` -> `adult`."""
    name = name_in(source)
    return name[: -len(suffix)] if (suffix := suffix_of(source)) else PurePosixPath(name).stem


def check_known(source: str | Path, label: str) -> None:
    """InputError where a name has none of SUFFIXES, with a way out."""
    if suffix_of(source):
        return
    end = PurePosixPath(name_in(source)).suffix.lower()
    if end in WAYS_OUT:
        raise InputError(f"{label}: {end} files are not read; {WAYS_OUT[end]}")
    known = ".csv, .tsv, .jsonl (also .gz, .zst, .bz2, .xz), .parquet, .orc, .feather or .arrow"
    raise InputError(f"{label}: unknown kind of file; use {known}")
