"""SparseProject's matrix: exact moments over every member of a small family, and the fast ways against the
entries themselves.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from factored_mwem.errors import InputError
from factored_mwem.kernels import galois
from factored_mwem.workload.projection import QUADRATIC, Hashed, Listed, Projection

KEYS = np.arange(4, dtype=np.uint64)
COUNTS = np.array([3, 1, 0, 2])
QUERY = [Fraction(1), Fraction(1, 2), Fraction(3, 4), Fraction(0)]


def family(size: int, key_bits: int, independence: int) -> list[Projection]:
    """Every member, by its coefficients."""
    degree = key_bits + (size - 1).bit_length()
    members = itertools.product(range(1 << degree), repeat=independence)
    return [Projection(np.array([[[0, c] for c in m]], dtype=np.uint64), size, key_bits) for m in members]


def random_projection(size: int, independence: int, key_bits: int, seed: int = 0) -> Projection:
    rng = np.random.default_rng(seed)
    return Projection.of(size, 1, independence, key_bits, rng.bytes(16 * independence))


def moments(independence: int) -> tuple[Fraction, Fraction]:
    """Mean and variance of the noise-free answer to QUERY, over the whole family of two rows."""
    answers = []
    for projection in family(2, 2, independence):
        columns = projection.signs(KEYS).astype(np.int64)
        sums = columns @ projection.project(KEYS, COUNTS)
        answers.append(sum(q * int(s) for q, s in zip(QUERY, sums, strict=True)) / projection.size)
    mean = sum(answers, Fraction(0)) / len(answers)
    return mean, sum(((a - mean) ** 2 for a in answers), Fraction(0)) / len(answers)


def true_answer() -> Fraction:
    return sum((q * int(d) for q, d in zip(QUERY, COUNTS, strict=True)), Fraction(0))


def identity(size: int) -> Fraction:
    """THEORY's variance under 4-wise independence, in records."""
    pairs = itertools.permutations(range(4), 2)
    q, d = QUERY, [Fraction(int(c)) for c in COUNTS]
    return sum((q[x] ** 2 * d[y] ** 2 + q[x] * d[x] * q[y] * d[y] for x, y in pairs), Fraction(0)) / size


def test_answers_are_unbiased_and_have_the_variance_of_the_identity() -> None:
    assert moments(4) == (true_answer(), identity(2))


def test_two_coefficients_are_unbiased_and_one_is_not() -> None:
    """The mean needs pairwise independence, the variance more; with one coefficient all signs agree."""
    assert moments(2)[0] == true_answer()
    assert moments(2)[1] != identity(2)
    assert moments(1)[0] != true_answer()


@pytest.mark.parametrize(
    ("size", "key_bits", "independence"),
    [
        (8, 5, 4),
        (7, 5, 4),
        (1, 3, 4),
        (1000, 64, 4),
        (1024, 64, QUADRATIC),
        (50, 64, 8),
        (33, 9, 2),
        (16, 0, 4),
    ],
)
def test_sums_and_answers_are_those_of_the_entries(size: int, key_bits: int, independence: int) -> None:
    """Walsh transforms on one side of QUADRATIC, one hash value after the other on the other side."""
    rng = np.random.default_rng(size)
    keys = (
        rng.integers(0, 2**key_bits, 20, dtype=np.uint64, endpoint=key_bits == 64)
        if key_bits < 64
        else (np.frombuffer(rng.bytes(160), dtype=np.uint64))
    )
    projection = random_projection(size, independence, key_bits)
    entries = projection.signs(keys).astype(np.int64)
    assert set(np.unique(entries)) <= {-1, 1} and entries.shape == (20, size)
    assert ((entries / np.sqrt(size)) ** 2).sum(axis=1) == pytest.approx(np.ones(20))  # columns of norm 1
    counts = rng.integers(1, 9, 20)
    assert projection.project(keys, counts).tolist() == (counts @ entries).tolist()
    values = rng.integers(-99, 99, size)
    assert projection.reader(values).sums(keys).tolist() == (entries @ values).tolist()


def test_eight_coefficients_are_no_quadratic_form() -> None:
    """The bound of the fast way is sharp: x^7 has three bits."""
    projection, keys = random_projection(64, 8, 16), np.arange(50, dtype=np.uint64)
    signs, places = projection._split(projection._families[0], keys)
    rows = np.arange(64)
    walsh = 1 - 2 * (np.bitwise_count(rows[None, :] & places[:, None]) & 1).astype(np.int64)
    guess = signs[:, None] * walsh * projection.signs(keys[:1])
    assert (guess != projection.signs(keys)).any()


def test_sums_are_linear_in_the_records() -> None:
    projection = random_projection(100, 4, 64)
    keys = np.arange(30, dtype=np.uint64)
    rng = np.random.default_rng(3)
    one, other = rng.integers(0, 9, 30), rng.integers(0, 9, 30)
    both = projection.project(keys, one + 2 * other)
    assert (both == projection.project(keys, one) + 2 * projection.project(keys, other)).all()
    assert not projection.project(keys[:0], one[:0]).any()


