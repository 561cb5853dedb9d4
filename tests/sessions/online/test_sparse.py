"""Sparse constructions: dense ones written out as oracles, and memory."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from factored_mwem.errors import InputError
from factored_mwem.sessions.online.sparse import Lazy, Prior, SparseFriezeKannan, copies, prior_bound

Query = dict[int, float]


class Dense:
    """Multiplicative weights with every element's weight: of a prior, or of equal weights."""

    def __init__(self, size: int, total: float, alpha: float, prior: list[float] | None = None) -> None:
        self.total, self.step = total, alpha / (2 * total)
        self.logs, self.prior = [0.0] * size, prior or [1.0] * size

    def answer(self, query: Query) -> float:
        top = max([*self.logs, 0.0])
        weights = [p * math.exp(log - top) for p, log in zip(self.prior, self.logs, strict=True)]
        found = math.fsum(query.get(x, 0.0) * w for x, w in enumerate(weights))
        return self.total * found / math.fsum(weights)

    def update(self, query: Query, value: float) -> None:
        sign = -1.0 if value < self.answer(query) else 1.0
        for x, q in query.items():
            self.logs[x] += sign * self.step * q


def queries(rng: np.random.Generator, size: int, most: int, number: int) -> Iterator[Query]:
    for _ in range(number):
        keys = rng.choice(size, rng.integers(1, most + 1), replace=False)
        yield {int(x): float(rng.choice([rng.random(), 1.0])) for x in keys}


def truth(data: np.ndarray, query: Query) -> float:
    return sum(q * float(data[x]) for x, q in query.items())


@pytest.mark.parametrize(
    ("number", "value"),
    [(0, 0.1), (1, 0.1), (10**5, math.pi * 1e-9), (2**17 + 3, 1.0), (2**200 - 3**100, 0.1 + 0.2)],
)
def test_copies_have_the_exact_sum(number: int, value: float) -> None:
    assert sum(map(Fraction, copies(number, value))) == number * Fraction(value)


@pytest.mark.parametrize("seed", range(5))
def test_lazy_weights_are_dense_ones_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, total, alpha = 300, 1000.0, 80.0
    data = rng.multinomial(1000, rng.dirichlet(np.full(size, 0.05)))
    lazy, dense = Lazy(size, total, alpha), Dense(size, total, alpha)
    for query in queries(rng, size, 5, 200):
        assert lazy.answer(query) == dense.answer(query)
        for one in (lazy, dense):
            one.update(query, truth(data, query))
    assert 100 < len(lazy.logs) <= size and max(lazy.logs.values()) > 0.1


def test_plain_sums_would_differ() -> None:
    """What `fsum` and `copies` are for: the same in numpy's order is off by a bit somewhere."""
    rng = np.random.default_rng(0)
    lazy, dense = Lazy(300, 1000.0, 300.0), Dense(300, 1000.0, 300.0)
    off = 0
    for query in queries(rng, 300, 5, 100):
        for one in (lazy, dense):
            one.update(query, float(rng.random() * 1000))
        weights = np.exp(np.array(dense.logs) - max(dense.logs))
        plain = 1000.0 * float(sum(q * weights[x] for x, q in query.items())) / float(weights.sum())
        off += plain != lazy.answer(query)
    assert off


def test_a_step_is_that_of_the_paper() -> None:
    """Gupta, Roth, Ullman: all elements times exp(-eta r), r = q or 1 - q, and scaled back."""
    rng = np.random.default_rng(2)
    size, total, alpha = 20, 50.0, 10.0
    lazy, shares = Lazy(size, total, alpha), np.full(20, 1 / 20)
    for query in queries(rng, size, 4, 60):
        q = np.array([query.get(x, 0.0) for x in range(size)])
        value = float(rng.random() * total)
        r = q if value < total * float(q @ shares) else 1 - q
        lazy.update(query, value)
        shares = shares * np.exp(-alpha / (2 * total) * r)
        shares /= shares.sum()
        assert lazy.answer(query) == pytest.approx(total * float(q @ shares), rel=1e-9)


def test_a_prior_is_dense_weights_with_that_prior() -> None:
    """The prior that a whole run gave out, fixed from the start, gives the same answers."""
    rng = np.random.default_rng(4)
    size, most, total, alpha = 60, 4, 200.0, 30.0
    data = rng.multinomial(200, rng.dirichlet(np.full(size, 0.1)))
    asked = list(queries(rng, size, most, 150))
    sparse = Prior(most, total, alpha)
    seen = []
    for query in asked:
        seen.append(sparse.answer(query))
        sparse.update(query, truth(data, query))
    prior = [sparse.priors.get(x, 0.0) for x in range(size)]
    assert sparse.widened > 5 and sum(prior) < 1 and sparse.rest == pytest.approx(1 - sum(prior))
    dense = Dense(size + 1, total, alpha, [*prior, 1 - sum(prior)])  # the rest is one element more
    for query, answer in zip(asked, seen, strict=True):
        assert answer == pytest.approx(dense.answer(query), rel=1e-9)
        dense.update(query, truth(data, query))


