"""The loop and the update: factored MWEM is MWEM, in every variant, and no variant spends or grows beyond its
limits.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from common.tables import BUNDLED
from replay.data import expand_counts
from support.asked import request_of
from support.fakes import FakeNoise
from support.marks import others_slow
from support.naive import (
    Blocks,
    Dense,
    average,
    cells_of,
    closure,
    count,
    history,
    l1,
    project,
    relative_entropy,
)
from support.rows import private_counts

from factored_mwem import release
from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.mechanisms import mwem
from factored_mwem.mechanisms.eligible import UnmeasuredMarginals
from factored_mwem.mechanisms.mwem import DenseFit
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.result import Total
from factored_mwem.mechanisms.rounds import Progress, Schedule
from factored_mwem.model.dense import Factor, ProductModel, update
from factored_mwem.model.estimation import estimate_total, from_histogram, nearest_counts
from factored_mwem.privacy.counts import PrivateCounts
from factored_mwem.privacy.session import Measurement, NoiseScale, Session
from factored_mwem.request.policy import Policy
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload

SHIPPED = Path(__file__).parents[2] / "datasets"
SMALL = [(2, 2, 2), (2, 3, 2), (3, 1, 4), (2, 2, 2, 2), (1, 2, 3, 2), (2, 3, 2, 2, 2), (6,), (1,), (3, 3)]


class Fake(FakeNoise):
    """Measurement i gets the i-th draw of a seeded generator, or `adds` on every cell; see `drawn`."""

    def __init__(
        self,
        composition: Composition = Composition.ZCDP,
        *,
        seed: int = 0,
        width: int = 3,
        adds: int | None = None,
    ) -> None:
        super().__init__(composition, offset=self.noisy)
        self.rng, self.width, self.adds = np.random.default_rng(seed), width, adds
        self.drawn: list[list[int]] = []

    def noisy(self, values: np.ndarray, scale: float) -> np.ndarray:
        # at full length, so that draw i is the same whatever was measured before
        drawn = self.rng.integers(-self.width, self.width + 1, size=4096)[: len(values)]
        noise = drawn if self.adds is None else np.full(len(values), self.adds)
        self.drawn.append(noise.tolist())
        return values + noise


def domain_of(shape: tuple[int, ...]) -> Domain:
    return Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})


def draw_rows(shape: tuple[int, ...], n: int, seed: int) -> list[tuple[int, ...]]:
    """Rows of a lumpy distribution, so that the marginals differ from uniform and from each other."""
    rng = np.random.default_rng(seed)
    cells = cells_of(shape)
    return [cells[i] for i in rng.choice(len(cells), size=n, p=rng.dirichlet(np.full(len(cells), 0.3)))]


def sealed(rows: list[tuple[int, ...]], candidates: Candidates) -> PrivateCounts:
    columns = np.array(rows, dtype=np.uint8).reshape(len(rows), len(candidates.domain))
    return private_counts(list(columns.T.copy()), candidates)


@cache
def budget_of(epsilon: float, delta: float) -> Budget:
    """Finding rho takes a tenth of a second: once for each promise is enough."""
    return Budget.of(epsilon, delta)


def access_of(
    epsilon: float = 1.0, delta: float = 1e-9, *, unit: Unit | None = None, noise: Fake | None = None
) -> Session:
    budget = budget_of(epsilon, delta)
    return Session(Accountant(budget), unit or Unit(Neighbours.REPLACE), noise or Fake(budget.composition))


def run(
    rows: list[tuple[int, ...]], shape: tuple[int, ...], order: int, *,
    fake: Fake | None = None, known: bool = True,
    epsilon: float = 1.0, delta: float = 1e-9, **choices: object,
) -> tuple[DenseFit, Session, list[Progress]]:  # fmt: skip
    """One run of the loop, with noise that a test knows; the number of rows is public if `known`."""
    policy = Policy.of(epsilon=epsilon, delta=delta, engine="mwem", **choices)
    candidates = Workload.marginals(order).candidates(domain_of(shape))
    candidates = candidates.keep(candidates.cells <= policy.cells)
    session, reports = access_of(epsilon, delta, noise=fake, unit=None if known else Unit()), []
    session = replace(session, _rows=sealed(rows, candidates))
    request = request_of(None, Workload.marginals(order), policy, candidates.domain)  # type: ignore[arg-type]
    plan = Plan(request, candidates.domain, None, candidates)  # type: ignore[arg-type]
    fits: list[DenseFit] = []
    with pytest.MonkeyPatch.context() as patch:
        made = DenseFit.__init__
        patch.setattr(DenseFit, "__init__", lambda self, *a, **k: (fits.append(self), made(self, *a, **k))[1])
        fitted = mwem.fit(session, plan, reports.append)
    (fit,) = fits
    assert fit.measurements is fitted.measurements
    return fit, session, reports


def whole(model: ProductModel) -> np.ndarray:
    return model.marginal(tuple(range(len(model.domain)))) / model.total


def measured(positions: tuple[int, ...], noisy: list[float], stddev: float = 1.0) -> Measurement:
    return Measurement(positions, np.array(noisy), NoiseScale(stddev, Composition.ZCDP))


def assert_same(model: ProductModel, oracle: Dense, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(whole(model), list(oracle.shares.values()), rtol=tolerance, atol=1e-15)


def some_positions(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(
        sorted(
            rng.choice(len(shape), size=int(rng.integers(1, min(3, len(shape)) + 1)), replace=False).tolist()
        )
    )


# ---- factored is dense


@pytest.mark.parametrize("shape", SMALL, ids=str)
@pytest.mark.parametrize("replay", [True, False], ids=["replay", "once"])
def test_factored_equals_dense_on_random_histories(shape: tuple[int, ...], replay: bool) -> None:
    """Random marginals, so merges in any order, with noise that exceeds what is feasible: clipping is part of
    the rule.

    A component replays its own measurements only; in the dense oracle those are the steps that touch its
    attributes.
    """
    rng = np.random.default_rng([*shape, replay])
    for _ in range(2):
        n = int(rng.integers(1, 200))
        rows = draw_rows(shape, n, int(rng.integers(2**32)))
        fit = DenseFit(
            ProductModel.uniform(domain_of(shape), n), Policy.of(engine="mwem", replay=replay), Total(n)
        )
        oracle, blocks, done = Dense(shape), Blocks(len(shape)), []
        for _ in range(4):
            positions = some_positions(shape, rng)
            noisy = (
                np.array(count(rows, shape, positions))
                + rng.integers(-n, n + 1, size=len(cells_of(shape, positions)))
            ).tolist()
            fit.add(measured(positions, noisy, stddev := float(rng.uniform(0.1, 5))))
            done.append((positions, noisy, stddev))
            inside = blocks.join(positions)
            used = [m for m in done if inside.issuperset(m[0])] if replay else done[-1:]
            oracle.replay(used, n, 100 if replay else 1)
            assert_same(fit.model, oracle)
        assert {f.positions for f in fit.model.components} == {tuple(sorted(s)) for s in blocks.sets}


@pytest.mark.parametrize("seed", range(4))
def test_steps_on_different_components_commute(seed: int) -> None:
    """The dense oracle replays everything, in another order: components do not see the difference."""
    rng = np.random.default_rng(seed)
    shape, n = (2, 3, 2, 2, 3), 100
    left = [
        ((0, 2), rng.integers(0, n, size=4).tolist(), 1.0),
        ((2,), rng.integers(0, n, size=2).tolist(), 1.0),
    ]
    right = [
        ((1, 3), rng.integers(0, n, size=6).tolist(), 1.0),
        ((1, 4), rng.integers(0, n, size=9).tolist(), 1.0),
    ]
    model = ProductModel.uniform(domain_of(shape), n)
    for part in (left, right):
        factor = model.merge(tuple(sorted({p for m in part for p in m[0]})))
        model.replace(update(factor, [measured(*m) for m in part], n, sweeps=7))
    oracle = Dense(shape)
    oracle.replay([right[0], left[0], right[1], left[1]], n, 7)
    assert_same(model, oracle)


@pytest.mark.parametrize(
    "shape",
    [(2, 3, 2), (2, 2, 2, 3), pytest.param((2, 2, 2, 2, 2), marks=pytest.mark.slow)],
    ids=str,
)  # an attribute of size one would make exact ties
@pytest.mark.parametrize("replay", [False, True], ids=["once", "replay"])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("components", ["grow", "one"])
def test_the_loop_is_figure_1(shape: tuple[int, ...], replay: bool, order: int, components: str) -> None:
    """The marginals chosen and every answer are those of the oracle's own loop."""
    rows, fake = draw_rows(shape, 997, len(shape) * 10 + order), Fake(seed=order)
    choices = {"rounds": 3, "initial": "none", "components": components, "replay": replay}
    fit, _, _ = run(rows, shape, order, fake=fake, epsilon=5.0, **choices)
    chosen, iterates = history(
        rows,
        shape,
        sorted(closure(itertools.combinations(range(len(shape)), order))),
        lambda i, _: fake.drawn[i],
        rounds=3,
        penalty=[m.scale.value * math.sqrt(2 / math.pi) for m in fit.measurements],
        sweeps=100 if replay else 1,
        forced=components == "one",
    )
    assert [m.positions for m in fit.measurements] == chosen
    assert_same(fit.model, iterates[-1], tolerance=1e-11)


