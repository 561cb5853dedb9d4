"""Who asks: sequences of updates that a table allows, made to be as long as they can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from factored_mwem.sessions.online.constructions import Construction, Update

Query = TypeVar("Query")
Ask = Callable[[int, np.ndarray], int | None]
"""The number of the next query, given the step and all gaps (signed, records); None: there is none."""


def greedy(step: int, gaps: np.ndarray) -> int:
    """The query that is answered worst."""
    return int(np.abs(gaps).argmax())


def alternating(alpha: float) -> Ask:
    """The worst of those answered too high, then too low, in turn; the worst of all where there is none."""

    def ask(step: int, gaps: np.ndarray) -> int:
        signed = gaps if step % 2 else -gaps
        return int(signed.argmax()) if signed.max() >= alpha else greedy(step, gaps)

    return ask


def least(alpha: float) -> Ask:
    """The query that is off by the least that is still alpha: updates that gain the least."""

    def ask(step: int, gaps: np.ndarray) -> int:
        off = np.abs(gaps)
        return int(np.where(off >= alpha, off, np.inf).argmin())

    return ask


def at_random(rng: np.random.Generator, alpha: float) -> Ask:
    """Any that is off by alpha or more."""

    def ask(step: int, gaps: np.ndarray) -> int:
        return int(rng.choice(np.flatnonzero(np.abs(gaps) >= alpha)))

    return ask


@dataclass(frozen=True)
class Case(Generic[Query]):
    """A construction and a table: `make` a fresh one, the true answers, queries to attack with; where
    there is one, the potential of the proof, and by how much an update along a query lessens it at least.
    """

    make: Callable[[], Construction[Query]]
    truth: Callable[[Query], float]
    queries: Sequence[Query]
    alpha: float
    potential: Callable[[Any], float] | None = None
    least_drop: Callable[[Query], float] | None = None


def attack(case: Case[Query], ask: Ask, *, lie: float = 0.0) -> tuple[Any, list[Update[Query]], list[float]]:
    """(construction, updates, potentials before the first and after each) until no query is off by alpha,
    or there are more than the bound allows. `lie`: how far values are from the truth, towards the
    hypothesis, as a share of alpha.
    """
    made, updates = case.make(), list[Update[Query]]()
    truth = np.array([case.truth(query) for query in case.queries])
    potential = case.potential or (lambda made: 0.0)
    potentials = [potential(made)]
    while len(updates) <= made.bound(case.alpha) + 5:
        answers = np.array([made.answer(query) for query in case.queries])
        gaps = answers - truth
        if np.abs(gaps).max() < case.alpha:
            return made, updates, potentials
        q = ask(len(updates), gaps)
        value = truth[q] + np.sign(gaps[q]) * lie * case.alpha
        updates.append(Update(case.queries[q], value, answers[q]))
        made.update(case.queries[q], value)
        potentials.append(potential(made))
    return made, updates, potentials  # more than there may be
