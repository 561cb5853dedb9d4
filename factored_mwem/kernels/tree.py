"""Kernels of a clique tree: calibration, and the descent that fits it to noisy marginals.

All tables of a tree lie in flat arrays. `cliques: int64[clique, 3]` holds (start in beliefs, head length,
tail length). A map from a clique's cells to those of a smaller table is a head and a tail, as in
kernels/dense.py, and lies in `index: int64`. `edges: int64[edge, 8]` holds, parents before children, (child,
parent, start in separators, length, child's head, child's tail, parent's head, parent's tail). `tables:
int64[measurement, 5]` holds (clique, head, tail, start in the flat arrays of all measured cells, cells).
"""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.kernels import entry, part
from factored_mwem.kernels.dense import FLOOR, marginal_into, multiply_by

LARGEST_STEP, LARGEST_MOVE = 30.0, 600.0
"""No parameter moves further than the first in one step, and those of all tables together no further than the
second: exp stays far from overflow.
"""


@part
def calibrate(beliefs, separators, cliques, edges, index, root):
    """Make all cliques agree on their separators and sum to 1, by one pass up and one down with separator
    ratios (Hugin); in place.
    """
    last = len(edges) - 1
    for i in range(2 * len(edges) + 1):
        if i <= last:  # up: child to parent
            e, sender, receiver, from_, to = last - i, edges[last - i, 0], edges[last - i, 1], 4, 6
        elif i == last + 1:
            _normalise(beliefs, cliques[root, 0], cliques[root, 0] + cliques[root, 1] * cliques[root, 2])
            continue
        else:  # down
            e = i - last - 2
            sender, receiver, from_, to = edges[e, 1], edges[e, 0], 6, 4
        _pass(beliefs, separators, cliques, edges[e], index, sender, receiver, from_, to)


@part
def _normalise(beliefs, start, end):
    total = 0.0
    for c in range(start, end):
        total += beliefs[c]
    for c in range(start, end):
        beliefs[c] /= total


@part
def _pass(beliefs, separators, cliques, edge, index, sender, receiver, from_, to):
    """Send the marginal of clique `sender` over the edge to clique `receiver`; edge columns `from_` and `to`
    hold their maps.
    """
    old = separators[edge[2] : edge[2] + edge[3]]
    fresh = np.zeros(edge[3])
    start, heads, tails = cliques[sender, 0], cliques[sender, 1], cliques[sender, 2]
    weights = beliefs[start : start + heads * tails]
    marginal_into(
        weights,
        index[edge[from_] : edge[from_] + heads],
        index[edge[from_ + 1] : edge[from_ + 1] + tails],
        fresh,
    )
    for s in range(edge[3]):
        mass = max(fresh[s], FLOOR)
        fresh[s] = mass / old[s]
        old[s] = mass
    start, heads, tails = cliques[receiver, 0], cliques[receiver, 1], cliques[receiver, 2]
    weights = beliefs[start : start + heads * tails]
    multiply_by(
        weights, index[edge[to] : edge[to] + heads], index[edge[to + 1] : edge[to + 1] + tails], fresh
    )


@part
def shift(beliefs, cliques, index, tables, moves):
    """Multiply the cliques by exp of `moves`, one small table for each measurement; in place."""
    for m in range(len(tables)):
        clique, head, tail, at, cells = tables[m, 0], tables[m, 1], tables[m, 2], tables[m, 3], tables[m, 4]
        ratio = np.empty(cells)
        for c in range(cells):
            ratio[c] = math.exp(moves[at + c])
        start, heads, tails = cliques[clique, 0], cliques[clique, 1], cliques[clique, 2]
        multiply_by(
            beliefs[start : start + heads * tails],
            index[head : head + heads],
            index[tail : tail + tails],
            ratio,
        )


@part
def gaps(beliefs, cliques, index, tables, target, weight, gradient):
    """The gradient of the loss, sum of weight (answer - target)^2 / 2 over all measured cells in shares, into
    `gradient`; returns the loss.
    """
    loss = 0.0
    for c in range(len(gradient)):
        gradient[c] = 0.0
    for m in range(len(tables)):
        clique, head, tail, at, cells = tables[m, 0], tables[m, 1], tables[m, 2], tables[m, 3], tables[m, 4]
        start, heads, tails = cliques[clique, 0], cliques[clique, 1], cliques[clique, 2]
        table = gradient[at : at + cells]
        marginal_into(
            beliefs[start : start + heads * tails],
            index[head : head + heads],
            index[tail : tail + tails],
            table,
        )
        for c in range(cells):
            gap = table[c] - target[at + c]
            loss += weight[m] * gap * gap / 2
            table[c] = weight[m] * gap
    return loss


