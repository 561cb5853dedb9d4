"""The rule by which releases add up: exact for one, sound for many against another library's accountant, and
fixed before anything is seen.
"""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from factored_mwem.accounting.cap import Cap, Cost, Limits
from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import InputError
from factored_mwem.policy import Policy

ORDERS = [1 + 10 ** (x / 150) for x in range(-450, 600)]


def cost_of(epsilon: float, delta: float, *, learn: bool = False) -> Cost:
    """What a release of this promise reserves."""
    budget = Policy.of(epsilon=epsilon, delta=delta).budget(learn_domain=learn)
    return Cost(budget.composition, budget.amount, budget.discovery_delta)


def third_party(costs: list[Cost], delta: Fraction) -> float:
    """epsilon at delta by dp-accounting's Renyi accountant; pure releases by their own sum, if that is all
    there is.
    """
    if all(c.pure for c in costs):
        return float(sum(c.amount for c in costs))
    accountant = RdpAccountant(ORDERS)
    for c in costs:
        accountant.compose(dp_accounting.ZCDpEvent(rho=float(c.rho)))
    return accountant.get_epsilon(float(delta - sum(c.delta for c in costs)))


PROMISES = [
    (1.0, 1e-9, False),
    (1.0, 1e-9, True),
    (0.1, 1e-6, True),
    (7.0, 1e-12, False),
    (3.0, 0.0, False),
    (1 / 3, 0.0, False),
]


@pytest.mark.parametrize(("epsilon", "delta", "learn"), PROMISES)
def test_a_cap_of_one_release_admits_exactly_one(epsilon: float, delta: float, learn: bool) -> None:
    cap, cost = Cap.of(epsilon, delta), cost_of(epsilon, delta, learn=learn)
    limits = cap.limits(cost)
    assert cap.admits([cost], limits)
    assert not cap.admits([cost, Cost(cost.composition, cost.amount / 1000)], limits)
    assert not cap.admits([Cost(cost.composition, cost.amount * Fraction(1001, 1000), cost.delta)], limits)
    assert cap.spent([cost], limits) <= epsilon
    assert cap.left([cost], limits, pure=cost.pure) == 0.0


def test_a_pure_release_fits_a_cap_with_delta() -> None:
    cap, cost = Cap.of(1.0, 1e-9), cost_of(1.0, 0.0)
    limits = cap.limits(cost)
    assert cap.admits([cost], limits) and not cap.admits([cost, cost_of(0.01, 0.0)], limits)
    halves = [cost_of(0.5, 0.0)] * 2
    assert cap.admits(halves, cap.limits(halves[0]))


def test_no_approximate_release_fits_a_pure_cap() -> None:
    cap, cost = Cap.of(1.0, 0.0), cost_of(0.001, 1e-9)
    assert not cap.admits([cost], cap.limits(cost))


def test_many_releases_cost_less_than_their_sum() -> None:
    """zCDP: of 16 releases of epsilon 1/4 the sum is 4, and a cap of 1 admits them nearly."""
    cap, cost = Cap.of(1.0, 1e-9), cost_of(0.25, 1e-9)
    limits, n = cap.limits(cost), 0
    while cap.admits([cost] * (n + 1), limits):
        n += 1
    assert n >= 12
    assert cap.spent([cost] * n, limits) <= 1.0


