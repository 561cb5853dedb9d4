"""Parts: a folder of Parquet files that together are one table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from factored_mwem.errors import InputError
from factored_mwem.files import IfExists
from factored_mwem.tables.targets import Place, Target

_PART = re.compile(r"part-[0-9]{5,}\.parquet")
_LEFT = re.compile(r"\.(.+)\.[0-9]{1,9}-[^.]+\.tmp")
"""What a killed writer of a part leaves."""


class Part(NamedTuple):
    """A part as it was written."""

    file: str
    rows: int
    sha256: str


def part_name(number: int) -> str:
    return f"part-{number:05}.parquet"


def digest_of(parts: Iterable[tuple[str, str]]) -> str:
    """The sha256 of what `sha256sum part-*.parquet` prints in the folder: of (name, sha256) in that order."""
    lines = (f"{digest}  {name}\n" for name, digest in sorted(parts))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class Folder:
    """A folder that holds nothing but the parts of one table, and what readers pass over."""

    def __init__(self, place: Place) -> None:
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
        """InputError where it holds anything that a reader would take for rows, or a release that may not be
        replaced; or where nothing can be written into it.
        """
        self.place.check()
        found = [name for name in self.place.names() if not name.startswith((".", "_"))]
        if exists is IfExists.REFUSE and found:
            raise InputError(f"{self} is not empty; use --overwrite or another -o")
        foreign = next((name for name in found if not _PART.fullmatch(name)), None)
        if foreign is not None:
            raise InputError(
                f"{self} holds {foreign!r}, which a reader would take for rows; choose another -o"
            )

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
        left = {found[1] for found in map(_LEFT.fullmatch, self.place.names()) if found}
        for name in left:
            self.file(name).sweep()
