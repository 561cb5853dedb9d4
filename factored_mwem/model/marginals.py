"""MarginalReader: many joint marginals of a clique tree in one pass, wherever in the tree their variables lie."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from factored_mwem.kernels.dense import FLOOR
from factored_mwem.kernels.joint import choose_medians, fill_conditionals, joint_marginals
from factored_mwem.model.clique_tree import CliqueTree, arranged, grid

if TYPE_CHECKING:
    from factored_mwem.model.layout import Layout

FEW = 2**14
"""Cells of all marginals together below which a second thread would only cost."""


class MarginalReader:
    """Marginals over subsets of `variables`, read off calibrated beliefs; what depends on the tree alone is
    laid out once.
    """

    def __init__(
        self,
        tree: CliqueTree,
        variables: Iterable[int],
        beliefs: np.ndarray,
        separators: np.ndarray,
        layout: Layout,
    ) -> None:
        self.tree, self.layout = tree, layout
        self._gate = self._gates({int(v) for v in variables})
        self.variables = sorted({int(g) for g in self._gate[self._gate >= 0]})
        self._find_ways()
        self._lay_out_steps()
        self._lay_out_conditionals()
        self.refresh(beliefs, separators)

    def refresh(self, beliefs: np.ndarray, separators: np.ndarray) -> None:
        """Take in other beliefs of the same tree."""
        self._beliefs = beliefs
        self._conditionals = np.zeros(self._size)
        fill_conditionals(
            beliefs,
            separators,
            self.layout.cliques,
            self._axes,
            self._axis_of,
            self._steps,
            self._directions,
            self._blocks,
            self._conditionals,
        )
        self._within = {v: self._share(v, int(g)) for v, g in enumerate(self._gate) if g not in (-1, v)}

    def _share(self, fine: int, gate: int) -> np.ndarray:
        """float64[codes of `fine`]: the share of each code within its code of `gate`."""
        levels = self.tree.levels
        k = self.tree.clique_of((fine,))
        assert k is not None
        start, heads, tails = self.layout.cliques[k].tolist()
        mass = np.bincount(grid(self.tree.steps(k, (fine,))), self._beliefs[start : start + heads * tails])
        group = levels.between(fine, gate)
        return mass / np.maximum(np.bincount(group, mass), FLOOR)[group]

    def marginals(self, views: np.ndarray) -> list[np.ndarray]:
        """The marginal of each of `views: int64[view, slot]` (padded with -1), in shares."""
        out, starts = self.flat(views)
        return [out[a:b] for a, b in itertools.pairwise(starts)]

    def flat(self, views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All marginals one after the other, and where each begins (and the last ends)."""
        gated = np.append(self._gate, -1)[views]
        found, begins = self._flat(gated)
        finer = np.flatnonzero((gated != views).any(axis=1))
        if not len(finer):
            return found, begins
        starts = self._starts(views)
        out = np.empty(int(starts[-1]))
        same = (gated == views).all(axis=1)
        shift = np.repeat((begins - starts)[:-1][same], np.diff(starts)[same])
        place = np.flatnonzero(np.repeat(same, np.diff(starts)))
        out[place] = found[place + shift]
        for i in finer.tolist():
            out[starts[i] : starts[i + 1]] = self._through_gates(
                found[begins[i] : begins[i + 1]], gated[i], views[i]
            )
        return out, starts

    def _through_gates(self, table: np.ndarray, gated: np.ndarray, view: np.ndarray) -> np.ndarray:
        """A marginal over gates, split up to the finer variables of `view`: within a gate's code they do not
        depend on anything else.
        """
        levels = self.tree.levels
        axes = table.reshape(levels.sizes[gated[gated >= 0]])
        for axis, (g, v) in enumerate(zip(gated[gated >= 0].tolist(), view[view >= 0].tolist(), strict=True)):
            if g != v:
                axes = np.take(axes, levels.between(v, g), axis=axis) * self._within[v].reshape(
                    [-1] + [1] * (axes.ndim - axis - 1)
                )
        return axes.ravel()

    def _gates(self, variables: set[int]) -> np.ndarray:
        """int64[variable]: where only a coarser variable of its attribute meets others in a clique, that one;
        itself elsewhere; -1: not asked for.
        """
        levels = self.tree.levels
        gate = np.full(len(levels), -1, dtype=np.int64)
        for v in variables:
            chain = levels.chains[int(levels.attribute[v])]
            meeting = [u for clique in self.tree.cliques if len(clique) > 1 for u in clique if u in chain]
            gate[v] = max(v, min(meeting)) if meeting else v
        return gate

    def _flat(self, views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        starts = self._starts(views)
        out, medians = np.zeros(int(starts[-1])), self.medians(views)
        if len(out) > FEW:
            with ThreadPoolExecutor(max_workers=2) as pool:
                halves = np.array_split(np.arange(len(views)), 2)
                for job in [
                    pool.submit(self._fill, views[half], medians[half], starts[half[0] : half[-1] + 2], out)
                    for half in halves
                    if len(half)
                ]:
                    job.result()
        else:
            self._fill(views, medians, starts, out)
        for i in np.flatnonzero(medians < 0):
            out[starts[i] : starts[i + 1]] = self._wide(tuple(int(v) for v in views[i] if v >= 0))
        return out, starts

    def _starts(self, views: np.ndarray) -> np.ndarray:
        """int64[view + 1]: where each marginal begins when all are laid one after the other."""
        sizes = np.append(self.tree.levels.sizes, 1)
        return np.concatenate([[0], np.cumsum(sizes[views].prod(axis=1))]).astype(np.int64)

    def _fill(self, views: np.ndarray, medians: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
        joint_marginals(
            self._beliefs, self.layout.cliques, self._axes, self._axis_of, self._steps, views, medians, self._step_of, self._given_of,
            self._stride_of, self._rows_of, self.tree.levels.sizes, self._conditionals, starts, out,
        )  # fmt: skip

    def _wide(self, view: tuple[int, ...]) -> np.ndarray:
        """A marginal for which no clique has all variables in different directions, as can happen from four
        variables on.
        """
        table = self._given(0, -1, view)[0]
        return arranged(table, self._by_direction(0, view), view, self.tree.levels.sizes)

    def _by_direction(self, clique: int, view: tuple[int, ...]) -> list[int]:
        """The variables of `view` in the order in which `_given` leaves their axes: inside the clique
        first.
        """
        inside = [v for v in view if self._toward[clique, v] < 0]
        ways = dict.fromkeys(int(self._toward[clique, v]) for v in view if self._toward[clique, v] >= 0)
        return inside + [
            u
            for k in ways
            for u in self._by_direction(k, tuple(v for v in view if self._toward[clique, v] == k))
        ]

    def _given(self, clique: int, sender: int, view: tuple[int, ...]) -> np.ndarray:
        """float64[cells of the separator to `sender`, cells of `view`]: P(view | separator), from the far
        side of the tree (no sender: one row).
        """
        between = () if sender < 0 else self._separator[clique, sender]
        inside = tuple(v for v in view if self._toward[clique, v] < 0)
        ways = dict.fromkeys(int(self._toward[clique, v]) for v in view if self._toward[clique, v] >= 0)
        factors = [
            (
                grid(self.tree.steps(clique, self._separator[clique, k])),
                self._given(k, clique, tuple(v for v in view if self._toward[clique, v] == k)),
            )
            for k in ways
        ]
        rows, codes = grid(self.tree.steps(clique, between)), grid(self.tree.steps(clique, inside))
        width = int(np.prod([factor.shape[1] for _, factor in factors], dtype=np.int64))
        cells = self.tree.levels.cells(inside)
        found = np.zeros((self.tree.levels.cells(between) * cells, width))
        start, heads, tails = self.layout.cliques[clique].tolist()
        chunk = max(2**20 // width, 1)
        for at in range(0, heads * tails, chunk):
            part = slice(at, min(at + chunk, heads * tails))
            table = self._beliefs[start + part.start : start + part.stop, None]
            for index, factor in factors:
                table = (table[:, :, None] * factor[index[part]][:, None, :]).reshape(len(table), -1)
            np.add.at(found, rows[part] * cells + codes[part], table)
        found = found.reshape(self.tree.levels.cells(between), cells * width)
        return found / found.sum(axis=1, keepdims=True) if sender >= 0 else found

    def medians(self, views: np.ndarray) -> np.ndarray:
        """int64[view]: the cheapest clique that fixes a view's variables or from which they lie in different
        directions; -1 where none does.

        Up to three variables always have one: where the paths between them meet.
        """
        found = np.full(len(views), -1, dtype=np.int64)
        choose_medians(
            self._toward, np.array(self.tree.cells, dtype=np.float64), self.tree.levels.sizes, views, found
        )
        return found

    def _find_ways(self) -> None:
        """For each clique and variable the neighbour on the way, -1 where the clique fixes it; and each
        variable's order of distance.
        """
        tree, count = self.tree, len(self.tree.cliques)
        neighbours: list[list[int]] = [[] for _ in range(count)]
        for child, parent, _ in tree.edges:
            neighbours[child].append(parent)
            neighbours[parent].append(child)
        width = max(self.variables) + 1
        self._toward = np.full((count, width), -1, dtype=np.int64)
        for v in self.variables:
            reached = [k for k in tree.home[int(tree.levels.attribute[v])] if tree.fixes(k, (v,))]
            seen = set(reached)
            for k in reached:
                for j in neighbours[k]:
                    if j not in seen:
                        seen.add(j)
                        self._toward[j, v] = k
                        reached.append(j)

    def _lay_out_steps(self) -> None:
        tree = self.tree
        self._axes = np.array(
            [int(tree.levels.sizes[v]) for clique in tree.cliques for v in clique], dtype=np.int64
        )
        self._axis_of = np.concatenate([[0], np.cumsum([len(clique) for clique in tree.cliques])]).astype(
            np.int64
        )
        separator = self._separator = {(c, p): s for c, p, s in tree.edges} | {
            (p, c): s for c, p, s in tree.edges
        }
        parts, at, known = [], 0, {}
        self._step_of = np.full(self._toward.shape, -1, dtype=np.int64)
        for k in range(len(tree.cliques)):
            for v in self.variables:
                way = int(self._toward[k, v])
                view = (v,) if way < 0 else separator[k, way]
                if (k, view) not in known:
                    steps = np.concatenate(tree.steps(k, view))
                    known[k, view] = at
                    parts.append(steps)
                    at += len(steps)
                self._step_of[k, v] = known[k, view]
        self._back = {}
        for k, j in separator:
            steps = np.concatenate(tree.steps(k, separator[k, j]))
            self._back[k, j] = at
            parts.append(steps)
            at += len(steps)
        self._steps = np.concatenate(parts)

    def _lay_out_conditionals(self) -> None:
        """The directions and blocks of `fill_conditionals`, and where each clique finds the conditional of
        each variable outside it.
        """
        tree, edges = self.tree, self.layout.edges
        down = [(p, c, e) for e, (c, p, _) in enumerate(tree.edges)]
        ways = down[::-1] + [(c, p, e) for p, c, e in down]
        neighbours: dict[int, list[int]] = {k: [] for k in range(len(tree.cliques))}
        for m, k, _ in ways:
            neighbours[k].append(m)
        shape = self._toward.shape
        self._given_of, self._stride_of, self._rows_of = (
            np.full(shape, fill, dtype=np.int64) for fill in (-1, 0, 0)
        )
        directions: list[tuple[int, ...]] = []
        blocks: list[tuple[int, ...]] = []
        made: dict[tuple[int, int], tuple[int, int, list[int]]] = {}
        end = 0
        for m, k, e in ways:
            inside = [v for v in self.variables if self._toward[m, v] == k and self._toward[k, v] < 0]
            first, order = len(blocks), list(inside)
            for v, column in zip(inside, self._columns(inside), strict=False):
                blocks.append((column, self._step_of[k, v], -1, 0))
            for j in neighbours[k]:
                if j != m and made[k, j][2]:
                    at, width, variables = made[k, j]
                    blocks.append((self._columns(order)[-1], self._step_of[k, variables[0]], at, width))
                    order += variables
            columns = self._columns(order)
            made[m, k] = (end, columns[-1], order)
            directions.append(
                (k, edges[e, 2], edges[e, 3], end, columns[-1], self._back[k, m], first, len(blocks))
            )
            self._given_of[m, order], self._stride_of[m, order], self._rows_of[m, order] = (
                np.array(columns[:-1]) + end,
                columns[-1],
                edges[e, 3],
            )
            end += int(edges[e, 3]) * columns[-1]
        self._directions = np.array(directions, dtype=np.int64).reshape(-1, 8)
        self._blocks = np.array(blocks, dtype=np.int64).reshape(-1, 4)
        self._size = end

    def _columns(self, variables: list[int]) -> list[int]:
        """Where each variable's codes begin when all are laid side by side, and where the last end."""
        return [0, *itertools.accumulate(int(self.tree.levels.sizes[v]) for v in variables)]
