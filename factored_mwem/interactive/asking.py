"""Asking: a session of questions about a private table, answered by a model where it will do, else
measured.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Unpack

from factored_mwem.accounting.accountant import additive, price
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.interactive.factored import MAX_CELLS, Factored
from factored_mwem.interactive.mechanism import Online
from factored_mwem.interactive.prices import Prices
from factored_mwem.interactive.session import NOTHING_TO_SAVE, Asking
from factored_mwem.ledger.run import Booking
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Scope
from factored_mwem.mechanisms.total import first_total
from factored_mwem.pipeline.assumptions import Assumption, assumptions_of
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.task import Opened, Task, opened
from factored_mwem.policy import Choices, Policy
from factored_mwem.privacy.noise import Noise
from factored_mwem.request import Request
from factored_mwem.tables.codec import fit_columns
from factored_mwem.workload.workload import Workload

ALPHA, BETA = 0.01, 0.001
COUNT_SHARE = Fraction(1, 50)
"""Of the budget: counting the records, where there is no model that knows about how many there are."""
COUNT_NOISE = 50.0
"""Scale, in records, beyond which no less noise is wanted there."""


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
        try:
            begun = _begun(task, replace(at, session=session), scope, made)
            begun.replay()
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
