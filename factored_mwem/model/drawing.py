"""Drawing: codes of rows from a forest, down its trees; the arrays that all batches share are built once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from factored_mwem.domain.levels import Levels, View
from factored_mwem.kernels.drawing import Conditional, deal
from factored_mwem.model.clique_tree import grid
from factored_mwem.model.forest import Component, Forest

Dealt = Callable[[Conditional, np.ndarray], np.ndarray]
"""Gives each row a cell of a clique within its group, int64[row]."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A clique to draw. `known`: variables drawn before, and what each code of theirs adds to the cell of the
    separator; `new`: variables that the clique's cell tells, with their stride in it.
    """

    table: Conditional
    known: list[tuple[int, np.ndarray]]
    new: list[tuple[int, int]]


class Drawing:
    """A forest laid out for drawing: 16 bytes a cell. Threads may share it, for drawing changes nothing."""

    def __init__(self, model: Forest) -> None:
        self._levels = model.levels
        self._trees = [(part.attributes, _steps(part, ())) for part in model.components]

    def codes(self, rows: int, rng: np.random.Generator) -> list[np.ndarray]:
        """int64[row] per attribute: the codes of `rows` rows, every component in a random order of its own.

        The cells of a tree's root come within one row of their share; below, within one row of their share of
        the rows that their separator's cell has.
        """
        return self._drawn(rows, dealing(rows, rng), {})

    def independent(self, rows: int, rng: np.random.Generator) -> list[np.ndarray]:
        """int64[row] per attribute: the codes of rows drawn independently of each other, as a sample is.

        Their counts vary like multinomial counts, while those of `codes` hardly vary. Use these rows to ask
        how far a table may be from the distribution that it was drawn from.
        """
        return self._drawn(rows, lambda table, row: dealt_alone(table, row, rng.random(rows)), {})

    def _drawn(self, rows: int, dealt: Dealt, evidence: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """int64[row] per attribute; `evidence`: known codes, int64[row], with which roots begin."""
        codes: list[np.ndarray] = [np.empty(0, dtype=np.int64)] * len(self._levels.shape)
        for attributes, steps in self._trees:
            drawn = {a: evidence[a] for a in attributes if a in evidence}
            for step in steps:
                row = np.zeros(rows, dtype=np.int64)
                for u, adds in step.known:
                    row += adds[drawn[u]]
                cells = dealt(step.table, row)
                for v, stride in step.new:
                    rest = cells // stride if stride > 1 else cells
                    size = int(self._levels.sizes[v])
                    drawn[v] = rest - rest // size * size
            for a in attributes:
                codes[a] = drawn[a]  # an attribute's own variable has its number
        return codes


class ConditionalDrawing(Drawing):
    """A forest laid out for drawing rows of which the codes of some attributes are known, the `evidence`.

    Each tree must hold its part of the evidence in one clique, which may make the tree larger. So attributes
    are taken in order, and one is left out where all trees together would have more than `most` cells;
    `attributes` are those that were taken.
    """

    def __init__(self, model: Forest, evidence: Sequence[int], most: float) -> None:
        self._levels, self.attributes = model.levels, tuple[int, ...]()
        parts = {id_: (part, tuple[int, ...]()) for id_, part in model.components_by_id.items()}
        cells = {id_: sum(part.tree.cells) for id_, part in model.components_by_id.items()}
        for a in evidence:
            id_ = int(model.part_of[a])
            view = model.levels.view([*parts[id_][1], a])
            held = parts[id_][0].tree
            tree = held if held.clique_of(view) is not None else held.spanning(view)
            if sum(cells.values()) - cells[id_] + sum(tree.cells) > most:
                continue
            cells[id_], self.attributes = sum(tree.cells), (*self.attributes, a)
            parts[id_] = model.components_by_id[id_].rooted_at(view), view
        self._trees = [(part.attributes, _steps(part, view)) for part, view in parts.values()]
        self._given = [
            (view, conditional(part.marginals([view])[0], np.zeros(model.levels.cells(view), np.int64), 1))
            for part, view in parts.values()
            if view
        ]

    def given(self, count: int, rng: np.random.Generator) -> dict[int, np.ndarray]:
        """int64[drawn] of each of `attributes`: codes of the model, trees apart."""
        deals, codes = dealing(count, rng), {}
        for view, table in self._given:
            cells = deals(table, np.zeros(count, dtype=np.int64))
            for v, stride in _strides(self._levels, view, set()):
                codes[v] = cells // stride % int(self._levels.sizes[v])
        return codes

    def codes_given(self, evidence: Mapping[int, np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
        """int64[row] per attribute: rows of the model with these codes of `attributes`."""
        rows = len(next(iter(evidence.values())))
        return self._drawn(rows, dealing(rows, rng), evidence)


class GroupedCodes:
    """Codes of an attribute by group: `group: int64[code]`, and the share of rows, `share: float64[code]`."""

    def __init__(self, share: np.ndarray, group: np.ndarray) -> None:
        self._group, self._table = group, conditional(share, group, int(group.max()) + 1)

    def drawn(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """int64[row]: codes of the groups that `codes: int64[row]` are in, each by its share alone."""
        return dealt_alone(self._table, self._group[codes], rng.random(len(codes)))


def dealing(rows: int, rng: np.random.Generator) -> Dealt:
    """Deals rows within one row of their share of each group, see `deal`."""
    hand = np.empty(rows, dtype=np.int64)  # scratch

    def dealt(table: Conditional, row: np.ndarray) -> np.ndarray:
        cells, begin = np.empty(rows, dtype=np.int64), rng.random(len(table.first) - 1)
        deal(table, row, begin, rng.random(rows), hand, cells)
        return cells

    return dealt


def dealt_alone(table: Conditional, group: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """int64[row]: a cell of each row's group, by its share, and by `luck: float64[row]`, in [0, 1), alone."""
    first, last = table.first[group], table.first[group + 1] - 1
    low, high = table.ends[first], table.ends[last + 1]
    at = np.searchsorted(table.ends, low + luck * (high - low), side="right") - 1
    # a group that got rows by rounding alone may have no cell: any other stands in
    return table.cells[np.clip(at, first, np.maximum(first, last)).clip(0, len(table.cells) - 1)]


