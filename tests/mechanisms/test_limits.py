"""Limits: cells, memory and rounds by a public cost model, before a row is read."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import ResourceError
from factored_mwem.mechanisms import limits as module
from factored_mwem.mechanisms.limits import (
    Machine,
    RunLimits,
    limits_of,
    most_cells,
    run_steps,
    seconds_a_step,
)
from factored_mwem.mechanisms.plan import Scope
from factored_mwem.request.policy import Policy
from factored_mwem.request.request import Request
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload


def candidates_of(shape: tuple[int, ...], order: int = 2) -> Candidates:
    return Workload.marginals(order).candidates(
        Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})
    )


SMALL = candidates_of((10,) * 12)


def limits_for(candidates: Candidates, policy: Policy, memory: float = 1e12, step: float = 1e-9) -> RunLimits:
    return limits_of(candidates, policy, Machine(memory, step))


def test_the_limits_see_no_table() -> None:
    assert list(inspect.signature(limits_of).parameters) == ["candidates", "policy", "machine"]
    assert Machine.of(Policy.of()).step == 0 and Machine.of(Policy.of()).memory > 0
    assert Machine.of(Policy.of(time_budget=9.0)).step > 0


@pytest.mark.parametrize("rounds", [None, 1, 500])
def test_what_a_user_says_holds(rounds: int | None) -> None:
    found = limits_for(SMALL, Policy.of(max_cells=5000, rounds=rounds), 1e12)
    assert found.cells == 5000 and found.adaptive == (rounds is None)
    assert found.rounds == rounds if rounds is not None else found.rounds >= 4


def test_less_memory_means_fewer_cells_until_the_attributes_do_not_fit() -> None:
    """The policy's number comes before the machine's; below the attributes' own need, a refusal."""
    cells = [
        limits_for(SMALL, Policy.of(max_memory=memory), 1e3).cells
        for memory in (10**12, 10**9, 2 * 10**8, 10**8, 91 * 10**6)
    ]
    assert cells == sorted(cells, reverse=True) and cells[0] > cells[-1] >= 120
    assert limits_for(SMALL, Policy.of(), 1e8) == limits_for(SMALL, Policy.of(max_memory=10**8), 1e12)
    words = r"12 attributes with 120 codes and 78 candidate marginals need .* raise --max-memory"
    with pytest.raises(ResourceError, match=words):
        limits_for(SMALL, Policy.of(max_memory=10**7), 1e12)


def test_attributes_that_do_not_fit_the_cells_are_refused() -> None:
    for cells, words in (
        (49, "attribute 'a1' has 50 codes, more than --max-cells 49"),
        (52, "the attributes have 53 codes together, more than --max-cells 52"),
    ):
        with pytest.raises(ResourceError, match=words):
            limits_for(candidates_of((3, 50)), Policy.of(max_cells=cells), 1e12)
    assert limits_for(candidates_of((3, 50)), Policy.of(max_cells=53), 1e12).cells == 53


def test_less_time_means_fewer_cells_and_then_fewer_rounds() -> None:
    """What is predicted fits the time, as long as a single round on the least cells does."""
    found = [limits_for(SMALL, Policy.of(time_budget=t), 1e12) for t in (1e6, 100.0, 20.0, 5.0, 2.5, 1.0)]
    for more, less in itertools.pairwise(found):
        assert less.cells <= more.cells and less.rounds <= more.rounds
    assert found[0].cells == Policy.of().cells and found[-1].rounds >= 1 and found[-1].cells >= 120
    for limit, seconds in zip(found, (1e6, 100.0, 20.0, 5.0, 2.5), strict=False):
        left = max(seconds - module.STARTUP_SECONDS, 0.1 * seconds)
        assert limit.rounds == 1 or run_steps(SMALL, limit.cells, limit.rounds) * 1e-9 <= left * 1.001


def test_the_speed_of_this_machine_is_a_number() -> None:
    assert 0 < seconds_a_step() < 1 and np.isfinite(seconds_a_step())


def test_a_time_that_cannot_be_kept_is_called_so() -> None:
    """Only there: what fits is not called late, and nor is a run without a time."""
    assert limits_for(SMALL, Policy.of()).late(Policy.of()) is None
    for seconds, step in ((20.0, 1e-9), (2.5, 1e-9)):
        policy = Policy.of(time_budget=seconds)
        assert limits_for(SMALL, policy, step=step).late(policy) is None
    slow = Policy.of(time_budget=1.0)
    assert "--time-budget 1 is too short" in str(limits_for(SMALL, slow, step=1e-6).late(slow))


@pytest.mark.parametrize("cap", [10.0, 200.0, math.inf])
def test_the_cells_said_beforehand_are_those_of_the_candidates_or_more(cap: float) -> None:
    """Without listing them; exact where no marginal is cut off. Seen to fail: a size counted twice."""
    domain = Domain.from_dict({f"a{i}": size for i, size in enumerate((2, 3, 5, 7, 11))})
    for order in range(1, 6):
        listed = np.minimum(Workload.marginals(order).candidates(domain).cells, cap).sum()
        known = most_cells(Workload.marginals(order), domain, cap)
        assert known == listed if cap == math.inf else known >= listed
    cube = Workload.marginals(1) + Workload.cube("a3", "a4")
    assert most_cells(cube, domain, math.inf) == cube.candidates(domain).cells.sum()


def test_many_marginals_of_unknown_columns_are_refused_before_a_row_is_read() -> None:
    """With the order that fits the memory; of a domain that is still to be learnt and paid for."""
    table = pa.table({f"c{i}": ["x", "y"] for i in range(22)})
    request = Request.of(table, 9, epsilon=1.0, max_memory=200_000_000)
    with pytest.raises(
        ResourceError, match=r"1,097,789 candidate marginals need .* lower --marginals to \d or"
    ):
        Scope.of(request, Machine(1e12, 0.0))
