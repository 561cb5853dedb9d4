"""Kernels of a clique tree: triangulation, calibration, and the descent that fits it to noisy marginals.

All tables of a tree lie in flat arrays. `cliques: int64[clique, 3]` holds (start in beliefs, head length, tail length). A map from a clique's
cells to those of a smaller table is a head and a tail, as in kernels/dense.py, and lies in `index: int64`. `edges: int64[edge, 8]` holds,
parents before children, (child, parent, start in separators, length, child's head, child's tail, parent's head, parent's tail).
`tables: int64[measurement, 5]` holds (clique, head, tail, start in the flat arrays of all measured cells, cells).
"""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.kernels import compiled
from factored_mwem.kernels.dense import FLOOR, marginal_into, multiply_by

CELLS, FILL, WEIGHTED_FILL = 0, 1, 2
"""What the next variable to eliminate has least of: cells of its clique, new edges, cells that new edges make."""
LARGEST_STEP = 30.0
"""No parameter moves further than this in one step: exp of it is far from overflow."""


@compiled
def lowest_bit(word):  # type: ignore[no-untyped-def]
    """Position of the lowest set bit of a non-zero uint64."""
    low = word & (~word + np.uint64(1))
    at = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if low >> np.uint64(shift):
            low >>= np.uint64(shift)
            at += shift
    return at


@compiled
def members_of(bits, out):  # type: ignore[no-untyped-def]
    """The positions of the set bits of `bits: uint64[word]`, ascending, into `out: int64`; returns how many."""
    count = 0
    for w in range(len(bits)):
        word = bits[w]
        while word:
            out[count] = 64 * w + lowest_bit(word)
            count += 1
            word &= word - np.uint64(1)
    return count


@compiled
def collapsed_log(members, count, attribute, logs):  # type: ignore[no-untyped-def]
    """log2 of the cells of a clique: of each attribute only its finest variable counts, which fixes the coarser ones.

    `members` ascend; the variables of an attribute need not be neighbours, but finer ones have lower numbers.
    """
    total = 0.0
    for i in range(count):
        first = True
        for j in range(i):
            if attribute[members[j]] == attribute[members[i]]:
                first = False
                break
        if first:
            total += logs[members[i]]
    return total


@compiled
def eliminate(neighbours, alive, attribute, logs, rule, cliques):  # type: ignore[no-untyped-def]
    """Eliminate the variables in `alive: uint64[word]` greedily; returns the cells of all maximal cliques.

    `neighbours: uint64[variable, word]` and `alive` are used up. The clique of each elimination goes into `cliques: uint64[variable, word]`, in
    order; a clique inside an earlier one stays all zero. Ties go to the lowest number.
    """
    words = len(alive)
    list_ = np.empty(64 * words, dtype=np.int64)
    around = np.empty(64 * words, dtype=np.int64)
    clique = np.empty(words, dtype=np.uint64)
    count = members_of(alive, list_)
    score = np.full(64 * words, np.nan)
    total = 0.0
    for step in range(count):
        best, least = -1, np.inf
        for i in range(count):
            v = list_[i]
            if not (alive[v >> 6] >> np.uint64(v & 63)) & np.uint64(1):
                continue
            if math.isnan(score[v]):
                score[v] = _elimination_score(neighbours, alive, v, attribute, logs, rule, clique, around)
            if score[v] < least:
                best, least = v, score[v]
        clique[:] = neighbours[best] & alive
        clique[best >> 6] |= np.uint64(1) << np.uint64(best & 63)
        inside = False
        for earlier in range(step):
            inside = True
            for w in range(words):
                if clique[w] & ~cliques[earlier, w]:
                    inside = False
                    break
            if inside:
                break
        size = members_of(clique, around)
        if inside:
            cliques[step, :] = 0
        else:
            cliques[step, :] = clique
            total += 2.0 ** collapsed_log(around, size, attribute, logs)
        alive[best >> 6] &= ~(np.uint64(1) << np.uint64(best & 63))
        for i in range(size):
            v = around[i]
            neighbours[v] |= clique
            neighbours[v, v >> 6] &= ~(np.uint64(1) << np.uint64(v & 63))
            score[v] = np.nan
            if rule != CELLS:  # new edges between v and another change the fill of what lies next to either
                for j in range(count):
                    if (neighbours[v, list_[j] >> 6] >> np.uint64(list_[j] & 63)) & np.uint64(1):
                        score[list_[j]] = np.nan
    return total


