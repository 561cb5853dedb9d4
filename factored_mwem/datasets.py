"""Public tables to try the package on: where they are found, how they are downloaded, how counts become
records.

All of them are published, so nothing here reads private data, and messages may say what a file holds.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from factored_mwem.errors import InputError, ResourceError

if TYPE_CHECKING:
    from http.client import HTTPResponse

    import pyarrow

Progress = Callable[[str, int], None]
"""Called with a file's name and the bytes received so far."""

FOLDER_VARIABLE = "FMWEM_DATASETS"
"""Environment variable: a folder that already holds <name>/<name>.csv[.gz] or <name>.csv[.gz]."""

MAX_BYTES = 16 * 2**20
"""Most bytes taken of one file; the largest, adult.data, has 4 million."""
STALL_SECONDS = 30.0
"""Longest wait for the next bytes."""
TOTAL_SECONDS = 600.0
"""Longest time for one file, so that a server which drips bytes cannot hold us."""
MAX_RECORDS = 10_000_000
"""Most records that `expand_counts` makes."""
_CHUNK = 2**16
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a downloadable table comes from and what its files must be."""

    base_url: str
    files: dict[str, str]
    """File name -> sha256 of its bytes, in the order of the rows."""
    columns: tuple[str, ...]
    has_header: bool


_ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip

SOURCES: dict[str, Source] = {
    "adult": Source(
        base_url=_UCI + "adult/",
        files={
            "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        },
        columns=_ADULT_COLUMNS,
        has_header=False,
    ),
    "transfusion": Source(
        base_url=_UCI + "blood-transfusion/",
        files={"transfusion.data": "96c8e1091b9c037bcaf25a19b24b49d07771cd88689ffd273e056e9e8845ffe7"},
        columns=("Recency", "Frequency", "Monetary", "Time", "donated"),
        has_header=True,
    ),
}
"""What `fetch` knows. The hashes are those that several projects publish for these files."""


def local(name: str) -> Path | None:
    """The copy of a table in the folder that FMWEM_DATASETS names, or None."""
    folder = os.environ.get(FOLDER_VARIABLE)
    # A name is never a path: "../secret" must not lead out of the folder.
    if not folder or not name or Path(name).name != name:
        return None
    candidates = (
        Path(folder) / where / f"{name}{end}" for where in (name, "") for end in (".csv", ".csv.gz")
    )
    return next((path for path in candidates if path.is_file()), None)


def fetch(name: str, folder: Path, *, base_url: str | None = None, progress: Progress | None = None) -> Path:
    """The path of the table as one CSV: a local copy where FMWEM_DATASETS has it, else downloaded, checked
    and written to `folder`.

    `base_url` names another place that holds the same files; the hashes stay. Nothing is written before every
    file matched its hash.
    """
    if name not in SOURCES:
        raise InputError(f"no data set {name!r} to fetch; there are {', '.join(sorted(SOURCES))}")
    copy = local(name)
    if copy is not None:
        return copy
    source, folder = SOURCES[name], Path(folder)
    target = folder / f"{name}.csv"
    _check_target(target)
    base = (base_url or source.base_url).rstrip("/") + "/"
    contents = [_download(base + file, file, sha256, progress) for file, sha256 in source.files.items()]
    _write(target, source.columns, (row for content in contents for row in _rows(content, source)))
    return target


def _check_target(target: Path) -> None:
    """Nothing where `target` can be written; asked before the download, so that nobody waits for a
    refusal.
    """
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent}; make it first or name another")
    if os.path.lexists(target):
        raise InputError(f"{target} exists and is not overwritten; remove it or name another folder")


def _download(url: str, file: str, sha256: str, progress: Progress | None) -> bytes:
    """The bytes at `url`, once their sha256 is the expected one.

    They are held in memory: at most MAX_BYTES, and no file is left behind by a download that breaks off.
    """
    content = _receive(url, file, progress)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{url} is not the published file (sha256 {found[:12]}..., expected {sha256[:12]}...); nothing "
            "was kept"
        )
    return content


def _receive(url: str, file: str, progress: Progress | None) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    advice = f"check the connection, or set {FOLDER_VARIABLE} to a folder that has the CSV"
    try:
        # Request is inside: it raises ValueError for an address without a scheme.
        with urlopen(
            Request(url, headers={"User-Agent": "factored-mwem"}), timeout=STALL_SECONDS
        ) as response:
            return _read(response, url, file, progress)
    except HTTPError as error:
        error.close()
        raise InputError(
            f"cannot download {url}: the server answered {error.code} {_line(error.reason)}; {advice}"
        ) from None
    except (OSError, HTTPException, ValueError) as error:
        raise InputError(
            f"cannot download {url}: {_line(getattr(error, 'reason', None) or error)}; {advice}"
        ) from None


def _read(response: HTTPResponse, url: str, file: str, progress: Progress | None) -> bytes:
    """The whole answer, inside the limits of size and time."""
    content, deadline = bytearray(), time.monotonic() + TOTAL_SECONDS
    # read1 returns what has arrived; read would wait for a full chunk and so hide a slow drip from the
    # deadline.
    while chunk := response.read1(_CHUNK):
        content += chunk
        if len(content) > MAX_BYTES:
            raise ResourceError(
                f"{url} has more than {MAX_BYTES} bytes, which is not the published file; nothing was kept"
            )
        if time.monotonic() > deadline:
            raise TimeoutError(f"not complete after {TOTAL_SECONDS:g} seconds")
        if progress is not None:
            progress(file, len(content))
    return bytes(content)


def _line(reason: object) -> str:
    """An error's text on one line, or its type where it has none."""
    return " ".join(str(reason).split()) or type(reason).__name__


