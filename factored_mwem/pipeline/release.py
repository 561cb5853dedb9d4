"""The main flow on one screen: table in, release out."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.crashpoints import reach
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.kernels.warmup import warm_up
from factored_mwem.ledger.run import Run
from factored_mwem.mechanisms.asking import Asking, ask
from factored_mwem.mechanisms.limits import Machine, limits_of
from factored_mwem.mechanisms.mwem import mwem
from factored_mwem.mechanisms.result import Fitted, Progress
from factored_mwem.mechanisms.tree import fit_forest
from factored_mwem.model.forest import Forest
from factored_mwem.pipeline.assumptions import assumptions_of
from factored_mwem.pipeline.manifest import describe, today, versions
from factored_mwem.pipeline.plan import check_learnable, missing_ids, usable, without_id
from factored_mwem.pipeline.result import DEFAULT_MAX_ROWS, Release
from factored_mwem.policy import Choices, Policy
from factored_mwem.privacy.counts import PrivateAnswers, PrivateCounts, PrivateRows
from factored_mwem.privacy.discover import OTHER, discover
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.privacy.session import Access
from factored_mwem.request import Request
from factored_mwem.tables.codec import encode_table, fit_columns
from factored_mwem.tables.contributions import bound_contributions
from factored_mwem.tables.source import Table
from factored_mwem.workload.workload import Workload


def release(
    table: Any,
    workload: Workload | int,
    policy: Policy | None = None,
    *,
    domain: Domain | dict[str, Any] | str | Path | None = None,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
    sample_seed: int | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    run_id: str | None = None,
    report: Callable[[Progress], None] = lambda _: None,
    **choices: Unpack[Choices],
) -> Release:
    """A synthetic table that answers `workload` under the policy's differential privacy.

    Private input: `table` (a path, a pyarrow object or any data frame); everything returned is safe to
    publish. `workload` may be the order K of all K-way marginals. Without `domain` a share of the budget
    learns one. `choices` are fields of Policy, where no policy is given. With `ledger`, a ledger file, the
    cost is entered under `dataset` before it is spent; the same `run_id` again gives the same release for
    nothing. Raises InputError, BudgetExceeded or ResourceError before anything is spent, wherever that can be
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
        table, workload, policy, domain=domain, columns=columns, rows=rows, sample_seed=sample_seed, **choices
    )
    with Run.begin(request, ledger, dataset, run_id, version=versions()) as run:
        made = make(request, run, report)
        run.finish({})
    return made


def make(request: Request, run: Run, report: Callable[[Progress], None]) -> Release:
    """The release of a request, its cost entered by `run`; writing its files and telling `run` so is the
    caller's.
    """
    r = request
    return _release(
        r.private,
        r.workload,
        r.policy,
        r.declared,
        r.columns,
        r.rows,
        r.sample_seed,
        report,
        noise=None,
        run=run,
    )


def _release(
    private: Table,
    workload: Workload,
    policy: Policy,
    declared: Domain | None,
    columns: Sequence[str] | None,
    rows: int | None,
    sample_seed: int | None,
    report: Callable[[Progress], None],
    *,
    noise: Noise | None,
    run: Run | None = None,
) -> Release:
    """`release` behind its conveniences; tests give `noise` a fake."""
    run = run or Run()
    seed = secrets.randbits(64) if sample_seed is None else sample_seed
    machine = Machine.of(policy)  # before any row is read
    pinned = run.pin({"machine": [machine.memory, machine.step], "seed": seed, "created": today()})
    budget = policy.budget(learn_domain=declared is None)
    ledger = Accountant(budget, run.reserve)
    access = Access(ledger, policy.unit, run.noise(noise or OpenDPNoise(budget.composition), ledger))
    domain, schema, fit, warnings = _fit(
        private, workload, policy, declared, columns, report, access, Machine(*pinned["machine"])
    )
    run.drawn(ledger)
    reach("after fit")
    manifest = describe(
        policy, workload, domain, access.ledger, fit.model, fit.measurements, fit.residuals,
        rounds=fit.rounds, sample_seed=sample_seed, warnings=warnings, notes=fit.notes, questions=fit.questions, created=pinned["created"],
        assumptions=assumptions_of(policy, private.form, learnt=declared is None, ledger=run.has_books),
        chain_head=run.chain_head,
    )  # fmt: skip
    rows = min(round(fit.model.total), DEFAULT_MAX_ROWS) if rows is None else rows
    return Release(
        domain, fit.model, schema, fit.measurements, fit.residuals, manifest, rows=rows, seed=pinned["seed"]
    )


