"""MST of dpmm, used as its manual shows: its own private binning of numbers, bounds and categories given.

Bounds and categories are read off the table, for somebody had to declare them, as a draft does. The
manual spends 0.1 on the bins beside 1.0 on the model; here both together are the epsilon that was asked for.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np
import pandas as pd
from frames import READ, answer, is_number, numbers, split, tables

BINS_SHARE = 0.1 / 1.1


def prepared(table: pd.DataFrame, kinds: dict[str, str]) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """The table in dpmm's types, and its domain.

    In a column of numbers, one text that is none is dpmm's null; where there are more, a column says which.
    """
    made, _ = split(table, table, kinds)
    for name in [n for n in kinds if f"{n} is" in made]:
        if made[f"{name} is"].nunique() <= 2:
            made = made.drop(columns=f"{name} is")
        else:
            made[name] = made[name].fillna(made[name].min())
    domain: dict[str, dict[str, Any]] = {}
    for name in made:
        if is_number(made[name]):
            domain[name] = {"lower": float(made[name].min()), "upper": float(made[name].max())}
        else:
            domain[name] = {"categories": sorted(made[name].unique())}
            made[name] = made[name].astype("category")
    return made, domain


def restored(made: pd.DataFrame, real: pd.DataFrame, kinds: dict[str, str]) -> pd.DataFrame:
    """Text as in the real table: whole numbers where all are whole, nulls by the text they stand for."""
    columns = {}
    for name, kind in kinds.items():
        if kind == "category":
            columns[name] = made[name].astype(str)
            continue
        known = numbers(real[name], kind)
        values = made[name].astype(float)
        values = values.round() if (known.dropna() % 1 == 0).all() else values
        if kind == "date":
            text = (pd.Timestamp(0) + pd.to_timedelta(values, unit="D")).dt.strftime("%Y-%m-%dT%H:%M:%S")
        else:
            text = values.map(lambda value: format(value, ".15g"))
        texts = real[name][known.isna()]
        text = text.mask(values.isna(), texts.iloc[0] if len(texts) else "")
        which = made.get(f"{name} is")
        columns[name] = text if which is None else text.where(which == READ, which.astype(str))
    return pd.DataFrame(columns)


def judge(task: dict[str, Any]) -> dict[str, Any]:
    with contextlib.redirect_stdout(sys.stderr):
        from dpmm.pipelines import MSTPipeline

        (real,) = tables(task, "real")
        table, domain = prepared(real, task["kinds"])
        made = MSTPipeline(
            epsilon=task["epsilon"] * (1 - BINS_SHARE),
            delta=task["delta"],
            proc_epsilon=task["epsilon"] * BINS_SHARE,
        )
        made.fit(table, domain)
        rows = made.generate(n_records=len(real), random_state=int(np.random.default_rng().integers(2**31)))
        restored(rows, real, task["kinds"]).to_csv(task["out"], index=False)
    return {}


if __name__ == "__main__":
    answer(judge)
