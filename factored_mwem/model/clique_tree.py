"""CliqueTree: the cliques along which a component factors, found by triangulating the graph of measurements.

Two variables are neighbours if a measured view holds both; each level of an attribute is a neighbour of the
next. The cliques of the triangulated graph form a tree in which the cliques that hold a variable are
connected (Lauritzen, Spiegelhalter 1988). A clique keeps only the finest variable of an attribute, which
determines the coarser ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from factored_mwem.domain.levels import Levels, View
from factored_mwem.kernels.graph import CELLS, FILL, WEIGHTED_FILL, Graph, Variables, joined_cells
from factored_mwem.kernels.tree import CLIQUE, HEADS, MIDDLE, MIDDLE_HEADS, MIDDLE_TAILS, TAILS, TreeArrays


def grid(steps: Sequence[np.ndarray]) -> np.ndarray:
    """int64[product of lengths]: the sums of one entry of each of `steps`, row-major."""
    index = np.zeros(1, dtype=np.int64)
    for step in steps:
        index = (index[:, None] + step[None, :]).ravel()
    return index


def split(shape: Sequence[int]) -> int:
    """Where to cut the axes so that head and tail are both about the square root of the cells."""
    total, tail, at = math.prod(shape), 1, len(shape)
    while at > 0 and tail * tail < total:
        at -= 1
        tail *= shape[at]
    return at


def halves(steps: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(head, tail) of a map of cells: `steps` says what each code of each axis adds, see kernels/dense.py."""
    at = split([len(step) for step in steps])
    return grid(steps[:at]), grid(steps[at:])


def arranged(
    table: np.ndarray, order: Sequence[int], wanted: Sequence[int], sizes: Sequence[int] | np.ndarray
) -> np.ndarray:
    """A flat table over the variables in `order`, turned to the order `wanted`; `sizes[v]`: codes of v."""
    order = [v for v in order if sizes[v] > 1]  # numpy takes up to 64 axes, and one code needs none
    axes = [order.index(v) for v in wanted if sizes[v] > 1]
    return np.ascontiguousarray(table.reshape([int(sizes[v]) for v in order]).transpose(axes)).ravel()


@dataclass(frozen=True, eq=False)
class CliqueTree:
    """Views as cliques; edges (child, parent, separator), parents before children; clique 0 is the root."""

    levels: Levels
    cliques: tuple[View, ...]
    edges: tuple[tuple[int, int, View], ...]

    @classmethod
    def of(cls, levels: Levels, views: Iterable[View]) -> CliqueTree:
        """The smallest tree found that holds all `views`, which hang together and hold all own variables."""
        least, cliques = triangulate(levels, views, CELLS)
        for rule in (WEIGHTED_FILL, FILL):
            cells, others = triangulate(levels, views, rule, least)
            if cells < least * (1 - 1e-9):
                least, cliques = cells, others
        return _tree(levels, cliques)

    @cached_property
    def attributes(self) -> tuple[int, ...]:
        return tuple(sorted({int(self.levels.attribute[v]) for clique in self.cliques for v in clique}))

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """Cells of each clique."""
        return tuple(self.levels.cells(clique) for clique in self.cliques)

    @cached_property
    def home(self) -> dict[int, list[int]]:
        """The cliques that hold each attribute."""
        home: dict[int, list[int]] = {}
        for k, clique in enumerate(self.cliques):
            for v in clique:
                home.setdefault(int(self.levels.attribute[v]), []).append(k)
        return home

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """The cliques that hang on each clique."""
        neighbours: list[list[int]] = [[] for _ in self.cliques]
        for child, parent, _ in self.edges:
            neighbours[child].append(parent)
            neighbours[parent].append(child)
        return neighbours

    @cached_property
    def separators(self) -> dict[tuple[int, int], View]:
        """The separator of each clique and neighbour."""
        return {pair: s for c, p, s in self.edges for pair in ((c, p), (p, c))}

    def clique_of(self, view: View) -> int | None:
        """The smallest clique that fixes all of `view`, if one does."""
        home = self.home.get(int(self.levels.attribute[view[0]]), [])
        return min((k for k in home if self.fixes(k, view)), key=lambda k: self.cells[k], default=None)

    def fixes(self, clique: int, view: View) -> bool:
        return all(self.levels.holds(self.cliques[clique], v) is not None for v in view)

    def steps(self, clique: int, view: View) -> list[np.ndarray]:
        """For each axis of the clique, what its codes add to the cell of `view`, which the clique fixes."""
        return self.levels.steps(self.cliques[clique], view)

    def spanning(self, view: View) -> CliqueTree:
        """The smallest tree found that holds all these cliques and `view`."""
        return CliqueTree.of(self.levels, [*self.cliques, view])

    def rooted(self, root: int) -> tuple[CliqueTree, list[int]]:
        """(the same tree with clique `root` as its root, the old number of each of its cliques)."""
        order, edges = [root], []
        for at, k in enumerate(order):
            for j in self.neighbours[k]:
                if j not in order:
                    edges.append((len(order), at, self.separators[j, k]))
                    order.append(j)
        return CliqueTree(self.levels, tuple(self.cliques[k] for k in order), tuple(edges)), order

    def index(self, clique: int, view: View) -> tuple[np.ndarray, np.ndarray]:
        """(head, tail) of the map from the clique's cells to those of `view`."""
        return halves(self.steps(clique, view))


