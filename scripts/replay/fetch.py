"""Download a public table of the paper, checked against its published sha256. Nothing private is read.

    python scripts/replay fetch adult -o FOLDER          48,842 rows: adult.data, then adult.test
    python scripts/replay fetch transfusion -o FOLDER    748 rows
    python scripts/replay fetch nltcs -o FOLDER          21,574 rows: the train, valid and test parts

Prints the path of one CSV with a header as JSON: that of a copy in the folder FMWEM_DATASETS where there is
one, else FOLDER/NAME.csv, which is written. Needs the extra `scripts`.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from common.runner import parse
from common.tables import look_for

from factored_mwem import FmwemError, InputError
from factored_mwem.files.files import IfExists, check_target, replacing
from replay.figure import words

STALL_SECONDS = 30.0
"""Longest wait for the next bytes."""
SOURCES: dict[str, dict[str, Any]] = words("fetch")
"""What `fetch` knows: where a table comes from (`base_url`), what its `files` must be (name -> sha256, in the
order of the rows), its `columns`, and whether the files name them (`has_header`).
"""


def local(name: str) -> Path | None:
    """The copy of a table in the folder that FMWEM_DATASETS names, or None."""
    return look_for(name) if os.environ.get("FMWEM_DATASETS") else None


def fetch(name: str, folder: Path, *, base_url: str | None = None) -> Path:
    """The path of the table as one CSV: a local copy where FMWEM_DATASETS has it, else downloaded and written
    to `folder`.

    `base_url` names another place that holds the same files; the hashes stay. Nothing is written before every
    file matched its hash.
    """
    if name not in SOURCES:
        raise InputError(f"no data set {name!r} to fetch; there are {', '.join(sorted(SOURCES))}")
    if copy := local(name):
        return copy
    source, target = SOURCES[name], folder / f"{name}.csv"
    # asked before the download, so that nobody waits for a refusal
    if os.path.lexists(target):
        raise InputError(f"{target} exists and is not overwritten; remove it or name another folder")
    check_target(target, IfExists.REPLACE)
    base = (base_url or source["base_url"]).rstrip("/") + "/"
    contents = [download(base, file, sha256) for file, sha256 in source["files"].items()]
    try:
        with replacing(target) as temporary, open(temporary, "w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(source["columns"])
            for content in contents:
                writer.writerows(rows(content, has_header=source["has_header"]))
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}; nothing was kept") from None
    return target


def download(base: str, file: str, sha256: str) -> bytes:
    """The bytes of a file, once their sha256 is the expected one; InputError in one line where they cannot be
    had.
    """
    try:
        import pooch
    except ImportError:
        raise InputError("downloads need pooch: pip install 'factored-mwem[scripts]'") from None
    pooch.get_logger().setLevel(logging.WARNING)
    loader = pooch.HTTPDownloader(timeout=STALL_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = pooch.retrieve(base + file, f"sha256:{sha256}", file, path=folder, downloader=loader)
        except OSError as error:  # all errors of the network are among them
            advice = "check the connection, or set FMWEM_DATASETS to a folder that has the CSV"
            reason = getattr(error.args[0] if error.args else None, "reason", None) or error
            # on one line, without the addresses that the library puts before what went wrong
            line = " ".join(str(reason).rpartition("): ")[2].split()) or type(error).__name__
            raise InputError(f"cannot download {base}{file}: {line}; {advice}") from None
        except ValueError:  # pooch's word for another hash; the addresses are ours
            other = f"another sha256 than {sha256[:12]}..."
            raise InputError(f"{base}{file} is not the published file ({other}); nothing was kept") from None
        return Path(path).read_bytes()


def rows(content: bytes, *, has_header: bool) -> Iterator[list[str]]:
    """The records of a UCI file: comment and blank lines skipped, fields stripped, the full stop after
    adult.test's labels dropped.
    """
    lines = (line.strip().removesuffix(".") for line in io.StringIO(content.decode("ascii"), newline=None))
    records = csv.reader(line for line in lines if line and not line.startswith("|"))
    if has_header:
        next(records, None)
    return ([field.strip() for field in row] for row in records)


@dataclass(frozen=True)
class Fetch:
    places: ClassVar[tuple[str, ...]] = ("name",)
    name: Annotated[str, " or ".join(SOURCES)]
    output: Annotated[Path, "folder for the CSV"] = Path()


def main() -> None:
    options = parse(Fetch, __doc__, "replay fetch")
    try:
        print(json.dumps({"file": str(fetch(options.name, options.output))}))
    except FmwemError as error:
        sys.exit(f"error: {error}")