STEPS = itertools.product([(2, 3, 2), (2, 2, 2, 3), (2, 2, 2, 2, 2), (4, 3, 3, 2)], [2, 3], [False], range(3))
REPLAYS = itertools.product([(3, 2, 4)], [2], [True], range(3))


@pytest.mark.parametrize(
    ("shape", "order", "replay", "seed"),
    others_slow([*STEPS, *REPLAYS], lambda case: case[2] or case[3] == 0),
    ids=str,
)
def test_hardts_property(shape: tuple[int, ...], order: int, replay: bool, seed: int) -> None:
    """Growing components and one component forced on everything live the same history: same choices, same
    answers to every marginal.

    Exact where a round is one step of the paper's update with n known and nothing measured before the first
    round: a step on a component of a product leaves the others alone. A replay steps on what it replays, and
    one component replays more; but of three attributes any two pairs share one, so that from the second round
    on both replay the same measurements.
    """
    rows, rounds = draw_rows(shape, 997, seed), 5 if replay else 6
    choices = {"rounds": rounds, "initial": "none", "replay": replay}
    grown, forced = (
        run(rows, shape, order, fake=Fake(seed=seed), components=components, **choices)[0]
        for components in ("grow", "one")
    )
    assert [m.positions for m in grown.measurements] == [m.positions for m in forced.measurements]
    assert len(grown.measurements) == rounds and len(grown.measurements[0].positions) > replay
    for size in range(1, len(shape) + 1):
        for positions in itertools.combinations(range(len(shape)), size):
            np.testing.assert_allclose(
                grown.model.marginal(positions), forced.model.marginal(positions), rtol=1e-9
            )


