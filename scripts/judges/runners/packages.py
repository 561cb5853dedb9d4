"""SDMetrics: its quality report of tables that belong together, real against synthetic."""

from __future__ import annotations

import warnings
from typing import Any

import pandas as pd
from frames import answer
from sdmetrics.reports.multi_table import QualityReport

FEW = 30
"""Numbers of at most so many values are categories."""


def judge(task: dict[str, Any]) -> dict[str, Any]:
    """`real` and `rows`: files by table; `keys`: of each, or null; `links`: (parent, child, its column)."""
    warnings.simplefilter("ignore")
    real, rows = ({name: pd.read_csv(path) for name, path in task[role].items()} for role in ("real", "rows"))
    kinds = {name: {column: kind_of(table[column]) for column in table} for name, table in real.items()}
    for table, key in task["keys"].items():
        kinds[table] |= {key: "id"} if key is not None else {}
    for _, child, column in task["links"]:
        kinds[child][column] = "id"
    for name, table in real.items():
        for column, kind in kinds[name].items():
            if kind == "categorical":
                table[column], rows[name][column] = (t[column].astype(str) for t in (table, rows[name]))
    tables = {
        name: {"columns": {column: {"sdtype": kind} for column, kind in columns.items()}}
        | ({} if task["keys"][name] is None else {"primary_key": task["keys"][name]})
        for name, columns in kinds.items()
    }
    names = ("parent_table_name", "parent_primary_key", "child_table_name", "child_foreign_key")
    links = [
        dict(zip(names, (parent, task["keys"][parent], child, column), strict=True))
        for parent, child, column in task["links"]
    ]
    report = QualityReport()
    report.generate(real, rows, {"tables": tables, "relationships": links}, verbose=False)
    scores = {found["Property"].lower(): found["Score"] for _, found in report.get_properties().iterrows()}
    return {"quality": float(report.get_score())} | {name: float(score) for name, score in scores.items()}


def kind_of(column: pd.Series) -> str:
    number = pd.api.types.is_numeric_dtype(column) and column.nunique() > FEW
    return "numerical" if number else "categorical"


if __name__ == "__main__":
    answer(judge)
