"""Which candidates a round may choose, and whose scores are stale: public facts of model and measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from factored_mwem.domain.levels import View
from factored_mwem.kernels.graph import CELLS, Graph, Variables, joined_cells
from factored_mwem.model.clique_tree import CliqueTree, chained
from factored_mwem.model.dense import ProductModel
from factored_mwem.model.estimation import Estimate
from factored_mwem.model.forest import Forest
from factored_mwem.workload.candidates import Candidates, over_components

MAX_TURN, MIN_TURN, MAX_WORK = 2**14, 2**10, 1.5e7
"""Views that a round looks at, at most: MAX_WORK over the square of the largest component's attributes,
between MIN_TURN and MAX_TURN. Where there are more, rounds take turns. A round then takes some tenths of a
second, and OpenDP's selection less than a tenth.
"""

FEW = 100
"""Views for which a second thread would only cost."""
AT_ONCE, SELDOM = 3e6, 8
"""An answer that takes so many operations is made anew in every round, one of twice as many in every other,
and so on; any at least once in so many rounds. On Adult at epsilon 10 a tenth of the answers took nine tenths
of the time, and few of these moved by more than the noise of a selection.
"""


class FittingViews:
    """The views whose trees would stay within `max_cells`, all trees together. Those of more than `at_once`
    cells are offered once a coarser view of their attributes is measured: before that noise would drown them.
    """

    def __init__(self, views: Candidates, max_cells: int, at_once: float = math.inf) -> None:
        self.views, self.max_cells = views, max_cells
        self._offered = views.cells <= at_once
        self._members = views.members.astype(np.int64)
        self._logs = np.log2(views.levels.sizes.astype(np.float64))
        self._cells = np.zeros(len(views))
        self._unsized = np.ones(len(views), dtype=bool)
        self._exact = np.zeros(len(views), dtype=bool)
        self._stale, self._must = np.ones(len(views), dtype=bool), np.ones(len(views), dtype=bool)
        self._waited, self._components = np.zeros(len(views), dtype=np.int64), 0
        self._trees: dict[int, CliqueTree] = {}
        self._stride, self._next = _coprime(len(views)), 0

    def which(self, estimate: Estimate) -> np.ndarray:
        """int64[k]: the views that fit. Where there are many, each round looks at a part of them, its turn;
        if none of it fits, at the next.
        """
        largest = max(len(part.attributes) for part in estimate.forest.components)
        size = int(min(MAX_TURN, max(MIN_TURN, MAX_WORK / largest**2)))
        count = len(self.views)
        for _ in range(-(-count // size)):
            turn = (
                np.arange(count) if count <= size else (self._next + np.arange(size)) * self._stride % count
            )
            self._next += size
            found = self._fitting(estimate, np.sort(turn[self._offered[turn]]))
            if len(found):
                break
        return found

    def _fitting(self, estimate: Estimate, turn: np.ndarray) -> np.ndarray:
        """The views of a turn that fit: bounded by every clique touched, counted where that is too much."""
        forest = estimate.forest
        parts = forest.components_by_id
        self._unsized |= self._holding(
            [
                a
                for id_, part in parts.items()
                if self._trees.get(id_) is not part.tree
                for a in part.attributes
            ]
        )
        self._trees = {id_: part.tree for id_, part in parts.items()}
        cells = np.zeros(max(parts) + 2)
        cells[list(parts)] = [sum(part.tree.cells) for part in parts.values()]
        own = over_components(np.append(forest.part_of, -1)[self.views.attributes[turn]], cells)
        fresh = self._unsized[turn]
        self._cells[turn[fresh]], self._exact[turn[fresh]], self._unsized[turn] = (
            (own * self.views.cells[turn])[fresh],
            False,
            False,
        )
        most = self.max_cells - cells.sum() + own
        doubtful = turn[(self._cells[turn] > most) & ~self._exact[turn]]
        if len(doubtful):
            above = max(float(self.max_cells), 2 * own.max())  # more fit in no round, so are not told
            self._cells[doubtful], self._exact[doubtful] = self._joined(estimate, doubtful, above), True
        return turn[(self._cells[turn] <= most) | (self._cells[turn] <= own * (1 + 1e-9))]

    def _holding(self, attributes: Sequence[int]) -> np.ndarray:
        """bool[view]: whether it holds one of these attributes."""
        changed = np.zeros(len(self.views.levels.shape) + 1, dtype=bool)
        changed[list(attributes)] = True
        found = changed[self.views.attributes[:, 0]]
        for slot in range(1, self.views.attributes.shape[1]):
            found |= changed[self.views.attributes[:, slot]]
        return found

    def _joined(self, estimate: Estimate, touched: np.ndarray, above: float = math.inf) -> np.ndarray:
        """float64[view]: cells of the trees that measuring each of `touched` would make of theirs; some
        number above `above` if there are more.
        """
        forest, levels = estimate.forest, self.views.levels
        words = (len(levels) + 63) // 64
        graph, masks = (
            np.zeros((len(levels), words), dtype=np.uint64),
            np.zeros((max(forest.components_by_id) + 1, words), dtype=np.uint64),
        )
        used = np.zeros(len(levels), dtype=bool)
        pairs = set()
        for m in estimate.measurements:
            used[list(m.positions)] = True
            pairs |= {(u, v) for u in m.positions for v in m.positions if u != v}
        for view in estimate.zeros:
            used[list(view)] = True
            pairs |= {(u, v) for u in view for v in view if u != v}
        for v in np.flatnonzero(used).tolist():
            masks[forest.part_of[levels.attribute[v]], v >> 6] |= np.uint64(1 << (v & 63))
        for u, v in pairs | chained(levels, np.flatnonzero(used).tolist()):
            graph[u, v >> 6] |= np.uint64(1 << (v & 63))
        out, members = np.zeros(len(touched)), self._members[touched]
        variables = Variables(levels.attribute, levels.coarser, levels.finer, self._logs)
        measured = Graph(graph, used, masks, forest.part_of)

        def count(rows: np.ndarray) -> None:
            cells = np.zeros(len(rows))
            joined_cells(measured, variables, members[rows], CELLS, above, np.zeros_like(graph), cells)
            out[rows] = cells

        workers = 2 if len(touched) > FEW else 1
        with ThreadPoolExecutor(max_workers=workers) as pool:  # every other view: neighbours take as long
            list(pool.map(count, [np.arange(len(touched))[first::workers] for first in range(workers)]))
        return out

    def stale(self, offered: np.ndarray) -> np.ndarray:
        """int64[k]: the bases whose answers the views in `offered` need and which may have moved."""
        needed = np.zeros(len(self.views), dtype=bool)
        needed[self.views.base_of[offered]] = True
        return np.flatnonzero(needed & self._stale)

    def due(self, stale: np.ndarray, work: np.ndarray) -> np.ndarray:
        """int64[k]: those of the `stale` bases to score again now, which this marks fresh; `work:
        float64[k]`: the operations that the answer to each takes. The others keep their scores, which are
        distances to what the model answered before: as public as what it would answer now.
        """
        self._waited[stale] += 1
        now = self._waited[stale] >= np.minimum(work / AT_ONCE, SELDOM)
        fresh = stale[now | self._must[stale]]
        self._stale[fresh], self._must[fresh], self._waited[fresh] = False, False, 0
        return fresh

    def measured(self, view: View, forest: Forest) -> None:
        """Note a measurement: whatever touches its component is stale, and must not wait if it shares two
        attributes with the view or the component has grown; finer views of it are offered.
        """
        own = self.views.levels.attribute[list(view)]
        stale = self._holding(forest.components_by_id[int(forest.part_of[own[0]])].attributes)
        self._stale |= stale
        if len(forest.components_by_id) == self._components:
            touched = np.flatnonzero(stale)
            stale[touched] = np.isin(self.views.attributes[touched], own).sum(axis=1) > 1
        self._must |= stale
        self._components = len(forest.components_by_id)
        later = np.flatnonzero(~self._offered)
        self._offered[later] = np.isin(self.views.attributes[later], [-1, *own.tolist()]).all(axis=1)

    def all_stale(self) -> None:
        """Note that what scores are compared with has changed."""
        self._stale[:] = self._must[:] = True


def _coprime(count: int) -> int:
    """A stride near the golden section that visits all of `count` places: neighbouring views are alike."""
    stride = max(int(count * 0.618), 1)
    while math.gcd(stride, count) > 1:
        stride -= 1
    return stride


def worthwhile(offered: np.ndarray, noise: np.ndarray, total: float) -> np.ndarray:
    """The candidates whose expected noise stays below 2 n, the largest error; all where none does."""
    useful = offered[noise <= 2 * total]
    return useful if len(useful) else offered


class UnmeasuredMarginals:
    """Marginals not measured whose merged component fits `max_cells`; once all were, all that fit again."""

    def __init__(self, candidates: Candidates, max_cells: int, measured: Set[tuple[int, ...]]) -> None:
        self._candidates, self._limit = candidates, np.log2(max_cells) + 1e-9
        self._measured = np.zeros(len(candidates), dtype=bool)
        orders = np.array(sorted({len(positions) for positions in measured}))
        for c in np.flatnonzero(np.isin(candidates.orders, orders)):
            self._measured[c] = candidates.positions(int(c)) in measured
        self._stale = np.ones(len(candidates), dtype=bool)
        self._fits = np.ones(len(candidates), dtype=bool)

    def which(self, model: ProductModel) -> np.ndarray:
        """int64[k]: the candidates of a round."""
        touched = np.flatnonzero(self._stale)  # no other's components have changed
        self._fits[touched] = _merged_size(self._candidates.members[touched], model) <= self._limit
        left = np.flatnonzero(self._fits & ~self._measured)
        if not len(left):
            self._measured[:] = False
            left = np.flatnonzero(self._fits)
        return left

    def stale(self) -> np.ndarray:
        """int64[k]: candidates to score again, which this marks fresh; none that no longer fits."""
        which = np.flatnonzero(self._stale & self._fits)
        self._stale[which] = False
        return which

    def measured(self, candidate: int, model: ProductModel, *, everything: bool) -> None:
        """Note a measurement: not offered again; its component's scores (or `everything`) are stale."""
        self._measured[candidate] = True
        changed = np.zeros(len(model.domain) + 1, dtype=bool)
        changed[list(model.factor(self._candidates.positions(candidate)[0]).positions)] = True
        self._stale |= True if everything else changed[self._candidates.members].any(axis=1)


def _merged_size(members: np.ndarray, model: ProductModel) -> np.ndarray:
    """float64[candidate]: log2 of the cells of the component that measuring each of `members` would make."""
    size_of = np.zeros(max(model.factors) + 2)  # a last entry stands for padding, -1
    for id_, factor in model.factors.items():
        size_of[id_] = np.log2(np.array(factor.shape, dtype=np.float64)).sum()
    return over_components(np.append(model.factor_of, -1)[members], size_of)
