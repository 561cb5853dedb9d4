"""Rule: whether a query is worth a test, or is measured at once. Decided by what was seen: noisy answers and
what tests said, both paid for; so the rule costs nothing, and no answer is less accurate for it.

A test that says yes is over: another one and the measurement are then due. So a test is worth its risk as
long as the probability of a yes is below m / (t + m), where m is what measuring costs and t what beginning a
test does. That probability is looked up among queries alike: how often the model was off by more than the
threshold. Measured answers tell that, too, so a model that nobody knows is measured first, and tested once it
has earned it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

PRIOR = 0.5
"""Of each, yes and no, before anything was seen (Jeffreys)."""
WEIGHT = 2.0
"""Queries that what is known of all queries counts for among those alike."""
FORGET = 0.97
"""What a query counts for after the next one alike: models get better."""


@dataclass(slots=True)
class _Seen:
    yes: float = 0.0
    no: float = 0.0

    def add(self, off: bool) -> None:
        self.yes, self.no = self.yes * FORGET + off, self.no * FORGET + (not off)


@dataclass(slots=True)
class Rule:
    """What was seen so far, by kind of query and of all."""

    _alike: dict[Hashable, _Seen] = field(default_factory=dict)
    _all: _Seen = field(default_factory=_Seen)

    def see(self, kind: Hashable, *, off: bool) -> None:
        """The model was off by more than the threshold, as far as noise can tell, or not."""
        self._alike.setdefault(kind, _Seen()).add(off)
        self._all.add(off)

    def risk(self, kind: Hashable) -> float:
        """The probability that a test says yes."""
        seen = self._alike.get(kind, _Seen())
        whole = (self._all.yes + PRIOR) / (self._all.yes + self._all.no + 2 * PRIOR)
        return (seen.yes + WEIGHT * whole) / (seen.yes + seen.no + WEIGHT)

    def worth_a_test(self, kind: Hashable, measuring: float, testing: float) -> bool:
        """Whether testing is expected to cost less than measuring at once."""
        return self.risk(kind) * (testing + measuring) < measuring