def triangulate(
    levels: Levels, views: Iterable[View], rule: int, most: float = math.inf
) -> tuple[float, list[set[int]]]:
    """(cells, maximal cliques as sets of variables) of one greedy elimination; some number above `most`, and
    some cliques, if it makes more cells.
    """
    names = sorted({v for view in views for v in view})
    place = {v: i for i, v in enumerate(names)}
    words = (len(names) + 63) // 64
    graph, alive = np.zeros((len(names), words), dtype=np.uint64), np.zeros((1, words), dtype=np.uint64)
    pairs = {(u, v) for view in views for u in view for v in view if u != v} | chained(levels, names)
    for u, v in pairs:
        graph[place[u], place[v] >> 6] |= np.uint64(1 << (place[v] & 63))
    for i in range(len(names)):
        alive[0, i >> 6] |= np.uint64(1 << (i & 63))
    cliques, cells = np.zeros_like(graph), np.zeros(1)
    none, whole = np.full(len(names), -1), np.zeros(len(levels.shape), dtype=np.int64)
    variables = Variables(
        levels.attribute[names], none, none, np.log2(levels.sizes[names].astype(np.float64))
    )
    connected = Graph(graph, np.ones(len(names), dtype=bool), alive, whole)
    joined_cells(connected, variables, np.zeros((1, 1), dtype=np.int64), rule, most, cliques, cells)
    bits = np.unpackbits(cliques.view(np.uint8), axis=1, bitorder="little")
    return float(cells[0]), [{names[i] for i in np.flatnonzero(row)} for row in bits if row.any()]


def chained(levels: Levels, variables: Iterable[int]) -> set[tuple[int, int]]:
    """Both directions between each variable in use and the next coarser one in use of its attribute."""
    used = set(variables)
    pairs = set()
    for a in set(levels.attribute[sorted(used)].tolist()):
        chain = levels.chains[a]
        for fine, coarse in itertools.pairwise(v for v in chain if v in used):
            pairs |= {(fine, coarse), (coarse, fine)}
    return pairs


def _tree(levels: Levels, cliques: list[set[int]]) -> CliqueTree:
    """A maximum-weight spanning tree over what cliques share; cliques that a neighbour fixes join it."""
    links: list[tuple[int, int]] = []
    inside, best = [False] * len(cliques), [(-1, 0)] * len(cliques)
    at = 0
    for _ in range(len(cliques) - 1):
        inside[at] = True
        for k, clique in enumerate(cliques):
            if not inside[k]:
                best[k] = max(best[k], (len(clique & cliques[at]), at))
        # Prim: the next clique is the one that shares most with a clique inside
        new = max((k for k in range(len(cliques)) if not inside[k]), key=lambda k: best[k][0])
        links.append((new, best[new][1]))
        at = new
    finest = [_finest(levels, clique) for clique in cliques]
    neighbours: dict[int, dict[int, set[int]]] = {k: {} for k in range(len(cliques))}
    for a, b in links:
        neighbours[a][b] = neighbours[b][a] = cliques[a] & cliques[b]
    for k in range(len(cliques)):
        into = next(
            (j for j in neighbours[k] if all(levels.holds(finest[j], v) is not None for v in finest[k])), None
        )
        if into is not None:  # a neighbour fixes all of it, so its links go to that neighbour
            for j, shared in neighbours.pop(k).items():
                del neighbours[j][k]
                if j != into:
                    neighbours[j][into] = neighbours[into][j] = shared
    return _rooted(levels, finest, neighbours)


def _finest(levels: Levels, clique: Iterable[int]) -> View:
    """The finest variable of each attribute, in the order of the attributes."""
    first: dict[int, int] = {}
    for v in sorted(clique):
        first.setdefault(int(levels.attribute[v]), v)
    return tuple(first[a] for a in sorted(first))


