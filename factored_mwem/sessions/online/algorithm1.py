"""Algorithm 1 of Gupta, Roth, Ullman 2011, as printed: one noise for the test and for the answer.

For replays on public tables, and not for private ones. Its privacy proof (theorem 4.1) holds for (epsilon,
delta) as one event, with a constant of 1000 that was never meant to be small: noise for a real session would
be hundreds of times what `mechanism.py` draws, whose charges are those of mechanisms that are proven apart.
So nothing here draws noise or reads a sealed table: both are handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from factored_mwem.sessions.online.constructions import Construction
from factored_mwem.sessions.online.prices import fixed_point

Q = TypeVar("Q")


class Terminated(Exception):
    """There were more updates than the bound allows: the algorithm gives no more answers."""


def sigma_of(bound: float, epsilon: float, delta: float) -> float:
    """The scale of the noise, in records: 1000 sqrt(B(alpha)) log(4 / delta) / epsilon."""
    return 1000 * math.sqrt(bound) * math.log(4 / delta) / epsilon


def threshold_of(sigma: float, queries: int, beta: float) -> float:
    """T(alpha), in records: 4 sigma log(2 k / beta)."""
    return 4 * sigma * math.log(2 * queries / beta)


def level_of(
    bound: Callable[[float], float], epsilon: float, delta: float, queries: int, beta: float
) -> float:
    """The alpha of equation 3, in records: 3 T(alpha) / 4, which is 3000 sqrt(B(alpha)) log(4 / delta)
    log(2 k / beta) / epsilon. With probability 1 - beta updates are a sequence at this level, and answers are
    off by 5 T / 4 = 5 alpha / 3 at most (theorem 4.9). `bound` must not grow with alpha.
    """

    def wanted(alpha: float) -> float:
        return 3 * threshold_of(sigma_of(bound(alpha), epsilon, delta), queries, beta) / 4

    return fixed_point(wanted)


@dataclass(slots=True, eq=False)
class Algorithm1(Generic[Q]):
    """Under way: `noise(sigma)` draws Laplace noise; `truth(query)` is exact, in records; `most`: B(alpha)"""

    construction: Construction[Q]
    truth: Callable[[Q], float]
    noise: Callable[[float], float]
    sigma: float
    threshold: float
    most: float
    updates: int = field(default=0, init=False)
    """C."""

    def answer(self, query: Q) -> float:
        """In records. Terminated once there were more than `most` updates; the last one is still answered."""
        if self.updates > self.most:
            raise Terminated
        noisy, believed = self.truth(query) + self.noise(self.sigma), self.construction.answer(query)
        if abs(noisy - believed) <= self.threshold:
            return believed
        self.construction.update(query, noisy)
        self.updates += 1
        return noisy
