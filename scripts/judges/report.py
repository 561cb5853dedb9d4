"""What the judges found, as a table for people and as a CSV."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from judges.environment import Environment

Figures = dict[str, list[dict[str, float]]]
"""Contender -> what was found in each run."""


def shown(figures: Figures, judges: Sequence[Environment]) -> Iterator[str]:
    """Mean +- standard deviation over the runs, one row for each contender."""
    columns = {key: heading for judge in judges for key, heading in judge.figures.items()}
    yield f"| rows | runs | {' | '.join(columns.values())} |"
    yield "|---" * (len(columns) + 2) + "|"
    for name, runs in figures.items():
        cells = [_cell([run[key] for run in runs if key in run]) for key in columns]
        yield f"| {name} | {len(runs)} | {' | '.join(cells)} |"


def _cell(values: list[float]) -> str:
    if not values:
        return "-"
    places = 1 if max(values) > 10 else 4 if max(values) < 0.1 else 3
    spread = f" +- {statistics.stdev(values):.{places}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{places}f}{spread}"


def record(figures: Figures, path: Path) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("rows", "run", "figure", "value"))
        for name, runs in figures.items():
            for run, found in enumerate(runs):
                writer.writerows((name, run, key, f"{value:.6g}") for key, value in found.items())
