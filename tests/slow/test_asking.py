"""Do answers keep their bound? With the real noise, over many sessions; and too much of it shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.interactive.asking import asking
from factored_mwem.interactive.prices import Prices
from factored_mwem.ledger.run import Booking
from factored_mwem.privacy.counts import Sealed
from factored_mwem.privacy.distances import SCORE_GRID
from factored_mwem.privacy.metered import Metered
from factored_mwem.privacy.noise import Begun, OpenDPNoise
from factored_mwem.privacy.session import Session

BETA, SESSIONS, N = 0.001, 150, 2000
MOST = 26
"""Of 3,000 answers or fewer, off with probability .001 each: more than this happen with less than 1e-12
(Chernoff: mean 3)."""
AGES, TOWNS = 12, 4
DOMAIN = {"age": AGES, "town": TOWNS}


class Louder:
    """The planted bug: three times the noise that was paid for."""

    def __init__(self, factor: float) -> None:
        self.composition, self._noise, self._factor = Composition.PURE, OpenDPNoise(Composition.PURE), factor

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return self._noise.select(scores, scale=scale * self._factor)

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        return self._noise.add(values, scale=scale * self._factor)

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        return self._noise.threshold(counts, scale=scale * self._factor, threshold=threshold)

    def begin(self, *, scale: float) -> Begun:
        return self._noise.begin(scale=scale * self._factor)

    def exceeds(self, score: int, begun: Begun, *, scale: float) -> bool | None:
        return self._noise.exceeds(score, begun, scale=scale * self._factor)


def _off(noise: Any, delta: float = 0.0) -> tuple[int, dict[str, int]]:
    """(answers beyond their bound, answers by source) of many sessions that begin with nothing."""
    rng = np.random.default_rng(0)
    age = rng.integers(0, AGES, N)
    town = (age * TOWNS // AGES + (rng.random(N) < 0.3)) % TOWNS
    table, off, sources = pa.table({"age": age, "town": town}), 0, dict[str, int]()
    for _ in range(SESSIONS):
        with asking(
            table, None, None, domain=DOMAIN, alpha=0.05, beta=BETA, booking=Booking(), noise=noise,
            epsilon=30.0, delta=delta,
        ) as session:  # fmt: skip
            for _ in range(20):
                low, high = sorted(rng.integers(0, AGES, 2).tolist())
                t = int(rng.integers(0, TOWNS))
                told = session.answer(f"count where age between {low} and {high} and town = {t}")
                truth = int(((age >= low) & (age <= high) & (town == t)).sum())
                sources[told.source] = sources.get(told.source, 0) + 1
                off += told.source != "cached" and abs(told.value - truth) > told.bound
    return off, sources


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_answers_keep_their_bound(delta: float) -> None:
    off, sources = _off(None, delta)
    assert sum(sources.values()) == 20 * SESSIONS
    assert sources["measured"] > 500
    assert off <= MOST


def test_three_times_the_noise_is_seen() -> None:
    """Measured answers are then off one time in ten."""
    off, sources = _off(Louder(3.0))
    assert sources["measured"] > 500
    assert off > MOST


def _passed(noise: Any) -> int:
    """Of 3,000 tests of an answer that is off by just alpha, those that let it pass."""
    prices, passed = Prices(100.0, BETA, Composition.PURE), 0
    for _ in range(3000):
        accountant = Accountant(Budget.of(100.0, 0.0))
        session = Session(accountant, Unit(), Metered(noise, accountant))
        test = session.begin(1, cost=prices.testing(1))
        said = session.exceeds(test, FAR, "x", answer=150.0, threshold=prices.level)
        passed += said is False
    return passed


class Contents:
    def gap(self, what: str, grains: int) -> int:
        return abs(50 * SCORE_GRID - grains)


class Answers(Sealed):
    def sensitivity(self, what: str, unit: Unit, composition: Composition) -> int:
        return unit.of_counting_query


FAR = Answers(Contents())


def test_what_is_off_by_alpha_hardly_ever_passes_a_test() -> None:
    assert _passed(OpenDPNoise(Composition.PURE)) <= MOST
    assert _passed(Louder(2.0)) > MOST
