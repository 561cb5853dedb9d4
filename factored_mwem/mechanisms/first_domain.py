"""First domain: from what discovery found to attributes that can be measured; public in, public out.

Generous on purpose: every bin and value that may be there has a code; settle.py takes out what is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.grids import (
    MICROS_A_DAY,
    MOST_BINS,
    WIDEST,
    YEARS,
    coarse_grid,
    cut,
    merge,
    with_tails,
    with_values_left,
)
from factored_mwem.privacy.discover import Found
from factored_mwem.tables.decode import STEPS
from factored_mwem.tables.kinds import bounds_of_type, most_whole
from factored_mwem.tables.parsing import is_text, value_type

OTHER = "other"
"""What a value of a column of text becomes that is not listed, where many are."""
BIN_NOISE = 4.0
"""A bin is meant to hold this many standard deviations of noise, or a MOST_BINS-th of the rows."""
NEAR = 10
"""Popular values within so many cells of the coarse grid, a decade, lie among the others."""


def first_attribute(found: Found) -> Attribute:
    """The attribute to measure first."""
    facts: dict[str, Any] = {
        "name": found.column.name,
        "type": found.type,
        "constraints": {"required": not found.column.nullable},
        "learnt": True,
    }
    if found.type == "string":
        return Attribute.model_validate(
            {**facts, "categories": [*sorted(set(found.texts) - {OTHER}), OTHER], "other": OTHER}
        )
    if found.type != "boolean":
        edges = edges_of(found)
        values = sorted(v for v in found.values if holds(found, v))
        facts |= {"edges": written(found.type, edges, end=True), "decimals": found.decimals}
        facts["resolution"] = found.resolution
        facts["specialValues"] = [*written(found.type, np.array(values)), *sorted(found.texts)] or None
    return Attribute.model_validate(facts)


def holds(found: Found, value: float) -> bool:
    """Whether the column's type, where it has one, can hold a value."""
    least, most = bounds(found)
    return least <= value <= most


def bounds(found: Found) -> tuple[float, float]:
    """The least and the greatest unit of a typed column, from its type alone."""
    if found.type in ("date", "datetime"):
        scale = 1 if found.type == "date" else MICROS_A_DAY
        return float(YEARS[0] * scale), float(YEARS[-1] * scale)
    arrow = value_type(found.column.type)
    least, most = (-np.inf, np.inf) if is_text(arrow) else bounds_of_type(found.column)
    if found.type != "integer":
        return least, most
    whole = min(float(WIDEST), np.inf if is_text(arrow) else most_whole(found.column))
    return max(least, -whole), min(most, whole)


def edges_of(found: Found) -> np.ndarray:
    """The edges of the bins beside the popular values, from end to end."""
    grid, whole = coarse_grid(found.type), found.type != "number"
    values = np.array(sorted(found.values), dtype=grid.dtype)
    if found.edges is None or found.noisy is None:
        edges = wide_grid(found.type)
    else:
        goal = max(float(found.noisy.sum()) / MOST_BINS, BIN_NOISE * found.cell_stddev)
        edges = merge(found.edges, found.noisy, found.cell_stddev, rows=goal)
        counts = np.add.reduceat(found.noisy, np.searchsorted(found.edges, edges[:-1]))
        step = STEPS.get(found.resolution or "", 1)
        edges = np.concatenate(
            [
                *(
                    cut(low, high, max(round(n / goal), 1), whole=whole, step=step)[:-1]
                    for low, high, n in zip(edges[:-1], edges[1:], counts.tolist(), strict=True)
                ),
                edges[-1:],
            ]
        )
        first, last = np.searchsorted(grid, edges[[0, -1]])
        place = np.searchsorted(grid, values)
        among = values[(place >= first - NEAR) & (place <= last + NEAR)]
        if len(among):
            end = among[-1] + 1 if whole else np.nextafter(among[-1], np.inf)
            low, high = min(edges[0], among[0]), max(edges[-1], end)
            edges = np.unique(np.concatenate([[low], edges, [high]]).astype(grid.dtype))
        edges = with_tails(edges, grid)
    least, most = bounds(found)
    inside = edges[(edges >= least) & (edges <= most)]
    if len(inside) < 2:
        inside = np.array([max(least, 0), max(least, 0) + 1], dtype=grid.dtype)
    return with_values_left(inside, values.tolist())


def wide_grid(kind: str) -> np.ndarray:
    """A bin a decade, for what nothing is known of."""
    if kind in ("date", "datetime"):
        return coarse_grid(kind)[::10]
    decades = 10.0 ** np.arange(-2 if kind == "number" else 0, 10)
    grid = np.concatenate([-decades[::-1], [0.0], decades])
    return grid if kind == "number" else grid.astype(np.int64)


def written(kind: str, units: np.ndarray, *, end: bool = False) -> list[Any]:
    """Units as a domain file has them; `end`: the last is an edge, and inclusive there."""
    if kind == "number":
        return units.astype(np.float64).tolist()
    units = units.astype(np.int64)
    if end:
        units = np.concatenate([units[:-1], units[-1:] - 1])
    if kind == "integer":
        return units.tolist()
    moments = pa.array(units, pa.int64())
    days = moments.cast(pa.int32()).cast(pa.date32()) if kind == "date" else moments.cast(pa.timestamp("us"))
    return [moment.isoformat() for moment in days.to_pylist()]
