"""The estimator: it ends where a general solver ends, never above where it began, and below what replays of
the same measurements reach.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.optimize import minimize
from support.marks import others_slow
from support.models import check_agreement

from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels, View
from factored_mwem.kernels.tree import Pace, Targets, descend
from factored_mwem.model import estimation as module
from factored_mwem.model.clique_tree import CliqueTree, lay_out
from factored_mwem.model.dense import SWEEPS, Factor, ProductModel, update
from factored_mwem.model.estimation import Estimate, from_histogram
from factored_mwem.model.forest import Component
from factored_mwem.privacy.session import Measurement, NoiseScale

TOTAL = 1000.0
# name -> (levels, marginals measured after the single attributes, more than once where they come twice)
CASES: dict[str, tuple[Levels, list[View]]] = {
    "chain": (Levels.fine((2, 3, 2)), [(0, 1), (1, 2)]),
    "cycle": (Levels.fine((2, 2, 3)), [(0, 1), (1, 2), (0, 2)]),
    "nested": (Levels.fine((2, 2, 2)), [(0, 1), (0, 1, 2), (0, 1)]),
    "coarse": (Levels.of((4, 3), [[[0, 0, 1, 1]], []]), [(2, 1), (0, 1)]),
    "only coarse": (Levels.of((4, 2, 2), [[[0, 1, 0, 1]], [], []]), [(3, 1), (3, 2)]),
    "two levels": (Levels.of((4, 3), [[[0, 0, 1, 2], [0, 0, 1, 1]], [[0, 1, 1]]]), [(3, 1), (2, 4), (0, 4)]),
}
every_case = pytest.mark.parametrize("case", CASES)


def answered(view: View, answer: np.ndarray, stddev: float) -> Measurement:
    return Measurement(view, np.rint(answer).astype(np.int64), NoiseScale(stddev, Composition.ZCDP))


def noisy(
    levels: Levels,
    views: Sequence[View],
    rng: np.random.Generator,
    *,
    spread: tuple[float, float] = (2.0, 40.0),
) -> list[Measurement]:
    """Each view of one random table, with noise of its own size: they contradict each other."""
    table = rng.dirichlet(np.full(int(np.prod(levels.shape)), 0.5)) * TOTAL
    found = []
    for view in views:
        stddev = float(rng.uniform(*spread))
        true = matrix(levels, view) @ table
        found.append(answered(view, true + rng.normal(0, stddev, len(true)), stddev))
    return found


def matrix(levels: Levels, view: View) -> np.ndarray:
    """float64[cells of the view, cells of the domain]: which of these a cell of the view adds up."""
    digits = np.indices(levels.shape).reshape(len(levels.shape), -1)
    cell = np.zeros(digits.shape[1], dtype=np.int64)
    for v in view:
        cell = cell * int(levels.sizes[v]) + levels.groups[v][digits[levels.attribute[v]]]
    return (cell[None, :] == np.arange(levels.cells(view))[:, None]).astype(np.float64)


def loss_of(levels: Levels, measurements: Sequence[Measurement], shares: np.ndarray) -> float:
    """Half the sum of squared gaps in standard deviations: what the estimator is there to lower."""
    return sum(
        float(((matrix(levels, m.positions) @ shares * TOTAL - m.noisy) ** 2).sum()) / (2 * m.stddev**2)
        for m in measurements
    )


def optimum(levels: Levels, measurements: Sequence[Measurement]) -> tuple[float, np.ndarray]:
    """The least loss of any table of the given total, by a general-purpose solver from several starts."""
    stacked = np.concatenate([matrix(levels, m.positions) * (TOTAL / m.stddev) for m in measurements])
    target = np.concatenate([m.noisy / m.stddev for m in measurements])
    cells, best = stacked.shape[1], (np.inf, np.zeros(0))
    for start in (np.full(cells, 1 / cells), np.random.default_rng(0).dirichlet(np.ones(cells))):
        found = minimize(
            lambda p: (float(((stacked @ p - target) ** 2).sum()) / 2, stacked.T @ (stacked @ p - target)),
            start,
            jac=True,
            method="SLSQP",
            bounds=[(0, 1)] * cells,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
            options={"maxiter": 2000, "ftol": 1e-12},
        )
        shares = np.maximum(found.x, 0) / np.maximum(found.x, 0).sum()
        best = min(best, (loss_of(levels, measurements, shares), shares), key=lambda pair: pair[0])
    return best


def fitted(levels: Levels, measurements: Sequence[Measurement], *, finish: bool = True) -> Estimate:
    """As the engine does it: the single attributes, then one measurement after the other."""
    estimate = Estimate(levels, TOTAL)
    estimate.start(measurements[: len(levels.shape)])
    for m in measurements[len(levels.shape) :]:
        estimate.add(m)
    if finish:
        estimate.finish()
    return estimate


def whole(estimate: Estimate) -> np.ndarray:
    return estimate.forest.marginal(tuple(range(len(estimate.forest.levels.shape)))) / TOTAL


def measured(case: str, seed: int) -> tuple[Levels, list[Measurement]]:
    (levels, views), rng = CASES[case], np.random.default_rng([seed, list(CASES).index(case)])
    return levels, noisy(levels, [(a,) for a in range(len(levels.shape))] + views, rng)


# ---- the optimum


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_GAIN", 1e-9)
    monkeypatch.setattr(module, "MIN_FINAL_GAIN", 1e-9)
    monkeypatch.setattr(module, "MAX_FINAL_STEPS", 20_000)


@pytest.mark.usefixtures("patience")
@every_case
@pytest.mark.parametrize("seed", range(4))
def test_it_ends_at_the_optimum(case: str, seed: int) -> None:
    """With patience: the loss of the best table there is, though the tree never looks at a table."""
    levels, measurements = measured(case, seed)
    estimate = fitted(levels, measurements)
    least, shares = optimum(levels, measurements)
    found = loss_of(levels, measurements, whole(estimate))
    assert least - 1e-6 <= found <= least + 1e-3 * max(least, 1)
    for m in measurements:  # the optimum is not unique, what it answers to the measurements is
        np.testing.assert_allclose(
            estimate.forest.marginal(m.positions),
            matrix(levels, m.positions) @ shares * TOTAL,
            atol=0.1 * m.stddev,
        )


@every_case
@pytest.mark.parametrize("seed", range(4))
def test_the_patience_of_a_release_comes_close(case: str, seed: int) -> None:
    """As it is shipped: what is left is a small part of what the noise alone makes, half a unit a cell."""
    levels, measurements = measured(case, seed)
    found = loss_of(levels, measurements, whole(fitted(levels, measurements)))
    assert found <= optimum(levels, measurements)[0] + 0.05 * sum(len(m.noisy) for m in measurements)


def test_an_early_stop_leaves_more_than_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: one step at the end, and none after rounds, where releases are held to a part of the noise."""
    monkeypatch.setattr(module, "MAX_ROUND_STEPS", 0)
    monkeypatch.setattr(module, "MAX_FINAL_STEPS", 1)
    left = []
    for case in CASES:
        levels, measurements = measured(case, 0)
        found = loss_of(levels, measurements, whole(fitted(levels, measurements)))
        left.append((found - optimum(levels, measurements)[0]) / sum(len(m.noisy) for m in measurements))
    assert max(left) > 0.05


