"""Places: the files that a table is made of: one, a list, a folder or a glob, on this machine or by URI.

A folder whose name is KEY=VALUE (as Hive, Spark and others partition) gives the rows beneath it a column KEY.
Its value is data: it stands in no message, and decides nothing about the columns.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote_to_bytes

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.formats import PARQUET, check_known, suffix_of
from factored_mwem.tables.inputs.input_file import InputFile, PrivateFile
from factored_mwem.tables.inputs.uris import is_uri, place_of, without_user

PARTITION = re.compile(r"([^=]+)=(.*)", re.DOTALL)
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""How Hive writes a null into the name of a folder."""
WILD = re.compile(r"[*?[]")
QUERY = re.compile(r"\?[A-Za-z_][A-Za-z0-9_.-]*=.*$")
SINGLE_SCHEMES = ("http", "https")
"""Whose servers list no folders: every sign of their addresses is a sign."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A file of a table: how messages call it, where it is, and what the folders above it say of its rows."""

    label: str
    path: str = field(repr=False)
    system: Any = field(default=None, repr=False)
    """The pyarrow file system that it is in; None for this machine's disk."""
    partitions: tuple[tuple[str, str | None], ...] = field(default=(), repr=False)

    @property
    def suffix(self) -> str:
        return suffix_of(self.label)

    def open(self) -> PrivateFile:
        footer = self.suffix in PARQUET.suffixes
        if self.system is None:
            return InputFile(Path(self.path), footer=footer, label=self.label)
        from factored_mwem.tables.inputs.remote_file import RemoteFile

        return RemoteFile(self.system, self.path, self.label, footer=footer)

    def reopened(self) -> PrivateFile | None:
        """The file; None if it is gone, or may not be read."""
        try:
            return self.open()
        except (InputError, OSError):
            return None


def is_place(source: Any) -> bool:
    """Whether something names files rather than being a table."""
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(part, str | Path) for part in source)
    return isinstance(source, str | Path)


def places_of(source: str | Path | Sequence[str | Path]) -> list[Place]:
    """The files in a fixed order. Raises InputError if there is none, or one comes twice: its rows would
    count twice, and a person have more of them than was said.
    """
    if not isinstance(source, str | Path):
        places = [place for part in source for place in places_of(part)]
    elif isinstance(source, str) and is_uri(source) and not source.lower().startswith("file://"):
        places = list(_remote(source))
    else:
        path = place_of(source)[1] if isinstance(source, str) and is_uri(source) else str(source)
        places = list(_local(path))
    seen = set[Any]()
    for place in places:
        check_known(place.label, place.label)
        which = _identity(place)
        if which in seen:
            raise InputError(f"{place.label} is given twice; its rows would count twice")
        seen.add(which)
    return places


def _identity(place: Place) -> Any:
    """The same for all names of one file, links of either kind too."""
    if place.system is not None:
        return place.system.type_name, place.path
    try:
        facts = os.stat(place.path)
    except OSError:  # which opening will say
        return os.path.realpath(place.path)
    return facts.st_dev, facts.st_ino


def fixed_part(pattern: str) -> str:
    """The folder above the first part of a path that has a wildcard."""
    parts = pattern.split("/")
    first = next(at for at, part in enumerate(parts) if WILD.search(part))
    return "/".join(parts[:first]) or ("/" if pattern.startswith("/") else "")


def _local(path: str) -> Iterator[Place]:
    if os.path.isdir(path):
        yield from _sorted(path, path, (os.path.relpath(file, path) for file in _files_in(path, True)))
    elif os.path.exists(path) or not WILD.search(path):
        if not Path(path).exists():  # which raises for a name that no file may have
            raise InputError(f"no file {path}")
        yield Place(path, path)
    else:
        base = fixed_part(path)
        matches = [m for m in glob.glob(path, recursive=True) if not _hidden(os.path.relpath(m, base or "."))]
        files = {
            os.path.relpath(file, base or ".")
            for match in matches
            for file in (_files_in(match) if os.path.isdir(match) else [match])
        }
        yield from _sorted(path, base, files)


def _sorted(label: str, base: str, inside: Any) -> Iterator[Place]:
    """The files of a folder, given relative to it, in the order of their names."""
    names = sorted(inside, key=os.fsencode)
    if not names:
        raise InputError(f"{label} holds no file of a table; hidden ones (_ or . in front) do not count")
    for name in names:
        yield Place(os.path.join(base, masked(name)), os.path.join(base, name), None, _partitions(name))


def _files_in(folder: str, named: bool = False) -> Iterator[str]:
    """All files beneath a folder, but hidden ones, each folder once. `named`: it alone was asked for."""
    waiting, seen = [folder], set[tuple[int, int]]()
    while waiting:
        here = waiting.pop()
        facts = os.stat(here)
        if (facts.st_dev, facts.st_ino) in seen:
            continue
        seen.add((facts.st_dev, facts.st_ino))
        with os.scandir(here) as entries:
            inside = list(entries)
        label = folder if here == folder else f"a folder in {folder}"  # whose name may be a value
        _check_no_log(label, {entry.name for entry in inside}, named and here == folder)
        for entry in inside:
            if not _is_hidden(entry.name):
                if entry.is_dir():
                    waiting.append(entry.path)
                else:
                    yield entry.path


