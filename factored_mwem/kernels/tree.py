"""Kernels of a clique tree: calibration, and the descent that fits it to noisy marginals.

All tables of a tree lie in flat arrays. A map from a clique's cells to those of a smaller table is a head and
a tail, as in kernels/dense.py. Clique 0 is the root.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import F8, I8, I8x2, compiled, entry, part
from factored_mwem.kernels.dense import FLOOR, marginal_into, multiply_by

BEGIN, HEADS, TAILS = range(3)
"""Columns of `TreeArrays.cliques`: where the clique's cells begin, and the lengths of heads and tails."""
CHILD, PARENT, START, CELLS, HEAD, TAIL, PARENT_HEAD, PARENT_TAIL = range(8)
"""Columns of `TreeArrays.edges`: the two cliques, the separator's cells, and where the maps from the child
and from the parent to the separator begin.
"""
CLIQUE, MIDDLE_HEAD, MIDDLE_TAIL, MIDDLE_START, MIDDLE_HEADS, MIDDLE_TAILS = range(6)
"""Columns of `TreeArrays.middles`: the clique and its map to the middle table; where that one's cells begin
among those of all, and the lengths of its own heads and tails.
"""
MIDDLE, VIEW_HEAD, VIEW_TAIL, VIEW_START, VIEW_CELLS = range(5)
"""Columns of `TreeArrays.tables`: the middle table, its map to the measured view, and the view's cells among
all measured ones.
"""
ROOT = np.int64(0)
"""The first clique. A numpy integer, because a literal would make numba compile `_table` a second time."""
MAX_STEP, MAX_MOVE = 30.0, 300.0
"""No parameter moves further than the first in one step, and those of all tables together no further than the
second: exp stays far from overflow, even where a step is taken back and another made at once.
"""
MEMORY, FEWEST = 8, 20
"""Steps that a descent remembers, and the fewest steps before it may stop. With 8, some 200 to 300 steps
reached as low a loss as 3,000 with Nesterov momentum; 14 gained little more, 5 less.
"""


class TreeArrays(NamedTuple):
    """A row for each clique, each edge (parents before children), each measured table and each middle table;
    and all maps. A middle table is the marginal of a clique from which several measured ones are made, so
    that the clique's cells are passed over once for all.
    """

    cliques: I8x2
    edges: I8x2
    maps: I8
    tables: I8x2
    middles: I8x2


class Beliefs(NamedTuple):
    """The cells of all cliques, one after the other, and of all separators."""

    cliques: F8
    separators: F8


class Targets(NamedTuple):
    """What to fit: the shares of all measured cells, and the weight of each table's squared error."""

    shares: F8
    weights: F8


class Pace(NamedTuple):
    """The length of the first step, the most steps, and the fall of the loss in the second half of the steps
    below which to stop.
    """

    step: float
    iterations: int
    enough: float


@part
def _table(cells, tree, clique, head, tail):
    """A clique's table among the `cells` of all, and the (head, tail) of a map of it."""
    begin, heads, tails = (
        tree.cliques[clique, BEGIN],
        tree.cliques[clique, HEADS],
        tree.cliques[clique, TAILS],
    )
    maps = tree.maps
    return cells[begin : begin + heads * tails], maps[head : head + heads], maps[tail : tail + tails]


@part
def _middle_cells(tree):
    """Cells of all middle tables."""
    last = len(tree.middles) - 1
    if last < 0:
        return np.int64(0)
    row = tree.middles[last]
    return row[MIDDLE_START] + row[MIDDLE_HEADS] * row[MIDDLE_TAILS]


@part
def _view(middles, tree, table):
    """A measured table's middle one among the cells of all `middles`, and the (head, tail) of its map."""
    row, maps = tree.middles[table[MIDDLE]], tree.maps
    heads, tails, head, tail = row[MIDDLE_HEADS], row[MIDDLE_TAILS], table[VIEW_HEAD], table[VIEW_TAIL]
    begin = row[MIDDLE_START]
    return middles[begin : begin + heads * tails], maps[head : head + heads], maps[tail : tail + tails]


@part
def _from_clique(cells, middles, tree, row):
    """The clique of a middle table among all `cells`, the (head, tail) of its map, and the middle table."""
    table, head, tail = _table(cells, tree, row[CLIQUE], row[MIDDLE_HEAD], row[MIDDLE_TAIL])
    begin = row[MIDDLE_START]
    return table, head, tail, middles[begin : begin + row[MIDDLE_HEADS] * row[MIDDLE_TAILS]]


