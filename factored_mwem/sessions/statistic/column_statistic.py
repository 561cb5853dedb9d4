"""A single statistic of a private column, under differential privacy.

Median, quantiles, minimum and maximum by smooth sensitivity; count, mean and variance by global
sensitivity. The source of both: Nissim, Raskhodnikova, Smith 2007, and Dwork, McSherry, Nissim, Smith 2006.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np

from factored_mwem.accounting.admissible import Shape
from factored_mwem.errors import InputError
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.pipeline.record.assumptions import Assumption
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.spending import Spending
from factored_mwem.privacy.other.column import GRAINS, Moment, PrivateColumn, Rank
from factored_mwem.privacy.other.order import steps_of
from factored_mwem.privacy.other.smooth import constants, measure_smooth
from factored_mwem.privacy.session import Eligible, Session
from factored_mwem.request.promise import BookedTerms, Terms, TermsChoices
from factored_mwem.request.table import PrivateTable
from factored_mwem.sessions.statistic.grid import Grid, check_numbers
from factored_mwem.sessions.statistic.question import RANKED, Question, What

COUNT_SHARE = Fraction(1, 4)
"""Share of the budget for the number of rows, if a quantile's rank, a mean or a variance needs it."""
MOST_STEPS = 2**26
"""Most ranks on either side that a smooth bound has to examine: half a gigabyte."""
SURE = 0.95


@dataclass(frozen=True, slots=True)
class Counted:
    """A noisy number of rows with a value; the true one is no further from it than `rows_error`, with
    probability 1 - (1 - `SURE`) / 2 at least.
    """

    rows: int
    rows_error: float


@dataclass(frozen=True, slots=True)
class Statistic:
    """A released statistic; all of it may be published.

    `error`: half of an interval that holds the true value (of values brought to within the bounds) with
    probability `SURE` at least, for noise and for rounding to the grid; None if the amount of noise depends
    on the table and must stay private. `counted`: the noisy number of rows with a value, if it was measured.

    >>> import pyarrow as pa
    >>> from factored_mwem import statistic
    >>> people = pa.table({"age": [31, 45, 62] * 500})
    >>> mean = statistic(people, "age", "mean", lower=0, upper=120, epsilon=0.5)
    >>> abs(mean.value - 46) <= 10 * mean.error, mean.statement.guarantee.epsilon
    (True, 0.5)
    """

    value: float
    error: float | None
    question: Question
    statement: Statement
    counted: Counted | None = None

    @classmethod
    def recorded(cls, question: Question, statement: Statement) -> Statistic:
        """The statistic that a record states."""
        drawn = statement.result
        counted = Counted(drawn["rows"], drawn["rows_error"]) if "rows" in drawn else None
        return cls(drawn["value"], drawn["error"], question, statement, counted)

    @property
    def step(self) -> float:
        """The distance between values of the grid, in the column's unit; values were rounded to it."""
        return self.question.grid.step

    @property
    def facts(self) -> dict[str, Any]:
        """One line for scripts."""
        promise = self.statement.guarantee
        return {
            "what": self.question.what,
            "column": self.question.column,
            **({"at": self.question.at} if self.question.what == "quantile" else {}),
            "value": self.value,
            "error": self.error,
            "step": self.step,
            **({} if self.counted is None else asdict(self.counted)),
            "unit": promise.unit,
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "spent_epsilon": promise.spent_epsilon,
        }


class HowMeasured(BookedTerms, total=False):
    """The other options of a statistic, all of them public."""

    at: float | None
    grid: float | None
    noise: Literal["cauchy", "laplace", "exponential"] | None
    rows: int | None
    complete: bool


def statistic(
    table: Any, column: str, what: What, *, lower: float, upper: float, **options: Unpack[HowMeasured]
) -> Statistic:
    """One statistic of a column of numbers.

    Values are clipped to `lower` and `upper`, which are public. `what`: count (of rows with a
    value), mean, variance, median, quantile (the share `at`), min or max. `options`, all of them optional:

    `grid`: the step between values that are told apart, in the column's unit; without it as fine as may be,
    which adds no noise to sums. `noise`: of medians and quantiles exponential, which chooses a value by its
    rank, of min and max cauchy; cauchy for all of them, and with a delta laplace, by smooth sensitivity.
    `rows`: the number of rows with a value, where that is public; else a quarter of epsilon measures it,
    where it is needed: for mean and variance, and quantiles by smooth sensitivity. `complete`: every row
    counts as having a value. Whom it protects and where it is entered: as of `release`, but that delta is 0
    if none is given.

    Returns: the value in the column's unit (`variance`: its square), with its 95 % error where known.

    Raises, before anything is spent:
        InputError: the table cannot be read, or an argument is wrong or does not fit it.
        BudgetExceeded: the ledger has no room for the cost.

    >>> import pyarrow as pa
    >>> from factored_mwem.sessions.statistic import statistic
    >>> people = pa.table({"age": list(range(20, 70)) * 40})
    >>> median = statistic(people, "age", "median", lower=0, upper=120, epsilon=1.0)
    >>> 0 <= median.value <= 120, median.error
    (True, None)
    """
    choices: dict[str, Any] = dict(options)
    booking, grid = Booking.of(choices), Grid.of(lower, upper, choices.pop("grid", None))
    how: dict[str, Any] = {
        name: choices.pop(name) for name in ("at", "noise", "rows", "complete") if name in choices
    }
    request = StatisticRequest.of(table, column, what, grid, how, **choices)
    return request.spending.made(booking, partial(make_statistic, request))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class StatisticRequest(PrivateTable):
    """A private column, and the statistic asked for."""

    question: Question

    @classmethod
    def of(
        cls,
        table: Any,
        column: str,
        what: Any,
        grid: Grid,
        how: dict[str, Any],
        **choices: Unpack[TermsChoices],
    ) -> StatisticRequest:
        """Raises InputError for what is wrong by public facts. `how`: see `Question.of`."""
        terms = Terms.given(None, choices, delta=0.0)
        question = Question.of(column, what, grid, terms.delta, **how)
        domain = {"fields": [grid.field(column, required=question.complete)]}
        request = cls.open(table, terms, domain=domain, columns=[column], question=question)
        check_numbers(request, column)
        # refuses an epsilon that is too small now, not after rows are counted
        if isinstance(question.noise, Shape):
            least = Fraction(terms.epsilon) * (1 - COUNT_SHARE) / 2
            beta = constants(question.noise, least, Fraction(terms.delta)).beta
            if steps_of(grid.top, beta, terms.contributions) > MOST_STEPS:
                raise InputError(
                    f"epsilon={terms.epsilon:g} is too little for a {what} of rows of which "
                    f"{terms.contributions:,} are one person's: raise it, or lower --contributions"
                )
        return request

    @property
    def spending(self) -> Spending:
        """The request as the ledger enters it."""
        settings, events = asdict(self.question), self.promise.delta > 0
        return Spending("statistic", self.promise, settings, self.fingerprint, events=events)