# ---- the paper's update, by hand and in the limit (THEORY A.6)


def test_the_hand_example() -> None:
    """B = (3, 1), A = (2, 2), the query (1, 0) answered 3: the step is the same up to a common factor."""
    factor = Factor.uniform((0,), (2,))
    query = Dense((2,))
    query.reweight((0,), [math.exp(0.125), 1.0])
    assert [4 * s for s in query.shares.values()] == pytest.approx([2.12483749, 1.87516251], abs=1e-8)
    truth = {(0,): 3, (1,): 1}
    start, after = relative_entropy(truth, Dense((2,))), relative_entropy(truth, query)
    assert (start, after, start - after) == pytest.approx((0.130812, 0.101514, 0.029298), abs=1e-6)
    assert start - after >= (1 / 8) ** 2
    # The complementary cell moves as well, so one step on the marginal (3, 1) is the query's step taken
    # twice.
    once = update(factor, [measured((0,), [3, 1])], 4, sweeps=1).weights
    assert once[0] / once[1] == pytest.approx(math.exp(0.25), rel=1e-12)


def test_the_hand_example_replayed_a_hundred_times() -> None:
    """100 replays of the single query, which a measurement of one cell stands for: (2.999966, 1.000034)."""
    oracle = Dense((2,))
    for _ in range(100):
        oracle.reweight((0,), [math.exp((3 - oracle.answer((0,), 4)[0]) / 8), 1.0])
    assert oracle.answer((0,), 4) == pytest.approx([2.999966, 1.000034], abs=1e-6)
    both = update(Factor.uniform((0,), (2,)), [measured((0,), [3, 1])], 4, sweeps=50)
    assert both.weights * 4 == pytest.approx([3, 1], abs=1e-4)


