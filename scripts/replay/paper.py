"""MWEM in paper mode: the product's own loop, learner, schedule and accountant, with exact n under add-remove
neighbours and floating-point noise from a seeded generator. NOT PRIVATE.

A learner of its own has what the product does not offer, so that none of it is a switch there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from factored_mwem import Domain, Policy
from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.mechanisms.mwem import DenseFit, QueryLearner
from factored_mwem.mechanisms.queries import Queries
from factored_mwem.mechanisms.result import Total
from factored_mwem.mechanisms.rounds import Round, Schedule, rounds
from factored_mwem.model.dense import AnsweredQuestion, Factor, ProductModel, inside, sweep
from factored_mwem.privacy.answers import PrivateAnswers
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.session import Eligible, Measurement, Session
from factored_mwem.workload.queries.base import Questions
from factored_mwem.workload.queries.parities import Parities
from replay.data import Exact

HALF = Fraction(1, 2)
"""Of a round's epsilon goes to the choice, as much to the answer: HLM12 Fig. 1."""
UNLIMITED = 2**40
"""Cells of a component: the paper has no limit."""


class SeededNotPrivateNoise:
    """NOT PRIVATE: whoever knows the seed knows the noise, and floating-point noise gives away low bits.

    It has the three methods of `factored_mwem.privacy.noise.Noise`, at the same scales: a choice by Gumbel
    noise, which is the exponential mechanism exp(score / scale) of HLM12 Fig. 1 2(a); Laplace noise under
    pure differential privacy, 2(b), else Gaussian. Answers are not rounded.
    """

    def __init__(self, seed: int | np.random.Generator, composition: Composition = Composition.PURE) -> None:
        self.composition = composition
        self._rng = np.random.default_rng(seed)

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return int(np.argmax(scores / scale + self._rng.gumbel(size=len(scores))))

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        pure = self.composition is Composition.PURE
        draw = self._rng.laplace if pure else self._rng.normal
        noisy: np.ndarray = values + draw(scale=scale, size=len(values))
        return noisy

    def threshold(
        self, counts: dict[str, int], *, scale: float, threshold: int, listed: Sequence[str] = ()
    ) -> dict[str, int]:
        noisy = {key: count + round(self._rng.normal(scale=scale)) for key, count in counts.items()}
        return {key: count for key, count in noisy.items() if count >= threshold or key in listed}


@dataclass(frozen=True)
class Paper:
    """What section 2.3.3 leaves open. `init_share` of epsilon goes to noisy counts of all cells (needs
    joined=True), 0 for none.

    `sweeps` over all measurements after each round (1 without replay: then the newest alone); a replayed step
    is left out where the model lies within `guard` standard deviations of the noise. `joined`: one component
    from the start, else components grow. A question's score loses 1 for each of its cells, or
    (`noise_penalty`) the noise to expect there. A question may be asked again with `repeats` alone: Figure 1
    of the paper lets it, its listing (Figure 8) does not.
    """

    epsilon: float
    rounds: int
    sweeps: int = 1
    guard: float = 0.0
    init_share: float = 0.0
    average: bool = False
    joined: bool = False
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
        return cls(
            questions,
            questions.answers(rows),
            domain,
            float(rows.total),
            sealed,
            PrivateAnswers.of(sealed, domain, [questions]),
        )

    @classmethod
    def of_parities(cls, table: Exact, order: int = 3) -> Task:
        """All parities of at most `order` attributes of a table of bits."""
        return cls.of(Parities.up_to(range(len(table.shape)), order), table.domain, table)

    def session(self, epsilon: float, rng: np.random.Generator) -> Session:
        """A session of the product over these rows that has `epsilon` to spend."""
        accountant = Accountant(Budget.of(epsilon, 0.0))
        return Session(accountant, Unit(), SeededNotPrivateNoise(rng), self.rows)


class Trace(NamedTuple):
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
    asked = run_rounds(learner, lambda: watch(model))
    if paper.average:
        whole = model.components[0]
        model.replace(Factor(whole.positions, whole.shape, learner.sum / learner.sum.sum()))
    return Trace(model, asked)


class PaperLearner(QueryLearner):
    """The product's learner from questions, with the paper's scores and sweeps; `sum` of the iterates before
    each round, where their average is wanted.
    """

    def __init__(self, session: Session, task: Task, paper: Paper, model: ProductModel) -> None:
        dense = DenseFit(model, Policy.of(engine="mwem", max_cells=UNLIMITED), Total(task.total))
        super().__init__(session, dense, Queries.about([task.questions], [1.0]), task.answers)
        self.session, self.paper, self.sum = session, paper, np.zeros(1)

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


def run_rounds(learner: PaperLearner, watch: Callable[[], Any]) -> list[int]:
    """The product's loop over the rounds of the paper, half of each round's price for the choice; `watch` is
    called after each. Returns which question each chose.
    """
    schedule = Schedule(learner.session.accountant, learner.paper.rounds, HALF)
    rounds(learner.session, learner, schedule, lambda _: watch())
    return [question for _, question, _ in learner.measured]


def update(model: ProductModel, asked: Sequence[AnsweredQuestion], paper: Paper) -> None:
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
