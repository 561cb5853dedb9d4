"""Table 1: what the contingency tables are."""

from __future__ import annotations

from replay import data
from replay.figure import BESIDE, OPEN, Claim, Row, Table, mark

SOURCE = BESIDE
TITLE = "Table 1: the contingency tables"
SETTINGS = (
    "Records, attributes and non-zero cells counted on the tables that the other figures use. mildew, czech "
    "and rochdale are constants of the "
    "replay; nltcs is read from a file, because its terms do not allow publishing it again."
)
PAPER = {
    "mildew": (70, 6, 22, 64),
    "czech": (1841, 6, 63, 64),
    "rochdale": (665, 8, 91, 256),
    "nltcs": (21_574, 16, 3152, 65_536),
}
"""Records, attributes, non-zero cells, cells."""
COLUMNS = ("records", "attributes", "nonzero", "cells")


def cases(full: bool) -> list[Row]:
    return [{"data": name} for name in ("mildew", "czech", "rochdale", data.nltcs_name())]


def run(case: Row) -> list[Row]:
    name = case["data"]
    table = data.small(name) if name in ("mildew", "czech", "rochdale") else data.nltcs(name)
    nonzero = int((table.histogram() > 0).sum())
    return [
        {
            "data": name,
            "records": table.total,
            "attributes": len(table.shape),
            "nonzero": nonzero,
            "cells": table.cells,
        }
    ]


def tables(rows: list[Row]) -> list[Table]:
    """The paper's Table 1, as counted."""
    lines = [[row["data"], *(f"{row[c]:,}" for c in COLUMNS)] for row in rows]
    return [Table("Counted", ["", *COLUMNS], lines)]


def judge(rows: list[Row]) -> list[Claim]:
    claims = []
    for name, (records, attributes, nonzero, cells) in PAPER.items():
        size = f"{records:,} records, {attributes} attributes"
        text = f"{name} has {size}, {nonzero:,} of {cells:,} cells non-zero"
        row = next((row for row in rows if row["data"] == name), None)
        if row is None:
            claims.append(Claim(text, OPEN, "the table is not here"))
        else:
            found = tuple(row[c] for c in COLUMNS)
            claims.append(
                Claim(text, mark(found == PAPER[name]), "counted: " + ", ".join(f"{v:,}" for v in found))
            )
    return claims
