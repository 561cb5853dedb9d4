"""Answer: estimates of a query with their errors, as a person reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from factored_mwem.tables.labels import Label

LEVEL = 0.95
"""How often an interval holds the truth, by its own lights."""
SHOWN = 20
"""Groups of an answer that are printed by itself."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answer:
    """What a release says to a query, group by group: `estimate`, its standard error `stderr`, and an
    interval from `low` to `high` that holds the truth with probability `level`, float64[group] each. Of
    quantiles of dates they are days since 1970, of moments microseconds.

    `basis`: "measured" where noisy answers alone fix the query, so that nothing rests on the model; "model"
    where the model had to be believed. `population`: whether the error is one about those whom the table's
    rows are a sample of; else it is one about the rows themselves. `labels[i]` are group i's, by `columns`.
    """

    query: str
    columns: tuple[str, ...]
    labels: tuple[tuple[Label, ...], ...]
    estimate: np.ndarray
    stderr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    basis: Literal["measured", "model"]
    population: bool
    notes: tuple[str, ...] = ()
    level: float = LEVEL

    def __len__(self) -> int:
        return len(self.estimate)

    def to_pandas(self) -> Any:
        """A pandas frame of estimate, stderr, low and high, indexed by the labels of all groups."""
        import pandas as pd

        names = ("estimate", "stderr", "low", "high")
        columns = {name: getattr(self, name) for name in names}
        if not self.columns:
            return pd.DataFrame(columns)
        return pd.DataFrame(columns, index=pd.MultiIndex.from_tuples(self.labels, names=self.columns))