@compiled
def _elimination_score(neighbours, alive, v, attribute, logs, rule, clique, around):  # type: ignore[no-untyped-def]
    clique[:] = neighbours[v] & alive
    clique[v >> 6] |= np.uint64(1) << np.uint64(v & 63)
    size = members_of(clique, around)
    if rule == CELLS:
        return collapsed_log(around, size, attribute, logs)
    fill = 0.0
    for i in range(size):
        for j in range(i):
            a, b = around[i], around[j]
            if not (neighbours[a, b >> 6] >> np.uint64(b & 63)) & np.uint64(1):
                fill += 1.0 if rule == FILL else 2.0 ** (logs[a] + logs[b])
    return fill


@compiled
def joined_cells(neighbours, used, parts, part_of, coarser, finer, attribute, logs, members, out):  # type: ignore[no-untyped-def]
    """Cells of the trees that measuring each of the views `members: int64[view, slot]` (padded with -1) would make of those it touches.

    `neighbours: uint64[variable, word]` is the graph so far, `used: bool[variable]`, `parts: uint64[component, word]` the variables of each
    component, `part_of: int64[attribute]` the component of an attribute; `finer[v]`, `coarser[v]` number the next level of v's attribute, or -1.
    """
    count, words = neighbours.shape
    graph = np.zeros((count, words), dtype=np.uint64)
    cliques = np.zeros((count, words), dtype=np.uint64)
    alive = np.zeros(words, dtype=np.uint64)
    list_ = np.empty(64 * words, dtype=np.int64)
    for c in range(len(members)):
        alive[:] = 0
        for j in range(members.shape[1]):
            v = members[c, j]
            if v >= 0:
                alive |= parts[part_of[attribute[v]]]
                alive[v >> 6] |= np.uint64(1) << np.uint64(v & 63)
        size = members_of(alive, list_)
        for i in range(size):
            graph[list_[i]] = neighbours[list_[i]]
        for j in range(members.shape[1]):
            v = members[c, j]
            if v < 0:
                continue
            for i in range(j):
                connect(graph, v, members[c, i])
            if not used[v]:
                f = finer[v]
                while not used[f]:
                    f = finer[f]
                connect(graph, v, f)
                k = coarser[v]
                while k >= 0 and not used[k]:
                    k = coarser[k]
                if k >= 0:
                    connect(graph, v, k)
        out[c] = eliminate(graph, alive, attribute, logs, CELLS, cliques)


@compiled
def connect(graph, v, u):  # type: ignore[no-untyped-def]
    """Put an edge between two variables."""
    graph[v, u >> 6] |= np.uint64(1) << np.uint64(u & 63)
    graph[u, v >> 6] |= np.uint64(1) << np.uint64(v & 63)


@compiled
def calibrate(beliefs, separators, cliques, edges, index, root):  # type: ignore[no-untyped-def]
    """Make all cliques agree on their separators and sum to 1, by one pass up and one down with separator ratios (Hugin); in place."""
    for e in range(len(edges) - 1, -1, -1):
        _pass(beliefs, separators, cliques, edges[e], index, edges[e, 0], edges[e, 1], 4, 6)
    start, end = cliques[root, 0], cliques[root, 0] + cliques[root, 1] * cliques[root, 2]
    beliefs[start:end] /= beliefs[start:end].sum()
    for e in range(len(edges)):
        _pass(beliefs, separators, cliques, edges[e], index, edges[e, 1], edges[e, 0], 6, 4)


@compiled
def _pass(beliefs, separators, cliques, edge, index, sender, receiver, from_, to):  # type: ignore[no-untyped-def]
    """Send the marginal of clique `sender` over the edge to clique `receiver`; edge columns `from_` and `to` hold their maps."""
    old = separators[edge[2] : edge[2] + edge[3]]
    fresh = np.zeros(edge[3])
    start, heads, tails = cliques[sender]
    weights = beliefs[start : start + heads * tails]
    marginal_into(weights, index[edge[from_] : edge[from_] + heads], index[edge[from_ + 1] : edge[from_ + 1] + tails], fresh)
    for s in range(edge[3]):
        mass = max(fresh[s], FLOOR)
        fresh[s] = mass / old[s]
        old[s] = mass
    start, heads, tails = cliques[receiver]
    weights = beliefs[start : start + heads * tails]
    multiply_by(weights, index[edge[to] : edge[to] + heads], index[edge[to + 1] : edge[to + 1] + tails], fresh)


@compiled
def shift(beliefs, cliques, index, tables, moves):  # type: ignore[no-untyped-def]
    """Multiply the cliques by exp of `moves`, one small table for each measurement; in place."""
    for m in range(len(tables)):
        clique, head, tail, at, cells = tables[m]
        ratio = np.exp(moves[at : at + cells])
        start, heads, tails = cliques[clique]
        multiply_by(beliefs[start : start + heads * tails], index[head : head + heads], index[tail : tail + tails], ratio)


