"""Rows from a model, in batches: free, because the model is public. Only this randomness may be seeded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from factored_mwem.codec import decode
from factored_mwem.model import Factor, ProductModel

BATCH = 2**17
"""Most rows drawn and decoded at a time."""
VALUES = 2**24
"""Most values at a time: a wide table comes in shorter batches, so that memory does not grow with its columns."""


def sample(model: ProductModel, schema: pa.Schema, rows: int, *, rng: np.random.Generator) -> Iterator[pa.RecordBatch]:
    """`rows` rows of the model in batches. In each batch every component's cells come out within one row of their share."""
    batch = min(BATCH, max(VALUES // len(schema), 2**12))
    for at in range(0, rows, batch):
        size = min(batch, rows - at)
        codes = draw(model, size, rng)
        columns = [decode(a, c, field, rng) for a, c, field in zip(model.domain, codes, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def draw(model: ProductModel, rows: int, rng: np.random.Generator) -> list[np.ndarray]:
    """int64[row] per attribute: the codes of `rows` rows. Components are independent, so each gets its own random order."""
    codes: list[np.ndarray] = [np.empty(0, dtype=np.int64)] * len(model.domain)
    for factor in model.components:
        cells = rng.permutation(_systematic(factor, rows, rng))
        for position, column in zip(factor.positions, np.unravel_index(cells, factor.shape), strict=True):
            codes[position] = column
    return codes


def _systematic(factor: Factor, rows: int, rng: np.random.Generator) -> np.ndarray:
    """int64[row]: cells, ascending, by systematic sampling: an even comb, so a cell of share p comes floor or ceil of p * rows times."""
    ends = np.cumsum(factor.weights)
    comb = (np.arange(rows) + rng.random()) * (ends[-1] / max(rows, 1))
    return np.minimum(np.searchsorted(ends, comb, side="right"), len(ends) - 1)
