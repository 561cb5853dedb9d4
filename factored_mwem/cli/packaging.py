<<<<<<< HEAD
"""`fmwem release` of a package: several private tables in, as many synthetic ones out."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factored_mwem.cli.console import lined, piece, replaced_text
from factored_mwem.cli.inputs import domain_beside, read_paths
from factored_mwem.cli.jobs import SampleChoices, check_paths, facts_of
from factored_mwem.cli.settings import OWN, ReleaseSettings
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.linked import LinkedRequest, check_linked
from factored_mwem.pipeline.linked_publish import PackageFiles, draw_package, publish_package
from factored_mwem.pipeline.publication import Publication
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.saving.package_file import load_package
from factored_mwem.request.data_package import read_package
from factored_mwem.tables.outputs.targets import folder_of

if TYPE_CHECKING:
    from factored_mwem.mechanisms.rounds import Report

TAKEN = frozenset(("policy", "marginals", "rows", "output", "no_model", "overwrite", "sample_seed", "ledger",
                   "dataset", "run_id"))  # fmt: skip
"""Settings that a package takes beside those of its policy; all others are of a single table."""


@dataclass(frozen=True, slots=True)
class PackageDone:
    """A finished release: `facts` is the line for scripts; `reused`: it had been finished before."""

    record: Statement
    files: PackageFiles
    facts: Mapping[str, Any]
    reused: bool


def run_package(table: Path, settings: ReleaseSettings, report: Report) -> PackageDone:
    """Release the tables of a package and write its files. What can be refused is refused before a row is
    read.
    """
    for name in sorted(OWN - TAKEN):
        if getattr(settings, name) != type(settings).model_fields[name].default:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} is for a single table; leave it out with a package of tables")
    if settings.marginals is None:
        raise InputError("nothing to keep: give --marginals K")
    package = read_package(table)
    place = folder_of(settings.output or f"{table.name.removesuffix('.json')}.synthetic/")
    if place is None:
        raise InputError(f"-o {settings.output}: a package is a folder; end its name in a slash")
    names = [each.name for each in (*package.private, *package.public)]
    files = PackageFiles.of(place, names, ".parquet", model=not settings.no_model)
    read = [path for each in (*package.private, *package.public) for path in read_paths(each.source)]
    check_paths(files.all, [table, *read])
    beside = {each.name: _domain_beside(each.source) for each in package.private}
    domains = {name: path for name, path in beside.items() if path is not None}
    request = LinkedRequest.of(
        package,
        settings.marginals,
        settings.policy,
        domains=domains,
        rows=settings.rows,
        sample_seed=settings.sample_seed,
    )
    check_linked(request)
    waiting = Publication(files, IfExists(settings.overwrite), settings.booking)
    with request.spending.booked(settings.booking) as run:
        earlier = waiting.reused(run)
        record = earlier or publish_package(request, run, waiting, report)
        facts = _facts(record, files) | facts_of(record, settings, reused=earlier is not None)
    return PackageDone(record, files, facts, earlier is not None)


def _domain_beside(source: Any) -> Path | None:
    """NAME.domain.json beside a table's file, if it is there."""
    path = domain_beside(source)
    return path if path is not None and path.exists() else None


def _facts(record: Statement, files: PackageFiles) -> dict[str, Any]:
    """The line for scripts."""
    assert record.output is not None  # as of every record that was written
    rows = {part.file: part.rows for part in record.output.parts}
    return {
        "output": str(files.folder),
        "tables": {name: rows[target.name] for name, target in files.tables.items()},
        "manifest": str(files.manifest),
        "model": str(files.model) if files.model is not None else None,
    }


def package_summary(done: PackageDone) -> list[str]:
    """Lines for a steward."""
    record, rows = done.record, done.facts["tables"]
    g = record.guarantee
    sizes = [f"{number:,} synthetic rows of {piece(name)}" for name, number in rows.items()]
    promise = f"{g.statement} (spent epsilon {g.spent_epsilon:.6g})"
    again = ["this run was finished before: its files are as it wrote them, nothing was spent"]
    return [
        *(again if done.reused else []),
        *lined("released", sizes),
        *lined("promise", [promise]),
        *lined("look at", [*replaced_text(record), *_looks(record)]),
        *lined("file", map(piece, done.files.all)),
    ]


def _looks(record: Statement) -> Iterator[str]:
    """What a reader should know of the tables: rows that were left out, and warnings."""
    for name, facts in record.result["tables"].items():
        if facts["beyond"]:
            yield (
                f"{piece(name)}: at most {facts['most_rows']} rows of each root are used; about "
                f"{facts['beyond']:.1%} have more"
            )
        for warning in facts["warnings"]:
            yield f"{piece(name)}: {warning}"


def draw_tables(
    model: Path, choices: SampleChoices, output: str, settings: ReleaseSettings
) -> dict[str, Any]:
    """Write fresh tables of a package's model into a folder; the line for scripts."""
    if choices != SampleChoices(rows=choices.rows):
        raise InputError("a package of tables is drawn as a whole: -n says how many rows the root has")
    if choices.rows is None:
        raise InputError("say how many rows of the root with -n")
    release, folder = load_package(model), folder_of(output)
    if folder is None:
        raise InputError(f"-o {output}: a package is a folder; end its name in a slash")
    names = [each.name for each in release.package.private]
    files = PackageFiles.of(folder, names, ".parquet", model=False)
    seed = secrets.randbits(64) if settings.sample_seed is None else settings.sample_seed
    drawn = draw_package(release, choices.rows, seed, files, IfExists(settings.overwrite))
    rows = {part.file: part.rows for part in drawn.parts}
    tables = {name: rows[target.name] for name, target in files.tables.items()}
    return {"output": str(folder), "tables": tables, "sha256": drawn.sha256, "spent_epsilon": 0}
=======
"""Packaging: `fmwem init` for files that are several tables: a draft of the descriptor of their package."""

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
>>>>>>> 3d5525056d6b62001c935863120cc54a47054517
