"""Entries: what the rows of a ledger file mean.

A row that is not as we write them is a ValueError: the file may be anybody's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from factored_mwem.accounting.cap import Cap, Cost, Limits
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.ledger.chain import Event, Row

STATES = ("reserved", "spent", "finished", "failed")
"""reserved: noise may have been drawn; spent: all of it was; finished: the files are in place; failed: it
ended by an error. All of them count.
"""
MAX_NAME_LENGTH = 200
"""Characters of a dataset's name, or of a run id."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table by the name that its owner gives it, and what may be spent on it."""

    name: str
    cap: Cap
    neighbours: Neighbours
    contributions: int
    """Most rows of one person that the cap is about."""
    privacy_id: str | None
    """The column that, as its owner says, names the person."""
    limits: Limits | None


@dataclass(frozen=True, slots=True)
class Reservation:
    """What is entered of a release before its first noise.

    `fingerprint`: keyed, of the input, where it has a run id; `mark`: a random number of its own, which is in
    the head of its journal, too.
    """

    dataset: str
    cost: Cost
    run_id: str | None
    parameters: dict[str, Any]
    fingerprint: bytes | None
    tool_version: str
    mark: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A release in the books; see Reservation. `files`: of each time it was finished, sha256 by role."""

    number: int
    run_id: str | None
    state: str
    reserved: Cost
    spent: Cost | None
    parameters: dict[str, Any]
    fingerprint: bytes | None
    mark: str | None
    files: list[dict[str, str]]
    tool_version: str
    begun: str
    changed: str

    @property
    def cost(self) -> Cost:
        """What counts: what was spent once that is known, until then all that was reserved."""
        return self.spent or self.reserved


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rows of a ledger as they stand in the file, which may be anybody's."""

    version: int
    whole: bool
    """SQLite finds no fault in the file itself."""
    datasets: list[Row]
    releases: list[Row]
    events: list[Event]


def dataset_of(row: Row) -> Dataset:
    numbers = [row[name] for name in ("epsilon", "delta", "rho")]
    if not all(value is None or isinstance(value, float) for value in numbers):
        raise ValueError("cap")
    epsilon, delta, rho = (None if value is None else Fraction(value) for value in numbers)
    limits = None
    if row["limit_rho"] is not None:
        limits = Limits(fraction_of(row["limit_rho"]), fraction_of(row["limit_delta"]))
        all_of_delta = rho is not None and limits.delta == delta
        if not (limits.delta == 0 or limits.delta < (delta or 0) or all_of_delta):
            raise ValueError("limits")
    if not isinstance(row["name"], str) or not isinstance(row["privacy_id"], str | None):
        raise ValueError("names")
    cap = Cap(epsilon, delta or Fraction(0), rho)
    return Dataset(
        row["name"], cap, Neighbours(row["neighbours"]), int(row["contributions"]), row["privacy_id"], limits
    )


def entry_of(row: Row) -> Entry:
    kind = Composition(row["composition"])
    reserved, spent = Cost(kind, fraction_of(row["amount"]), fraction_of(row["delta"])), None
    if row["spent_amount"] is not None:
        spent = Cost(kind, fraction_of(row["spent_amount"]), fraction_of(row["spent_delta"]))
    if row["state"] not in STATES:
        raise ValueError("state")
    facts, wrote = json.loads(row["parameters"]), json.loads(row["files"])
    run_id, mark = row["run_id"], row["mark"]
    texts = (row["tool_version"], row["reserved"], row["changed"], run_id or "", mark or "")
    whole = isinstance(facts, dict) and isinstance(wrote, list) and all(isinstance(w, dict) for w in wrote)
    if not whole or not all(isinstance(text, str) for text in texts):
        raise ValueError("entry")
    version, begun, changed, *_ = texts
    about = (facts, row["fingerprint"], mark, wrote, version, begun, changed)
    return Entry(row["id"], run_id, row["state"], reserved, spent, *about)


def fraction_of(text: Any) -> Fraction:
    """A cost as we write it; in Fraction's own grammar "1e999999999" is a number that takes all memory."""
    if not isinstance(text, str) or len(text) > 1000 or not re.fullmatch("[0-9]+(/[0-9]+)?", text):
        raise ValueError("fraction")
    return Fraction(text)
