"""RemoteFile: a private file of an object store or a server, by the interface of `InputFile`."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.tables.input_file import FOOTER_END_BYTES, Watched

MARKS = ("ETag", "etag", "Content-MD5", "Digest", "Last-Modified", "LastModified", "generation", "md5Hash")
"""Facts by which a store tells one content of a file from another."""
T = TypeVar("T")


class RemoteFile(Watched):
    """A file of a pyarrow file system. What it is: size, time of writing, the store's own mark of its content
    where there is one and, of Parquet, the footer.

    It is opened anew for every pass: one that is replaced in between is Changed. Not seen is one that is
    replaced by another of its size where the store tells neither time nor mark (a plain server may not).
    """

    def __init__(self, system: Any, path: str, label: str, *, footer: bool = False) -> None:
        self.path, self._system, self._place, self._footer = label, system, path, footer
        self.identity = self._look()

    def stream(self) -> io.RawIOBase:
        """The file's bytes from the start, whatever else reads it."""
        return _Stream(answered(self.path, lambda: self._system.open_input_file(self._place)))

    def arrow(self) -> Any:
        """The same, for pyarrow."""
        return pa.PythonFile(self.stream(), mode="r")

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

    def _footer_digest(self) -> bytes:
        stream = self.stream()
        size = stream.seek(0, io.SEEK_END)
        stream.seek(max(size - FOOTER_END_BYTES, 0))
        end = stream.read(FOOTER_END_BYTES) or b""
        length = min(int.from_bytes(end[:4], "little") + FOOTER_END_BYTES, size)
        stream.seek(size - length)
        return hashlib.sha256(stream.read(length) or b"").digest()


def answered(label: str, ask: Callable[[], T]) -> T:
    """What a store answers. OSError in our own words where it does not: its library may raise anything, and
    quote what should not be read (a signed address, a key).
    """
    try:
        return ask()
    except (InputError, MemoryError):
        raise
    except FileNotFoundError:
        missing = True
    except PermissionError:
        raise PermissionError from None
    except Exception:  # noqa: BLE001 - of whatever library serves this kind of place
        missing = False
    if missing:
        raise InputError(f"no file {label}")
    raise InputError(f"cannot read {label}: its store does not answer, or refuses; see its address and keys")


class _Stream(io.RawIOBase):
    """Reads of a store, with its failures in our own words."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._asked(lambda: self._file.seek(offset, whence))

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        return self._asked(lambda: self._file.read(size if size >= 0 else None))

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - as above
            pass
        raise OSError("the store does not answer")
