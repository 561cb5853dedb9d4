"""Quality: NOT PRIVATE. Scores that others publish: SDNist's k-marginal score, and SDMetrics' quality."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.tables.inputs.source import open_table

KINDS = {"integer": "numerical", "number": "numerical", "date": "datetime", "datetime": "datetime"}
"""SDMetrics' names for types of attributes; all others are categorical."""


class Quality(NamedTuple):
    """NOT PRIVATE. The scores of SDMetrics, from 0 to 1; `why`: the reason if there are none, else ""."""

    overall: float | None
    parts: tuple[tuple[str, float], ...]
    why: str


def k_marginal_score(mean: float) -> float:
    """1000 (1 - mean / 2), from 0 to 1000 where nothing differs: SDNist's score (usnistgov/SDNist,
    `KMarginalScore`) of the `mean` L1 distance, 0 to 2, of marginals.
    """
    return 1000 * (1 - mean / 2)


def sdmetrics_quality(domain: Domain, real: Any, synthetic: Any) -> Quality:
    """NOT PRIVATE. SDMetrics' quality report over the columns of `domain` that both tables have as values of
    the same types; nothing if the library is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from sdmetrics.reports.single_table import QualityReport
    except ImportError:
        return Quality(None, (), "SDMetrics is not installed (pip install 'factored-mwem[quality]')")
    import pyarrow as pa

    tables = [open_table(real), open_table(synthetic)]
    names = [a.name for a in domain if all(a.name in table.schema.names for table in tables)]
    frames = [pa.Table.from_batches(table.batches(names)).to_pandas() for table in tables]
    columns = {name: {"sdtype": _sdtype(domain[name])} for name in names}
    for name, facts in columns.items():
        if facts["sdtype"] != "categorical":
            for frame in frames:
                frame[name] = _typed(frame[name], facts["sdtype"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = QualityReport()
        try:
            report.generate(*frames, {"columns": columns}, verbose=False)
        except Exception as error:  # noqa: BLE001 - another's library, and its error may quote a row
            return Quality(None, (), f"SDMetrics ended by a {type(error).__name__}")
        parts = report.get_properties()
    scores = tuple(zip(parts["Property"].tolist(), map(float, parts["Score"].tolist()), strict=True))
    return Quality(float(report.get_score()), scores, "")


def _sdtype(attribute: Attribute) -> str:
    return "categorical" if attribute.categorical or attribute.sentinels else KINDS[attribute.type]


def _typed(column: Any, sdtype: str) -> Any:
    """Text of a CSV file as numbers or moments."""
    import pandas as pd

    read = pd.to_numeric if sdtype == "numerical" else pd.to_datetime
    return read(column, errors="coerce")
