"""Delta tables: one version's files, as its log names them, by the project's own reader of Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.lake import LakeFile, answered, lake_table
from factored_mwem.tables.inputs.places import Place, masked
from factored_mwem.tables.inputs.table import Table

READ_FEATURES = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"}
"""What a reader must know of, and either the log's library does for us, or we look whether it is in use."""
REFUSED = "; write it anew without, for example with CREATE TABLE ... AS SELECT"


def open_delta(source: Any, label: str = "the Delta table") -> Table:
    """A DeltaTable, or the path or address of one, as of the version that it has now. Raises InputError if it
    uses what would be read wrongly: nothing is guessed.
    """
    if isinstance(source, str):
        source = _loaded(source, label)
    version = source.version()
    label = f"{label} at version {version}"
    _check_features(source, label)
    schema = answered(label, lambda: pa.schema(source.schema().to_arrow())).remove_metadata()
    schema = pa.schema([field.remove_metadata() for field in schema])
    keys = list(source.metadata().partition_columns)
    files = answered(label, lambda: _files(source, label, keys, schema.names))
    return answered(label, lambda: lake_table(label, schema, files))


def _loaded(address: str, label: str) -> Any:
    try:
        import deltalake
    except ImportError:
        raise InputError("Delta tables need deltalake: pip install 'factored-mwem[lake]'") from None
    why = "its log is damaged, cannot be reached, or needs what its library does not know"
    return answered(label, lambda: deltalake.DeltaTable(address), why)


def _check_features(table: Any, label: str) -> None:
    """Raises InputError if rows are kept in a way that files alone do not tell."""
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
    if answered(label, lambda: any(b.num_rows for b in pa.RecordBatchReader.from_stream(vectors())), how):
        raise InputError(f"cannot read {label}: {how}")


def _files(table: Any, label: str, keys: Sequence[str], names: Sequence[str]) -> list[LakeFile]:
    """All that count in this version, each with the values of its partition."""
    listed = pa.table(table.get_add_actions())
    name = "partition" if "partition" in listed.schema.names else "partition_values"
    partition = listed.column(name).combine_chunks() if keys else None
    system, root = _root(table)
    files = []
    for at, entry in enumerate(listed.column("path").to_pylist()):
        path = unquote(entry)
        if "://" in path or path.startswith("/") or ".." in PurePosixPath(path).parts:
            raise InputError(f"{label} names files outside of its folder, as a shallow clone does{REFUSED}")
        values = {key: partition.field(key)[at] for key in keys} if partition is not None else {}
        place = Place(masked(path), f"{root}/{path}" if system is None else path, system)
        own = partial(_columns, [name for name in names if name not in keys], values)
        files.append(LakeFile(place, repr((values, names)).encode(), own))
    return files


def _columns(
    names: Sequence[str], values: dict[str, Any], there: pa.Schema
) -> tuple[dict[str, str], dict[str, Any]]:
    """Those of a file go by the table's own names."""
    return {name: name for name in names if name in there.names}, values


def _root(table: Any) -> tuple[Any, str]:
    """(file system, folder) of the table; this machine's disk is None, and read like any file."""
    if table.table_uri.startswith("file://"):
        return None, pafs.FileSystem.from_uri(table.table_uri)[1].rstrip("/")
    from deltalake.fs import DeltaStorageHandler

    options = getattr(table, "_storage_options", None)  # the keys that the object was opened with
    return pafs.PyFileSystem(DeltaStorageHandler(table.table_uri, options)), ""
