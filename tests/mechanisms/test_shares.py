"""Policy and plan: every choice is checked, and every number follows from public facts."""

from __future__ import annotations

import inspect
import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.mechanisms.course import MAX_ROUNDS, Course, choose_rounds
from factored_mwem.mechanisms.rounds import Schedule
from factored_mwem.mechanisms.shares import NUMBERS_TIMES, discovery_share, initial_shares, one_way_share
from factored_mwem.request.policy import Policy
from factored_mwem.request.promise import DISCOVERY_DELTA
from factored_mwem.workload.workload import Workload


@cache
def budget_of(epsilon: float, delta: float) -> Budget:
    return Budget.of(epsilon, delta)


def planned(
    shape: tuple[int, ...],
    order: int = 2,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-9,
    rows: float = 1e4,
    **choices: object,
) -> Course:
    domain = Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})
    policy = Policy.of(epsilon=epsilon, delta=delta, engine="mwem", **choices)
    return choose_rounds(
        Workload.marginals(order).candidates(domain), policy, budget_of(epsilon, delta), rows
    )


# ---- the plan


def test_rounds_follow_the_scale_of_the_problem() -> None:
    """Where 4 rounds at epsilon 1 left the paper's engine near independent columns, 8 come near the trees."""
    shape = (74, 16, 7, 5, 2, 99, 2)
    rounds = [planned(shape, 3, epsilon=epsilon, rows=9_000).rounds for epsilon in (0.1, 0.3, 1.0, 5.0)]
    assert rounds == [4, 6, 8, 13]


def test_the_plan_sees_no_table() -> None:
    """Candidates, policy, budget, and a public or noisy number of rows are all it is given."""
    taken = inspect.signature(choose_rounds).parameters
    assert list(taken) == ["candidates", "policy", "budget", "rows", "questions"]
    assert planned((3, 4, 2)) == planned((3, 4, 2))


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("shape", [(2, 2), (2,) * 14, (5, 20, 100, 3, 3), (1, 1, 1), (1000, 2)], ids=str)
def test_rounds_and_shares_lie_in_their_ranges(shape: tuple[int, ...], epsilon: float, delta: float) -> None:
    choices = len(shape) * (len(shape) - 1) // 2
    for rows in (-5.0, 0.0, 1.0, 1e3, 1e6, 1e12):
        found = planned(shape, epsilon=epsilon, delta=delta, rows=rows)
        assert 0 < found.rounds <= min(choices, MAX_ROUNDS)
        assert 0.03 <= float(found.first_share) <= 0.5


def test_more_signal_means_more_rounds_and_a_smaller_start() -> None:
    """Monotone in rows and in epsilon, down to the noise floor and up to the limits."""
    by_rows = [planned((4,) * 14, rows=rows) for rows in np.geomspace(10, 1e9, 40)]
    by_epsilon = [planned((4,) * 14, epsilon=epsilon) for epsilon in (0.01, 0.1, 1.0, 10.0)]
    for plans in (by_rows, by_epsilon):
        for less, more in itertools.pairwise(plans):
            assert less.rounds <= more.rounds and less.first_share >= more.first_share
        assert plans[0].rounds < plans[-1].rounds and plans[0].first_share > plans[-1].first_share


def test_what_discovery_has_counted_takes_no_more_than_groups_would() -> None:
    """Seen to fail: first marginals of 136 codes a column took half of what was left, and rounds got a third
    of the budget. Where columns are small, or there are few rows, it changes nothing.
    """
    policy, budget = Policy.of(epsilon=1.0, delta=1e-9), budget_of(1.0, 1e-9)

    def share(size: int, rows: float) -> tuple[float, float]:
        domain = Domain.from_dict({f"a{i}": size for i in range(9)})
        plain, less = (one_way_share(domain, policy, budget, rows, counted=c) for c in (False, True))
        return float(plain), float(less)

    wide, groups, small = share(136, 28_597), share(32, 28_597), share(9, 28_597)
    assert wide[0] == 0.5 and 0.2 < wide[1] < 0.3 and wide[1] == groups[1] == groups[0]
    assert small[0] == small[1] < groups[1]
    assert share(136, 100)[1] == 0.5


def test_a_budget_that_is_rounded_down_to_nothing_has_shares() -> None:
    """So that the noise is refused in words. Seen to fail: a division by zero."""
    policy = Policy.of(epsilon=1e-12, delta=1e-200)
    budget = policy.budget(learn_domain=True)
    assert budget.amount == 0 and discovery_share(policy, budget, 0.0, 2) == policy.domain_budget


