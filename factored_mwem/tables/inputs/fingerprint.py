"""Fingerprint: what tells one input from another. Keyed, for the private ledger alone."""

from __future__ import annotations

import hmac
import io
from collections.abc import Iterable, Iterator

import pyarrow as pa

from factored_mwem.tables.inputs.input_file import PrivateFile
from factored_mwem.tables.inputs.opened import FileSet
from factored_mwem.tables.inputs.table import Table

BLOCK_ROWS = 2**16
"""Rows that are coded at a time."""


def fingerprint(private: Table, key: bytes) -> bytes:
    """A keyed code of an input: of a file byte by byte, of anything else as an Arrow stream."""
    code = hmac.new(key, digestmod="sha256")
    if isinstance(private.origin, FileSet):  # one by one: where a file ends makes a difference
        for fact, stream in private.origin.streams():
            for part in (hmac.digest(key, fact, "sha256"), _code_of(stream, key)):
                code.update(part)
        return code.digest()
    if isinstance(private.origin, PrivateFile):
        return _code_of(private.origin.stream(), key)
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in private.schema
    ]
    schema, sink = pa.schema(fields), io.BytesIO()
    batches = (
        pa.RecordBatch.from_arrays(
            [_decoded(c).cast(f.type) for c, f in zip(b.columns, fields, strict=True)], schema=schema
        )
        for b in private.batches(schema.names)
    )
    with pa.ipc.new_stream(sink, schema) as writer:
        for block in _blocks(batches, BLOCK_ROWS):
            writer.write_batch(block)
            code.update(sink.getvalue())
            sink.seek(0)
            sink.truncate()
    code.update(sink.getvalue())
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