def _rooted(levels: Levels, finest: Sequence[View], neighbours: dict[int, dict[int, set[int]]]) -> CliqueTree:
    """The tree with its root near the middle."""

    def walk(root: int) -> list[tuple[int, int]]:
        order, seen = [(root, -1)], {root}
        for k, _ in order:
            for j in neighbours[k]:
                if j not in seen:
                    seen.add(j)
                    order.append((j, k))
        return order

    end = walk(next(iter(neighbours)))
    far = walk(end[-1][0])  # from one end of a longest path to the other
    parent = dict(far)
    path = [far[-1][0]]
    while parent[path[-1]] >= 0:
        path.append(parent[path[-1]])
    order = walk(path[len(path) // 2])
    number = {k: i for i, (k, _) in enumerate(order)}
    edges = [(number[k], number[p], _finest(levels, neighbours[k][p])) for k, p in order[1:]]
    return CliqueTree(levels, tuple(finest[k] for k, _ in order), tuple(edges))


def lay_out(tree: CliqueTree, views: Sequence[View]) -> TreeArrays:
    """A tree as arrays for the kernels, with the measured `views`, each on its smallest clique."""
    parts: list[np.ndarray] = []
    end = 0

    def place(axes: View, view: View) -> tuple[int, int]:
        nonlocal end
        head, tail = halves(tree.levels.steps(axes, view))
        parts.extend((head, tail))
        end += len(head) + len(tail)
        return end - len(head) - len(tail), end - len(tail)

    starts = np.concatenate([[0], np.cumsum(tree.cells)]).astype(np.int64)
    shape = [[int(tree.levels.sizes[v]) for v in clique] for clique in tree.cliques]
    heads = [int(np.prod(sizes[: split(sizes)], dtype=np.int64)) for sizes in shape]
    cliques = np.array(
        [(starts[k], heads[k], tree.cells[k] // heads[k]) for k in range(len(heads))], dtype=np.int64
    )
    edges, at = [], 0
    for child, parent, separator in tree.edges:
        cells = tree.levels.cells(separator)
        maps = (*place(tree.cliques[child], separator), *place(tree.cliques[parent], separator))
        edges.append((child, parent, at, cells, *maps))
        at += cells
    middles, at, middle_of = [], 0, dict[View, tuple[int, View]]()
    for number, (home, over, inside) in enumerate(_middles(tree, views)):
        middle_of |= dict.fromkeys(inside, (number, over))
        cut = split([int(tree.levels.sizes[v]) for v in over])
        rows, columns = tree.levels.cells(over[:cut]), tree.levels.cells(over[cut:])
        middles.append((home, *place(tree.cliques[home], over), at, rows, columns))
        at += rows * columns
    tables, at = [], 0
    for view in views:
        number, over = middle_of[view]
        tables.append((number, *place(over, view), at, tree.levels.cells(view)))
        at += tables[-1][-1]
    return TreeArrays(
        cliques,
        np.array(edges, dtype=np.int64).reshape(-1, 8),
        np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64),
        np.array(tables, dtype=np.int64).reshape(-1, 5),
        np.array(middles, dtype=np.int64).reshape(-1, 6),
    )


def cells_passed(layout: TreeArrays) -> int:
    """How many cells of cliques and middle tables one look at all measured views passes over."""
    cliques = layout.cliques[:, HEADS] * layout.cliques[:, TAILS]
    middles = layout.middles[:, MIDDLE_HEADS] * layout.middles[:, MIDDLE_TAILS]
    return int(cliques[layout.middles[:, CLIQUE]].sum() + middles[layout.tables[:, MIDDLE]].sum())


def _middles(tree: CliqueTree, views: Sequence[View]) -> list[tuple[int, View, list[View]]]:
    """(clique, variables of a middle table, the views that are made from it): together they pass over few
    cells. A view joins the table that grows least by it, if that is cheaper than a table of its own.
    """
    levels, found = tree.levels, []
    homes: dict[int, list[View]] = {}
    for view in dict.fromkeys(views):
        home = tree.clique_of(view)
        assert home is not None, "a measured view lies in no clique"
        homes.setdefault(home, []).append(view)
    for home, own in homes.items():
        groups: list[tuple[View, list[View]]] = []
        for view in sorted(own, key=levels.cells, reverse=True):
            best, least = len(groups), tree.cells[home] + levels.cells(view)
            for g, (over, inside) in enumerate(groups):
                count = len(inside)
                wider = _with(levels, tree.cliques[home], over, view)
                cost = levels.cells(wider) * (count + 1) - levels.cells(over) * count
                if cost < least:
                    best, least = g, cost
            over, inside = groups.pop(best) if best < len(groups) else (view, [])
            groups.append((_with(levels, tree.cliques[home], over, view), [*inside, view]))
        found += [(home, over, inside) for over, inside in groups]
    return found


def _with(levels: Levels, clique: View, over: View, view: View) -> View:
    """The variables of a clique that fix both `over` and `view`; `over` itself if that does."""
    if all(levels.holds(over, v) is not None for v in view):
        return over
    attributes = set(levels.attribute[[*over, *view]].tolist())
    return tuple(u for u in clique if int(levels.attribute[u]) in attributes)
