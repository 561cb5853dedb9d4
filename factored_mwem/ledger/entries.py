"""Entries: what the rows of a ledger file mean, and whether the cap of a dataset has room for a release.

A row in an unexpected form raises ValueError: the file may come from anybody.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from factored_mwem.accounting.cap import Cap, CapLimits, CapUse, Cost, floor_digits
from factored_mwem.accounting.conversion import Composition, epsilon_of
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import BudgetExceeded, InputError, must
from factored_mwem.ledger.chain import Event, canonical
from factored_mwem.ledger.schema import Row

if TYPE_CHECKING:
    from factored_mwem.request.promise import Promise

STATES = ("reserved", "spent", "finished", "failed")
"""reserved: noise may have been drawn; spent: all of it was; finished: the files are in place; failed: it
ended by an error. All of them count.
"""
MAX_NAME_LENGTH = 200
"""Most characters of a dataset's name, or of a run id."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table under the name that its owner gives it, and what may be spent on it."""

    name: str
    cap: Cap
    neighbours: Neighbours
    contributions: int
    """The most rows of one person that the cap protects."""
    privacy_id: str | None
    """The column that, as its owner says, names the person."""
    limits: CapLimits | None
    """The limits that a release has set; before that, and without a delta, plain sums count."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The entry of a release before its first noise.

    `fingerprint`: a keyed digest of the input, if there is a run id; `mark`: a random number, which the head
    of its journal holds, too.
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
    """A release in the ledger; see Reservation. `files`: for each time it was finished, the sha256 of its
    files by role.
    """

    number: int
    run_id: str | None
    state: str
    reserved: Cost
    spent: Cost | None
    parameters: dict[str, Any]
    fingerprint: bytes | None
    mark: str
    files: list[dict[str, str]]
    tool_version: str
    reserved_at: str
    changed: str

    @property
    def cost(self) -> Cost:
        """The cost that counts: what was spent, once that is known; until then what was reserved."""
        return self.spent or self.reserved


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rows of a ledger as they stand in the file, which may come from anybody."""

    whole: bool
    """SQLite finds no fault in the file itself."""
    datasets: list[Row]
    releases: list[Row]
    events: list[Event]


def check_terms(dataset: Dataset, policy: Promise) -> None:
    """Raises InputError if a release would not protect those whom the cap protects."""
    name = f"dataset {dataset.name!r}"
    if policy.neighbours is not dataset.neighbours:
        kept = f"is kept under --neighbours {dataset.neighbours}"
        raise InputError(f"{name} {kept}, this release says {policy.neighbours}")
    by_id = None if dataset.privacy_id is None else f"--privacy-id {shlex.quote(dataset.privacy_id)}"
    if policy.privacy_id is not None:
        # Only the owner can say which column names people: bounding rows by another column bounds nobody's.
        if policy.privacy_id != dataset.privacy_id:
            goes_by = "has no column that names the person" if by_id is None else f"goes by {by_id}"
            says = f"this release says {policy.privacy_id!r}"
            raise InputError(f"{name} {goes_by}, {says}; see `fmwem ledger add --help`")
    elif policy.contributions < dataset.contributions:
        raise InputError(
            f"{name} has up to {dataset.contributions} rows of one person, this release assumes "
            f"{policy.contributions}; use --contributions {dataset.contributions}"
            f"{'' if by_id is None else f' or {by_id}'}"
        )


