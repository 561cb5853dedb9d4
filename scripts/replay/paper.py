"""MWEM in paper mode: exact n under add-remove neighbours, floating-point noise from a seeded generator,
sensitivity 1. NOT PRIVATE.

A type of its own, so that none of it is a switch of the product; components, kernels and query kinds are the
product's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from factored_mwem import Domain
from factored_mwem.model.dense import Factor, ProductModel, step
from factored_mwem.workload.queries.base import Questions
from replay.data import Table


@dataclass(frozen=True)
class Paper:
    """What section 2.3.3 leaves open. `init_share` of epsilon goes to noisy counts of all cells (needs
    joined=True), 0 for none.

    `sweeps` over all measurements after each round (1 without replay: then the newest alone); a replayed step
    is left out where the model lies within `guard` standard deviations of the noise. `joined`: one component
    from the start, else components grow.
    """

    epsilon: float
    rounds: int
    sweeps: int = 1
    guard: float = 0.0
    init_share: float = 0.0
    average: bool = False
    joined: bool = False
    again: bool = False
    """Whether a question may be asked twice."""


@dataclass(frozen=True, eq=False)
class Task:
    """What may be asked, and the exact answers (`truth: int64[answers]`); `histogram`: the cells, where a run
    may start from them.
    """

    questions: Questions
    truth: np.ndarray
    domain: Domain
    total: float
    histogram: np.ndarray | None = None

    @classmethod
    def of(cls, questions: Questions, table: Table) -> Task:
        return cls(
            questions, questions.answers(table.rows), table.domain, float(table.total), table.histogram()
        )


@dataclass
class Trace:
    """The final model, which question each round chose, and what `watch` said after each round."""

    model: ProductModel
    asked: list[int] = field(default_factory=list)
    watched: list[object] = field(default_factory=list)


def paper_mwem(
    task: Task,
    paper: Paper,
    rng: np.random.Generator,
    *,
    watch: Callable[[ProductModel], object] | None = None,
) -> Trace:
    """Figure 1 of the paper; `watch` sees the model after each round."""
    truth, questions = task.truth, task.questions
    if paper.average and not paper.joined:
        raise ValueError("an average of products is no product: average=True needs joined=True")
    if paper.rounds > len(questions.cells) and not paper.again:
        raise ValueError(
            f"{paper.rounds} rounds ask more than the {len(questions.cells)} questions there are"
        )
    model = ProductModel.uniform(task.domain, task.total, joined=paper.joined)
    epsilon = paper.epsilon * (1 - paper.init_share)
    if paper.init_share:
        assert task.histogram is not None
        model.replace(start_from(task.histogram, paper.epsilon * paper.init_share, model.components[0], rng))
    starts = np.concatenate([[0], np.cumsum(questions.cells)]).astype(np.int64)
    scale = 2 * paper.rounds / epsilon
    open_ = np.ones(len(starts) - 1, dtype=bool)
    measured: list[tuple[int, np.ndarray]] = []
    trace, average = Trace(model), np.zeros(0)
    for _ in range(paper.rounds):
        if paper.average:
            average = model.components[0].weights + (average if len(average) else 0)
        gaps = np.abs(questions.answers(model) - truth)
        scores = np.add.reduceat(gaps, starts[:-1]) - np.where(questions.cells > 1, questions.cells, 0)
        chosen = int(
            np.argmax(
                np.where(
                    open_, scores * epsilon / (4 * paper.rounds) + rng.gumbel(size=len(scores)), -math.inf
                )
            )
        )
        open_[chosen] = paper.again
        measured.append(
            (
                chosen,
                truth[starts[chosen] : starts[chosen + 1]]
                + rng.laplace(scale=scale, size=int(questions.cells[chosen])),
            )
        )
        update(model, questions, measured, scale, paper)
        trace.asked.append(chosen)
        if watch:
            trace.watched.append(watch(model))
    if len(average):
        whole = model.components[0]
        model.replace(Factor(whole.positions, whole.shape, average / average.sum()))
    return trace


def update(
    model: ProductModel,
    questions: Questions,
    measured: Sequence[tuple[int, np.ndarray]],
    scale: float,
    paper: Paper,
) -> None:
    """Step towards the newest measurement and, with replay, sweep over all that lie in its component."""
    part = model.merge(questions.positions(measured[-1][0]))
    part = Factor(part.positions, part.shape, part.weights.copy())
    inside = set(part.positions)
    step(part, questions, *measured[-1], model.total, guard=0.0)
    again = [m for m in measured if inside.issuperset(questions.positions(m[0]))]
    for _ in range(paper.sweeps - 1):
        before = part.weights.copy() if paper.guard else None
        for question, noisy in again:
            step(part, questions, question, noisy, model.total, guard=paper.guard * scale * math.sqrt(2))
        if before is not None and np.array_equal(before, part.weights):
            break
    model.replace(part)


def start_from(histogram: np.ndarray, epsilon: float, part: Factor, rng: np.random.Generator) -> Factor:
    """Noisy counts of all cells, those below the noise left out, half mixed with uniform (as in Hardt's own
    code, its broken threshold mended).
    """
    noisy = np.maximum(histogram + rng.laplace(scale=1 / epsilon, size=len(histogram)) - 1 / epsilon, 0.0)
    share = noisy / noisy.sum() if noisy.sum() > 0 else np.full(len(noisy), 1 / len(noisy))
    return Factor(part.positions, part.shape, (share + 1 / len(noisy)) / 2)
