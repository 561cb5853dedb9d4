"""A single statistic of a private table, under differential privacy, on one screen.

Median, quantiles, minimum and maximum by smooth sensitivity; count, mean and variance by global
sensitivity. The source of both: Nissim, Raskhodnikova, Smith 2007, and Dwork, McSherry, Nissim, Smith 2006.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np

from factored_mwem.accounting.admissible import Shape
from factored_mwem.accounting.conversion import float_down
from factored_mwem.errors import InputError
from factored_mwem.ledger.run import Booking
from factored_mwem.pipeline.assumptions import Assumption
from factored_mwem.pipeline.statement import Statement, statement_of
from factored_mwem.pipeline.task import Task, opened
from factored_mwem.policy import Choices, Policy
from factored_mwem.privacy.column import GRAINS, PrivateColumn
from factored_mwem.privacy.noise import Noise
from factored_mwem.privacy.session import Eligible, Session
from factored_mwem.privacy.smooth import constants, measure_smooth
from factored_mwem.request import Request
from factored_mwem.statistics.grid import Grid
from factored_mwem.statistics.question import RANKED, Question, What
from factored_mwem.statistics.rows import check_numbers, seal_rows, trusted, unit_of
from factored_mwem.workload.workload import Workload

COUNT_SHARE = Fraction(1, 4)
"""Of the budget, for the number of rows, where a quantile's rank, a mean or a variance needs it."""
SURE = 0.95


@dataclass(frozen=True, slots=True)
class Statistic:
    """What is released: all of it may be published.

    `error`: half of an interval that holds the true value (of the values on the grid) with probability
    `SURE` at least, as far as noise goes; None where the noise depends on the table, which says nothing
    about itself.

    >>> import pyarrow as pa
    >>> from factored_mwem import statistic
    >>> people = pa.table({"age": [31, 45, 62] * 500})
    >>> found = statistic(people, "age", "mean", lower=0, upper=120, epsilon=0.5)
    >>> abs(found.value - 46) <= 10 * found.error, found.statement.promise.epsilon
    (True, 0.5)
    """

    value: float
    error: float | None
    question: Question
    statement: Statement

    @property
    def facts(self) -> dict[str, Any]:
        """One line for scripts."""
        promise = self.statement.promise
        return {
            "what": self.question.what,
            "column": self.question.column,
            **({"at": self.question.at} if self.question.what == "quantile" else {}),
            "value": self.value,
            "error": self.error,
            "unit": promise.unit,
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "spent_epsilon": promise.spent_epsilon,
        }


def statistic(
    table: Any,
    column: str,
    what: What,
    *,
    lower: float,
    upper: float,
    at: float | None = None,
    grid: float | None = None,
    noise: Literal["cauchy", "laplace", "exponential"] | None = None,
    rows: int | None = None,
    complete: bool = False,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    run_id: str | None = None,
    **choices: Unpack[Choices],
) -> Statistic:
    """One statistic of a column of numbers.

    Values are brought to within `lower` and `upper`, which are public. `what`: count (of rows with a
    value), mean, variance, median, quantile (the share `at`), min or max. `grid`: the step between values
    that are told apart. `noise`: of medians and quantiles exponential, which chooses a
    value by its rank, of min and max cauchy; cauchy for all of them, and with a delta laplace, by smooth
    sensitivity. `rows`: the number of rows with a value, where that is public; else a quarter of epsilon
    measures it, where it is needed: for mean and variance, and quantiles by smooth sensitivity.
    `complete`: every row counts as having a value. Whom it protects and where it is entered:
    as of `release`, but that delta is 0 where none is given. Raises InputError or BudgetExceeded before
    anything is spent.

    >>> import pyarrow as pa
    >>> from factored_mwem.statistics import statistic
    >>> people = pa.table({"age": list(range(20, 70)) * 40})
    >>> found = statistic(people, "age", "median", lower=0, upper=120, epsilon=1.0)
    >>> 0 <= found.value <= 120, found.error
    (True, None)
    """
    chosen: Choices = {"delta": 0.0, **choices}
    policy = Policy.of(**chosen)
    cells = Grid.of(lower, upper, grid)
    question = Question.of(
        column, what, cells, policy.delta, at=at, noise=noise, rows=rows, complete=complete
    )
    return ask(table, question, policy, Booking(ledger, dataset, run_id))