def greedy(one: object, data: np.ndarray) -> Query:
    """The keys that are answered worst, all on one side."""
    gaps = np.array([data[x] - one.answer({x: 1.0}) for x in range(len(data))])  # type: ignore[attr-defined]
    side = 1 if np.sort(gaps)[-3:].sum() > -np.sort(gaps)[:3].sum() else -1
    return {int(x): 1.0 for x in np.argsort(-side * gaps)[:3]}


def updates(one: object, data: np.ndarray, alpha: float, tries: int) -> int:
    """How many updates an adversary forces, with values as far off as a sequence of level alpha allows."""
    number = 0
    for _ in range(tries):
        query = greedy(one, data)
        exact = truth(data, query)
        gap = exact - one.answer(query)  # type: ignore[attr-defined]
        if abs(gap) >= alpha:
            number += 1
            one.update(query, exact - 0.999 * math.copysign(alpha, gap))  # type: ignore[attr-defined]
    return number


def test_a_step_the_wrong_way_breaks_the_bound() -> None:
    """The planted twin: an adversary then never comes to an end."""
    data = np.array([60, 40, 0, 0, 0, 0])

    class Wrong(Lazy):
        def update(self, query: Query, value: float) -> None:  # type: ignore[override]
            super().update(query, -math.inf if value >= self.answer(query) else math.inf)

    one = Wrong(6, 100.0, 20.0)
    assert updates(one, data, 20.0, 1000) > one.bound(20.0)


def test_new_keys_without_data_force_no_end_of_updates() -> None:
    """The trap: one new key after the other, all of them answered by 0 in the data. With a prior that sums to
    1 the answers to new keys fall below alpha; started at 1 / m each, they never would.
    """
    sparse, alpha = Prior(1, 100.0, 10.0), 10.0
    for key in range(10_000):
        if sparse.answer({key: 1.0}) >= alpha:
            sparse.update({key: 1.0}, 0.0)
    assert sparse.widened <= sparse.bound(alpha) and sparse.answer({"new": 1.0}) < alpha

    class Naive(Prior):
        """Every key at 1 / m, nothing taken off the rest."""

        def _prior(self, key: object) -> float:
            return 1 / self.most

        rest = 1.0  # type: ignore[assignment]

    naive = Naive(1, 100.0, 10.0)
    forced = 0
    for key in range(500):
        naive.priors.clear(), naive.logs.clear()  # the data has none of them: it asks for ever new ones
        if naive.answer({key: 1.0}) >= alpha:
            naive.update({key: 1.0}, 0.0)
            forced += 1
    assert forced == 500


def test_memory_does_not_grow_with_the_universe() -> None:
    small, large = Lazy(2**20, 1000.0, 50.0), Lazy(2**200, 1000.0, 50.0)
    for one in (small, large):
        for i in range(200):
            one.update({i * 7919: 1.0, i * 31 + 1: 0.5}, 1000.0)
    assert len(small.logs) == len(large.logs) <= 400
    assert sys.getsizeof(small.logs) == sys.getsizeof(large.logs)
    assert 0 < large.answer({0: 1.0}) < small.answer({0: 1.0})
    assert large.bound(50.0) == pytest.approx(10 * small.bound(50.0))


def test_known_bounds() -> None:
    assert Lazy(16, 1.0, 0.25).bound(0.25) == pytest.approx(177.4, abs=0.05)
    assert prior_bound(3, 1.0, 0.15) == pytest.approx(3148, abs=1)

    assert prior_bound(3, 1.0, 2.0) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Lazy(0, 1.0, 1.0),
        lambda: Lazy(4, -1.0, 1.0),
        lambda: Prior(0, 1.0, 1.0),
        lambda: SparseFriezeKannan(1, 1.0, math.nan),
        lambda: Lazy(4, 1.0, 1.0).answer({0: 1.5}),
        lambda: Lazy(4, 1.0, 1.0).update({0: math.nan}, 0.0),
        lambda: Prior(1, 1.0, 1.0).update({0: 1.0, 1: 1.0}, 0.0),
        lambda: SparseFriezeKannan(1, 1.0, 1.0).update({0: 1.0, 1: 1.0}, 0.0),
    ],
)
def test_what_cannot_be_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        wrong()
