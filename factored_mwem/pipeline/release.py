"""The main flow on one screen: table in, release out."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Unpack

from factored_mwem.accounting.unit import size_classes
from factored_mwem.errors import NotAccepted, NothingLearnt
from factored_mwem.files.crashpoints import reach
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms.limits import Machine, slowly
from factored_mwem.mechanisms.plan import PersonFacts, Plan, Scope
from factored_mwem.mechanisms.registry import make_ready
from factored_mwem.mechanisms.rounds import Progress, Report
from factored_mwem.mechanisms.shares import NUMBERS_TIMES
from factored_mwem.pipeline.attempts import first_accepted
from factored_mwem.pipeline.drawable import number_of_rows
from factored_mwem.pipeline.record.describe import describe
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.spending import Spending, Spent
from factored_mwem.privacy.noise import Noise
from factored_mwem.privacy.session import Session
from factored_mwem.request.policy import Policy
from factored_mwem.request.request import BookedOptions, Request
from factored_mwem.tables.backends.source import PeopleSource, Source
from factored_mwem.workload.workload import Workload

if TYPE_CHECKING:
    from factored_mwem.privacy.people import RowsUsed

SINGLES_COST = Fraction(1, 5)
"""About what single columns cost together, of what is left."""
log = logging.getLogger("factored_mwem")


def release(
    table: Any,
    workload: Workload | int,
    policy: Policy | None = None,
    *,
    report: Callable[[Progress], None] = lambda _: None,
    **options: Unpack[BookedOptions],
) -> Release:
    """A synthetic table that answers `workload` under the policy's differential privacy.

    Private input: `table` (a path, a pyarrow object or any data frame); everything returned is safe to
    publish. `workload` may be the order K of all K-way marginals. `options`, all of them optional:

    `domain`, `columns`: which values may appear, and the columns to release; without a domain a share of the
    budget learns one. `public_columns`, `public`: columns whose values come together as in a public table
    (anything that `table` may be), which is assumed to be so in the private one; they cost nothing. `rows`:
    how many to release, the noisy count by default. `sample_seed`: of the drawing alone. `spill`: a folder
    for what memory does not hold of the rows. `ledger` (a file, or `postgresql://USER@HOST/DATABASE`): the
    cost is entered there under `dataset` before it is spent; the same `run_id` again gives the same release
    for nothing. All others are fields of Policy, where no policy is
    given.

    Raises, before anything is spent wherever public facts are enough to know it:
        InputError: the table cannot be read, or an argument is wrong or does not fit it.
        BudgetExceeded: the ledger, or the budget itself, does not cover a cost.
        ResourceError: there is too little memory or disk, or a marginal has too many cells.
    Raises, after noisy numbers were paid for:
        NothingLearnt: without a domain, noise hides nearly everything.
        NotAccepted: no try meets the criteria of the policy.

    >>> import pyarrow as pa
    >>> from factored_mwem import release
    >>> people = pa.table({"age": [31, 45, 31, 62], "member": [True, False, True, True]})
    >>> made = release(people, 2, domain={"fields": [
    ...     {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
    ...     {"name": "member", "type": "boolean"}]}, epsilon=0.5, rows=1000)
    >>> made.to_pandas().shape
    (1000, 2)
    """
    choices: dict[str, Any] = dict(options)
    booking = Booking.of(choices)
    request = Request.of(table, workload, policy, **choices)
    return spending_of(request).made(booking, lambda run: make(request, run, report))


def check_request(request: Request) -> str | None:
    """What to say beforehand if rounds may take minutes. Raises what names, types and numbers rule out; reads
    no row.
    """
    _ = Scope.of(request, Machine.of(request.policy)), request.budget
    return slowly(request)


def spending_of(request: Request) -> Spending:
    """The release as the ledger enters it."""
    learns = request.declared is None
    return Spending("release", request.policy, request.settings, request.fingerprint, learns=learns)


def make(
    request: Request, run: Run | None = None, report: Report = lambda _: None, *, noise: Noise | None = None
) -> Release:
    """Make a release; `run` enters its cost. The caller writes the files and then calls `run.finish`.
    `noise`: OpenDP's by default; tests pass a fake.
    """
    policy, run = request.policy, run or Run()
    machine = Machine.of(policy)  # before any row is in memory
    seed = secrets.randbits(64) if request.sample_seed is None else request.sample_seed
    spent = spending_of(request).begin(run, noise, machine=[machine.memory, machine.step], seed=seed)
    session = spent.session
    if policy.certificate is not None:  # set aside, so that nothing else can spend it
        session = session.paid_by(spent.accountant.part(request.fitting_all.amount))
    released = fitted_to(request, spent, session, report)
    spent.drawn()
    reach("after fit")
    fit = released.manifest
    log.info("measured in %d rounds; spent epsilon %.6g of %g", fit.rounds, spent.epsilon, policy.epsilon)
    return released


def fitted_to(
    request: Request, spent: Spent, session: Session, report: Report, used: RowsUsed | None = None
) -> Release:
    """The release of a request, paid for by a session of what is being spent. `used`: how many rows of a
    person are, where that was counted before.
    """
    policy, seed = request.policy, spent.pinned["seed"]
    # Public facts: what can be refused is refused here.
    scope = Scope.of(request, Machine(*spent.pinned["machine"]))
    session = replace(session, spill=scope.spill)
    plan = Plan.of(scope, scope.domain) if scope.domain is not None else None
    make_ready(policy.engine)
    table: Source  # ---- private from here ...
    people = whose = None
    if policy.people:
        people = _person_facts(session, request, scope, used)
        table = whose = request.people(people.most_rows)
        scope = scope.using(_sizes(session, scope, people))
        plan = Plan.of(scope, scope.domain, people=people) if scope.domain is not None else None
    else:
        table = request.bounded()
    if plan is not None:
        session = session.encode(plan.modelled, table)
    else:
        session, plan = _learnt(session, table, scope, spent, people)
        if plan.companions:  # of codes that are learnt by now
            session = session.encode(plan.modelled, table)
    if whose is not None and policy.order_by is None:
        plan = _agreeing(session, plan, whose)
    session = session.foresee(plan.candidates)
    try:
        fitted, certificate = first_accepted(session, plan, _noted(report), seed)  # ---- ... to here
    except NotAccepted:
        spent.drawn()
        raise
    manifest = describe(plan, fitted, spent).model_copy(update={"certificate": certificate})
    return Release(
        plan.domain,
        fitted.model,
        plan.schema,
        fitted.measurements,
        fitted.residuals,
        manifest,
        rows=number_of_rows(request, manifest.estimated_rows),
        seed=seed,
    )


def _noted(report: Report) -> Report:
    """The report, and a line a round in the log."""

    def note(step: Progress) -> None:
        log.debug("round %d: measured %r; %d cells", step.round, [*step.attributes], step.cells)
        report(step)

    return note


def _person_facts(session: Session, request: Request, scope: Scope, used: RowsUsed | None) -> PersonFacts:
    """How many rows of a person are used, and which columns are the same in all of them: as declared, or else
    by noisy counts.
    """
    from factored_mwem.privacy.people import constant_columns, most_rows

    people, declared = request.people(), scope.policy.person_columns
    used = used or most_rows(session, people)
    if declared is not None:
        return PersonFacts(used.most, declared, used.beyond, used.people, full=used.full)
    constant = constant_columns(session, people, scope.own_columns, used.people)
    return PersonFacts(used.most, constant, used.beyond, used.people, full=used.full)


def _sizes(session: Session, scope: Scope, people: PersonFacts) -> Sequence[int]:
    """The classes of numbers of rows: finer, where people are many for the noise that is about to be drawn
    on them. Of noisy numbers alone.
    """
    if people.people is None:
        return size_classes(people.most_rows)
    cost = session.left * SINGLES_COST * NUMBERS_TIMES / (len(scope.own_columns) + NUMBERS_TIMES)
    noise = session.marginal_noise(cost).stddev / session.unit.grains
    return size_classes(people.most_rows, people.people / noise)


def _agreeing(session: Session, plan: Plan, table: PeopleSource) -> Plan:
    """The plan with how often two rows of a person agree; as it is, where nobody has two."""
    from factored_mwem.privacy.people import agreement_in

    people = plan.people
    if people is None or people.most_rows < 2:
        return plan
    same = {*people.constant, *plan.request.shared}
    shares = agreement_in(session, table, plan.domain, same, people.people, plan.request.family)
    return replace(plan, people=people._replace(agreement=shares))


def _learnt(
    session: Session, table: Source, scope: Scope, spent: Spent, people: PersonFacts | None
) -> tuple[Session, Plan]:
    """The session and the plan under a learnt domain. If the release ends here because hardly anything could
    be learnt, the ledger enters what was spent so far; after a refusal that other limits can avoid the run
    stays open.
    """
    from factored_mwem.mechanisms.learn import Serves, learn

    workload, policy = scope.workload, scope.policy
    try:
        needed = workload.columns | {name for c in policy.criteria for name in c.columns}
        needed |= {policy.order_by} if policy.order_by is not None else set()
        asked = scope.asked
        serves = Serves(
            needed,
            scope.known,
            public=asked.public,
            told=asked.told,
            numbers=asked.numbers,
        )
        learnt = learn(session, table, scope.own_columns, policy, serves)
        log.info("learnt the domain of %d columns, left out %r", len(learnt.domain), [*learnt.dropped])
        return learnt.session, Plan.of(scope, learnt.domain, learnt, people)
    except NothingLearnt:
        if spent.run.charged:
            spent.drawn()
        raise
