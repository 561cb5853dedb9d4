"""Parquet files batch by batch: text as dictionaries, where its writer kept each value once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from factored_mwem.tables.arrow_input import MAX_BATCH_ROWS
from factored_mwem.tables.parsing import is_text

BYTES_OF_A_CODE = 4
"""More bytes a value, and a column's pages hold its texts rather than their numbers in a dictionary: to make
one anew would take longer than it saves.
"""
DICTIONARY_BYTES = 2**20
"""Of a column's dictionary, where writers end it."""
MOST_BYTES = 2**30
"""Of a column in a row group: a dictionary of twice as many could not be addressed."""


def parquet_schema(file: Any) -> pa.Schema:
    """Names and types of `file`, an InputFile or what else gives `arrow()`."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(file.arrow()).schema_arrow


def read_parquet(file: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of `columns`. A column of text may come as a dictionary, whatever the schema says: which ones
    do follows from sizes in the footer, and makes no difference but in time.
    """
    import pyarrow.parquet as pq

    found = pq.ParquetFile(file.arrow())
    texts = [name for name in columns if is_text(found.schema_arrow.field(name).type)]
    dictionaries = _in_dictionaries(found.metadata, texts)
    if dictionaries:
        found = pq.ParquetFile(file.arrow(), metadata=found.metadata, read_dictionary=dictionaries)
    for group in range(found.num_row_groups):  # else the bytes of all are kept until the last is read
        for batch in found.iter_batches(MAX_BATCH_ROWS, row_groups=[group], columns=list(columns)):
            yield batch.select(list(columns))  # a name with a dot brings in more


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
