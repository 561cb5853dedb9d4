"""The oracle: MWEM over a dense table in plain Python, written from Figure 1 of Hardt, Ligett and McSherry
(NIPS 2012).

Dictionaries over cell tuples, `math` and nothing else: no array, no index arithmetic and no import of the
package, so that it shares no mistake with what it judges. Positions are ascending; the cells of a marginal
come in row-major order.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

Cell = tuple[int, ...]
Positions = tuple[int, ...]
Measured = tuple[Positions, Sequence[float], float]
"""Positions, noisy counts of the cells, standard deviation of their noise."""


def cells_of(shape: Sequence[int], positions: Iterable[int] | None = None) -> list[Cell]:
    """All cells of a marginal (of the whole domain where no positions are given), row-major."""
    wanted = range(len(shape)) if positions is None else positions
    return list(itertools.product(*(range(shape[p]) for p in wanted)))


def pick(cell: Cell, positions: Iterable[int]) -> Cell:
    return tuple(cell[p] for p in positions)


def count(rows: Iterable[Cell], shape: Sequence[int], positions: Positions) -> list[int]:
    """True counts of a marginal, one row after the other."""
    found = Counter(pick(row, positions) for row in rows)
    return [found[cell] for cell in cells_of(shape, positions)]


def closure(targets: Iterable[Positions]) -> set[Positions]:
    """Every non-empty subset of every target."""
    return {
        sub
        for target in targets
        for order in range(1, len(target) + 1)
        for sub in itertools.combinations(target, order)
    }


class Dense:
    """A distribution over all cells (`shares`, sum 1), uniform at first: A_0 of Figure 1 over n."""

    def __init__(self, shape: Sequence[int], shares: dict[Cell, float] | None = None) -> None:
        self.shape = tuple(shape)
        cells = cells_of(shape)
        self.shares = shares if shares is not None else {cell: 1 / len(cells) for cell in cells}

    def copy(self) -> Dense:
        return Dense(self.shape, dict(self.shares))

    def answer(self, positions: Positions, n: float) -> list[float]:
        """The marginal, in records."""
        parts: dict[Cell, list[float]] = {cell: [] for cell in cells_of(self.shape, positions)}
        for cell, share in self.shares.items():
            parts[pick(cell, positions)].append(share)
        return [n * math.fsum(part) for part in parts.values()]

    def reweight(self, positions: Positions, factors: Sequence[float]) -> None:
        """Multiply every cell by the factor of its marginal cell, and renormalise."""
        factor = dict(zip(cells_of(self.shape, positions), factors, strict=True))
        raw = {cell: share * factor[pick(cell, positions)] for cell, share in self.shares.items()}
        total = math.fsum(raw.values())
        self.shares = {cell: share / total for cell, share in raw.items()}

    def mw_step(self, positions: Positions, noisy: Sequence[float], n: float) -> None:
        """Figure 1, step 2(c), for all cells of the marginal at once; measurements are clipped to [0, n],
        where answers can lie.
        """
        answers = self.answer(positions, n)
        self.reweight(
            positions,
            [math.exp((min(max(m, 0), n) - a) / (2 * n)) for m, a in zip(noisy, answers, strict=True)],
        )

    def replay(self, measurements: Sequence[Measured], n: float, sweeps: int) -> None:
        """The paper's replay: every measurement in order, `sweeps` times over."""
        for _ in range(sweeps):
            for positions, noisy, _stddev in measurements:
                self.mw_step(positions, noisy, n)