def test_no_round_where_nothing_is_left_to_choose() -> None:
    """K = 1 after the one-way marginals, or a cap that only they fit: all of the budget goes to them."""
    assert (
        planned((4, 4, 4), 1)
        == planned((4, 4, 4), 2, max_cells=4)
        == planned((4, 4, 4), 1, rounds=7)
        == Course(0, Fraction(1))
    )
    assert planned((4, 4, 4), 1, rounds="adaptive") == Course(0, Fraction(1), adaptive=True)
    assert planned((4, 4, 4), 1, initial="none").rounds == 3


@pytest.mark.parametrize(
    ("attributes", "rounds", "expected"),
    [
        *((4, rounds, min(rounds, 6)) for rounds in (1, 5, 6, 10**9)),
        (20, MAX_ROUNDS + 10, MAX_ROUNDS + 10),  # more than the default
        *((size, "adaptive", many) for size, many in ((3, 16), (10, 40), (200, MAX_ROUNDS))),  # cheap ones
    ],
)
def test_a_users_rounds_are_taken_up_to_what_there_is(
    attributes: int, rounds: int | str, expected: int
) -> None:
    assert planned((2,) * attributes, rounds=rounds).rounds == expected


def test_a_users_share_is_taken() -> None:
    assert planned((2, 2, 2), initial_share=0.3).first_share == Fraction(0.3)
    assert planned((2, 2, 2), initial="none", initial_share=0.3).first_share == 0


@pytest.mark.parametrize(
    "shape", [(1,), (2,) * 1000, (7, 1, 99, 10_000, 3), (3, 5, 7)], ids=lambda s: f"{len(s)} attributes"
)
def test_initial_shares_sum_to_one_exactly(shape: tuple[int, ...]) -> None:
    """In proportion to size^(2/3): a float's rounding must not overdraw the budget."""
    shares = initial_shares(shape)
    assert sum(shares) == 1 and all(share > 0 for share in shares)
    for (size, share), (other, another) in itertools.pairwise(zip(shape, shares, strict=True)):
        assert float(share / another) == pytest.approx((size / other) ** (2 / 3), rel=2e-3)


def test_how_many_rows_a_person_has_gets_more() -> None:
    plain, heavier = initial_shares((8, 8, 8)), initial_shares((8, 8, 8), (1,))
    assert sum(heavier) == 1 and heavier[0] == heavier[2] < plain[0]
    assert heavier[1] == NUMBERS_TIMES * heavier[0]


# ---- the schedule


@pytest.mark.parametrize(
    ("rounds", "adaptive"), [(0, False), *itertools.product([1, 3, 7, 128], [False, True])]
)
@pytest.mark.parametrize("epsilon", [1 / 3, 0.1, 1e-9, 10.0])
def test_a_schedule_without_doubling_sums_exactly(rounds: int, epsilon: float, adaptive: bool) -> None:
    """Rounds get equal parts of what is left; charged in full, they sum to the budget without a remainder."""
    ledger = Accountant(budget_of(epsilon, 0.0))
    prices = []
    for step in (schedule := Schedule(ledger, rounds, Fraction(0.1), adaptive=adaptive)):
        assert step.select == (step.select + step.measure) * Fraction(0.1)
        prices.append(step.select + step.measure)
        ledger.spent += prices[-1]
        schedule.note(2.0, 1.0)
    assert len(prices) == rounds and len(set(prices)) <= 1
    assert ledger.spent == ledger.budget.amount * bool(rounds)


def test_a_fixed_schedule_ignores_signals_and_hands_on_what_is_left() -> None:
    """A round that spends less leaves more for the others; a signal changes nothing."""
    ledger = Accountant(budget_of(1.0, 0.0))
    prices = []
    for step in (schedule := Schedule(ledger, 4, Fraction(1, 10))):
        prices.append(step.select + step.measure)
        ledger.spent += prices[-1] / 2 if len(prices) == 1 else prices[-1]
        schedule.note(0.0, 1.0)
    assert prices[0] < prices[1] == prices[2] == prices[3]
    assert ledger.left == 0


