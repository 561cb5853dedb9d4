"""Stores: outputs beyond the local disk. A file is made whole on this disk (TMPDIR), then sent: a run that
fails halfway leaves no half of it under its name.

A store cannot reserve a name for one writer. So of two jobs with the same -o the later one wins, and the
other learns at its end that its file was replaced.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
from pyarrow.fs import FileSelector, FileType, LocalFileSystem

from factored_mwem.errors import Busy, FmwemError, InputError
from factored_mwem.files.crashpoints import reach
from factored_mwem.files.files import IfExists, sha256, taken

APPEAR_WHOLE = ("s3", "gcs", "abfs")
"""Object stores: nothing is under a name until all has arrived. Elsewhere a file is sent, and renamed."""
BLOCK = 1 << 20


@contextlib.contextmanager
def _in_words(what: str, *, late: bool = False) -> Iterator[None]:
    """Turn a store's refusals into a line. `late`: noise may have been paid for; it may succeed again."""
    try:
        yield
        return
    except FmwemError:
        raise
    except FileNotFoundError:
        why = "there is no such bucket or folder; create it first"
    except (OSError, ValueError, RuntimeError, pa.ArrowException, NotImplementedError) as error:
        why = _reason(error)
    raise (Busy if late else InputError)(f"{what}: {why}")


def _reason(error: BaseException) -> str:
    text = str(error)
    denied = ("ACCESS_DENIED", "Forbidden", "PERMISSION_DENIED", "InvalidAccessKeyId", "NO_CREDENTIALS")
    if isinstance(error, PermissionError) or any(word in text for word in denied):
        return "access is denied; see that its credentials are in place and may write there"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "no space left; free some"
    if "NO_SUCH_BUCKET" in text or "Bucket does not exist" in text:
        return "there is no such bucket or folder; create it first"
    return "the store refuses or does not answer; see its address, credentials and network"


class _Stored:
    """A place in a store. `text`: its URI without secrets, `path`: what the store knows it by."""

    def __init__(self, text: str, system: Any, path: str) -> None:
        self._text, self._system, self._path = text, system, path

    def __str__(self) -> str:
        return self._text

    @property
    def name(self) -> str:
        return PurePosixPath(self._path).name

    @property
    def key(self) -> str:
        return f"{self._system.type_name}:{self._path}"

    def beside(self, name: str) -> StoredFile:
        path = str(PurePosixPath(self._path).with_name(name))
        return StoredFile(f"{self._text.rstrip('/').rpartition('/')[0]}/{name}", self._system, path)

    def _type(self, *, late: bool = False) -> Any:
        with _in_words(f"cannot reach {self}", late=late):
            return self._system.get_file_info(self._path).type


class StoredFile(_Stored):
    """A file in a store, with the verbs of LocalFile."""

    _written: tuple[Any, str] | None = None
    """What the store said of the file that was sent last, and its sha256: so that it need not be fetched."""

    @property
    def suffix(self) -> str:
        return PurePosixPath(self._path).suffix

    def there(self) -> bool:
        return self._type(late=True) == FileType.File

    def check(self, exists: IfExists) -> None:
        """Writes a file of a byte beside it and removes it: nothing else tells whether that is allowed."""
        kind = self._type()
        if kind == FileType.Directory:
            raise InputError(f"{self} is a folder; name a file, or end it in / for a folder of parts")
        if kind != FileType.NotFound and exists is IfExists.REFUSE:
            raise taken(self)
        probe = self._temporary()
        with _in_words(f"cannot write {self}"):
            with self._system.open_output_stream(probe) as stream:
                stream.write(b"?")
            self._system.delete_file(probe)

    def _temporary(self) -> str:
        path = PurePosixPath(self._path)
        return str(path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp"))

    @contextlib.contextmanager
    def replacing(
        self, exists: IfExists = IfExists.REFUSE, before: Callable[[], None] = lambda: None
    ) -> Iterator[Path]:
        """See `files.replacing`."""
        with tempfile.TemporaryDirectory(prefix="fmwem-") as folder:
            local = Path(folder, self.name)
            yield local
            reach("before rename")
            if exists is not IfExists.REPLACE and self.there():
                if exists is IfExists.REFUSE:
                    raise taken(self)
                if self.sha256() != sha256(local):
                    raise taken(self, " and is not what this run would write")
                return
            if exists is IfExists.REPLACE:
                before()
            try:
                self._send(local)
                if exists is not IfExists.REPLACE:
                    before()
                reach("after rename")
            except BaseException:
                with contextlib.suppress(Exception):
                    self.remove()
                raise

    def _send(self, local: Path) -> None:
        whole = self._system.type_name in APPEAR_WHOLE
        path = self._path if whole else self._temporary()
        with _in_words(f"cannot write {self}", late=True):
            try:
                systems = {"source_filesystem": LocalFileSystem(), "destination_filesystem": self._system}
                pafs.copy_files(str(local), path, **systems)
                if not whole:
                    self._system.move(path, self._path)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._system.delete_file(path)
                raise
            info = self._system.get_file_info(self._path)
            if info.size != local.stat().st_size:
                raise OSError("another size than was sent")
        self._written = info, sha256(local)

    def read(self) -> bytes:
        with (
            _in_words(f"cannot read {self}", late=True),
            self._system.open_input_stream(self._path) as stream,
        ):
            return stream.read()

    def sha256(self) -> str:
        """Fetched, unless the store says that the file is as it was when this process sent it."""
        with _in_words(f"cannot read {self}", late=True):
            if self._written and self._written[0] == self._system.get_file_info(self._path):
                return self._written[1]
            digest = hashlib.sha256()
            with self._system.open_input_stream(self._path) as stream:
                while block := stream.read(BLOCK):
                    digest.update(block)
            return digest.hexdigest()

    def remove(self) -> None:
        if self.there():
            with _in_words(f"cannot remove {self}", late=True):
                self._system.delete_file(self._path)

    def sweep(self) -> None:
        """Nothing: whose an unfinished upload is cannot be told; a store removes such by its own rules."""


class StoredPlace(_Stored):
    """A folder in a store, with the verbs of LocalPlace: in an object store a beginning that keys share."""

    def within(self, name: str) -> StoredFile:
        return StoredFile(f"{self._text}{name}", self._system, f"{self._path}/{name}")

    def names(self) -> list[str]:
        with _in_words(f"cannot reach {self}"):
            infos = self._system.get_file_info(FileSelector(self._path, allow_not_found=True))
        return sorted(info.base_name for info in infos if info.path.rstrip("/") != self._path)

    def check(self) -> None:
        if self._type() == FileType.File:
            raise InputError(f"{self} is a file; name a folder")
        if "/" not in self._path.strip("/") and self._system.type_name in APPEAR_WHOLE:
            raise InputError(f"{self} is all of a bucket; name a folder in it")
        is_new = self.make()  # elsewhere than in an object store a folder must be there to be written into
        try:
            self.within("part").check(IfExists.REPLACE)
        finally:
            if is_new:
                self.remove()

    def make(self) -> bool:
        if self._system.type_name in APPEAR_WHOLE or self._type() == FileType.Directory:
            return False
        with _in_words(f"cannot make {self}"):
            self._system.create_dir(self._path, recursive=False)
        return True

    def remove(self) -> None:
        with contextlib.suppress(Exception):
            if self._system.type_name not in APPEAR_WHOLE and not self.names():
                self._system.delete_dir(self._path)
