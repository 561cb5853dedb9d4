"""What was charged is what the sampler was given, stage by stage."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from support.fakes import Between, FakeNoise
from support.releases import run
from support.tables import small_table

from factored_mwem.accounting.accountant import RARER, Accountant, Mechanism, price
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.mechanisms import course
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy.rows import SCORE_GRID
from factored_mwem.request.policy import Policy
from factored_mwem.tables.codes.rest import WEIGHT


def check_stages(release: Release, fake: FakeNoise) -> None:
    """One entry for each call to the sampler: the same mechanism and scale, its unit's sensitivity."""
    policy, entries = release.manifest.policy, release.manifest.ledger
    unit = Unit(Neighbours(policy["neighbours"]), policy["contributions"])
    assert len(entries) == len(fake.calls) > 8
    for entry, call in zip(entries, fake.calls, strict=True):
        assert entry.scale == call.scale
        expected = {
            Mechanism.GAUSSIAN: ("add", unit.l2_squared_of_marginal),
            Mechanism.LAPLACE: ("add", unit.l1_of_marginal),
            Mechanism.THRESHOLD: ("threshold", unit.l2_squared_of_marginal),
            Mechanism.EXPONENTIAL: ("select", unit.l1_of_score * SCORE_GRID),
            Mechanism.PERMUTE_AND_FLIP: ("select", unit.l1_of_score * SCORE_GRID),
        }[entry.mechanism]
        parts = WEIGHT**2 if entry.target[-1:] == (RARER,) else 1
        assert (call.method, entry.sensitivity) == (expected[0], expected[1] * parts)
        assert (entry.mechanism in (Mechanism.LAPLACE, Mechanism.PERMUTE_AND_FLIP)) == (policy["delta"] == 0)
    for stage in release.manifest.stages:
        own = [e for e in entries if e.stage == stage.stage]
        costs = [price(e.mechanism, scale=e.scale, sensitivity=e.sensitivity) for e in own]
        assert float(sum(costs)) == stage.cost
    assert 0.98 < sum(stage.share for stage in release.manifest.stages) <= 1 + 1e-12


POLICIES = [
    {},
    {"neighbours": "replace"},
    {"neighbours": "replace", "contributions": 3},
    {"delta": 0.0, "contributions": 2},
    {"delta": 0.0, "neighbours": "replace"},
    {"rounds": 7},
    {"engine": "mwem"},
    {"engine": "mwem", "neighbours": "replace", "contributions": 3},
    {"engine": "mwem", "delta": 0.0, "neighbours": "replace", "rounds": "adaptive"},
    {"engine": "mwem", "rounds": "adaptive"},
    {"engine": "mwem", "initial": "histogram"},
    {"engine": "mwem", "components": "one", "iterate": "average", "initial": "none", "rounds": 5},
]


@pytest.mark.usefixtures("in_rounds")
@pytest.mark.parametrize("choices", POLICIES, ids=str)
def test_each_stage_charges_what_its_noise_costs(choices: dict[str, Any]) -> None:
    policy = Policy.of(**choices)
    fake = FakeNoise(policy.budget(learn_domain=False).composition)
    check_stages(run(small_table(), policy, fake), fake)


@pytest.mark.parametrize(
    "choices", [c for c in POLICIES if not c.get("engine") and "rounds" not in c], ids=str
)
def test_measuring_at_once_charges_what_its_noise_costs(
    choices: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small domain in one reading of all residuals, beside a count of rows where that is private: entries
    and calls agree, and all is spent.

    That the sensitivity of the residuals is what it is said to be, tests/mechanisms/test_residuals.py
    shows by brute force.
    """
    monkeypatch.setattr(course, "one_shot_suits", lambda *_: True)
    policy = Policy.of(**choices)
    fake = FakeNoise(policy.budget(learn_domain=False).composition)
    manifest = run(small_table(), policy, fake).manifest
    assert [e.scale for e in manifest.ledger] == [c.scale for c in fake.calls]
    assert {c.method for c in fake.calls} == {"add"}
    assert len(manifest.ledger) == 1 + (not policy.unit.total_is_public)
    own = sum(
        price(e.mechanism, scale=c.scale, sensitivity=e.sensitivity)
        for e, c in zip(manifest.ledger, fake.calls, strict=True)
    )
    amount = policy.budget(learn_domain=False).amount
    assert amount * Fraction(999_999, 10**6) < own <= amount
    assert manifest.recompute() == manifest.guarantee.spent_epsilon <= policy.epsilon


@pytest.mark.usefixtures("in_rounds")
@pytest.mark.parametrize("choices", [*POLICIES[:3], *POLICIES[6:8]], ids=str)
def test_discovery_charges_what_its_noise_costs(choices: dict[str, Any]) -> None:
    policy, fake = Policy.of(**choices), FakeNoise()
    release = run(pa.concat_tables([small_table()] * 2), policy, fake, domain=None)
    check_stages(release, fake)
    first = release.manifest.stages[0]
    assert first.stage == "discover" and first.share <= policy.domain_budget
    assert 0 < first.delta <= policy.delta * policy.domain_budget


@pytest.mark.usefixtures("in_rounds")
def test_stage_check_catches_half_the_noise_and_an_uncharged_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = Policy.of(epsilon=1.0)
    fake = FakeNoise()
    with pytest.raises(AssertionError):
        check_stages(run(small_table(), policy, Between(fake, 0.5)), fake)
    charge = Accountant.charge
    monkeypatch.setattr(
        Accountant, "charge", lambda self, entry: None if entry.target == ("age",) else charge(self, entry)
    )
    fake = FakeNoise()
    with pytest.raises(AssertionError):
        check_stages(run(small_table(), policy, fake), fake)
