"""The construction over the product's clique trees: for domains that no vector can hold.

A step multiplies the density by one factor for each cell of a cut. Where one clique fixes the cut, that
clique takes the factors and tells the others (calibration); where none does, the trees it touches become one
whose cliques hold it. Either way the result is exactly what the same step makes of the vector of all cells
(Hardt, Ligett, McSherry 2012, section 3.2; Koller, Friedman 2009, 10.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from factored_mwem.answers.terms import fixes
from factored_mwem.domain.levels import Levels, View
from factored_mwem.kernels.dense import FLOOR, marginal_into, multiply_into
from factored_mwem.kernels.tree import (
    CELLS,
    CHILD,
    HEAD,
    PARENT,
    PARENT_HEAD,
    PARENT_TAIL,
    START,
    TAIL,
    Beliefs,
)
from factored_mwem.model.clique_tree import CliqueTree, halves
from factored_mwem.model.corrections import shrunk
from factored_mwem.model.forest import Component, Forest
from factored_mwem.privacy.other.cuts import TableCut
from factored_mwem.sessions.online.constructions import WeightedConstruction
from factored_mwem.sessions.online.question import NOBODY, CountQuestion

MAX_CELLS = 2**20
"""Most cells of all cliques of all trees: twice a release's default."""
LEAST_SHARE = 1e-9
"""Smallest share of the records in a cell: an answer never lowers a cell below it, because a weight of zero
could never rise again.
"""


