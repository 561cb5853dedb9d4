"""Fingerprint: what tells one input from another. Keyed, for the private ledger alone."""

from __future__ import annotations

import hmac
import io
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from factored_mwem.tables.input_file import InputFile
from factored_mwem.tables.opened import Files
from factored_mwem.tables.remote_file import RemoteFile
from factored_mwem.tables.snapshot import Snapshot
from factored_mwem.tables.source import Table

BLOCK_ROWS = 2**16
"""Rows that are coded at a time."""


def fingerprint(private: Table, key: bytes) -> bytes:
    """A keyed code of an input: of a file byte by byte, of anything else as an Arrow stream."""
    code = hmac.new(key, digestmod="sha256")
    if isinstance(private.origin, Files | Snapshot):  # one by one: where a file ends makes a difference
        for said, stream in private.origin.streams():
            for part in (hmac.digest(key, said, "sha256"), _code_of(stream, key)):
                code.update(part)
        return code.digest()
    if isinstance(private.origin, InputFile | RemoteFile):
        return _code_of(private.origin.stream(), key)
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in private.schema
    ]
    batches = (
        pa.RecordBatch.from_arrays([_decoded(c) for c in b.columns], schema=pa.schema(fields))
        for b in private.batches(private.schema.names)
    )
    with pa.PythonFile(_Into(code), mode="w") as sink, pa.ipc.new_stream(sink, pa.schema(fields)) as writer:
        for block in _blocks(batches, BLOCK_ROWS):
            writer.write_batch(block)
    return code.digest()


def _code_of(stream: io.RawIOBase, key: bytes) -> bytes:
    code = hmac.new(key, digestmod="sha256")
    while block := stream.read(1 << 20):
        code.update(block)
    return code.digest()


def _blocks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows, `rows` at a time, however they come; the last block may have fewer."""
    waiting: list[pa.RecordBatch] = []
    room = rows
    for batch in batches:
        at = 0
        while at < batch.num_rows:
            waiting.append(batch.slice(at, room))
            at += waiting[-1].num_rows
            room -= waiting[-1].num_rows
            if not room:
                yield pa.concat_batches(waiting)
                waiting, room = [], rows
    if waiting:
        yield pa.concat_batches(waiting)


def _decoded(column: pa.Array) -> pa.Array:
    """Without its dictionary, which may hold a null, repeat a value, or be another one in every batch."""
    return column.dictionary.take(column.indices) if pa.types.is_dictionary(column.type) else column


class _Into(io.RawIOBase):
    """A file that only counts what is written."""

    def __init__(self, code: Any) -> None:
        self._code = code

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._code.update(data)
        return len(data)
