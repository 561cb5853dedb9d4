"""What a certificate reads: distances of private marginals to public tables, their sensitivity over all
neighbours of tiny tables, and what the ledger is told of it.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from support.fakes import FakeNoise
from support.releases import BUDGET, CANDIDATES, TINY, both
from support.tables import every_unit, neighbours

from factored_mwem.accounting.accountant import Accountant, price
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.privacy import distances
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.distances import (
    ColumnDistances,
    MeanDistance,
    OneDistance,
    PrivateErrors,
    Reference,
    mean,
    sensitivity_of,
)
from factored_mwem.privacy.rows import SCORE_GRID
from factored_mwem.privacy.session import Eligible, Session

PAIRS = CANDIDATES.keep(CANDIDATES.orders == 2)
ALL = [ColumnDistances(), MeanDistance(2), *map(OneDistance, range(3))]


@cache
def references() -> list[Reference]:
    """Public tables below, above and among the counts of tables of up to three rows."""
    rng = np.random.default_rng(7)
    found = []
    corner = np.eye(1, 6)[0]  # from which all rows of a person may move at once
    shares = [corner, corner, *rng.dirichlet(np.ones(6), 3)]
    for records, joint in zip((0.0, 2.0, 0.5, 1.7, 4.0), shares, strict=True):
        joint = (joint * records).reshape(2, 3)  # noqa: PLW2901
        parts = [joint.sum(axis=1), joint.sum(axis=0), joint.ravel()]
        *columns, tables = (np.rint(part * SCORE_GRID).astype(np.int64) for part in parts)
        found.append(Reference(PAIRS, tuple(columns), tables, (0, 1)))
    return found


def errors_of(rows: tuple[int, ...], reference: Reference) -> PrivateErrors:
    codes = np.unravel_index(np.array(rows, dtype=np.int64), TINY.shape)
    return PrivateErrors.of(PrivateRows.coded([c.astype(np.uint8) for c in codes], TINY), reference)


def by_hand(rows: tuple[int, ...], reference: Reference, axes: tuple[int, ...]) -> int:
    """The distance of one marginal, row by row."""
    public = reference.columns[axes[0]] if len(axes) == 1 else reference.tables
    left = dict(enumerate((-public).tolist()))
    for row in rows:
        place = divmod(row, 3)
        left[row if len(axes) == 2 else place[axes[0]]] += SCORE_GRID
    return sum(map(abs, left.values()))


@pytest.mark.parametrize("rows", [(), (0,), (1, 5), (2, 2, 4)])
def test_distances_are_what_they_are_by_hand(rows: tuple[int, ...]) -> None:
    for reference in references():
        found = errors_of(rows, reference).reveal()
        hands = [by_hand(rows, reference, axes) for axes in ((0,), (1,), (0, 1))]
        assert found.exact(ColumnDistances()).tolist() == hands[:2]
        assert found.exact(MeanDistance(2)).tolist() == hands[2:]
        assert found.scores(None).tolist() == [hands[2], *hands[:2]]
        assert [found.exact(OneDistance(i)).tolist() for i in range(3)] == [
            [hands[2]],
            [hands[0]],
            [hands[1]],
        ]


def check_sensitivity(unit: Unit, composition: Composition) -> None:
    """Over all neighbours: nothing moves by more than is charged for, and each by exactly that much once."""
    reached = dict.fromkeys(ALL, 0)
    for reference in references():
        pairs = neighbours(unit.neighbours, unit.contributions)
        seen = {rows: errors_of(rows, reference) for rows in {rows for pair in pairs for rows in pair}}
        open_ = {rows: errors.reveal() for rows, errors in seen.items()}
        stated = {what: next(iter(seen.values())).sensitivity(what, unit, composition) for what in ALL}
        for one, other in pairs:
            for what in ALL:
                gaps = np.abs(open_[one].exact(what) - open_[other].exact(what)).tolist()
                moved = sum(gap**2 if composition is Composition.ZCDP else gap for gap in gaps)
                assert moved <= stated[what], what
                reached[what] = max(reached[what], Fraction(moved, stated[what]))
            scores = np.abs(open_[one].scores(None) - open_[other].scores(None)).max()
            assert scores <= seen[one].score_sensitivity(unit) * SCORE_GRID
    assert min(reached.values()) == 1


@pytest.mark.slow
@every_unit
@both
def test_no_distance_moves_by_more_than_is_charged_for(unit: Unit, composition: Composition) -> None:
    check_sensitivity(unit, composition)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug",
    [
        lambda answers, unit, composition: sensitivity_of(1, unit, composition),  # not all columns
        lambda answers, unit, composition: sensitivity_of(answers, Unit(contributions=1), composition),
        lambda answers, unit, composition: 2 * sensitivity_of(answers, unit, composition),
    ],
    ids=["one column", "one row", "twice"],
)
def test_a_wrong_sensitivity_is_seen(bug: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "sensitivity_of", bug)
    with pytest.raises(AssertionError):
        check_sensitivity(Unit(Neighbours.REPLACE, 2), Composition.ZCDP)


def test_a_mean_of_many_moves_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is divided before noise: a sum, with the noise of a mean, would move many times as far."""
    base = np.arange(7, dtype=np.int64) * 3 + 5

    def check() -> None:
        for other in (base + SCORE_GRID, base - 5):  # all move together, for one row more
            assert abs(distances.mean(base) - distances.mean(other)) <= SCORE_GRID

    check()
    monkeypatch.setattr(distances, "mean", lambda found: int(found.sum()))
    with pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_mean_is_exact_however_large(size: int) -> None:
    rng = np.random.default_rng(size)
    found = rng.integers(0, 2**62, size)
    assert mean(found) == sum(found.tolist()) // size
    assert mean(np.full(size, 2**62 - 1)) == 2**62 - 1