@compiled
def gaps(beliefs, cliques, index, tables, target, weight, gradient):  # type: ignore[no-untyped-def]
    """The gradient of the loss, sum of weight (answer - target)^2 / 2 over all measured cells in shares, into `gradient`; returns the loss."""
    loss = 0.0
    gradient[:] = 0.0
    for m in range(len(tables)):
        clique, head, tail, at, cells = tables[m]
        start, heads, tails = cliques[clique]
        table = gradient[at : at + cells]
        marginal_into(beliefs[start : start + heads * tails], index[head : head + heads], index[tail : tail + tails], table)
        for c in range(cells):
            gap = table[c] - target[at + c]
            loss += weight[m] * gap * gap / 2
            table[c] = weight[m] * gap
    return loss


@compiled
def descend(beliefs, separators, cliques, edges, index, root, tables, target, weight, theta, step, iterations, enough):  # type: ignore[no-untyped-def]
    """Fit calibrated beliefs to noisy marginals by accelerated mirror descent; in place. Returns (iterations, step, loss).

    `theta: float64[measured cells]` are the log-linear parameters that the beliefs stand for. Nesterov momentum starts over when the loss
    rises; a plain step that raises it is taken back and halved. Stops where ten steps lower the loss by less than `enough`.
    """
    gradient = np.empty(len(theta))
    move = np.zeros(len(theta))
    trailing = theta.copy()
    momentum = 1.0
    loss = gaps(beliefs, cliques, index, tables, target, weight, gradient)
    mark = loss
    for i in range(iterations):
        beta = (momentum - 1.0) / (momentum + 2.0)
        for c in range(len(theta)):
            ahead = theta[c] - step * gradient[c]
            move[c] = min(max(ahead + beta * (ahead - trailing[c]) - theta[c], -LARGEST_STEP), LARGEST_STEP)
            trailing[c] = ahead
            theta[c] += move[c]
        shift(beliefs, cliques, index, tables, move)
        calibrate(beliefs, separators, cliques, edges, index, root)
        before, loss = loss, gaps(beliefs, cliques, index, tables, target, weight, gradient)
        if loss <= before:
            momentum += 1.0
            step *= 1.05
        elif momentum == 1.0:
            for c in range(len(theta)):
                theta[c] -= move[c]
                move[c] = -move[c]
            shift(beliefs, cliques, index, tables, move)
            calibrate(beliefs, separators, cliques, edges, index, root)
            loss = gaps(beliefs, cliques, index, tables, target, weight, gradient)
            trailing[:] = theta
            step /= 2.0
        else:
            momentum = 1.0
            trailing[:] = theta
            step /= 1.2
        if i % 10 == 9:
            if mark - loss < enough and momentum > 1.0:
                return i + 1, step, loss
            mark = loss
    return iterations, step, loss


@compiled
def rebuild(beliefs, separators, cliques, edges, index, root, tables, theta):  # type: ignore[no-untyped-def]
    """Calibrated beliefs of the log-linear model with parameters `theta`, from nothing, in log space; into `beliefs` and `separators`."""
    beliefs[:] = 0.0
    for m in range(len(tables)):
        clique, head, tail, at, _ = tables[m]
        start, heads, tails = cliques[clique]
        for h in range(heads):
            for t in range(tails):
                beliefs[start + h * tails + t] += theta[at + index[head + h] + index[tail + t]]
    for e in range(len(edges) - 1, -1, -1):  # messages up, which stay in the separators until the way down
        child, parent = edges[e, 0], edges[e, 1]
        message = separators[edges[e, 2] : edges[e, 2] + edges[e, 3]]
        _log_marginal(beliefs, cliques[child], index, edges[e, 4], edges[e, 5], message)
        _add(beliefs, cliques[parent], index, edges[e, 6], edges[e, 7], message)
    start, end = cliques[root, 0], cliques[root, 0] + cliques[root, 1] * cliques[root, 2]
    largest = beliefs[start:end].max()
    beliefs[start:end] -= largest + math.log(np.exp(beliefs[start:end] - largest).sum())
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


@compiled
def _log_marginal(logs, clique, index, head, tail, out):  # type: ignore[no-untyped-def]
    start, heads, tails = clique
    highest = np.full(len(out), -np.inf)
    for h in range(heads):
        for t in range(tails):
            cell = index[head + h] + index[tail + t]
            highest[cell] = max(highest[cell], logs[start + h * tails + t])
    out[:] = 0.0
    for h in range(heads):
        for t in range(tails):
            cell = index[head + h] + index[tail + t]
            out[cell] += math.exp(logs[start + h * tails + t] - highest[cell])
    for cell in range(len(out)):
        out[cell] = highest[cell] + math.log(out[cell])


@compiled
def _add(logs, clique, index, head, tail, message):  # type: ignore[no-untyped-def]
    start, heads, tails = clique
    for h in range(heads):
        for t in range(tails):
            logs[start + h * tails + t] += message[index[head + h] + index[tail + t]]
