"""Typed files: Parquet, ORC and Arrow, batch by batch. A `file` is an InputFile, or gives `arrow()` too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.tables.codes.parsing import is_text
from factored_mwem.tables.inputs.arrow_input import MAX_BATCH_ROWS, typed_table
from factored_mwem.tables.inputs.table import Table
from factored_mwem.tables.inputs.text_form import Reading

BYTES_OF_A_CODE = 4
"""More bytes a value, and a column's pages hold its texts rather than their numbers in a dictionary: to make
one anew would take longer than it saves.
"""
DICTIONARY_BYTES = 2**20
"""Of a column's dictionary, where writers end it."""
MOST_BYTES = 2**30
"""Of a column in a row group: a dictionary of twice as many could not be addressed."""


def open_parquet(file: Any, _: Reading) -> Table:
    """The table that a Parquet file is, as are the next two of their kinds."""
    return typed_table(file.path, parquet_schema(file), partial(read_parquet, file), file)


def open_orc(file: Any, _: Reading) -> Table:
    import pyarrow.orc as orc

    return typed_table(file.path, orc.ORCFile(file.arrow()).schema, partial(read_orc, file), file)


def open_arrow(file: Any, _: Reading) -> Table:
    return typed_table(file.path, pa.ipc.open_file(file.arrow()).schema, partial(read_arrow, file), file)


def parquet_schema(file: Any) -> pa.Schema:
    """Names and types of its columns."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(file.arrow()).schema_arrow


def read_parquet(file: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A column of text may come as a dictionary, whatever the schema says: which ones
    do follows from sizes in the footer, and makes no difference but in time.
    """
    import pyarrow.parquet as pq

    found = pq.ParquetFile(file.arrow())
    texts = [name for name in columns if is_text(found.schema_arrow.field(name).type)]
    _check_chunks(file, found.metadata, texts)
    dictionaries = _in_dictionaries(found.metadata, texts)
    if dictionaries:
        found = pq.ParquetFile(file.arrow(), metadata=found.metadata, read_dictionary=dictionaries)
    for group in range(found.num_row_groups):  # else the bytes of all are kept until the last is read
        for batch in found.iter_batches(MAX_BATCH_ROWS, row_groups=[group], columns=list(columns)):
            yield batch.select(list(columns))  # a name with a dot brings in more


def _check_chunks(file: Any, footer: Any, names: Sequence[str]) -> None:
    """Raises what reading raises where a damaged footer contradicts itself about these columns: asked for a
    chunk of such a footer, the library ends the process, but it refuses to read one row of it.
    """
    import pyarrow.parquet as pq

    reader = pq.ParquetFile(file.arrow(), metadata=footer, pre_buffer=False)
    for group in range(footer.num_row_groups if names else 0):
        next(reader.iter_batches(1, row_groups=[group], columns=list(names)), None)


def _in_dictionaries(footer: Any, names: Sequence[str]) -> list[str]:
    """The columns all of whose row groups hold texts as numbers of a dictionary.

    None with a dot in its name: that may be the path of a part of a nested column, too, which the library
    cannot read so.
    """
    wanted = {name for name in names if "." not in name}
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    chosen = {name: at for name, at in places.items() if name in wanted}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        chosen = {name: at for name, at in chosen.items() if _has_dictionary(group.column(at))}
    return list(chosen)


def _has_dictionary(chunk: Any) -> bool:
    if not {"RLE_DICTIONARY", "PLAIN_DICTIONARY"} & set(chunk.encodings):
        return False
    most = min(BYTES_OF_A_CODE * chunk.num_values + DICTIONARY_BYTES, MOST_BYTES)
    return chunk.total_uncompressed_size <= most


def read_orc(file: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A stripe at a time is in memory.

    Raises InputError if one is a timestamp: the library reads no stripe in which one row's is beyond the
    years 1677 to 2262, and whether there is such a row must not show.
    """
    import pyarrow.orc as orc

    orc_file = orc.ORCFile(file.arrow())
    for name in columns:
        if pa.types.is_timestamp(orc_file.schema.field(name).type):
            how = "leave it out with --columns, or write the table as Parquet"
            raise InputError(f"{file.path}: column {name!r} is a timestamp, not read from ORC; {how}")
    for number in range(orc_file.nstripes):
        stripe = orc_file.read_stripe(number, columns=list(columns)).select(list(columns))
        for start in range(0, stripe.num_rows, MAX_BATCH_ROWS):
            yield stripe.slice(start, MAX_BATCH_ROWS)


def read_arrow(file: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """On one thread: the library's dataset reader died of damaged files (24 of 1,500, by a fault)."""
    at = [pa.ipc.open_file(file.arrow()).schema.get_field_index(name) for name in columns]
    options = pa.ipc.IpcReadOptions(included_fields=at, use_threads=False)
    reader = pa.ipc.open_file(file.arrow(), options=options)
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number).select(list(columns))
        for start in range(0, batch.num_rows, MAX_BATCH_ROWS):
            yield batch.slice(start, MAX_BATCH_ROWS)
