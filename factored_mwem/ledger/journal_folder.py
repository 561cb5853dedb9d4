"""A folder of journals: each of them a file, which its process locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from factored_mwem.errors import Busy, InputError, Lost
from factored_mwem.files.crashpoints import reach
from factored_mwem.files.files import sync, write_whole
from factored_mwem.ledger.journal import (
    CODE_BYTES,
    HEAD,
    MAGIC,
    Journal,
    Record,
    Unreadable,
    damaged,
    frame_at,
    record_of,
    under_way,
)

SUFFIX = ".journal"
LATEST = "latest"
"""The file with the mark of the last release without a run id, which has no journal."""
JOURNAL = re.compile(rf"[0-9a-f]{{32}}\.journal|{LATEST}")
"""Names of journals, and of that file. Others in their folder are not ours; their names may be no text."""
TRIES = """
import fcntl, os, sys
try:
    fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(7)
"""
"""What another process does to find out whether a file system keeps locks: 7 where it is kept out."""


class JournalFolder:
    """The journals in a folder, which is made with the first of them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, name: str, key: bytes) -> Journal:
        return JournalFile(self.path / f"{name}{SUFFIX}", key)

    def headers(self, key_of: Callable[[str], bytes]) -> dict[str, dict[str, Any]]:
        headers = {}
        for path in self._files():
            header = _glimpse(path, key_of(path.name.removesuffix(SUFFIX)))
            if header is not None:
                headers[path.name] = header
        return headers

    @contextlib.contextmanager
    def remembered(self, mark: str) -> Iterator[Callable[[], None]]:
        ready = self.path / f"{mark}.{LATEST}"
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            lock = (self.path / f"{LATEST}.lock").open("w")
            ready.write_text(mark)
            sync(ready)
        except OSError as error:
            ready.unlink(missing_ok=True)
            why = f"cannot write in {self.path}: {error.strerror}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise Busy(f"{why}; free some space") from None
            raise InputError(why) from None

        def keep() -> None:
            os.replace(ready, self.path / LATEST)
            sync(self.path)

        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # marks are kept in the order in which the ledger has them
            try:
                yield keep
            finally:
                ready.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        try:
            paths = [self.path / name for name in os.listdir(self.path) if JOURNAL.fullmatch(name)]
            return sorted(path for path in paths if path.is_file())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unreadable(f"{self.path}: {error.strerror}") from None


def journals_of(path: Path) -> Path:
    """The folder of a ledger file's journals."""
    whole = path.resolve()  # resolved, so that its journals lie in one place under any name
    return whole.with_name(f"{whole.name}.journals")


def refuse_journals(folder: Path, way_out: str) -> None:
    """Raise InputError if there are journals of an earlier ledger, whose costs a new one would not know."""
    try:
        left = any(JOURNAL.fullmatch(name) for name in os.listdir(folder))
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"cannot read the journals in {folder}: {error.strerror}; {way_out}") from None
    if left:
        raise InputError(
            f"{folder} holds the journals of an earlier ledger; put that ledger back, or {way_out} for a new "
            "one"
        )


def keeps_locks(folder: Path) -> bool:
    """Whether another process of this machine is kept out of a file that this one locks there."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return kept_out(TRIES, file.name)


def kept_out(tries: str, path: Path | str) -> bool:
    """Whether another process that tries to lock the file reports that it could not."""
    command = [sys.executable, "-I", "-c", tries, str(path)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 7


def _glimpse(path: Path, key: bytes) -> dict[str, Any] | None:
    try:
        if path.name == LATEST:
            return {"entry": path.read_text()}
        return JournalFile.glimpse(path, key)
    except Lost:
        return None  # a valid code over something else than a record: not a journal of this program
    except OSError as error:
        raise Unreadable(f"{path.parent}: {error.strerror}") from None


class JournalFile(Journal):
    """A journal in a file that this process locks."""

    def __init__(self, path: Path, key: bytes) -> None:
        super().__init__(key)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            for folder in (path.parent, path.parent.parent):
                sync(folder)
        except OSError as error:
            raise InputError(f"cannot write the journal {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise under_way() from None
        try:
            self._take_up(self._read(path))
        except BaseException:
            os.close(self._handle)
            raise

    def close(self) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_UN)  # a child of this process may have the file open too
        os.close(self._handle)

    @classmethod
    def glimpse(cls, path: Path, key: bytes) -> dict[str, Any] | None:
        """The header of a journal that holds a whole draw; the rest is not read. None for any other file.

        It may be in use.
        """
        with open(path, "rb") as file:
            header, draw = _next(file, key, 0), _next(file, key, 1)
        return None if header is None or draw is None else record_of(header, str(path))[0]

    def make_room(self, size: int) -> None:
        try:
            os.ftruncate(self._handle, self._end)  # a torn record of an earlier attempt goes
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._handle, self._end, HEAD.size + size + CODE_BYTES)
        except OSError as error:
            raise Busy(f"cannot write the journal: {error.strerror}; free some space") from None

    def _clear(self) -> None:
        os.ftruncate(self._handle, 0)
        self._end = 0

    def _keep(self, start: bytes, rest: bytes) -> None:
        end = self._end + len(start) + len(rest)
        try:
            os.lseek(self._handle, self._end, os.SEEK_SET)
            write_whole(self._handle, start)
            reach("half journalled")
            write_whole(self._handle, rest)
            # How much room was made is private: it grows with the keys that may be kept.
            os.ftruncate(self._handle, end)
            os.fsync(self._handle)
        except OSError as error:
            raise Busy(f"cannot write the journal: {error.strerror}; free some space") from None
        self._end = end

    def _read(self, path: Path) -> list[Record]:
        """All whole records. A torn last one is left out, to be drawn again; raises Lost if anything follows
        it.

        Nothing is changed yet.
        """
        with os.fdopen(os.dup(self._handle), "rb") as file:
            file.seek(0)
            data, at = file.read(), 0
        records: list[Record] = []
        while (body := frame_at(self._key, data, at)) is not None:
            if HEAD.unpack_from(data, at)[1] != len(records):
                break
            records.append(record_of(body, str(path)))
            at += HEAD.size + len(body) + CODE_BYTES
        later = data.find(MAGIC, at)  # at `at` itself may be a whole one of another number
        while later >= 0:
            if frame_at(self._key, data, later) is not None:
                raise damaged(str(path))
            later = data.find(MAGIC, later + 1)
        self._end = at
        return records


def _next(file: BinaryIO, key: bytes, number: int) -> bytes | None:
    """The body of the next record in the file, if it has this number and is whole."""
    head = file.read(HEAD.size)
    if len(head) < HEAD.size or head[: len(MAGIC)] != MAGIC or HEAD.unpack(head)[1] != number:
        return None
    left = os.fstat(file.fileno()).st_size - file.tell()  # a damaged length may be any number
    return frame_at(key, head + file.read(min(HEAD.unpack(head)[2] + CODE_BYTES, left)), 0)
