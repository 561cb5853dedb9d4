"""SDMetrics: its quality report and its diagnostic report, real against synthetic rows."""

from __future__ import annotations

import warnings
from typing import Any

from frames import answer, is_number, split, tables
from sdmetrics.reports.single_table import DiagnosticReport, QualityReport


def judge(task: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    real, rows = split(*tables(task, "real", "rows"), task["kinds"])
    types = {name: "numerical" if is_number(real[name]) else "categorical" for name in real}
    metadata = {"columns": {name: {"sdtype": sdtype} for name, sdtype in types.items()}}
    scores = {}
    for name, report in (("quality", QualityReport()), ("diagnostic", DiagnosticReport())):
        report.generate(real, rows, metadata, verbose=False)
        scores[name] = float(report.get_score())
        for _, found in report.get_properties().iterrows():
            scores[f"{name}: {found['Property']}"] = float(found["Score"])
    return scores


if __name__ == "__main__":
    answer(judge)
