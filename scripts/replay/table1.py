"""Table 1: what the contingency tables are."""

from __future__ import annotations

from common.runner import tabulated

from replay import data
from replay.figure import Marks, Row, Table, mark

PAPER = {
    "mildew": (70, 6, 22, 64),
    "czech": (1841, 6, 63, 64),
    "rochdale": (665, 8, 91, 256),
    "nltcs": (21_574, 16, 3152, 65_536),
}
"""Records, attributes, non-zero cells, cells."""
COLUMNS = ("records", "attributes", "nonzero", "cells")


def cases(full: bool) -> list[Row]:
    return [{"data": name} for name in (*data.SMALL, data.nltcs_name())]


def run(case: Row) -> list[Row]:
    table = data.named(case["data"])
    counts = (table.total, len(table.shape), int((table.histogram() > 0).sum()), table.cells)
    return [case | dict(zip(COLUMNS, counts, strict=True))]


def tables(rows: list[Row]) -> list[Table]:
    """The paper's Table 1, as counted."""
    columns = " | ".join(f"{name} = {{{name}:,}}" for name in COLUMNS)
    return [Table("Counted", *tabulated(rows, "data", columns))]


def marks(rows: list[Row]) -> Marks:
    counted = {row["data"]: tuple(row[c] for c in COLUMNS) for row in rows}
    return [
        mark(counted[name] == wanted, counted=counted[name])
        if name in counted
        else mark(None, why="the table is not here")
        for name, wanted in PAPER.items()
    ]
