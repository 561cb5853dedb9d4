"""Package drafts: `fmwem init` for files that are several tables: a draft of their descriptor."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from factored_mwem.cli.console import closing, piece
from factored_mwem.cli.inputs import TableName
from factored_mwem.cli.settings import ReleaseSettings
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists

if TYPE_CHECKING:
    from factored_mwem.request.package import LinkedTable

TO_CHECK = (
    "check: is each primary key different in every row, and does each foreign key name what it says?",
    'check: a table that is nobody\'s secret, such as products or districts, is declared by "public": true',
)


def is_package(source: TableName, output: Path | None, settings: ReleaseSettings, *, draft: bool) -> bool:
    """Whether files are several tables: the output is a descriptor, or their columns differ and nothing is
    said of the one table that they would be. Raises InputError if something is, and the output is one.
    """
    from factored_mwem.request.data_package import is_descriptor
    from factored_mwem.tables.backends.opening import open_source

    said = draft or settings != ReleaseSettings.of({})
    if output is not None:
        if said and is_descriptor(output):
            raise InputError("a package is described by its files alone; leave out all options but -o")
        return is_descriptor(output)
    if isinstance(source, str | Path) or said:
        return False
    files = [each for each in source if isinstance(each, Path) and each.is_file()]
    return len(files) == len(source) and len({tuple(open_source(each).schema.names) for each in files}) > 1


def draft_package(texts: Sequence[str], output: Path, exists: IfExists, *, as_json: bool) -> None:
    """Write the descriptor of these files, by the names and types of their columns, and say what was guessed.
    Raises InputError for what is no file below the descriptor's folder, and for tables of one name.
    """
    from factored_mwem.cli.jobs import check_paths
    from factored_mwem.request.package import Package
    from factored_mwem.request.package_draft import drafted, guessed
    from factored_mwem.tables.backends.opening import open_source
    from factored_mwem.tables.inputs.formats import stem
    from factored_mwem.tables.outputs.targets import target_of, write_text

    for text in texts:
        if not os.path.isfile(text):
            raise InputError(
                f"{text} is no file on this machine; a package lists files in its folder or below"
            )
    target = target_of(str(output))
    check_paths([target], texts, [])
    target.check(exists)
    names = [stem(text) for text in texts]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InputError(f"two files would be the table {twice!r}; rename one")
    opened = {name: open_source(text) for name, text in zip(names, texts, strict=True)}
    schemas = {name: each.schema for name, each in opened.items()}
    sources = {n: os.path.relpath(t, output.parent) for n, t in zip(names, texts, strict=True)}
    tables = guessed({name: schema.names for name, schema in schemas.items()}, sources)
    data = drafted(tables, schemas, {name for name, each in opened.items() if each.text})
    try:
        Package.of(tables)
        open_question = None
    except InputError as error:
        open_question = str(error)
    write_text(target, json.dumps(data, indent=2, ensure_ascii=False) + "\n", exists)
    closing(
        {"descriptor": str(target), "tables": len(tables), "declare": open_question},
        _lines(output, tables, open_question),
        as_json=as_json,
    )


def _lines(output: Path, tables: Sequence[LinkedTable], open_question: str | None) -> list[str]:
    """What was guessed, and what a person must check."""
    lines = [f"{piece(output)}: {len(tables):,} tables; keys are guessed from names, no value was read"]
    for table in tables:
        key = "no primary key" if table.key is None else f"primary key {table.key}"
        links = [f"{each.column} names a row of {each.of}" for each in table.references]
        lines.append(f"  {piece(table.name)}: {piece(', '.join([key, *links]))}")
    lines += TO_CHECK
    lines += [] if open_question is None else [f"to declare: {open_question}"]
    return [*lines, f"next: review, then fmwem release {piece(output)} --marginals 2"]