def _rows(content: bytes, source: Source) -> Iterator[list[str]]:
    """The records of a UCI file: comment and blank lines skipped, fields stripped, the full stop after
    adult.test's labels dropped.
    """
    text = io.StringIO(content.decode("ascii"), newline=None)
    lines = (line.strip().removesuffix(".") for line in text if not line.startswith("|"))
    rows = ([field.strip() for field in row] for row in csv.reader(line for line in lines if line))
    if source.has_header:
        next(rows, None)
    return rows


def _write(target: Path, columns: tuple[str, ...], rows: Iterator[list[str]]) -> None:
    """Write the CSV whole or not at all: beside the target first, flushed to disk, then renamed."""
    # The time beside the pid: two containers that share the folder can have the same pid.
    partial = target.with_name(f".{target.name}.{os.getpid()}-{time.time_ns()}.part")
    try:
        with open(partial, "x", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
            out.flush()
            os.fsync(out.fileno())
        # The download took time: look again, os.replace would overwrite without a word.
        _check_target(target)
        os.replace(partial, target)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (ResourceError if full else InputError)(
            f"cannot write {target}: {error.strerror or error}; nothing was kept"
        ) from None
    finally:
        # An error here would hide the one that is being reported.
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def expand_counts(path: Path) -> pyarrow.Table:
    """A contingency table as records: each row of the CSV as often as its last column, `count`, says; that
    column dropped.

    Values are strings, or int64 where the domain file beside the CSV declares the type integer.
    """
    import pyarrow as pa

    path = Path(path)
    header, cells, counts = _read_counts(path)
    integers = _integer_columns(path)
    columns: list[pa.Array] = []
    for i, name in enumerate(header):
        values = pa.array([cell[i] for cell in cells], type=pa.string())
        if name in integers:
            whole = [
                _integer(cell[i], f"{path} line {line}: column {name!r}")
                for line, cell in enumerate(cells, start=2)
            ]
            values = pa.array(whole, type=pa.int64())
        columns.append(values)
    rows = [row for row, count in enumerate(counts) for _ in range(count)]
    return pa.table(columns, names=header).take(pa.array(rows, type=pa.int64()))


def _read_counts(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Names, cells and counts of a contingency CSV; InputError where it is not one."""
    try:
        with open(path, encoding="utf-8", newline="") as lines:
            header, *rows = list(csv.reader(lines)) or [[]]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or _line(error)}") from None
    if len(header) < 2 or header[-1] != "count":
        raise InputError(f"{path} is not a table of counts; its last column must be `count`")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(f"{path} line {line} has {len(row)} fields, the header has {len(header)}")
    counts = [
        _integer(row[-1], f"{path} line {line}: column 'count'", least=0)
        for line, row in enumerate(rows, start=2)
    ]
    if sum(counts) > MAX_RECORDS:
        raise ResourceError(
            f"{path} stands for {sum(counts)} records, more than the {MAX_RECORDS} that are expanded"
        )
    return header[:-1], [row[:-1] for row in rows], counts


def _integer(text: str, where: str, *, least: int = -(2**63)) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value < 2**63:
        raise InputError(f"{where} is not {'a count' if least == 0 else 'an integer'}: {text!r}")
    return value


def _integer_columns(path: Path) -> frozenset[str]:
    """The attributes of type integer in the domain file beside `path`; none where there is no such file."""
    from factored_mwem.domain.domain import Domain

    beside = path.with_suffix(".domain.json")
    if not beside.is_file():
        return frozenset()
    return frozenset(a.name for a in Domain.load(beside) if a.type == "integer")