def test_lemma_a3_and_what_the_clip_is_for() -> None:
    """A step lowers the relative entropy by at least the sum over cells of ((A - B) / 2n)^2 - ((m - B) /
    2n)^2: Lemma A.3, cell by cell.

    With m clipped to [0, n] the last term is as small as can be. A step towards the raw m of heavy noise
    falls short of that guarantee.
    """
    rng, short = np.random.default_rng(3), 0
    for _ in range(300):
        shape = tuple(rng.integers(1, 4, size=3).tolist())
        cells, n = math.prod(shape), float(rng.integers(2, 50))
        truth, start = rng.dirichlet(np.ones(cells)), rng.dirichlet(np.ones(cells))
        positions = some_positions(shape, rng)
        size = math.prod(shape[p] for p in positions)
        noisy = (
            rng.uniform(-20 * n, 20 * n, size=size) if rng.random() < 0.5 else rng.uniform(0, n, size=size)
        )
        factor = Factor((0, 1, 2), shape, start)
        after = update(factor, [measured(positions, noisy.tolist())], n, sweeps=1).weights
        answers, real = (
            factor.shares(positions) * n,
            Factor((0, 1, 2), shape, truth).shares(positions) * n,
        )
        clipped = np.clip(noisy, 0, n)
        least = (((answers - real) / (2 * n)) ** 2 - ((clipped - real) / (2 * n)) ** 2).sum()
        assert float((truth * np.log(after / start)).sum()) >= least - 1e-12
        raw = Dense(shape, dict(zip(cells_of(shape), start.tolist(), strict=True)))
        raw.reweight(positions, np.exp((noisy - answers) / (2 * n)).tolist())
        short += float((truth * np.log(np.array(list(raw.shares.values())) / start)).sum()) < least - 1e-12
    assert short > 50


def test_every_iterate_is_a_distribution() -> None:
    """Sum 1 and no zero, whatever is measured: a zero could never come back."""
    rng = np.random.default_rng(8)
    factor = Factor.uniform((0, 1, 2), (2, 3, 2))
    for _ in range(50):
        wild = [
            measured((0, 1), rng.integers(-(10**6), 10**6, size=6).tolist(), 0.5),
            measured((2,), rng.integers(-9, 99, size=2).tolist(), 3.0),
        ]
        factor = update(factor, wild, 50.0, sweeps=5)
        assert factor.weights.sum() == pytest.approx(1, abs=1e-12)
        assert (factor.weights > 0).all()


def test_a_step_does_not_see_how_cells_are_named() -> None:
    """Mirror every attribute and the answer is mirrored: q and 1 - q tell the update the same."""
    rng = np.random.default_rng(9)
    weights, noisy = rng.dirichlet(np.ones(8)), rng.integers(0, 40, size=4).astype(float)
    plain, mirrored = (
        update(
            Factor((0, 1, 2), (2, 2, 2), weights[::step].copy()),
            [measured((0, 2), noisy[::step].tolist())],
            40.0,
            sweeps=9,
        )
        for step in (1, -1)
    )
    np.testing.assert_allclose(plain.weights, mirrored.weights[::-1], rtol=1e-12)


ANCHORS = [
    ("mildew", 1, 1.49800),
    ("mildew", 2, 0.10517),
    ("czech", 1, 0.22921),
    ("czech", 2, 0.01286),
    ("czech", 3, 0.00587),
    ("rochdale", 1, 0.64088),
]


@pytest.mark.parametrize(("name", "order", "anchor"), ANCHORS)
def test_without_noise_the_replay_ends_at_the_maximum_entropy_fit(
    name: str, order: int, anchor: float
) -> None:
    """Relative entropy to the fit of all marginals of an order, as iterative proportional fitting has it."""
    domain = Domain.load(SHIPPED / f"{name}.domain.json")
    table = expand_counts(SHIPPED / f"{name}.csv")
    columns = [[a.values.index(v) for v in table[a.name].to_pylist()] for a in domain]
    rows = list(zip(*columns, strict=True))
    measurements = [
        measured(p, count(rows, domain.shape, p)) for p in itertools.combinations(range(len(domain)), order)
    ]
    factor = update(Factor.uniform(range(len(domain)), domain.shape), measurements, len(rows), sweeps=3000)
    fit = Dense(domain.shape, dict(zip(cells_of(domain.shape), factor.weights.tolist(), strict=True)))
    truth = dict(
        zip(cells_of(domain.shape), count(rows, domain.shape, tuple(range(len(domain)))), strict=True)
    )
    assert relative_entropy(truth, fit) == pytest.approx(anchor, abs=1e-3)


# ---- the variants


