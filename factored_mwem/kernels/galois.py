"""Kernels of arithmetic in GF(2^s), s up to 96, and of hash families that polynomials over it make.

An element is a polynomial over GF(2) of degree below s: bit i of a whole number is the coefficient of x^i. It
lies in two words, `high` and `low`. A random polynomial of r coefficients takes independent values at any r
points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from factored_mwem.kernels import compiled

IRREDUCIBLE = (
    (), (1,), (1,), (1,), (2,), (1,), (1,), (4, 3, 1), (1,), (3,), (2,), (3,), (4, 3, 1), (5,), (1,),
    (5, 3, 1), (3,), (3,), (5, 2, 1), (3,), (2,), (1,), (5,), (4, 3, 1), (3,), (4, 3, 1), (5, 2, 1), (1,),
    (2,), (1,), (3,), (7, 3, 2), (10,), (7,), (2,), (9,), (6, 4, 1), (6, 5, 1), (4,), (5, 4, 3), (3,),
    (7,), (6, 4, 3), (5,), (4, 3, 1), (1,), (5,), (5, 3, 2), (9,), (4, 3, 2), (6, 3, 1), (3,), (6, 2, 1),
    (9,), (7,), (7, 4, 2), (4,), (19,), (7, 4, 2), (1,), (5, 2, 1), (29,), (1,), (4, 3, 1), (18,), (3,),
    (5, 2, 1), (9,), (6, 5, 2), (5, 3, 1), (6,), (10, 9, 3), (25,), (35,), (6, 3, 1), (21,), (6, 5, 2),
    (6, 5, 3), (9,), (9, 4, 2), (4,), (8, 3, 1), (7, 4, 2), (5,), (8, 2, 1), (21,), (13,), (7, 6, 2),
    (38,), (27,), (8, 5, 1), (21,), (2,), (21,), (11,), (10, 9, 6),
)  # fmt: skip
"""Of each degree s = 1, 2, ...: the exponents between s and 0 of an irreducible polynomial over GF(2), the
first trinomial, or else pentanomial, that there is. Tests prove each irreducible by Rabin's criterion.
"""
ONE = np.uint64(1)


def modulus(degree: int) -> np.uint64:
    """The irreducible polynomial of a degree without its leading term, in one word."""
    return np.uint64(sum(1 << e for e in (*IRREDUCIBLE[degree - 1], 0)))


class Family(NamedTuple):
    """A polynomial over GF(2^degree), of modulus `low`, by `coefficients: uint64[r, 2]`, (high, low), that of
    degree 0 first; a key is a point's last `key_bits` bits.
    """

    coefficients: np.ndarray
    key_bits: int
    degree: int
    low: np.uint64


@compiled
def multiply(a_high, a_low, b_high, b_low, degree, low):
    """(high, low) of the product of two elements: b's coefficients from the highest down, a shift and, where
    they are 1, a sum without carries for each; what leaves the field comes back by its modulus.
    """
    top = np.uint64(degree - 1)
    high_word = top >= np.uint64(64)
    at = top - np.uint64(64) if high_word else top
    high, word = np.uint64(0), np.uint64(0)
    for i in range(degree - 1, -1, -1):
        leaves = ((high if high_word else word) >> at) & ONE
        if high_word:
            high = ((high << ONE) | (word >> np.uint64(63))) & ((np.uint64(2) << at) - ONE)
            word = word << ONE
        else:
            word = (word << ONE) & ((np.uint64(2) << at) - ONE)
        if leaves:
            word ^= low
        bit = (b_high >> np.uint64(i - 64)) & ONE if i >= 64 else (b_low >> np.uint64(i)) & ONE
        if bit:
            high ^= a_high
            word ^= a_low
    return high, word


@compiled
def last_bit(coefficients, high, word, degree, low):
    """The last bit of a polynomial's value at a point, by Horner's rule: a hash value, 0 or 1."""
    r = len(coefficients)
    value_high, value = coefficients[r - 1, 0], coefficients[r - 1, 1]
    for d in range(r - 2, -1, -1):
        value_high, value = multiply(value_high, value, high, word, degree, low)
        value_high ^= coefficients[d, 0]
        value ^= coefficients[d, 1]
    return value & ONE


@compiled
def bits_at(family, row, key):
    """The hash value at the point `row * 2^key_bits + key`: row i of column j is point |X| (i - 1) + j of the
    paper's, where |X| is a power of two.
    """
    coefficients, key_bits, degree, low = family
    if key_bits == 64:
        return last_bit(coefficients, row, key, degree, low)
    shift = np.uint64(key_bits)
    high = np.uint64(0) if key_bits == 0 else row >> (np.uint64(64) - shift)
    return last_bit(coefficients, high, (row << shift) | key, degree, low)


@compiled
def signs_into(family, keys, out):
    """Into `out: int8[key, row]` the signs of the columns `keys: uint64`: -1 where the bit is 1."""
    for k in range(len(keys)):
        for i in range(out.shape[1]):
            bit = bits_at(family, np.uint64(i), keys[k])
            out[k, i] = 1 - 2 * np.int8(bit)


@compiled
def sum_into(family, keys, counts, out):
    """Add to `out: int64[row]` each column's signs times its count, column after column."""
    for k in range(len(keys)):
        for i in range(len(out)):
            bit = bits_at(family, np.uint64(i), keys[k])
            out[i] += -counts[k] if bit else counts[k]


@compiled
def weighted_sums(family, keys, values, out):
    """Into `out: float64[key]` the sum over the rows of `values: float64[row]` times the column's signs."""
    for k in range(len(keys)):
        total = 0.0
        for i in range(len(values)):
            bit = bits_at(family, np.uint64(i), keys[k])
            total += -values[i] if bit else values[i]
        out[k] = total


@compiled
def forms_into(family, row_bits, out):
    """Into `out: uint64[row bit]` what ties rows to keys where no exponent of the polynomial has more than
    two bits, so that its last bit is a quadratic form: bit g of `out[b]` is f(b + g) + f(b) + f(g) + f(0).
    """
    zero = np.uint64(0)
    at_zero = bits_at(family, zero, zero)
    for b in range(row_bits):
        row = ONE << np.uint64(b)
        alone = bits_at(family, row, zero)
        mask = zero
        for g in range(family.key_bits):
            key = ONE << np.uint64(g)
            bit = bits_at(family, row, key)
            bit ^= alone ^ at_zero ^ bits_at(family, zero, key)
            mask |= bit << np.uint64(g)
        out[b] = mask


@compiled
def split_into(family, keys, forms, signs, places):
    """The same columns by their quadratic form: `places: int64[key]`, and `signs: int8[key]`, so that row i
    of a column is its sign, times row i of column 0, times the parity of i and its place: a Walsh function.
    """
    zero = np.uint64(0)
    at_zero = bits_at(family, zero, zero)
    for k in range(len(keys)):
        bit = bits_at(family, zero, keys[k]) ^ at_zero
        signs[k] = 1 - 2 * np.int8(bit)
        place = np.int64(0)
        for b in range(len(forms)):
            both = forms[b] & keys[k]
            for half in (32, 16, 8, 4, 2, 1):
                both ^= both >> np.uint64(half)
            place |= np.int64(both & ONE) << b
        places[k] = place