def l1(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(abs(x - y) for x, y in zip(left, right, strict=True))


def average(models: Sequence[Dense]) -> dict[Cell, float]:
    """The mean of several distributions, cell by cell."""
    return {
        cell: math.fsum(model.shares[cell] for model in models) / len(models) for cell in models[0].shares
    }


def relative_entropy(counts: dict[Cell, int], model: Dense) -> float:
    """Sum of B log(B / A) / n in nats."""
    n = sum(counts.values())
    return math.fsum(c / n * math.log(c / n / model.shares[cell]) for cell, c in counts.items() if c)


class Blocks:
    """Which attributes were tied together, as plain sets."""

    def __init__(self, attributes: int) -> None:
        self.sets = [{p} for p in range(attributes)]

    def join(self, positions: Iterable[int]) -> set[int]:
        touched = [s for s in self.sets if s & set(positions)]
        self.sets = [s for s in self.sets if s not in touched] + [set().union(*touched)]
        return self.sets[-1]

    def around(self, position: int) -> set[int]:
        return next(s for s in self.sets if position in s)


def history(
    rows: Sequence[Cell],
    shape: Sequence[int],
    candidates: Sequence[Positions],
    noises: Callable[[int, int], Sequence[int]],
    *,
    rounds: int,
    penalty: Sequence[float],
    sweeps: int,
    forced: bool,
) -> tuple[list[Positions], list[Dense]]:
    """The whole of Figure 1 with n known: marginals chosen, and the iterates A_0 .. A_T.

    The largest score wins. `noises(round, cells)` is the noise of a measurement, `penalty[round]` what a cell
    takes off a score. Measured marginals are excluded. `sweeps` is 1 for the last measurement alone, else
    replays all: with `forced` of the whole domain, without of the component grown so far.
    """
    n, model, blocks = len(rows), Dense(shape), Blocks(len(shape))
    measured: list[Measured] = []
    iterates = [model.copy()]
    for i in range(rounds):
        scores = {
            c: l1(count(rows, shape, c), model.answer(c, n)) - penalty[i] * len(cells_of(shape, c))
            for c in candidates if all(c != m[0] for m in measured)
        }  # fmt: skip
        chosen = max(scores, key=scores.__getitem__)
        noise = noises(i, len(cells_of(shape, chosen)))
        measured.append(
            (chosen, [c + e for c, e in zip(count(rows, shape, chosen), noise, strict=True)], 1.0)
        )
        inside = blocks.join(chosen)
        used = [m for m in measured if forced or inside.issuperset(m[0])]
        model.replay(used if sweeps > 1 else measured[-1:], n, sweeps)
        iterates.append(model.copy())
    return [m[0] for m in measured], iterates


def counts_within_one(counts: Sequence[int], shares: Sequence[float], rows: int) -> bool:
    """Whether every cell came floor or ceil of share * rows times (but for a float's breadth)."""
    return all(
        math.floor(s * rows - 1e-9) <= c <= math.ceil(s * rows + 1e-9)
        for c, s in zip(counts, shares, strict=True)
    )


def project(point: Sequence[float], total: float) -> list[float]:
    """The nearest point without negative entries and with sum `total`, by bisection."""
    low, high = min(point) - total - 1, max(point)
    for _ in range(200):
        middle = (low + high) / 2
        if math.fsum(max(x - middle, 0) for x in point) > total:
            low = middle
        else:
            high = middle
    return [max(x - high, 0) for x in point]


# ---- levels and clique trees

Variable = tuple[int, Sequence[int]]
"""An attribute at a level: its position, and the group of each of its codes."""


def sizes_of(view: Sequence[Variable]) -> list[int]:
    return [max(groups) + 1 for _, groups in view]


def group(cell: Cell, view: Sequence[Variable]) -> Cell:
    """The cell of a view in which a cell of the domain lies."""
    return tuple(groups[cell[position]] for position, groups in view)


def log_linear(
    shape: Sequence[int], views: Sequence[Sequence[Variable]], thetas: Sequence[Sequence[float]]
) -> Dense:
    """The distribution in proportion to exp of the sum of each view's parameter at a cell."""
    tables = [
        dict(zip(cells_of(sizes_of(view)), theta, strict=True))
        for view, theta in zip(views, thetas, strict=True)
    ]
    logs = {
        cell: math.fsum(table[group(cell, view)] for view, table in zip(views, tables, strict=True))
        for cell in cells_of(shape)
    }
    highest = max(logs.values())
    raw = {cell: math.exp(log - highest) for cell, log in logs.items()}
    total = math.fsum(raw.values())
    return Dense(shape, {cell: share / total for cell, share in raw.items()})


def at_levels(shares: dict[Cell, float], view: Sequence[Variable]) -> list[float]:
    """Any table over the domain, added up to a view."""
    found = dict.fromkeys(cells_of(sizes_of(view)), 0.0)
    for cell, share in shares.items():
        found[group(cell, view)] += share
    return list(found.values())


def eliminated(
    graph: dict[int, set[int]], logs: Sequence[float], attribute: Sequence[int]
) -> list[list[int]]:
    """Maximal cliques of the greedy elimination that takes the smallest clique first, and of equal ones the
    lowest number.

    A clique's size is the sum of `logs` over the finest (lowest) variable of each attribute in it.
    """
    graph = {v: set(around) - {v} for v, around in graph.items()}

    def finest(clique: set[int]) -> list[int]:
        return [v for v in sorted(clique) if not any(u < v and attribute[u] == attribute[v] for u in clique)]

    def size(v: int) -> float:
        found = 0.0
        for u in finest(graph[v] | {v}):
            found += logs[u]
        return found

    cliques: list[set[int]] = []
    while graph:
        least = min(sorted(graph), key=size)
        clique = graph.pop(least) | {least}
        for v in clique - {least}:
            graph[v] = (graph[v] | clique) - {v, least}
        if not any(clique <= earlier for earlier in cliques):
            cliques.append(clique)
    return [finest(clique) for clique in cliques]
