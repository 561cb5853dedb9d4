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


def pair(real: pd.DataFrame, rows: pd.DataFrame, kinds: dict[str, str], *, bins: bool) -> list[pd.DataFrame]:
    """Both tables as codes: numbers from 0 up, with `bins` in bins of equal real mass, and below 0 the texts
    that are none.
    """
    both, columns = pd.concat([real, rows], ignore_index=True), {}
    is_real = both.index < len(real)
    for place, (name, kind) in enumerate(kinds.items()):
        if kind == "category":
            codes = pd.factorize(plain(both[name]), sort=True)[0].astype(float)
        else:
            found = numbers(both[name], kind)
            words = found.isna().to_numpy()
            codes = (found - np.floor(found.min())).to_numpy(copy=True)
            codes[words] = -1.0 - pd.factorize(both[name][words], sort=True)[0]
            if bins:
                known = codes[is_real & (codes >= 0)]
                edges = np.unique(np.percentile(known, np.arange(BINS) * 100 / BINS, method="higher"))
                cut = np.searchsorted(edges, codes, side="right") + (codes > known.max())
                codes = np.where(codes < 0, codes, cut)
        columns[f"c{place:03}"] = codes
    made = pd.DataFrame(columns)
    return [made[side].reset_index(drop=True) for side in (is_real, ~is_real)]


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
        both = pair(real, rows, task["kinds"], bins=False)
        with TemporaryDirectory() as folder:
            pmse = PropensityMSE(*both, Path(folder)).compute_score()
    return {"k_marginal": float(k_marginal), "pmse": float(pmse)}


if __name__ == "__main__":
    answer(judge)