@pytest.mark.parametrize("initial", ["none", "one-way", "histogram"])
@pytest.mark.parametrize("replay", [True, False], ids=["replay", "once"])
def test_the_average_is_over_the_iterates_before_each_round(initial: str, replay: bool) -> None:
    """A_0 .. A_{T-1}, without A_T (Figure 1): run 1, 2, 3 rounds for the last iterates, and average."""
    rows, shape, rounds = draw_rows((2, 3, 2), 500, 2), (2, 3, 2), 3

    def table(iterate: str, t: int) -> Dense:
        # Rounds share the budget, but the noise is drawn by the fake, so the first t rounds of any run agree.
        choices = {"initial": initial, "replay": replay, "components": "one", "initial_share": 0.2}
        choices |= {"rounds": t, "iterate": iterate, "epsilon": 200.0}
        fit, _, _ = run(rows, shape, 2, fake=Fake(seed=3), **choices)
        return Dense(shape, dict(zip(cells_of(shape), whole(fit.model).tolist(), strict=True)))

    lasts = [table("last", t) for t in range(1, rounds + 1)]
    averages = [table("average", t) for t in range(1, rounds + 1)]
    if initial == "none":
        choices = {"initial": "none", "components": "one", "iterate": "average"}
        assert_same(run(rows, shape, 2, rounds=1, **choices)[0].model, Dense(shape))
    expected = average([averages[0], *lasts[:-1]])  # the average of one round is A_0 itself
    np.testing.assert_allclose(list(averages[-1].shares.values()), list(expected.values()), rtol=1e-11)
    assert l1(list(averages[-1].shares.values()), list(lasts[-1].shares.values())) > 1e-3


def test_histogram_initialisation_is_a_noisy_count_of_every_cell() -> None:
    """The paper's start: projected to what is feasible, no cell ruled out; less is left for the rounds."""
    rows, shape = draw_rows((2, 3, 2), 200, 5), (2, 3, 2)
    choices = {"rounds": 1, "initial": "histogram", "components": "one", "initial_share": 0.25}
    fit, session, _ = run(rows, shape, 1, fake=Fake(seed=1, width=20), **choices)
    whole_domain, one = fit.measurements
    assert whole_domain.positions == (0, 1, 2) and len(one.positions) == 1
    start = from_histogram(Factor.uniform((0, 1, 2), shape), whole_domain.noisy, whole_domain.stddev)
    total = float(whole_domain.noisy.sum())
    expected = np.maximum(
        project(whole_domain.noisy.tolist(), total), min(whole_domain.stddev / 20, total / 120)
    )
    np.testing.assert_allclose(start.weights, expected / expected.sum(), rtol=1e-9)
    assert (start.weights > 0).all()
    costs = [float(e.cost / session.accountant.budget.amount) for e in session.accountant.entries]
    assert costs[0] == pytest.approx(0.25) and sum(costs[1:]) == pytest.approx(0.75)


@pytest.mark.parametrize("composition", ["pure", "zcdp"])
@pytest.mark.parametrize("rounds", [1, 3, "adaptive"])
@pytest.mark.parametrize("initial", ["none", "one-way", "histogram"])
@pytest.mark.parametrize("known", [True, False])
def test_a_run_spends_the_whole_budget_and_not_more(
    composition: str, rounds: object, initial: str, known: bool
) -> None:
    """Up to the rounding of scales, which is in favour of privacy; the ledger's sum is exact."""
    rows, shape = draw_rows((2, 3, 2, 2), 400, 6), (2, 3, 2, 2)
    choices = {"rounds": rounds, "initial": initial, "delta": 1e-9 if composition == "zcdp" else 0.0}
    _, session, _ = run(rows, shape, 2, fake=Fake(Composition(composition)), known=known, **choices)
    ledger = session.accountant
    assert ledger.spent == sum((e.cost for e in ledger.entries), Fraction(0)) <= ledger.budget.amount
    assert ledger.left < ledger.budget.amount / 10**9


