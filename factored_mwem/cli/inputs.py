"""Inputs: what the command line's TABLE names, and what lies beside it.

What reads tables is imported inside: `--help` needs none of it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from factored_mwem.errors import InputError

Given = str | Path | Sequence[str | Path]
"""A path, a URI (which is no path: `//` would become `/`), or several."""


def source_of(texts: Sequence[str]) -> Given:
    """The arguments as the library takes them."""
    given: list[str | Path] = [_one(text) for text in texts]
    return given[0] if len(given) == 1 else given


def _one(text: str) -> str | Path:
    from factored_mwem.backends.spark import PREFIX
    from factored_mwem.tables.uris import is_uri, place_of

    if not text:  # of a variable that is not set: as a path it would be this folder
        raise InputError("the name of the table is empty; name a file, a folder or a URI")
    if not is_uri(text):
        return text if text.startswith(PREFIX) else Path(text)
    return Path(place_of(text)[1]) if text.lower().startswith("file://") else text


def local_paths(table: Given) -> list[Path]:
    """The files and folders on this machine; of a glob the folder that it looks into."""
    from factored_mwem.tables.places import WILD, fixed_part

    if isinstance(table, Path):
        text = str(table)
        if WILD.search(text) and not table.exists():
            return [Path(fixed_part(text) or ".")]
        return [table]
    return [] if isinstance(table, str) else [path for part in table for path in local_paths(part)]


def patterns(table: Given) -> list[str]:
    """The globs on this machine, from the root: what is written to a path that fits one is read next time."""
    from factored_mwem.tables.places import WILD

    if isinstance(table, Path):
        wild = WILD.search(str(table)) and not table.exists()
        return [os.path.abspath(table)] if wild else []
    return [] if isinstance(table, str) else [each for part in table for each in patterns(part)]


def read_paths(table: Given) -> list[Path]:
    """The files and folders on this machine that are read; of a glob those that fit it."""
    if isinstance(table, Path):
        return [Path(path) for each in patterns(table) for path in glob.glob(each, recursive=True)] or (
            [] if patterns(table) else [table]
        )
    return [] if isinstance(table, str) else [path for part in table for path in read_paths(part)]


def addresses(table: Given) -> list[str]:
    """The URIs among what was given; of a glob the folder that it looks into."""
    from factored_mwem.tables.database_uri import is_database
    from factored_mwem.tables.places import WILD, fixed_part, without_query
    from factored_mwem.tables.uris import is_uri

    if isinstance(table, str):
        if not is_uri(table) or is_database(table):
            return []
        address, query = without_query(table)
        return [(fixed_part(address) if WILD.search(address) else address.rstrip("/")) + query]
    return [] if isinstance(table, Path) else [uri for part in table for uri in addresses(part)]


def title(table: Given) -> str:
    """The table's name without suffixes: of a folder or a glob the folder's, of several the first's."""
    from factored_mwem.backends.spark import PREFIX
    from factored_mwem.tables.database_uri import is_database
    from factored_mwem.tables.piped import STANDARD_INPUT
    from factored_mwem.tables.places import WILD, fixed_part, without_query
    from factored_mwem.tables.suffixes import stem

    if isinstance(table, str):
        if table.startswith(PREFIX):  # the last of catalog, database and table
            return table.removeprefix(PREFIX).rpartition(".")[2]
        if is_database(table):
            return table.rpartition("#")[2].rpartition(".")[2]
        address = without_query(table)[0]
        return stem(fixed_part(address) if WILD.search(address) else address.rstrip("/"))
    if str(table) == STANDARD_INPUT:
        return "stdin"
    if isinstance(table, Path):
        return stem(local_paths(table)[0].resolve())
    return title(table[0])


def domain_path(table: Given, given: Path | None) -> Path | None:
    """The domain file: the one given, else NAME.domain.json beside the table, else none."""
    if given:
        return given
    beside = domain_beside(table)
    return beside if beside is not None and beside.exists() else None


def domain_beside(table: Given) -> Path | None:
    """NAME.domain.json beside a file or folder, a glob's too, of this machine. Beside a URI, and for several
    files, none is looked for.
    """
    from factored_mwem.tables.piped import STANDARD_INPUT
    from factored_mwem.tables.suffixes import stem

    if not isinstance(table, Path) or str(table) == STANDARD_INPUT:
        return None
    path = local_paths(table)[0]
    return path.with_name(f"{stem(path)}.domain.json") if path.name else None
