"""InputFile: a private file, opened once: every pass reads it, and `check` tells whether it was changed."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from factored_mwem.errors import Changed, InputError

FOOTER_END_BYTES = 8
"""At the end of a Parquet file: the length of its footer, and its mark."""


class Origin(Protocol):
    """Where private rows come from, which must stay as it was between two passes."""

    def check(self) -> None:
        """Changed where it is not what it was when it was opened."""


class InputFile:
    """`path`, opened once. What it is: device, inode, size, time of writing and, of Parquet, the footer.

    A file that another takes the place of, by a rename, is read on to its end; one that is written to is
    Changed. Not seen is one that is written over in its own size and given its old time again: who does that
    means to. The time at which mode, links or name changed says too little.
    """

    def __init__(
        self, path: Path, *, footer: bool = False, label: str | None = None, handle: int | None = None
    ) -> None:
        """`label`: how messages call it; `handle`: of the file, where it is open already."""
        if handle is None and not stat.S_ISREG(
            os.stat(path).st_mode
        ):  # before it is opened: a pipe would wait for a writer
            why = "rows are read more than once; write it to a file first, or give - and pipe it in"
            raise InputError(f"{label or path} is no regular file, and {why}")
        self.path, self._footer = label or path, footer
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if handle is None else handle
        weakref.finalize(self, os.close, self._handle)
        self.identity = self._look()

    def check(self) -> None:
        if self._look() != self.identity:
            how = "put back what it was, or release again what it is now"
            raise Changed(f"{self.path} was changed while it was read; {how}")

    def stream(self) -> io.RawIOBase:
        """The file's bytes from the start, whatever else reads it."""
        return _Stream(self, self._handle)

    def streams(self) -> Iterator[tuple[bytes, io.RawIOBase]]:
        """The bytes of all files of the table: of this one, of which no folder says anything."""
        yield b"", self.stream()

    def arrow(self) -> Any:
        """The same, for pyarrow."""
        return pa.PythonFile(self.stream(), mode="r")

    def _look(self) -> tuple[Any, ...]:
        facts = os.fstat(self._handle)
        footer = self._footer_digest(facts.st_size) if self._footer else b""
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, footer

    def _footer_digest(self, size: int) -> bytes:
        end = os.pread(self._handle, FOOTER_END_BYTES, max(size - FOOTER_END_BYTES, 0))
        length = min(int.from_bytes(end[:4], "little") + FOOTER_END_BYTES, size)
        return hashlib.sha256(os.pread(self._handle, length, size - length)).digest()


class _Stream(io.RawIOBase):
    """Reads by position, so that passes do not disturb each other."""

    def __init__(self, file: InputFile, handle: int) -> None:
        self._file, self._from, self._at = file, handle, 0  # the file closes its handle when nobody holds it

    def readable(self) -> bool:
        return True

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
