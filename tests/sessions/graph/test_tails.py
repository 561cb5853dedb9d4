"""Theorem 6.5, Lemma 6.1 and the bound of all cuts, as inequalities. Monte Carlo: tests/slow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.graphs import noise_matrix, random_cut

from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.session import NoiseScale
from factored_mwem.sessions.graph.norms import cut_norm
from factored_mwem.sessions.graph.tails import (
    bound,
    cut_bound,
    queries_bound,
    reach_of_sum,
    single_bound,
    stddev,
    tail,
)
from factored_mwem.workload.cuts import Cut

RNG = np.random.default_rng(5)
LAPLACE, GAUSS = Composition.PURE, Composition.ZCDP


def discrete_moment(t: float, b: float) -> float:
    """E exp(t Y) of discrete Laplace noise, summed."""
    k = np.arange(-3000, 3001)
    return float(np.exp(t * k - np.abs(k) / b).sum() / np.exp(-np.abs(k) / b).sum())


@pytest.mark.parametrize("b", [0.3, 0.5, 1.0, 2.0, 10.0])
def test_discrete_noise_has_no_larger_moments(b: float) -> None:
    """So that the theorem holds for it: E exp(tY) <= 1 / (1 - b^2 t^2) for |t| < 1 / b."""
    for t in np.linspace(0.02, 0.9, 12) / b:
        formula = 1 / (1 - math.sinh(t / 2) ** 2 / math.sinh(1 / (2 * b)) ** 2)
        assert discrete_moment(t, b) == pytest.approx(formula, rel=1e-6)
        assert formula <= 1 / (1 - b**2 * t**2) * (1 + 1e-12)
    # planted: of half the scale the moments would not do
    assert discrete_moment(0.9 / b, b) > 1 / (1 - (b / 2) ** 2 * (0.9 / b) ** 2)


def chernoff(alpha: float, pairs: int, b: float) -> float:
    """The best bound that the moments give, over a grid of t."""
    t = np.linspace(0, 1 / b, 4000, endpoint=False)
    return float(np.exp((-pairs * np.log1p(-((b * t) ** 2)) - alpha * t).min()))


@pytest.mark.parametrize("pairs", [1, 5, 100])
@pytest.mark.parametrize("b", [0.5, 1.0, 3.0])
def test_the_theorem_is_no_better_than_the_moments_allow(pairs: int, b: float) -> None:
    """Both regimes, at their border too: the printed exponents follow from the moments, so they are true."""
    scale = NoiseScale(b, LAPLACE)
    for share in (0.1, 0.5, 0.99, 1.0, 1.01, 2.0, 10.0):
        alpha = share * pairs * b
        assert chernoff(alpha, pairs, b) <= tail(alpha, pairs, scale) * (1 + 1e-9)
    small, large = 0.5 * pairs * b, 4 * pairs * b
    assert tail(small, pairs, scale) == pytest.approx(math.exp(-(small**2) / (6 * pairs * b**2)))
    assert tail(large, pairs, scale) == pytest.approx(math.exp(-large / (6 * b)))
    assert tail(0.0, pairs, scale) == 1.0


@pytest.mark.parametrize("composition", [LAPLACE, GAUSS])
@pytest.mark.parametrize("pairs", [1, 10, 1000])
def test_bounds_solve_the_tail(pairs: int, composition: Composition) -> None:
    scale = NoiseScale(1.7, composition)
    for failures in (0.5, 3.0, pairs / 6, pairs / 6 + 1, 500.0):
        assert tail(bound(pairs, scale, failures), pairs, scale) <= math.exp(-failures) * (1 + 1e-9)
    assert bound(0, scale, 9.0) == 0.0


def test_lemma_6_1_holds_for_many_queries_at_once() -> None:
    """100 queries with coefficients in [0, 1] over 600 pairs, beta = 1e-9: one draw must keep the bound."""
    noise = RNG.laplace(0, 2.0, 600)
    most = queries_bound(600, NoiseScale(2.0, LAPLACE), 100, 1e-9)
    assert most == pytest.approx(2.0 * math.sqrt(6 * 600 * math.log(2 * 100 / 1e-9)))
    assert np.abs(RNG.random((100, 600)) @ noise).max() <= most
    beyond = queries_bound(10, NoiseScale(2.0, LAPLACE), 100, 1e-9)  # 6 log(2k / beta) > |X|
    assert beyond == pytest.approx(6 * 2.0 * math.log(2 * 100 / 1e-9))


def test_no_cut_of_all_is_off_by_more() -> None:
    """All 4^n at once, by the exact cut norm of one draw; and each by the bound of its own size."""
    for n, b in ((6, 1.0), (12, 0.5), (14, 3.0)):
        noise, scale = noise_matrix(RNG, n, b), NoiseScale(b, LAPLACE)
        whole = cut_bound(n * (n - 1) // 2, n, scale, 1e-9)
        assert abs(cut_norm(noise).value) / 2 <= whole
        for _ in range(200):
            cut = random_cut(RNG, n)
            inside = Cut(cut.sources, cut.targets & ~cut.sources)
            value = abs(noise[inside.sources][:, inside.targets].sum())
            assert value <= cut_bound(inside.pairs, n, scale, 1e-9)
    assert cut_bound(10**3, 100, scale, 0.05) < 0.5 * cut_bound(10**4, 100, scale, 0.05)


@pytest.mark.parametrize("b", [0.4, 1.0, 7.3])
def test_one_number_is_above_its_bound_as_seldom_as_said(b: float) -> None:
    k = np.arange(0, 4000)
    for failures in (0.7, 5.0, 13.8):
        most = single_bound(NoiseScale(b, LAPLACE), failures)
        whole = 2 * np.exp(-k / b).sum() - 1
        assert np.exp(-k[k >= most] / b).sum() / whole <= math.exp(-failures)


def sums(pairs: int, b: float) -> tuple[np.ndarray, np.ndarray]:
    """(whole numbers, Pr[Y >= each]) of the sum of discrete Laplace noise over pairs: exact."""
    k = np.arange(-400, 401)
    one = np.exp(-np.abs(k) / b)
    one /= one.sum()
    whole = np.ones(1)
    for _ in range(pairs):
        whole = np.convolve(whole, one)
    return np.arange(len(whole)) - 400 * pairs, np.cumsum(whole[::-1])[::-1]


@pytest.mark.parametrize(("pairs", "b"), [(1, 2.0), (3, 1.0), (12, 2.0), (25, 0.7)])
def test_the_theorem_holds_for_the_exact_distribution(pairs: int, b: float) -> None:
    """All alpha of both regimes down to 1e-12; planted: an exponent three times as large in the first regime,
    seven times in the second, is beyond the truth.
    """
    alpha, true = sums(pairs, b)
    seen = (alpha > 0) & (true > 1e-12)
    scale = NoiseScale(b, LAPLACE)
    said = np.array([tail(float(a), pairs, scale) for a in alpha[seen]])
    assert (true[seen] <= said).all()
    first = alpha[seen] <= pairs * b
    assert not (true[seen] <= said**7)[~first].all()
    if pairs > 3:
        assert not (true[seen] <= said**3)[first].all()


@pytest.mark.parametrize(("pairs", "b"), [(1, 0.2), (1, 2.0), (3, 1.0), (12, 2.0), (25, 0.7)])
@pytest.mark.parametrize("failures", [0.05, 1e-6])
def test_intervals_are_the_least_that_hold_by_the_exact_law(pairs: int, b: float, failures: float) -> None:
    """Beside convolutions, number by number. Planted: the continuous law's error is far too large."""
    alpha, upper = sums(pairs, b)
    beyond = {int(a): 2 * float(p) for a, p in zip(alpha, upper, strict=True)}
    reach = int(reach_of_sum(pairs, NoiseScale(b, LAPLACE), failures))
    assert beyond[reach + 1] <= failures
    assert reach == 0 or beyond[reach] > failures
    law = -np.diff(upper, append=0.0)
    exact = math.sqrt(float((law * alpha**2.0).sum()))
    assert stddev(NoiseScale(b, LAPLACE)) * math.sqrt(pairs) == pytest.approx(exact, rel=1e-6)
    if b == 0.2:
        assert NoiseScale(b, LAPLACE).stddev > 2 * exact


