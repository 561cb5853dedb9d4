"""ORC files, stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from factored_mwem.tables.arrow_input import MAX_BATCH_ROWS


def orc_schema(file: Any) -> pa.Schema:
    """Names and types of `file`, an InputFile or what else gives `arrow()`."""
    import pyarrow.orc as orc

    return orc.ORCFile(file.arrow()).schema


def read_orc(file: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of `columns`, in order; a stripe at a time is in memory."""
    import pyarrow.orc as orc

    found = orc.ORCFile(file.arrow())
    for number in range(found.nstripes):
        stripe = found.read_stripe(number, columns=list(columns)).select(list(columns))
        for start in range(0, stripe.num_rows, MAX_BATCH_ROWS):
            yield stripe.slice(start, MAX_BATCH_ROWS)