def test_a_query_of_m_keys_takes_m_times_T_hash_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the plain way; kernels are run as Python, which counts. The universe has 2^64 keys."""
    calls = [0]
    honest = galois.bits_at

    def counted(*arguments):  # type: ignore[no-untyped-def]
        calls[0] += 1
        return honest(*arguments)

    monkeypatch.setattr(galois, "bits_at", counted)
    monkeypatch.setattr(galois, "weighted_sums", galois.weighted_sums.py_func)
    projection = random_projection(25, QUADRATIC + 1, 64)
    projection.reader(np.ones(25)).sums(np.array([5, 7, 11], dtype=np.uint64))
    assert calls == [3 * 25]


def test_the_same_coefficients_give_the_same_entries() -> None:
    one, other = random_projection(64, 4, 64), random_projection(64, 4, 64)
    keys = np.arange(9, dtype=np.uint64)
    assert (one.signs(keys) == other.signs(keys)).all()
    assert (one.signs(keys) != random_projection(64, 4, 64, seed=1).signs(keys)).any()


def test_two_keys_can_have_opposite_columns() -> None:
    """Why the sensitivity of an exchange is the full 2 in every row: there are such pairs."""
    projection, keys = random_projection(8, 4, 8), np.arange(256, dtype=np.uint64)
    entries = projection.signs(keys).astype(np.int64)
    products = entries @ entries.T
    assert products.min() == -8
    assert set(np.unique(products)) == {-8, 0, 8}  # a quadratic form's columns share all, or nothing


def test_numbers_of_keys() -> None:
    hashed = Hashed(b"k" * 16)
    assert hashed.number("a") == hashed.number("a") != hashed.number("b")
    assert Hashed(b"l" * 16).number("a") != hashed.number("a")
    assert hashed.number("\ud800") != hashed.number("?")  # whatever a command line hands on
    assert hashed.probability_of_collision(10**6) == pytest.approx(2.7e-8, rel=0.01)
    listed = Listed(("x", "y", "z"))
    assert (listed.bits, listed.number("z"), listed.number("no")) == (2, 2, None)
    for wrong in ((), ("a", "a")):
        with pytest.raises(InputError, match="list of keys"):
            Listed(wrong)


@pytest.mark.parametrize(
    ("coefficients", "size", "key_bits"),
    [
        (np.array([[0, 64]], dtype=np.uint64), 8, 3),  # beyond GF(2^6)
        (np.array([[1, 0]], dtype=np.uint64), 8, 61),
        (np.zeros((0, 2), dtype=np.uint64), 8, 3),
        (np.zeros((4, 2), dtype=np.int64), 8, 3),
        (np.zeros((4, 2), dtype=np.uint64), 0, 3),
        (np.zeros((4, 2), dtype=np.uint64), 2**24 + 1, 3),
        (np.zeros((4, 2), dtype=np.uint64), 8, 65),
        (np.zeros((100, 2), dtype=np.uint64), 2**24, 8),
    ],
)
def test_what_is_no_projection_is_refused(coefficients: np.ndarray, size: int, key_bits: int) -> None:
    with pytest.raises(ValueError, match="not a projection"):
        Projection(coefficients[None], size, key_bits)


def test_blocks_keep_the_mean_and_the_variance() -> None:
    """Two polynomials of a row each, over all pairs of them: what a single one of two rows has."""
    each = [projection.signs(KEYS).astype(np.int64) for projection in family(1, 2, 4)]
    parts = [sum(q * int(c) for q, c in zip(QUERY, e[:, 0] * (e[:, 0] @ COUNTS), strict=True)) for e in each]
    values, times = np.unique(np.array([float(p) for p in parts]), return_counts=True)
    total, mean, square = Fraction(0), Fraction(0), Fraction(0)
    for (one, a), (other, b) in itertools.product(zip(values, times, strict=True), repeat=2):
        answer, chance = (Fraction(one) + Fraction(other)) / 2, Fraction(int(a) * int(b))
        total, mean, square = total + chance, mean + chance * answer, square + chance * answer**2
    assert mean / total == true_answer()
    assert square / total - (mean / total) ** 2 == identity(2)


@pytest.mark.parametrize(("blocks", "independence"), [(1, 4), (5, 4), (4, 9)])
def test_a_projection_of_blocks_is_its_entries(blocks: int, independence: int) -> None:
    rng = np.random.default_rng(1)
    stacked = Projection.of(20, blocks, independence, 64, rng.bytes(16 * blocks * independence))
    keys, counts, values = np.arange(9, dtype=np.uint64), rng.integers(0, 9, 9), rng.integers(-9, 9, 20)
    entries = stacked.signs(keys).astype(np.int64)
    assert entries.shape == (9, 20) and stacked.blocks == blocks
    assert stacked.project(keys, counts).tolist() == (counts @ entries).tolist()
    assert stacked.reader(values).sums(keys).tolist() == (entries @ values).tolist()


UNFIT = [(0, 8, 4), (3, 8, 4), (16, 8, 4), (2, 2**24, 100)]


@pytest.mark.parametrize(("blocks", "size", "independence"), UNFIT)
def test_blocks_are_equal_and_not_too_much_work(blocks: int, size: int, independence: int) -> None:
    with pytest.raises(ValueError, match="not a projection"):
        Projection(np.zeros((blocks, independence, 2), dtype=np.uint64), size, 8)
