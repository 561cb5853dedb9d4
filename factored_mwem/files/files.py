"""Files appear whole or not at all: a temporary file in the same folder, fsync, rename.

A data file without its matching manifest is not a release. So the manifest is written last, and when a
release is replaced, the old manifest is removed first.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from factored_mwem.errors import Busy, InputError
from factored_mwem.files.crashpoints import reach

_ONE_AT_A_TIME = threading.Lock()


ROOM = 2**20
"""Bytes that must fit on the disk of an output before anything is spent."""


class IfExists(Enum):
    """What to do if a file exists already; `IfExists(overwrite)` reads the public keyword."""

    REFUSE = False
    REPLACE = True
    VERIFY = "verify"
    """The existing file must equal what would be written, and is kept."""


def check_target(path: Path, exists: IfExists) -> None:
    """Raises InputError, before anything is spent, if `path` may not be replaced or cannot be written; Busy
    if its disk has no room: the same for every table, for how large the rows will be is not public.
    """
    if os.path.lexists(path) and exists is IfExists.REFUSE:
        raise taken(path)
    check_name(path)
    with in_words(path):
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file")
        room = Path(_temporary(path))
        try:
            room.write_bytes(bytes(ROOM))
        finally:
            room.unlink()


def check_name(path: Path) -> None:
    """Raises InputError for a name that is no text: the manifest could not hold it."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise InputError(f"{str(path)!r}: the name is not UTF-8 text; choose another -o") from None


def taken(place: object, more: str = "") -> InputError:
    """The error for a file that exists and must not be replaced; `more`: how it differs."""
    return InputError(f"{place} exists{more}; use --overwrite or another -o")


@contextlib.contextmanager
def in_words(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into one line each."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"no folder {path.parent}; create it first") from None
    except (PermissionError, NotADirectoryError):
        raise InputError(f"cannot write in {path.parent}: permission denied") from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if full or any(words in str(error) for words in ("No space left", "File too large")):
            raise Busy(f"no space left to write {path}; free some or choose another -o") from None
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{path.name[:40]}... is too long a name; choose a shorter one") from None
        if error.errno == errno.EROFS:
            raise InputError(f"cannot write in {path.parent}: read-only file system") from None
        raise


@contextlib.contextmanager
def replacing(
    path: Path, exists: IfExists = IfExists.REFUSE, before: Callable[[], None] = lambda: None
) -> Iterator[Path]:
    """A temporary path that becomes `path` when the block ends well, and is removed when it does not.

    Raises InputError if `exists` forbids it. `before` runs just before a file is replaced, or just after a
    new one appeared.
    """
    with in_words(path):
        name = _temporary(path)
        mine = os.stat(name)
        try:
            yield Path(name)
            sync(Path(name))
            os.chmod(name, 0o666 & ~_umask())
            reach("before rename")
            if exists is IfExists.VERIFY and path.exists():
                if sha256(path) != sha256(Path(name)):
                    raise taken(path, " and is not what this run would write")
                os.unlink(name)
            else:
                _appear(name, path, exists, before)
            sync(path.parent)
            reach("after rename")
        except BaseException:
            for own in (name, path):  # by whatever name: a signal may strike between two steps
                with contextlib.suppress(OSError):
                    if os.path.samestat(os.lstat(own), mine):
                        os.unlink(own)
            raise


def _temporary(path: Path) -> str:
    """A new file beside `path`; its name tells the file it is for, and the process."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{os.getpid()}-", suffix=".tmp")
    os.close(handle)
    return name


def _appear(temporary: str, path: Path, exists: IfExists, before: Callable[[], None]) -> None:
    """Give a file its name.

    If it may not replace a file, it is linked rather than renamed: a link fails if the name exists, even if
    another process created it just now.
    """
    if exists is IfExists.REPLACE:
        before()
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)
    except OSError:
        if os.path.lexists(path):
            raise taken(path) from None
        os.replace(temporary, path)  # a file system without links
    before()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The process's mask, which can only be read by setting it: one thread at a time, or it is lost."""
    with _ONE_AT_A_TIME:
        mask = os.umask(0)
        os.umask(mask)
    return mask


def sha256(path: Path) -> str:
    """Hex digits of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(handle: int, data: Any) -> None:
    """Write all bytes of `data`, whatever the system takes at a time."""
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(handle, view) :]


def sweep(path: Path) -> None:
    """Remove what killed writers of `path` left beside it; their process's number is in the name."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        writer = re.fullmatch(r"([0-9]{1,9})-.*", left.name[len(path.name) + 2 :])
        try:
            os.kill(int(writer[1]) if writer else os.getpid(), 0)
        except ProcessLookupError:
            left.unlink(missing_ok=True)
        except OSError:
            continue


MAX_TEXT_BYTES = 2**25
"""Largest domain or workload file; a million categories take fewer bytes."""


def without_example(schema: dict[str, Any]) -> None:
    """The JSON Schema without examples: it quotes docstrings, whose examples are for readers of Python."""
    schema["description"] = schema["description"].split("\n\n>>> ")[0]


def complaint(error: ValidationError) -> str:
    """The first error of a validation, and where it is, in one line whatever the keys are."""
    first = error.errors(include_url=False, include_context=False)[0]
    spot = ".".join(str(part) for part in first["loc"])
    spot = spot if spot.isprintable() else repr(spot)
    said = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{spot + ': ' if spot else ''}{said}"


def read_text(path: Path, what: str, most: int = MAX_TEXT_BYTES) -> str:
    """The text of a small file. Raises InputError if it cannot be read or is larger than `most` bytes;
    ValueError if it is not text.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot read the {what} {path}: {error.strerror or error}") from None
    if len(content) > most:
        raise InputError(f"the {what} {path} is larger than {most >> 20} MB")
    return content.decode("utf-8")
