"""What a test and a measurement cost is what accuracy needs, by enumeration, and no dearer than that."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from factored_mwem.accounting import accountant
from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import InputError
from factored_mwem.privacy.rows import SCORE_GRID
from factored_mwem.sessions.online.mechanism import Rule
from factored_mwem.sessions.online.prices import Prices, measuring_tail, passing_tail

both = pytest.mark.parametrize("composition", list(Composition))


def pmf(scale: float, composition: Composition, reach: int) -> tuple[np.ndarray, np.ndarray]:
    z = np.arange(-reach, reach + 1)
    squared = composition is Composition.ZCDP
    weights = np.exp(-(z.astype(float) ** 2) / (2 * scale**2)) if squared else np.exp(-np.abs(z) / scale)
    return z, weights / weights.sum()


@both
@pytest.mark.parametrize("scale", [1.5, 7.0, 40.0])
@pytest.mark.parametrize("off", [3.0, 12.5, 90.0])
def test_a_measured_count_is_off_as_often_as_said(composition: Composition, scale: float, off: float) -> None:
    """The sum over all of the noise's values; exact for Laplace, close from above for a Gaussian."""
    z, p = pmf(scale, composition, 4000)
    exact = float(p[np.abs(z) > off].sum())
    said = measuring_tail(scale, off, composition)
    assert exact <= said * (1 + 1e-9) + 1e-15
    if composition is Composition.PURE:
        assert said == pytest.approx(exact, rel=1e-6)


def test_a_test_lets_pass_what_is_beyond_as_rarely_as_is_said() -> None:
    """The convolution of the two noises, on a grid of ten to a record; the tail is tight."""
    scale, grid = 3.0, 10
    z, threshold = pmf(scale * grid, Composition.PURE, 3000)
    _, score = pmf(scale * 1.25 * grid, Composition.PURE, 3000)
    both_ = np.convolve(threshold, score)
    at = np.arange(-6000, 6001) / grid
    for off in (3.0, 10.0, 25.0):
        exact = float(both_[at > off].sum())
        assert exact <= passing_tail(scale, off)
        assert passing_tail(scale, off) == pytest.approx(exact, rel=0.05)
    assert passing_tail(scale, 0.0) == passing_tail(scale, -1.0) == 1.0
    assert len(z) == 6001


@both
@pytest.mark.parametrize("groups", [1, 16])
def test_a_price_buys_the_bound_and_no_more(composition: Composition, groups: int) -> None:
    prices = Prices(300.0, 0.001, composition)
    cost = prices.measuring(1, groups)
    scale = accountant.scale_for(accountant.additive(composition), cost, sensitivity=1)
    assert groups * measuring_tail(scale, 300.0, composition) <= 0.001 * (1 + 1e-6)
    cheaper = accountant.scale_for(accountant.additive(composition), cost * Fraction(99, 100), sensitivity=1)
    assert groups * measuring_tail(cheaper, 300.0, composition) > 0.001
    cost = prices.testing(1)
    scale = accountant.scale_for(accountant.testing(composition), cost, sensitivity=SCORE_GRID) / SCORE_GRID
    assert passing_tail(scale, 150.0) <= 0.001 * (1 + 1e-6)


def test_measuring_costs_a_quarter_of_turbos_price_and_a_test_about_half() -> None:
    """Turbo: 4 ln(1/beta) / (n alpha) for an answer, and 3 times that to begin a test, at half of alpha."""
    prices = Prices(1000.0, 0.001, Composition.PURE)
    turbo = 4 * math.log(1000) / 1000
    assert 0.24 < float(prices.measuring(1, 1)) / turbo < 0.28
    assert float(prices.testing(1)) / (3 * turbo) < 0.6


@pytest.mark.parametrize("beta", [0.0, 0.5, -1.0, math.nan])
def test_no_beta_without_a_meaning(beta: float) -> None:
    with pytest.raises(InputError, match="beta"):
        Prices(100.0, beta, Composition.PURE)


def test_no_alpha_below_the_noise() -> None:
    with pytest.raises(InputError, match="records"):
        Prices(1.5, 0.001, Composition.PURE)


def test_the_rule_tests_what_has_earned_it() -> None:
    rule = Rule()
    assert not rule.worth_a_test("a", 1.0, 6.0)
    for _ in range(10):
        rule.see("a", off=False)
    assert rule.worth_a_test("a", 1.0, 6.0)
    assert not rule.worth_a_test("a", 1.0, 200.0)
    for _ in range(4):
        rule.see("b", off=True)
    assert not rule.worth_a_test("b", 1.0, 6.0)
    assert rule.risk("a") < rule.risk("never seen") < rule.risk("b")


def test_the_rule_forgets() -> None:
    rule = Rule()
    for _ in range(20):
        rule.see("a", off=True)
    for _ in range(100):
        rule.see("a", off=False)
    assert rule.risk("a") < 0.03
