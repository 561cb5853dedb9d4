"""Private report: NOT PRIVATE. A page with a release's errors against the real table, its file named so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from factored_mwem.documents.material import ENDING, manifest_at, rows_beside
from factored_mwem.documents.private_page import private_page
from factored_mwem.documents.report import PRIVATE_MARK
from factored_mwem.domain.dialect import PLAIN, Dialect
from factored_mwem.errors import InputError
from factored_mwem.files import IfExists
from factored_mwem.tables.release_files import report_of
from factored_mwem.tables.source import open_table
from factored_mwem.tables.suffixes import TEXT_SUFFIXES
from factored_mwem.tables.targets import LocalFile, target_of, write_text
from factored_mwem.tables.text_form import Records


def private_report(
    manifest: str | Path,
    table: Any,
    path: str | Path | None = None,
    *,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    records: Records = "checked",
    dialect: Dialect = PLAIN,
) -> str:
    """NOT PRIVATE. Write a page with the errors of a release's rows against the real `table`.

    Returns where it went.

    `manifest`: the release's, its rows beside it. `path`: by default NAME.NOT-PRIVATE.html in the current
    folder, which may not be where public files lie; any other name must say NOT-PRIVATE, too. `columns`:
    those to compare. `records`, `dialect`: how a text table is written, as in `evaluate`.

    >>> import pyarrow as pa
    >>> from factored_mwem import private_report, release
    >>> people = pa.table({"age": [0, 1] * 50})
    >>> _ = release(people, 1, domain={"age": 2}, rows=100).write("again.parquet")
    >>> private_report("again.manifest.json", people)
    'again.NOT-PRIVATE.html'
    """
    stated = Path(manifest)
    target = target_of(
        path if path is not None else f"{stated.name.removesuffix(ENDING)}.{PRIVATE_MARK}.html"
    )
    if PRIVATE_MARK not in target.name:
        raise InputError(
            f"{target}: a page made with the private table must say {PRIVATE_MARK} in its name; name it so"
        )
    if target.key == report_of(LocalFile(stated)).key or target.key == LocalFile(stated).key:
        raise InputError(f"{target} is where a public file of the release goes; choose another path")
    exists = IfExists(overwrite)
    target.check(exists)
    found, domain = manifest_at(stated)
    rows = rows_beside(stated, found)
    if rows is None:
        raise InputError(f"the rows that {stated} names are not beside it; put them there")
    synthetic = open_table(rows, "multiline" if rows.suffix in TEXT_SUFFIXES else "checked")
    domain = domain if columns is None else domain.project(columns)
    text = private_page(rows.name, domain, table, synthetic, records=records, dialect=dialect)
    write_text(target, text, exists)
    return str(target)