@both
def test_a_charge_is_made_before_noise_and_fits_it(composition: Composition) -> None:
    """A charge, of stage "certify", pays for the noise drawn; too small a budget lets nothing out."""
    fake, unit = FakeNoise(composition), Unit(Neighbours.REPLACE, 3)
    ledger = Accountant(BUDGET[composition])
    session, errors = Session(ledger, unit, fake), errors_of((0, 4), references()[2])
    cost = ledger.budget.amount / 4
    for what in (ColumnDistances(), MeanDistance(2)):
        session.measure(errors, what, cost=cost, stage="certify")
    session.select(errors, None, Eligible(np.arange(3), np.zeros(3)), cost=cost, stage="certify")
    assert {entry.stage for entry in ledger.entries} == {"certify"}
    assert [entry.scale for entry in ledger.entries] == [call.scale for call in fake.calls]
    assert [entry.sensitivity for entry in ledger.entries] == [
        sensitivity_of(2, unit, composition),
        sensitivity_of(1, unit, composition),
        6 * SCORE_GRID,
    ]
    for entry in ledger.entries:
        assert price(entry.mechanism, scale=entry.scale, sensitivity=entry.sensitivity) <= cost
    drawn = len(fake.calls)
    with pytest.raises(Exception, match="of the budget is left"):
        session.measure(errors, MeanDistance(2), cost=cost * 2, stage="certify")
    assert len(fake.calls) == drawn


def test_parts_of_a_budget_cannot_be_spent_by_others() -> None:
    ledger = Accountant(BUDGET[Composition.ZCDP])
    amount = ledger.budget.amount
    fit, kept = ledger.part(amount * Fraction(9, 10)), ledger.part(amount / 10)
    rows = PrivateRows.coded([np.zeros(3, np.uint8), np.ones(3, np.uint8)], TINY)
    session = Session(fit, Unit(), FakeNoise(), rows)
    with pytest.raises(Exception, match="of the budget is left"):
        session.measure(rows, (), cost=amount * Fraction(95, 100))
    session.measure(rows, (), cost=session.left)
    assert session.left < amount / 2**40 and kept.left == kept.budget.amount
    session.paid_by(kept).measure(rows, (), cost=kept.left, stage="certify")
    assert [e.stage for e in ledger.entries] == ["measure", "certify"]
    assert ledger.spent == fit.spent + kept.spent <= amount
    with pytest.raises(AssertionError, match="another release"):
        session.paid_by(Accountant(BUDGET[Composition.ZCDP]))


def test_a_part_that_its_whole_cannot_pay_is_refused() -> None:
    opened: list[int] = []
    ledger = Accountant(BUDGET[Composition.ZCDP], lambda: opened.append(1))
    rows = PrivateRows.coded([np.zeros(3, np.uint8), np.ones(3, np.uint8)], TINY)
    one, other = ledger.part(ledger.budget.amount), ledger.part(ledger.budget.amount)
    Session(one, Unit(), FakeNoise(), rows).measure(rows, (), cost=one.left)
    fake = FakeNoise()
    with pytest.raises(Exception, match="of the budget is left"):
        Session(other, Unit(), fake, rows).measure(rows, (), cost=other.left)
    assert opened == [1] and not fake.calls and not other.entries and other.spent == 0
