"""The IC mechanism: its constants, its ledger, its end, and its theorem on a real session."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.fakes import FakeNoise

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.privacy.answers import PrivateAnswers
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.metered import Metered
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.privacy.session import Session
from factored_mwem.sessions.online.constructions import MultiplicativeWeights
from factored_mwem.sessions.online.offline import (
    construct,
    epsilon_0,
    epsilon_0_approximate,
    found_within,
    least_alpha,
)

CELLS = 12
DOMAIN = Domain.from_dict({"x": CELLS})
TABLE = np.repeat(np.arange(CELLS), [700, 5, 5, 90, 5, 5, 5, 60, 5, 5, 110, 5])


class Sets:
    """A kind of question: sets of codes of the one column."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights, self.cells = weights, np.ones(len(weights), dtype=np.int64)

    def positions(self, question: int) -> tuple[int, ...]:
        return (0,)

    def answers(self, source: Any) -> np.ndarray:
        return (self.weights @ source.marginal((0,))).astype(np.int64)

    def l1(self, unit: Unit) -> int:
        return unit.of_counting_query

    def l2_squared(self, unit: Unit) -> int:
        return unit.of_counting_query**2


def sealed_sets(table: np.ndarray, count: int = 30) -> tuple[PrivateAnswers, np.ndarray]:
    weights = (np.random.default_rng(3).random((count, CELLS)) < 0.5).astype(np.int64)
    rows = PrivateRows.coded([table.astype(np.uint8)], DOMAIN)
    sealed = PrivateAnswers.of(rows, DOMAIN, [Sets(weights)])  # type: ignore[list-item]
    return sealed, weights.astype(float)


def session_of(noise: Noise | None = None, epsilon: float = 1.0) -> Session:
    accountant = Accountant(Budget.of(epsilon, 0.0))
    return Session(accountant, Unit(), Metered(noise or OpenDPNoise(Composition.PURE), accountant))


def test_the_constants_of_the_theorem() -> None:
    assert epsilon_0(1.0, 10.0) == 0.05
    assert epsilon_0_approximate(1.0, math.exp(-4), 25.0) == pytest.approx(1 / 40)
    assert found_within(0.5, 20, 0.1) == pytest.approx(4 * math.log(200))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_least_alpha_has_the_corrected_constants(delta: float) -> None:
    """alpha = 32 B(alpha / 2) log(k / gamma) / eps, or 64 sqrt(B log(1 / delta)) log(k / gamma) / eps: four
    times what lecture 9 prints (theorem 3).
    """
    n, k, beta, epsilon = 1e6, 100, 0.05, 1.0

    def bound(alpha: float) -> float:
        return 4 * n**2 * math.log(64) / alpha**2

    def each(most: float) -> float:
        return epsilon_0_approximate(epsilon, delta, most) if delta else epsilon_0(epsilon, most)

    alpha = least_alpha(bound, each, k, beta)
    most = bound(alpha / 2)
    logs = math.log(k * 2 * most / beta)
    factor = 64 * math.sqrt(most * math.log(1 / delta)) if delta else 32 * most
    assert alpha == pytest.approx(factor * logs / epsilon)
    printed = 16 * math.sqrt(most * math.log(1 / delta)) if delta else 8 * most
    assert alpha == pytest.approx(4 * printed * logs / epsilon)


def test_without_noise_it_ends_near_and_within_the_bound() -> None:
    """Stop means nearer than 3 alpha / 4; two readings a step, of eps_0 each, and at most 2 B eps_0."""
    sealed, queries = sealed_sets(TABLE)
    counts, alpha = np.bincount(TABLE, minlength=CELLS), 200.0
    session = session_of(FakeNoise(Composition.PURE))
    construction = MultiplicativeWeights(CELLS, float(len(TABLE)), alpha / 2)
    most = math.floor(construction.bound(alpha / 2))
    ended = construct(session, sealed, construction, list(queries), alpha, cost=Fraction(1))
    errors = [abs(construction.answer(q) - float(q @ counts)) for q in queries]
    assert ended.near
    assert 0 < ended.updates <= most
    assert max(errors) < 0.75 * alpha
    entries = session.accountant.entries
    assert [e.stage for e in entries] == ["select", "measure"] * (ended.updates + 1)
    each = Fraction(1, 2 * most)
    assert all(each * (1 - Fraction(1, 10**9)) < e.cost <= each for e in entries)
    assert session.accountant.spent <= 2 * most * each == 1