@part
def calibrate(beliefs, tree):
    """Make all cliques agree on their separators and sum to 1, by one pass up and one down (Hugin)."""
    edges = len(tree.edges)
    for i in range(2 * edges + 1):
        if i == edges:
            _normalise(_table(beliefs.cliques, tree, ROOT, ROOT, ROOT)[0])
        else:  # one call for both passes: a second one would be compiled in once more
            up = i < edges  # up, edges are taken backwards, children before their parents; down, forwards
            _send(beliefs, tree, tree.edges[edges - 1 - i if up else i - edges - 1], up)


@part
def _normalise(table):
    total = 0.0
    for c in range(len(table)):
        total += table[c]
    for c in range(len(table)):
        table[c] /= total


@part
def _send(beliefs, tree, edge, up):
    """Send the marginal of one clique of the edge to the other."""
    child, parent = (
        (edge[CHILD], edge[HEAD], edge[TAIL]),
        (edge[PARENT], edge[PARENT_HEAD], edge[PARENT_TAIL]),
    )
    sender, receiver = (child, parent) if up else (parent, child)
    old, fresh = beliefs.separators[edge[START] : edge[START] + edge[CELLS]], np.empty(edge[CELLS])
    fresh[:] = 0.0
    table, head, tail = _table(beliefs.cliques, tree, sender[0], sender[1], sender[2])
    marginal_into(table, head, tail, fresh)
    for s in range(len(fresh)):
        if old[s] > 0.0:  # else rules leave it nothing on either side, and a ratio of 0 changes nothing
            mass = max(fresh[s], FLOOR)  # rounding must not make it 0, which could never grow again
            fresh[s] = mass / old[s]
            old[s] = mass
    table, head, tail = _table(beliefs.cliques, tree, receiver[0], receiver[1], receiver[2])
    multiply_by(table, head, tail, fresh)


@part
def shift(cells, tree, moves):
    """Multiply the cliques by exp of `moves`, one small table for each measurement; in place."""
    middles, tables = np.empty(_middle_cells(tree)), len(tree.tables)
    for c in range(len(middles)):
        middles[c] = 1.0
    for m in range(tables + len(tree.middles)):
        if m < tables:
            row = tree.tables[m]
            ratio = np.empty(row[VIEW_CELLS])
            for c in range(len(ratio)):
                ratio[c] = math.exp(moves[row[VIEW_START] + c])
            table, head, tail = _view(middles, tree, row)
        else:
            table, head, tail, ratio = _from_clique(cells, middles, tree, tree.middles[m - tables])
        multiply_by(table, head, tail, ratio)  # of both in one place, or it would be compiled twice


@compiled
def tilt(beliefs, tree, moves):
    """Multiply calibrated beliefs by exp of `moves`, one small table for each measurement, and calibrate them
    again; in place.
    """
    shift(beliefs.cliques, tree, moves)
    calibrate(beliefs, tree)


@part
def gaps(cells, tree, targets, residuals):
    """Write how far each measured cell's answer is from its target, in standard deviations, into `residuals`.
    Returns the loss, half the sum of their squares.
    """
    loss, middles, count = 0.0, np.empty(_middle_cells(tree)), len(tree.middles)
    for c in range(len(residuals)):
        residuals[c] = 0.0
    for c in range(len(middles)):
        middles[c] = 0.0
    for m in range(count + len(tree.tables)):
        if m < count:
            table, head, tail, answer = _from_clique(cells, middles, tree, tree.middles[m])
        else:
            row = tree.tables[m - count]
            at = row[VIEW_START]
            answer = residuals[at : at + row[VIEW_CELLS]]
            table, head, tail = _view(middles, tree, row)
        marginal_into(table, head, tail, answer)
        if m < count:
            continue
        precision = math.sqrt(targets.weights[m - count])
        for c in range(len(answer)):
            answer[c] = precision * (answer[c] - targets.shares[at + c])
            loss += answer[c] * answer[c] / 2
    return loss