def _steps(part: Component, evidence: View) -> list[Step]:
    """The cliques of a tree in the order in which they are drawn: each after its parent, the root after the
    variables of it that are `evidence`.
    """
    tree, levels = part.tree, part.tree.levels
    steps, reached = [], set(tree.cliques[0])
    groups = grid(tree.steps(0, evidence)) if evidence else np.zeros(tree.cells[0], dtype=np.int64)
    root = conditional(part.table(0), groups, levels.cells(evidence))
    strides = _strides(levels, evidence, set())
    begun = [(v, np.arange(int(levels.sizes[v])) * stride) for v, stride in strides]
    steps.append(Step(root, begun, _strides(levels, tree.cliques[0], set(evidence))))
    for child, _, separator in tree.edges:
        known, stride = [], 1
        for v in reversed(separator):
            u = levels.holds(sorted(reached), v)
            assert u is not None
            known.append((u, levels.between(u, v) * stride))
            stride *= int(levels.sizes[v])
        groups = grid(tree.steps(child, separator))
        new = _strides(levels, tree.cliques[child], reached)
        steps.append(Step(conditional(part.table(child), groups, stride), known, new))
        reached |= set(tree.cliques[child])
    return steps


def _strides(levels: Levels, clique: Sequence[int], known: set[int]) -> list[tuple[int, int]]:
    """The variables of a clique that are not in `known`, and what one code of each adds to its cell."""
    strides, stride = [], 1
    for v in reversed(clique):
        strides += [(v, stride)] if v not in known else []
        stride *= int(levels.sizes[v])
    return strides


def conditional(table: np.ndarray, group: np.ndarray, groups: int) -> Conditional:
    """The cells with a positive weight, by group; cells of weight zero are left out, so that no rounding of
    sums can select one.
    """
    possible = np.flatnonzero(table)
    order = possible[np.argsort(group[possible], kind="stable")]
    ends = np.concatenate([[0.0], np.cumsum(table[order])])
    first = np.searchsorted(group[order], np.arange(groups + 1))
    return Conditional(order, ends, first.astype(np.int64))


def draw(model: Forest, rows: int, rng: np.random.Generator) -> list[np.ndarray]:
    """int64[row] per attribute: the codes of `rows` rows; see `Drawing.codes`."""
    return Drawing(model).codes(rows, rng)
