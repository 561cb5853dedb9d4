"""Privacy, checked exhaustively on tiny tables and end to end, and every check is seen to fail on the bug
that it is there for.

The noise adapter is a fake that records what it is given, so output distributions are computed exactly
instead of sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.fakes import Between, Call, FakeNoise
from support.goodness import gaussian, laplace, log_ratio, renyi
from support.releases import BUDGET, CANDIDATES, CHOICE_PMF, TINY, both, counts_of, models
from support.tables import every_unit, neighbours, one_row_units

from factored_mwem.accounting.accountant import Accountant, Charge, price
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.kernels.scoring import Answers, Counts
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import ProductModel
from factored_mwem.privacy import counts
from factored_mwem.privacy.counts import PrivateCounts
from factored_mwem.privacy.rows import SCORE_GRID
from factored_mwem.privacy.session import Eligible, Session

# (a) --- exhaustive: every output's probability under every pair of neighbours ---


Action = Callable[[PrivateCounts, Session, Fraction], object]


def observed(
    rows: tuple[int, ...], unit: Unit, composition: Composition, act: Action, *, factor: float = 1.0
) -> tuple[Call, Fraction]:
    """What reached the sampler, and what the ledger charged, when `act` reads the table of `rows`."""
    ledger = Accountant(BUDGET[composition])
    fake = FakeNoise(composition)
    act(counts_of(rows), Session(ledger, unit, Between(fake, factor)), ledger.budget.amount / 3)
    (call,) = fake.calls
    return call, ledger.spent


def selecting_from(model: ProductModel) -> Action:
    answers = ModelAnswers(CANDIDATES).answers(model, np.arange(len(CANDIDATES)))
    penalty = np.array([0.31, 1.7, 2.9])

    def act(counts: PrivateCounts, session: Session, cost: Fraction) -> object:
        return session.select(counts, answers, Eligible(np.arange(len(CANDIDATES)), penalty), cost=cost)

    return act


def check_selection(unit: Unit, composition: Composition, *, factor: float = 1.0) -> None:
    """Exact probabilities of every choice: log ratio within the mechanism's epsilon, Renyi divergence within
    alpha rho, scores within the stated sensitivity to the last unit; and the worst case comes near the bound,
    so that the check has something to say.
    """
    worst = 0.0
    for model in models():
        act = selecting_from(model)
        pairs = neighbours(unit.neighbours, unit.contributions)
        tables = sorted({rows for pair in pairs for rows in pair})
        place = {rows: i for i, rows in enumerate(tables)}
        calls = [observed(rows, unit, composition, act, factor=factor) for rows in tables]
        scores = np.array([call.values for call, _ in calls])
        chance = np.array([CHOICE_PMF[composition](call.scale, call.values) for call, _ in calls])
        (charged,) = {cost for _, cost in calls}
        assert charged > 0
        epsilon = math.sqrt(8 * charged) if composition is Composition.ZCDP else float(charged)
        one, other = (np.array([place[pair[side]] for pair in pairs]) for side in (0, 1))
        assert np.abs(scores[one] - scores[other]).max() <= unit.l1_of_score * SCORE_GRID
        p, q = chance[one], chance[other]
        ratio = float(np.abs(np.log(p / q)).max())
        assert ratio <= epsilon * (1 + 1e-9)
        for alpha in (1.5, 2, 4, 16) if composition is Composition.ZCDP else ():
            divergence = np.log((p**alpha * q ** (1 - alpha)).sum(axis=1)) / (alpha - 1)
            assert divergence.max() <= alpha * float(charged) * (1 + 1e-9)
        worst = max(worst, ratio / epsilon)
    assert worst > 0.3


def check_measurement(unit: Unit, composition: Composition, *, factor: float = 1.0) -> None:
    """Exact noise of every cell: log ratio within epsilon, or Renyi divergence within alpha rho."""
    worst = 0.0
    for positions in ((), (0,), (1,), (0, 1)):

        def act(
            counts: PrivateCounts, session: Session, cost: Fraction, positions: tuple[int, ...] = positions
        ) -> object:
            return session.measure(counts, positions, cost=cost)

        pairs = neighbours(unit.neighbours, unit.contributions)
        seen = {
            rows: observed(rows, unit, composition, act, factor=factor)
            for rows in {rows for pair in pairs for rows in pair}
        }
        ((scale, charged),) = {(call.scale, cost) for call, cost in seen.values()}
        assert charged > 0
        for shift in {
            tuple(np.abs(seen[one][0].values - seen[other][0].values).tolist()) for one, other in pairs
        }:
            if composition is Composition.PURE:
                loss = sum(log_ratio(laplace, scale, d) for d in shift) / float(charged)
            else:
                loss = max(
                    sum(renyi(gaussian, scale, d, alpha) for d in shift) / (alpha * float(charged))
                    for alpha in (1.5, 2, 8)
                )
            assert loss <= 1 + 1e-6
            worst = max(worst, loss)
    assert worst > 0.999  # the bound is reached: nobody pays for noise that is not needed


@pytest.mark.slow
@both
@one_row_units
def test_selection_keeps_its_epsilon_on_all_neighbours(unit: Unit, composition: Composition) -> None:
    check_selection(unit, composition)


@both
@every_unit
def test_measurement_keeps_its_price_on_all_neighbours(unit: Unit, composition: Composition) -> None:
    check_measurement(unit, composition)


# (b) --- planted bugs: the very same checks fail ---

REPLACE = Unit(Neighbours.REPLACE)


@both
def test_half_the_noise_fails_both_checks(composition: Composition) -> None:
    with pytest.raises(AssertionError):
        check_measurement(REPLACE, composition, factor=0.5)
    with pytest.raises(AssertionError):
        check_selection(Unit(Neighbours.REPLACE, 2), composition, factor=0.3)
    with pytest.raises(AssertionError):
        check_measurement(REPLACE, composition, factor=1.1)  # and too much noise is noticed, too


@pytest.mark.slow
@both
@pytest.mark.parametrize("bug", ["sensitivity", "uncharged", "discount"])
def test_a_bug_fails_both_checks(bug: str, composition: Composition, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensitivity 1 under replace, or for two contributions; a reading that is not charged; permute-and-flip
    charged like the exponential mechanism, or the factor 2 of a score that moves both ways forgotten.
    """
    quarter = property(lambda e: price(e.mechanism, scale=e.scale, sensitivity=e.sensitivity) / 4)
    planted: dict[str, list[tuple[Any, str, Any]]] = {
        "sensitivity": [
            (Unit, name, property(lambda _: 1))
            for name in ("l1_of_marginal", "l2_squared_of_marginal", "l1_of_score")
        ],
        "uncharged": [(Session, "_unseal", lambda self, sealed, entry: sealed.reveal())],
        "discount": [(Charge, "cost", quarter)],
    }
    for where, name, wrong in planted[bug]:
        monkeypatch.setattr(where, name, wrong)
    for unit in (REPLACE, Unit(contributions=2)):
        with pytest.raises(AssertionError):
            check_measurement(unit, composition)
    with pytest.raises(AssertionError):
        check_selection(Unit(Neighbours.REPLACE, 2) if bug == "discount" else REPLACE, composition)