@entry
def descend(
    beliefs: Beliefs, tree: TreeArrays, targets: Targets, theta: F8, pace: Pace
) -> tuple[int, float, float]:
    """Fit calibrated beliefs to noisy marginals by mirror descent that remembers its last steps; in place.
    Returns (iterations, step, loss): the loss is the sum of weight (answer - target)^2 / 2.

    `theta: float64[measured cells]` are the log-linear parameters that the beliefs stand for. For small moves
    the answers change almost linearly. So each step first goes to the point where a combination of the last
    moves, by the changes that they made in the answers, gives the least loss, and from there one step of
    mirror descent (Anderson 1965; for a quadratic loss, conjugate residuals). A step that raises the loss is
    taken back, but the change that it made is remembered, too.
    """
    cells = len(theta)
    gap, fresh, move, failed = np.empty(cells), np.empty(cells), np.empty(cells), np.empty(cells)
    moves, changes, falls = np.empty((MEMORY, cells)), np.empty((MEMORY, cells)), np.empty(pace.iterations)
    failed[:] = 0.0
    moves[:] = 0.0
    changes[:] = 0.0
    most = min(MAX_STEP, MAX_MOVE / max(len(tree.tables), 1))
    loss, step, known, fails, done = np.inf, pace.step, 0, 0, 0
    begun, over = False, False
    while not over or fails > 0:  # what a step calls is called in one place, or it would be compiled twice
        if over:
            move[:] = 0.0
        elif begun:
            _propose(move, gap, (moves, changes), tree.tables, targets.weights, step)
            _limit(move, tree.tables, most)
        if begun:
            _go(beliefs, tree, theta, move, failed)
        if over:
            break
        higher = gaps(beliefs.cliques, tree, targets, fresh)
        if not begun:
            loss, gap, fresh, begun, over = higher, fresh, gap, True, pace.iterations < 1
            continue
        _remember(move, gap, fresh, moves, changes, known % MEMORY)
        known += 1
        for c in range(cells):
            failed[c] = move[c] if higher > loss else 0.0
        if higher <= loss:  # without remembered moves the outcome shows best whether the length is right
            loss, gap, fresh, fails, step = higher, fresh, gap, 0, step * (1.05 if known > 1 else 2.0)
        else:
            fails, step = fails + 1, step / (1.2 if known > 1 else 2.0)
            if fails > 1:  # twice in a row: the remembered moves do not describe the loss here, so start anew
                known = 0
                moves[:] = 0.0
                changes[:] = 0.0
        falls[done] = loss
        done += 1
        # if the loss falls like a power of the steps, as much is left to gain as their second half gained
        settled = fails == 0 and done >= FEWEST and falls[done // 2 - 1] - loss < pace.enough
        over = settled or done >= pace.iterations
    return done, step, loss


@part
def _go(beliefs, tree, theta, move, failed):
    """Take back the step that failed, and take the next, at once."""
    for c in range(len(theta)):
        failed[c] = move[c] - failed[c]  # one shift does both
        theta[c] += failed[c]
    shift(beliefs.cliques, tree, failed)
    calibrate(beliefs, tree)


@part
def _propose(move, gap, remembered, tables, weights, step):
    """Propose a move: to the point where the `remembered` moves, with what they changed, make the loss least,
    then one step of mirror descent.
    """
    rest, (moves, changes) = np.empty(len(gap)), remembered
    for c in range(len(gap)):
        rest[c] = gap[c]
        move[c] = 0.0
    _take_out(rest, move, moves, changes)
    for m in range(len(tables)):
        pace = step * math.sqrt(weights[m])
        for c in range(tables[m, VIEW_START], tables[m, VIEW_START] + tables[m, VIEW_CELLS]):
            move[c] -= pace * rest[c]


@part
def _take_out(gaps, move, moves, changes):
    """Project `gaps` off the remembered changes, and subtract the corresponding moves from `move`."""
    for k in range(len(moves)):  # one after the other on what is left: modified Gram-Schmidt, which is stable
        along = 0.0
        for c in range(len(gaps)):
            along += changes[k, c] * gaps[c]
        if along != 0.0:
            for c in range(len(gaps)):
                gaps[c] -= along * changes[k, c]
                move[c] -= along * moves[k, c]


@part
def _remember(move, gap, fresh, moves, changes, at):
    """Keep a move and how it changed the gaps in the place of the oldest; changes are kept orthonormal."""
    own, before, after = np.empty(len(move)), 0.0, 0.0
    for c in range(len(own)):
        own[c] = fresh[c] - gap[c]
        changes[at, c] = 0.0
        moves[at, c] = move[c]
        before += own[c] * own[c]
    _take_out(own, moves[at], moves, changes)
    for c in range(len(own)):
        after += own[c] * own[c]
    # a change that the others explain already is dropped: what is left of it is rounding
    scale = 1.0 / math.sqrt(after) if after > 1e-12 * before else 0.0
    for c in range(len(own)):
        changes[at, c] = own[c] * scale
        moves[at, c] *= scale


@part
def _limit(move, tables, most):
    """Keep moves within `most`, less each table's mean: it changes no distribution, so it must not drift."""
    for m in range(len(tables)):
        start, cells = tables[m, VIEW_START], tables[m, VIEW_CELLS]
        mean = 0.0
        for c in range(start, start + cells):
            mean += move[c] / cells
        for c in range(start, start + cells):
            move[c] = min(max(move[c] - mean, -most), most)


@entry
def rebuild(beliefs: Beliefs, tree: TreeArrays, theta: F8) -> None:
    """Calibrated beliefs of the log-linear model with parameters `theta`, made in log space; in place.

    Cells with a parameter of -inf get the weight 0, and so do cells that are compatible only with such cells;
    if nothing is left, all cells do.
    """
    logs, edges = beliefs.cliques, tree.edges
    for c in range(len(logs)):
        logs[c] = 0.0
    middles, tables = np.empty(_middle_cells(tree)), len(tree.tables)
    for c in range(len(middles)):
        middles[c] = 0.0
    for m in range(tables + len(tree.middles)):
        if m < tables:
            row = tree.tables[m]
            table, head, tail = _view(middles, tree, row)
            moves = theta[row[VIEW_START] : row[VIEW_START] + row[VIEW_CELLS]]
        else:
            table, head, tail, moves = _from_clique(logs, middles, tree, tree.middles[m - tables])
        _add(table, head, tail, moves)
    for e in range(len(edges) - 1, -1, -1):  # messages up, which stay in the separators until the way down
        message = beliefs.separators[edges[e, START] : edges[e, START] + edges[e, CELLS]]
        table, head, tail = _table(logs, tree, edges[e, CHILD], edges[e, HEAD], edges[e, TAIL])
        _log_marginal(table, head, tail, message)
        table, head, tail = _table(logs, tree, edges[e, PARENT], edges[e, PARENT_HEAD], edges[e, PARENT_TAIL])
        _add(table, head, tail, message)
    root = _table(logs, tree, ROOT, ROOT, ROOT)[0]
    highest, total = -np.inf, 0.0
    for c in range(len(root)):
        highest = max(highest, root[c])
    if highest == -np.inf:
        logs[:] = 0.0
        return
    for c in range(len(root)):
        total += math.exp(root[c] - highest)
    for c in range(len(root)):
        root[c] -= highest + math.log(total)
    for e in range(len(edges)):
        message = beliefs.separators[edges[e, START] : edges[e, START] + edges[e, CELLS]]
        fresh = np.empty(len(message))
        table, head, tail = _table(logs, tree, edges[e, PARENT], edges[e, PARENT_HEAD], edges[e, PARENT_TAIL])
        _log_marginal(table, head, tail, fresh)
        for s in range(len(fresh)):
            message[s] = fresh[s] - message[s] if message[s] > -np.inf else 0.0
        table, head, tail = _table(logs, tree, edges[e, CHILD], edges[e, HEAD], edges[e, TAIL])
        _add(table, head, tail, message)
        for s in range(len(fresh)):
            message[s] = max(math.exp(fresh[s]), FLOOR) if fresh[s] > -np.inf else 0.0
    for c in range(len(logs)):
        logs[c] = max(math.exp(logs[c]), FLOOR) if logs[c] > -np.inf else 0.0


@part
def _log_marginal(logs, head, tail, out):
    """The log of the marginal of exp of `logs`, into `out`."""
    highest, tails = np.empty(len(out)), len(tail)
    for cell in range(len(out)):
        highest[cell] = -np.inf
        out[cell] = 0.0
    for h in range(len(head)):
        for t in range(tails):
            cell = head[h] + tail[t]
            highest[cell] = max(highest[cell], logs[h * tails + t])
    for h in range(len(head)):
        for t in range(tails):
            cell = head[h] + tail[t]
            if highest[cell] > -np.inf:
                out[cell] += math.exp(logs[h * tails + t] - highest[cell])
    for cell in range(len(out)):
        out[cell] = highest[cell] + math.log(out[cell]) if highest[cell] > -np.inf else -np.inf


@part
def _add(logs, head, tail, message):
    """Add to each of `logs` the message at its cell of the smaller table; in place."""
    for h in range(len(head)):
        for t in range(len(tail)):
            logs[h * len(tail) + t] += message[head[h] + tail[t]]
