"""Kernels that triangulate the graph of measured variables. A set of variables is `uint64[word]`, a bit for
each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import B1, F8, I8, U1, I8x2, U8x2, entry, part

CELLS, FILL, WEIGHTED_FILL = 0, 1, 2
"""Rules for the next variable to eliminate, which is the one with the fewest: cells of its clique, new edges,
or cells that the new edges make.
"""
SEQUENCE = np.uint64(0x03F79D71B4CB0A89)
"""De Bruijn's: its runs of six bits all differ, so a power of two times it has the power in its first six
(Leiserson, Prokop, Randall 1998).
"""
PLACES = np.argsort([(int(SEQUENCE) << at & 2**64 - 1) >> 58 for at in range(64)])
"""The power by those six bits."""


class Graph(NamedTuple):
    """The graph of measurements so far: each variable's neighbours, whether it is used, the variables of each
    component, and the component of each attribute.
    """

    neighbours: U8x2
    used: B1
    parts: U8x2
    part_of: I8


class Variables(NamedTuple):
    """For each variable its attribute, the next coarser and finer variable (-1: none), and log2 of its
    codes.
    """

    attribute: I8
    coarser: I8
    finer: I8
    logs: F8


class Known(NamedTuple):
    """What is known of each variable: log2 of the cells of its clique, where that is not `stale`; and `seen`,
    by attribute, the scratch of `collapsed_log`.
    """

    logs: F8
    stale: U1
    seen: B1


@part
def lowest_bit(word):
    """Position of the lowest set bit of a non-zero uint64."""
    return PLACES[(word & (~word + np.uint64(1))) * SEQUENCE >> np.uint64(58)]


@part
def members_of(bits, out):
    """The variables in a set, ascending, into `out: int64`; returns how many."""
    count = 0
    for w in range(len(bits)):
        word = bits[w]
        while word:
            out[count] = 64 * w + lowest_bit(word)
            count += 1
            word &= word - np.uint64(1)
    return count


@part
def collapsed_log(members, count, attribute, logs, seen):
    """log2 of the cells of a clique: of each attribute only its finest variable counts, the first in
    `members`. `seen: bool[attribute]` is scratch, all False.
    """
    total = 0.0
    for i in range(count):
        if not seen[attribute[members[i]]]:
            seen[attribute[members[i]]] = True
            total += logs[members[i]]
    for i in range(count):
        seen[attribute[members[i]]] = False
    return total


@part
def eliminate(neighbours, alive, variables, rule, cliques, most, known):
    """Eliminate the set `alive` greedily; returns the cells of all maximal cliques, or some number above
    `most` if they are more. Ties go to the lowest number.

    `neighbours`, `alive` and what is `known` are used up. The clique of each elimination goes into `cliques:
    uint64[variable, word]`, in order; a clique inside an earlier one stays all zero.
    """
    logs, logs_of, stale, seen = variables.logs, known.logs, known.stale, known.seen
    words = len(alive)
    list_ = np.empty(64 * words, dtype=np.int64)
    around = np.empty(64 * words, dtype=np.int64)
    clique = np.empty(words, dtype=np.uint64)
    count = members_of(alive, list_)
    score = np.empty(64 * words)
    for i in range(count):
        score[list_[i]] = logs_of[list_[i]]
    total = 0.0
    for step in range(count):
        best, least, place = np.int64(-1), np.inf, 0  # no literal: `_closed` would be compiled for it, too
        for i in range(count - step):
            v = list_[i]
            if stale[v]:
                _closed(neighbours, alive, v, clique)
                size = members_of(clique, around)
                logs_of[v] = collapsed_log(around, size, variables.attribute, logs, seen)
                score[v] = logs_of[v] if rule == CELLS else _fill(neighbours, around, size, logs, rule)
                stale[v] = 0
            if score[v] < least:
                best, least, place = v, score[v], i
        for i in range(place, count - step - 1):
            list_[i] = list_[i + 1]
        _closed(neighbours, alive, best, clique)
        inside = False  # in an earlier clique: then it is not maximal, and adds no cells
        for earlier in range(step):
            inside = True
            for w in range(words):
                if clique[w] & ~cliques[earlier, w]:
                    inside = False
                    break
            if inside:
                break
        size = members_of(clique, around)
        for w in range(words):
            cliques[step, w] = np.uint64(0) if inside else clique[w]
        if not inside:
            total += 2.0 ** logs_of[best]
            if total > most:
                break
        alive[best >> 6] &= ~(np.uint64(1) << np.uint64(best & 63))
        for i in range(size):
            v = around[i]
            for w in range(words):
                neighbours[v, w] |= clique[w]
            neighbours[v, v >> 6] &= ~(np.uint64(1) << np.uint64(v & 63))
            stale[v] = 1
            if rule != CELLS:  # new edges between v and another change the fill of what lies next to either
                for j in range(count - step - 1):
                    if (neighbours[v, list_[j] >> 6] >> np.uint64(list_[j] & 63)) & np.uint64(1):
                        stale[list_[j]] = 1
    return total


@part
def _closed(neighbours, alive, v, clique):
    """v and its neighbours that are alive, into `clique`."""
    for w in range(len(clique)):
        clique[w] = neighbours[v, w] & alive[w]
    clique[v >> 6] |= np.uint64(1) << np.uint64(v & 63)


@part
def _fill(neighbours, around, size, logs, rule):
    """The edges missing between the variables `around`, counted or weighted by their cells."""
    fill = 0.0
    for i in range(size):
        for j in range(i):
            a, b = around[i], around[j]
            if not (neighbours[a, b >> 6] >> np.uint64(b & 63)) & np.uint64(1):
                fill += 1.0 if rule == FILL else 2.0 ** (logs[a] + logs[b])
    return fill


@entry
def joined_cells(
    graph: Graph, variables: Variables, members: I8x2, rule: int, most: float, cliques: U8x2, out: F8
) -> None:
    """Cells of the trees that measuring each of the views `members: int64[view, slot]` (padded with -1) would
    make of those it touches, or some number above `most`. `cliques` ends as those of the last view, see
    `eliminate`.
    """
    count, words = graph.neighbours.shape
    used, coarser, finer = graph.used, variables.coarser, variables.finer
    joined = np.empty((count, words), dtype=np.uint64)
    alive = np.empty(words, dtype=np.uint64)
    list_ = np.empty(64 * words, dtype=np.int64)
    before, logs_of = np.empty(count), np.empty(64 * words)
    stale = np.empty(64 * words, dtype=np.uint8)  # scores that the last edges may have changed
    seen = np.zeros(len(graph.part_of), dtype=np.bool_)
    for v in range(count):
        if used[v]:
            _closed(graph.neighbours, graph.parts[graph.part_of[variables.attribute[v]]], v, alive)
            size = members_of(alive, list_)
            before[v] = collapsed_log(list_, size, variables.attribute, variables.logs, seen)
    for c in range(len(members)):
        for w in range(words):
            alive[w] = np.uint64(0)
        for j in range(members.shape[1]):
            v = members[c, j]
            if v >= 0:
                component = graph.part_of[variables.attribute[v]]
                for w in range(words):
                    alive[w] |= graph.parts[component, w]
                alive[v >> 6] |= np.uint64(1) << np.uint64(v & 63)
        size = members_of(alive, list_)
        for i in range(size):
            logs_of[list_[i]], stale[list_[i]] = before[list_[i]], rule != CELLS
            for w in range(words):
                joined[list_[i], w] = graph.neighbours[list_[i], w]
        for j in range(members.shape[1]):
            v = members[c, j]
            if v < 0:
                continue
            stale[v] = 1
            for i in range(j):
                connect(joined, v, members[c, i])
            if not used[v]:
                f = finer[v]
                while not used[f]:
                    f = finer[f]
                connect(joined, v, f)
                stale[f] = 1
                k = coarser[v]
                while k >= 0 and not used[k]:
                    k = coarser[k]
                if k >= 0:  # v comes between the two
                    connect(joined, v, k)
                    stale[k] = 1
                    joined[f, k >> 6] &= ~(np.uint64(1) << np.uint64(k & 63))
                    joined[k, f >> 6] &= ~(np.uint64(1) << np.uint64(f & 63))
        out[c] = eliminate(joined, alive, variables, rule, cliques, most, Known(logs_of, stale, seen))


@part
def connect(neighbours, v, u):
    """Put an edge between two variables."""
    neighbours[v, u >> 6] |= np.uint64(1) << np.uint64(u & 63)
    neighbours[u, v >> 6] |= np.uint64(1) << np.uint64(v & 63)
