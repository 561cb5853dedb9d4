"""A certificate's arithmetic: tails of the noise, parts of the cost, what is counted, and bounds that hold
whatever noise within its tails does.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.fakes import FakeNoise
from support.releases import BUDGET, CHOICE_PMF, NOISE_PMF, both

from factored_mwem import Attribute, Domain, InputError, Workload
from factored_mwem.accounting.accountant import Accountant
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.mechanisms import certify as module
from factored_mwem.mechanisms.certify import (
    PartPrices,
    Released,
    certify,
    check_certificate,
    extent_of,
)
from factored_mwem.mechanisms.tails import both_within, noise_within, winner_within
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.rows import SCORE_GRID
from factored_mwem.privacy.session import Measurement, NoiseScale, Session
from factored_mwem.request.policy import Criterion
from factored_mwem.workload.candidates import Candidates


@both
@pytest.mark.parametrize("scale", [0.3, 2.0, 30.0])
@pytest.mark.parametrize("failure", [0.3, 0.01, 1e-6])
def test_a_draw_is_within_its_tail(composition: Composition, scale: float, failure: float) -> None:
    within = noise_within(NoiseScale(scale, composition), failure)
    x = np.arange(-2000, 2001)
    missed = NOISE_PMF[composition](scale, x)[np.abs(x) > within].sum()
    assert missed <= failure
    if scale >= 30:  # and not much wider than it must be
        closer = np.abs(x) > 0.9 * within - 2
        assert NOISE_PMF[composition](scale, x)[closer].sum() > failure


@both
@pytest.mark.parametrize("draws", [2, 5, 14])
def test_a_mean_of_draws_is_within_its_tail(composition: Composition, draws: int) -> None:
    """The exact distribution of the sum, by convolution."""
    scale, x = 25.0, np.arange(-600, 601)
    one = NOISE_PMF[composition](scale, x)
    total = one
    for _ in range(draws - 1):
        total = np.convolve(total, one)
    at = (np.arange(len(total)) - len(total) // 2) / draws
    for failure in (0.05, 1e-4):
        within = noise_within(NoiseScale(scale, composition), failure, draws)
        assert total[np.abs(at) > within].sum() <= failure
        assert total[np.abs(at) > 0.5 * within].sum() > failure


@pytest.mark.slow
@both
@pytest.mark.parametrize("scales", [(40.0, 0.5), (30.0, 6.0), (8.0, 25.0)])
def test_two_noises_are_within_their_tail(composition: Composition, scales: tuple[float, float]) -> None:
    """The exact distribution of |X| + |Y|, X in hundredths of a unit."""
    one, other = scales
    x, y = np.arange(-60_000, 60_001), np.arange(-500, 501)
    mass_x, mass_y = NOISE_PMF[composition](one * 100, x), NOISE_PMF[composition](other, y)
    for failure in (0.05, 1e-3):
        noises = NoiseScale(one, composition), 1, NoiseScale(other, composition)
        for share, holds in ((1.0, True), (0.6, False)):
            within = share * both_within(*noises, failure)
            outside = [mass_x[np.abs(x) / 100 + abs(v) > within].sum() for v in y.tolist()]
            assert (float(mass_y @ outside) <= failure) is holds


@both
def test_a_winner_is_within_its_tail(composition: Composition) -> None:
    rng = np.random.default_rng(3)
    for size in (1, 2, 6):
        scores, scale = rng.integers(0, 80, size), 7.0
        chance = CHOICE_PMF[composition](scale, scores)
        for failure in (0.5, 0.05, 1e-3):
            below = scores.max() - scores > winner_within(scale, failure, size)
            assert chance[below].sum() <= failure


def domain_of(*shape: int) -> Domain:
    return Domain(
        Attribute(name=name, categories=tuple(f"v{i}" for i in range(size)), constraints={"required": True})
        for name, size in zip("abcdefgh", shape, strict=False)
    )


DOMAIN = domain_of(2, 3, 4)
ASKED = Workload.marginals(3).candidates(DOMAIN)


@both
@pytest.mark.parametrize("unit", [Unit(), Unit(Neighbours.REPLACE)])
def test_prices_are_all_of_the_cost(unit: Unit, composition: Composition) -> None:
    cost = Fraction(1, 7)
    for workload in (1, 2, 3):
        extent = extent_of(Workload.marginals(workload).candidates(DOMAIN), 1e9)
        prices = PartPrices.of(cost, extent, unit, composition)
        assert sum(prices.parts) == cost
        assert (prices.total == 0) == unit.total_is_public
        assert [*prices.means] == list(range(2, workload + 1)) and bool(prices.worst) == (workload > 1)


def released(codes: list[np.ndarray], candidates: Candidates) -> Released:
    """Counts of rows, table after table."""
    shape = candidates.domain.shape
    tables = []
    for c in range(len(candidates)):
        axes = candidates.positions(c)
        cell = np.ravel_multi_index([codes[a] for a in axes], [shape[a] for a in axes])
        tables.append(np.bincount(cell, minlength=int(np.prod([shape[a] for a in axes]))))
    columns = tuple(np.bincount(codes[a], minlength=size) for a, size in enumerate(shape))
    return Released(len(codes[0]), columns, np.concatenate([np.zeros(0, np.int64), *tables]))


def true_error(axes: tuple[int, ...], ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """By definition: the sum of absolute differences of shares."""
    shape = DOMAIN.shape

    def shares(codes: list[np.ndarray]) -> np.ndarray:
        cell = np.ravel_multi_index([codes[a] for a in axes], [shape[a] for a in axes])
        return np.bincount(cell, minlength=int(np.prod([shape[a] for a in axes]))) / len(codes[0])

    return float(np.abs(shares(ours) - shares(theirs)).sum())


FAILURE = 0.05


class Corner(FakeNoise):
    """Noise that goes as far as its tails let it, up or down, and names the marginal that is the least bad
    within its tail.
    """

    def __init__(self, composition: Composition, rng: np.random.Generator, families: int) -> None:
        self.rng, self.fail = rng, FAILURE / families
        self.total: NoiseScale | None = None
        self.moved = 0
        super().__init__(composition, winner=self.least, offset=self.far)

    def far(self, values: np.ndarray, scale: float) -> np.ndarray:
        noise, signs = NoiseScale(scale, self.composition), self.rng.choice([-1, 1], len(values))
        if values[0] < SCORE_GRID and self.total is None and len(values) == 1:  # the number of rows
            self.total = noise
            self.moved = int(self.rng.random() * noise_within(noise, self.fail))
            return values + signs * self.moved
        within = self.room(noise, self.fail / (len(values) if len(values) > 1 else 1), 1)
        moved = signs * within
        if len(values) > 1:  # together they may not move their mean beyond its own tail
            moved = moved * min(1.0, self.room(noise, self.fail, len(values)) / max(abs(moved.mean()), 1))
        return values + np.floor(moved).astype(np.int64)

    def room(self, noise: NoiseScale, fail: float, draws: int) -> float:
        """Grains that are left for noise where the number of rows is off already."""
        if self.total is None:
            return noise_within(noise, fail, draws) - 1
        records = NoiseScale(noise.value / SCORE_GRID, noise.composition)
        return max(both_within(records, draws, self.total, fail) - self.moved, 0.0) * SCORE_GRID - 1

    def least(self, scores: np.ndarray, scale: float) -> int:
        near = scores >= scores.max() - winner_within(scale, self.fail, len(scores))
        return int(np.flatnonzero(near)[np.argmin(scores[near])])


def check_bounds(unit: Unit, composition: Composition, workload: int) -> None:
    """Bounds hold for noise at the ends of its tails, whatever the rows."""
    rng = np.random.default_rng(workload)
    candidates = Workload.marginals(workload).candidates(DOMAIN)
    extent = extent_of(candidates, 1e9)
    for trial in range(25):
        n, m = int(rng.integers(1, 4000)), int(rng.integers(1, 4000))
        ours = [rng.choice(s, n, p=rng.dirichlet(np.ones(s))).astype(np.uint8) for s in DOMAIN.shape]
        theirs = [rng.choice(s, m, p=rng.dirichlet(np.ones(s))).astype(np.uint8) for s in DOMAIN.shape]
        if trial % 3 == 0:
            theirs = [column[: max(n // 2, 1)] for column in ours]
        ledger = Accountant(BUDGET[composition].part(Fraction(int(rng.integers(1, 300)), 1000)))
        families = len(PartPrices.of(ledger.left, extent, unit, composition).parts) + 1
        session = Session(ledger, unit, Corner(composition, rng, families), PrivateRows.coded(ours, DOMAIN))
        found = certify(session, extent, released(theirs, extent.candidates), FAILURE)
        assert ledger.spent <= ledger.budget.amount
        errors = {candidates.positions(c): 0.0 for c in range(len(candidates))}
        errors = {axes: true_error(axes, ours, theirs) for axes in errors}
        for error in found:
            assert 0 <= error.low <= error.estimate <= error.high <= 2
            if error.what == "column":
                truth = [errors[error.attributes]]
            elif error.what == "worst":
                truth = [max(errors.values()), errors[error.attributes]]
            else:
                of = [e for axes, e in errors.items() if len(axes) == error.order]
                truth = [float(np.mean(of))]
                assert error.sets == len(of)
            for true in truth:
                assert error.low - 1e-9 <= true <= error.high + 1e-9, error


UNITS = [Unit(), Unit(contributions=3), Unit(Neighbours.REPLACE), Unit(Neighbours.REPLACE, by_id=True)]


@pytest.mark.slow
@both
@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("workload", [1, 3])
def test_bounds_hold_for_every_noise_within_its_tails(
    unit: Unit, composition: Composition, workload: int
) -> None:
    check_bounds(unit, composition, workload)


@pytest.mark.parametrize("wrong", ["half the tails", "winner", "total"])
def test_bounds_that_are_too_close_are_missed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: half of each tail; no distance of the winner to the best; the number of rows as known."""
    total: Callable[..., Any] = module._total
    name, planted = {
        "half the tails": ("both_within", lambda *given: both_within(*given) / 2),
        "winner": ("winner_within", lambda *_: 0.0),
        "total": ("_total", lambda *given: module._Total(total(*given).records)),
    }[wrong]
    monkeypatch.setattr(module, name, planted)
    with pytest.raises(AssertionError):
        check_bounds(Unit(), Composition.ZCDP, 3)