@entry(
    "(f8[::1], f8[::1], i8[:, ::1], i8[:, ::1], i8[::1], i8, i8[:, ::1], f8[::1], f8[::1], f8[::1], f8, i8, "
    "f8)"
)
def descend(
    beliefs, separators, cliques, edges, index, root, tables, target, weight, theta, step, iterations, enough
):
    """Fit calibrated beliefs to noisy marginals by accelerated mirror descent; in place. Returns (iterations,
    step, loss).

    `theta: float64[measured cells]` are the log-linear parameters that the beliefs stand for. A step that
    raises the loss is taken back, and Nesterov momentum starts over with a smaller step. Stops where ten
    steps lower the loss by less than `enough`.
    """
    gradient, move, trailing = np.empty(len(theta)), np.zeros(len(theta)), np.empty(len(theta))
    momentum, fails = 0.0, False
    most = min(LARGEST_STEP, LARGEST_MOVE / max(len(tables), 1))
    loss = gaps(beliefs, cliques, index, tables, target, weight, gradient)
    mark = loss
    for i in range(iterations):
        beta = (momentum - 1.0) / (momentum + 2.0)
        for c in range(len(theta)):
            if fails:  # back to where the failed step began
                move[c] = -move[c]
            else:
                ahead = theta[c] - step * gradient[c]
                moved = (
                    ahead - theta[c] if momentum < 1.0 else ahead + beta * (ahead - trailing[c]) - theta[c]
                )
                move[c] = moved
                trailing[c] = ahead
        for m in range(
            len(tables) if not fails else 0
        ):  # a table's mean changes no distribution, so it must not drift
            start, cells = tables[m, 3], tables[m, 4]
            mean = 0.0
            for c in range(start, start + cells):
                mean += move[c] / cells
            for c in range(start, start + cells):
                move[c] = min(max(move[c] - mean, -most), most)
        for c in range(len(theta)):
            theta[c] += move[c]
        shift(beliefs, cliques, index, tables, move)
        calibrate(beliefs, separators, cliques, edges, index, root)
        before, loss = loss, gaps(beliefs, cliques, index, tables, target, weight, gradient)
        if fails:
            fails, momentum = False, 0.0
        elif loss <= before:
            momentum += 1.0
            step *= 1.01
        else:
            fails, step = True, step / (2.0 if momentum == 0.0 else 1.5)
        if i % 10 == 9 and not fails:
            if mark - loss < enough and momentum > 1.0:
                return i + 1, step, loss
            mark = loss
    if fails:
        for c in range(len(theta)):
            move[c] = -move[c]
            theta[c] += move[c]
        shift(beliefs, cliques, index, tables, move)
        calibrate(beliefs, separators, cliques, edges, index, root)
        loss = gaps(beliefs, cliques, index, tables, target, weight, gradient)
    return iterations, step, loss


@entry("(f8[::1], f8[::1], i8[:, ::1], i8[:, ::1], i8[::1], i8, i8[:, ::1], f8[::1])")
def rebuild(beliefs, separators, cliques, edges, index, root, tables, theta):
    """Calibrated beliefs of the log-linear model with parameters `theta`, from nothing, in log space; into
    `beliefs` and `separators`.
    """
    for c in range(len(beliefs)):
        beliefs[c] = 0.0
    for m in range(len(tables)):
        clique, head, tail, at = tables[m, 0], tables[m, 1], tables[m, 2], tables[m, 3]
        start, heads, tails = cliques[clique, 0], cliques[clique, 1], cliques[clique, 2]
        for h in range(heads):
            for t in range(tails):
                beliefs[start + h * tails + t] += theta[at + index[head + h] + index[tail + t]]
    for e in range(len(edges) - 1, -1, -1):  # messages up, which stay in the separators until the way down
        child, parent = edges[e, 0], edges[e, 1]
        message = separators[edges[e, 2] : edges[e, 2] + edges[e, 3]]
        _log_marginal(beliefs, cliques[child], index, edges[e, 4], edges[e, 5], message)
        _add(beliefs, cliques[parent], index, edges[e, 6], edges[e, 7], message)
    start, end = cliques[root, 0], cliques[root, 0] + cliques[root, 1] * cliques[root, 2]
    largest, total = -np.inf, 0.0
    for c in range(start, end):
        largest = max(largest, beliefs[c])
    for c in range(start, end):
        total += math.exp(beliefs[c] - largest)
    for c in range(start, end):
        beliefs[c] -= largest + math.log(total)
    for e in range(len(edges)):
        child, parent = edges[e, 0], edges[e, 1]
        message = separators[edges[e, 2] : edges[e, 2] + edges[e, 3]]
        fresh = np.empty(edges[e, 3])
        _log_marginal(beliefs, cliques[parent], index, edges[e, 6], edges[e, 7], fresh)
        for s in range(len(fresh)):
            message[s] = fresh[s] - message[s]
        _add(beliefs, cliques[child], index, edges[e, 4], edges[e, 5], message)
        for s in range(len(fresh)):
            message[s] = max(math.exp(fresh[s]), FLOOR)
    for c in range(len(beliefs)):
        beliefs[c] = max(math.exp(beliefs[c]), FLOOR)


@part
def _log_marginal(logs, clique, index, head, tail, out):
    start, heads, tails = clique[0], clique[1], clique[2]
    highest = np.empty(len(out))
    for cell in range(len(out)):
        highest[cell] = -np.inf
        out[cell] = 0.0
    for h in range(heads):
        for t in range(tails):
            cell = index[head + h] + index[tail + t]
            highest[cell] = max(highest[cell], logs[start + h * tails + t])
    for h in range(heads):
        for t in range(tails):
            cell = index[head + h] + index[tail + t]
            out[cell] += math.exp(logs[start + h * tails + t] - highest[cell])
    for cell in range(len(out)):
        out[cell] = highest[cell] + math.log(out[cell])


@part
def _add(logs, clique, index, head, tail, message):
    start, heads, tails = clique[0], clique[1], clique[2]
    for h in range(heads):
        for t in range(tails):
            logs[start + h * tails + t] += message[index[head + h] + index[tail + t]]
