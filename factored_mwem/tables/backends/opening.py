"""Opening: the door for every kind of table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from factored_mwem.domain.dialect import PLAIN
from factored_mwem.domain.domain import Domain
from factored_mwem.tables.backends.local import Local
from factored_mwem.tables.backends.source import OpenedSource
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.inputs.text_form import Reading
from factored_mwem.tables.inputs.uris import SPARK


def open_source(
    source: Any,
    reading: Reading = Reading(),
    domain: Domain | None = None,
    privacy_id: str | None = None,
    folder: Path | None = None,
) -> OpenedSource:
    """A path, a URI, a data frame or anything else that holds a table. InputError where it is none. Reads
    no row, as far as its kind allows.

    `reading`: how a text file is read, its columns by their types in `domain`, but for `privacy_id`;
    `folder`: where a stream leaves what it must.
    """
    if isinstance(source, OpenedSource):
        return source
    if _is_on_spark(source):
        from factored_mwem.tables.backends.spark import open_frame

        return open_frame(source, reading.records)
    table = open_table(source, reading.records, reading.dialect, reading.names, folder)
    semicolons = table.form is not None and table.form.delimiter == ";"  # say how numbers may be written
    if semicolons or reading.dialect != PLAIN:
        from factored_mwem.tables.codes.spelling import respelt

        table = respelt(table, reading.dialect, domain, privacy_id)
    return Local(table)


def _is_on_spark(source: Any) -> bool:
    """Whether it is PySpark's data frame, or names a table of its catalog; PySpark is not loaded to tell."""
    if isinstance(source, str | Path):
        return str(source).startswith(SPARK)
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and isinstance(source, sql.DataFrame)
