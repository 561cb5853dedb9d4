"""MWEM in paper mode: the product's own loop, learner, schedule and accountant, with exact n under add-remove
neighbours and floating-point noise from a seeded generator. NOT PRIVATE.

A learner of its own has what the product does not offer, so that none of it is a switch there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from factored_mwem import Domain, Policy
from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.unit import Unit
from factored_mwem.mechanisms.mwem import DenseFit, QueryLearner
from factored_mwem.mechanisms.queries import Queries
from factored_mwem.mechanisms.rounds import rounds
from factored_mwem.mechanisms.schedule import Round, Schedule
from factored_mwem.mechanisms.total import Total
from factored_mwem.model.dense import Asked, Factor, ProductModel, inside, sweep
from factored_mwem.privacy.counts import PrivateAnswers, PrivateRows
from factored_mwem.privacy.session import Eligible, Measurement, Session
from factored_mwem.workload.queries.base import Questions
from replay.data import Exact
from replay.noise import SeededNotPrivateNoise

HALF = Fraction(1, 2)
"""Of a round's epsilon goes to the choice, as much to the answer: HLM12 Fig. 1."""


@dataclass(frozen=True)
class Paper:
    """What section 2.3.3 leaves open. `init_share` of epsilon goes to noisy counts of all cells (needs
    joined=True), 0 for none.

    `sweeps` over all measurements after each round (1 without replay: then the newest alone); a replayed step
    is left out where the model lies within `guard` standard deviations of the noise. `joined`: one component
    from the start, else components grow, none beyond `cap` cells. A question's score loses 1 for each of its
    cells, or (`noise_penalty`) the noise to expect there. A question may be asked again with `repeats` alone:
    Figure 1 of the paper lets it, its listing (Figure 8) does not.
    """

    epsilon: float
    rounds: int
    sweeps: int = 1
    guard: float = 0.0
    init_share: float = 0.0
    average: bool = False
    joined: bool = False
    cap: int = 2**40
    noise_penalty: bool = False
    repeats: bool = False


@dataclass(frozen=True, eq=False)
class Task:
    """What may be asked, the exact answers (`truth: int64[answers]`), and both rows and answers as the
    product seals them.
    """

    questions: Questions
    truth: np.ndarray
    domain: Domain
    total: float
    rows: PrivateRows
    answers: PrivateAnswers

    @classmethod
    def of(cls, questions: Questions, domain: Domain, rows: Exact) -> Task:
        sealed = PrivateRows.coded(rows.codes, domain)
        truth, total = questions.answers(rows), float(len(rows.codes[0]))
        return cls(questions, truth, domain, total, sealed, sealed.answer(domain, [questions]))

    def session(self, epsilon: float, rng: np.random.Generator) -> Session:
        """A session of the product over these rows that has `epsilon` to spend."""
        accountant = Accountant(Budget.of(epsilon, 0.0))
        return Session(accountant, Unit(), SeededNotPrivateNoise(rng), self.rows)


@dataclass(frozen=True)
class Trace:
    """The final model, and which question each round chose."""

    model: ProductModel
    asked: list[int]


def paper_mwem(
    task: Task,
    paper: Paper,
    rng: np.random.Generator,
    *,
    watch: Callable[[ProductModel], None] = lambda model: None,
) -> Trace:
    """Figure 1 of the paper; `watch` sees the model after each round."""
    if paper.average and not paper.joined:
        raise ValueError("an average of products is no product: average=True needs joined=True")
    if paper.rounds > len(task.questions.cells) and not paper.repeats:
        raise ValueError(f"{paper.rounds} rounds ask more than the {len(task.questions.cells)} questions")
    session = task.session(paper.epsilon, rng)
    model = ProductModel.uniform(task.domain, task.total, joined=paper.joined)
    if paper.init_share:
        model.replace(start_from(session, model.components[0], Fraction(paper.init_share)))
    learner = PaperLearner(session, task, paper, model)
    schedule = Schedule(session.accountant, paper.rounds, HALF)
    rounds(session, learner, schedule, lambda _: watch(model))
    if paper.average:
        whole = model.components[0]
        model.replace(Factor(whole.positions, whole.shape, learner.sum / learner.sum.sum()))
    return Trace(model, [question for _, question, _ in learner.measured])


class PaperLearner(QueryLearner):
    """The product's learner from questions, with the paper's scores and sweeps; `sum` of the iterates before
    each round, where their average is wanted.
    """

    def __init__(self, session: Session, task: Task, paper: Paper, model: ProductModel) -> None:
        dense = DenseFit(model, Policy.of(engine="mwem", max_cells=paper.cap), Total(task.total))
        super().__init__(session, dense, Queries.about([task.questions], [1.0]), task.answers)
        self.paper, self.sum = paper, np.zeros(1)

    def eligible(self, step: Round) -> Eligible:
        if self.paper.repeats:
            self._unasked[:] = True
        if self.paper.average:
            self.sum = self.sum + self.dense.model.components[0].weights
        return super().eligible(step)

    def penalty(self, cost: Fraction) -> np.ndarray:
        return super().penalty(cost) if self.paper.noise_penalty else self.queries.cells.astype(np.float64)

    def update(self) -> None:
        update(self.dense.model, self.measured, self.paper)


def update(model: ProductModel, asked: Sequence[Asked], paper: Paper) -> None:
    """Step towards the newest measurement and, with replay, sweep over all that lie in its component."""
    kind, question, _ = asked[-1]
    part = model.merge(kind.positions(question))
    again = inside(part, asked)
    part = sweep(part, asked[-1:], model.total, sweeps=1, guard=0.0)
    model.replace(sweep(part, again, model.total, sweeps=paper.sweeps - 1, guard=paper.guard))


def start_from(session: Session, part: Factor, share: Fraction) -> Factor:
    """Noisy counts of all cells, those below the noise left out, half mixed with uniform (as in Hardt's own
    code, its broken threshold mended). Cost: `share` of what is left.
    """
    counts: Measurement = session.measure(session.rows, part.positions, cost=session.left * share)
    noisy = np.maximum(counts.noisy - counts.scale.value, 0.0)
    share_of = noisy / noisy.sum() if noisy.sum() > 0 else np.full(len(noisy), 1 / len(noisy))
    return Factor(part.positions, part.shape, (share_of + 1 / len(noisy)) / 2)
