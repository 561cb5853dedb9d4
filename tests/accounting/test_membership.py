"""The bound on membership guesses is never below what others compute for the same noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from factored_mwem.accounting import membership
from factored_mwem.accounting.accountant import Accountant, Budget, Charge, Mechanism
from factored_mwem.accounting.membership import advantage, advantage_of_budget, guess_of

GAUSSIAN, LAPLACE, THRESHOLD = Mechanism.GAUSSIAN, Mechanism.LAPLACE, Mechanism.THRESHOLD
ZCDP, PURE = Budget.of(1.0, 1e-9), Budget.of(1.0, 0.0)
SCALES = [[40.0], [1.0], [0.6], [0.3], [3.0, 3.0, 2.0], [9.0] * 12]


def charge(mechanism: Mechanism, scale: float, *, sensitivity: int = 1, delta: float = 0.0) -> Charge:
    return Charge("round 1", mechanism, ("a",), scale, sensitivity, Fraction(delta))


def bound_of(scales: Sequence[float], mechanism: Mechanism = GAUSSIAN) -> float:
    budget = PURE if mechanism is LAPLACE else ZCDP
    return advantage([charge(mechanism, scale) for scale in scales], budget)


def composed(scales: Sequence[float], of: str) -> float:
    """The total variation between the noise and the noise moved by 1, several times over: delta at epsilon 0,
    by dp-accounting.
    """
    make = {
        "continuous": lambda s: pld.from_gaussian_mechanism(s, value_discretization_interval=4e-3),
        "discrete": lambda s: pld.from_discrete_gaussian_mechanism(s, value_discretization_interval=4e-3),
        "laplace": lambda s: pld.from_discrete_laplace_mechanism(1 / s, value_discretization_interval=4e-3),
    }[of]
    first, *others = (make(scale) for scale in scales)
    for other in others:
        first = first.compose(other)
    return float(first.get_delta_for_epsilon(0.0))


@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_gaussian_noise_gives_away_no_more_than_the_bound(scales: list[float], kind: str) -> None:
    """And no less than .7 of it, while a guess is worth little: the bound is of some use."""
    theirs, bound = composed(scales, kind), bound_of(scales)
    assert theirs <= bound + 1e-5 * len(scales)  # what their rounding up adds
    if bound < 0.7 and kind == "continuous":
        assert theirs > 0.7 * bound


def test_a_bound_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: sqrt(rho) / 2, where Pinsker's inequality says sqrt(rho / 2)."""
    monkeypatch.setattr(membership, "_concentrated", lambda rho: math.sqrt(rho) / 2)
    assert any(composed(scales, "continuous") > bound_of(scales) + 1e-5 * len(scales) for scales in SCALES)


@pytest.mark.parametrize("scales", [[5.0], [1.0], [0.5], [4.0, 2.0, 4.0]], ids=str)
def test_laplace_noise_gives_away_no_more_than_the_bound(scales: list[float]) -> None:
    assert composed(scales, "laplace") <= bound_of(scales, LAPLACE) + 1e-4
    assert bound_of([0.3, 0.2], LAPLACE) == pytest.approx(math.tanh((1 / 0.3 + 1 / 0.2) / 2), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.0])
def test_selection_gives_away_no_more_than_the_bound(epsilon: float) -> None:
    """Gumbel noise of two scores that a person moves apart by 2: what it tells, at any gap between them."""
    scale = 2 / epsilon
    gaps = np.linspace(-20, 20, 4001)
    kept, moved = (1 / (1 + np.exp(-(gaps + by) / scale)) for by in (0, 2))
    assert np.abs(moved - kept).max() <= advantage([charge(Mechanism.EXPONENTIAL, scale)], ZCDP)


def test_known_values() -> None:
    """epsilon 1: 73.1 % where delta is 0; at delta 1e-9 rho is .01497, and a guess is 54.3 % right."""
    assert guess_of(advantage_of_budget(PURE)) == pytest.approx(math.e / (1 + math.e), rel=1e-12)
    assert float(ZCDP.amount) == pytest.approx(0.01497, abs=1e-5)
    assert advantage_of_budget(ZCDP) == pytest.approx(math.sqrt(float(ZCDP.amount) / 2), rel=1e-12)
    assert 0.0865 < advantage_of_budget(ZCDP) <= 0.087
    assert advantage([], ZCDP) == 0 and guess_of(0.0) == pytest.approx(0.5)


def test_a_threshold_adds_its_delta() -> None:
    """A key that only one table has is shown with probability delta: all of it is given away."""
    alone, delta = bound_of([5.0]), 0.01
    both = advantage([charge(THRESHOLD, 5.0, delta=delta)], ZCDP)
    assert both == pytest.approx(delta + (1 - delta) * alone, rel=1e-12)
    kept = Budget.of(1.0, 1e-2, discovery_share=Fraction(1, 10))
    rho = math.sqrt(float(kept.amount) / 2)
    assert advantage_of_budget(kept) == pytest.approx(1e-3 + (1 - 1e-3) * rho, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_more_epsilon_is_a_larger_bound_and_a_release_is_within_its_budgets(delta: float) -> None:
    budgets = [Budget.of(epsilon, delta) for epsilon in (1e-12, 0.1, 1.0, 10.0, 1e5)]
    bounds = [advantage_of_budget(budget) for budget in budgets]
    assert bounds == sorted(bounds) and 0 < bounds[0] < bounds[2] < 0.5 and bounds[-1] == 1
    assert all(0.5 <= guess_of(bound) <= 1 for bound in bounds)
    for budget, bound in zip(budgets[1:4], bounds[1:4], strict=True):
        accountant = Accountant(budget)
        mechanism = GAUSSIAN if delta else LAPLACE
        for _ in range(3):
            scale = float(1 / (budget.amount / 3)) if not delta else math.sqrt(1 / (2 * budget.amount / 3))
            accountant.charge(charge(mechanism, scale * (1 + 1e-9)))
        spent = advantage(accountant.entries, budget)
        assert bound * (1 - 1e-6) <= spent <= bound


def test_replace_neighbours_pay_twice() -> None:
    """Sensitivity is in the charge: the same noise tells more of which of two persons is there."""
    ones, twos = (advantage([charge(GAUSSIAN, 10.0, sensitivity=s)], ZCDP) for s in (1, 2))
    assert twos == pytest.approx(math.sqrt(2) * ones, rel=1e-9)


@pytest.mark.parametrize("rho", [0.015, 0.9, 1.5, 6.0])
def test_a_second_accountant_is_never_above_the_bound(rho: float) -> None:
    """riskcal: what a Gaussian of this rho gives away, and the most of any of which only rho is known."""
    riskcal = pytest.importorskip("riskcal.analysis")
    bound = bound_of([math.sqrt(1 / (2 * rho))])
    assert riskcal.get_advantage_for_mu(math.sqrt(2 * rho)) <= bound
    most = riskcal.get_advantage_from_zcdp(rho)
    assert most <= bound <= 1.1 * most
