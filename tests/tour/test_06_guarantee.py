"""6. The promise: who is protected, what it cost, and how anybody adds it up again."""

from __future__ import annotations

import pyarrow as pa
import pytest

from factored_mwem import Domain, InputError, Policy, Release, Workload, release


@pytest.fixture(scope="module")
def published(people: pa.Table, people_domain: Domain) -> Release:
    policy = Policy.of(epsilon=1.0, delta=1e-9, neighbours="add-remove", contributions=2)
    return release(people, Workload.marginals(2), policy, domain=people_domain)


def test_the_manifest_states_the_guarantee(published: Release) -> None:
    guarantee = published.manifest.guarantee
    assert guarantee.epsilon <= 1 and guarantee.delta <= 1e-9
    assert "differential privacy" in guarantee.statement


def test_every_charge_is_listed_and_adds_up(published: Release) -> None:
    charges = published.manifest.ledger
    assert charges and all(charge.scale > 0 for charge in charges)
    assert published.manifest.recompute() == pytest.approx(published.manifest.guarantee.epsilon)


def test_a_promise_that_promises_nothing_is_refused(people: pa.Table, people_domain: Domain) -> None:
    with pytest.raises(InputError, match="epsilon"):
        release(people, 2, epsilon=-1.0, domain=people_domain)
