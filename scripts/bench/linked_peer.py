"""A driver for dpsynth's `relational`, which `bench people --dpsynth` and `bench linked --dpsynth` run. NOT
PRIVATE.

    DPSYNTH_PYTHON scripts/bench/linked_peer.py task.json

The task names Parquet files of `people` and of their `rows`, the column that says in both whose a row is
(`person`), `most` rows of a person, `epsilon`, `delta`, and where to put either (`out`, CSV files). A column
`present` of one value stands where there is nothing of people. It needs a domain: categories and bounds are
read off the table here, which ours has to learn inside its budget. Links are fitted by MST, group by group of
sizes, as its own example does, with ten times its steps. Of its other ways, AIM did not finish on a household
table within 20 minutes, and with empty tokens (its default) few rows are whole.
This file needs pandas and the peer alone, because the peer's own Python runs it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

FEW, PRESENT, NULL = 30, "present", "null"
"""Numbers of at most so many values are categories."""
STEPS = 1000


def coded(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table in dpsynth's types, and its domain: numbers, and texts.

    Missing numbers become the least: kept apart (clip_to_range=False) they end in an IndexError.
    """
    from dpsynth.domain import CategoricalAttribute, NumericalAttribute

    columns, domain = {}, {}
    for name, column in table.items():
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > FEW:
            whole = pd.api.types.is_integer_dtype(column)
            domain[name] = NumericalAttribute(
                min_value=float(column.min()),
                max_value=float(column.max()),
                dtype="int" if whole else "float",
                interval_handling="sample",
            )
            columns[name] = column
        else:
            texts = column.astype(str).astype(object).where(column.notna(), NULL)
            domain[name] = CategoricalAttribute(possible_values=sorted(texts.unique()))
            columns[name] = texts
    return pd.DataFrame(columns), domain


def made(task: dict[str, Any]) -> list[pd.DataFrame]:
    from dpsynth import discrete_mechanisms
    from dpsynth.relational import ForeignKeyRelation, MultiTableConfig

    (of_all, table), by = (pd.read_parquet(task[name]) for name in ("people", "rows")), task["person"]
    who = pd.Index(of_all[by]).get_indexer(table[by])
    rows, of_rows = coded(table.drop(columns=by))
    if of_all.shape[1] == 1:
        of_all = of_all.assign(**{PRESENT: "yes"})
    people, of_people = coded(of_all.drop(columns=by))
    tables = {"people": people.assign(**{by: np.arange(len(people))}), "rows": rows.assign(**{by: who})}
    link = ForeignKeyRelation("people", by, "rows", by, max_children_per_parent=task["most"])
    config = MultiTableConfig(
        domains={"people": of_people, "rows": of_rows},
        foreign_keys=[link],
        discrete_mechanism=discrete_mechanisms.MSTConfig(pgm_iters=STEPS),
        exploration_strategy="size_sliced",
    )
    release = config.calibrate(epsilon=task["epsilon"], delta=task["delta"])
    synthetic = release(np.random.default_rng(), tables).synthetic_tables
    own = [synthetic[name].drop(columns=PRESENT, errors="ignore") for name in ("people", "rows")]
    return [each.replace(NULL, None) for each in own]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    asked = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for table, out in zip(made(asked), asked["out"], strict=True):
        table.to_csv(out, index=False)