@pytest.mark.parametrize("seed", range(6))
def test_an_adaptive_schedule_never_overspends_whatever_the_signals(seed: int) -> None:
    """Signals come from noisy data: always noise (which doubles), never, at random, nan, inf."""
    rng = np.random.default_rng(seed)
    signals = {0: lambda: 0.0, 1: lambda: math.inf, 2: lambda: math.nan}.get(
        seed, lambda: float(rng.choice([0.0, 1e9]))
    )
    session = access_of(float(rng.uniform(0.1, 10)))
    ledger, prices = session.accountant, []
    for step in (schedule := Schedule(ledger, int(rng.integers(1, 60)), Fraction(1, 10), adaptive=True)):
        prices.append(step.select + step.measure)
        assert step.select == prices[-1] / 10
        assert ledger.spent + prices[-1] <= ledger.budget.amount
        assert prices[-1] > Fraction(1, 2**60), "dust: no mechanism can be paid with that"
        ledger.spent += prices[-1] * (
            1 - Fraction(1, 2**40)
        )  # a charge is never above its price, and hardly below
        schedule.note(signals(), 1.0)
    assert ledger.left < ledger.budget.amount / 10**9
    if seed == 0:
        for before, after in itertools.pairwise(prices[:-1]):
            assert after == 2 * before
    if seed == 1:
        assert len(set(prices[:-1])) == 1


@pytest.mark.parametrize("adds", [0, 10**6, -(10**6)])
def test_an_adaptive_run_ends_well_on_adversarial_measurements(adds: int) -> None:
    """Pure noise and pure signal, through a ledger that refuses what it cannot pay: no run is refused."""
    rows, shape = draw_rows((2, 3, 2), 300, 7), (2, 3, 2)
    for known in (True, False):
        _, session, reports = run(
            rows, shape, 2, fake=Fake(adds=adds), rounds="adaptive", initial="one-way", known=known
        )
        assert len(reports) >= 1 and session.accountant.left >= 0


def test_an_adaptive_run_doubles_the_price_when_it_sees_only_noise() -> None:
    """Uniform rows, exact answers: after every measurement the next one is at twice the price."""
    shape = (2, 2, 2)
    rows = cells_of(shape) * 50
    _, session, reports = run(rows, shape, 2, fake=Fake(adds=0), rounds="adaptive", initial="none")
    costs = [float(e.cost) for e in session.accountant.entries if e.stage == "measure"]
    assert len(costs) == len(reports) > 2
    for before, after in itertools.pairwise(costs[:-1]):
        assert after == pytest.approx(2 * before, rel=1e-9)


# ---- what is offered


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("initial", ["none", "one-way"])
def test_a_measured_marginal_is_offered_again_only_after_all_others(seed: int, initial: str) -> None:
    shape = (2, 3, 2, 2)
    rows = draw_rows(shape, 5000, seed)
    fit, _, _ = run(rows, shape, 2, fake=Fake(seed=seed), rounds=10**6, initial=initial, epsilon=50.0)
    chosen = [m.positions for m in fit.measurements]
    assert (
        len(chosen) == len(set(chosen)) == 10
    )  # four attributes and six pairs, each once: rounds stop there
    adaptive, _, _ = run(
        rows, shape, 2, fake=Fake(adds=10**5), rounds="adaptive", initial=initial, epsilon=50.0
    )
    chosen = [m.positions for m in adaptive.measurements]
    assert (
        len(chosen) == 16 + 4 * (initial == "one-way") and len(set(chosen[:10])) == 10
    )  # after which all are offered again
    assert len(set(chosen[10:])) == len(chosen[10:])


def test_exclusion_is_decided_by_what_was_measured_alone() -> None:
    candidates = Workload.marginals(2).candidates(domain_of((2, 2, 2)))
    model = ProductModel.uniform(candidates.domain, 10.0)
    offer = UnmeasuredMarginals(candidates, 2**20, {(), (1,)})
    names = [candidates.positions(c) for c in range(len(candidates))]
    assert [names[c] for c in offer.which(model)] == [p for p in names if p != (1,)]
    for c in range(len(candidates)):
        offer.measured(c, model, everything=False)
    assert len(offer.which(model)) == len(candidates)


