"""Inputs: what the command line's TABLE names, and what lies beside it.

Modules that read tables are imported inside functions, because `--help` does not need them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from factored_mwem.errors import InputError

if TYPE_CHECKING:
    from factored_mwem.cli.settings import ReleaseSettings
    from factored_mwem.request.package import Package

TableName = str | Path | Sequence[str | Path]
"""A path, a URI (which is no path: `//` would become `/`), or several."""


def source_of(texts: Sequence[str]) -> TableName:
    """The arguments as the library takes them."""
    sources: list[str | Path] = [_one(text) for text in texts]
    return sources[0] if len(sources) == 1 else sources


def _one(text: str) -> str | Path:
    from factored_mwem.tables.inputs.uris import SPARK, is_uri, place_of

    if not text:  # from an unset variable; as a path it would be the current folder
        raise InputError("the name of the table is empty; name a file, a folder or a URI")
    if not is_uri(text):
        return text if text.startswith(SPARK) else Path(text)
    return Path(place_of(text)[1]) if text.lower().startswith("file://") else text


def _each(table: TableName) -> list[str | Path]:
    """The paths and URIs, one by one."""
    return [table] if isinstance(table, str | Path) else [each for part in table for each in _each(part)]


def _wild(table: str | Path) -> bool:
    """Whether it is a glob on this machine, and not a file that is called so."""
    from factored_mwem.tables.inputs.places import WILD

    return isinstance(table, Path) and bool(WILD.search(str(table))) and not table.exists()


def local_paths(table: TableName) -> list[Path]:
    """The files and folders on this machine; of a glob the folder that it looks into."""
    from factored_mwem.tables.inputs.places import fixed_part

    paths = [path for path in _each(table) if isinstance(path, Path)]
    return [Path(fixed_part(str(path)) or ".") if _wild(path) else path for path in paths]


def patterns(table: TableName) -> list[str]:
    """The globs on this machine, as absolute paths: a file written to a match would be read next time."""
    return [os.path.abspath(path) for path in _each(table) if _wild(path)]


def read_paths(table: TableName) -> list[Path]:
    """The files and folders on this machine that are read; of a glob those that fit it."""
    plain = [path for path in _each(table) if isinstance(path, Path) and not _wild(path)]
    return [*plain, *(Path(path) for each in patterns(table) for path in glob.glob(each, recursive=True))]


def addresses(table: TableName) -> list[str]:
    """The URIs, but for those of databases; of a glob the folder that it looks into."""
    from factored_mwem.tables.inputs.places import WILD, fixed_part, without_query
    from factored_mwem.tables.inputs.uris import is_database, is_uri

    uris = [uri for uri in _each(table) if isinstance(uri, str) and is_uri(uri) and not is_database(uri)]
    parts = [without_query(uri) for uri in uris]
    return [(fixed_part(at) if WILD.search(at) else at.rstrip("/")) + query for at, query in parts]


def title(table: TableName) -> str:
    """The table's name without suffixes: of a folder or a glob the folder's, of several the first's."""
    from factored_mwem.tables.inputs.formats import stem
    from factored_mwem.tables.inputs.places import WILD, fixed_part, without_query
    from factored_mwem.tables.inputs.uris import SPARK, STANDARD_INPUT, is_database

    if isinstance(table, str):
        if table.startswith(SPARK):  # the last of catalog, database and table
            return table.removeprefix(SPARK).rpartition(".")[2]
        if is_database(table):
            return table.rpartition("#")[2].rpartition(".")[2]
        address = without_query(table)[0]
        return stem(fixed_part(address) if WILD.search(address) else address.rstrip("/"))
    if str(table) == STANDARD_INPUT:
        return "stdin"
    if isinstance(table, Path):
        return stem(local_paths(table)[0].resolve())
    return title(table[0])


def domain_path(table: TableName, named: Path | None) -> Path | None:
    """The domain file: the one `named`, else NAME.domain.json beside the table, else none."""
    if named:
        return named
    beside = domain_beside(table)
    return beside if beside is not None and beside.exists() else None


def domain_beside(table: TableName) -> Path | None:
    """NAME.domain.json beside a file or folder, a glob's too, of this machine. Beside a URI, and for several
    files, none is looked for.
    """
    from factored_mwem.tables.inputs.formats import stem
    from factored_mwem.tables.inputs.uris import STANDARD_INPUT

    if not isinstance(table, Path) or str(table) == STANDARD_INPUT:
        return None
    path = local_paths(table)[0]
    return path.with_name(f"{stem(path)}.domain.json") if path.name else None


@dataclass(frozen=True, slots=True)
class LinkFlags:
    """What the command line says of how tables belong together."""

    child: str | None = None
    key: str | None = None
    foreign_key: str | None = None
    public: str | None = None


def check_kept(source: TableName, settings: ReleaseSettings, command: str) -> None:
    """Raises InputError if the rows cannot be read again and again, as a `command` does."""
    from factored_mwem.tables.inputs.uris import STANDARD_INPUT

    if str(source) == STANDARD_INPUT or settings.push_down:
        raise InputError(
            f"{command} reads the rows again and again; write them to a file first, and name that"
        )


def package_at(source: TableName, flags: LinkFlags) -> Package | None:
    """The package that a command names: by two tables, by a descriptor, or by a database without a table of
    it; None where it names a single table. Raises InputError.
    """
    from factored_mwem.tables.inputs.uris import is_uri

    if is_uri(source) and flags.child is None:
        from factored_mwem.request.catalogue import is_whole_database, read_catalogue

        if is_whole_database(source):
            names = (name.strip() for name in (flags.public or "").split(","))
            return read_catalogue(str(source), [name for name in names if name])
    if flags.public is not None:
        how = 'a descriptor says "public": true beside a resource'
        raise InputError(f"--public-tables is for a whole database, such as duckdb:///shop.db; {how}")
    if flags.child is not None:
        return _two(source, flags.child, flags)
    if flags.key is not None or flags.foreign_key is not None:
        what = "--key and --foreign-key say how a second table hangs on the first"
        raise InputError(f"{what}; name that by --with")
    if not isinstance(source, Path) or source.suffix.lower() != ".json":
        return None
    from factored_mwem.request.data_package import is_descriptor, read_package

    return read_package(source) if is_descriptor(source) else None


def _two(source: TableName, child: str, flags: LinkFlags) -> Package:
    from factored_mwem.request.package import two_tables

    if flags.key is None:
        raise InputError("--with needs --key, the first table's column that names its rows")
    named = [(title(each), each) for each in (source, source_of([child]))]
    return two_tables(named[0], named[1], flags.key, flags.foreign_key)
