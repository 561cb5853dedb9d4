"""Asking: questions about a private table, answered by a model if it is near enough, otherwise measured."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Unpack

from factored_mwem.accounting.accountant import additive, price
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Scope
from factored_mwem.mechanisms.result import first_total
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.spending import Spending, Spent
from factored_mwem.privacy.other.cuts import PrivateQuestions
from factored_mwem.request.policy import BookedChoices, Policy
from factored_mwem.request.table import PrivateTable
from factored_mwem.sessions.online.factored import MAX_CELLS, Factored
from factored_mwem.sessions.online.mechanism import Online
from factored_mwem.sessions.online.prices import Prices
from factored_mwem.sessions.online.session import Asking
from factored_mwem.tables.codes.codec import fit_columns

ALPHA, BETA = 0.01, 0.001
COUNT_SHARE = Fraction(1, 50)
"""Share of the budget for counting the records, if there is no model that knows about how many there are."""
COUNT_NOISE = 50.0
"""Scale of the noise on that count, in records; less noise than this is of no use."""


class AskOptions(BookedChoices, total=False):
    """What a session without a model begins with, and how near the truth its answers must be."""

    domain: Domain | dict[str, Any] | str | Path | None
    columns: Sequence[str] | None
    alpha: float
    beta: float


@contextlib.contextmanager
def ask(
    table: Any,
    model: str | Path | Release | None = None,
    policy: Policy | None = None,
    **options: Unpack[AskOptions],
) -> Iterator[Asking]:
    """A session of questions about a private `table`, within the policy's budget.

    Each answer is within `alpha` (.01), a share of the records, of the truth with probability 1 - `beta`
    (.001): from the model of a release (a file, or a Release), if a private test finds it near enough, else
    measured, which improves the model. Without `model` the session begins with the `domain` alone, or with
    `columns` of it. With `ledger` the whole budget is reserved before the first noise, and only what was
    spent stays entered at the end; the same `run_id` resumes a session that died. The other `options` are
    fields of Policy.

    Raises, before anything is spent wherever public facts are enough to know it:
        InputError: the table or the model cannot be read, or an argument is wrong or does not fit them.
        BudgetExceeded: the ledger has no room for the whole budget.
        ResourceError: there is too little memory or disk, or the model has too many cells.

    >>> import pyarrow as pa
    >>> from factored_mwem import ask, release
    >>> people = pa.table({"age": [31, 45, 31, 62] * 2500, "sex": ["F", "M", "M", "F"] * 2500})
    >>> public = {"fields": [{"name": "sex", "categories": ["F", "M"]},
    ...     {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}}]}
    >>> synthetic = release(people, 2, domain=public, epsilon=1.0)
    >>> with ask(people, synthetic, alpha=0.02, epsilon=0.5) as session:
    ...     answer = session.answer("count where age >= 40 and sex = M")
    >>> abs(answer.value - 2500) <= answer.bound <= 210
    True
    """
    choices: dict[str, Any] = dict(options)
    booking = Booking.of(choices)
    request = AskRequest.of(table, model, policy, **choices)
    with request.spending.booked(booking) as run:
        with ask_session(request, run, resumable=booking.run_id is not None) as session:
            yield session
        run.finish()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class AskRequest(PrivateTable):
    """A private table, what is known of it at the beginning, and how near the truth answers must be."""

    promise: Policy
    start: Release | None
    alpha: float
    beta: float

    @classmethod
    def of(
        cls,
        table: Any,
        model: str | Path | Release | None,
        policy: Policy | None = None,
        **options: Unpack[AskOptions],
    ) -> AskRequest:
        """The request, from the arguments of `ask`. Raises InputError or ResourceError if public facts show
        that it cannot be met.
        """
        choices: dict[str, Any] = dict(options)
        domain, columns = choices.pop("domain", None), choices.pop("columns", None)
        alpha, beta = choices.pop("alpha", ALPHA), choices.pop("beta", BETA)
        if not (isinstance(alpha, float | int) and 0 < alpha < 1):
            raise InputError(f"alpha={alpha!r}: must be a share of the records between 0 and 1, such as 0.01")
        start = Release.load(model) if isinstance(model, str | Path) else model
        if (start is None) == (domain is None):
            raise InputError("a session begins with --model, or else with --domain, and not with both")
        if start is not None and columns is not None:
            raise InputError(
                "--columns is for a session without --model: a model says which columns it knows"
            )
        promise = Policy.given(policy, choices).uncertified
        domain = start.domain if start is not None else domain
        request = cls.open(
            table, promise, domain=domain, columns=columns, start=start, alpha=alpha, beta=beta
        )
        _ = request.scope  # it refuses columns that do not fit the domain
        records = start.model.total if start is not None else math.inf
        Prices(alpha * records, beta, request.spending.budget.composition)
        return request

    @property
    def scope(self) -> Scope:
        """The public facts about the table. Raises InputError if its columns do not fit the domain."""
        assert self.declared is not None
        names = self.columns if self.columns is not None else self.declared.names
        names = [name for name in names if name != self.promise.privacy_id]
        scope = Scope.of(replace(self, columns=names), Machine.of(self.promise))
        assert scope.domain is not None
        domain, _ = fit_columns(scope.domain, scope.visible, scope.columns)
        scope.visible.check_domain(domain.modelled)
        return replace(scope, domain=domain)

    @property
    def domain(self) -> Domain:
        """The domain that questions may be about."""
        domain = self.start.domain if self.start is not None else self.scope.domain
        assert domain is not None
        return domain

    @property
    def spending(self) -> Spending:
        """The request as the ledger enters it."""
        settings = {
            "alpha": self.alpha,
            "beta": self.beta,
            "domain": self.domain.to_dict(),
            "model": _digest(self.start) if self.start is not None else None,
        }
        return Spending("ask", self.promise, settings, self.fingerprint)


@contextlib.contextmanager
def ask_session(request: AskRequest, run: Run, *, resumable: bool) -> Iterator[Asking]:
    """A session within a run. If it fails and is not `resumable`, the ledger enters only what was spent; if
    it is, the whole budget stays reserved, so that the session can be resumed. The caller calls `run.finish`.
    """
    spent, scope = request.spending.begin(run), request.scope
    session = replace(spent.session, spill=scope.spill)
    session = session.encode(request.domain.modelled, request.bounded())
    try:
        begun = _begun(request, replace(spent, session=session), scope)
        begun.replay()
        yield begun
    except BaseException:
        if not resumable:
            with contextlib.suppress(AssertionError):  # stopped between a charge and its draw
                spent.drawn()
        raise
    spent.drawn()


def _begun(request: AskRequest, spent: Spent, scope: Scope) -> Asking:
    """The session with its model; without a model the records are counted first."""
    session, domain, start = spent.session, request.domain, request.start
    alpha, beta = request.alpha, request.beta
    sealed = PrivateQuestions.of(session.rows)
    composition = session.composition
    if start is not None:
        total = float(start.model.total)
        prices = Prices(alpha * total, beta, composition)
        model = Factored(start.model, prices.alpha, max_cells=max(MAX_CELLS, start.model.cells))
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
    known = spent.rests_on(request, rules=bool(scope.domain and scope.domain.rules))
    return Asking(domain, model, start, known, spent, Online(session, prices), sealed)


def _digest(start: Release) -> str:
    """A digest of the model's numbers, so that a session resumes with the model it began with."""
    digest = hashlib.sha256()
    for part in start.model.components:
        digest.update(part.beliefs.cliques.tobytes())
    return digest.hexdigest()
