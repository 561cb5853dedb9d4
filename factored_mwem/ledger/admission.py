"""Admission: whether a dataset's cap covers a release, and has room for it; where not, why."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from factored_mwem.accounting.cap import Cost, Limits, floor_digits
from factored_mwem.accounting.conversion import epsilon_of
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.errors import BudgetExceeded, InputError
from factored_mwem.ledger.entries import Dataset


class Protecting(Protocol):
    """Whom somebody's results protect; a release's policy says so, among other things."""

    @property
    def neighbours(self) -> Neighbours: ...

    @property
    def contributions(self) -> int: ...

    @property
    def privacy_id(self) -> str | None: ...


def check_terms(dataset: Dataset, policy: Protecting) -> None:
    """InputError where a release would protect others than the cap is about."""
    name = f"dataset {dataset.name!r}"
    if policy.neighbours is not dataset.neighbours:
        kept = f"is kept under --neighbours {dataset.neighbours}"
        raise InputError(f"{name} {kept}, this release says {policy.neighbours}")
    by_id = None if dataset.privacy_id is None else f"--privacy-id {shlex.quote(dataset.privacy_id)}"
    if policy.privacy_id is not None:
        # Whom it names is the owner's to say: rows bounded by another column bound nobody's.
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


def admit(dataset: Dataset, costs: Sequence[Cost], cost: Cost) -> Limits:
    """The limits under which a release follows those of `costs`; BudgetExceeded where it may not."""
    limits = dataset.limits or dataset.cap.limits(cost)
    if dataset.cap.admits([*costs, cost], limits):
        return limits
    cap, left = dataset.cap, dataset.cap.left(costs, dataset.limits, pure=cost.pure)
    if cap.rho is None and cap.delta == 0 and not cost.pure:
        why = "its cap has delta 0, which admits pure releases only; use --delta 0"
    elif left > 0 and cost.delta + sum(c.delta for c in costs) > limits.delta:
        kept = "the delta kept for learnt categories does not suffice"
        why = f"{kept}; declare a domain or use a smaller --delta"
    elif not left:
        why = "nothing is left"
    elif cost.pure or cap.rho is None:
        delta = 0 if cost.pure else float(cap.delta)
        why = f"--epsilon {left:g} at --delta {delta:g} is the most that would fit"
    else:
        epsilon = floor_digits(epsilon_of(Fraction(left), Fraction(1, 10**9)))
        why = f"rho {left:g} is left; --epsilon {epsilon:g} at --delta 1e-9 would fit"
    message = f"dataset {dataset.name!r} does not admit this release: {why}. Nothing was spent"
    raise BudgetExceeded(message, asked=cost.amount, left=Fraction(left))
