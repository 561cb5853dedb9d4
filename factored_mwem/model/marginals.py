"""MarginalReader: many joint marginals of a clique tree in one pass, wherever in it their variables lie."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from factored_mwem.domain.levels import Levels, View
from factored_mwem.kernels.dense import FLOOR
from factored_mwem.kernels.joint import (
    COLUMNS,
    NEXT,
    STEPS,
    Reader,
    Splits,
    ViewsRead,
    choose_meeting_cliques,
    fill_conditionals,
    joint_marginals,
    split_up,
)
from factored_mwem.kernels.tree import CELLS, START, Beliefs, TreeArrays
from factored_mwem.model.clique_tree import CliqueTree, arranged, grid

MIN_THREADED_CELLS, PIECES = 2**14, 8
"""With fewer cells in all marginals a second thread does not pay off; the number of pieces that two threads
share.
"""
MAX_ORDERED, A_LOOP = 4, 16
"""Most variables of a view of which all orders are tried; the operations that a loop's beginning takes as
long as.
"""
MAX_KEPT, MAX_PRODUCTS = 2**22, 2**22
"""Numbers of all conditionals that are kept between views; of the products that are summed at a time."""


class MarginalReader:
    """Marginals over some of `variables`, read off calibrated beliefs; the tree is laid out once."""

    def __init__(
        self, tree: CliqueTree, layout: TreeArrays, beliefs: Beliefs, variables: Iterable[int]
    ) -> None:
        self.tree, self.layout, self.readable = tree, layout, frozenset(int(v) for v in variables)
        self._finest_shared = _finest_shared(tree, self.readable)
        self.variables = sorted({int(v) for v in self._finest_shared[self._finest_shared >= 0]})
        self._separator = tree.separators
        self._next_clique = _next_cliques(tree, self.variables)
        ends = np.array([(child, parent) for child, parent, _ in tree.edges], dtype=np.int64).reshape(-1, 2)
        self._beyond = self._next_clique[ends[:, 1]] == ends[:, :1]
        """bool[edge, variable]: whether it lies on the child's side, as the parent sees it."""
        self._reader, self._splits = self._lay_out(), _splits(tree.levels, self._finest_shared)
        self.refresh(beliefs)

    def refresh(self, beliefs: Beliefs) -> None:
        """Take in other beliefs of the same tree."""
        self.beliefs, self._cells = beliefs, beliefs.cliques
        self._known, self._kept = dict[tuple[int, int, View], np.ndarray](), 0
        fill_conditionals(beliefs, self._reader)
        first, shares = self._splits.first, self._splits.shares
        for v, u in enumerate(self._finest_shared.tolist()):
            if u not in (-1, v):
                shares[first[v] : first[v] + self.tree.levels.sizes[v]] = self._share(v, u)

    def _table(self, clique: int) -> np.ndarray:
        start, heads, tails = self.layout.cliques[clique].tolist()
        return self._cells[start : start + heads * tails]

    def _share(self, fine: int, coarse: int) -> np.ndarray:
        """float64[codes of `fine`]: the share of each code within its code of `coarse`."""
        k = self.tree.clique_of((fine,))
        assert k is not None
        mass = np.bincount(grid(self.tree.steps(k, (fine,))), self._table(k))
        group = self.tree.levels.between(fine, coarse)
        return mass / np.maximum(np.bincount(group, mass), FLOOR)[group]

    def shares(self, views: np.ndarray) -> list[np.ndarray]:
        """The marginal of each of `views: int64[view, slot]` (padded with -1), in shares."""
        out, starts = self.flat(views)
        return [out[a:b] for a, b in itertools.pairwise(starts)]

    def flat(self, views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All marginals one after the other, and where each begins (and the last ends)."""
        shared = np.append(self._finest_shared, -1)[views]
        tables, begins = self._flat(shared)
        if (shared == views).all():
            return tables, begins
        starts = self._starts(views)
        out = np.empty(int(starts[-1]))
        split_up(tables, begins, self._splits, views, starts, out)
        return out, starts

    def _flat(self, views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        starts = self._starts(views)
        out, meeting = np.zeros(int(starts[-1])), self.meeting_cliques(views)

        slots, _ = self._slots(views, meeting)
        read = ViewsRead(views, meeting, slots, starts)

        def fill(order: np.ndarray) -> None:
            joint_marginals(self._cells, self._reader, read, order, out)

        order = self._like_to_like(np.take_along_axis(views, slots, axis=1), meeting)
        if len(out) > MIN_THREADED_CELLS and len(views) > 1:
            with ThreadPoolExecutor(max_workers=2) as pool:
                list(pool.map(fill, np.array_split(order, min(len(order), PIECES))))
        else:
            fill(order)
        wide = np.flatnonzero(meeting < 0)
        edges = self._parting(views[wide]) if len(wide) else wide
        for i in np.argsort(edges, kind="stable").tolist():
            view = tuple(int(v) for v in views[wide[i]] if v >= 0)
            out[starts[wide[i]] : starts[wide[i] + 1]] = self._wide(view, int(edges[i]))
        return out, starts

    def work(self, views: np.ndarray) -> np.ndarray:
        """float64[view]: about how many operations reading each takes alone; 0 where that is not known."""
        shared = np.append(self._finest_shared, -1)[views]
        meeting = self.meeting_cliques(shared)
        return np.where(meeting < 0, 0.0, self._slots(shared, meeting)[1])

    def _slots(self, views: np.ndarray, meeting: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(int64[view, slot]: the quickest order in which to bring in a view's variables, padding last; the
        operations that it takes, float64[view], 0 where that is not known).

        Bringing one in takes an operation for each cell over the axes that it and the later ones need, each
        code of the earlier ones, and each of its own, if the clique does not fix it; in loops over the codes
        of the earlier ones. Of more than MAX_ORDERED those behind large separators come first.
        """
        width, inside = views.shape[1], views >= 0
        rows = np.where(inside, self._rows[meeting[:, None], views], -1)
        slots = np.argsort(-rows, axis=1, kind="stable").astype(np.int64)
        if not 1 < width <= MAX_ORDERED:
            return slots, np.zeros(len(views))
        outside = inside & (self._way[meeting[:, None], views] >= 0)
        sizes = np.where(inside, self.tree.levels.sizes[views], 1).astype(np.float64)
        needs = np.where(inside, self._needs[meeting[:, None], views], 0)
        cells = {
            left: self._cells_over(meeting, np.bitwise_or.reduce(needs[:, left], axis=1))
            for count in range(1, width + 1)
            for left in itertools.combinations(range(width), count)
        }
        best, least = slots, np.full(len(views), np.inf)
        for turn in itertools.permutations(range(width)):
            work, columns = np.zeros(len(views)), np.ones(len(views))
            for j, slot in enumerate(turn):
                over = cells[tuple(sorted(turn[j:]))]
                own = np.where(outside[:, slot], sizes[:, slot], 1.0)
                loops = np.where(columns > 1, own, 1)
                work += np.where(inside[:, slot], over * (columns * own + A_LOOP * loops), 0.0)
                columns *= sizes[:, slot]
            best = np.where((work < least)[:, None], turn, best)
            least = np.minimum(work, least)
        last = np.argsort(~np.take_along_axis(inside, best, axis=1), axis=1, kind="stable")
        return np.take_along_axis(best, last, axis=1).astype(np.int64), least

    def _cells_over(self, cliques: np.ndarray, axes: np.ndarray) -> np.ndarray:
        """float64[k]: cells of the `cliques` over some of their axes, a bit for each."""
        kept = (axes[:, None] >> np.arange(self._axes.shape[1])) & 1
        return np.where(kept, self._axes[cliques], 1.0).prod(axis=1)

    def _like_to_like(self, turned: np.ndarray, meeting: np.ndarray) -> np.ndarray:
        """int64[view]: an order in which views that meet in the same clique, from the same directions, and
        then those that begin with the same variables, follow each other; `turned`: variables as brought in.
        """
        ways = self._reader.step_of[meeting[:, None], turned]
        return np.lexsort((*turned.T[::-1], *ways.T[::-1], meeting)).astype(np.int64)

    def _starts(self, views: np.ndarray) -> np.ndarray:
        """int64[view + 1]: where each marginal begins when all are laid one after the other."""
        sizes = np.append(self.tree.levels.sizes, 1)
        return np.concatenate([[0], np.cumsum(sizes[views].prod(axis=1))]).astype(np.int64)

    def meeting_cliques(self, views: np.ndarray) -> np.ndarray:
        """int64[view]: the cheapest clique that fixes a view's variables or from which they lie behind
        different separators; -1 where none does.

        Up to three variables always have one: where the paths between them meet.
        """
        meeting, cells = np.full(len(views), -1, dtype=np.int64), np.array(self.tree.cells, dtype=np.float64)
        choose_meeting_cliques(self._way, cells, self.tree.levels.sizes, views, meeting)
        return meeting

    def _parting(self, views: np.ndarray) -> np.ndarray:
        """int64[view]: the edge that splits the variables of a view most evenly; among equals that with the
        smallest separator.
        """
        padded = np.append(self._beyond, np.zeros((len(self._beyond), 1), dtype=bool), axis=1)
        lopsided = np.abs(2 * padded[:, views].sum(axis=2) - (views >= 0).sum(axis=1))
        separators = np.array([self.tree.levels.cells(s) for *_, s in self.tree.edges], dtype=np.float64)
        rank = np.argsort(np.argsort(separators, kind="stable"), kind="stable")
        return (lopsided * len(rank) + rank[:, None]).argmin(axis=0)

    def _wide(self, view: View, edge: int) -> np.ndarray:
        """A marginal without a meeting clique, which only views of four or more variables can lack. The
        variables on either side of an edge are independent given its separator, so the marginal is a product
        of two matrices.
        """
        child, parent, _ = self.tree.edges[edge]
        far = tuple(v for v in view if self._beyond[edge, v])
        near = tuple(v for v in view if not self._beyond[edge, v])
        start, cells = self.layout.edges[edge, [START, CELLS]].tolist()
        mass = self.beliefs.separators[start : start + cells, None]
        table = (self._kept_conditional(child, parent, far) * mass).T @ self._kept_conditional(
            parent, child, near
        )
        return arranged(table.ravel(), far + near, view, self.tree.levels.sizes)

    def _kept_conditional(self, clique: int, sender: int, view: View) -> np.ndarray:
        """float64[separator's cells, cells of `view`]: P(view | separator) of variables on the clique's side.

        Cached up to MAX_KEPT numbers, because views that are split at the same edge share most of them.
        """
        key = clique, sender, view
        known = self._known.get(key)
        if known is None:
            known = self._conditional(clique, sender, view)
            if self._kept + known.size > MAX_KEPT:
                self._known, self._kept = {}, 0
            self._known[key] = known
            self._kept += known.size
        return known

    def _conditional(self, clique: int, sender: int, view: View) -> np.ndarray:
        """What `_kept_conditional` keeps: the clique's table times what lies beyond its other neighbours."""
        from factored_mwem.kernels.copies import joined  # of views that no clique meets

        tree, sizes = self.tree, self.tree.levels.sizes
        ways = {v: int(self._next_clique[clique, v]) for v in view}
        inside = tuple(v for v, k in ways.items() if k < 0)
        beyond = {k: tuple(v for v in view if ways[v] == k) for k in dict.fromkeys(ways.values()) if k >= 0}
        factors = [
            (
                grid(tree.steps(clique, self._separator[clique, k])),
                self._kept_conditional(k, clique, variables)[None],
            )
            for k, variables in beyond.items()
        ]
        between, own = self._separator[clique, sender], tree.levels.cells(inside)
        row = grid(tree.steps(clique, between)) * own + grid(tree.steps(clique, inside))
        *first, (at, last) = factors or [(np.zeros(len(row), dtype=np.int64), np.ones((1, 1, 1)))]
        width = math.prod(factor.shape[2] for _, factor in first)
        summed = np.zeros((1, tree.levels.cells(between) * own, width * last.shape[2]))
        chunk = max(MAX_PRODUCTS // width, 1)
        for begin in range(0, len(row), chunk):
            part = slice(begin, begin + chunk)
            table, each = self._table(clique)[part][None, :, None], np.arange(len(row[part]))
            for rows, factor in first:
                wider = np.zeros((1, len(each), table.shape[2] * factor.shape[2]))
                joined(table, factor, rows[part], each, wider)
                table = wider
            joined(table, last, at[part], row[part], summed)
        order = inside + tuple(v for variables in beyond.values() for v in variables)
        axes = summed.reshape(-1, *(int(sizes[v]) for v in order))
        turned = axes.transpose(0, *(1 + order.index(v) for v in view)).reshape(len(axes), -1)
        mass = turned.sum(axis=1, keepdims=True)
        return np.divide(turned, mass, out=np.zeros(turned.shape), where=mass > 0)

    def _lay_out(self) -> Reader:
        """How the kernels read this tree; its conditionals are still to be filled in."""
        tree, edges, sizes = self.tree, self.layout.edges, self.tree.levels.sizes
        self._ways, self._way = _last_separators(tree, self._next_clique)
        steps, step_of, back = self._steps()
        self._axes, self._needs = self._axes_needed(steps, step_of)
        carried = np.zeros((len(self._ways) + 1, step_of.shape[1]), dtype=bool)
        carried[self._way, np.arange(step_of.shape[1])] = True  # -1 marks the last row, which is none's
        begins, widths, rows = (np.full(len(carried), fill, dtype=np.int64) for fill in (-1, 0, 0))
        column = np.full(carried.shape, -1, dtype=np.int64)
        directions: list[tuple[int, ...]] = []
        blocks: list[list[int]] = []
        end = 0
        for d, (m, k, e) in enumerate(self._ways):
            first, variables = len(blocks), np.flatnonzero(carried[d])
            # what comes from one table next to each other, and levels of an attribute: the kernel adds up
            # what they have in common once
            source = self._way[k, variables]
            order = np.lexsort((tree.levels.attribute[variables], column[source, variables], source))
            variables, source = variables[order], source[order]
            column[d, variables], widths[d] = _columns(sizes[variables])
            rows[d], begins[d] = edges[e, CELLS], end
            from_ = np.where(source < 0, -1, begins[source] + column[source, variables])
            parts = (column[d, variables], step_of[k, variables], from_, widths[source], sizes[variables])
            blocks += _joined_blocks(np.stack(parts, axis=1).tolist())
            directions.append((k, edges[e, START], rows[d], end, widths[d], back[k, m], first, len(blocks)))
            end += int(rows[d] * widths[d])
        given_of = begins[self._way] + column[self._way, np.arange(column.shape[1])]
        self._rows = rows[self._way]
        return Reader(
            self.layout.cliques,
            np.array([int(sizes[v]) for clique in tree.cliques for v in clique], dtype=np.int64),
            np.cumsum([0, *map(len, tree.cliques)], dtype=np.int64),
            sizes,
            steps,
            step_of,
            np.where(self._way < 0, -1, given_of),
            widths[self._way],
            np.array(directions, dtype=np.int64).reshape(-1, 8),
            np.array(blocks, dtype=np.int64).reshape(-1, 5),
            np.zeros(end),
        )

    def _axes_needed(self, steps: np.ndarray, step_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the sizes of each clique's axes of several codes, float64[clique, axis], padded with 1; a bit for
        each of them on which the steps towards a variable depend, int64[clique, variable]).
        """
        sizes, needs = self.tree.levels.sizes, np.zeros(step_of.shape, dtype=np.int64)
        axes = [[int(sizes[v]) for v in clique] for clique in self.tree.cliques]
        wide = [[size for size in own if size > 1] for own in axes]
        padded = np.ones((len(axes), max(map(len, wide), default=0)))
        for k, own in enumerate(axes):
            padded[k, : len(wide[k])] = wide[k]
            first = np.cumsum([0, *own[:-1]])
            bits = np.array([1 << sum(size > 1 for size in own[:a]) for a in range(len(own))], dtype=np.int64)
            for at in np.unique(step_of[k][step_of[k] >= 0]).tolist():
                depends = np.maximum.reduceat(steps[at : at + sum(own)], first) > 0
                needs[k, step_of[k] == at] = bits[depends].sum()
        return padded, needs

    def _steps(self) -> tuple[np.ndarray, np.ndarray, dict[tuple[int, int], int]]:
        """(all steps, where those of each clique to each variable begin, and to each neighbour)."""
        parts: list[np.ndarray] = []
        begins: dict[tuple[int, View], int] = {}
        end = 0

        def begin(clique: int, view: View) -> int:
            nonlocal end
            if (clique, view) not in begins:
                parts.append(np.concatenate(self.tree.steps(clique, view)))
                begins[clique, view], end = end, end + len(parts[-1])
            return begins[clique, view]

        step_of = np.full(self._next_clique.shape, -1, dtype=np.int64)
        for k in range(len(step_of)):
            for v in self.variables:
                way = int(self._way[k, v])
                step_of[k, v] = begin(k, (v,) if way < 0 else self._separator[self._ways[way][:2]])
        back = {(k, j): begin(k, separator) for (k, j), separator in self._separator.items()}
        return np.concatenate(parts), step_of, back


def _columns(sizes: np.ndarray) -> tuple[np.ndarray, int]:
    """Where each variable's codes begin when all are laid side by side, and where the last end."""
    ends = np.cumsum(sizes)
    return ends - sizes, int(ends[-1]) if len(ends) else 0


def _joined_blocks(parts: list[list[int]]) -> list[list[int]]:
    """See `Reader.blocks`: those that follow each other in one later conditional, too, as one block."""
    blocks: list[list[int]] = []
    for part in parts:
        last = blocks[-1] if blocks else None
        if (
            last
            and part[NEXT] >= 0
            and part[STEPS] == last[STEPS]
            and part[NEXT] == last[NEXT] + last[COLUMNS]
        ):
            last[COLUMNS] += part[COLUMNS]
        else:
            blocks.append(part)
    return blocks


def _finest_shared(tree: CliqueTree, variables: Iterable[int]) -> np.ndarray:
    """int64[variable]: where only a coarser variable of its attribute meets others in a clique, the finest
    such one; itself elsewhere; -1: not asked for.
    """
    levels = tree.levels
    finest = np.full(len(levels), -1, dtype=np.int64)
    for v in variables:
        chain = levels.chains[int(levels.attribute[v])]
        shared = [u for clique in tree.cliques if len(clique) > 1 for u in clique if u in chain]
        finest[v] = max(v, min(shared)) if shared else v
    return finest


def _splits(levels: Levels, finest: np.ndarray) -> Splits:
    """How every variable comes from its `finest` shared one, `int64[variable]` (-1: not asked for), with
    shares of 1, which are right where it is itself.
    """
    ends = np.cumsum(levels.sizes, dtype=np.int64)
    first, codes = ends - levels.sizes, np.zeros(ends[-1], dtype=np.int64)
    for v in np.flatnonzero(finest >= 0).tolist():
        codes[first[v] : ends[v]] = levels.between(v, int(finest[v]))
    coarse = np.where(finest < 0, 1, levels.sizes[finest])
    return Splits(levels.sizes, coarse, first, codes, np.ones(len(codes)))


def _next_cliques(tree: CliqueTree, variables: Sequence[int]) -> np.ndarray:
    """int64[clique, variable]: the neighbour on the way to the variable, -1 where the clique fixes it."""
    next_clique = np.full((len(tree.cliques), max(variables) + 1), -1, dtype=np.int64)
    for v in variables:
        reached = [k for k in tree.home[int(tree.levels.attribute[v])] if tree.fixes(k, (v,))]
        seen = set(reached)
        for k in reached:
            for j in tree.neighbours[k]:
                if j not in seen:
                    seen.add(j)
                    next_clique[j, v] = k
                    reached.append(j)
    return next_clique


def _last_separators(
    tree: CliqueTree, next_clique: np.ndarray
) -> tuple[list[tuple[int, int, int]], np.ndarray]:
    """(the directions (clique, neighbour, edge), far ends first; int64[clique, variable]: the last of them on
    the way to the variable whose separator the clique fixes, -1 where it fixes the variable itself).

    Any separator on the way makes a variable independent of what lies before it, so the smallest that the
    clique knows will do, and those are the later ones: a separator that it fixes lies within all before it.
    """
    fixed = np.zeros((len(tree.cliques), len(tree.levels)), dtype=bool)
    for k, clique in enumerate(tree.cliques):
        for v in clique:
            fixed[k, [u for u in tree.levels.chains[int(tree.levels.attribute[v])] if u >= v]] = True
    down = [(p, c, e) for e, (c, p, _) in enumerate(tree.edges)]
    ways = down[::-1] + [(c, p, e) for p, c, e in down]
    number = {(m, k): d for d, (m, k, _) in enumerate(ways)}
    way = np.full(next_clique.shape, -1, dtype=np.int64)
    last = np.full((len(ways), len(fixed)), -1, dtype=np.int64)
    """int64[direction, clique]: of a clique from which the way leads in this direction, the last so far."""
    reached = np.full((len(fixed), len(fixed)), -1, dtype=np.int64)
    for d in range(len(ways) - 1, -1, -1):
        m, k, e = ways[d]
        before = np.where(last[number[k, m]] < 0, reached[m], -1)
        before[m] = d
        known = fixed[:, list(tree.edges[e][2])].all(axis=1)
        last[d] = np.where((before >= 0) & known, d, before)
        reached[k] = np.maximum(reached[k], last[d])
        found, on = np.flatnonzero((next_clique[m] == k) & (next_clique[k] < 0)), last[d] >= 0
        way[np.ix_(on, found)] = last[d][on][:, None]
    return ways, way