def test_all_that_is_asked_is_counted_where_it_fits() -> None:
    extent = extent_of(ASKED, 1e9)
    assert extent.complete and extent.wanted == {1: 3, 2: 3, 3: 1}
    assert extent.orders == [2, 3] and extent.asked == (0, 1, 2)


def test_where_it_does_not_fit_a_permutation_decides() -> None:
    candidates = Workload.marginals(3).candidates(domain_of(4, 4, 4, 4, 4, 4, 4, 4))
    one, other = (
        extent_of(candidates, 1000, np.random.default_rng(seed).permutation(len(candidates)).tolist())
        for seed in (1, 2)
    )
    for extent in (one, other):
        assert 0 < extent.candidates.cells.sum() <= 1000 and not extent.complete
        assert extent.wanted == {1: 8, 2: 28, 3: 56}
    assert one.candidates.members.tolist() != other.candidates.members.tolist()
    whole = extent_of(candidates, 1000)
    assert not len(whole.candidates) and not whole.complete


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mean4 <= .1", "no marginals of 4 columns are asked for"),
        ("column z <= .1", "the release models no such column"),
        ("mean3 <= .1", "those marginals are too large to be counted"),
    ],
)
def test_criteria_about_nothing_are_refused(text: str, why: str) -> None:
    most = 100.0 if "too large" in why else 1e9
    extent = extent_of(ASKED, most, range(len(ASKED)))
    with pytest.raises(InputError, match=why):
        check_certificate(extent, [Criterion.parse(text)], Fraction(1, 10), Unit(), Composition.ZCDP)


def test_noise_beyond_its_tail_does_not_say_that_there_is_no_error() -> None:
    """A distance far below 0 is known to be wrong: its upper bound was 0, which met whatever was asked."""
    extent = extent_of(Workload.marginals(2).candidates(DOMAIN), 1e9)
    bounds, scale = module._Bounds(extent, module._Total(1000.0), 0.01), NoiseScale(2.0**20, Composition.ZCDP)
    found = [bounds.mean(2, Measurement((), np.array([noisy]), scale)) for noisy in (0, -(10**9))]
    assert found[0].high == found[1].high > 0.002 and found[1].low == found[1].estimate == 0
