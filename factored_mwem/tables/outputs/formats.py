"""Formats: batches of rows to Parquet, CSV or Feather. The only module to touch for an output format."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists, sha256
from factored_mwem.tables.outputs.targets import Destination, Folder, Target, folder_of, target_of

METADATA_KEY = b"fmwem.manifest"
"""Key of the manifest in a Parquet or Arrow file's own metadata."""
SAMPLE = 2**12
"""Values that tell whether a column's repeat, and which it has, if it has few."""


def output_of(path: str | Path) -> Destination:
    """Where rows go: a folder of parts, where `path` ends in a slash or is a folder, else a file. Raises
    InputError if its suffix names no known format, or its scheme no place that can be reached from here.
    """
    place = folder_of(path)
    if place is not None:
        import pyarrow.parquet  # noqa: F401 - now, while nothing is spent: it may not fit into memory

        return Folder(place)
    target = target_of(path)
    check_format(target)
    return target


def check_format(target: Target) -> None:
    """Raises InputError if the data file's suffix names no known format."""
    if target.suffix not in FORMATS:
        how = f"use one of {', '.join(FORMATS)}, or end it in / for a folder"
        raise InputError(f"{target}: unknown output format; {how}")
    if target.suffix == ".parquet":
        import pyarrow.parquet  # noqa: F401 - as above


def write_batches(
    target: Target | Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    metadata: str | None = None,
    exists: IfExists = IfExists.REFUSE,
    before: Callable[[], None] = lambda: None,
) -> str:
    """Write the batches in the format of the target's suffix; returns the file's sha256. See `replacing`."""
    target = target_of(target)
    if metadata is not None:
        schema = schema.with_metadata({**(schema.metadata or {}), METADATA_KEY: metadata.encode()})
    with target.replacing(exists, before) as temporary:
        _WRITERS[target.suffix](temporary, schema, batches)
        digest = sha256(temporary)
    return digest


def _write_parquet(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow.parquet as pq

    rest = iter(batches)
    first = next(rest, None)
    written = schema if first is None else first.schema
    listed = [name for name in schema.names if first is None or _repeats(first.column(name))]
    with pq.ParquetWriter(
        path, written, compression="zstd", use_dictionary=listed, store_schema=False
    ) as writer:
        for batch in itertools.chain([] if first is None else [first], rest):
            columns = (
                _as_seen(column) if pa.types.is_dictionary(column.type) and column.type != kind else column
                for column, kind in zip(batch.columns, schema.types, strict=True)
            )
            writer.write_batch(pa.RecordBatch.from_arrays(list(columns), schema=written))
        kept = base64.b64encode(schema.serialize())  # as the writer stores a schema by itself
        writer.add_key_value_metadata({**(schema.metadata or {}), b"ARROW:schema": kept})


def _as_seen(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """The column, its dictionary in the order in which values are first seen, as the writer makes it of
    texts: the bytes are the same, in less time.
    """
    rows, size = len(column), len(column.dictionary)
    codes = column.indices.fill_null(size).to_numpy()
    for many in (SAMPLE, rows):  # mostly the first thousands hold all values
        first = np.full(size + 1, rows)
        first[codes[:many][::-1]] = np.arange(min(many, rows) - 1, -1, -1)  # the first row writes last
        if (first[:size] < rows).all():
            break
    order = np.argsort(first[:size])[: np.count_nonzero(first[:size] < rows)]
    place = np.zeros(size + 1, dtype=np.int32)
    place[order] = np.arange(len(order))
    indices = pa.array(place[codes], mask=codes == size if column.null_count else None)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(order)))


def _repeats(column: pa.Array) -> bool:
    """Whether values come more than once, so that a dictionary pays: by a column's first thousands. Of five
    columns of random doubles among twenty, dictionaries took two thirds of all the writer's time, and a fifth
    more bytes.
    """
    kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_timestamp)
    if not any(is_one(column.type) for is_one in kinds):
        return True
    some = column[:SAMPLE]
    return len(some.unique()) <= len(some) / 2


def _write_arrow(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
        # The format has room for one dictionary a column.
        if any(pa.types.is_dictionary(kind) for kind in schema.types):
            writer.write_table(pa.Table.from_batches(batches, schema=schema))
            return
        for batch in batches:
            writer.write_batch(batch)


def _write_csv(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import csv

    with open(path, "w", encoding="utf-8", newline="") as file:
        # The characters of the line's end are those that it puts into quotes.
        writer = csv.writer(_Lines(file), lineterminator="\r\n")
        writer.writerow(schema.names)
        for batch in batches:
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


class _Lines:
    """Takes lines that end in CR LF, one at a time, and writes them with LF alone."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line.removesuffix("\r\n") + "\n")


_WRITERS: dict[str, Callable[[Path, Any, Iterable[pa.RecordBatch]], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".feather": _write_arrow,
    ".arrow": _write_arrow,
}
FORMATS = tuple(_WRITERS)
