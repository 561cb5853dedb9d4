"""Iceberg tables: one snapshot's files, as Apache's library finds them, by our own reader of Parquet.

The library's own scan holds a file whole, and died of damaged ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.formats import PARQUET
from factored_mwem.tables.inputs.lake import LakeFile, answered, lake_table
from factored_mwem.tables.inputs.places import Place
from factored_mwem.tables.inputs.table import Table

FIELD_ID = b"PARQUET:field_id"
"""Where pyarrow keeps the number by which Iceberg knows a column, whatever its name was back then."""
UNPLANNED = "it is damaged, cannot be reached, or has equality deletes, which its library does not read"


def open_iceberg(source: Any, label: str = "the Iceberg table") -> Table:
    """A table as it is now, a scan (of an older snapshot, of some columns), or the path or address of a
    metadata file. Raises InputError if it has what would be read wrongly: nothing is guessed.
    """
    if isinstance(source, str):
        source = _loaded(source, label)
    scan = answered(label, source.scan) if hasattr(source, "scan") else source
    return answered(label, lambda: _opened(scan, label), UNPLANNED)


def _loaded(address: str, label: str) -> Any:
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        raise InputError("Iceberg tables need pyiceberg: pip install 'factored-mwem[lake]'") from None
    return answered(label, lambda: StaticTable.from_metadata(address), UNPLANNED)


def _opened(scan: Any, label: str) -> Table:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    if scan.limit is not None or scan.row_filter != AlwaysTrue():
        raise InputError(f"{label}: a scan with a limit or a filter is not read; give the whole snapshot")
    columns = scan.projection()
    schema = schema_to_pyarrow(columns, include_field_ids=False)
    schema = pa.schema([field.remove_metadata() for field in schema])
    now = scan.snapshot()
    label = label if now is None else f"{label} at snapshot {now.snapshot_id}"
    fact, files = repr(columns).encode(), []
    for task in scan.plan_files():
        place = _place(scan.io, task.file, label)
        deletes = sorted(task.delete_files, key=lambda file: file.file_path)
        own = partial(_columns, scan, task.file, label, place.label)
        gone = [_place(scan.io, file, label) for file in deletes]
        files.append(LakeFile(place, fact, own, gone, task.file.file_path))
    return answered(label, lambda: lake_table(label, schema, files))


def _place(files: Any, file: Any, label: str) -> Place:
    """Where a file is, by the table's own keys. Folders may name a value: messages have its name alone."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    arrow = files if isinstance(files, PyArrowFileIO) else PyArrowFileIO(files.properties)
    scheme, host, path = PyArrowFileIO.parse_location(file.file_path)
    place = Place(
        PurePosixPath(path).name, path, None if scheme == "file" else arrow.fs_by_scheme(scheme, host)
    )
    if place.suffix not in PARQUET.suffixes:
        what = "deletion vectors" if place.label.endswith(".puffin") else "files other than Parquet"
        raise InputError(f"{label} has {what}, which are not read; rewrite its files (rewrite_data_files)")
    return place


def _columns(
    scan: Any, file: Any, label: str, name: str, there: pa.Schema
) -> tuple[dict[str, str], dict[str, Any]]:
    """By their numbers, of a table whose columns may have been renamed, added and left out."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    known = _numbered(there, scan.table_metadata.name_mapping(), label)
    by_partition = _partition(scan.table_metadata.specs()[file.spec_id], file)
    inside, constants = {}, {}
    for column in scan.projection().fields:
        default = getattr(column, "initial_default", None)
        if column.field_id in known:
            inside[column.name] = known[column.field_id]
        elif column.field_id in by_partition or default is not None:
            kind = schema_to_pyarrow(column.field_type, include_field_ids=False)
            constants[column.name] = pa.scalar(by_partition.get(column.field_id, default), kind)
        elif column.required:
            raise InputError(f"{label}: {name} lacks column {column.name!r}, which may not be null")
    return inside, constants


def _numbered(there: pa.Schema, mapping: Any, label: str) -> dict[int, str]:
    """Number to name of a file's columns: as it says, or, if Iceberg did not write it, the table's map."""
    marked = [field for field in there if FIELD_ID in (field.metadata or {})]
    if marked:
        return {int(field.metadata[FIELD_ID]): field.name for field in marked}
    if mapping is None:
        raise InputError(f"{label} has files whose columns have no numbers; write them with Iceberg")
    names = {name: field.field_id for field in mapping.root for name in field.names}
    return {names[name]: name for name in there.names if names.get(name) is not None}


def _partition(spec: Any, file: Any) -> Mapping[int, Any]:
    """Number of a column to its value, where the file's rows were chosen by it."""
    from pyiceberg.transforms import IdentityTransform

    return {
        field.source_id: file.partition[at]
        for at, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform)
    }
