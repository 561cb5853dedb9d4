"""Known: counts that are all asked beforehand, answered by one hypothesis that the IC mechanism makes of a
private table.

The paper's alpha is eight times the larger of two tails. Here both are those of the noise that is drawn, and
the constants are as small as the proof allows. Of all readings together, but with probability beta, each
measured count is off by `noise` records at most, and each query that is found is at most `found` records
better answered than the worst. Let the level of updates be l = 2 noise + found = alpha / 2, and stop where
the measured gap is below l + noise. An update then has a gap of l or more and a value within noise < l of the
truth: a step of a sequence at level l, of which there are B(l) at most. A stop means a gap below l + 2 noise,
and so below l + 2 noise + found = alpha for every query: this needs no bound and no exact number of records.
The budget is divided by 2 B(l), so l is a fixed point; B follows from a noisy number of records. Should the
updates be used up before, which an exact number makes as rare as beta, nothing is promised of the answers.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Unpack, get_args

import numpy as np

from factored_mwem.accounting.accountant import scale_for, selecting
from factored_mwem.answers.query import Query
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, ResourceError, shown
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms.tails import noise_within, winner_within
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.spending import Spending
from factored_mwem.privacy.other.sets import PrivateSets
from factored_mwem.privacy.rows import SCORE_GRID
from factored_mwem.request.promise import BookedTerms, Terms
from factored_mwem.request.table import PrivateTable
from factored_mwem.sessions.online.asking import COUNT_SHARE
from factored_mwem.sessions.online.constructions import (
    MAX_NUMBERS,
    Construction,
    Median,
    MultiplicativeWeights,
)
from factored_mwem.sessions.online.offline import construct
from factored_mwem.sessions.online.prices import fixed_point
from factored_mwem.sessions.online.question import CountQuestion
from factored_mwem.sessions.online.sparse import Prior
from factored_mwem.tables.codes.parsing import check_keys

Kind = Literal["multiplicative-weights", "median"]
MOST_CELLS = 2**24
"""Cells of all questions together."""
MOST_UPDATES = 2**13
"""Updates that may be paid for."""


class _Weights(NamedTuple):
    """Multiplicative weights over so many cells. Beyond a level of 2 n no answer is off by so much."""

    cells: int

    def make(self, total: float, level: float) -> Construction[Any]:
        return MultiplicativeWeights(self.cells, total, min(level, 2 * total))

    def updates(self, total: float, level: float) -> float:
        return self.make(total, level).bound(level)


class _Keys(_Weights):
    """Sparse multiplicative weights, for questions of up to so many keys (`cells`)."""

    def make(self, total: float, level: float) -> Construction[Any]:
        return Prior(self.cells, total, level)


class _Tables(NamedTuple):
    """The median of all tables of `size` elements over so many cells."""

    cells: int
    size: int

    def make(self, total: float, level: float) -> Construction[Any]:
        return Median(self.cells, total, self.size)

    def updates(self, total: float, level: float) -> float:
        return math.log2(self.tables)

    @property
    def tables(self) -> int:
        return math.comb(self.cells + self.size - 1, self.size)


@dataclass(frozen=True, slots=True, eq=False)
class KnownAnswers:
    """`values: float64[question]`, counts by one hypothesis after so many `updates`. All are within `bound`
    records of the truth with probability 1 - beta; None where the updates were used up before that was so.
    All of it may be published.
    """

    values: np.ndarray
    bound: float | None
    updates: int
    statement: Statement


class KnownOptions(BookedTerms, total=False):
    """How often the bound may fail, whom the promise protects, and where its cost is entered."""

    beta: float


def answer_known(
    table: Any,
    questions: Sequence[str | Query],
    domain: Domain | dict[str, Any] | str,
    *,
    hypothesis: Kind = "multiplicative-weights",
    **options: Unpack[KnownOptions],
) -> KnownAnswers:
    """Counts of a private table, all known beforehand, by one hypothesis over all cells of a small `domain`.

    `questions`: as of `ask`, one count each. `hypothesis`: multiplicative weights, or for a few cells the
    median mechanism. `beta`: .05. The others: as of `release`. The budget is divided by as many readings as
    the theorem needs; those that are not made cost nothing. InputError, BudgetExceeded, ResourceError: before
    anything is spent.

    >>> import pyarrow as pa
    >>> from factored_mwem.sessions.online.known import answer_known
    >>> people = pa.table({"age": [31, 45, 31, 62] * 9000, "sex": ["F", "M", "M", "M"] * 9000})
    >>> public = {"fields": [{"name": "sex", "categories": ["F", "M"]},
    ...     {"name": "age", "type": "integer", "constraints": {"minimum": 30, "maximum": 64}}]}
    >>> asked = ["count where sex = M", "count where age >= 40", "count where age >= 40 and sex = F"]
    >>> known = answer_known(people, asked, public, epsilon=1.0)
    >>> known.bound is None or bool(abs(known.values - [27000, 18000, 0]).max() <= known.bound)
    True
    """
    choices: dict[str, Any] = dict(options)
    booking = Booking.of(choices)
    request = KnownRequest.of_cells(table, questions, domain, hypothesis, **choices)
    return request.spending.made(booking, functools.partial(make_known, request))


def answer_known_keys(
    table: Any, column: str, questions: Sequence[Sequence[str]], **options: Unpack[KnownOptions]
) -> KnownAnswers:
    """The same for counts of rows whose key, in a `column` of a private table, is in a list of keys: by
    sparse multiplicative weights, over an endless universe of which only the keys of updates are stored.

    >>> import pyarrow as pa
    >>> from factored_mwem.sessions.online.known import answer_known_keys
    >>> visits = pa.table({"url": ["/home"] * 30_000 + ["/jobs"] * 9_000})
    >>> known = answer_known_keys(visits, "url", [["/home"], ["/jobs", "/more"]], epsilon=1.0)
    >>> known.bound is None or bool(abs(known.values - [30_000, 9_000]).max() <= known.bound)
    True
    """
    choices: dict[str, Any] = dict(options)
    booking = Booking.of(choices)
    request = KnownRequest.of_keys(table, column, questions, **choices)
    return request.spending.made(booking, functools.partial(make_known, request))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class KnownRequest(PrivateTable):
    """A private table, the `queries` of a hypothesis of a `kind`, of cells or of keys of a `column`, and how
    often the bound may fail. `settings`: all of that in words, for the ledger.
    """

    queries: Sequence[Any]
    kind: _Weights | _Tables
    beta: float
    column: str | None
    settings: dict[str, Any]

    @classmethod
    def of_cells(
        cls,
        table: Any,
        questions: Sequence[str | Query],
        domain: Any,
        hypothesis: Kind = "multiplicative-weights",
        **options: Any,
    ) -> KnownRequest:
        """From the arguments of `answer_known`. Raises InputError, ResourceError from public facts."""
        if hypothesis not in get_args(Kind):
            raise InputError(f"hypothesis={shown(hypothesis)}: must be one of {', '.join(get_args(Kind))}")
        beta, terms = _checked(questions, options)
        declared = PrivateTable.open(table, terms, domain=domain).declared
        if declared is None:
            raise InputError("domain: say which values may appear, in a Domain, a dictionary or a file")
        asked = [CountQuestion.of(question, declared) for question in questions]
        sets = _sets(asked, declared.modelled.shape)
        settings = {"domain": declared.to_dict(), "hypothesis": hypothesis, "beta": beta}
        request = cls.open(
            table, terms, domain=declared, queries=list(sets.astype(np.float64)), beta=beta, column=None,
            kind=_median(sets.shape[1]) if hypothesis == "median" else _Weights(sets.shape[1]),
            settings={**settings, "questions": _digest(each.text for each in asked)},
        )  # fmt: skip
        for name in declared.modelled.names:
            request.private.check_column(name)
        return request

    @classmethod
    def of_keys(
        cls, table: Any, column: str, questions: Sequence[Sequence[str]], **options: Any
    ) -> KnownRequest:
        """From the arguments of `answer_known_keys`. Raises InputError from public facts."""
        beta, terms = _checked(questions, options)
        sets = [dict.fromkeys(keys, 1.0) if isinstance(keys, list | tuple) else {} for keys in questions]
        if not all(keys and all(isinstance(key, str) for key in keys) for keys in sets):
            raise InputError("questions: each is a list of one key or more, which are texts")
        asked = _digest(repr(sorted(keys)) for keys in sets)
        request = cls.open(
            table, terms, columns=[column], queries=sets, kind=_Keys(max(map(len, sets))), beta=beta,
            column=column, settings={"column": column, "questions": asked, "beta": beta},
        )  # fmt: skip
        check_keys(request.visible, column)
        return request

    @property
    def spending(self) -> Spending:
        """The request as the ledger enters it."""
        return Spending("known", self.promise, self.settings, self.fingerprint)


def make_known(request: KnownRequest, run: Run) -> KnownAnswers:
    """The answers, within a run; the caller calls `run.finish`. Cost: at most the whole budget, of which a
    share is for the number of records.
    """
    spent, queries, kind = request.spending.begin(run), request.queries, request.kind
    session = spent.session
    if request.column is not None:
        sealed = PrivateSets.of_keys(request.bounded(), request.column, [[*keys] for keys in queries])
    else:
        assert request.declared is not None
        session = session.encode(request.declared.modelled, request.bounded())
        sealed = PrivateSets.of_cells(session.rows, np.array(queries) != 0)
    every = session.measure(sealed, None, cost=session.left * COUNT_SHARE)
    total = max(1.0, float(every.noisy[0]))

    def updates(level: float) -> int:
        return max(1, math.floor(min(kind.updates(total, level), MOST_UPDATES + 1)))

    def within(most: int) -> tuple[float, float]:
        """(noise, found), of two readings for each of so many updates."""
        cost, rarely = session.left / (2 * most), request.beta / (2 * most)
        grains = sealed.score_sensitivity(session.unit) * SCORE_GRID
        scale = scale_for(selecting(session.composition), cost, sensitivity=grains)
        noise = noise_within(session.noise_of(sealed, 0, cost), rarely)
        return noise, winner_within(scale, rarely, len(queries)) / SCORE_GRID

    def wanted(level: float) -> float:
        if (most := updates(level)) > MOST_UPDATES:
            return math.inf
        noise, found = within(most)
        return 2 * noise + found

    level = fixed_point(wanted)
    most, believed = updates(level), kind.make(total, level)
    stop = level + within(most)[0]
    ended = construct(
        session, sealed, believed, queries, 2 * level, cost=session.left, most=most, stop=stop
    )  # ---- nothing private from here
    spent.drawn()
    values = np.clip([believed.answer(query) for query in queries], 0.0, None)
    bound = 2 * level if ended.near else None
    result = {"values": values.tolist(), "bound": bound, "updates": ended.updates}
    return KnownAnswers(values, bound, ended.updates, spent.statement(spent.rests_on(request), **result))


def _checked(questions: Sequence[Any], options: dict[str, Any]) -> tuple[float, Terms]:
    """(beta, terms); raises InputError for what public facts show to be wrong."""
    beta = options.pop("beta", 0.05)
    if not (isinstance(beta, float) and 0 < beta < 0.5):
        raise InputError(f"beta={shown(beta)}: must lie between 0 and 1/2; 0.05 is a common choice")
    if isinstance(questions, str) or not len(questions):
        raise InputError("questions: give a list of one or more")
    return beta, Terms.given(None, options)


def _sets(questions: Sequence[CountQuestion], shape: Sequence[int]) -> np.ndarray:
    """bool[question, cell]: the cells of the whole domain that each question counts."""
    if len(questions) * math.prod(shape) > MOST_CELLS:
        raise ResourceError(
            f"{len(questions):,} questions of {math.prod(shape):,} cells are too many; name fewer columns in "
            "the domain, or see fmwem guide ask for tables of any width"
        )
    sets = np.ones((len(questions), *shape), dtype=bool)
    for number, question in enumerate(questions):
        terms = question.terms
        if terms.count != 1:
            raise InputError(f"{question.text}: ask for one count at a time, without `by` and `or`")
        for a, weights in zip(terms.support, terms.weights, strict=True):
            sets[number] &= (weights[0] != 0).reshape([-1 if b == a else 1 for b in range(len(shape))])
    return sets.reshape(len(questions), -1)


def _median(cells: int) -> _Tables:
    """Tables of the most elements, up to 64, that can all be kept. ResourceError for less than two."""
    tables = (_Tables(cells, size) for size in range(2, 65))
    kept = [*itertools.takewhile(lambda each: each.tables * cells <= MAX_NUMBERS, tables)]
    if not kept:
        raise ResourceError(f"the median mechanism is for a few cells, not {cells:,}: leave out hypothesis")
    return kept[-1]


def _digest(texts: Any) -> str:
    """Of the questions, in a run's settings: a resumed run must have the same."""
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
