"""Packages in words: what commands print of tables that belong together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from factored_mwem.cli.console import aligned, lined, piece, replaced_text
from factored_mwem.cli.forecast_text import UNREAD, forecast_text, learning_text

if TYPE_CHECKING:
    from factored_mwem.cli.packaging import PackageDone
    from factored_mwem.owner.evaluation.packages import TableErrors
    from factored_mwem.pipeline.forecasts.packages import PackageProspect, TableForecast
    from factored_mwem.pipeline.record.statement import Statement


def package_summary(done: PackageDone) -> list[str]:
    """Lines for a steward."""
    record, rows = done.record, done.facts["tables"]
    g = record.guarantee
    sizes = [f"{number:,} synthetic rows of {piece(name)}" for name, number in rows.items()]
    promise = f"{g.statement} (spent epsilon {g.spent_epsilon:.6g})"
    again = ["this run was finished before: its files are as it wrote them, nothing was spent"]
    return [
        *(again if done.reused else []),
        *lined("released", sizes),
        *lined("promise", [promise]),
        *lined("look at", [*replaced_text(record), *_looks(record)]),
        *lined("file", map(piece, done.files.all)),
    ]


def _looks(record: Statement) -> Iterator[str]:
    """What a reader should know of the tables: rows that were left out, and warnings."""
    for name, facts in record.result["tables"].items():
        if facts["beyond"]:
            yield (
                f"{piece(name)}: at most {facts['most_rows']} rows of each root are used; about "
                f"{facts['beyond']:.1%} have more"
            )
        for warning in facts["warnings"]:
            yield f"{piece(name)}: {warning}"


def prospect_text(prospect: PackageProspect, roots: int) -> str:
    """What a release of a package would do, table by table."""
    lines = []
    for name, table in prospect.tables.items():
        lines += lined("table", [f"{piece(name)}, with {table.share:.0%} of the budget; of its own columns:"])
        lines += [line for word, text in _text_of(table, roots).items() for line in lined(word, [text])]
        lines.append("")
    lines += lined("for", [f"about {roots:,} roots (--assume-rows), each with rows in every table"])
    return "\n".join([*lines, UNREAD])


def _text_of(table: TableForecast, roots: int) -> dict[str, str]:
    """A table's own lines, without those that are the same for all."""
    from factored_mwem.pipeline.forecasts.forecast import LearningForecast

    if isinstance(table.forecast, LearningForecast):
        facts = learning_text(replace(table.forecast, people=None), roots, "roots")
    else:
        facts = forecast_text(replace(table.forecast, people=None), roots, "roots")
    return {word: text for word, text in facts.items() if text and word not in ("for", "rounds")}


def plan_text(prospects: Sequence[PackageProspect], roots: int) -> str:
    """A line for each epsilon, with what noise does to each table; then what the columns mean."""
    from factored_mwem.pipeline.forecasts.forecast import LearningForecast

    def noise(table: TableForecast) -> str:
        if isinstance(table.forecast, LearningForecast):
            return f"kept from {table.forecast.thresholds[0]:,.0f}"
        if table.forecast.at_once:
            return f"error {table.forecast.predicted_error or 0:.3f}"
        return f"noise {table.forecast.initial_noise:,.1f}"

    head = ["epsilon", "guess", *map(piece, prospects[0].tables)]
    rows = [
        (f"{p.epsilon:g}", f"{math.ceil(p.guess * 1000) / 10:.1f} %", *map(noise, p.tables.values()))
        for p in prospects
    ]
    meaning = [
        "guess: how often a guess whether a root is in it is right, at most (a coin: half the time)",
        "noise: mean error of a count of single columns; error: mean distance of marginals, by noise alone",
        "kept from: the fewest roots that must share a value for it to be kept",
    ]
    lines = [*aligned([head, *rows]), "", *lined("tables", meaning)]
    lines += lined("for", [f"about {roots:,} roots (--assume-rows), each with rows of every table"])
    return "\n".join([*lines, UNREAD])


def package_text(found: Mapping[str, TableErrors]) -> str:
    """The errors of the tables of a package, and of their ties."""
    lines = [
        "NOT PRIVATE: these numbers compare with the real tables; do not publish them",
        "L1 distances, 0 to 2, over bins with equal shares of the real rows; of numbers of rows the total",
        "variation, 0 to 1",
    ]
    for name, table in found.items():
        lines += ["", f"{piece(name)}: {table.rows[0]:,} rows, {table.rows[1]:,} released"]
        lines += [f"note: {piece(note)}" for note in table.notes]
        rows = [
            (f"  {k}-way", f"{mean:.4f}", f"{worst:.4f}", "") for k, (mean, worst) in table.by_order.items()
        ]
        for ties in table.ties:
            pair = piece(" x ".join(ties.worst_pair))
            rows.append((f"  with {piece(ties.table)}", f"{ties.mean:.4f}", f"{ties.worst:.4f}", pair))
        lines += aligned([("", "mean L1", "worst L1", ""), *rows], left=(0, 3))
        lines += [
            f"  Cramer's V with {piece(ties.table)} is off by {ties.association:.4f}, at most by "
            f"{ties.worst_association:.4f}"
            for ties in table.ties
        ]
        lines += [f"  rows of {piece(child)} on a row: {apart:.4f}" for child, apart in table.numbers.items()]
    return "\n".join(lines)
