"""The model file of a package: that of each table, one after the other, and the record, in one file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.errors import InputError, must
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.linked_rows import LinkedRelease
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.saving.model_fields import VERSION, Read, put_together, taken_apart
from factored_mwem.pipeline.saving.model_file import packed, parts_of
from factored_mwem.request.package import LinkedTable, Package, Reference
from factored_mwem.tables.outputs.targets import Target

MOST_TABLES = 1000


def save_package(
    release: LinkedRelease, target: Target, exists: IfExists, before: Callable[[], None] = lambda: None
) -> None:
    """Write the model file, whole or not at all; public tables are not in it."""
    arrays: dict[str, np.ndarray] = {}
    tables: list[dict[str, Any]] = []
    for number, table in enumerate(release.package.private):
        header, own = taken_apart(release.releases[table.name])
        schema = np.frombuffer(release.schemas[table.name].serialize(), dtype=np.uint8)
        arrays |= {f"{number}/{name}": array for name, array in (own | {"columns": schema}).items()}
        parent = None if table.parent is None else [table.parent.column, table.parent.of]
        tables.append(
            {"name": table.name, "key": table.key, "parent": parent, "model": header}
            | ({} if table.order_by is None else {"order_by": table.order_by})
        )
    whole = {"fmwem_package": VERSION, "seed": release.seed, "tables": tables}
    content = packed(whole | {"statement": release.statement.model_dump(mode="json")}, arrays)
    with target.replacing(exists, before) as temporary:
        temporary.write_bytes(content)


def load_package(path: Path) -> LinkedRelease:
    """What such a file holds. Raises InputError if it is none or damaged, ResourceError if too large."""
    with parts_of(path, "model file of a package", "`fmwem release` writes them") as (header, read):
        if header.get("fmwem_package") != VERSION:
            raise InputError(f"{path} is no model of a package of tables, of version {VERSION}")
        must(len(header["tables"]) <= MOST_TABLES, "tables without end")
        tables, releases, schemas = [], {}, {}
        for number, each in enumerate(header["tables"]):
            own = partial(_of_table, read, number)
            parent = None if each["parent"] is None else Reference(*each["parent"])
            order = each.get("order_by")
            tables.append(LinkedTable(each["name"], None, each["key"], parent, order_by=order))
            releases[each["name"]] = put_together(Release, each["model"], own)
            schemas[each["name"]] = pa.ipc.read_schema(pa.py_buffer(own("columns", np.uint8)))
        statement, seed = Statement.model_validate(header["statement"]), int(header["seed"])
        return LinkedRelease(Package.of(tables), releases, schemas, {}, statement, seed)


def _of_table(read: Read, number: int, name: str, kind: type[np.number[Any]]) -> np.ndarray:
    """An array of the table of this number."""
    return read(f"{number}/{name}", kind)
