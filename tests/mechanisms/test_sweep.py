"""The sweep: what it measures is decided by public facts, its price is kept for it, and it pays."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise

from factored_mwem.domain.levels import Levels
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Plan, Scope
from factored_mwem.mechanisms.sweep import ERROR, MIN_CELLS, SHARE, Sweep, choose_sweep
from factored_mwem.pipeline.release import make
from factored_mwem.privacy.session import marginal_noise
from factored_mwem.request.request import Request


def plan_of(shape: tuple[int, ...], order: int = 3, **choices: object) -> Plan:
    names = [f"a{i}" for i in range(len(shape))]
    table = pa.table({name: pa.array([], pa.int64()) for name in names})
    request = Request.of(table, order, domain=dict(zip(names, shape, strict=True)), **choices)
    machine = Machine(1e9, 1e-8 if "time_budget" in choices else 0.0)
    scope = Scope.of(request, machine)
    assert scope.domain is not None
    return Plan.of(scope, scope.domain)


def chosen(shape: tuple[int, ...], records: float, order: int = 3, **choices: object) -> tuple[Sweep, Plan]:
    plan = plan_of(shape, order, **choices)
    return choose_sweep(plan, Levels.fine(shape), records, plan.request.budget.amount), plan


BITS = (2,) * 22


@pytest.mark.slow
def test_all_small_marginals_are_swept_where_noise_is_small_and_none_where_it_is_not() -> None:
    loud, _ = chosen(BITS, 500.0, epsilon=0.1)
    quiet, plan = chosen(BITS, 200_000.0, epsilon=5.0)
    assert not loud and loud.cost == 0
    assert len(quiet.views) == 22 * 21 // 2 + 22 * 21 * 20 // 6
    assert sum(quiet.parts) == 1 and quiet.cost == plan.request.budget.amount * SHARE
    assert quiet.error <= ERROR


@pytest.mark.parametrize("delta", [1e-9, 0.0])
def test_the_predicted_error_is_that_of_a_pair_seen_by_all_that_hold_it(delta: float) -> None:
    """Beside a simulation: each view adds up to the pair, and they are averaged by their precision."""
    shape, records = (3, 2, 4, 2), 1e6
    sweep, plan = chosen(shape, records, epsilon=1.0, delta=delta)
    rng, errors = np.random.default_rng(0), []
    for pair in itertools.combinations(range(4), 2):
        cells = shape[pair[0]] * shape[pair[1]]
        total, precision = np.zeros((2000, cells)), 0.0
        for view, part in zip(sweep.views, sweep.parts, strict=True):
            if set(pair) <= set(view):
                inside = int(np.prod([shape[v] for v in view])) // cells
                scale = marginal_noise(sweep.cost * part, plan.policy.unit, plan.request.budget.composition)
                draw = rng.normal if delta else rng.laplace
                noise = draw(scale=scale.value, size=(2000, cells, inside)).sum(axis=2)
                weight = 1 / (inside * scale.mean_abs**2)
                total, precision = total + weight * noise, precision + weight
        errors.append(np.abs(total / precision).sum(axis=1).mean() / records)
    assert sweep.error == pytest.approx(float(np.mean(errors)), rel=0.05 if delta else 0.35)


def test_levels_get_coarser_until_the_noise_is_bearable() -> None:
    shape = (64, 64, 64)
    levels = Levels.of(shape, [[np.arange(64) // 4, np.arange(64) // 16]] * 3)
    plan = plan_of(shape, epsilon=10.0)
    amount = plan.request.budget.amount
    found = {records: choose_sweep(plan, levels, records, amount) for records in (1e4, 1e5, 1e9)}
    cells = {n: max((levels.cells(v) for v in sweep.views), default=0) for n, sweep in found.items()}
    assert 0 < cells[1e4] < cells[1e5] < cells[1e9]
    assert all(sweep.error <= ERROR for sweep in found.values()) and cells[1e4] <= 2 * MIN_CELLS


def test_a_sweep_that_leaves_most_pairs_out_is_none() -> None:
    """Half of the budget for the few pairs that are small enough would be lost to all others."""
    mixed = (10,) * 12 + (2, 2)
    assert not chosen(mixed, 1e5, epsilon=1.0)[0]
    assert len(chosen(mixed, 1e7, epsilon=10.0)[0].views) > 12 * 11 // 2


def test_what_a_user_fixes_leaves_no_room_for_a_sweep() -> None:
    """A number of rounds, or a time that allows less than is wanted; a longer time changes nothing."""
    assert not chosen(BITS, 2e5, epsilon=5.0, rounds=10)[0]
    assert not chosen(BITS, 2e5, epsilon=5.0, time_budget=2.5)[0]
    assert chosen(BITS, 2e5, epsilon=5.0, time_budget=1e7)[0]
    assert not chosen(BITS, 2e5, order=1, epsilon=5.0)[0]


@pytest.mark.slow
def test_rounds_leave_the_sweep_its_price_and_the_budget_is_spent_once() -> None:
    """The charges in their order: singles, rounds, and then the sweep alone, for no less than was kept."""
    rng = np.random.default_rng(0)
    names = [f"a{i}" for i in range(20)]
    table = pa.table({name: rng.integers(0, 2, 5000) for name in names})
    request = Request.of(table, 3, domain=dict.fromkeys(names, 2), epsilon=20.0)
    made = make(request, noise=FakeNoise(request.budget.composition))
    stages = [entry.stage for entry in made.manifest.ledger]
    last = len(stages) - stages[::-1].index("select")
    swept = len(stages) - last - 1  # the last round measures too
    assert swept == 20 * 19 // 2 + 20 * 19 * 18 // 6
    spent = [Fraction(e.sensitivity) / Fraction(e.scale) ** 2 / 2 for e in made.manifest.ledger[-swept:]]
    first = [Fraction(e.sensitivity) / Fraction(e.scale) ** 2 / 2 for e in made.manifest.ledger[:21]]
    left = request.budget.amount - sum(first)
    assert float(sum(spent)) >= 0.999 * float(left * SHARE)
    assert made.manifest.recompute() == made.manifest.guarantee.spent_epsilon <= 20.0
