"""A clique tree and the views inside it, as arrays for the kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from factored_mwem.domain.levels import View
from factored_mwem.kernels.tree import TreeArrays
from factored_mwem.model.clique_tree import CliqueTree


def lay_out(tree: CliqueTree, views: Sequence[View]) -> TreeArrays:
    """`views`: the measured ones; each is laid out on the smallest clique that fixes it."""
    parts: list[np.ndarray] = []
    end = 0

    def place(clique: int, view: View) -> tuple[int, int]:
        nonlocal end
        head, tail = tree.index(clique, view)
        parts.extend((head, tail))
        end += len(head) + len(tail)
        return end - len(head) - len(tail), end - len(tail)

    starts = np.concatenate([[0], np.cumsum(tree.cells)]).astype(np.int64)
    shape = [[int(tree.levels.sizes[v]) for v in clique] for clique in tree.cliques]
    heads = [int(np.prod(sizes[: tree.split(k)], dtype=np.int64)) for k, sizes in enumerate(shape)]
    cliques = np.array(
        [(starts[k], heads[k], tree.cells[k] // heads[k]) for k in range(len(heads))], dtype=np.int64
    )
    edges, at = [], 0
    for child, parent, separator in tree.edges:
        cells = tree.levels.cells(separator)
        edges.append((child, parent, at, cells, *place(child, separator), *place(parent, separator)))
        at += cells
    tables, at = [], 0
    for view in views:
        home = tree.clique_of(view)
        assert home is not None, "a measured view lies in no clique"
        tables.append((home, *place(home, view), at, tree.levels.cells(view)))
        at += tables[-1][-1]
    return TreeArrays(
        cliques,
        np.array(edges, dtype=np.int64).reshape(-1, 8),
        np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64),
        np.array(tables, dtype=np.int64).reshape(-1, 5),
    )