releases = st.lists(
    st.tuples(st.floats(0.01, 2.0), st.sampled_from([0.0, 1e-9, 1e-10, 1e-7]), st.booleans()).map(
        lambda p: cost_of(p[0], p[1], learn=p[2] and p[1] > 0)
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(releases, st.floats(0.1, 5.0), st.sampled_from([1e-9, 1e-6]))
def test_whatever_is_admitted_stays_within_the_cap_for_a_third_party(
    asked: list[Cost], epsilon: float, delta: float
) -> None:
    cap = Cap.of(epsilon, delta)
    limits, admitted = cap.limits(asked[0]), list[Cost]()
    for cost in asked:
        limits = limits if admitted else cap.limits(cost)
        if cap.admits([*admitted, cost], limits):
            admitted.append(cost)
    if admitted:
        assert third_party(admitted, Fraction(delta)) <= cap.spent(admitted, limits) * (
            1 + 1e-3
        )  # its orders are a grid
        assert cap.spent(admitted, limits) <= epsilon
    for at in (0.0, delta) if admitted else ():
        left = cap.left(admitted, limits, pure=not at)
        assert not left or cap.admits([*admitted, cost_of(left, at)], limits)
        assert not cap.admits([*admitted, cost_of(left * 1.002 + 1e-3, at)], limits)


def test_the_third_party_sees_a_rule_that_forgets() -> None:
    """The check above can fail: with one of two equal releases forgotten it does."""
    cap, cost = Cap.of(1.0, 1e-9), cost_of(1.0, 1e-9)
    assert cap.admits([cost], cap.limits(cost))
    assert third_party([cost, cost], Fraction(1e-9)) > 1.2


def test_the_first_release_sets_the_limits_and_no_later_one_moves_them() -> None:
    """A tenth of delta is kept for learnt categories unless the first release takes all: with hindsight more
    would fit, and be unsound.
    """
    cap, small, learnt = Cap.of(1.0, 1e-9), cost_of(0.5, 1e-9), cost_of(0.5, 1e-9, learn=True)
    limits = cap.limits(small)
    assert limits.delta == Fraction(1e-9) * Fraction(0.1)
    assert cap.limits(cost_of(1.0, 1e-9)).delta == 0
    assert not cap.admits([small, Cost(Composition.ZCDP, Fraction(1, 10**9), limits.delta * 2)], limits)
    assert cap.limits(learnt).delta == learnt.delta


def test_a_cap_in_rho_adds_rho() -> None:
    cap = Cap.of(None, 1e-10, rho=0.5)
    gaussian, pure = Cost(Composition.ZCDP, Fraction(1, 4)), Cost(Composition.PURE, Fraction(1, 2))
    limits = cap.limits(gaussian)
    assert limits == Limits(Fraction(1, 2), Fraction(1e-10))
    assert cap.admits([gaussian, gaussian], limits) and not cap.admits([gaussian, gaussian, pure], limits)
    assert cap.admits([gaussian, pure, pure], limits)  # 1/4 + 2 * 1/8
    assert cap.spent([gaussian, pure], limits) == 0.375 and cap.left(
        [gaussian, pure], limits, pure=False
    ) == pytest.approx(0.125, rel=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [
        (None, 0.0, None),
        (1.0, 0.0, 1.0),
        (0.0, 1e-9, None),
        (-1.0, 0.0, None),
        (math.inf, 0.0, None),
        (math.nan, 0.0, None),
        (1.0, 1.0, None),
        (1.0, -1e-9, None),
        (1.0, 1e-300, None),
        (None, 0.0, 1e12),
    ],
)
def test_what_is_no_cap(epsilon: float | None, delta: float, rho: float | None) -> None:
    with pytest.raises(InputError):
        Cap.of(epsilon, delta, rho)


def test_events_with_a_delta_share_what_is_kept_of_the_caps() -> None:
    """(epsilon, delta) events add up in epsilon under the first filter, but their deltas count under both:
    the kept share of the cap's delta is the most, whatever their epsilons.
    """
    cap, event = Cap.of(1.0, 1e-6), Cost(Composition.PURE, Fraction(3, 10), Fraction(4, 10**8))
    limits = cap.limits(event)
    assert limits.delta == cap.delta * Fraction(0.1)
    assert cap.admits([event] * 2, limits)
    assert not cap.admits([event] * 3, limits)  # 1.2e-7 of delta; epsilon .9 would fit
    assert cap.admits([Cost(Composition.PURE, Fraction(3, 10))] * 3, limits)
    mixed = [event, Cost(Composition.ZCDP, Fraction(1, 1000))]  # under the second filter from here on
    assert not cap.admits(mixed, limits)
    small = Cost(Composition.PURE, Fraction(1, 20), Fraction(4, 10**8))
    assert cap.admits([small, mixed[1]], limits)
    assert not Cap.of(1.0, 0.0).admits([event], Cap.of(1.0, 0.0).limits(event))
