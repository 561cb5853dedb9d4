"""What a transcript of the mechanism loses on neighbouring tables, computed from the noise that it asks for,
against what it charges; and planted bugs, which must lose more than they charge, or be stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.metered import Metered
from factored_mwem.privacy.noise import NoisyThreshold
from factored_mwem.privacy.other.cuts import CutCells, CutGap, PrivateQuestions, TableCut
from factored_mwem.privacy.session import Session, grains_of
from factored_mwem.sessions.online.mechanism import Online, OnlineQuery, Rule
from factored_mwem.sessions.online.prices import Prices

ALPHA = 30.0
CUT = TableCut((0,), (np.array([0, 1]),))
TABLE, NEIGHBOUR = [0] * 50 + [1] * 40, [0] * 51 + [1] * 40


class Always(Rule):
    """A rule that tests whatever comes: what is decided by public facts must not matter."""

    def worth_a_test(self, kind: Any, measuring: float, testing: float) -> bool:
        return True


@dataclass
class Script:
    """Noise that says what it is told to, and keeps what it was asked."""

    said: list[bool]
    composition: Composition = Composition.PURE
    tests: list[tuple[float, list[tuple[int, float, bool]]]] = field(default_factory=list)
    adds: list[tuple[np.ndarray, float]] = field(default_factory=list)

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        raise AssertionError

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        self.adds.append((values.copy(), scale))
        return np.array([30, 60], dtype=np.int64)

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        raise AssertionError

    def begin(self, *, scale: float) -> NoisyThreshold:
        self.tests.append((scale, []))
        return NoisyThreshold(0)

    def exceeds(self, score: int, begun: NoisyThreshold, *, scale: float) -> bool | None:
        self.tests[-1][1].append((score, scale, self.said[0]))
        return self.said.pop(0)


def sealed(rows: list[int]) -> PrivateQuestions:
    coded = PrivateRows.coded([np.array(rows, dtype=np.uint8)], Domain.from_dict({"a": 2}))
    return PrivateQuestions.of(coded)


def subject(key: int, rows: PrivateQuestions, believed: float) -> OnlineQuery:
    """The count of code 0, asked as a query of its own each time."""
    compared = CutGap(CUT, (0,), (grains_of(believed),))
    told: Callable[[Any], Any] = lambda m: (m.noisy[[0]].astype(float), True)  # noqa: E731
    return OnlineQuery(key, None, np.array([believed]), rows, CutCells(CUT), compared, told)


def transcript(
    rows: list[int], asked: list[tuple[float, bool]], kind: type[Online] = Online, *, metered: bool = True
) -> tuple[Script, Accountant]:
    """The mechanism on a table, where each query is believed to be so many records; what tests say."""
    script, accountant = Script([yes for _, yes in asked]), Accountant(Budget.of(50.0, 0.0))
    noise: Any = Metered(script, accountant) if metered else script
    online = kind(Session(accountant, Unit(), noise), Prices(ALPHA, 0.001, Composition.PURE), Always())
    private = sealed(rows)
    for key, (believed, _) in enumerate(asked):
        online.answer(subject(key, private, believed))
    return script, accountant


def cdf(x: np.ndarray, scale: float) -> np.ndarray:
    return np.where(x < 0, np.exp(-np.abs(x) / scale) / 2, 1 - np.exp(-np.abs(x) / scale) / 2)


def log_likelihood(script: Script, factor: float = 1.0) -> float:
    """Of all that was said, under `factor` of the noise asked for: tests by summing over the threshold's."""
    total = 0.0
    for scale, looks in script.tests:
        z = np.linspace(-60, 60, 12_001) * scale * factor
        logs = -np.abs(z) / (scale * factor)
        for score, own, yes in looks:
            below = cdf(z - score, own * factor)  # score + noise < threshold
            logs = logs + np.log(np.maximum(1 - below if yes else below, 1e-300))
        total += float(logs.max() + np.log(np.exp(logs - logs.max()).sum()))
    for values, scale in script.adds:
        total -= float(np.abs(np.array([30, 60]) - values).sum()) / (scale * factor)
    return total


def loss(asked: list[tuple[float, bool]], factor: float = 1.0, **more: Any) -> tuple[float, float]:
    """(what a transcript loses, what is charged for it)."""
    found = [transcript(rows, asked, **more) for rows in (TABLE, NEIGHBOUR)]
    assert found[0][1].entries == found[1][1].entries  # what is charged shows nothing
    logs = [log_likelihood(script, factor) for script, _ in found]
    return abs(logs[0] - logs[1]), float(found[0][1].spent)


HIGH, LOW = 50 + 0.1 * ALPHA, 50 - 0.6 * ALPHA
"""Believed a little too high: one row more and the gap is less, and a yes rarer. Much too low: one row more
and the gap is more, and a no rarer.
"""
CASES = {
    "one yes": [(HIGH, True)],
    "many noes, then yes": [*[(LOW, False)] * 60, (HIGH, True)],
    "two tests": [*[(LOW, False)] * 60, (HIGH, True), *[(LOW, False)] * 60, (HIGH, True)],
    "noes alone": [(LOW, False)] * 80,
    "yes at once, again and again": [(HIGH, True)] * 6,
}


@pytest.mark.parametrize("case", list(CASES))
def test_no_transcript_loses_more_than_it_is_charged(case: str) -> None:
    lost, charged = loss(CASES[case])
    assert 0 < lost <= charged * (1 + 1e-4)


def test_half_the_noise_is_caught() -> None:
    lost, charged = loss(CASES["two tests"])
    assert lost > 0.75 * charged  # tight enough to see it
    assert loss(CASES["two tests"], factor=0.5)[0] > 1.5 * charged


class Reusing(Online):
    """The planted bug: a test that said yes goes on without another charge."""

    def _passes(self, subject: OnlineQuery) -> bool:
        if self._test is None and self._first is None:
            self._test = self._first = self.session.begin(1, cost=self._testing(subject))
        self._test = self._first
        said = self.session.exceeds(
            self._first, subject.sealed, subject.tests, answer=0.0, threshold=self.prices.level
        )
        self._first.open = True
        return not said

    _first: Any = None


MIXED = [*[(LOW, False)] * 60, *[(HIGH, True)] * 8]


def test_a_threshold_used_again_without_a_charge_is_caught() -> None:
    """By the loss: it charges for one test, and loses several. The noise's meter stops it before that."""
    lost, charged = loss(MIXED, kind=Reusing, metered=False)
    assert lost > 1.2 * charged
    honest, paid = loss(MIXED)
    assert honest <= paid * (1 + 1e-4)
    with pytest.raises(AssertionError, match="over"):
        transcript(TABLE, MIXED, Reusing)


class Peeking(Online):
    """The planted bug: it is measured at once where the *true* gap is large."""

    def _worth_a_test(self, subject: OnlineQuery) -> bool:
        return bool(subject.sealed.reveal().gap(subject.tests, 0) < grains_of(12.6))


def test_a_rule_that_looks_at_the_rows_is_caught() -> None:
    """Neighbours are charged for other things: the sequence of charges itself tells them apart."""
    believed = 50 - 12.5
    found = [transcript(rows, [(believed, False)], Peeking)[1].entries for rows in (TABLE, NEIGHBOUR)]
    assert found[0] != found[1]
    found = [transcript(rows, [(believed, False)])[1].entries for rows in (TABLE, NEIGHBOUR)]
    assert found[0] == found[1]
