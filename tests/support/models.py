"""Clique trees beside the oracle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.naive import Variable

from factored_mwem.domain.levels import Levels, View
from factored_mwem.model.forest import Component

TOLERANCE = 1e-10


def named(levels: Levels, view: View) -> list[Variable]:
    """A view as the oracle knows it."""
    return [(int(levels.attribute[v]), levels.groups[v].tolist()) for v in view]


def close(found: np.ndarray, expected: Sequence[float]) -> None:
    worst = float(np.abs(np.asarray(found) - np.asarray(expected)).max())
    assert len(found) == len(expected) and worst <= TOLERANCE


def clique_table(part: Component, clique: int, view: View) -> np.ndarray:
    """A clique's marginal over what it fixes, by numpy alone."""
    levels, axes = part.tree.levels, part.tree.cliques[clique]
    table = part.table(clique).reshape([int(levels.sizes[v]) for v in axes])
    cell = np.zeros(table.shape, dtype=np.int64)
    for v in view:
        at = next(i for i, u in enumerate(axes) if levels.attribute[u] == levels.attribute[v])
        codes = np.array(
            [
                next(int(levels.groups[v][c]) for c in np.flatnonzero(levels.groups[axes[at]] == x))
                for x in range(table.shape[at])
            ]
        )
        cell = cell * int(levels.sizes[v]) + codes.reshape([-1 if i == at else 1 for i in range(table.ndim)])
    return np.bincount(cell.ravel(), table.ravel(), minlength=levels.cells(view))


def check_agreement(part: Component) -> None:
    for k in range(len(part.tree.cliques)):
        assert part.table(k).sum() == pytest.approx(1, abs=1e-12)
    for (child, parent, separator), (*_, at, cells, _, _, _, _) in zip(
        part.tree.edges, part.layout.edges.tolist(), strict=True
    ):
        close(clique_table(part, child, separator), clique_table(part, parent, separator).tolist())
        close(part.beliefs.separators[at : at + cells], clique_table(part, child, separator).tolist())
