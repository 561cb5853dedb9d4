"""SDNist: its metric classes KMarginal and PropensityMSE, called directly on tables of our own.

SDNist's program judges its own excerpts of the American Community Survey alone, so their preparation is done
here as it is done there: text becomes codes, what is no number a code below the least, and for the k-marginal
numbers become 20 bins of equal real mass, those beyond either end apart. Columns lose their names: version
2.4, the newest in the package index, leaves the columns called PUMA and INDP out of the k-marginal; without
names it computes what 2.5 does (from github.com/usnistgov/SDNist alone).
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from frames import answer, numbers, plain, tables

BINS = 20


def coded(real: pd.Series, rows: pd.Series, kind: str) -> list[np.ndarray]:
    """float64[row] of both columns: numbers from 0 up, and below 0 the texts that are none."""
    if kind == "category":
        both = [plain(real), plain(rows)]
        values = sorted(set(both[0]) | set(both[1]))
        return [pd.Categorical(column, categories=values).codes.astype(float) for column in both]
    found = [numbers(column, kind) for column in (real, rows)]
    least = np.floor(min(column.min() for column in found if column.notna().any()))
    texts: set[str] = set().union(
        *(column[number.isna()] for column, number in zip((real, rows), found, strict=True))
    )
    below = {text: -1.0 - place for place, text in enumerate(sorted(texts))}
    return [
        (number - least).fillna(column.map(below).astype(float)).to_numpy()
        for column, number in zip((real, rows), found, strict=True)
    ]


def binned(both: list[np.ndarray]) -> list[np.ndarray]:
    """Codes with the numbers in bins of equal real mass."""
    known = both[0][both[0] >= 0]
    edges = np.unique(np.percentile(known, np.arange(BINS) * 100 / BINS, method="higher"))
    return [
        np.where(codes < 0, codes, np.searchsorted(edges, codes, side="right") + (codes > known.max()))
        for codes in both
    ]


def pair(real: pd.DataFrame, rows: pd.DataFrame, kinds: dict[str, str], *, bins: bool) -> list[pd.DataFrame]:
    """Both tables as codes."""
    columns = {}
    for place, (name, kind) in enumerate(kinds.items()):
        both = coded(real[name], rows[name], kind)
        columns[f"c{place:03}"] = binned(both) if bins and kind != "category" else both
    return [pd.DataFrame({name: both[side] for name, both in columns.items()}) for side in (0, 1)]


def judge(task: dict[str, Any]) -> dict[str, Any]:
    with contextlib.redirect_stdout(sys.stderr):
        import sdnist.report.dataset  # noqa: F401 - first: it and the k-marginal import each other
        from sdnist.metrics.kmarginal import KMarginal
        from sdnist.metrics.propensity import PropensityMSE

        real, rows = tables(task, "real", "rows")
        k_marginal = KMarginal(*pair(real, rows, task["kinds"], bins=True)).compute_score()
        # A pMSE lies between 0 and c (1 - c), c the share of synthetic rows, and falls with more rows.
        size = min(task["size"], len(real), len(rows))
        real, rows = (table.sample(size, random_state=task["seed"]) for table in (real, rows))
        both = pair(real.reset_index(drop=True), rows.reset_index(drop=True), task["kinds"], bins=False)
        with TemporaryDirectory() as folder:
            pmse = PropensityMSE(*both, Path(folder)).compute_score()
    return {"k_marginal": float(k_marginal), "pmse": float(pmse)}


if __name__ == "__main__":
    answer(judge)
