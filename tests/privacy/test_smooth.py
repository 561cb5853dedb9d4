"""measure_smooth and its noise: an exact sampler, a charge for each draw, and nothing else told."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from support.fakes import FakeNoise

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.admissible import SLACK, Shape
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.errors import BudgetExceeded
from factored_mwem.privacy import noise
from factored_mwem.privacy.metered import Metered
from factored_mwem.privacy.noise import OpenDPNoise, discrete_cauchy, spread_scale
from factored_mwem.privacy.other.smooth import measure_smooth
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session


class Told(Sealed):
    """A sealed number with a bound that a test decides."""

    __slots__ = ()


class Contents:
    def value(self, what: object) -> int:
        return 7

    def smooth(self, what: object, beta: float, group: int) -> float:
        return 3.0 * group


def session(budget: Budget, fake: FakeNoise) -> Session:
    accountant = Accountant(budget)
    return Session(accountant, Unit(contributions=2), Metered(fake, accountant))


def test_the_charge_is_public_and_comes_first() -> None:
    fake = FakeNoise(Composition.PURE)
    opened = session(Budget.of(1.0, 0.0), fake)
    assert measure_smooth(opened, Told(Contents()), None, cost=Fraction(1, 2), shape=Shape.CAUCHY) == 7
    (charge,), (call,) = opened.accountant.entries, fake.calls
    assert call.values == (7, 6.0, Shape.CAUCHY) and call.scale == charge.scale
    assert 0.4999 < charge.cost <= Fraction(1, 2)
    with pytest.raises(BudgetExceeded):
        measure_smooth(opened, Told(Contents()), None, cost=Fraction(2, 3), shape=Shape.CAUCHY)
    assert len(fake.calls) == 1


def test_laplace_noise_takes_its_delta() -> None:
    fake = FakeNoise(Composition.PURE)
    opened = session(Budget.basic(1.0, 1e-6), fake)
    measure_smooth(
        opened, Told(Contents()), None, cost=Fraction(1, 2), shape=Shape.LAPLACE, delta=Fraction(1e-6)
    )
    assert opened.accountant.spent_delta == Fraction(1e-6)
    with pytest.raises(BudgetExceeded, match="delta"):
        measure_smooth(
            opened, Told(Contents()), None, cost=Fraction(1, 2), shape=Shape.LAPLACE, delta=Fraction(1e-9)
        )


def test_a_draw_of_another_shape_or_scale_than_was_charged_ends_the_run() -> None:
    fake = FakeNoise(Composition.PURE)
    opened = session(Budget.of(1.0, 0.0), fake)
    measure_smooth(opened, Told(Contents()), None, cost=Fraction(1, 4), shape=Shape.CAUCHY)
    metered = opened.noise
    assert isinstance(metered, Metered)
    scale = opened.accountant.entries[0].scale
    with pytest.raises(AssertionError):  # it was drawn already
        metered.spread(1, 1.0, shape=Shape.CAUCHY, scale=scale)
    opened.accountant.charge(opened.accountant.entries[0])
    for shape, factor in ((Shape.LAPLACE, 1.0), (Shape.CAUCHY, 0.5)):
        with pytest.raises(AssertionError):
            metered.spread(1, 1.0, shape=shape, scale=scale * factor)


def test_scales_are_rounded_up_by_less_than_the_slack() -> None:
    for bound, scale in ((1.0, 1.0), (1.0, 1e-9), (math.pi, 2.8), (2.0**40, 1e4), (1.0000001, 1.3)):
        exact, made = max(Fraction(bound) * Fraction(scale), Fraction(1)), spread_scale(bound, scale)
        assert exact <= made and math.log(made / exact) < SLACK / 8


class Recorded:
    """Draws of a seeded generator in the place of the system's, for tests alone."""

    def __init__(self, seed: int) -> None:
        self.below = random.Random(seed).randrange

    def randbelow(self, most: int) -> int:
        return self.below(most)


def exact_law(scale: Fraction, octaves: int) -> dict[int, Fraction]:
    """The sampler's law by its own steps, before the last octaves: proposals times acceptance, exact."""
    p, q = scale.numerator, scale.denominator
    most, law = -(-p // q), dict[int, Fraction]()
    for z in range(most << octaves):
        octave = max(0, (z // most).bit_length())
        if octave == 0:
            chance = Fraction(1, 2 * most) * Fraction(p * p, 2 * (p * p + q * q * z * z))
        else:
            proposed = Fraction(1, 2 ** (octave + 1)) / (most << (octave - 1))
            kept = Fraction(p * p << 2 * (octave - 1), p * p + q * q * z * z)
            assert kept <= 1
            chance = proposed * kept
        law[z] = chance
    return law


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 3), Fraction(29, 8), Fraction(10)])
def test_proposals_times_acceptance_are_a_cauchy_exactly(scale: Fraction) -> None:
    law = exact_law(scale, 6)
    assert len({chance * (scale**2 + z * z) for z, chance in law.items()}) == 1


def test_draws_are_a_discrete_cauchy(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a seeded generator, so that this test does not depend on luck; the system's is in the slow tests."""
    monkeypatch.setattr(noise, "secrets", Recorded(3))
    scale, count = Fraction(7, 3), 40_000
    seen = Counter(discrete_cauchy(scale) for _ in range(count))
    s = float(scale)
    for z in range(-12, 13):
        expected = s * math.tanh(math.pi * s) / math.pi / (s * s + z * z)
        assert abs(seen[z] / count - expected) < 5 * math.sqrt(expected / count)
    beyond = sum(n for z, n in seen.items() if abs(z) > 100) / count
    assert abs(beyond - 2 * math.atan(s / 100.5) / math.pi) < 0.003
    assert {1, -1} <= set(np.sign(list(seen)).tolist())


def test_the_adapter_adds_the_noise_to_the_value() -> None:
    adapter = OpenDPNoise(Composition.PURE)
    for shape in (Shape.CAUCHY, Shape.LAPLACE):
        near = [adapter.spread(10**9, 1.0, shape=shape, scale=2.0) for _ in range(50)]
        assert abs(np.median(near) - 10**9) < 40 and len(set(near)) > 3
    assert abs(adapter.spread(0, 2.0**100, shape=Shape.CAUCHY, scale=2.0**20)) <= 2**62
    with pytest.raises(AssertionError, match="no noise of shape"):
        adapter.spread(0, 1.0, shape=Shape.GAUSSIAN, scale=1.0)
