"""Values: what errors of marginals do not show. Are there values that nobody has, numbers beyond the ends,
other means, other types, and are functions of one column still functions?

All figures compare two tables of text (see `runners.frames`): the real one and released rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from factored_mwem.domain.attribute import OTHER
from judges.runners import frames

LISTED = 500
"""A column of at most so many values has values that can be impossible; one of more holds measurements."""
FREQUENT = 300
"""Rows of a value whose share must come back."""
REPEATED = 5
"""Rows that a value of the one column has on average, where it determines the other: fewer may be chance."""
FIGURES = {
    "impossible": "values nobody has",
    "impossible_worst": "in the worst column",
    "other": "cells that became other",
    "beyond": "numbers beyond the real ends",
    "mean_worst": "mean off (sd), worst",
    "sd_worst": "sd off, worst",
    "tv": "TV of frequent values",
    "tv_worst": "in the worst column",
    "functions": "functions",
    "broken": "rows that break them",
    "types": "other types",
}
DETAILS = ("worst: impossible", "worst: mean", "worst: sd", "worst: tv", "worst: function", "names: types")


def judge(real: pd.DataFrame, rows: pd.DataFrame, kinds: dict[str, str]) -> dict[str, Any]:
    """The FIGURES, each a mean over columns or that of the worst; None where no column has one."""
    plain = {name: (frames.plain(real[name]), frames.plain(rows[name])) for name in kinds}
    listed = {name: pair for name, pair in plain.items() if pair[0].nunique() <= LISTED}
    unlisted = {name: pair for name, pair in plain.items() if not pair[0].eq(OTHER).any()}
    measured = {
        name: tuple(frames.numbers(side[name], kind) for side in (real, rows))
        for name, kind in kinds.items()
        if kind != "category"
    }
    measured = {name: pair for name, pair in measured.items() if all(side.notna().any() for side in pair)}
    by_column = {
        "impossible": {name: impossible(*pair) for name, pair in listed.items()},
        "other": {name: float(rows.eq(OTHER).mean()) for name, (real, rows) in unlisted.items()},
        "beyond": {name: beyond(*pair) for name, pair in measured.items()},
        "mean": {name: moments(*pair)[0] for name, pair in measured.items()},
        "sd": {name: moments(*pair)[1] for name, pair in measured.items()},
        "tv": {name: frequent(*pair) for name, pair in listed.items()},
        "function": {f"{a} -> {b}": share for a, b, share in functions(listed)},
    }
    others = [name for name in kinds if type_of(real[name]) != type_of(rows[name])]
    found: dict[str, Any] = {key: _mean(by_column[key]) for key in ("impossible", "other", "beyond", "tv")}
    for key in ("impossible", "mean", "sd", "tv"):
        found[f"{key}_worst"] = max(by_column[key].values(), default=None)
    found |= {"functions": len(by_column["function"]), "broken": _mean(by_column["function"])}
    found |= {"types": len(others), "names: types": ", ".join(others)}
    for key in ("impossible", "mean", "sd", "tv", "function"):
        found[f"worst: {key}"] = max(by_column[key], key=by_column[key].__getitem__, default="")
    return found


def impossible(real: pd.Series, rows: pd.Series) -> float:
    """Share of rows with a value that no real row has; that nothing is there is a value, too. OTHER is none:
    it says that a value is not told.
    """
    return float((~rows.isin([*real.unique(), OTHER])).mean())


def beyond(real: pd.Series, rows: pd.Series) -> float:
    """Share of numbers below the least or above the greatest real one."""
    rows = rows.dropna()
    return float(((rows < real.min()) | (rows > real.max())).mean())


def moments(real: pd.Series, rows: pd.Series) -> tuple[float, float]:
    """(how far the mean is off, in real standard deviations; how far the standard deviation, as a share)."""
    scale = float(real.std()) or 1.0
    return abs(float(rows.mean() - real.mean())) / scale, abs(float(rows.std()) - scale) / scale


def frequent(real: pd.Series, rows: pd.Series) -> float:
    """Total variation over the values that at least FREQUENT real rows have."""
    counts = real.value_counts()
    kept = counts.index[counts >= FREQUENT]
    shares = [side.value_counts(normalize=True).reindex(kept, fill_value=0.0) for side in (real, rows)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def functions(columns: dict[str, tuple[pd.Series, pd.Series]]) -> list[tuple[str, str, float]]:
    """(determining column, determined one, share of the rows that break it) for each pair of which one value
    of the first has one value of the second in all real rows. A row breaks it if its value of the first is
    real and that of the second another one; OTHER says nothing of either.
    """
    found = []
    distinct = {name: pair[0].nunique() for name, pair in columns.items()}
    for a, (real_a, rows_a) in columns.items():
        if not 1 < distinct[a] <= len(real_a) / REPEATED:
            continue
        for b, (real_b, rows_b) in columns.items():
            if a == b or not 1 < distinct[b] <= distinct[a]:
                continue
            pairs = pd.DataFrame({"a": real_a, "b": real_b}).drop_duplicates()
            if len(pairs) > distinct[a]:
                continue
            expected = rows_a.map(pairs.set_index("a")["b"])
            told = expected.notna() & (rows_a != OTHER) & (rows_b != OTHER)
            found.append((a, b, float((told & (expected != rows_b)).mean())))
    return found


def type_of(column: pd.Series) -> str:
    """What pandas reads a column of text as, by its nullable types: whole numbers stay whole beside gaps."""
    read = pd.Series(column.replace("", None).dropna().unique(), dtype=object)
    if len(read) and read.str.lower().isin(["true", "false"]).all():
        return "boolean"
    numbers = pd.to_numeric(read, errors="coerce")
    if numbers.isna().any() or not len(read):
        return "text"
    return "whole" if read.str.fullmatch(r"\s*[+-]?\d+\s*").all() else "number"


def _mean(by_column: dict[str, float]) -> float | None:
    return sum(by_column.values()) / len(by_column) if by_column else None
