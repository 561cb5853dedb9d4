"""Download a public table of the paper, checked against its published sha256. Nothing private is read.

    python scripts/replay fetch adult -o FOLDER          48,842 rows: adult.data, then adult.test
    python scripts/replay fetch transfusion -o FOLDER    748 rows
    python scripts/replay fetch nltcs -o FOLDER          21,574 rows: the train, valid and test parts

Prints the path of one CSV with a header as JSON: that of a copy in the folder FMWEM_DATASETS where there is
one, else FOLDER/NAME.csv, which is written. Needs the extra `scripts`.
"""

from __future__ import annotations

import argparse
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

from factored_mwem import FmwemError, InputError
from factored_mwem.files import IfExists, check_target, replacing

LEARNING = "https://raw.githubusercontent.com/UCLA-StarAI/Density-Estimation-Datasets/master/datasets/"
"""The survey as it is used for density estimation, in three parts that together have Table 1's counts."""
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
STALL_SECONDS = 30.0
"""Longest wait for the next bytes."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a table comes from and what its files must be; `files`: name -> sha256, in the order of the
    rows.
    """

    base_url: str
    files: dict[str, str]
    columns: tuple[str, ...]
    has_header: bool


ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)  # fmt: skip
SOURCES: dict[str, Source] = {
    "adult": Source(
        base_url=UCI + "adult/",
        files={
            "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        },
        columns=ADULT_COLUMNS,
        has_header=False,
    ),
    "transfusion": Source(
        base_url=UCI + "blood-transfusion/",
        files={"transfusion.data": "96c8e1091b9c037bcaf25a19b24b49d07771cd88689ffd273e056e9e8845ffe7"},
        columns=("Recency", "Frequency", "Monetary", "Time", "donated"),
        has_header=True,
    ),
    "nltcs": Source(
        base_url=LEARNING + "nltcs/",
        files={
            "nltcs.train.data": "e547a7aedad1dd2f7177030881ab1b92c7e24ae5464c71a0f1f89daecaf52b30",
            "nltcs.valid.data": "93bbbf5c6febdc9bc6e5b5bfab636f4dc0685ab2896d24b23dd267794c3bfcf6",
            "nltcs.test.data": "f9ffa6b74b27dc03bee3203d157ee31079e80b13be40d0c0093d635c25aed523",
        },
        columns=tuple(f"disability{i}" for i in range(1, 17)),
        has_header=False,
    ),
}
"""What `fetch` knows. The hashes of the first two are those that several projects publish for these files;
of the survey, those of the files whose counts are Table 1's.
"""


def local(name: str) -> Path | None:
    """The copy of a table in the folder that FMWEM_DATASETS names, NAME/NAME.csv[.gz] or NAME.csv[.gz], or
    None.
    """
    folder = os.environ.get("FMWEM_DATASETS")
    # A name is never a path: "../secret" must not lead out of the folder.
    if not folder or not name or Path(name).name != name:
        return None
    places = (Path(folder) / where / f"{name}{end}" for where in (name, "") for end in (".csv", ".csv.gz"))
    return next((path for path in places if path.is_file()), None)


def fetch(name: str, folder: Path, *, base_url: str | None = None) -> Path:
    """The path of the table as one CSV: a local copy where FMWEM_DATASETS has it, else downloaded and written
    to `folder`.

    `base_url` names another place that holds the same files; the hashes stay. Nothing is written before every
    file matched its hash.
    """
    if name not in SOURCES:
        raise InputError(f"no data set {name!r} to fetch; there are {', '.join(sorted(SOURCES))}")
    copy = local(name)
    if copy is not None:
        return copy
    source, target = SOURCES[name], folder / f"{name}.csv"
    # asked before the download, so that nobody waits for a refusal
    if os.path.lexists(target):
        raise InputError(f"{target} exists and is not overwritten; remove it or name another folder")
    check_target(target, IfExists.REPLACE)
    base = (base_url or source.base_url).rstrip("/") + "/"
    contents = [download(base, file, sha256) for file, sha256 in source.files.items()]
    try:
        with replacing(target) as temporary, open(temporary, "w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(source.columns)
            writer.writerows(row for content in contents for row in rows(content, source))
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
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = pooch.retrieve(
                base + file,
                f"sha256:{sha256}",
                fname=file,
                path=folder,
                downloader=pooch.HTTPDownloader(timeout=STALL_SECONDS),
            )
        except OSError as error:  # all errors of the network are among them
            advice = "check the connection, or set FMWEM_DATASETS to a folder that has the CSV"
            raise InputError(f"cannot download {base}{file}: {line(error)}; {advice}") from None
        except ValueError:  # pooch's word for another hash; the addresses are ours
            raise InputError(
                f"{base}{file} is not the published file (another sha256 than {sha256[:12]}...); nothing was "
                "kept"
            ) from None
        return Path(path).read_bytes()


def line(error: Exception) -> str:
    """What went wrong, on one line: without the addresses that the library puts before it."""
    reason = getattr(error.args[0] if error.args else None, "reason", None) or error
    return " ".join(str(reason).rpartition("): ")[2].split()) or type(error).__name__


def rows(content: bytes, source: Source) -> Iterator[list[str]]:
    """The records of a UCI file: comment and blank lines skipped, fields stripped, the full stop after
    adult.test's labels dropped.
    """
    text = io.StringIO(content.decode("ascii"), newline=None)
    lines = (line.strip().removesuffix(".") for line in text if not line.startswith("|"))
    found = ([field.strip() for field in row] for row in csv.reader(line for line in lines if line))
    if source.has_header:
        next(found, None)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", metavar="NAME", help=" or ".join(SOURCES))
    parser.add_argument("-o", "--output", type=Path, default=Path(), help="folder for the CSV")
    options = parser.parse_args()
    try:
        print(json.dumps({"file": str(fetch(options.name, options.output))}))
    except FmwemError as error:
        sys.exit(f"error: {error}")
