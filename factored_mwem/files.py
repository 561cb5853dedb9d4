"""Output: files appear whole or not at all. Temporary file in the same folder, fsync, rename; the manifest
comes last.

A data file without its matching manifest is not a release: so with `overwrite` the old manifest goes first.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from factored_mwem.crashpoints import reach
from factored_mwem.errors import Busy, InputError


def check_target(path: Path, *, overwrite: bool) -> None:
    """InputError, before anything is spent, where `path` exists, has no known suffix, or its folder cannot be
    written.
    """
    if os.path.lexists(path) and not overwrite:
        raise InputError(f"{path} exists; use --overwrite or another -o")
    with _clear(path):
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file")
        os.unlink(_temporary(path))


@contextlib.contextmanager
def _clear(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into one line each."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"no folder {path.parent}; create it first") from None
    except (PermissionError, NotADirectoryError):
        raise InputError(f"cannot write in {path.parent}: permission denied") from None
    except OSError as error:
        if (
            error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            or "No space left" in str(error)
            or "File too large" in str(error)
        ):
            raise Busy(f"no space left to write {path}; free some or choose another -o") from None
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{path.name[:40]}... is too long a name; choose a shorter one") from None
        if error.errno == errno.EROFS:
            raise InputError(f"cannot write in {path.parent}: read-only file system") from None
        raise


@contextlib.contextmanager
def replacing(
    path: Path, before: Callable[[], None] = lambda: None, *, overwrite: bool = False, same: bool = False
) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and is removed when it
    does not.

    InputError where there is a file, unless with `overwrite`; with `same` it stays, if it is the same.
    `before` runs just before a file is replaced, or just after a new one appeared.
    """
    with _clear(path):
        name = _temporary(path)
        mine = os.stat(name)
        try:
            yield Path(name)
            sync(Path(name))
            os.chmod(name, 0o666 & ~_umask())
            reach("before rename")
            if same and path.exists():
                if sha256(path) != sha256(Path(name)):
                    raise InputError(
                        f"{path} exists and is not what this run would write; use --overwrite or another -o"
                    )
                os.unlink(name)
            else:
                _appear(name, path, before, overwrite=overwrite)
            sync(path.parent)
            reach("after rename")
        except BaseException:
            for made in (name, path):
                with contextlib.suppress(OSError):
                    if os.path.samestat(
                        os.lstat(made), mine
                    ):  # by whatever name: a signal may strike between two steps
                        os.unlink(made)
            raise


def _temporary(path: Path) -> str:
    """A new file beside `path`; its name says whose it is, and of which process."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{os.getpid()}-", suffix=".tmp")
    os.close(handle)
    return name


def _appear(temporary: str, path: Path, before: Callable[[], None], *, overwrite: bool) -> None:
    """Give a file its name. Where it may not replace another, a link refuses, also where another process was
    faster.
    """
    if overwrite:
        before()
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)
    except OSError:
        if os.path.lexists(path):
            raise InputError(f"{path} exists; use --overwrite or another -o") from None
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
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sha256(path: Path) -> str:
    """Hex digits of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove(path: Path) -> None:
    """Remove a file, if it is there; a refusal is one line."""
    with _clear(path):
        path.unlink(missing_ok=True)


def sweep(path: Path) -> None:
    """Remove what writers of `path` that were killed left beside it; their process's number is in the
    name.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        writer = re.fullmatch(r"([0-9]{1,9})-.*", left.name[len(path.name) + 2 :])
        try:
            os.kill(int(writer[1]) if writer else os.getpid(), 0)
        except ProcessLookupError:
            left.unlink(missing_ok=True)
        except OSError:
            continue


def write_text(path: Path, text: str, *, overwrite: bool = False, same: bool = False) -> None:
    """Write a text file, whole or not at all. The rest: see `replacing`."""
    with replacing(path, overwrite=overwrite, same=same) as temporary:
        temporary.write_text(text, encoding="utf-8")


MOST_TEXT = 2**25
"""Bytes of a domain or workload file: a million categories are fewer."""


def without_example(schema: dict[str, Any]) -> None:
    """What a JSON Schema says of a class is its docstring, of which the example is for readers of Python."""
    schema["description"] = schema["description"].split("\n\n>>> ")[0]


def complaint(error: ValidationError) -> str:
    """The first thing that a validation found, and where, in one line whatever its keys are."""
    first = error.errors(include_url=False, include_context=False)[0]
    spot = ".".join(str(part) for part in first["loc"])
    spot = spot if spot.isprintable() else repr(spot)
    return f"{spot + ': ' if spot else ''}{first['msg'].removeprefix('Value error, ')}"


def read_text(path: Path, what: str) -> str:
    """The text of a small file. InputError where it cannot be read or is larger than MOST_TEXT; ValueError
    where it is not text.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_TEXT + 1)
    except OSError as error:
        raise InputError(f"cannot read the {what} {path}: {error.strerror or error}") from None
    if len(content) > MOST_TEXT:
        raise InputError(f"the {what} {path} is larger than {MOST_TEXT >> 20} MB")
    return content.decode("utf-8")
