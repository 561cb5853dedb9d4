"""Budget: where a release's privacy budget went, from the charges that its manifest lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from factored_mwem.accounting.accountant import Charge
from factored_mwem.accounting.conversion import Composition
from factored_mwem.documents.wording import NOTHING, counted, figure, percent, plain
from factored_mwem.pipeline.manifest import ChargeRecord, Manifest

WORDS = {
    "discover": "finding out which values there are",
    "select": "choosing what to measure next",
    "certify": "measuring this release's own error",
}
BY_COLUMNS = {0: "counting the rows", 1: "measuring single columns", 2: "measuring pairs of columns"}
MOST_PARTS, OTHERS = 30, "all other charges"
AT_ONCE = "measuring all small sets of columns at once"


@dataclass(frozen=True, slots=True)
class Part:
    """What a part of the budget paid for: `share` of all of it, and the same in words. `at` and `width`: its
    place in a bar from 0 to 100.
    """

    what: str
    share: float
    cells: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class Budget:
    """The parts, the largest first within their stages; `unit` of the costs, and the `unspent` share."""

    parts: tuple[Part, ...]
    unit: str
    unspent: float

    @property
    def in_words(self) -> str:
        """For who does not see the bar."""
        return "; ".join(f"{part.what} {percent(part.share)}" for part in self.parts)


def charges_of(manifest: Manifest) -> list[Charge]:
    """The entries of its ledger, each of which can be priced."""
    return [
        Charge(c.stage, c.mechanism, c.target, c.scale, c.sensitivity, Fraction(c.delta))
        for c in manifest.ledger
    ]


def budget_of(manifest: Manifest) -> Budget:
    """The parts of the budget by what they paid for."""
    kinds: dict[str, list[Charge]] = {}
    for record, charge in zip(manifest.ledger, charges_of(manifest), strict=True):
        kind = _kind(record, manifest)
        kinds.setdefault(kind if kind in kinds or len(kinds) < MOST_PARTS else OTHERS, []).append(charge)
    costs = {kind: sum((c.cost for c in charges), Fraction(0)) for kind, charges in kinds.items()}
    spent = sum(costs.values(), Fraction(0))
    used = min(sum(stage.share for stage in manifest.stages), 1.0) if spent else 0.0
    parts, at = [], 0.0
    for kind in sorted(kinds, key=_order):
        share = float(costs[kind] / spent) * used
        parts.append(Part(kind, share, _cells(kinds[kind], float(costs[kind]), share), 100 * at))
        at += share
    unit = "rho" if manifest.guarantee.composition is Composition.ZCDP else "epsilon"
    return Budget(tuple(parts), unit, max(1.0 - used, 0.0))


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
    scales = {charge.scale for charge in charges}
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
