"""Tables as every runner reads them. Runs inside the judges' environments: standard library and pandas alone.

A table is a CSV of text. A column's kind, decided on the real rows, says how it is compared:

    category    by its values; numbers are spelt one way (1.0 is 1)
    number      by its number; what is none (empty, 'unknown') is a value of a second column, 'NAME is'
    date        as a number, in days since 1970
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

READ = "number"
"""Value of 'NAME is' where a number could be read."""
OTHER, UNTOLD = "other", 0.5
"""A column is not told whose values are OTHER in so large a part of the rows: names, numbers of planes."""


def read(path: str, missing: Sequence[str] = ()) -> pd.DataFrame:
    """Every cell as text; the words in `missing` are empty, for a release gives back null for them."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table.mask(table.isin(list(missing)), "") if missing else table


def tables(task: dict[str, Any], *roles: str) -> list[pd.DataFrame]:
    """The task's tables of those roles: real, rows, training, holdout."""
    return [read(task[role], task["missing"]) for role in roles]


def numbers(column: pd.Series, kind: str) -> pd.Series:
    """float64; nan where there is no number."""
    if kind == "date":
        moments = pd.to_datetime(column, errors="coerce", format="ISO8601", utc=True)
        return (moments - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return pd.to_numeric(column, errors="coerce").astype(float).replace([np.inf, -np.inf], np.nan)


def plain(column: pd.Series) -> pd.Series:
    """The same values, numbers spelt one way."""

    def spelt(text: str) -> str:
        try:
            return format(float(text), ".15g")
        except ValueError:
            return text

    return column.map({text: spelt(text) for text in column.unique()})


def split(
    first: pd.DataFrame, second: pd.DataFrame, kinds: dict[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables with float64 columns for numbers and object columns for categories: the same columns."""
    both, made = pd.concat([first, second], keys=(0, 1)), {}
    for name, kind in kinds.items():
        made[name] = plain(both[name]) if kind == "category" else numbers(both[name], kind)
        if kind != "category" and made[name].isna().any():
            made[f"{name} is"] = both[name].where(made[name].isna(), READ)
    return pd.DataFrame(made).loc[0], pd.DataFrame(made).loc[1]


def told(rows: pd.DataFrame, kinds: dict[str, str]) -> dict[str, str]:
    """The `kinds` of those columns that a release tells."""
    return {name: kind for name, kind in kinds.items() if rows[name].eq(OTHER).mean() <= UNTOLD}


def is_number(column: pd.Series) -> bool:
    return column.dtype.kind == "f"


def answer(judge: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Do the task that the command line names, and print what was found as the last line."""
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print("\n" + json.dumps(judge(task)))