def make_statistic(request: StatisticRequest, run: Run) -> Statistic:
    """Draw the statistic within a run. The caller writes the record and then calls `run.finish`."""
    question, spent = request.question, request.spending.begin(run)
    assert request.declared is not None
    session = spent.session.encode(request.declared, request.bounded())  # ---- private from here ...
    column = PrivateColumn.of(session.rows, question.grid.cells)
    value, error, counted = _answer(session, column, question)  # ---- ... to here
    spent.drawn()
    known = spent.rests_on(request)
    if question.rows is not None:
        public = f"that {question.rows} rows have a value is public"
        known["values"] = Assumption(statement=public, enforced=False)
    finite = error if error is None or math.isfinite(error) else None
    drawn = {"value": value, "error": finite, "step": question.grid.step}
    drawn |= {} if counted is None else asdict(counted)
    return Statistic(value, error, question, spent.statement(known, **drawn), counted)


Answer = tuple[float, float | None, Counted | None]
"""The value; its error, or None if unknown; the number of rows with a value, or None if not measured."""


def _answer(session: Session, column: PrivateColumn, question: Question) -> Answer:
    what, left = question.what, session.left
    rows = session.public_total if question.complete and question.rows is None else question.rows
    if what == "count":
        if rows is not None:  # all neighbours share it
            return float(rows), 0.0, None
        taken = session.measure(column, Moment.COUNT, cost=left)
        return float(taken.noisy[0]), reach(taken.scale.value, 1 - SURE), None
    counted = _counted(session, column) if rows is None and question.needs_rows else None
    if what in RANKED:
        return _ranked(session, column, question, counted.rows if counted else rows), None, counted
    return *_moments(session, column, question, counted or Counted(rows or 0, 0.0)), counted


def _counted(session: Session, column: PrivateColumn) -> Counted:
    """The number of rows with a value. Cost: COUNT_SHARE of what is left."""
    taken = session.measure(column, Moment.COUNT, cost=session.left * COUNT_SHARE)
    return Counted(int(taken.noisy[0]), reach(taken.scale.value, (1 - SURE) / 2))


def reach(scale: float, wrong: float) -> float:
    """The bound that discrete Laplace noise exceeds with a probability of at most `wrong`: P(|z| >= j) = 2
    e^{-j / b} / (1 + e^{-1 / b}) is at most e^{-(j - 1) / b}.
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
        which = Rank(1, from_top=question.what == "max")
    else:
        which = Rank(question.rank(rows or 0))
    units, top = measure_smooth(session, column, which, shape=question.noise), question.grid.top
    return question.grid.at(top - units if which.from_top else units)


def _moments(
    session: Session, column: PrivateColumn, question: Question, counted: Counted
) -> tuple[float, float | None]:
    """Mean or variance: noisy sums over the number of rows, in half steps of the grid from its middle.

    The error of a mean s / n with |s| <= last n is at most (e_s + |s / n| e_n) / (n - e_n) where both sums
    are off by at most e_s and e_n; each bound has half of the failure probability. Half a step is added for
    the rounding of each value to the grid. The variance has no such bound here.
    """
    grid, last = question.grid, question.grid.cells - 1
    wrong = (1 - SURE) / 2
    n, off = max(1, counted.rows), counted.rows_error
    cost = session.left / (2 if question.what == "variance" else 1)
    summed = session.measure(column, Moment.SUM, cost=cost)
    quotient, half = int(summed.noisy[0]) / n, grid.step / 2
    mean = min(max(quotient, -last), last)  # clipping moves it no further from the true one
    if question.what == "mean":
        error = (reach(summed.scale.value, wrong) + abs(quotient) * off) / (n - off) if n > off else math.inf
        value = grid.lower + (grid.upper - grid.lower) / 2 + mean * half
        return value, min(error * half + half, grid.upper - grid.lower)
    squares = session.measure(column, Moment.SQUARES, cost=session.left)
    second = (int(squares.noisy[0]) / n + last**2) / 2
    return min(max(second - mean**2, 0.0), float(last**2)) * half**2, None
