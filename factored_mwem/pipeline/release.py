"""The main flow on one screen: table in, release out."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.backends.source import Source
from factored_mwem.crashpoints import reach
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import NotAccepted, NothingLearnt
from factored_mwem.kernels.warmup import warm_up
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms.learn import learn
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Plan, Scope
from factored_mwem.mechanisms.result import Progress, Report
from factored_mwem.pipeline.attempts import first_accepted, number_of_rows
from factored_mwem.pipeline.describe import describe
from factored_mwem.pipeline.manifest import today, versions
from factored_mwem.pipeline.result import Release
from factored_mwem.policy import Choices, Policy
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.privacy.session import Session
from factored_mwem.request import Request
from factored_mwem.workload.workload import Workload

log = logging.getLogger("factored_mwem")


def release(
    table: Any,
    workload: Workload | int,
    policy: Policy | None = None,
    *,
    domain: Domain | dict[str, Any] | str | Path | None = None,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
    sample_seed: int | None = None,
    spill: str | Path | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    run_id: str | None = None,
    report: Callable[[Progress], None] = lambda _: None,
    **choices: Unpack[Choices],
) -> Release:
    """A synthetic table that answers `workload` under the policy's differential privacy.

    Private input: `table` (a path, a pyarrow object or any data frame); everything returned is safe to
    publish. `workload` may be the order K of all K-way marginals. Without `domain` a share of the budget
    learns one. `choices` are fields of Policy, where no policy is given. With `ledger` (a file, or
    `postgresql://USER@HOST/DATABASE`) the cost is entered under `dataset` before it is spent; the same
    `run_id` again gives the same release for nothing. `spill`: a folder for what memory does not hold of the
    rows. Raises InputError, BudgetExceeded or ResourceError before anything is spent, wherever that can be
    known from public facts.

    >>> import pyarrow as pa
    >>> from factored_mwem import release
    >>> people = pa.table({"age": [31, 45, 31, 62], "member": [True, False, True, True]})
    >>> made = release(people, 2, domain={"fields": [
    ...     {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
    ...     {"name": "member", "type": "boolean"}]}, epsilon=0.5, rows=1000)
    >>> made.to_pandas().shape
    (1000, 2)
    """
    request = Request.of(
        table,
        workload,
        policy,
        domain=domain,
        columns=columns,
        rows=rows,
        sample_seed=sample_seed,
        spill=spill,
        **choices,
    )
    with Run.begin(request, Booking(ledger, dataset, run_id), version=versions()) as run:
        made = make(request, run, report)
        run.finish()
    return made


def make(
    request: Request, run: Run | None = None, report: Report = lambda _: None, *, noise: Noise | None = None
) -> Release:
    """Make a release; `run` enters its cost. The caller writes the files and then calls `run.finish`.

    `noise`: OpenDP's by default; tests give a fake.
    """
    policy, run = request.policy, run or Run()
    machine = Machine.of(policy)  # before any row is in memory
    seed = secrets.randbits(64) if request.sample_seed is None else request.sample_seed
    pinned = run.pin({"machine": [machine.memory, machine.step], "seed": seed, "created": today()})
    accountant = Accountant(request.budget, run.reserve)
    noise = run.noise(noise or OpenDPNoise(request.budget.composition), accountant)
    # Public facts: what can be refused is refused here.
    scope = Scope.of(request, Machine(*pinned["machine"]))
    paying = accountant  # what is kept for the certificate, nothing else can spend
    if policy.certificate is not None:
        paying = accountant.part(request.fitting_all.amount)
    session = Session(paying, policy.unit, noise, spill=scope.spill)
    plan = Plan.of(scope, scope.domain) if scope.domain is not None else None
    if policy.engine == "tree":
        warm_up()
    table = scope.bounded()  # ---- private from here ...
    if plan is not None:
        session = session.encode(plan.modelled, table)
    else:
        session, plan = _learnt(session, table, scope, run)
    session = session.foresee(plan.candidates)
    try:
        attempt = first_accepted(session, plan, _noted(report), pinned["seed"])  # ---- ... to here
    except NotAccepted:
        run.drawn(accountant)
        raise
    run.drawn(accountant)
    reach("after fit")
    fitted = attempt.fitted
    manifest = describe(plan, fitted, accountant, run, created=pinned["created"])
    manifest = manifest.model_copy(update={"certificate": attempt.certificate})
    spent = manifest.guarantee.spent_epsilon
    log.info("measured in %d rounds; spent epsilon %.6g of %g", fitted.rounds, spent, policy.epsilon)
    return Release(
        plan.domain,
        fitted.model,
        plan.schema,
        fitted.measurements,
        fitted.residuals,
        manifest,
        rows=number_of_rows(request, fitted.model),
        seed=pinned["seed"],
    )


def _noted(report: Report) -> Report:
    """The report, and a line a round in the log."""

    def note(step: Progress) -> None:
        log.debug("round %d: measured %r; %d cells", step.round, [*step.attributes], step.cells)
        report(step)

    return note


def _learnt(session: Session, table: Source, scope: Scope, run: Run) -> tuple[Session, Plan]:
    """The session and the plan under a learnt domain. Where it ends there, because hardly anything could be
    learnt, the books hear what was spent until then; a refusal that other limits mend leaves the run open.
    """
    workload, policy = scope.request.workload, scope.request.policy
    try:
        needed = workload.columns | {c.column for c in policy.criteria if c.column is not None}
        learnt = learn(session, table, scope.columns, policy, needed=needed)
        log.info("learnt the domain of %d columns, left out %r", len(learnt.domain), [*learnt.dropped])
        return learnt.session, Plan.of(scope, learnt.domain, learnt)
    except NothingLearnt:
        if run.charged:
            run.drawn(session.accountant.root)
        raise
