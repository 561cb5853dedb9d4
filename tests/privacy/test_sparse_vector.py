"""Sparse vector tests: their loss by enumeration, what they are charged, and what ends them."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fakes import FakeNoise

from factored_mwem.accounting.accountant import (
    Accountant,
    Budget,
    Charge,
    Mechanism,
    guarantee,
    price,
    scale_for,
)
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.errors import BudgetExceeded
from factored_mwem.ledger.journal import Journaled, Record
from factored_mwem.ledger.journal_folder import JournalFile
from factored_mwem.privacy.metered import Metered
from factored_mwem.privacy.noise import NoisyThreshold, OpenDPNoise
from factored_mwem.privacy.rows import SCORE_GRID, Sealed, SealedQuery
from factored_mwem.privacy.session import Session, scale_on_score

REACH = 400
KEY = b"k" * 32


def laplace(scale: float) -> tuple[np.ndarray, np.ndarray]:
    z = np.arange(-REACH, REACH + 1)
    weights = np.exp(-np.abs(z) / scale)
    return z, weights / weights.sum()


def worst_loss(scale: float, ratio: float, looks: int) -> float:
    """The largest log ratio, over pairs of neighbours that move the first scores up by one and the last down,
    of "no" to all but the last: by summing over the threshold's noise.
    """
    z, threshold = laplace(scale)
    below = np.concatenate([[0.0], np.cumsum(laplace(ratio * scale)[1])])

    def chance(first: int, last: int) -> float:
        under = [below[np.clip(z - s + REACH, 0, len(below) - 1)] for s in (first, last)]
        return float((threshold * under[0] ** looks * (1 - under[1])).sum())

    pairs = [(first, last) for first in range(-8, 9) for last in range(-8, 9)]
    return max(abs(math.log(chance(a, b) / chance(a + 1, b - 1))) for a, b in pairs)


@pytest.mark.parametrize("looks", [0, 1, 5, 1000])
def test_a_test_loses_what_it_is_priced_at_and_no_more(looks: int) -> None:
    scale = 2.6
    epsilon = float(price(Mechanism.SPARSE_VECTOR, scale=scale, sensitivity=1))
    assert epsilon == pytest.approx(1.0)
    assert worst_loss(scale, 1.25, looks) <= epsilon * (1 + 1e-6)
    if looks >= 5:  # tight, so with less noise on the scores it must fail
        assert worst_loss(scale, 1.25, looks) > 0.999 * epsilon
        assert worst_loss(scale, 1.0, looks) > 1.1 * epsilon


@pytest.mark.parametrize("composition", list(Composition))
def test_scale_and_price_are_inverse(composition: Composition) -> None:
    kind = {
        Composition.PURE: Mechanism.SPARSE_VECTOR,
        Composition.ZCDP: Mechanism.SPARSE_VECTOR_IN_RHO,
    }[composition]
    for cost in (Fraction(1, 7), Fraction(3, 10**6)):
        scale = scale_for(kind, cost, sensitivity=5)
        assert cost * (1 - Fraction(1, 10**9)) < price(kind, scale=scale, sensitivity=5) <= cost
    pure = price(Mechanism.SPARSE_VECTOR, scale=3.0, sensitivity=2)
    rho = price(Mechanism.SPARSE_VECTOR_IN_RHO, scale=3.0, sensitivity=2)
    assert float(rho) == pytest.approx(float(pure) ** 2 / 2)


class Contents:
    """True answers in records."""

    def __init__(self, answers: dict[str, int]) -> None:
        self.answers = answers

    def gap(self, what: str, grains: int) -> int:
        return abs(grains - self.answers[what] * SCORE_GRID)


class Answers(Sealed):
    def query(self, what: str, unit: Unit) -> SealedQuery:
        return SealedQuery.each((), (), unit.of_counting_query)


def begun(noise: Any = None, *, budget: Budget | None = None, contributions: int = 1) -> Session:
    budget = budget or Budget.of(1.0, 0.0)
    accountant = Accountant(budget)
    fake = noise or FakeNoise(budget.composition)
    return Session(accountant, Unit(contributions=contributions), Metered(fake, accountant))


ANSWERS = Answers(Contents({"a": 10, "b": 100}))


def test_a_test_is_charged_once_and_ends_with_yes() -> None:
    session = begun()
    test = session.begin(1, cost=Fraction(1, 4))
    for _ in range(3):
        assert session.exceeds(test, ANSWERS, "a", answer=12.0, threshold=5.0) is False
    assert session.exceeds(test, ANSWERS, "b", answer=12.0, threshold=5.0) is True
    assert [e.stage for e in session.accountant.entries] == ["test"]
    assert session.accountant.spent <= Fraction(1, 4)
    with pytest.raises(AssertionError, match="over"):
        session.exceeds(test, ANSWERS, "a", answer=12.0, threshold=5.0)
    assert [call.scale for call in session.noise._noise.calls][1:] == [scale_on_score(test.charge.scale)] * 4


def test_the_edge_of_the_threshold() -> None:
    """Without noise: a gap that reaches the threshold is found, one below it is not."""
    session = begun()
    assert (
        session.exceeds(session.begin(1, cost=Fraction(1, 9)), ANSWERS, "a", answer=15, threshold=5) is True
    )
    test = session.begin(1, cost=Fraction(1, 9))
    assert session.exceeds(test, ANSWERS, "a", answer=15, threshold=5.01) is False


def test_a_test_of_somebody_elses_or_of_too_much_is_refused() -> None:
    ours, theirs = begun(contributions=2), begun(contributions=2)
    test = theirs.begin(2, cost=Fraction(1, 9))
    with pytest.raises(AssertionError, match="never paid"):
        ours.exceeds(test, ANSWERS, "a", answer=0.0, threshold=1.0)
    little = ours.begin(1, cost=Fraction(1, 9))
    with pytest.raises(AssertionError, match="further"):
        ours.exceeds(little, ANSWERS, "a", answer=0.0, threshold=1.0)
    with pytest.raises(BudgetExceeded):
        ours.begin(2, cost=Fraction(2))


def test_a_meter_lets_no_test_go_on_without_its_charge() -> None:
    session = begun()
    test = session.begin(1, cost=Fraction(1, 9))
    meter, scale = session.noise, scale_on_score(test.charge.scale)
    with pytest.raises(AssertionError):
        meter.exceeds(0, test._begun, scale=scale / 2)
    with pytest.raises(AssertionError):
        meter.exceeds(0, NoisyThreshold(0), scale=scale)
    with pytest.raises(AssertionError):
        meter.begin(scale=test.charge.scale)  # a second threshold for the same charge


def test_the_threshold_shows_nothing() -> None:
    noise = OpenDPNoise(Composition.ZCDP).begin(scale=3.0)
    assert "NoisyThreshold" in repr(noise) and not any(c.isdigit() for c in repr(noise).replace("0x", ""))
    assert noise.gone is False and NoisyThreshold().gone is True


def test_real_noise_tells_far_from_near() -> None:
    session = begun(OpenDPNoise(Composition.ZCDP), budget=Budget.of(1000.0, 1e-9))
    test = session.begin(1, cost=session.left / 10)
    assert session.exceeds(test, ANSWERS, "a", answer=10.0, threshold=5.0) is False
    assert session.exceeds(test, ANSWERS, "b", answer=10.0, threshold=5.0) is True


def asked(session: Session, journaled: Journaled, questions: str) -> list[bool]:
    """What a session of questions hears; a test that is over, or whose noise is gone, is begun anew."""
    said, test = [], None
    for what in questions:
        journaled.note({"asked": what})
        answer = None
        while answer is None:
            if test is None or not test.open:
                test = session.begin(1, cost=Fraction(1, 10))
            answer = session.exceeds(test, ANSWERS, what, answer=12.0, threshold=5.0)
        said.append(answer)
    return said


@pytest.mark.parametrize("died", range(11))
def test_a_killed_session_repeats_what_it_said_and_pays_for_a_new_test(tmp_path: Path, died: int) -> None:
    """The journal holds only the first records of an attempt, then of the next: each attempt says the same as
    far as they go, and pays for a test of its own, for the threshold's noise went with the one before.
    """
    questions = "aabaab"
    kept: list[Record] = []
    for number, cut in enumerate((None, died, died + 3)):
        path = tmp_path / f"journal{number}"
        before = JournalFile(path, KEY)
        before.begin({"entry": "x"})
        for facts, numbers in kept[:cut]:
            before.append(facts, numbers)
        before.close()
        session, journaled, accountant = attempt(path)
        assert asked(session, journaled, questions) == [q == "b" for q in questions]
        journaled._journal.close()
        begins = [at for at, (facts, _) in enumerate(kept[:cut]) if facts.get("draw") == "begin"]
        left = [n[0] for f, n in kept[begins[-1] : cut] if f.get("draw") == "exceeds"] if begins else [1]
        more = len(begins) + (0 if any(left) else 1)
        assert len(accountant.entries) >= more, "an open test went on without its noise, and for nothing"
        journal = JournalFile(path, KEY)
        kept = list(journal._records)
        journal.close()
        assert sum(facts.get("draw") == "begin" for facts, _ in kept) == len(accountant.entries)


def attempt(path: Path) -> tuple[Session, Journaled, Accountant]:
    """A session that goes on from a journal."""
    accountant = Accountant(Budget.of(1.0, 0.0))
    journaled = Journaled(FakeNoise(Composition.PURE), JournalFile(path, KEY), accountant, complete=False)
    return Session(accountant, Unit(), Metered(journaled, accountant)), journaled, accountant


def test_a_question_that_was_refused_after_a_dead_test_is_no_answer_of_it(tmp_path: Path) -> None:
    """Note follows note where no test can be paid: going on must not take one for what a test said."""
    first = JournalFile(tmp_path / "journal", KEY)
    first.begin({"entry": "x"})
    first.close()
    session, journaled, _ = attempt(tmp_path / "journal")
    asked(session, journaled, "a")
    for what in "bb":
        journaled.note({"asked": what})
    journaled._journal.close()
    session, journaled, _ = attempt(tmp_path / "journal")
    journaled.note({"asked": "a"})
    test = session.begin(1, cost=Fraction(1, 10))
    assert session.exceeds(test, ANSWERS, "a", answer=12.0, threshold=5.0) is False
    journaled.note({"asked": "b"})
    assert session.exceeds(test, ANSWERS, "b", answer=12.0, threshold=5.0) is None
    journaled.note({"asked": "b"})
    journaled._journal.close()


def test_basic_budgets_add_epsilons_and_deltas() -> None:
    budget = Budget.basic(1.0, 1e-6)
    accountant = Accountant(budget)
    for _ in range(2):
        accountant.charge(Charge("measure", Mechanism.LAPLACE, (), 2.5, 1, Fraction(4, 10**7)))
    assert guarantee(accountant.entries, budget) == pytest.approx((0.8, 8e-7))
    with pytest.raises(BudgetExceeded, match="delta"):
        accountant.charge(Charge("measure", Mechanism.LAPLACE, (), 100.0, 1, Fraction(4, 10**7)))
