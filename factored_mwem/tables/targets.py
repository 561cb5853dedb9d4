"""Target: where an output goes, a local file or a key in a store, behind the same verbs: whole or not at all,
and never over what is there unless told so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from factored_mwem import files
from factored_mwem.errors import InputError
from factored_mwem.files import IfExists
from factored_mwem.tables.uris import is_uri, place_of, shown


class Destination(Protocol):
    """A file, or a folder of parts, that is written. `str(output)` is its path or URI."""

    @property
    def name(self) -> str:
        """The last part of its path; of a folder with a slash at its end."""

    def there(self) -> bool:
        """Whether it, or a part of it, exists."""

    def check(self, exists: IfExists) -> None:
        """InputError, before anything is spent, where it may not be replaced or cannot be written."""

    def sha256(self) -> str:
        """Hex digits of what is there; of a folder see `Folder.sha256`."""

    def remove(self) -> None:
        """Remove it, if it is there."""

    def sweep(self) -> None:
        """Remove what killed writers left beside it, as far as that is known."""


class Target(Destination, Protocol):
    """A single file."""

    @property
    def suffix(self) -> str: ...

    @property
    def key(self) -> str:
        """What is the same for two names of one file, as far as can be told."""

    def beside(self, name: str) -> Target:
        """Another file of the same folder."""

    def replacing(
        self, exists: IfExists = IfExists.REFUSE, before: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[Path]:
        """A local temporary path whose content becomes the target when the block ends well; see
        `files.replacing`.
        """

    def read(self) -> bytes:
        """All of it: for a manifest. OSError where it is not there."""


class Place(Protocol):
    """A folder that files are put into, there already or not."""

    @property
    def key(self) -> str:
        """As of a target; the files inside have keys that begin with it and a slash."""

    @property
    def name(self) -> str:
        """The last part of its path."""

    def beside(self, name: str) -> Target:
        """A file of the folder that it is in."""

    def within(self, name: str) -> Target:
        """A file of it."""

    def names(self) -> list[str]:
        """What is in it, hidden files too; nothing where it is not there."""

    def check(self) -> None:
        """InputError where nothing can be written into it."""

    def make(self) -> bool:
        """Make it where it is not there; whether that was needed."""

    def remove(self) -> None:
        """Remove it, if it is empty."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file by its path."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def suffix(self) -> str:
        return self.path.suffix

    @property
    def key(self) -> str:
        return os.path.realpath(self.path)

    def beside(self, name: str) -> LocalFile:
        return LocalFile(self.path.with_name(name))

    def there(self) -> bool:
        return self.path.is_file()

    def check(self, exists: IfExists) -> None:
        files.check_target(self.path, exists)

    def replacing(
        self, exists: IfExists = IfExists.REFUSE, before: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[Path]:
        return files.replacing(self.path, exists, before)

    def read(self) -> bytes:
        return self.path.read_bytes()

    def sha256(self) -> str:
        return files.sha256(self.path)

    def remove(self) -> None:
        files.remove(self.path)

    def sweep(self) -> None:
        files.sweep(self.path)


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """A folder by its path."""

    path: Path

    def __str__(self) -> str:
        return f"{self.path}/"

    @property
    def key(self) -> str:
        return os.path.realpath(self.path)

    @property
    def name(self) -> str:
        return Path(os.path.abspath(self.path)).name

    def beside(self, name: str) -> LocalFile:
        return LocalFile(self.path.parent / name if self.path.name == self.name else self.path / ".." / name)

    def within(self, name: str) -> LocalFile:
        return LocalFile(self.path / name)

    def names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.path))
        except FileNotFoundError:
            return []
        except PermissionError:
            raise InputError(f"cannot read the folder {self.path}: permission denied") from None

    def check(self) -> None:
        if not self.name:
            raise InputError(f"{self.path} is the root of this disk; name a folder")
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; name a folder")
        inside = self.path if self.path.is_dir() else self.path.parent
        files.check_target(inside / "part", IfExists.REPLACE)

    def make(self) -> bool:
        with files.in_words(self.path):
            try:
                self.path.mkdir()
            except FileExistsError:
                return False
            files.sync(self.path.parent)
            return True

    def remove(self) -> None:
        try:
            self.path.rmdir()
        except OSError:
            return


def target_of(given: Any) -> Target:
    """The file that a path or a URI names, or a target itself. InputError where the URI's scheme is unknown,
    or what it needs is not installed.
    """
    if not isinstance(given, str | Path):
        return given
    if not is_uri(given):
        return LocalFile(Path(given))
    system, path = place_of(str(given))
    if system.type_name == "local":
        return LocalFile(Path(path))
    from factored_mwem.tables.stores import StoredFile

    return StoredFile(shown(str(given)), system, path)


def folder_of(given: str | Path) -> Place | None:
    """The folder that `given` names, by a slash at its end or because it is one on this disk; else None."""
    text = str(given)
    if is_uri(given):
        if not shown(text).endswith("/"):
            return None
        system, path = place_of(text)
        if system.type_name == "local":
            return LocalPlace(Path(path))
        from factored_mwem.tables.stores import StoredPlace

        return StoredPlace(shown(text), system, path.rstrip("/"))
    if text.endswith(("/", os.sep)) or os.path.isdir(text):
        return LocalPlace(Path(text))
    return None


def write_text(target: Target, text: str, exists: IfExists = IfExists.REFUSE) -> None:
    """Write a text file, whole or not at all."""
    with target.replacing(exists) as temporary:
        temporary.write_text(text, encoding="utf-8")
