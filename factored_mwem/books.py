"""Books: what a ledger file says, as plain facts for people, scripts and auditors."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from factored_mwem.entries import Dataset, Entry
from factored_mwem.ledger_file import LedgerFile


def books(path: Path) -> dict[str, Any]:
    """Every dataset's cap, cost and rest, and a line for each release."""
    file = LedgerFile(path)
    found = []
    for dataset in file.datasets():
        entries = file.entries(dataset.name)
        costs = [e.cost for e in entries]
        found.append(
            {
                **_terms(dataset),
                "spent": dataset.cap.spent(costs, dataset.limits),
                "left": dataset.cap.left(costs, dataset.limits, pure=False),
                "left_pure": dataset.cap.left(costs, dataset.limits, pure=True),
                "releases": [_line(entry) for entry in entries],
            }
        )
    return {"ledger": str(path), "datasets": found}


def export(path: Path) -> dict[str, Any]:
    """All that is needed to add up the costs again: exact fractions, limits and parameters."""
    file = LedgerFile(path)
    found = []
    for dataset in file.datasets():
        limits = dataset.limits
        rows = [{**_line(e), "reserved": _exact(e), "parameters": e.parameters, "files": e.files} for e in file.entries(dataset.name)]
        kept = None if limits is None else {"rho": str(limits.rho), "delta": str(limits.delta)}
        found.append({**_terms(dataset), "limits": kept, "releases": rows})
    rule = "admitted while all are pure and their epsilons sum to at most epsilon, or while rhos (pure: epsilon^2 / 2) and deltas keep to the limits"
    return {"ledger_version": 1, "rule": rule, "datasets": found}


def _terms(dataset: Dataset) -> dict[str, Any]:
    cap = dataset.cap
    numbers = {"epsilon": _number(cap.epsilon), "delta": float(cap.delta), "rho": _number(cap.rho)}
    return {"dataset": dataset.name, **numbers, "neighbours": dataset.neighbours.value, "contributions": dataset.contributions}


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _line(entry: Entry) -> dict[str, Any]:
    cost = entry.cost
    unit = "epsilon" if cost.pure else "rho"
    return {
        "number": entry.number, "run_id": entry.run_id, "state": entry.state, unit: float(cost.amount), "delta": float(cost.delta),
        "exact": str(cost.amount), "tool_version": entry.tool_version, "reserved_at": entry.begun, "changed_at": entry.changed,
    }  # fmt: skip


def _exact(entry: Entry) -> dict[str, str]:
    return {"amount": str(entry.reserved.amount), "delta": str(entry.reserved.delta)}
