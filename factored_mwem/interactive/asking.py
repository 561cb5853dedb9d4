"""Asking: a session of questions about a private table, answered by a model where it will do, else
measured.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from factored_mwem.accounting.accountant import additive, price
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.answers.query import Query
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import BudgetExceeded, InputError
from factored_mwem.files import IfExists
from factored_mwem.interactive.factored import MAX_CELLS, Factored
from factored_mwem.interactive.mechanism import Online, Source, Subject, Told
from factored_mwem.interactive.prices import Prices
from factored_mwem.interactive.question import NOBODY, Question
from factored_mwem.ledger.run import Booking
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Scope
from factored_mwem.mechanisms.total import first_total
from factored_mwem.pipeline.assumptions import Assumption, assumptions_of
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.statement import Statement, statement_of
from factored_mwem.pipeline.task import Opened, Task, opened
from factored_mwem.policy import Choices, Policy
from factored_mwem.privacy.asked import Compared, Part
from factored_mwem.privacy.counts import PrivateQuestions
from factored_mwem.privacy.noise import Noise
from factored_mwem.privacy.session import Measurement, grains_of
from factored_mwem.request import Request
from factored_mwem.tables.codec import fit_columns
from factored_mwem.tables.labels import Label
from factored_mwem.workload.workload import Workload

ALPHA, BETA = 0.01, 0.001
COUNT_SHARE = Fraction(1, 50)
"""Of the budget: counting the records, where there is no model that knows about how many there are."""
COUNT_NOISE = 50.0
"""Scale, in records, beyond which no less noise is wanted there."""
MAX_KEPT = 512
"""Cells of one measurement that are kept as answers to questions of their own."""
NOTHING_TO_SAVE = "a session that began without --model has no release to save; leave out --save"
UNLEARNT = "the model could not take it in: its cliques would exceed the cell cap"


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """An answer: counts of the groups (`labels` by `columns`), `values: float64[group]`, each within `bound`
    records of the truth, all at once with the session's probability; their `source`; and the session's
    epsilon so far and what is left of it.
    """

    query: str
    columns: tuple[str, ...]
    labels: tuple[tuple[Label, ...], ...]
    values: np.ndarray
    bound: float
    source: Source
    spent: float
    left: float
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """The count of a question without groups."""
        (found,) = self.values.tolist()
        return float(found)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        groups = [
            {"labels": list(labels), "value": value}
            for labels, value in zip(self.labels, self.values.tolist(), strict=True)
        ]
        return {
            "query": self.query,
            "columns": list(self.columns),
            "groups": groups,
            "bound": self.bound,
            "source": self.source,
            "spent": self.spent,
            "left": self.left,
            "notes": list(self.notes),
        }


@dataclass(slots=True, eq=False)
class Asking:
    """A session under way; `ask` makes one."""

    domain: Domain
    model: Factored
    release: Release | None
    assumptions: tuple[Assumption, ...]
    """What the promise rests on."""
    _task: Task
    _opened: Opened
    _online: Online
    _sealed: PrivateQuestions = field(repr=False)
    _prices: dict[Fraction, float] = field(default_factory=dict)

    @property
    def alpha(self) -> float:
        """How far an answer may be off, in records."""
        return self._online.prices.alpha

    @property
    def counts(self) -> dict[str, int]:
        """Answers so far, by source."""
        return dict(self._online.counts)

    @property
    def tests(self) -> int:
        """Sparse vector tests begun so far."""
        return self._online.tests

    @property
    def spent(self) -> float:
        """Epsilon, at the session's delta, that what was drawn amounts to."""
        accountant = self._opened.session.accountant
        if accountant.spent not in self._prices:
            self._prices[accountant.spent] = accountant.guarantee()[0] if accountant.entries else 0.0
        return self._prices[accountant.spent]

    @property
    def left(self) -> float:
        """Epsilon that is left of the session's."""
        return max(0.0, self._opened.session.accountant.budget.epsilon - self.spent)

    def answer(self, query: Query | str) -> Response:
        """The answer to a query, or to a text that asks one. InputError, from public facts and with nothing
        spent, where it is none; BudgetExceeded where what is left is not enough for it.
        """
        question = Question.of(query, self.domain)
        asked = [cell for cell in question.wanted if cell != NOBODY]
        if not asked:
            self._online.counts["public"] += 1
            return self._response(question, Told(np.zeros(len(question.wanted)), 0.0, "public"))
        subject = self._subject(question)
        if subject.key not in self._online.known:
            run = self._opened.run
            if run.complete and run.noted is None:
                raise InputError(
                    "this session was closed: it repeats its answers and gives no others; begin another with "
                    "another --run-id"
                )
            run.note({"ask": question.text})
        told = self._online.answer(subject)
        values = np.zeros(len(question.wanted))
        values[np.array(question.wanted) != NOBODY] = told.values
        return self._response(question, replace(told, values=values))

    @property
    def unit(self) -> str:
        """What two tables differ in that the promise is about."""
        unit = self._opened.session.unit
        rows = "one row" if unit.contributions == 1 else f"up to {unit.contributions:,} rows of one person"
        change = "added or removed" if unit.neighbours is Neighbours.ADD_REMOVE else "exchanged for another's"
        return f"{rows} {change}"

    @property
    def promise(self) -> str:
        """What the session promises, to whom, in a line."""
        budget = self._opened.session.accountant.budget
        kind = f"({budget.epsilon:g}, {budget.delta:g})" if budget.delta else f"{budget.epsilon:g}"
        return f"{kind}-differential privacy for the whole session, of tables that differ in {self.unit}"

    def statement(self) -> Statement:
        """What may be published of the session: the promise, every charge so far, and what it rests on."""
        return statement_of(self._task, self._opened, unit=self.unit, assumptions=self.assumptions)

    def _subject(self, question: Question) -> Subject:
        """The question as the mechanism takes it; groups that must be empty are left out."""
        held = np.array(question.wanted) != NOBODY
        cells = tuple(cell for cell in question.wanted if cell != NOBODY)
        total = self.model.total
        believed = np.clip(self.model.answers(question)[held], 0.0, total)
        alone = len(cells) == 1 and self._opened.session.unit.neighbours is Neighbours.REPLACE
        part = Part(question.cut, cells[0] if alone else None)
        compared = Compared(question.cut, cells, tuple(grains_of(value) for value in believed))

        def learn(measured: Measurement) -> tuple[np.ndarray, bool]:
            values = measured.noisy if alone else measured.noisy[list(cells)]
            return np.maximum(values.astype(np.float64), 0.0), self._learn(question, part, measured)

        key = _key(question, cells)
        return Subject(
            key,
            self._kind(question, believed),
            believed,
            self._sealed,
            part,
            compared,
            learn,
        )

    def _kind(self, question: Question, believed: np.ndarray) -> Hashable:
        """Queries alike, for the rule: whether a clique holds the cut, and how large an error could be: as
        the greatest count, or what is left of the records.
        """
        total = self.model.total
        share = float(np.minimum(believed, total - believed).max()) / self.alpha
        return self.model.holds(question.cut), round(math.log2(max(share, 2**-3)))

    def _learn(self, question: Question, part: Part, measured: Measurement) -> bool:
        """Tell the model, and keep the cells that nobody has asked for yet."""
        cut, noisy = question.cut, measured.noisy
        if part.wanted is not None:  # of two cells: the one, and what is left of the records
            return self.model.learn_one(cut, part.wanted, float(noisy[0]), measured.stddev)
        if cut.cells <= MAX_KEPT:
            for cell, value in enumerate(noisy.tolist()):
                kept = Told(np.array([max(float(value), 0.0)]), self.alpha, "measured")
                self._online.known.setdefault(_key(question, (cell,)), kept)
        return self.model.learn(cut, noisy, measured.stddev)

    def _response(self, question: Question, told: Told) -> Response:
        notes = (UNLEARNT,) if told.source == "measured" and not told.updated else ()
        about = (question.text, question.columns, tuple(question.groups))
        return Response(*about, told.values, told.bound, told.source, self.spent, self.left, notes)

    def replay(self) -> None:
        """Ask again what an earlier attempt of the same run was asked: what it drew is not drawn again."""
        run = self._opened.run
        while (noted := run.noted) is not None:
            with contextlib.suppress(BudgetExceeded):  # as it ended then
                self.answer(noted["ask"])

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model as it is now, which `fmwem sample` and `fmwem answer` read. InputError for a
        session that began without a release's model.
        """
        if self.release is None:
            raise InputError(NOTHING_TO_SAVE)
        manifest = self.release.manifest
        note = (
            f"the model was updated by {self.counts['measured']} answers measured in a session of "
            f"`fmwem ask`, which spent epsilon {self.spent:.6g} more"
        )
        told = manifest.model_copy(update={"notes": (*manifest.notes, note), "certificate": None})
        updated = replace(self.release, model=self.model.forest, manifest=told)
        updated.save(path, overwrite=IfExists(overwrite))


def _key(question: Question, cells: Sequence[int]) -> Hashable:
    """The same for all questions that count the same records, group by group."""
    cut, found = question.cut, []
    for cell in cells:
        box = []
        rest = cell
        for a, classes, size in reversed(list(zip(*cut, cut.sizes, strict=True))):
            box.append((a, (classes == rest % size).tobytes()))
            rest //= size
        found.append(tuple(box))
    return tuple(found)


@contextlib.contextmanager
def ask(
    table: Any,
    model: str | Path | Release | None = None,
    policy: Policy | None = None,
    *,
    domain: Domain | dict[str, Any] | str | Path | None = None,
    alpha: float = ALPHA,
    beta: float = BETA,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    run_id: str | None = None,
    **choices: Unpack[Choices],
) -> Iterator[Asking]:
    """A session of questions about a private `table`, within the policy's budget.

    Each answer is within `alpha`, a share of the records, of the truth with probability 1 - `beta`: from the
    model of a release (a file, or a Release), where a private test finds it near enough, else measured, which
    makes the model better. Without `model` it begins knowing nothing but the `domain`. With `ledger` the
    whole budget is reserved before the first noise, and what was spent takes its place at the end; the same
    `run_id` goes on where an earlier session died. `choices` are fields of Policy. Raises InputError,
    BudgetExceeded or ResourceError before anything is spent, wherever that can be known from public facts.

    >>> import pyarrow as pa
    >>> from factored_mwem import ask, release
    >>> people = pa.table({"age": [31, 45, 31, 62] * 2500, "sex": ["F", "M", "M", "F"] * 2500})
    >>> public = {"fields": [{"name": "sex", "categories": ["F", "M"]},
    ...     {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}}]}
    >>> made = release(people, 2, domain=public, epsilon=1.0)
    >>> with ask(people, made, alpha=0.02, epsilon=0.5) as session:
    ...     told = session.answer("count where age >= 40 and sex = M")
    >>> abs(told.value - 2500) <= told.bound <= 210
    True
    """
    with asking(
        table,
        model,
        policy,
        domain=domain,
        alpha=alpha,
        beta=beta,
        booking=Booking(ledger, dataset, run_id),
        **choices,
    ) as session:
        yield session


@contextlib.contextmanager
def asking(
    table: Any,
    model: str | Path | Release | None,
    policy: Policy | None,
    *,
    domain: Any = None,
    alpha: float = ALPHA,
    beta: float = BETA,
    columns: Sequence[str] | None = None,
    booking: Booking,
    saves: bool = False,
    check: Callable[[Domain], None] = lambda domain: None,
    noise: Noise | None = None,
    **choices: Unpack[Choices],
) -> Iterator[Asking]:
    """As `ask`; `columns`: those of the `domain` to ask about; `saves`: the model will be saved; `check` may
    refuse by the domain, before anything is read or spent; `noise`: OpenDP's by default, tests give a fake.
    """
    if not (isinstance(alpha, float | int) and 0 < alpha < 1):
        raise InputError(f"alpha={alpha!r}: must be a share of the records between 0 and 1, such as 0.01")
    made = Release.load(model) if isinstance(model, str | Path) else model
    if (made is None) == (domain is None):
        raise InputError("a session begins with --model, or else with --domain, and not with both")
    if made is not None and columns is not None:
        raise InputError("--columns is for a session without --model: a model says which columns it knows")
    if made is None and saves:
        raise InputError(NOTHING_TO_SAVE)
    request = Request.of(
        table,
        Workload.marginals(1),
        policy,
        domain=made.domain if made is not None else domain,
        columns=columns,
        **choices,
    )
    scope = _scope(request)
    assert scope.domain is not None
    whole = made.domain if made is not None else scope.domain
    settings = {
        "alpha": alpha,
        "beta": beta,
        "domain": whole.to_dict(),
        "model": _digest(made) if made is not None else None,
    }
    task = Task("ask", request.policy, settings, request.fingerprint)
    # what can be refused is refused before a row is read
    check(whole)
    Prices(alpha * made.model.total if made is not None else math.inf, beta, task.budget.composition)
    with opened(task, booking, noise=noise) as at:
        session = replace(at.session, spill=scope.spill)
        session = session.encode(whole.modelled, scope.bounded())
        begun = _begun(task, replace(at, session=session), scope, made)
        begun.replay()
        try:
            yield begun
        except BaseException:
            if booking.run_id is None:  # else it can go on, and what is left of its budget is kept for that
                with contextlib.suppress(AssertionError):  # stopped between a charge and its draw
                    at.drawn()
            raise
        at.drawn()
        at.run.finish()


def _scope(request: Request) -> Scope:
    """What is known of the table; InputError where its columns are not those of the domain."""
    if request.policy.certificate is not None:
        raise InputError("a certificate is of released rows; leave it out of a session of questions")
    assert request.declared is not None
    names = request.columns if request.columns is not None else request.declared.names
    names = [name for name in names if name != request.policy.privacy_id]
    scope = Scope.of(replace(request, columns=names), Machine.of(request.policy))
    assert scope.domain is not None
    domain, _ = fit_columns(scope.domain, scope.visible, scope.columns)
    scope.visible.check_domain(domain.modelled)
    return replace(scope, domain=domain)


def _begun(task: Task, at: Opened, scope: Scope, made: Release | None) -> Asking:
    """The session with its model; where there was none, the records are counted first."""
    assert scope.domain is not None
    session, domain = at.session, made.domain if made is not None else scope.domain
    alpha, beta = task.settings["alpha"], task.settings["beta"]
    sealed = session.rows.asked()
    composition = session.composition
    if made is not None:
        total = float(made.model.total)
        prices = Prices(alpha * total, beta, composition)
        model = Factored(made.model, prices.alpha, max_cells=max(MAX_CELLS, made.model.cells))
    else:
        enough = price(additive(composition), scale=COUNT_NOISE, sensitivity=session.unit.contributions)
        cost = min(session.accountant.budget.amount * COUNT_SHARE, enough)
        total = (
            first_total(session).records
            if session.unit.total_is_public
            else max(1.0, float(session.measure(session.rows, (), cost=cost).noisy[0]))
        )
        prices = Prices(alpha * total, beta, composition)
        model = Factored.uniform(domain.modelled.shape, total, prices.alpha)
    return Asking(domain, model, made, _assumed(scope, at), task, at, Online(session, prices), sealed)


def _assumed(scope: Scope, at: Opened) -> tuple[Assumption, ...]:
    """What the promise rests on, as a release under the same domain would."""
    visible, rules = scope.visible, scope.domain is not None and bool(scope.domain.rules)
    found = assumptions_of(
        scope.request.policy,
        visible.form,
        learnt=False,
        ledger=at.run.has_books,
        rules=rules,
        cluster=visible.cluster,
    )
    return tuple(Assumption(**one) for one in found.model_dump().values() if one is not None)


def _digest(made: Release) -> str:
    """Of the model's numbers, so that a session goes on from the model it began with."""
    digest = hashlib.sha256()
    for part in made.model.components:
        digest.update(part.beliefs.cliques.tobytes())
    return digest.hexdigest()