def ask(
    table: Any, question: Question, policy: Policy, booking: Booking, *, noise: Noise | None = None
) -> Statistic:
    """The statistic that a question is about. `noise`: as of `opened`."""
    if policy.certificate is not None:
        raise InputError("a certificate is of released rows; leave it out where a statistic is asked for")
    field = question.grid.field(question.column, required=question.complete)
    domain = {"fields": [field]}
    request = Request.of(table, Workload.marginals(1), policy, domain=domain, columns=[question.column])
    check_numbers(request, question.column)
    task = Task("statistic", policy, question.settings, request.private.fingerprint, events=policy.delta > 0)
    if isinstance(question.noise, Shape):  # too little for it is refused now, not after the rows are counted
        least = Fraction(policy.epsilon) * (1 - COUNT_SHARE) / 2
        constants(question.noise, least, Fraction(policy.delta))
    with opened(task, booking, noise=noise) as run:
        assert request.declared is not None
        session = seal_rows(run, request, request.declared)  # ---- private from here ...
        value, error = _answer(
            session, session.rows.values(question.grid.cells), question
        )  # ---- ... to here
        run.drawn()
        told = trusted(policy, request, run)
        if question.rows is not None:
            known = f"that {question.rows} rows have a value is public"
            told.append(Assumption(statement=known, enforced=False))
        statement = statement_of(task, run, unit=unit_of(policy), assumptions=told)
        made = Statistic(value, error, question, statement)
        run.run.finish()
    return made


def _answer(session: Session, column: PrivateColumn, question: Question) -> tuple[float, float | None]:
    what, left = question.what, session.left
    rows = session.public_total if question.complete and question.rows is None else question.rows
    if what == "count":
        if rows is not None:  # all neighbours share it
            return float(rows), 0.0
        counted = session.measure(column, ("count", 0), cost=left)
        return float(counted.noisy[0]), reach(counted.scale.value, 1 - SURE)
    if what in RANKED:
        return _ranked(session, column, question, rows), None
    return _moments(session, column, question, rows)


def _count(session: Session, column: PrivateColumn) -> int:
    return max(1, int(session.measure(column, ("count", 0), cost=session.left * COUNT_SHARE).noisy[0]))


def reach(scale: float, wrong: float) -> float:
    """What discrete Laplace noise exceeds with a probability of at most `wrong`: P(|z| >= j) = 2 e^{-j / b}
    / (1 + e^{-1 / b}) is at most e^{-(j - 1) / b}.
    """
    return scale * math.log(1 / wrong) + 1


def _ranked(session: Session, column: PrivateColumn, question: Question, rows: int | None) -> float:
    """A value of the table by its smooth sensitivity."""
    assert question.noise is not None
    if not isinstance(question.noise, Shape):
        cells, share = question.grid.cells, np.array([question.at])
        every = Eligible(np.arange(cells), np.zeros(cells))
        return question.grid.at(session.select(column, share, every, cost=session.left) * GRAINS)
    if question.what in ("min", "max"):
        which = ("rank" if question.what == "min" else "rank from the top", 1)
    else:
        which = ("rank", question.rank(_count(session, column) if rows is None else rows))
    delta = session.accountant.budget.discovery_delta
    cost = Fraction(float_down(session.left))
    found = measure_smooth(session, column, which, cost=cost, shape=question.noise, delta=delta)
    top = question.grid.top
    return question.grid.at(top - found if which[0] == "rank from the top" else found)


def _moments(
    session: Session, column: PrivateColumn, question: Question, rows: int | None
) -> tuple[float, float | None]:
    """Mean or variance: noisy sums over the number of rows, in half steps of the grid from its middle.

    The error of a mean s / n with |s| <= last n is at most (e_s + |s / n| e_n) / (n - e_n) where both sums
    are off by at most e_s and e_n; each is so with half of what may go wrong. The variance has no such
    bound here.
    """
    grid, last = question.grid, question.grid.cells - 1
    wrong = (1 - SURE) / 2
    n, off = rows, 0.0
    if n is None:
        counted = session.measure(column, ("count", 0), cost=session.left * COUNT_SHARE)
        n, off = max(1, int(counted.noisy[0])), reach(counted.scale.value, wrong)
    cost = session.left / (2 if question.what == "variance" else 1)
    summed = session.measure(column, ("sum", 0), cost=cost)
    mean = min(max(int(summed.noisy[0]) / n, -last), last)
    half = grid.step / 2
    if question.what == "mean":
        error = (reach(summed.scale.value, wrong) + abs(mean) * off) / (n - off) if n > off else math.inf
        value = grid.lower + (grid.upper - grid.lower) / 2 + mean * half
        return value, min(error * half, grid.upper - grid.lower)
    squares = session.measure(column, ("squares", 0), cost=session.left)
    second = (int(squares.noisy[0]) / n + last**2) / 2
    return min(max(second - mean**2, 0.0), float(last**2)) * half**2, None
