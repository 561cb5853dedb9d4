"""Auditing: whether a manifest is that of a release in the books, and costs what they say."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from factored_mwem.chain import Event
from factored_mwem.entries import Entry, Snapshot, entry_of, fraction_of
from factored_mwem.errors import FmwemError
from factored_mwem.manifest import Manifest
from factored_mwem.output import sha256
from factored_mwem.privacy.ledger import price
from factored_mwem.privacy.noise import Composition


def check_manifest(kept: Snapshot, path: Path) -> tuple[dict[str, Any], list[str]]:
    """What the manifest at `path` is of, and a line for each thing in it that does not fit the books."""
    facts: dict[str, Any] = {"manifest": str(path), "dataset": None, "release": None}
    try:
        manifest, digest = Manifest.model_validate_json(path.read_bytes()), sha256(path)
    except OSError as error:
        return facts, [f"{path}: cannot read it: {error.strerror}"]
    except (ValueError, RecursionError):
        return facts, [f"{path}: it is no manifest"]
    problems = [*_own(manifest)]
    try:
        row, missing = _release(kept, manifest, digest)
        if row is None:
            problems.append(missing)
        else:
            facts |= {"dataset": str(row["dataset"]), "release": row["id"]}
            problems += _against(entry_of(row), manifest, digest)
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        problems.append("the row of its release is not as this program writes it")
    return facts, [f"{path}: {problem}" for problem in problems]


def _own(manifest: Manifest) -> Iterator[str]:
    """Where a manifest disagrees with itself."""
    promise = manifest.guarantee
    try:
        _check(manifest)
        found = manifest.recompute()
        if not math.isclose(found, promise.spent_epsilon, rel_tol=1e-9):  # another machine may round otherwise
            yield f"it states spent_epsilon {promise.spent_epsilon:g}, and its charges amount to {found:g}"
    except (ValueError, TypeError, ArithmeticError, FmwemError):
        yield "its charges cannot be added up"
    if not promise.spent_epsilon <= promise.epsilon:
        yield f"it states spent_epsilon {promise.spent_epsilon:g}, more than the epsilon {promise.epsilon:g} that it promises"


def _check(manifest: Manifest) -> None:
    """ValueError where its numbers are none that a release has: it may be anybody's file."""
    promise, delta = manifest.guarantee, _cost(manifest)[1]
    if any(charge.scale <= 0 or charge.sensitivity < 1 for charge in manifest.ledger):
        raise ValueError("charge")
    if promise.composition is Composition.ZCDP and not (1e-200 <= promise.delta < 1 and Fraction(promise.delta) - delta >= Fraction(1e-300)):
        raise ValueError("delta")


def _cost(manifest: Manifest) -> tuple[Fraction, Fraction]:
    """(amount, delta): the exact sums of its charges."""
    amounts = (price(c.mechanism, scale=c.scale, sensitivity=c.sensitivity) for c in manifest.ledger)
    return sum(amounts, Fraction(0)), sum((fraction_of(c.delta) for c in manifest.ledger), Fraction(0))


def _release(kept: Snapshot, manifest: Manifest, digest: str) -> tuple[dict[str, Any] | None, str]:
    """The row of the manifest's release; or None, and why."""
    event = next((event for event in kept.events if event.head == manifest.chain_head), None)
    if manifest.chain_head is not None:
        if event is None:
            return None, "its chain_head is not in the chain: it was entered in another ledger, or in a newer copy of this one"
        row = next((row for row in kept.releases if event.reserved is not None and row["id"] == event.reserved), None)
        return row, "its chain_head is not that of a release in the books"
    # A release that was entered before the ledger kept a chain has no head; by its files it can be known.
    old = [row for row in kept.releases if not _has_head(kept.events, row["id"])]
    row = next((row for row in old if digest in _files(json.loads(row["files"]))), None)
    return row, "it has no chain_head, and no release from before the chain lists this file"


def _has_head(events: list[Event], number: int) -> bool:
    return any(event.reserved == number for event in events)


def _files(listed: list[dict[str, str]]) -> set[str]:
    return {digest for files in listed for digest in files.values()}


def _against(entry: Entry, manifest: Manifest, digest: str) -> Iterator[str]:
    """Where the books say other than the manifest."""
    release = f"release {entry.number}"
    if entry.spent is None:
        yield f"the books do not say what {release} spent"
    elif (entry.spent.amount, entry.spent.delta) != _cost(manifest):
        yield f"its charges do not add up to what {release} spent in the books"
    if manifest.guarantee.composition is not entry.reserved.composition:
        yield f"its composition is not that of {release} in the books"
    if any(entry.files) and digest not in _files(entry.files):
        yield f"it is not a file that {release} wrote, or was changed since"
