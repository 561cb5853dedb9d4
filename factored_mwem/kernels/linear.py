"""Kernels of linear queries: a query's value at a cell is a product over the axes, each 0, 1 or -1.

No vector over all cells is made: a component's cells take values over the head and over the tail of their
numbers, see kernels/dense.py.
"""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.kernels import compiled
from factored_mwem.kernels.dense import FLOOR


@compiled
def product_answer(weights, head, tail):
    """The answer on `weights: float64[rows * columns]` of the query of values `head: int8[rows]` times
    `tail: int8[columns]`.
    """
    width, answer = len(tail), 0.0
    for h in range(len(head)):
        if head[h] == 0:
            continue
        inside = 0.0
        for t in range(width):
            inside += weights[h * width + t] * tail[t]
        answer += head[h] * inside
    return answer


@compiled
def product_step(weights, head, tail, exponent):
    """Multiply each weight by exp(exponent times the query's value there), down to FLOOR, and scale all back
    to sum 1; in place.
    """
    width = len(tail)
    up, down = math.exp(exponent), math.exp(-exponent)
    for h in range(len(head)):
        if head[h] == 0:
            continue
        for t in range(width):
            value = head[h] * tail[t]
            if value > 0:
                weights[h * width + t] = max(weights[h * width + t] * up, FLOOR)
            elif value < 0:
                weights[h * width + t] = max(weights[h * width + t] * down, FLOOR)
    total = 0.0
    for c in range(len(weights)):
        total += weights[c]
    for c in range(len(weights)):
        weights[c] /= total


@compiled
def walsh(table):
    """The fast Walsh-Hadamard transform of `table: float64[2^d]`, in place.

    Entry m becomes the sum over x of (-1)^popcount(m & x) table[x].
    """
    half = 1
    while half < len(table):
        for start in range(0, len(table), 2 * half):
            for i in range(start, start + half):
                low, high = table[i], table[i + half]
                table[i], table[i + half] = low + high, low - high
        half *= 2


@compiled
def parity_sums(bits, rows, members, out):
    """Into `out: int64[query]` the sum over rows of (-1)^(sum of the query's bits): rows less twice those of
    odd parity.

    `bits: uint64[attribute, word]` holds 64 rows a word, padding 0; `members: int32[query, slot]`, padded
    with -1. The exclusive or of all but the last attribute is kept from one query to the next.
    """
    words, slots = bits.shape[1], members.shape[1]
    prefix = np.zeros(words, dtype=np.uint64)
    kept = np.full(slots, -2, dtype=np.int64)
    for q in range(len(members)):
        last = slots - 1
        while last > 0 and members[q, last] < 0:
            last -= 1
        same = True
        for j in range(last):
            same = same and kept[j] == members[q, j]
        if not same or kept[last] != -1:
            for w in range(words):
                prefix[w] = np.uint64(0)
            for j in range(last):
                for w in range(words):
                    prefix[w] ^= bits[members[q, j], w]
            for j in range(slots):
                kept[j] = members[q, j] if j < last else -1
        odd = np.uint64(0)
        for w in range(words):
            word = prefix[w] ^ bits[members[q, last], w] if members[q, last] >= 0 else prefix[w]
            # population count by adding neighbours
            word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
            word = (word & np.uint64(0x3333333333333333)) + (
                (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
            )
            word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            odd += (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
        out[q] = rows - 2 * np.int64(odd)
