"""GF(2^s) and the hash families over it: against whole numbers of Python, by Rabin's criterion, and by
counting over every member of a small family.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from factored_mwem.kernels.galois import IRREDUCIBLE, last_bit, modulus, multiply

HALF = 2**64 - 1


def whole_modulus(degree: int) -> int:
    return 1 << degree | int(modulus(degree))


def remainder(value: int, by: int) -> int:
    while value.bit_length() >= by.bit_length():
        value ^= by << (value.bit_length() - by.bit_length())
    return value


def carry_less(a: int, b: int) -> int:
    product = 0
    for i in range(b.bit_length()):
        product ^= (a << i) * (b >> i & 1)
    return product


def common_divisor(a: int, b: int) -> int:
    while b:
        a, b = b, remainder(a, b)
    return a


def is_irreducible(polynomial: int) -> bool:
    """Rabin's criterion: x^(2^s) = x, and x^(2^(s/p)) - x shares no factor, for all primes p dividing s."""
    s = polynomial.bit_length() - 1

    def power(times: int) -> int:
        value = remainder(2, polynomial)
        for _ in range(times):
            value = remainder(carry_less(value, value), polynomial)
        return value

    primes = [p for p in range(2, s + 1) if s % p == 0 and all(p % q for q in range(2, p))]
    whole = power(s) == remainder(2, polynomial)
    return whole and all(
        common_divisor(polynomial, power(s // p) ^ remainder(2, polynomial)) == 1 for p in primes
    )


def product(a: int, b: int, degree: int) -> int:
    """The kernel's, of whole numbers."""
    parts = [np.uint64(part) for value in (a, b) for part in (value >> 64, value & HALF)]
    high, low = multiply(*parts, degree, modulus(degree))
    return int(high) << 64 | int(low)


def test_every_polynomial_of_the_table_is_irreducible() -> None:
    assert len(IRREDUCIBLE) == 96
    for degree in range(1, 97):
        assert is_irreducible(whole_modulus(degree)), degree


def test_the_criterion_tells_reducible_ones() -> None:
    """Against factors found by trial, of all polynomials of degree 2 to 8."""
    for polynomial in range(4, 2**9):
        factors = [f for f in range(2, polynomial) if 2 * f.bit_length() - 1 <= polynomial.bit_length()]
        assert is_irreducible(polynomial) == all(remainder(polynomial, f) for f in factors)
    assert not is_irreducible(whole_modulus(84) ^ 2)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_the_axioms_of_a_field(degree: int) -> None:
    whole = range(1 << degree)
    table = [[product(a, b, degree) for b in whole] for a in whole]
    for a, b, c in itertools.product(whole, repeat=3):
        assert table[a][b] == table[b][a]
        assert table[table[a][b]][c] == table[a][table[b][c]]
        assert table[a][b ^ c] == table[a][b] ^ table[a][c]
    assert table[1] == list(whole)
    assert all(sorted(row) == list(whole) for row in table[1:])  # so each has its inverse


@pytest.mark.parametrize("degree", [5, 31, 63, 64, 65, 84, 88, 96])
def test_products_are_those_of_whole_numbers(degree: int) -> None:
    rng = np.random.default_rng(degree)
    values = [int.from_bytes(rng.bytes(12), "little") % (1 << degree) for _ in range(12)]
    values += [0, 1, (1 << degree) - 1, 1 << degree - 1]
    for a, b in itertools.product(values, repeat=2):
        assert product(a, b, degree) == remainder(carry_less(a, b), whole_modulus(degree))


def test_hash_values_are_those_of_whole_numbers() -> None:
    """Horner's rule over 84 bits, against the sum of powers."""
    rng, degree = np.random.default_rng(1), 84
    below = 1 << degree
    coefficients = [int.from_bytes(rng.bytes(12), "little") % below for _ in range(9)]
    words = np.array([[c >> 64, c & HALF] for c in coefficients], dtype=np.uint64)
    for _ in range(40):
        point = int.from_bytes(rng.bytes(12), "little") % below
        power, value = 1, 0
        for c in coefficients:
            value ^= remainder(carry_less(c, power), whole_modulus(degree))
            power = remainder(carry_less(power, point), whole_modulus(degree))
        bit = last_bit(words, np.uint64(point >> 64), np.uint64(point & HALF), degree, modulus(degree))
        assert bit == value & 1


def bits_of_family(r: int) -> np.ndarray:
    """uint8[member, point]: the values at all eight points of GF(8), modulus x^3 + x + 1, of every polynomial
    of r coefficients.
    """
    assert whole_modulus(3) == 0b1011
    members = list(itertools.product(range(8), repeat=r))
    found = np.empty((len(members), 8), dtype=np.uint8)
    for m, member in enumerate(members):
        words = np.array([[0, c] for c in member], dtype=np.uint64)
        for point in range(8):
            found[m, point] = last_bit(words, np.uint64(0), np.uint64(point), 3, modulus(3))
    return found


def is_independent(bits: np.ndarray, ways: int) -> bool:
    """Whether any `ways` values take all combinations equally often, over the members of the family."""
    return all(
        len(seen := Counter(map(tuple, bits[:, list(points)]))) == 2**ways and len({*seen.values()}) == 1
        for points in itertools.combinations(range(8), ways)
    )


def test_a_family_of_r_coefficients_is_r_wise_independent_and_no_more() -> None:
    families = {r: bits_of_family(r) for r in (1, 2, 3, 4)}
    for r, bits in families.items():
        assert all(is_independent(bits, ways) for ways in range(1, r + 1))
    assert not is_independent(families[1], 2)
    assert not is_independent(families[2], 4)
    assert not is_independent(families[3], 4)
