"""Offer: which views a round may choose, and whose scores are stale. Public facts about the trees and past measurements only."""

from __future__ import annotations

import numpy as np

from factored_mwem.candidates import Candidates
from factored_mwem.estimate import Estimate
from factored_mwem.forest import Forest
from factored_mwem.kernels.tree import CELLS, joined_cells
from factored_mwem.levels import View
from factored_mwem.tree import CliqueTree, chained

MOST = 2**15
"""Most views offered in a round: where there are more, rounds take turns with every second, third, ... of them."""


class Offer:
    """The views whose trees would stay within `max_cells`, all trees together."""

    def __init__(self, views: Candidates, max_cells: int) -> None:
        self.views, self.max_cells = views, max_cells
        self._members = views.members.astype(np.int64)
        self._logs = np.log2(views.levels.sizes.astype(np.float64))
        self._cells = np.zeros(len(views))
        self._trees: set[CliqueTree] = set()
        self._stale = np.ones(len(views), dtype=bool)

    def open(self, estimate: Estimate) -> np.ndarray:
        """int64[k]: the views that fit. What they touch is triangulated with them; that changes only with the trees."""
        forest = estimate.forest
        parts = forest.components_by_id
        new = [id_ for id_, part in parts.items() if part.tree not in self._trees]
        self._trees = {part.tree for part in parts.values()}
        part_of = np.append(forest.part_of, -1)[self.views.attributes]
        touched = np.flatnonzero(np.isin(part_of, new).any(axis=1))
        cells = np.zeros(max(parts) + 2)
        cells[list(parts)] = [sum(part.tree.cells) for part in parts.values()]
        ids = np.sort(part_of, axis=1)
        first = np.ones(ids.shape, dtype=bool)
        first[:, 1:] = ids[:, 1:] != ids[:, :-1]
        own = np.where(first, cells[ids], 0.0).sum(axis=1)
        if len(touched):
            self._cells[touched] = self._joined(estimate, touched)
        return np.flatnonzero((cells.sum() - own + self._cells <= self.max_cells) | (self._cells <= own * (1 + 1e-9)))

    def _joined(self, estimate: Estimate, touched: np.ndarray) -> np.ndarray:
        """float64[view]: cells of the trees that measuring each of `touched` would make of those it lies in."""
        forest, levels = estimate.forest, self.views.levels
        words = (len(levels) + 63) // 64
        graph, masks = np.zeros((len(levels), words), dtype=np.uint64), np.zeros((max(forest.components_by_id) + 1, words), dtype=np.uint64)
        used = np.zeros(len(levels), dtype=bool)
        pairs = set()
        for m in estimate.measurements:
            used[list(m.positions)] = True
            pairs |= {(u, v) for u in m.positions for v in m.positions if u != v}
        for v in np.flatnonzero(used).tolist():
            masks[forest.part_of[levels.attribute[v]], v >> 6] |= np.uint64(1 << (v & 63))
        for u, v in pairs | chained(levels, np.flatnonzero(used).tolist()):
            graph[u, v >> 6] |= np.uint64(1 << (v & 63))
        out, cliques = np.zeros(len(touched)), np.zeros_like(graph)
        attributes, part_of = levels.attribute, forest.part_of
        chain = levels.coarser, levels.finer
        joined_cells(graph, used, masks, part_of, *chain, attributes, self._logs, self._members[touched], CELLS, cliques, out)
        return out

    def slice(self, offered: np.ndarray, round_: int) -> np.ndarray:
        """This round's share of `offered`."""
        turns = -(-len(offered) // MOST)
        return offered[round_ % turns :: turns] if turns > 1 else offered

    def stale(self, offered: np.ndarray) -> np.ndarray:
        """int64[k]: the bases to score again so that every view in `offered` has a fresh score; calling this marks them fresh."""
        bases = np.unique(self.views.base_of[offered])
        bases = bases[self._stale[bases]]
        self._stale[bases] = False
        return bases

    def measured(self, view: View, forest: Forest) -> None:
        """Note a measurement: whatever touches its component is stale."""
        changed = np.zeros(len(forest.part_of) + 1, dtype=bool)
        id_ = int(forest.part_of[self.views.levels.attribute[view[0]]])
        changed[list(forest.components_by_id[id_].attributes)] = True
        self._stale |= changed[self.views.attributes].any(axis=1)
