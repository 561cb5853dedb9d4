"""Targets: where an output goes, a local file or a key in a store, or a folder of Parquet files that together
are one table. Files appear whole or not at all, and replace nothing unless that is asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from factored_mwem.errors import InputError
from factored_mwem.files import files
from factored_mwem.files.files import IfExists
from factored_mwem.tables.inputs.uris import is_uri, place_of, shown

if TYPE_CHECKING:
    from factored_mwem.tables.outputs.stores import StoredFile, StoredPlace

Target: TypeAlias = "LocalFile | StoredFile"
"""A single file."""
Destination: TypeAlias = "Target | Folder"
"""What is written."""
_PART = re.compile(r"part-[0-9]{5,}\.parquet")
_LEFT = re.compile(r"\.(.+)\.[0-9]{1,9}-[^.]+\.tmp")
"""What a killed writer of a part leaves."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file by its path; `str()` of it is that, or the URI of a StoredFile, which has the same verbs."""

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
        """One text for all names of one file, links too, as far as can be known."""
        return os.path.realpath(self.path)

    def beside(self, name: str) -> LocalFile:
        """Another file of the same folder."""
        return LocalFile(self.path.with_name(name))

    def there(self) -> bool:
        """Whether it exists."""
        return self.path.is_file()

    def check(self, exists: IfExists) -> None:
        """InputError, before anything is spent, where it may not be replaced or cannot be written."""
        files.check_target(self.path, exists)

    def replacing(
        self, exists: IfExists = IfExists.REFUSE, before: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[Path]:
        """A local temporary path that becomes the target when the block ends well; see `files.replacing`."""
        return files.replacing(self.path, exists, before)

    def read(self) -> bytes:
        """The whole content of a manifest. Raises OSError if there is none."""
        return self.path.read_bytes()

    def sha256(self) -> str:
        """Hex digits."""
        return files.sha256(self.path)

    def remove(self) -> None:
        """Remove it, if it is there."""
        with files.in_words(self.path):
            self.path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what killed writers left beside it, as far as that is known."""
        files.sweep(self.path)


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """A folder that files are put into, there already or not; a StoredPlace has the same verbs."""

    path: Path

    def __str__(self) -> str:
        return f"{self.path}/"

    @property
    def key(self) -> str:
        """As of a target; the files inside have keys that begin with it and a slash."""
        return os.path.realpath(self.path)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return Path(os.path.abspath(self.path)).name

    def beside(self, name: str) -> LocalFile:
        """A file of the folder that it is in."""
        # the parent of "x/.." is not "x"
        return LocalFile(self.path.parent / name if self.path.name == self.name else self.path / ".." / name)

    def within(self, name: str) -> LocalFile:
        """A file of it."""
        return LocalFile(self.path / name)

    def names(self) -> list[str]:
        """What is in it, hidden files too; nothing if it is not there."""
        try:
            return sorted(os.listdir(self.path))
        except FileNotFoundError:
            return []
        except PermissionError:
            raise InputError(f"cannot read the folder {self.path}: permission denied") from None

    def check(self) -> None:
        """Raises InputError if nothing can be written into it."""
        if not self.name:
            raise InputError(f"{self.path} is the root of this disk; name a folder")
        files.check_name(Path(self.name))
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; name a folder")
        inside = self.path if self.path.is_dir() else self.path.parent
        files.check_target(inside / "part", IfExists.REPLACE)

    def make(self) -> bool:
        """Make it if it is missing; returns whether that was needed."""
        with files.in_words(self.path):
            try:
                self.path.mkdir()
            except FileExistsError:
                return False
            files.sync(self.path.parent)
            return True

    def remove(self) -> None:
        """Remove it, if it is empty."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def part_name(number: int) -> str:
    return f"part-{number:05}.parquet"


def digest_of(parts: Iterable[tuple[str, str]]) -> str:
    """The sha256 of what `sha256sum part-*.parquet` prints in the folder: of (name, sha256) in that order."""
    lines = (f"{digest}  {name}\n" for name, digest in sorted(parts))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class Folder:
    """A folder that holds nothing but the parts of one table, and what readers pass over."""

    def __init__(self, place: LocalPlace | StoredPlace) -> None:
        self.place = place
        self._files: dict[str, Target] = {}

    def __str__(self) -> str:
        return str(self.place)

    @property
    def name(self) -> str:
        return f"{self.place.name}/"

    def file(self, name: str) -> Target:
        """A file of it, the same object at every call: it knows what it was written with."""
        return self._files.setdefault(name, self.place.within(name))

    def parts(self) -> list[str]:
        """The names of the parts that are there."""
        return [name for name in self.place.names() if _PART.fullmatch(name)]

    def there(self) -> bool:
        return bool(self.parts())

    def check(self, exists: IfExists) -> None:
        """Raises InputError if it holds anything that a reader would take for rows, or a release that may not
        be replaced; or where nothing can be written into it.
        """
        self.place.check()
        visible = [name for name in self.place.names() if not name.startswith((".", "_"))]
        if exists is IfExists.REFUSE and visible:
            raise InputError(f"{self} is not empty; use --overwrite or another -o")
        foreign = next((name for name in visible if not _PART.fullmatch(name)), None)
        if foreign is not None:
            what = "which a reader would take for rows"
            raise InputError(f"{self} holds {foreign!r}, {what}; choose another -o")

    def sha256(self) -> str:
        """Over all that is there, see `digest_of`."""
        return digest_of((name, self.file(name).sha256()) for name in self.parts())

    def remove(self, names: Sequence[str] | None = None) -> None:
        """Remove these parts, or all, and the folder if nothing else is in it."""
        self.remove_parts(self.parts() if names is None else names)
        self.place.remove()

    def remove_parts(self, names: Sequence[str]) -> None:
        for name in names:
            self.file(name).remove()

    def sweep(self) -> None:
        for name in {left[1] for left in map(_LEFT.fullmatch, self.place.names()) if left}:
            self.file(name).sweep()


def target_of(place: Any) -> Target:
    """The file that a path or a URI names, or a target itself. Raises InputError if the URI's scheme is
    unknown, or what it needs is not installed.
    """
    if not isinstance(place, str | Path):
        return place
    if not is_uri(place):
        return LocalFile(Path(place))
    system, path = place_of(str(place))
    if system.type_name == "local":
        return LocalFile(Path(path))
    from factored_mwem.tables.outputs.stores import StoredFile

    return StoredFile(shown(str(place)), system, path)


def folder_of(place: str | Path) -> LocalPlace | StoredPlace | None:
    """The folder that `place` names, by a slash at its end or because it is one on this disk; else None."""
    text = str(place)
    if not is_uri(place):
        is_folder = text.endswith(("/", os.sep)) or os.path.isdir(text)
        return LocalPlace(Path(text)) if is_folder else None
    if not shown(text).endswith("/"):
        return None
    system, path = place_of(text)
    if system.type_name == "local":
        return LocalPlace(Path(path))
    from factored_mwem.tables.outputs.stores import StoredPlace

    return StoredPlace(shown(text), system, path.rstrip("/"))


def write_text(target: Target, text: str, exists: IfExists = IfExists.REFUSE) -> None:
    """Write a text file, whole or not at all."""
    with target.replacing(exists) as temporary:
        temporary.write_text(text, encoding="utf-8")