def test_it_ends_with_the_bound_where_noise_never_lets_it() -> None:
    """All 2 B readings, and not one more."""
    sealed, queries = sealed_sets(TABLE)
    flip = iter([5_000, -5_000] * 10_000)
    session = session_of(FakeNoise(Composition.PURE, offset=lambda values, _: values + next(flip)))
    construction = MultiplicativeWeights(CELLS, float(len(TABLE)), 500.0)
    most = math.floor(construction.bound(500.0))
    ended = construct(session, sealed, construction, list(queries), 1000.0, cost=Fraction(1))
    assert (ended.updates, ended.near) == (most, False)
    assert len(session.accountant.entries) == 2 * most
    assert session.accountant.spent <= 1


def test_theorem_7_3_as_an_inequality() -> None:
    """Real noise, at the least alpha of the theorem: all errors below it, but with probability beta a run."""
    beta, epsilon = 1e-11, 1.0
    table = np.repeat(np.arange(CELLS), [500, *[100] * 10, 500])
    sealed, queries = sealed_sets(table)
    counts = np.bincount(table, minlength=CELLS)
    whole = MultiplicativeWeights(CELLS, float(len(table)), 1.0)
    alpha = least_alpha(whole.bound, lambda b: epsilon_0(1e4, b), len(queries), beta)
    assert alpha < len(table)  # at this epsilon the theorem says something
    assert least_alpha(whole.bound, lambda b: epsilon_0(epsilon, b), len(queries), beta) > len(table)
    for _ in range(12):
        session = session_of(epsilon=1e4)
        construction = MultiplicativeWeights(CELLS, float(len(table)), alpha / 2)
        construct(session, sealed, construction, list(queries), alpha, cost=Fraction(10_000))
        assert max(abs(construction.answer(q) - float(q @ counts)) for q in queries) <= alpha


def test_under_a_delta_it_is_charged_in_rho() -> None:
    """All 2 B readings at an equal part of rho; theorem 7.3 would have each at eps_0 by advanced composition,
    which is an eps_0 less than that of a selection here.
    """
    sealed, queries = sealed_sets(TABLE)
    accountant, flip = Accountant(Budget.of(1.0, 1e-9)), iter([5_000, -5_000] * 10_000)
    session = Session(accountant, Unit(), FakeNoise(offset=lambda values, _: values + next(flip)))
    construction, rho = MultiplicativeWeights(CELLS, float(len(TABLE)), 500.0), accountant.left
    most = math.floor(construction.bound(500.0))
    construct(session, sealed, construction, list(queries), 1000.0, cost=rho)
    assert len(accountant.entries) == 2 * most and 0.999 * rho < accountant.spent <= rho
    selected = math.sqrt(8 * rho / (2 * most))
    assert selected > epsilon_0_approximate(1.0, 1e-9, most)


def test_theorem_9_with_the_corrected_constants() -> None:
    """Multiplicative weights, in shares: alpha^3 = 512 log |X| log(k / gamma) / (n eps), and alpha^2 = 256
    sqrt(log |X| log(1 / delta)) log(k / gamma) / (n eps): four times what lecture 9 has under the root.
    """
    n, k, beta, epsilon, delta, elements = 1e7, 50, 0.01, 1.0, 1e-6, 128
    bound = MultiplicativeWeights(elements, n, 1.0).bound
    alpha = least_alpha(bound, lambda b: epsilon_0(epsilon, b), k, beta) / n
    logs = math.log(k * 2 * bound(alpha * n / 2) / beta)
    assert alpha**3 == pytest.approx(4 * 128 * math.log(elements) * logs / (n * epsilon))
    alpha = least_alpha(bound, lambda b: epsilon_0_approximate(epsilon, delta, b), k, beta) / n
    logs = math.log(k * 2 * bound(alpha * n / 2) / beta)
    root = math.sqrt(math.log(elements) * math.log(1 / delta))
    assert alpha**2 == pytest.approx(4 * 64 * root * logs / (n * epsilon))