def test_what_counts_as_noise() -> None:
    """A gap of sqrt(2) times the expected noise is still noise: two noisy things differ by that much."""
    for signal, doubled in ((1.41, True), (1.42, False), (0.0, True)):
        ledger = Accountant(budget_of(1.0, 0.0))
        schedule = Schedule(ledger, 100, Fraction(1, 10), adaptive=True)
        rounds = iter(schedule)
        first = next(rounds)
        ledger.spent += first.select + first.measure
        schedule.note(signal, 1.0)
        second = next(rounds)
        assert (second.measure == 2 * first.measure) == doubled


# ---- the policy


REFUSED = [
    ({"epsilom": 1}, "epsilom means nothing here"),
    ({"epsilon": "much"}, "epsilon='much': "),
    ({"rounds": 0}, "rounds=0: at least one, or 'adaptive'"),
    ({"rounds": -3}, "rounds=-3: "),
    ({"rounds": "many"}, "rounds='many': "),
    ({"rounds": 1.5}, "rounds=1.5: "),
    ({"engine": "mwem", "iterate": "average"}, "iterate='average' needs components='one'"),
    ({"iterate": "average"}, "iterate='average' needs engine='mwem'"),
    ({"components": "one"}, "components='one' needs engine='mwem'"),
    ({"replay": False}, "replay=False needs engine='mwem'"),
    ({"initial": "none"}, "initial='none' needs engine='mwem'"),
    ({"initial": "histogram"}, "initial='histogram' needs engine='mwem'"),
    ({"rounds": "adaptive"}, "rounds='adaptive' needs engine='mwem'"),
    ({"engine": "fast"}, "engine='fast': "),
    ({"engine": "mwem", "max_memory": "1GB"}, "max_memory and time_budget need engine='tree'"),
    ({"engine": "mwem", "time_budget": 60.0}, "max_memory and time_budget need engine='tree'"),
    ({"max_memory": 0}, "max_memory=0: "),
    ({"max_memory": "much"}, "max_memory='much': "),
    ({"time_budget": 0.0}, "time_budget=0.0: "),
    ({"time_budget": math.nan}, "time_budget=nan: "),
    ({"iterate": "best"}, "iterate='best': "),
    ({"contributions": 0}, "contributions=0: "),
    ({"select_share": 0}, "select_share=0: "),
    ({"select_share": 1}, "select_share=1: "),
    ({"select_share": math.nan}, "select_share=nan: "),
    ({"initial_share": 0}, "initial_share=0: "),
    ({"initial_share": 1.0}, "initial_share=1.0: "),
    ({"domain_budget": 0}, "domain_budget=0: "),
    ({"domain_budget": 1}, "domain_budget=1: "),
    ({"max_cells": 0}, "max_cells=0: "),
    ({"neighbours": "edit"}, "neighbours='edit': "),
    ({"initial": "two-way"}, "initial='two-way': "),
    ({"components": "two"}, "components='two': "),
    ({"replay": "maybe"}, "replay='maybe': "),
]


@pytest.mark.parametrize(("choices", "message"), REFUSED, ids=str)
def test_a_choice_that_does_not_fit_is_refused_in_one_line(choices: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        Policy.of(**choices)
    assert str(refusal.value).startswith(message) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("epsilon", value) for value in (math.nan, math.inf, 0.0, -1.0)),
        *(("delta", value) for value in (math.nan, 1.0, -1e-9)),
    ],
)
def test_a_budget_that_promises_nothing_is_refused(name: str, value: float) -> None:
    """By the budget, which every use of a policy goes through."""
    with pytest.raises(InputError, match=name):
        Policy.of(**{name: value}).budget(learn_domain=False)


def test_every_default_can_be_built() -> None:
    policy = Policy.of()
    assert (policy.epsilon, policy.delta, policy.unit) == (1.0, 1e-9, Unit(Neighbours.ADD_REMOVE))
    assert Policy.of(
        engine="mwem",
        iterate="average",
        components="one",
        neighbours="replace",
        contributions=3,
        privacy_id="who",
    ).unit == Unit(Neighbours.REPLACE, 3, by_id=True)


def test_a_share_of_delta_is_kept_only_where_the_domain_is_learnt() -> None:
    policy = Policy.of(domain_budget=0.25)
    assert policy.budget(learn_domain=False).discovery_delta == 0
    assert policy.budget(learn_domain=True).discovery_delta == Fraction(1e-9) * DISCOVERY_DELTA


def test_a_policy_does_not_change() -> None:
    with pytest.raises(Exception, match="frozen"):
        Policy.of().epsilon = 9.0  # type: ignore[misc]