@pytest.mark.parametrize("seed", range(8))
def test_no_merge_exceeds_the_cap(seed: int) -> None:
    """Every component stays within max_cells at every report, and whatever fits is offered."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, size=6).tolist())
    cap = int(rng.integers(max(shape), 60))
    rows, fake = draw_rows(shape, 800, seed), Fake(seed=seed, width=40)
    fit, _, reports = run(rows, shape, 2, fake=fake, max_cells=cap, rounds=60, epsilon=20.0)
    assert reports and max(r.largest for r in reports) <= cap
    assert all(math.prod(f.shape) == len(f.weights) <= cap for f in fit.model.components)
    for left, right in itertools.combinations(fit.model.components, 2):
        pairs = [(p, q) for p in left.positions for q in right.positions]
        if len(left.weights) * len(right.weights) <= cap:
            assert all(tuple(sorted(pair)) in {m.positions for m in fit.measurements} for pair in pairs)


# ---- edges


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("components", ["grow", "one"])
def test_k_1_gives_the_whole_budget_to_the_one_way_marginals(known: bool, components: str) -> None:
    rows, shape = draw_rows((2, 3, 4), 200, 1), (2, 3, 4)
    fit, session, reports = run(rows, shape, 1, known=known, components=components)
    assert [m.positions for m in fit.measurements if m.positions] == [(0,), (1,), (2,)] and not reports
    assert session.accountant.left < session.accountant.budget.amount / 10**9


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 2), (3, 1, 2)], ids=str)
@pytest.mark.parametrize("n", others_slow([0, 1, 50], lambda n: n != 1))
@pytest.mark.parametrize(
    "choices",
    [{}, {"initial": "none"}, {"initial": "histogram"}, {"components": "one", "iterate": "average"}],
    ids=str,
)
@pytest.mark.parametrize("known", [True, False])
def test_small_tables_and_every_order(
    shape: tuple[int, ...], n: int, choices: dict[str, object], known: bool
) -> None:
    """One attribute, one value, one row or none (a refusal would tell), k equal to the number of attributes:
    a distribution comes out, with as many rows as are known.
    """
    rows = draw_rows(shape, n, n)
    for order in range(1, len(shape) + 1):
        fit, _, _ = run(rows, shape, order, known=known, **choices)
        assert whole(fit.model).sum() == pytest.approx(1, abs=1e-9) and (whole(fit.model) > 0).all()
        assert fit.model.total == max(n, 1) if known else fit.model.total >= 1


# ---- estimates


def test_the_total_is_the_inverse_variance_mean() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        parts = [
            (rng.integers(0, 99, size=int(rng.integers(1, 7))).tolist(), float(rng.uniform(0.5, 9)))
            for _ in range(4)
        ]
        variances = [len(noisy) * stddev**2 for noisy, stddev in parts]
        weight = math.fsum(1 / v for v in variances)
        expected = math.fsum(sum(noisy) / v for (noisy, _), v in zip(parts, variances, strict=True)) / weight
        total, error = estimate_total([measured((), noisy, stddev) for noisy, stddev in parts])
        assert total == pytest.approx(max(1, expected), rel=1e-12)
        assert error == pytest.approx(weight**-0.5, rel=1e-12)


def test_the_total_is_at_least_one_row() -> None:
    """Scores and steps divide by it, and noise may be negative."""
    assert estimate_total([measured((), [-500])])[0] == 1


def test_the_total_never_comes_from_the_rows() -> None:
    """Under add-remove it is private: with noise of +1,000,000 the model believes the noise."""
    fit, _, _ = run(draw_rows((2, 2), 50, 1), (2, 2), 1, fake=Fake(adds=10**6), known=False)
    assert fit.model.total > 900_000


@pytest.mark.parametrize("seed", range(20))
def test_nearest_counts_is_the_projection(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noisy = rng.integers(-50, 60, size=int(rng.integers(1, 30))).astype(float)
    total = float(rng.choice([1.0, max(noisy.sum(), 1.0), 1000.0]))
    found = nearest_counts(noisy, total)
    np.testing.assert_allclose(found, project(noisy.tolist(), total), atol=1e-8)
    assert found.sum() == pytest.approx(total) and (found >= 0).all()


@pytest.mark.parametrize(("name", "epsilon"), [("czech", 1.0), ("rochdale", 3.0), ("mildew", 10.0)])
def test_a_histogram_first_is_better_than_no_data(name: str, epsilon: float) -> None:
    """In relative entropy, by half and more; with the share of single attributes it was not."""
    counts = pd.read_csv(BUNDLED / f"{name}.csv")
    rows = counts.loc[counts.index.repeat(counts["count"])].drop(columns="count")
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": 0.0, "domain": BUNDLED / f"{name}.domain.json"}
    made = release(rows, 3, engine="mwem", initial="histogram", components="one", **terms)
    told = made.marginal(*rows.columns).to_pandas()
    truth = rows.value_counts().reindex(told.index).fillna(0).to_numpy() / len(rows)
    there = truth > 0
    modelled = told.to_numpy() / told.sum()
    off = (truth[there] * np.log(truth[there] / modelled[there])).sum()
    assert off < (truth[there] * np.log(truth[there] * len(told))).sum() / 2