@every_case
def test_few_steps_come_close_to_the_optimum(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred steps from the single attributes, without a stop."""
    monkeypatch.setattr(module, "MIN_GAIN", -1.0)
    for seed in range(4):
        levels, measurements = measured(case, seed)
        _, after, *_ = descent(case, seed, "singles", 100)
        assert after <= optimum(levels, measurements)[0] + 0.01 * sum(len(m.noisy) for m in measurements)


@pytest.mark.slow
def test_the_loss_never_rises_with_more_steps() -> None:
    """Whatever step a descent ends after, it stands where the loss was least."""
    for case, seed in itertools.product(CASES, range(3)):
        losses = [descent(case, seed, "singles", steps)[1] for steps in range(1, 40)]
        assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(losses))


def descent(
    case: str, seed: int, start: str, iterations: int
) -> tuple[float, float, float, Component, Component]:
    """(loss before, after, and as told; the component, and the one that its parameters stand for) of a
    descent with the engine's own first step.
    """
    levels, measurements = measured(case, seed)
    views = [m.positions for m in measurements]
    every = tuple(range(len(levels.shape)))
    target = np.concatenate([m.noisy / TOTAL for m in measurements])
    weight = np.array([(TOTAL / m.stddev) ** 2 for m in measurements])
    theta = np.random.default_rng(seed).normal(size=len(target)) * (start == "random")
    if start == "singles":
        begun = Estimate(levels, TOTAL)
        begun.start(measurements[: len(levels.shape)])
        single = np.concatenate(begun.thetas)
        theta[: len(single)] = single
    part = Component.log_linear(CliqueTree.of(levels, views), views, theta)
    begin = Component.log_linear(part.tree, views, theta)  # a component that was read must stay as it is
    before = loss_of(levels, measurements, begin.marginals([every])[0])
    pace = Pace(8 / float(weight.max()), iterations, module.MIN_GAIN * len(target))
    _, _, told = descend(part.beliefs, part.layout, Targets(target, weight), theta, pace)
    return (
        before,
        loss_of(levels, measurements, part.marginals([every])[0]),
        told,
        part,
        Component.log_linear(part.tree, views, theta),
    )


STARTS = ["uniform", "random", "singles"]
"""Parameters of zero, any, and those of the single attributes, from which the engine begins."""


@every_case
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("iterations", [1, 2, 5, 40, 300])
def test_parameters_beliefs_and_loss_belong_together(case: str, start: str, iterations: int) -> None:
    """However few steps: beliefs are calibrated, are those of the parameters, and have the told loss."""
    for seed in range(3):
        _, after, told, part, again = descent(case, seed, start, iterations)
        assert told == pytest.approx(after, rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(again.beliefs.cliques, part.beliefs.cliques, atol=1e-8)
        check_agreement(part)


@pytest.mark.parametrize("steps", others_slow([1, 2, 3, 5, 11, 40, 300], lambda steps: steps >= 40))
def test_the_loss_never_ends_higher_than_it_began(steps: int) -> None:
    """As many steps as a round or the end of a release may take; nor do few."""
    for case, seed, start in itertools.product(CASES, range(10), STARTS):
        before, after, *_ = descent(case, seed, start, steps)
        assert after <= before * (1 + 1e-9), (case, seed, start)


@pytest.mark.parametrize("case", ["chain", "cycle", "nested"])
@pytest.mark.parametrize("seed", range(4))
def test_it_fits_better_than_a_replay(case: str, seed: int) -> None:
    """From the same measurements and start, the faithful engine's replay has more of the loss left."""
    levels, measurements = measured(case, seed)
    domain = Domain.from_dict({f"a{i}": size for i, size in enumerate(levels.shape)})
    starts = [
        from_histogram(Factor.uniform(m.positions, (len(m.noisy),)), m.noisy, m.stddev)
        for m in measurements[: len(levels.shape)]
    ]
    joined = ProductModel(domain, starts, TOTAL).merge(tuple(range(len(levels.shape))))
    replayed = update(joined, measurements, TOTAL, sweeps=SWEEPS).weights
    assert loss_of(levels, measurements, whole(fitted(levels, measurements))) <= loss_of(
        levels, measurements, replayed
    ) * (1 + 1e-6)


# ---- weights


def precise_and_rough(estimate: Estimate) -> float:
    """How far the answer is from the precise of two measurements, as a share of the way to the rough."""
    precise, rough = np.array([400, 100, 100, 400]), np.array([100, 400, 400, 100])
    halves = np.array([500, 500])
    estimate.start([answered((a,), halves, 2.0) for a in (0, 1)])
    for answer, stddev in ((rough, 90.0), (precise, 3.0), (rough, 90.0), (rough, 90.0)):
        estimate.add(answered((0, 1), answer, stddev))
    estimate.finish()
    return float(np.abs(estimate.forest.marginal((0, 1)) - precise).sum() / np.abs(rough - precise).sum())


def test_a_measurement_counts_by_its_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """One precise answer holds against three rough ones; with equal weights (planted) the rough ones win."""
    assert precise_and_rough(Estimate(Levels.fine((2, 2)), TOTAL)) < 0.02
    monkeypatch.setattr(Measurement, "stddev", property(lambda _: 10.0))
    assert precise_and_rough(Estimate(Levels.fine((2, 2)), TOTAL)) > 0.5


def test_repeated_measurements_are_averaged() -> None:
    """Of equal precision: the mean; of unequal precision: the inverse-variance mean."""
    for stddevs in ((5.0, 5.0), (5.0, 20.0), (2.0, 6.0)):
        first, second = np.array([300, 250, 250, 200]), np.array([340, 210, 210, 240])
        estimate = Estimate(Levels.fine((2, 2)), TOTAL)
        estimate.start([answered((a,), np.array([500, 500]), 1e4) for a in (0, 1)])
        for answer, stddev in zip((first, second), stddevs, strict=True):
            estimate.add(answered((0, 1), answer, stddev))
        estimate.finish()
        share = stddevs[0] ** -2 / (stddevs[0] ** -2 + stddevs[1] ** -2)
        np.testing.assert_allclose(
            estimate.forest.marginal((0, 1)), share * first + (1 - share) * second, atol=1.0
        )


# ---- rounds


@pytest.mark.usefixtures("patience")
@every_case
@pytest.mark.parametrize("seed", range(3))
def test_warm_and_cold_starts_end_alike(case: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fitted round by round, or all at once in the end, or in another order."""
    levels, measurements = measured(case, seed)
    single, others = measurements[: len(levels.shape)], measurements[len(levels.shape) :]
    warm, backwards = fitted(levels, measurements), fitted(levels, [*single, *others[::-1]])
    monkeypatch.setattr(module, "MAX_ROUND_STEPS", 0)
    cold = fitted(levels, measurements)
    for m in measurements:
        for other in (cold, backwards):
            np.testing.assert_allclose(
                other.forest.marginal(m.positions),
                warm.forest.marginal(m.positions),
                atol=0.05 * m.stddev + 0.05,
            )


def test_components_that_are_not_touched_stay_the_same_objects() -> None:
    rng = np.random.default_rng(0)
    levels = Levels.of((3, 2, 4, 2, 2, 3), [[], [], [[0, 0, 1, 1]], [], [], []])
    measurements = noisy(
        levels, [(a,) for a in range(6)] + [(0, 1), (6, 3), (2, 3), (0, 1), (4, 5), (1, 3)], rng
    )
    estimate = Estimate(levels, TOTAL)
    estimate.start(measurements[:6])
    for m in measurements[6:]:
        before = {part.attributes: part for part in estimate.forest.components}
        beliefs = {attributes: part.beliefs.cliques.copy() for attributes, part in before.items()}
        estimate.add(m)
        touched = {int(levels.attribute[v]) for v in m.positions}
        for part in estimate.forest.components:
            if not touched & set(part.attributes):
                assert part is before[part.attributes]
                assert np.array_equal(part.beliefs.cliques, beliefs[part.attributes])
        for attributes, old in before.items():
            assert np.array_equal(old.beliefs.cliques, beliefs[attributes]), (
                "a component is replaced, never changed: caches hold the old one"
            )
    assert sorted(part.attributes for part in estimate.forest.components) == [(0, 1, 2, 3), (4, 5)]


def test_the_start_is_the_nearest_table_to_each_single_measurement() -> None:
    levels, measurements = measured("chain", 0)
    estimate = Estimate(levels, TOTAL)
    estimate.start(measurements[:3])
    for m in measurements[:3]:
        start = from_histogram(Factor.uniform(m.positions, (len(m.noisy),)), m.noisy, m.stddev)
        np.testing.assert_allclose(estimate.forest.marginal(m.positions) / TOTAL, start.weights, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_wild_answers_end_in_a_distribution(scale: float) -> None:
    """Noise far below zero, far above the total, or all but none: cliques stay distributions, and agree."""
    rng = np.random.default_rng(7)
    levels, views = CASES["two levels"]
    estimate = Estimate(levels, TOTAL)
    answers = [answered(v, rng.normal(0, 1e5, levels.cells(v)), scale) for v in [(0,), (1,), *views]]
    estimate.start(answers[:2])
    for m in answers[2:]:
        estimate.add(m)
    estimate.finish()
    for part in estimate.forest.components:
        assert np.isfinite(part.beliefs.cliques).all() and (part.beliefs.cliques >= 0).all()
        check_agreement(part)


def test_a_measurement_inside_a_clique_keeps_the_tree() -> None:
    """Nothing is triangulated again where the view fits; the layout knows the new one all the same."""
    levels, measurements = measured("nested", 1)
    estimate = fitted(levels, measurements[:5], finish=False)
    (before,) = estimate.forest.components
    estimate.add(measurements[5])
    (after,) = estimate.forest.components
    assert after.tree is before.tree and after is not before
    assert (
        len(after.layout.tables)
        == len(before.layout.tables) + 1
        == len(lay_out(after.tree, [m.positions for m in measurements]).tables)
    )
    assert all(a >= 0 for a in itertools.chain.from_iterable(after.layout.tables.tolist()))