@pytest.mark.parametrize("sigma", [0.3, 1.0, 30.0, 1e6])
def test_gaussian_sums_have_their_intervals(sigma: float) -> None:
    scale = NoiseScale(sigma, GAUSS)
    assert stddev(scale) <= sigma
    if sigma >= 1:
        assert stddev(scale) == pytest.approx(sigma, rel=1e-6)
        reach = reach_of_sum(100, scale, 0.05)
        assert reach == pytest.approx(1.959964 * 10 * sigma, abs=1 + 2e-4 * 10 * sigma)
    assert reach_of_sum(0, scale, 0.05) == 0


@pytest.mark.parametrize(("pairs", "b"), [(1, 3e5), (10**6, 200.0), (5 * 10**9, 1.0)])
def test_intervals_of_much_noise_are_those_of_less_stretched(pairs: int, b: float) -> None:
    reach, wide = reach_of_sum(pairs, NoiseScale(b, LAPLACE), 0.05), b * math.sqrt(2 * pairs)
    quantile = math.log(20) / math.sqrt(2) if pairs == 1 else 1.959964  # Laplace, or near enough to Gaussian
    exact = stddev(NoiseScale(b, LAPLACE)) / (b * math.sqrt(2))
    assert reach == pytest.approx(quantile * wide * exact, rel=2e-4)
