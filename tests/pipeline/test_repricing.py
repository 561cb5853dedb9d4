"""A third party prices a release again: from its manifest alone, with another library's accountant."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import dp_accounting
import numpy as np
import pyarrow as pa
import pytest
from dp_accounting.rdp import RdpAccountant

from factored_mwem import Workload, release
from factored_mwem.accounting.accountant import Mechanism
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.statement import ChargeRecord

COARSE = [1 + 10 ** (x / 40) for x in range(-120, 200)]
CLOSE = 1e-4
"""Relative: what the accountants may differ by."""
ADDED = (Mechanism.GAUSSIAN, Mechanism.THRESHOLD)


def event_of(charge: ChargeRecord) -> dp_accounting.DpEvent:
    """In dp-accounting's words; exponential mechanisms by their rho (Cesar and Rogers 2021)."""
    if charge.mechanism in ADDED:
        return dp_accounting.GaussianDpEvent(charge.scale / charge.sensitivity**0.5)  # squared L2 sensitivity
    return dp_accounting.ZCDpEvent(rho=(2 * charge.sensitivity / charge.scale) ** 2 / 8)


def repriced(charges: tuple[ChargeRecord, ...], delta: float) -> float:
    """epsilon at delta; the accountant minimises over orders, first far apart, then close to the best."""
    if not delta:  # pure: epsilons add up; a selection is one of 2 s / b
        return sum((1 if c.mechanism is Mechanism.LAPLACE else 2) * c.sensitivity / c.scale for c in charges)
    rest = float(Fraction(delta) - sum(Fraction(c.delta) for c in charges))
    found, best = 0.0, 2.0
    for orders in (COARSE, None):
        accountant = RdpAccountant(
            orders or [1 + (best - 1) * factor for factor in np.linspace(0.9, 1.12, 2_001)]
        )
        for charge in charges:
            accountant.compose(event_of(charge))
        found, best = accountant.get_epsilon_and_optimal_order(rest)
    return found


def made(**choices: Any) -> Manifest:
    rng = np.random.default_rng(4)
    letters, numbers = rng.choice(["x", "y", "z"], 600), rng.integers(0, 30, 600)
    table = pa.table({"a": letters, "b": numbers, "c": rng.random(600) < 0.2})
    ages = {"name": "b", "type": "integer", "constraints": {"minimum": 0, "maximum": 29}, "bins": 10}
    fields = [{"name": "a", "categories": ["x", "y", "z"]}, ages, {"name": "c", "type": "boolean"}]
    given = {"workload": 2, "domain": {"fields": fields}, **choices}
    return release(table, **given).manifest


CASES: dict[str, dict[str, Any]] = {
    "tree": {"epsilon": 1.0},
    "tree, much": {"epsilon": 20.0, "delta": 1e-5},
    "tree, little": {"epsilon": 0.01},
    "mwem": {"engine": "mwem", "rounds": 6},
    "replace": {"neighbours": "replace", "contributions": 3},
    "learnt": {"domain": None, "epsilon": 5.0, "delta": 1e-6},
    "ranges": {"workload": Workload.ranges("b", count=50), "engine": "mwem", "rounds": 5},
    "pure": {"delta": 0.0, "engine": "mwem", "rounds": 6},
    "pure tree": {"delta": 0.0, "epsilon": 3.0},
}


@pytest.mark.parametrize("case", list(CASES))
def test_another_accountant_finds_the_same_price(case: str) -> None:
    """Ours is rounded up, theirs minimises over a grid: on either side, by less than CLOSE."""
    manifest = made(**CASES[case])
    g = manifest.guarantee
    found = repriced(manifest.ledger, g.delta)
    assert found == pytest.approx(g.spent_epsilon, rel=CLOSE)
    assert found <= g.epsilon * (1 + 1e-6)
    assert g.spent_epsilon <= g.epsilon and manifest.recompute() == g.spent_epsilon


@pytest.mark.parametrize("case", ["tree", "mwem", "learnt", "pure"])
def test_a_charge_left_out_or_too_cheap_is_noticed(case: str) -> None:
    manifest = made(**CASES[case])
    dearest = max(manifest.ledger, key=lambda c: c.sensitivity / c.scale)
    half = dearest.model_copy(update={"scale": dearest.scale / 2})
    for other in ([], [half]):
        charges = (*(c for c in manifest.ledger if c is not dearest), *other)
        ratio = repriced(charges, manifest.guarantee.delta) / manifest.guarantee.spent_epsilon
        assert abs(ratio - 1) > CLOSE
