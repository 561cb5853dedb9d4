"""3. A workload says what must come out right: marginals, cubes, ranges, parities, mixed as you like."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import Fmwem

from factored_mwem import Domain, InputError, Workload, release


def test_a_workload_names_marginals(people_domain: Domain) -> None:
    assert len(Workload.marginals(2).candidates(people_domain)) == 4 + 6  # all pairs, and what they hold
    asked = Workload.of([("age", "colour"), ("owns",)])
    asked.check(people_domain.names)
    with pytest.raises(InputError, match="height"):
        Workload.of([("age", "height")]).check(people_domain.names)


def test_kinds_mix_and_have_weights(town: Path) -> None:
    asked = (
        Workload.marginals(1)
        + Workload.cube("age", "colour", "owns", order=2)
        + Workload.ranges("age", count=50, weight=3)
    )
    assert Workload.from_dict(asked.to_dict()) == asked
    assert release("people.csv", asked, epsilon=1.0, domain="people.domain.json").rows > 0


def test_the_command_line_says_the_same(town: Path, fmwem: Fmwem) -> None:
    done = fmwem("release", "people.csv", "--cube", "age,colour,owns:2", "--ranges", "age:50@3")
    assert done.code == 0
