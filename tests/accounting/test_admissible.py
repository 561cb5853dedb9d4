"""Admissible noise: the stated constants against the densities themselves, and planted bugs that they
catch.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from factored_mwem.accounting.admissible import Admissible, Shape
from factored_mwem.errors import InputError


def log_cauchy(z: np.ndarray, s: float) -> np.ndarray:
    return np.log(s * math.tanh(math.pi * s) / math.pi) - np.log(s * s + z.astype(float) ** 2)


def log_laplace(z: np.ndarray, t: float) -> np.ndarray:
    return math.log(math.tanh(1 / (2 * t))) - np.abs(z) / t


def log_gaussian(z: np.ndarray, s: float) -> np.ndarray:
    wide = np.arange(-int(40 * s) - 1, int(40 * s) + 2)
    return -(z.astype(float) ** 2) / (2 * s * s) - math.log(np.exp(-(wide**2.0) / (2 * s * s)).sum())


def neighbours(noise: Admissible, bounds: tuple[float, ...]) -> list[tuple[float, float, int]]:
    """(scale, scale', move) of the worst neighbours: S' = e^{+-beta} S, moves up to the lesser of both."""
    found = []
    for bound, sign in itertools.product(bounds, (-1, 0, 1)):
        other = bound * math.exp(sign * noise.beta)
        if other >= 1:
            move = math.floor(min(bound, other))
            found += [(noise.multiplier * bound, noise.multiplier * other, d) for d in {0, 1, move}]
    return found


def places(scale: float, move: int) -> np.ndarray:
    """Where outputs are looked at: all near, then ever more sparsely, for tails of 1 / z^2."""
    near = np.arange(-3000, 3001)
    far = np.unique(np.round(np.geomspace(3001, 1e12, 4000)).astype(np.int64))
    round_about = move + np.round(scale * np.linspace(-3, 3, 601)).astype(np.int64)
    return np.unique(np.concatenate([near, far, -far, round_about, round_about - move]))


def worst_ratio(noise: Admissible, bounds: tuple[float, ...] = (1, 1.37, 2, 7.5, 40, 1000)) -> float:
    worst = 0.0
    for s, other, move in neighbours(noise, bounds):
        z = places(s, move)
        worst = max(worst, float(np.abs(log_cauchy(z, s) - log_cauchy(z - move, other)).max()))
    return worst


def worst_delta(noise: Admissible, bounds: tuple[float, ...] = (1, 1.37, 2, 7.5, 40)) -> float:
    """The greatest hockey-stick divergence at the promised epsilon, either way: sums over all outputs."""
    law = log_laplace if noise.shape is Shape.LAPLACE else log_gaussian
    worst = 0.0
    for s, other, move in neighbours(noise, bounds):
        z = np.arange(-int(60 * max(s, other)) - move, int(60 * max(s, other)) + 2 * move + 2)
        here, there = law(z, s), law(z - move, other)
        for p, q in ((here, there), (there, here)):
            worst = max(worst, float(np.maximum(0, np.exp(p) - np.exp(noise.epsilon + q)).sum()))
    return worst


EPSILONS = (0.05, 0.3, 1.0, 2.0, 5.0)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_discrete_cauchy_is_pure(epsilon: float) -> None:
    noise = Admissible.cauchy(epsilon)
    assert noise.holds
    assert worst_ratio(noise) <= epsilon
    assert worst_ratio(noise) >= epsilon * 0.9  # the constants are near what is needed


def test_a_discrete_cauchy_sums_to_one() -> None:
    """The closed form of the norm, by summing."""
    z = np.arange(-2_000_000, 2_000_001)
    for s in (1.0, 2.5, 17.0):
        assert np.exp(log_cauchy(z, s)).sum() == pytest.approx(1, abs=2 * s / 2e6)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_printed_constants_are_private_and_four_times_as_noisy(epsilon: float) -> None:
    """F.1: a = b = epsilon / 6, noise 6 S / epsilon; ours have 1 / 4.2 of that and about 4.2 times beta."""
    printed, ours = Admissible.printed_cauchy(epsilon), Admissible.cauchy(epsilon)
    assert printed.multiplier == 6 / epsilon
    if epsilon <= 2:
        assert printed.holds
        assert worst_ratio(printed) <= epsilon / 4
        assert ours.multiplier == pytest.approx(max(1, printed.multiplier / 18**0.5))
    if epsilon <= 1:
        assert ours.beta >= 4 * printed.beta


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_discrete_laplace_keeps_epsilon_and_delta(epsilon: float, delta: float) -> None:
    noise = Admissible.laplace(epsilon, delta)
    assert noise.holds
    assert worst_delta(noise) <= delta
    printed = epsilon / (2 * math.log(2 / delta))
    if epsilon <= 2:
        assert noise.multiplier == pytest.approx(2 / epsilon)
        assert noise.beta >= printed * 0.93


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_discrete_gaussian_keeps_epsilon_and_delta(epsilon: float, delta: float) -> None:
    noise = Admissible.gaussian(epsilon, delta)
    assert noise.holds
    assert worst_delta(noise) <= delta
    assert noise.multiplier <= 5 * math.sqrt(2 * math.log(2 / delta)) / epsilon
    for d in (1, 2, 10):
        several = Admissible.gaussian(epsilon, delta, d)
        assert several.holds
        assert several.beta >= 0.85 * epsilon / (4 * (d + math.log(2 / delta)))


def test_gaussian_on_two_coordinates_by_summing_the_plane() -> None:
    noise = Admissible.gaussian(1.0, 1e-3, 2)
    s, worst = noise.multiplier * 1.5, 0.0
    for sign, move in itertools.product((-1, 0, 1), (0, 1)):
        other = s * math.exp(sign * noise.beta)
        z = np.arange(-int(12 * s), int(12 * s))
        here = log_gaussian(z, s)[:, None] + log_gaussian(z, s)[None, :]
        there = log_gaussian(z - move, other)[:, None] + log_gaussian(z, other)[None, :]
        worst = max(worst, float(np.maximum(0, np.exp(here) - np.exp(noise.epsilon + there)).sum()))
    assert worst <= noise.delta


def test_cauchy_on_several_coordinates() -> None:
    noise = Admissible.cauchy(1.0, 3)
    assert noise.holds
    s, worst = noise.multiplier * 2, 0.0
    for sign, z in itertools.product((-1, 1), itertools.product((-400, -11, 0, 3, 60), repeat=3)):
        other, at = s * math.exp(sign * noise.beta), np.array(z)
        moved = at - np.array([1, -1, 0])  # L1 norm 2
        worst = max(worst, abs(float((log_cauchy(at, s) - log_cauchy(moved, other)).sum())))
    assert worst <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_planted_bugs_break_the_promise(epsilon: float) -> None:
    """Half the scale; beta forgotten, so that S may change by any factor (here by e); both are seen."""
    for noise, worst, promised in (
        (Admissible.cauchy(epsilon), worst_ratio, epsilon),
        (Admissible.laplace(epsilon, 1e-6), worst_delta, 1e-6),
        (Admissible.gaussian(epsilon, 1e-6), worst_delta, 1e-6),
    ):
        for wrong in (replace(noise, multiplier=noise.multiplier / 2), replace(noise, beta=1.0)):
            assert worst(wrong) > promised and not wrong.holds


def test_refusals() -> None:
    for wrong in (0, -1, math.inf, math.nan):
        with pytest.raises(InputError, match="epsilon"):
            Admissible.cauchy(wrong)
    with pytest.raises(InputError, match="delta"):
        Admissible.laplace(1, 0)
    with pytest.raises(InputError, match="too little"):
        Admissible.cauchy(1e-9)
