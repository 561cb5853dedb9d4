"""Kernels of one dense component: its marginals, and the replay of its measurements.

A component's distribution is `weights: float64[cells]`, row-major over its attributes. A marginal's cell of
weight x is `head[x // len(tail)] + tail[x % len(tail)]`: two short index arrays in place of one as long as
the weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import F8, I8, I8x2, compiled, entry, part

HEAD, HEADS, TAIL, TAILS, START, CELLS = range(6)
"""Columns of `Measured.layout`: a map's head and tail in `maps`, and a measurement's cells in `noisy`."""
CONSTANT, CONTIGUOUS, SCATTERED = 0, 1, 2
"""How a map moves along its tail; the first two cases have loops that compile to vector instructions."""
FLOOR = 1e-300
"""No positive weight falls below this share, because a weight of zero could never grow again. Weights that
are zero from the start (ruled out by rules) stay zero.
"""


class Measured(NamedTuple):
    """A component's measurements: a row of `layout` each, noisy counts of all cells (records), and the
    records of the model.
    """

    maps: I8
    layout: I8x2
    noisy: F8
    total: float


@part
def pattern(tail):
    """CONSTANT if the tail never changes the marginal's cell, CONTIGUOUS if each step moves on by one
    cell.
    """
    constant, contiguous = True, True
    for t in range(len(tail)):
        constant = constant and tail[t] == 0
        contiguous = contiguous and tail[t] == t
    return CONSTANT if constant else CONTIGUOUS if contiguous else SCATTERED


@entry
def marginal_into(weights: F8, head: I8, tail: I8, out: F8) -> None:
    """Add the marginal of `weights` to `out: float64[marginal cells]`."""
    width, kind = len(tail), pattern(tail)
    for h in range(len(head)):
        row, base = h * width, head[h]
        if kind == CONSTANT:
            even = odd = third = fourth = 0.0  # four sums: each would else wait for the last addition
            for t in range(0, width - 3, 4):
                even += weights[row + t]
                odd += weights[row + t + 1]
                third += weights[row + t + 2]
                fourth += weights[row + t + 3]
            for t in range(width - width % 4, width):
                even += weights[row + t]
            out[base] += (even + odd) + (third + fourth)
        elif kind == CONTIGUOUS:
            source, sink = weights[row : row + width], out[base : base + width]
            for t in range(width):
                sink[t] += source[t]
        else:
            source = weights[row : row + width]
            for t in range(width):
                out[np.uint64(base + tail[t])] += source[t]  # unsigned: no check for an index from the end


@part
def multiply_by(weights, head, tail, ratio):
    """Multiply each weight by its marginal cell's `ratio`, in place, down to FLOOR; a zero stays one."""
    width, kind = len(tail), pattern(tail)
    for h in range(len(head)):
        row, base = h * width, head[h]
        sink = weights[row : row + width]
        if kind == CONSTANT:
            factor = ratio[base]
            for t in range(width):  # the min keeps a zero a zero, and every other weight at FLOOR or more
                sink[t] = max(sink[t] * factor, min(sink[t], FLOOR))
        elif kind == CONTIGUOUS:
            source = ratio[base : base + width]
            for t in range(width):
                sink[t] = max(sink[t] * source[t], min(sink[t], FLOOR))
        else:
            for t in range(width):
                sink[t] = max(sink[t] * ratio[np.uint64(base + tail[t])], min(sink[t], FLOOR))


@compiled
def multiply_into(weights, head, tail, ratio):
    """`multiply_by` for calls from Python: multiply each weight by its marginal cell's `ratio`, in place. Few
    releases have corrections and need it, so a first run does not wait for it.
    """
    multiply_by(weights, head, tail, ratio)


@compiled
def replay(weights, measured, sweeps):
    """Sweep `sweeps` times over all measurements of a component, in place; weights keep sum 1.

    All cells of a marginal step at once: exp((m - A) / (2 n)), Hardt, Ligett, McSherry Fig. 1, step 2(c).
    """
    maps, layout = measured.maps, measured.layout
    for _ in range(sweeps):
        for i in range(len(layout)):
            head = maps[layout[i, HEAD] : layout[i, HEAD] + layout[i, HEADS]]
            tail = maps[layout[i, TAIL] : layout[i, TAIL] + layout[i, TAILS]]
            target = measured.noisy[layout[i, START] : layout[i, START] + layout[i, CELLS]]
            table = np.zeros(len(target))
            marginal_into(weights, head, tail, table)
            _step(table, target, measured.total)
            multiply_by(weights, head, tail, table)


@part
def _step(table, target, total):
    """Turn the marginal `table` (shares) into the ratios of one step; the sum of all weights stays 1."""
    mass = 0.0
    for c in range(len(table)):
        ratio = math.exp((min(max(target[c], 0.0), total) - table[c] * total) / (2.0 * total))
        mass += table[c] * ratio
        table[c] = ratio
    for c in range(len(table)):
        table[c] /= mass
