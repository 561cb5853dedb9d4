"""Evidence: rows of a forest given codes of some attributes, exactly, wherever in its trees these lie."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from factored_mwem.domain.levels import Levels
from factored_mwem.kernels.evidence import COUNT, EvidenceTree, Ties, Weighing, draw_given
from factored_mwem.model.clique_tree import grid
from factored_mwem.model.drawing import conditional
from factored_mwem.model.forest import Component, Forest

NO_MAP = np.zeros(0, dtype=np.int64)
UNWEIGHED = Weighing(-1, NO_MAP, np.zeros((0, 0)))
Tied = Mapping[int, tuple[np.ndarray, np.ndarray]]
"""By attribute (int64[row]: a code, or -1; bool[row]: whether the row has it, or any but it)."""
NOT_TIED: Tied = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class CliqueAxis:
    """A variable of a clique: its attribute, what one code adds to the clique's cell, how many there are, and
    its code for each of the attribute's, `lookup: int64[code]`.
    """

    attribute: int
    own: bool
    stride: int
    size: int
    lookup: np.ndarray


class EvidenceDrawing:
    """A forest laid out for drawing rows of which any codes are given. Threads may share it.

    A row takes one pass over the cells that the evidence leaves possible, in the cliques between its
    attributes. So this is meant for some tens of thousands of cells, not for the millions of a large model.
    """

    def __init__(self, model: Forest) -> None:
        self._trees = [_Tree(part) for part in model.components]
        self._tree_of = {a: tree for tree in self._trees for a in tree.attributes}

    def codes_given(
        self,
        rows: int,
        evidence: Mapping[int, np.ndarray],
        rng: np.random.Generator,
        weights: tuple[int, np.ndarray] | None = None,
        lost: np.ndarray | None = None,
        tied: Tied = NOT_TIED,
    ) -> list[np.ndarray]:
        """int64[row] per attribute: rows drawn independently of each other, given `evidence`, the codes
        int64[row] of some attributes. `weights`: an attribute, and the factor on the probability of each of
        its codes in each row, float64[row, code]. `tied`: what other attributes must be, or must not be.

        If a component's part of the evidence has probability zero in the model, it is ignored: the rest of
        that component is drawn without it. `lost: bool[row]` is set in these rows.
        """
        codes: list[np.ndarray] = [NO_MAP] * len(self._tree_of)
        for tree in self._trees:
            own = {a: evidence[a] for a in tree.attributes if a in evidence}
            soft = weights if weights is not None and weights[0] in tree.attributes else None
            bound = {a: tie for a, tie in tied.items() if a in tree.attributes}
            for a, drawn in tree.drawn(rows, own, rng, soft, bound, lost).items():
                codes[a] = evidence.get(a, drawn)
        return codes

    def cells_given(self, given: Collection[int]) -> int:
        """How many cells a row takes that is drawn given codes of these attributes."""
        return sum(tree.cells_given(given) for tree in self._trees)


class _Tree:
    """A component, and the cells that each set of attributes with evidence leaves possible."""

    def __init__(self, part: Component) -> None:
        self.attributes, self._levels = set(part.attributes), part.tree.levels
        cliques, edges = part.tree.cliques, {child: (p, view) for child, p, view in part.tree.edges}
        self._axes = [list(_axes(self._levels, clique)) for clique in cliques]
        self._parents = [edges[k][0] if k else -1 for k in range(len(cliques))]
        attribute = self._levels.attribute
        self._between = [
            {int(attribute[v]) for v in edges[k][1]} if k else set() for k in range(len(cliques))
        ]
        self._homes = {
            axis.attribute: (k, axis) for k, axes in enumerate(self._axes) for axis in axes if axis.own
        }
        maps: list[np.ndarray] = [NO_MAP]
        inverse, orders, ends, firsts = [NO_MAP.astype(float)], [NO_MAP], [NO_MAP.astype(float)], [NO_MAP]
        rows = []
        for k, cells in enumerate(part.tree.cells):
            view = edges[k][1] if k else ()
            up = grid(part.tree.steps(k, view)) if k else np.zeros(cells, dtype=np.int64)
            down = grid(part.tree.steps(edges[k][0], view)) if k else NO_MAP
            table, groups = part.table(k), self._levels.cells(view)
            separator = np.bincount(up, table, minlength=groups)
            inside = conditional(table, up, groups)
            at = [sum(map(len, each)) for each in (inverse, maps, orders, firsts)]
            begin = sum(part.tree.cells[:k])
            rows.append([begin, 0, 0, self._parents[k], at[0], at[1], at[1] + len(up), 0, at[2], at[3]])
            with np.errstate(divide="ignore"):
                inverse.append(np.where(separator > 0, 1 / separator, 0.0))
            maps += [up, down]
            orders.append(inside.cells)
            ends.append(inside.ends)
            firsts.append(inside.first)
        self._arrays = EvidenceTree(
            np.array(rows, dtype=np.int64),
            NO_MAP,
            np.concatenate(maps),
            np.concatenate([part.table(k) for k in range(len(cliques))]),
            np.concatenate(inverse),
            np.concatenate(orders),
            np.concatenate(ends),
            np.concatenate(firsts),
            NO_MAP,
            NO_MAP,
        )
        self._patterns: dict[frozenset[int], EvidenceTree] = {}

    def drawn(
        self,
        rows: int,
        evidence: Mapping[int, np.ndarray],
        rng: np.random.Generator,
        weights: tuple[int, np.ndarray] | None,
        tied: Tied,
        lost: np.ndarray | None,
    ) -> dict[int, np.ndarray]:
        """int64[row] of each attribute of the component."""
        soft = frozenset(tied) | ({weights[0]} if weights is not None else set())
        tree = self._pattern(frozenset(evidence), soft)
        base = np.zeros((rows, len(self._axes)), dtype=np.int64)
        for k, axes in enumerate(self._axes):
            for axis in axes:
                if axis.attribute in evidence:
                    base[:, k] += axis.lookup[evidence[axis.attribute]] * axis.stride
        order = self._alike_first(tree, base)
        base = base[order]
        cells, luck = np.empty_like(base), rng.random(base.shape)
        weighing = UNWEIGHED
        if weights is not None:
            home, axis = self._homes[weights[0]]
            code_of = np.arange(self._cells(home)) // axis.stride % axis.size
            weighing = Weighing(home, code_of, np.ascontiguousarray(weights[1][order]))
        tied = {a: (codes[order], alike[order]) for a, (codes, alike) in tied.items()}
        if draw_given(tree, base, weighing, self._ties(tied, rows), luck, cells):
            failed = np.flatnonzero(cells[:, 0] < 0)
            if lost is not None:
                lost[order[failed]] = True
            free, none = self._pattern(frozenset()), np.zeros((len(failed), base.shape[1]), np.int64)
            again = np.empty_like(none)
            untied = self._ties({}, len(failed))
            draw_given(free, none, UNWEIGHED, untied, rng.random(none.shape), again)
            cells[failed] = again
        back = np.empty_like(order)
        back[order] = np.arange(rows)
        return {a: (cells[:, k] // axis.stride % axis.size)[back] for a, (k, axis) in self._homes.items()}

    def _alike_first(self, tree: EvidenceTree, base: np.ndarray) -> np.ndarray:
        """int64[row]: the rows in an order in which those with the same evidence in costly cliques, of which
        there are few kinds, follow each other.
        """
        free = tree.cliques[:, COUNT]
        kinds = {k: self._cells(k) // int(free[k]) for k in np.flatnonzero(free > 1).tolist()}
        keys = sorted((k for k in kinds if kinds[k] > 1), key=lambda k: kinds[k])
        return np.lexsort([base[:, k] for k in keys[::-1]]) if keys else np.arange(len(base))

    def cells_given(self, given: Collection[int]) -> int:
        """Those of cliques that something given lies in or below, as far as it leaves them free."""
        return int(self._pattern(frozenset(self.attributes.intersection(given))).cliques[:, COUNT].sum())

    def _cells(self, clique: int) -> int:
        return int(np.prod([axis.size for axis in self._axes[clique]], dtype=np.int64))

    def _ties(self, tied: Tied, rows: int) -> Ties:
        """By clique, each in the home of its attribute."""
        homes = [(*self._homes[a], *tie) for a, tie in tied.items()]
        homes = sorted(homes, key=lambda each: each[0])
        first = np.searchsorted([home for home, *_ in homes], np.arange(len(self._axes) + 1))
        code, alike = np.full((rows, len(homes)), -1), np.zeros((rows, len(homes)), dtype=np.int64)
        for j, (_, _, codes, same) in enumerate(homes):
            code[:, j], alike[:, j] = codes, same
        strides = np.array([axis.stride for _, axis, *_ in homes], dtype=np.int64)
        sizes = np.array([axis.size for _, axis, *_ in homes], dtype=np.int64)
        return Ties(first.astype(np.int64), strides, sizes, code, alike)

    def _pattern(self, evidence: frozenset[int], soft: frozenset[int] = frozenset()) -> EvidenceTree:
        """The arrays of a tree for evidence on these attributes, and weights or ties on `soft`."""
        key = evidence | {-1 - a for a in soft}
        if key not in self._patterns:
            self._patterns[key] = self._laid_out(evidence, soft)
        return self._patterns[key]

    def _laid_out(self, evidence: frozenset[int], soft: frozenset[int]) -> EvidenceTree:
        rows, free, many = self._arrays.cliques.copy(), [NO_MAP], len(self._axes)
        active = [any(axis.attribute in evidence for axis in axes) for axes in self._axes]
        for a in soft:
            active[self._homes[a][0]] = True
        cut = [bool(k) and self._between[k] <= evidence for k in range(many)]
        for k in range(many - 1, 0, -1):
            active[self._parents[k]] |= active[k] and not cut[k]
        for k, axes in enumerate(self._axes):
            steps = [
                np.arange(1 if axis.attribute in evidence else axis.size, dtype=np.int64) * axis.stride
                for axis in axes
            ]
            own = grid(steps) if active[k] else NO_MAP
            rows[k, 1], rows[k, 2], rows[k, 7] = sum(map(len, free)), len(own), active[k]
            free.append(own)
        told = [h for h in range(1, many) if active[h] and not cut[h]]
        below = [[h for h in told if self._parents[h] == k] for k in range(many)]
        return self._arrays._replace(
            cliques=rows,
            free=np.concatenate(free),
            children=np.array(list(itertools.chain(*below)), dtype=np.int64),
            first_child=np.cumsum([0, *map(len, below)]).astype(np.int64),
        )


def _axes(levels: Levels, clique: Sequence[int]) -> list[CliqueAxis]:
    """The variables of a clique, in its order."""
    axes, stride = [], 1
    for v in reversed(clique):
        a, size = int(levels.attribute[v]), int(levels.sizes[v])
        axes.append(CliqueAxis(a, v == a, stride, size, levels.groups[v]))
        stride *= size
    return axes[::-1]
