"""ORC files, stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from factored_mwem.errors import InputError
from factored_mwem.tables.arrow_input import MAX_BATCH_ROWS


def orc_schema(file: Any) -> pa.Schema:
    """Names and types of `file`, an InputFile or what else gives `arrow()`."""
    import pyarrow.orc as orc

    return orc.ORCFile(file.arrow()).schema


def read_orc(file: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of `columns`, in order; a stripe at a time is in memory.

    InputError where one is a timestamp: the library reads no stripe in which one row's is beyond the years
    1677 to 2262, and whether there is such a row must not show.
    """
    import pyarrow.orc as orc

    found = orc.ORCFile(file.arrow())
    for name in columns:
        if pa.types.is_timestamp(found.schema.field(name).type):
            how = "leave it out with --columns, or write the table as Parquet"
            raise InputError(f"{file.path}: column {name!r} is a timestamp, which is not read of ORC; {how}")
    for number in range(found.nstripes):
        stripe = found.read_stripe(number, columns=list(columns)).select(list(columns))
        for start in range(0, stripe.num_rows, MAX_BATCH_ROWS):
            yield stripe.slice(start, MAX_BATCH_ROWS)
