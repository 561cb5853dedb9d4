"""Result of an attack, NOT PRIVATE, and how hard it tried."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from factored_mwem.errors import InputError
from factored_mwem.owner.attack.bounds import bound_of, one_run

FAILURE = 0.05
"""Most probability that any bound of an attack is wrong: all of them hold together."""
KINDS = ("epsilon", "advantage")


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard an attack tries.

    `releases` with all `targets` and as many without each; `canaries` in one more; `people`: as many of the
    table take part, drawn at random (0: all); `guessed`: the column whose value is guessed, by default the
    last. Raises InputError for less than an attack needs.

    >>> from factored_mwem import Effort
    >>> Effort(releases=200).targets
    4
    """

    releases: int = 100
    targets: int = 4
    canaries: int = 200
    people: int = 1000
    guessed: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("releases", 8), ("targets", 1), ("canaries", 0), ("people", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)}: must be a whole number, {least} or more")


@dataclass(frozen=True, slots=True)
class Score:
    """What one score shows about one target: the `advantage` of the best threshold, on releases that did not
    choose it, and the lower bounds.
    """

    target: int
    kind: str
    name: str
    advantage: float
    least_advantage: float
    least_epsilon: float


@dataclass(frozen=True, slots=True)
class Attack:
    """NOT PRIVATE. What an attack found beside what was promised.

    `canaries`: (how many, guesses, right ones), and `canaries_epsilon` the lower bound from them.

    >>> from factored_mwem import Attack
    >>> found = Attack(1.0, 0.0, 0.47, 1000, 501, (), (200, 100, 100), 2.9)
    >>> found.holds, found.least_epsilon
    (False, 2.9)
    """

    epsilon: float
    delta: float
    advantage: float
    people: int
    releases: int
    scores: tuple[Score, ...]
    canaries: tuple[int, int, int]
    canaries_epsilon: float

    @property
    def least_epsilon(self) -> float:
        """The greatest lower bound on epsilon."""
        return max([self.canaries_epsilon, *(score.least_epsilon for score in self.scores)])

    @property
    def least_advantage(self) -> float:
        """The greatest lower bound on the advantage of a guess."""
        return max((score.least_advantage for score in self.scores), default=0.0)

    @property
    def shown_at_most(self) -> float:
        """The lower bound on epsilon that so many releases and canaries show, were every guess right."""
        judged = self.releases // (2 * (1 + self.scores[-1].target + 1))
        failure = FAILURE / (len(self.scores) * len(KINDS) + 1)
        every, none = ((np.array([count]), judged) for count in (judged, 0))
        alone = float(bound_of(every, none, "epsilon", self.delta, failure)[0])
        many, guesses, _ = self.canaries
        return max(alone, one_run(many, guesses, guesses, self.delta, failure)) if guesses else alone

    @property
    def holds(self) -> bool:
        """Whether no bound is beyond what was promised."""
        return self.least_epsilon <= self.epsilon and self.least_advantage <= self.advantage

    @property
    def facts(self) -> dict[str, Any]:
        """The same as JSON; null for a bound that is infinite."""
        scores = [
            {
                "target": score.target,
                "kind": score.kind,
                "score": score.name,
                "advantage": score.advantage,
                "advantage_at_least": score.least_advantage,
                "epsilon_at_least": _finite(score.least_epsilon),
            }
            for score in self.scores
        ]
        many, guesses, right = self.canaries
        return {
            "private": False,
            "holds": self.holds,
            "promised": {"epsilon": self.epsilon, "delta": self.delta, "advantage": self.advantage},
            "found": {
                "epsilon_at_least": _finite(self.least_epsilon),
                "advantage_at_least": self.least_advantage,
            },
            "confidence": 1 - FAILURE,
            "shown_at_most": self.shown_at_most,
            "people": self.people,
            "releases": self.releases,
            "canaries": {
                "canaries": many,
                "guesses": guesses,
                "right": right,
                "epsilon_at_least": _finite(self.canaries_epsilon),
            },
            "scores": scores,
        }


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None