def _fit(
    private: Table,
    workload: Workload,
    policy: Policy,
    declared: Domain | None,
    columns: Sequence[str] | None,
    report: Callable[[Progress], None],
    access: Access,
    machine: Machine,
) -> tuple[Domain, pa.Schema, Fitted, tuple[str, ...]]:
    """The fitted model, the types its rows come back in, and warnings: what can be refused from public facts
    is refused first.
    """
    if workload.asked and policy.iterate == "average":
        raise InputError(
            "iterate='average' is for marginals alone; leave it out with cubes, ranges or parities"
        )
    missing = missing_ids(policy, declared)
    visible, declared, columns = without_id(policy, private, declared, columns)
    if declared is not None:
        domain, schema = fit_columns(declared, visible, columns)
        candidates, left_out = usable(workload, domain, policy, machine)
    else:
        check_learnable(visible, columns, workload, policy, machine)
    if policy.engine == "tree":
        warm_up()
    if policy.privacy_id is not None:
        private = bound_contributions(private, policy.privacy_id, policy.contributions, missing)
    if declared is None:
        domain, schema = fit_columns(
            discover(private, columns, policy=policy, access=access), private, columns
        )
        candidates, left_out = usable(workload, domain, policy, machine)
    asking = Asking.of(workload, candidates) if policy.engine == "mwem" and workload.asked else None
    codes = encode_table(domain, private)  # ---- private from here ...
    known_total = len(codes[0]) if policy.unit.total_is_public else None
    late = None
    if asking is not None:
        private_answers = PrivateAnswers(codes, domain, asking.kinds)
        rows = PrivateRows(codes, domain)
        fit = ask(
            rows,
            private_answers,
            asking,
            candidates,
            policy,
            access=access,
            known_total=known_total,
            report=report,
        )
    elif policy.engine == "mwem":
        dense = mwem(
            PrivateCounts(codes, candidates),
            candidates,
            policy,
            access=access,
            known_total=known_total,
            report=report,
        )
        fit = Fitted(Forest.of(dense.model), dense.measurements, dense.rounds, dense.total_error)
    else:
        limits = limits_of(candidates, policy, machine)
        late = limits.late(policy)
        fit = fit_forest(
            PrivateRows(codes, domain),
            candidates,
            policy,
            access=access,
            known_total=known_total,
            limits=limits,
            report=report,
        )
        # ---- ... to here
    return domain, schema, fit, _warnings(policy, domain, fit, left_out, late)


def _warnings(
    policy: Policy, domain: Domain, fit: Fitted, left_out: int, late: str | None
) -> tuple[str, ...]:
    """What a reader of the manifest should know; public facts and noisy answers only."""
    found = [late] if late else []
    if policy.epsilon > 10:
        found.append(f"epsilon {policy.epsilon:g} promises little; values up to 10 are common")
    if policy.delta * fit.model.total > 1:
        found.append(
            f"delta {policy.delta:g} is more than one in the number of rows; a delta far below that is common"
        )
    if fit.total_error > fit.model.total / 2:
        found.append(
            "the noise is as large as the number of rows itself: give --rows, and expect little of the values"
        )
    if fit.model.total > DEFAULT_MAX_ROWS:
        found.append(
            f"the noisy count of rows is {fit.model.total:.3g}: more than {DEFAULT_MAX_ROWS:,} are drawn "
            "only where --rows says so"
        )
    if left_out:
        found.append(
            f"{left_out} candidate marginals have more than {policy.cells} cells (--max-cells) and could not "
            "be measured as a whole"
        )
    for attribute in domain:
        if attribute.learnt and attribute.description:
            found.append(f"{attribute.name!r}: {attribute.description}")
        if attribute.learnt and attribute.values == (OTHER,):
            found.append(
                f"{attribute.name!r}: no category is frequent enough for this budget, all became {OTHER!r}"
            )
    return tuple(found)
