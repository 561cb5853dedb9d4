"""Counted rows: the histogram of every column of the published rows. They are public: no noise is needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from factored_mwem.domain.domain import Domain
from factored_mwem.tables.codec import encode

MOST_ROWS = 2**17
"""Rows that are counted, the first of a table: a share is then within .3 % of that of all."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedRows:
    """`counts[name]: int64[code]` of the first `rows` rows."""

    counts: dict[str, np.ndarray]
    rows: int


def counted_rows(domain: Domain, batches: Iterable[pa.RecordBatch]) -> CountedRows:
    """The histograms over the codes of `domain` of the first rows of these batches."""
    counts = {a.name: np.zeros(a.size, dtype=np.int64) for a in domain}
    rows = 0
    for batch in batches:
        part = batch.slice(0, MOST_ROWS - rows)
        for attribute in domain:
            codes = encode(attribute, part.column(attribute.name))
            counts[attribute.name] += np.bincount(codes, minlength=attribute.size)
        rows += part.num_rows
        if rows >= MOST_ROWS:
            break
    return CountedRows(counts, rows)
