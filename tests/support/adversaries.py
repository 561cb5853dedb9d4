"""Who asks: sequences of updates that a table allows, made to be as long as they can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from factored_mwem.interactive.sequence import Update

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


def attack(
    construction: Any, table: np.ndarray, queries: np.ndarray, alpha: float, ask: Ask, *, lie: float = 0.0
) -> tuple[list[Update[np.ndarray]], list[float]]:
    """(updates, potentials before the first and after each) until no query of `queries: float64[k, element]`
    is off by alpha. `lie`: how far values are from the truth, towards the hypothesis, as a share of alpha.
    """
    truth, updates, potentials = queries @ table, [], [construction.potential(table)]
    while len(updates) < 20_000:
        answers = np.array([construction.answer(query) for query in queries])
        gaps = answers - truth
        if np.abs(gaps).max() < alpha:
            return updates, potentials
        q = ask(len(updates), gaps)
        value = truth[q] + np.sign(gaps[q]) * lie * alpha
        updates.append(Update(queries[q], value, answers[q]))
        construction.update(queries[q], value)
        potentials.append(construction.potential(table))
    raise AssertionError("without end")
