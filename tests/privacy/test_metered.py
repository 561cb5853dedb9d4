"""A draw without a charge of its own, at another scale, or a charge that was changed or forgotten ends
the run.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from support.fakes import FakeNoise

from factored_mwem.accounting.accountant import Accountant, Budget, Charge, Mechanism
from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.metered import Metered

CHARGE = Charge("measure", Mechanism.LAPLACE, ("a",), 100.0, 1)


def metered() -> tuple[Metered, Accountant, FakeNoise]:
    accountant, fake = Accountant(Budget.of(1.0, 0.0)), FakeNoise(Composition.PURE)
    return Metered(fake, accountant), accountant, fake


def test_what_is_charged_is_drawn() -> None:
    noise, accountant, fake = metered()
    for _ in range(2):
        accountant.charge(CHARGE)
        noise.add(np.zeros(3, dtype=np.int64), scale=100.0)
    noise.end()
    assert len(fake.calls) == 2


def uncharged(noise: Metered, accountant: Accountant) -> None:
    noise.add(np.zeros(1, dtype=np.int64), scale=100.0)


def twice(noise: Metered, accountant: Accountant) -> None:
    accountant.charge(CHARGE)
    noise.select(np.zeros(2, dtype=np.int64), scale=100.0)
    noise.threshold({"a": 1}, scale=100.0, threshold=3)


def quieter(noise: Metered, accountant: Accountant) -> None:
    accountant.charge(CHARGE)
    noise.add(np.zeros(1, dtype=np.int64), scale=50.0)


def refunded(noise: Metered, accountant: Accountant) -> None:
    accountant.charge(CHARGE)
    noise.add(np.zeros(1, dtype=np.int64), scale=100.0)
    accountant.spent = Fraction(0)
    noise.end()


def erased(noise: Metered, accountant: Accountant) -> None:
    accountant.charge(CHARGE)
    noise.add(np.zeros(1, dtype=np.int64), scale=100.0)
    accountant.entries.clear()
    accountant.spent = Fraction(0)
    noise.end()


def overspent(noise: Metered, accountant: Accountant) -> None:
    for _ in range(200):
        accountant.spent = Fraction(0)  # so that nothing is refused
        accountant.charge(CHARGE)
        noise.add(np.zeros(1, dtype=np.int64), scale=100.0)
    accountant.spent = sum((c.cost for c in accountant.entries), Fraction(0))
    noise.end()


@pytest.mark.parametrize("mistake", [uncharged, twice, quieter, refunded, erased, overspent])
def test_a_mistake_ends_the_run(mistake: Callable[[Metered, Accountant], None]) -> None:
    noise, accountant, _ = metered()
    with pytest.raises(AssertionError, match="charge"):
        mistake(noise, accountant)


def test_nothing_is_drawn_that_does_not_fit() -> None:
    for mistake in (uncharged, quieter):
        noise, accountant, fake = metered()
        with pytest.raises(AssertionError):
            mistake(noise, accountant)
        assert not fake.calls