class LakeFolder(InputError):
    """A folder is the table of a lake: not all files in it count."""

    def __init__(self, folder: str, kind: str, how: str, opens: bool = False) -> None:
        """`opens`: whether what was named is the folder itself, and its library opens such folders."""
        super().__init__(f"{folder} is {kind}: {how}")
        self.opens = opens


def _check_no_log(folder: str, names: set[str], named: bool) -> None:
    """LakeFolder where a log beside the files says which of them are the table: others are of its past."""
    if "_delta_log" in names:
        raise LakeFolder(folder, "a Delta table", "its log says which files count; give it alone", named)
    if {"metadata", "data"} <= names:
        how = "its metadata say which files count; give the newest of metadata/*.metadata.json"
        raise LakeFolder(folder, "an Iceberg table", how)


def _remote(uri: str) -> Iterator[Place]:
    from factored_mwem.tables.inputs.remote_file import answered

    address, query = without_query(uri)
    scheme, rest = address.split("://", 1)
    label = f"{scheme}://{without_user(rest)}"
    if scheme.lower() in SINGLE_SCHEMES:
        system, path = place_of(uri)
        yield Place(label.split("?", 1)[0], path, system)
        return
    wild = WILD.search(rest) is not None
    folder = fixed_part(address) if wild else address.rstrip("/")
    system, base = place_of(folder + query)
    if not wild and answered(label, lambda: system.get_file_info(base)).is_file:
        yield Place(label, base, system)
        return
    names = [name for name in _listed(system, base, label, not wild) if not _hidden(name)]
    if wild:
        pattern = address[len(folder) :].strip("/").split("/")
        names = [name for name in names if _matches(name.split("/"), pattern)]
    if not names:
        raise InputError(f"no file {label}")
    shown = f"{scheme}://{without_user(folder.split('://', 1)[1])}"
    for name in sorted(names, key=os.fsencode):
        path = f"{base.rstrip('/')}/{name}"
        yield Place(f"{shown}/{masked(name)}", path, system, _partitions(name))


def without_query(uri: str) -> tuple[str, str]:
    """(address, query) of a URI: what its last `?NAME=` opens; any other `?` is a wildcard."""
    match = QUERY.search(uri)
    return (uri[: match.start()], match.group()) if match else (uri, "")


def _listed(system: Any, base: str, label: str, named: bool) -> list[str]:
    """The files beneath a folder of a store, relative to it."""
    import pyarrow.fs as pafs

    from factored_mwem.tables.inputs.remote_file import answered

    folder = pafs.FileSelector(base, recursive=True, allow_not_found=True)
    infos = answered(label, lambda: system.get_file_info(folder))
    below = [(info.path[len(base) :].lstrip("/"), info) for info in infos]
    _check_no_log(label, {name.split("/", 1)[0] for name, _ in below}, named)
    deeper = {part for name, _ in below for part in name.split("/")} & {"_delta_log"}
    _check_no_log(f"a folder in {label}", deeper, False)
    return [name for name, info in below if info.is_file]


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path, or a folder above it, matches a pattern part by part; `**` is any number of parts."""
    if not pattern:
        return True  # what lies in a folder that matches
    if pattern[0] == "**":
        return any(_matches(parts[at:], pattern[1:]) for at in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _hidden(relative: str) -> bool:
    return any(map(_is_hidden, PurePosixPath(relative).parts))


def _is_hidden(name: str) -> bool:
    """As tools name what is beside the data: `_SUCCESS`, `.part.crc`, `x.domain.json`; not `_year=2024`."""
    if name.endswith((".crc", ".domain.json", ".manifest.json")):
        return True
    return (name.startswith(".") and name not in (".", "..")) or (name.startswith("_") and "=" not in name)


def masked(relative: str) -> str:
    """A path for messages, without the values of its partitions."""
    *folders, name = PurePosixPath(relative).parts
    return "/".join([*(PARTITION.sub(r"\1=*", folder) for folder in folders), name])


def _partitions(relative: str) -> tuple[tuple[str, str | None], ...]:
    matches = (PARTITION.fullmatch(folder) for folder in PurePosixPath(relative).parts[:-1])
    return tuple((_text(match[1]) or "", _text(match[2])) for match in matches if match)


def _text(name: str) -> str | None:
    """What a folder's name says, which writers quote as in an address; None for null, and where it is no
    text: like a cell, it is one person's.
    """
    try:
        text = unquote_to_bytes(os.fsencode(name)).decode()
    except UnicodeDecodeError:
        return None
    return None if text == NO_VALUE else text
