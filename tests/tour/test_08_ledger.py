"""8. A ledger holds what all releases of a table may cost together; a job that runs twice pays once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import Fmwem

from factored_mwem import BudgetExceeded, release

JOB = ["release", "people.csv", "--marginals", 1, "--ledger", "books", "--dataset", "people"]


@pytest.fixture
def ledger(town: Path, fmwem: Fmwem) -> Path:
    assert fmwem("ledger", "init", "books").code == 0
    given = ("--dataset", "people", "--epsilon", 1, "--delta", "1e-9")
    assert fmwem("ledger", "add", "books", *given).code == 0
    return town / "books"


def test_the_same_run_again_costs_nothing(ledger: Path, fmwem: Fmwem) -> None:
    first = fmwem(*JOB, "--epsilon", 0.5, "--run-id", "monday", "--json")
    again = fmwem(*JOB, "--epsilon", 0.5, "--run-id", "monday", "--json")
    assert (first.facts["reused"], again.facts["reused"]) == (False, True)
    assert fmwem("ledger", "verify", "books", "people.synthetic.manifest.json").code == 0


def test_what_does_not_fit_is_refused_and_touches_nothing(ledger: Path) -> None:
    choices = {"domain": "people.domain.json", "ledger": ledger, "dataset": "people"}
    assert release("people.csv", 1, epsilon=0.9, **choices).manifest.recompute() <= 0.9
    with pytest.raises(BudgetExceeded):
        release("people.csv", 1, epsilon=0.9, **choices)