@pytest.mark.slow
def test_float_scores_fail_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores summed as floats and rounded at the end move by a unit too much: the grid comes first."""

    def floating(answers: Answers, sizes: Any, exact: Counts, grid: float, _: Any, out: Any) -> None:
        counts, offsets = exact
        which, slots, strides, starts, parts = (
            getattr(answers, name) for name in ("which", "slots", "strides", "starts", "parts")
        )
        for c, candidate in enumerate(which):
            found, cells = np.float32(0), offsets[candidate + 1] - offsets[candidate]
            for cell in range(cells):
                digits = np.unravel_index(cell, sizes[candidate])
                place = dict.fromkeys(slots[c].tolist(), 0)
                for j, digit in enumerate(digits):
                    place[slots[c, j]] += digit * strides[c, j]
                answer = answers.total * math.prod(
                    parts[starts[c, s] + at] for s, at in place.items() if sizes[candidate, s] > 1
                )
                found += np.float32(abs(answer - counts[offsets[candidate] + cell]))
            out[c] = round(float(found) * grid)

    check_selection(Unit(contributions=2), Composition.ZCDP)
    monkeypatch.setattr(counts, "distances", floating)
    with pytest.raises(AssertionError):
        check_selection(Unit(contributions=2), Composition.ZCDP)


# --- extremes ---


@pytest.mark.parametrize("total", [2.0**43 + 0.5, 1e15])
def test_huge_totals_and_penalties_do_not_overflow_a_score(total: float) -> None:
    """At tiny epsilon the noisy total can be 2^43 rows: a distance then wraps round 64 bits, and one record
    moves it by 2^64 units, not 2^20.
    """
    model = ProductModel.uniform(TINY, total)
    answers = ModelAnswers(CANDIDATES).answers(model, np.arange(len(CANDIDATES)))
    for penalty in (np.zeros(3), np.full(3, 1e30)):
        found = []
        for rows in ((), (0,), (0, 3)):
            fake, ledger = FakeNoise(), Accountant(BUDGET[Composition.ZCDP])
            session = Session(ledger, Unit(), fake)
            session.select(counts_of(rows), answers, Eligible(np.arange(3), penalty), cost=ledger.left / 2)
            found.append(fake.calls[0].values)
        assert np.abs(np.diff(np.array(found, dtype=object), axis=0)).max() <= SCORE_GRID