class Factored(WeightedConstruction):
    """A forest of clique trees that answers questions and is updated in place by measurements. Its bound is
    infinite if the start gives a cell the weight zero.
    """

    def __init__(self, forest: Forest, alpha: float, *, max_cells: int = MAX_CELLS) -> None:
        """`forest`: the start, which is not changed; `alpha`: the level, in records, for which the step of
        `update` is made; `max_cells`: the most cells of all cliques.
        """
        self.forest = Forest(forest.levels, forest.components, forest.total)
        self.forest.corrections = forest.corrections
        self.max_cells = max_cells
        super().__init__(forest.total, alpha, sum(map(_most_surprise, forest.components)))

    @classmethod
    def uniform(
        cls, shape: Sequence[int], total: float, alpha: float, *, max_cells: int = MAX_CELLS
    ) -> Factored:
        """Begins with `total` records spread evenly over all cells of a domain of this `shape`."""
        levels = Levels.fine(shape)
        parts = [
            Component.of(CliqueTree(levels, ((a,),), ()), np.full(size, 1.0 / size))
            for a, size in enumerate(levels.shape)
        ]
        return cls(Forest(levels, parts, total), alpha, max_cells=max_cells)

    def answers(self, question: CountQuestion) -> np.ndarray:
        """float64[group]: q(D^t) of each group of a question, in records."""
        return question.terms.of_forest(self.forest)

    def answer(self, question: CountQuestion) -> float:
        """q(D^t), in records, of a question that is one count."""
        (count,) = self.answers(question).tolist()
        return float(count)

    def update(self, question: CountQuestion, value: float) -> None:
        """The papers' step for one count, as in `MultiplicativeWeights`. No step is made if its clique would
        exceed the cell cap, or if the question counts all records, or none.
        """
        if not question.cut.positions or NOBODY in question.wanted:
            return
        cells = np.ones(math.prod(question.cut.sizes))
        cells[question.wanted] = math.exp(-self.step if value < self.answer(question) else self.step)
        self._multiply(question.cut, cells)

    def learn(self, cut: TableCut, noisy: np.ndarray, stddev: float) -> bool:
        """Rake the model to noisy counts of all cells of a cut, `noisy: int64[cell]`, each shrunk towards the
        model's count by the share of noise in it. Returns whether the cell cap allowed it.
        """
        if not cut.positions:
            return True
        if not self._hold(cut):
            return False
        now = self.cells(cut)
        return self._multiply(cut, self._ratio(now, shrunk(now, noisy, stddev)))

    def learn_one(self, cut: TableCut, cell: int, noisy: float, stddev: float) -> bool:
        """Rake the model to the noisy count of one cell of a cut; the other cells keep their proportions.
        Returns whether the cell cap allowed it.
        """
        if not cut.positions:
            return True
        if not self._hold(cut):
            return False
        inside = float(self.cells(cut)[cell])
        now = np.array([inside, self.total - inside])
        ratio = self._ratio(now, shrunk(now, np.array([noisy, self.total - noisy]), stddev))
        factors = np.full(cut.cells, ratio[1])
        factors[cell] = ratio[0]
        return self._multiply(cut, factors)

    def holds(self, cut: TableCut) -> bool:
        """Whether one clique fixes a cut already."""
        return not cut.positions or self.forest.holds(view_of(self.forest.levels, cut))

    def cells(self, cut: TableCut) -> np.ndarray:
        """float64[cell]: the trees' own counts of a cut, in records; one clique must fix it."""
        part, clique, head, tail = self._place(cut)
        out = np.zeros(cut.cells)
        marginal_into(part.table(clique), head, tail, out)
        return out * self.total

    def _ratio(self, now: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """float64[cell]: the factors that turn the counts `now` into those `wanted`; 1 where `now` is 0."""
        wanted = np.maximum(wanted, LEAST_SHARE * self.total)
        return np.divide(wanted, now, out=np.ones_like(now), where=now > 0)

    def _multiply(self, cut: TableCut, factors: np.ndarray) -> bool:
        """Multiply the density by `factors: float64[cell]`, and normalise; whether the cap allowed it."""
        if not self._hold(cut):
            return False
        part, clique, head, tail = self._place(cut)
        beliefs = Beliefs(part.beliefs.cliques.copy(), part.beliefs.separators.copy())
        changed = part.with_beliefs(beliefs, part.layout)
        table = changed.table(clique)
        multiply_into(table, head, tail, np.ascontiguousarray(factors))
        table /= table.sum()
        _tell(changed, clique)
        self.forest.replace(changed)
        return True

    def _place(self, cut: TableCut) -> tuple[Component, int, np.ndarray, np.ndarray]:
        """(component, clique, head and tail of the map from its cells to those of the cut)."""
        view = view_of(self.forest.levels, cut)
        part = self.forest.components_by_id[int(self.forest.part_of[self.forest.levels.attribute[view[0]]])]
        clique = part.tree.clique_of(view)
        assert clique is not None, "no clique fixes the cut"
        return part, clique, *halves(_steps(self.forest.levels, part.tree.cliques[clique], cut))

    def _hold(self, cut: TableCut) -> bool:
        """Make one clique fix the cut and include the corrections inside it; returns whether the cap allows
        it.
        """
        forest, view = self.forest, view_of(self.forest.levels, cut)
        ids = {int(forest.part_of[forest.levels.attribute[v]]) for v in view}
        parts = [forest.components_by_id[id_] for id_ in ids]
        if len(parts) > 1 or parts[0].tree.clique_of(view) is None:
            views = [clique for part in parts for clique in part.tree.cliques]
            tree = CliqueTree.of(forest.levels, [*views, view])
            others = forest.cells - sum(sum(part.tree.cells) for part in parts)
            if others + sum(tree.cells) > self.max_cells:
                return False
            thetas = [theta for part in parts for theta in _conditionals(part)]
            thetas.append(np.zeros(forest.levels.cells(view)))
            forest.replace(Component.log_linear(tree, [*views, view], np.concatenate(thetas)))
        self._absorb(view)
        return True

    def _absorb(self, view: View) -> None:
        """Rake the trees to their own corrected answer to `view`, so that they give it without a correction
        from now on.
        """
        if not self.forest.corrections:
            return
        levels, corrected = self.forest.levels, self.forest.marginal(view)
        inside, self.forest.corrections = self.forest.corrections.apart(view)
        if inside:
            cut = TableCut(
                tuple(levels.attribute[list(view)].tolist()), tuple(levels.groups[v] for v in view)
            )
            self._multiply(cut, self._ratio(self.cells(cut), corrected))


def view_of(levels: Levels, cut: TableCut) -> View:
    """The coarsest variables that fix a cut."""
    return tuple(
        next(v for v in reversed(levels.chains[a]) if fixes(levels, v, classes[None].astype(np.float64)))
        for a, classes in zip(cut.positions, cut.classes, strict=True)
    )


def _steps(levels: Levels, clique: View, cut: TableCut) -> list[np.ndarray]:
    """For each axis of a clique, what its codes add to the cell of a cut that it fixes."""
    steps, stride = [np.zeros(int(levels.sizes[u]), dtype=np.int64) for u in clique], 1
    for a, classes, size in reversed(list(zip(cut.positions, cut.classes, cut.sizes, strict=True))):
        axis = next(j for j, u in enumerate(clique) if levels.attribute[u] == a)
        of_group = np.zeros(int(levels.sizes[clique[axis]]), dtype=np.int64)
        of_group[levels.groups[clique[axis]]] = classes
        steps[axis] = of_group * stride
        stride *= size
    return steps


def _tell(part: Component, clique: int) -> None:
    """Propagate a change in one clique of calibrated beliefs to all others; in place."""
    waiting, reached = [clique], {clique}
    edges = part.layout.edges
    for sender in waiting:
        for edge in edges[(edges[:, CHILD] == sender) | (edges[:, PARENT] == sender)]:
            ends = (
                (edge[CHILD], edge[HEAD], edge[TAIL]),
                (edge[PARENT], edge[PARENT_HEAD], edge[PARENT_TAIL]),
            )
            mine, other = ends if edge[CHILD] == sender else ends[::-1]
            if int(other[0]) in reached:
                continue
            fresh = np.zeros(edge[CELLS])
            marginal_into(part.table(sender), *_map(part, *mine), fresh)
            old = part.beliefs.separators[edge[START] : edge[START] + edge[CELLS]]
            ratio = np.divide(fresh, old, out=np.zeros_like(fresh), where=old > 0)
            multiply_into(part.table(int(other[0])), *_map(part, *other), ratio)
            old[:] = np.where(old > 0, np.maximum(fresh, FLOOR), old)
            reached.add(int(other[0]))
            waiting.append(int(other[0]))


def _map(part: Component, clique: int, head: int, tail: int) -> tuple[np.ndarray, np.ndarray]:
    """(head, tail) of a map that the layout of a component holds."""
    _, heads, tails = part.layout.cliques[clique]
    return part.layout.maps[head : head + heads], part.layout.maps[tail : tail + tails]


def _conditionals(part: Component) -> list[np.ndarray]:
    """float64[cells] of each clique: log of its distribution given its separator, so that all of them add up
    to the log of the density; -inf where it is 0.
    """
    logs_of = []
    of_child = {int(edge[CHILD]): edge for edge in part.layout.edges}
    for k in range(len(part.tree.cliques)):
        table = part.table(k)
        with np.errstate(divide="ignore"):
            logs = np.log(table)
            if k in of_child:
                edge = of_child[k]
                head, tail = _map(part, k, edge[HEAD], edge[TAIL])
                mass = part.beliefs.separators[edge[START] : edge[START] + edge[CELLS]]
                separator = np.log(mass)[(head[:, None] + tail[None, :]).ravel()]
                logs = np.where(table > 0, logs - np.where(table > 0, separator, 0.0), -np.inf)
        logs_of.append(logs)
    return logs_of


def _most_surprise(part: Component) -> float:
    """The largest negative log probability, in nats, of a row in a component; infinite if a row has
    probability zero.
    """
    return float(sum(-logs.min() for logs in _conditionals(part)))
