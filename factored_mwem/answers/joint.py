"""Joint: the joint table of some attributes for many copies of a clique tree at once, from the subtree that
they need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from factored_mwem.domain.levels import View
from factored_mwem.kernels.copies import CliqueMap, joined, passed, summed
from factored_mwem.model.clique_tree import CliqueTree, grid, halves

MOST_NUMBERS = 2**25
"""Numbers that the tables of several copies may have on the way, in both threads together."""


@dataclass(frozen=True, slots=True, eq=False)
class JointStep:
    """A clique to pass through on the way to the root.

    Its cells begin at `start`; (`head`, `tail`) add them up to `reduced` ones, all that the maps below tell
    apart. `senders`: the steps before whose tables come in, each with the row of its table for every reduced
    cell. `row: int64[reduced]`: where a reduced cell goes, separator by `own` attributes' cells, `rows` in
    all. `own`: (attribute, classes) of those told here.
    """

    start: int
    head: np.ndarray
    tail: np.ndarray
    reduced: int
    senders: tuple[tuple[int, np.ndarray], ...]
    row: np.ndarray
    rows: int
    separator: int
    own: tuple[tuple[int, int], ...]


class Joint:
    """How the table over the classes of some attributes is read, laid out once.

    `order`: the attributes as the axes of what is read, `shape` their classes.
    """

    def __init__(self, tree: CliqueTree, classes: Mapping[int, np.ndarray]) -> None:
        """`classes[a]: int64[codes of a]`: the class of each code, from 0 on."""
        self._tree, self._classes = tree, classes
        self._starts = np.concatenate([[0], np.cumsum(tree.cells)]).tolist()
        parent, homes = _subtree(tree, sorted(classes))
        self._steps: list[JointStep] = []
        place: dict[int, int] = {}
        for k in reversed(parent):  # children come after their parents
            sent = [(place[j], tree.separators[j, k]) for j in parent if parent[j] == k]
            up = tree.separators[k, parent[k]] if parent[k] >= 0 else ()
            place[k] = len(self._steps)
            self._steps.append(self._step(k, [a for a in sorted(homes) if homes[a] == k], sent, up))
        self.order, self.shape = self._axes(len(self._steps) - 1)

    def _axes(self, at: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The attributes and classes that the table of a step is over, beside its separator."""
        step = self._steps[at]
        order = tuple(a for a, _ in step.own)
        shape = tuple(size for _, size in step.own)
        for sender, _ in step.senders:
            more, sizes = self._axes(sender)
            order, shape = order + more, shape + sizes
        return order, shape

    def _step(self, k: int, own: Sequence[int], sent: Sequence[tuple[int, View]], up: View) -> JointStep:
        tree, levels = self._tree, self._tree.levels
        clique, cells = tree.cliques[k], 1
        strides = [np.zeros(int(levels.sizes[u]), dtype=np.int64) for u in clique]
        sizes = []
        for a in reversed(own):
            sizes.append((a, int(self._classes[a].max()) + 1))
            strides[clique.index(a)] += self._classes[a] * cells
            cells *= sizes[-1][1]
        rows = [s * cells + t for s, t in zip(tree.steps(k, up), strides, strict=True)]
        maps = [rows, *(tree.steps(k, view) for _, view in sent)]
        kinds = [np.unique(np.stack(axes), axis=1, return_inverse=True) for axes in zip(*maps, strict=True)]
        steps, stride = list[np.ndarray](), 1
        for columns, inverse in reversed(kinds):
            steps.insert(0, inverse.reshape(-1).astype(np.int64) * stride)
            stride *= columns.shape[1]
        grids = [grid([columns[i] for columns, _ in kinds]) for i in range(len(maps))]
        separator = levels.cells(up)
        return JointStep(
            self._starts[k], *halves(steps), stride,
            tuple((j, rows) for (j, _), rows in zip(sent, grids[1:], strict=True)),
            grids[0], separator * cells, separator, tuple(sizes[::-1]),
        )  # fmt: skip

    def tables(self, beliefs: np.ndarray) -> np.ndarray:
        """float64[copy, *shape]: the tables, each of sum 1; `beliefs: float[copy, cells of all cliques]`."""
        parts = min(len(beliefs), max(2, math.ceil(2 * len(beliefs) * self.largest / MOST_NUMBERS)))
        if parts < 2:
            return self._tables(beliefs)
        with ThreadPoolExecutor(max_workers=2) as pool:
            return np.concatenate(list(pool.map(self._tables, np.array_split(beliefs, parts))))

    @property
    def largest(self) -> int:
        """The numbers of the largest table on the way, for one copy."""
        sizes = []
        for step in self._steps:
            beyond = [math.prod(self._axes(sender)[1]) for sender, _ in step.senders]
            sizes.append(max(step.rows, step.reduced * (len(beyond) > 1)) * math.prod(beyond))
        return max(sizes)

    def _tables(self, beliefs: np.ndarray) -> np.ndarray:
        tables: list[np.ndarray] = []
        for step in self._steps:
            tables.append(self._passed(step, beliefs, tables))
        return tables[-1].reshape(len(beliefs), *self.shape)

    def _passed(self, step: JointStep, beliefs: np.ndarray, messages: Sequence[np.ndarray]) -> np.ndarray:
        """float64[copy, separator's cells, cells beyond]: given the separator, or at the root joint."""
        copies, none = len(beliefs), np.zeros(step.reduced, dtype=np.int64)
        clique = CliqueMap(step.start, step.head, step.tail)
        *first, (sender, at) = step.senders or ((-1, none),)
        message = messages[sender] if sender >= 0 else np.ones((copies, 1, 1))
        if not first:
            left = np.zeros((copies, step.rows, message.shape[2]))
            passed(beliefs, clique, message, at, step.row, left)
        else:
            table = np.zeros((copies, step.reduced, 1))
            summed(beliefs, clique, table[:, :, 0])
            for sent, each in first:
                wider = np.zeros((copies, step.reduced, table.shape[2] * messages[sent].shape[2]))
                joined(table, messages[sent], each, np.arange(step.reduced), wider)
                table = wider
            left = np.zeros((copies, step.rows, table.shape[2] * message.shape[2]))
            joined(table, message, at, step.row, left)
        left = left.reshape(copies, step.separator, -1)
        if step is self._steps[-1]:
            return left
        mass = left.sum(axis=2, keepdims=True)
        return np.divide(left, mass, out=np.zeros_like(left), where=mass > 0)


def _subtree(tree: CliqueTree, attributes: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
    """(parent of each clique of a subtree, -1 of its root, parents before children; the clique of each of
    `attributes`): the subtree of fewest cells from a root that holds the first of them.
    """
    homes = {a: [k for k in tree.home[a] if tree.fixes(k, (a,))] for a in attributes}
    best: tuple[float, list[int], dict[int, int], dict[int, int]] | None = None
    for root in min(homes.values(), key=len):
        order, above = [root], {root: -1}
        for k in order:
            for j in tree.neighbours[k]:
                if j not in above:
                    above[j] = k
                    order.append(j)
        first = {k: i for i, k in enumerate(order)}
        home = {a: min(homes[a], key=first.__getitem__) for a in attributes}
        used = {root}
        for at in home.values():
            while at not in used:
                used.add(at)
                at = above[at]  # noqa: PLW2901 - the walk to the root
        cells = float(sum(tree.cells[k] for k in used))
        if best is None or cells < best[0]:
            best = cells, [k for k in order if k in used], above, home
    assert best is not None
    return {k: best[2][k] for k in best[1]}, best[3]