def admit(dataset: Dataset, costs: Sequence[Cost], cost: Cost) -> CapLimits | None:
    """The limits under which a release follows those of `costs`; raises BudgetExceeded if it may not."""
    limits = dataset.limits or dataset.cap.limits(costs, cost)
    if dataset.cap.admits([*costs, cost], limits):
        return limits
    cap, left = dataset.cap, dataset.cap.left(costs, dataset.limits, pure=cost.pure)
    # at all of the cap's delta: if that is too much, no smaller delta helps
    asked = 0.0 if cost.pure or cap.rho is not None or not cap.delta else epsilon_of(cost.amount, cap.delta)
    if cap.rho is None and cap.delta == 0 and not cost.pure:
        why = "its cap has delta 0, which admits pure releases only; use --delta 0"
    elif 0 < left < asked:
        why = f"--epsilon {left:g} at --delta {float(cap.delta):g} is the most that would fit"
    elif left > 0 and CapUse.of([*costs, cost], limits).delta > (limits or cap).delta:
        why = "its delta is more than is left of the cap's; use a smaller --delta"
        if limits is not None:
            kept = "the delta kept for learnt categories does not suffice"
            why = f"{kept}; declare a domain or use a smaller --delta"
    elif not left:
        why = "nothing is left"
        if not cost.pure and (pure := cap.left(costs, dataset.limits, pure=True)):
            why = f"only a pure release of --epsilon {pure:g} at --delta 0 would fit"
    elif cost.pure or cap.rho is None:
        delta = 0 if cost.pure else float(cap.delta)
        why = f"--epsilon {left:g} at --delta {delta:g} is the most that would fit"
    else:
        epsilon = floor_digits(epsilon_of(Fraction(left), Fraction(1, 10**9)))
        why = f"rho {left:g} is left; --epsilon {epsilon:g} at --delta 1e-9 would fit"
    message = f"dataset {dataset.name!r} does not admit this release: {why}. Nothing was spent"
    raise BudgetExceeded(message, asked=cost.amount, left=Fraction(left))


def dataset_of(row: Row) -> Dataset:
    numbers = [row[name] for name in ("epsilon", "delta", "rho")]
    must(all(value is None or isinstance(value, float) for value in numbers), "cap")
    epsilon, delta, rho = (None if value is None else Fraction(value) for value in numbers)
    must(isinstance(row["name"], str) and isinstance(row["privacy_id"], str | None), "names")
    cap = Cap(epsilon, delta or Fraction(0), rho)
    limits = None if row["limits"] is None else limits_of(row["limits"])
    must(limits is None or (0 <= limits.rest < 1 and (limits.rest > 0 or rho is not None)), "limits")
    unit = (Neighbours(row["neighbours"]), int(row["contributions"]), row["privacy_id"])
    return Dataset(row["name"], cap, *unit, limits)


def limits_in_text(limits: CapLimits) -> str:
    """The limits as the ledger keeps them: exact numbers as text, and the number of releases before them."""
    facts = asdict(limits)
    return canonical(
        {name: value if name == "after" or value is None else str(value) for name, value in facts.items()}
    )


def limits_of(text: Any) -> CapLimits:
    facts = json.loads(text)
    must(isinstance(facts, dict) and set(facts) == {field.name for field in fields(CapLimits)}, "limits")
    after, order = facts.pop("after"), facts.pop("order")
    must(type(after) is int and after >= 0, "limits")
    numbers = {name: fraction_of(value) for name, value in facts.items()}
    limits = CapLimits(after=after, order=None if order is None else fraction_of(order), **numbers)
    must(limits.order is None or limits.order > 1, "limits")
    return limits


def entry_of(row: Row) -> Entry:
    kind = Composition(row["composition"])
    reserved, spent = Cost(kind, fraction_of(row["amount"]), fraction_of(row["delta"])), None
    if row["spent_amount"] is not None:
        spent = Cost(kind, fraction_of(row["spent_amount"]), fraction_of(row["spent_delta"]))
    must(row["state"] in STATES, "state")
    facts, wrote = json.loads(row["parameters"]), json.loads(row["files"])
    run_id, mark = row["run_id"], row["mark"]
    texts = (row["tool_version"], row["reserved"], row["changed"], run_id or "", mark)
    whole = isinstance(facts, dict) and isinstance(wrote, list) and all(isinstance(w, dict) for w in wrote)
    must(whole and all(isinstance(text, str) for text in texts), "entry")
    version, reserved_at, changed, *_ = texts
    about = (facts, row["fingerprint"], mark, wrote, version, reserved_at, changed)
    return Entry(row["id"], run_id, row["state"], reserved, spent, *about)


def fraction_of(text: Any) -> Fraction:
    """A cost in the form that we write. (The grammar of Fraction also accepts "1e999999999", a number that
    takes all memory.)
    """
    ours = isinstance(text, str) and len(text) <= 1000 and re.fullmatch("[0-9]+(/[0-9]+)?", text)
    must(ours, "fraction")
    return Fraction(text)
