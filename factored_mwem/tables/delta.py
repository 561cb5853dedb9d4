"""Delta tables: one version's files, as its log names them, by the project's own reader of Parquet."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.tables.lake_rows import LakeRows, Part
from factored_mwem.tables.opened import Opened
from factored_mwem.tables.parquet_input import parquet_schema
from factored_mwem.tables.places import Place, masked
from factored_mwem.tables.snapshot import Snapshot, asked

READ_FEATURES = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"}
"""What a reader must know of, and either the log's library does for us, or we look whether it is in use."""
REFUSED = "; write it anew without, for example with CREATE TABLE ... AS SELECT"


def is_delta(source: Any) -> bool:
    """Whether it is a DeltaTable; nothing is imported for the answer."""
    library = sys.modules.get("deltalake")
    return library is not None and isinstance(source, library.DeltaTable)


def open_delta(source: Any, label: str = "the Delta table") -> Opened:
    """A DeltaTable, or the path or address of one, as of the version that it has now. InputError where it
    uses what would be read wrongly: nothing is guessed.
    """
    if not is_delta(source):
        source = _loaded(source, label)
    version = source.version()
    label = f"{label} at version {version}"
    _check_features(source, label)
    schema = asked(label, lambda: pa.schema(source.schema().to_arrow())).remove_metadata()
    schema = pa.schema([field.remove_metadata() for field in schema])
    keys = list(source.metadata().partition_columns)
    files = asked(label, lambda: _files(source, label, keys))
    said = {place.path: values for place, values in files}
    snapshot = Snapshot.of(label, [(p, repr((values, schema.names)).encode()) for p, values in files])
    parts = []
    for number, place in enumerate(snapshot.places):
        there = asked(place.label, partial(parquet_schema, snapshot.open(number))).names
        inside = {name: name for name in schema.names if name in there and name not in keys}
        parts.append(Part(number, inside, said[place.path]))
    rows = LakeRows(schema, snapshot, parts)
    asked(label, rows.check_types)
    return Opened(schema, False, rows.read, None, snapshot)


def _loaded(address: str, label: str) -> Any:
    try:
        import deltalake
    except ImportError:
        raise InputError("Delta tables need deltalake: pip install 'factored-mwem[lake]'") from None
    why = "its log is damaged, cannot be reached, or needs what its library does not know"
    return asked(label, lambda: deltalake.DeltaTable(address), why)


def _check_features(table: Any, label: str) -> None:
    """InputError where rows are kept in a way that files alone do not tell."""
    protocol, settings = table.protocol(), table.metadata().configuration
    needed = set(protocol.reader_features or ())
    if unknown := sorted(needed - READ_FEATURES):
        raise InputError(f"{label} needs what is not read here: {', '.join(unknown)}{REFUSED}")
    if protocol.min_reader_version > 3 or settings.get("delta.columnMapping.mode", "none") != "none":
        what = "column mapping" if protocol.min_reader_version <= 3 else "a newer reader"
        raise InputError(f"{label} needs what is not read here: {what}{REFUSED}")
    how = (
        "it has deletion vectors, which are not read; REORG TABLE ... APPLY (PURGE) writes its files without"
    )
    vectors = getattr(table, "deletion_vectors", None)
    if vectors is None and "deletionVectors" in needed:
        raise InputError(f"{label} may have deletion vectors; update deltalake, which tells whether it has")
    if vectors is None:
        return
    if asked(label, lambda: any(b.num_rows for b in pa.RecordBatchReader.from_stream(vectors())), how):
        raise InputError(f"cannot read {label}: {how}")


def _files(table: Any, label: str, keys: Sequence[str]) -> list[tuple[Place, dict[str, Any]]]:
    """(file, the values of its partition as scalars) of all that count in this version."""
    listed = pa.table(table.get_add_actions())
    name = "partition" if "partition" in listed.schema.names else "partition_values"
    said = listed.column(name).combine_chunks() if keys else None
    system, root = _root(table)
    found = []
    for at, entry in enumerate(listed.column("path").to_pylist()):
        path = unquote(entry)
        if "://" in path or path.startswith("/") or ".." in PurePosixPath(path).parts:
            raise InputError(f"{label} names files outside of its folder, as a shallow clone does{REFUSED}")
        values = {key: said.field(key)[at] for key in keys} if said is not None else {}
        place = Place(masked(path), f"{root}/{path}" if system is None else path, system)
        found.append((place, values))
    return found


def _root(table: Any) -> tuple[Any, str]:
    """(file system, folder) of the table; this machine's disk is None, and read like any file."""
    import pyarrow.fs as pafs

    if table.table_uri.startswith("file://"):
        return None, pafs.FileSystem.from_uri(table.table_uri)[1].rstrip("/")
    from deltalake.fs import DeltaStorageHandler

    options = getattr(table, "_storage_options", None)  # the keys that the object was opened with
    return pafs.PyFileSystem(DeltaStorageHandler(table.table_uri, options)), ""
