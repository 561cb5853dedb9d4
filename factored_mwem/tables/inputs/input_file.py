"""InputFile: a private file, opened once: every pass reads it, and `check` tells whether it was changed. In
files without a name private rows or codes wait that memory does not hold.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tempfile
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from factored_mwem.errors import Busy, Changed, InputError

FOOTER_END_BYTES = 8
"""At the end of a Parquet file: the length of its footer, and its mark."""


class Origin(Protocol):
    """Where private rows come from, which must stay as it was between two passes."""

    def check(self) -> None:
        """Raise Changed if the file has changed since it was opened."""


class ByteStream(io.RawIOBase):
    """Bytes to be read."""

    def readable(self) -> bool:
        return True


class PrivateFile(ABC):
    """A file that is looked at: `path`, as messages call it, and what it was when it was opened."""

    path: Any
    identity: tuple[Any, ...]

    @abstractmethod
    def stream(self) -> io.RawIOBase:
        """The file's bytes from the start, whatever else reads it."""

    @abstractmethod
    def _look(self) -> tuple[Any, ...]:
        """What it is now, as far as can be told without reading it."""

    def arrow(self) -> Any:
        """`stream`, for pyarrow."""
        return pa.PythonFile(self.stream(), mode="r")

    def check(self) -> None:
        """Raise Changed if the file has changed since it was opened."""
        if self._look() != self.identity:
            how = "put back what it was, or release again what it is now"
            raise Changed(f"{self.path} was changed while it was read; {how}")

    def _footer_digest(self) -> bytes:
        """sha256 of a Parquet file's footer."""
        stream = self.stream()
        size = stream.seek(0, io.SEEK_END)
        stream.seek(max(size - FOOTER_END_BYTES, 0))
        end = stream.read(FOOTER_END_BYTES) or b""
        length = min(int.from_bytes(end[:4], "little") + FOOTER_END_BYTES, size)
        stream.seek(size - length)
        return hashlib.sha256(stream.read(length) or b"").digest()


class InputFile(PrivateFile):
    """`path`, opened once. What it is: device, inode, size, time of writing and, of Parquet, the footer.

    A file that another takes the place of, by a rename, is read on to its end; one that is written to is
    Changed. Not seen is one that is written over in its own size and given its old time again: who does that
    means to. The time at which mode, links or name changed says too little.
    """

    def __init__(
        self, path: Path, *, footer: bool = False, label: str | None = None, handle: int | None = None
    ) -> None:
        """`label`: how messages call it; `handle`: of the file, where it is open already."""
        # before it is opened: a pipe would wait for a writer
        if handle is None and not stat.S_ISREG(os.stat(path).st_mode):
            why = "rows are read more than once; write it to a file first, or give - and pipe it in"
            raise InputError(f"{label or path} is no regular file, and {why}")
        self.path, self._footer = label or path, footer
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if handle is None else handle
        weakref.finalize(self, os.close, self._handle)
        self.identity = self._look()

    def stream(self) -> io.RawIOBase:
        return _Stream(self, self._handle)

    def _look(self) -> tuple[Any, ...]:
        facts = os.fstat(self._handle)
        footer = self._footer_digest() if self._footer else b""
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, footer


class _Stream(ByteStream):
    """Reads by position, so that passes do not disturb each other."""

    def __init__(self, file: InputFile, handle: int) -> None:
        self._file, self._from, self._at = file, handle, 0  # the file closes its handle when nobody holds it

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = (0, self._at, os.fstat(self._from).st_size)[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        data = os.pread(self._from, size if size >= 0 else os.fstat(self._from).st_size, self._at)
        self._at += len(data)
        return data


def nameless(folder: Path | None, suffix: str) -> int:
    """The handle of an open file in `folder`, or where the system keeps temporary files. It has no name from
    the first byte on, so that nothing is left of it however the process ends.
    """
    handle, name = tempfile.mkstemp(prefix="fmwem-", suffix=suffix, dir=folder)
    os.unlink(name)
    return handle


def full(what: str, folder: Path | None, why: str | None) -> Busy:
    """What to raise where such a file cannot be made or written."""
    where = folder or tempfile.gettempdir()
    return Busy(f"cannot keep {what} in {where}: {why}; free some space, or name another folder by --spill")
