"""Budget: where a release's privacy budget went, from the charges that its manifest lists."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from factored_mwem.accounting.accountant import RARER, SINGLE, Charge
from factored_mwem.accounting.conversion import Composition
from factored_mwem.documents.page import NOTHING, counted, figure, percent, plain
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.statement import ChargeRecord, charges_of

WORDS = {
    "discover": "finding out which values there are",
    "select": "choosing what to measure next",
    "certify": "measuring this release's own error",
}
BY_COLUMNS = {0: "counting the rows", 1: "measuring single columns", 2: "measuring pairs of columns"}
MOST_PARTS, OTHERS = 30, "all other charges"
AT_ONCE = "measuring all small sets of columns at once"


def budget_of(manifest: Manifest) -> dict[str, Any]:
    """The parts of the budget by their purpose: for each its `share` of the whole, the same in words, and
    where it begins (`at`) in a bar from 0 to 100. `unit` of the costs, and the `unspent` share.
    """
    kinds: dict[str, list[Charge]] = {}
    for record, charge in zip(manifest.ledger, charges_of(manifest.ledger), strict=True):
        kind = _kind(record, manifest)
        kinds.setdefault(kind if kind in kinds or len(kinds) < MOST_PARTS else OTHERS, []).append(charge)
    costs = {kind: sum((c.cost for c in charges), Fraction(0)) for kind, charges in kinds.items()}
    spent = sum(costs.values(), Fraction(0))
    used = min(sum(stage.share for stage in manifest.stages), 1.0) if spent else 0.0
    parts, at = list[dict[str, Any]](), 0.0
    for kind in sorted(kinds, key=_order):
        share = float(costs[kind] / spent) * used
        cells = _cells(kinds[kind], float(costs[kind]), share)
        parts.append({"what": kind, "share": share, "cells": cells, "at": 100 * at})
        at += share
    unit = "rho" if manifest.guarantee.composition is Composition.ZCDP else "epsilon"
    in_words = "; ".join(f"{part['what']} {percent(part['share'])}" for part in parts)
    return {"parts": parts, "unit": unit, "unspent": max(1.0 - used, 0.0), "in_words": in_words}


def _kind(charge: ChargeRecord, manifest: Manifest) -> str:
    if charge.stage != "measure":
        return WORDS.get(charge.stage, plain(charge.stage))
    columns = len(charge.target)
    if manifest.residuals and columns == len(manifest.attributes) > 1:
        return AT_ONCE
    return BY_COLUMNS.get(columns, f"measuring sets of {columns} columns")


def _order(kind: str) -> tuple[int, str]:
    known = [WORDS["discover"], *BY_COLUMNS.values()]
    last = [WORDS["select"], WORDS["certify"]]
    return (known.index(kind) if kind in known else 50 + last.index(kind) if kind in last else 10, kind)


def _cells(charges: list[Charge], cost: float, share: float) -> tuple[str, ...]:
    in_parts = {(RARER,), (SINGLE,)}  # others are in rows
    scales = {charge.scale for charge in charges if charge.target[-1:] not in in_parts}
    low, high = figure(min(scales)), figure(max(scales))
    delta = float(sum((charge.delta for charge in charges), Fraction(0)))
    noise = low if low == high else f"{low} to {high}"
    if any(charge.stage not in ("measure", "discover") for charge in charges):  # of scores, not of counts
        noise = NOTHING
    return percent(share), figure(cost), figure(delta) if delta else "0", f"{len(charges):,}", noise


def mechanisms_of(charges: Iterable[Charge]) -> list[str]:
    """Each mechanism, and how often it was used."""
    names = [str(charge.mechanism.value) for charge in charges]
    return [f"{name} ({counted(names.count(name), 'time')})" for name in dict.fromkeys(names)]
