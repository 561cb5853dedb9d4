"""Whether a list of updates is an update sequence of the theorems, and no longer than they say.

Gupta, Roth, Ullman 2011, definition 3.1 (lecture 9, definition 1): (1) the hypothesis is a new one; (2) each
query is answered wrongly by alpha or more; (3) each value is less than alpha from the true answer; (4) each
hypothesis is the last one's update. It reads the table: for tests, and for tables that are public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from factored_mwem.interactive.construction import Construction

Q = TypeVar("Q")


@dataclass(frozen=True, slots=True)
class Update(Generic[Q]):
    """One update as a mechanism notes it: the query, the value it was told, and what the hypothesis answered
    before, in records.
    """

    query: Q
    value: float
    answered: float


@dataclass(frozen=True, slots=True)
class Checked:
    """How many updates there were, how many there may be, and what is `broken`, in words."""

    updates: int
    bound: float
    broken: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether it is an update sequence, and no longer than its bound."""
        return not self.broken


def check(
    fresh: Construction[Q],
    updates: Iterable[Update[Q]],
    truth: Callable[[Q], float],
    alpha: float,
    *,
    rounding: float = 1e-9,
) -> Checked:
    """Replays `updates` on a `fresh` construction (1), and compares each with the `truth`: (2), (3) and (4),
    and their number with B(alpha). `rounding`: how far numbers may be off, relative to the truth or 1 record.
    """
    broken, count = [], 0
    for count, update in enumerate(updates, start=1):
        exact, answered = truth(update.query), fresh.answer(update.query)
        slack = rounding * max(1.0, abs(exact))
        if abs(answered - update.answered) > slack:
            broken.append(f"update {count}: the hypothesis answers {answered:g}, not {update.answered:g} (4)")
        if abs(exact - answered) < alpha - slack:
            broken.append(f"update {count}: the answer is off by {abs(exact - answered):g} only (2)")
        if abs(exact - update.value) >= alpha + slack:
            broken.append(f"update {count}: the value is off by {abs(exact - update.value):g} (3)")
        fresh.update(update.query, update.value)
    bound = fresh.bound(alpha)
    if count > bound:
        broken.append(f"{count} updates, but the bound is {bound:g}")
    return Checked(count, bound, tuple(broken))
