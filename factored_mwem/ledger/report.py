"""Report: what a ledger says, as plain facts for people, scripts and auditors."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from factored_mwem.accounting.cap import Cost
from factored_mwem.ledger import chain
from factored_mwem.ledger.address import Address
from factored_mwem.ledger.entries import Dataset, Entry, dataset_of, entry_of, limits_in_text
from factored_mwem.ledger.journal import Unreadable
from factored_mwem.ledger.opening import open_ledger
from factored_mwem.ledger.schema import VERSION

ADMISSION_RULE = (
    "without limits, admitted while all count in epsilon, which sum to at most epsilon, and deltas to delta; "
    "with limits, those `after` the first so many are admitted while their rhos (of those that count in "
    "epsilon: epsilon^2 / 2 or epsilon / order, what is less; with the order, 2^-30 of rho stays free) sum "
    "to at most rho, or while all count in epsilon and sum to at most epsilon; deltas to delta in any case"
)


def books(place: str | Path | Address) -> dict[str, Any]:
    """Every dataset's cap, what is spent and what is left of it, and a line for each release.

    It also says whether journals hold draws that the ledger does not know; None if the journals could not be
    read, because the ledger itself can still be shown.
    """
    ledger = open_ledger(place)
    datasets = [_account(dataset, ledger.entries(dataset.name)) for dataset in ledger.datasets()]
    older: bool | None = None
    with contextlib.suppress(Unreadable):
        older = ledger.copied() or bool(ledger.unknown_journals())
    return {"ledger": ledger.name, "datasets": datasets, "older_than_its_journals": older}


def _account(dataset: Dataset, entries: Sequence[Entry]) -> dict[str, Any]:
    costs = [e.cost for e in entries]
    return {
        **_terms(dataset),
        "spent": dataset.cap.spent(costs, dataset.limits),
        "left": dataset.cap.left(costs, dataset.limits, pure=False),
        "left_pure": dataset.cap.left(costs, dataset.limits, pure=True),
        "releases": [_line(entry) for entry in entries],
    }


def export(place: str | Path | Address) -> dict[str, Any]:
    """All that is needed to add up the costs again, exactly, and to recompute the chain."""
    ledger = open_ledger(place)
    datasets, kept = [], ledger.snapshot()
    with ledger.clear():
        for dataset in map(dataset_of, kept.datasets):
            limits = dataset.limits
            rows = [
                {
                    **_line(e),
                    "counts": _exact(e.cost),
                    "reserved": _exact(e.reserved),
                    "parameters": e.parameters,
                    "files": e.files,
                }
                for e in (entry_of(row) for row in kept.releases if row["dataset"] == dataset.name)
            ]
            limited = None if limits is None else json.loads(limits_in_text(limits))
            datasets.append({**_terms(dataset), "limits": limited, "releases": rows})
        events = [{"event": str(event.text), "head": str(event.head)} for event in kept.events]
    return {
        "ledger_version": VERSION,
        "rule": ADMISSION_RULE,
        "datasets": datasets,
        "chain_rule": chain.RULE,
        "chain": events,
    }


def _terms(dataset: Dataset) -> dict[str, Any]:
    cap = dataset.cap
    numbers = {"epsilon": _number(cap.epsilon), "delta": float(cap.delta), "rho": _number(cap.rho)}
    return {
        "dataset": dataset.name,
        **numbers,
        "neighbours": dataset.neighbours.value,
        "contributions": dataset.contributions,
        "privacy_id": dataset.privacy_id,
    }


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _line(entry: Entry) -> dict[str, Any]:
    """A release: the promise as it was requested (`promised`), and its cost in the unit of the ledger."""
    cost, policy = entry.cost, entry.parameters.get("policy")
    promise = policy if isinstance(policy, dict) else {}
    kinds = {"epsilon": float, "delta": float, "privacy_id": str}
    promised = {
        name: promise[name] if isinstance(promise.get(name), kind) else None for name, kind in kinds.items()
    }
    return {
        "number": entry.number,
        "run_id": entry.run_id,
        "state": entry.state,
        "epsilon" if cost.pure else "rho": float(cost.amount),
        "delta": float(cost.delta),
        "promised": promised,
        "tool_version": entry.tool_version,
        "reserved_at": entry.reserved_at,
        "changed_at": entry.changed,
    }


def _exact(cost: Cost) -> dict[str, str]:
    return {"amount": str(cost.amount), "delta": str(cost.delta)}
