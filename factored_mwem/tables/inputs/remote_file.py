"""RemoteFile: a private file of an object store or a server, by the interface of `InputFile`."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TypeVar

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.arrow_input import unquoted
from factored_mwem.tables.inputs.input_file import ByteStream, PrivateFile

MARKS = ("ETag", "etag", "Content-MD5", "Digest", "Last-Modified", "LastModified", "generation", "md5Hash")
"""Facts by which a store tells one content of a file from another."""
T = TypeVar("T")


class RemoteFile(PrivateFile):
    """A file of a pyarrow file system. What it is: size, time of writing, the store's own mark of its content
    where there is one and, of Parquet, the footer.

    It is opened anew for every pass: one that is replaced in between is Changed. Not seen is one that is
    replaced by another of its size where the store tells neither time nor mark (a plain server may not).
    """

    def __init__(self, system: Any, path: str, label: str, *, footer: bool = False) -> None:
        self.path, self._system, self._place, self._footer = label, system, path, footer
        self.identity = self._look()

    def stream(self) -> io.RawIOBase:
        return _StoreStream(answered(self.path, lambda: self._system.open_input_file(self._place)))

    def _look(self) -> tuple[Any, ...]:
        facts = answered(self.path, lambda: self._system.get_file_info(self._place))
        if not facts.is_file:
            raise InputError(f"no file {self.path}")
        footer = answered(self.path, self._footer_digest) if self._footer else b""
        return facts.size, facts.mtime_ns, self._marks(), footer

    def _marks(self) -> tuple[str, ...]:
        """What a file system of fsspec says of the content, asked anew."""
        inner = getattr(getattr(self._system, "handler", None), "fs", None)
        if inner is None:
            return ()
        answered(self.path, inner.invalidate_cache)
        facts = answered(self.path, lambda: inner.info(self._place))
        return tuple(f"{mark}={facts[mark]}" for mark in MARKS if mark in facts)


def answered(label: str, ask: Callable[[], T]) -> T:
    """What a store answers. OSError in our own words where it does not: its library may raise anything, and
    quote what should not be read (a signed address, a key).
    """

    def refusal(error: BaseException) -> Exception:
        if isinstance(error, PermissionError):
            return PermissionError()
        if isinstance(error, FileNotFoundError):
            return InputError(f"no file {label}")
        why = "its store does not answer, or refuses; see its address and keys"
        return InputError(f"cannot read {label}: {why}")

    return unquoted(ask, refusal)


class _StoreStream(ByteStream):
    """Reads of a store, with its failures in our own words."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._answered(lambda: self._file.seek(offset, whence))

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        return self._answered(lambda: self._file.read(size if size >= 0 else None))

    def _answered(self, ask: Callable[[], T]) -> T:
        return unquoted(ask, lambda _: OSError("the store does not answer"))
