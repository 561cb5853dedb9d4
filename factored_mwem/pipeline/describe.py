"""The manifest of a release, put together from the plan, the fitted model and the charges."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction

from factored_mwem.accounting.accountant import Accountant, Charge
from factored_mwem.accounting.conversion import library_version
from factored_mwem.domain.attribute import Attribute
from factored_mwem.ledger.run import Run
from factored_mwem.mechanisms.first_domain import OTHER
from factored_mwem.mechanisms.learn import is_unique
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.result import Fitted
from factored_mwem.pipeline.assumptions import Assumptions, assumptions_of
from factored_mwem.pipeline.manifest import (
    AttributeFacts,
    ChargeRecord,
    Guarantee,
    Manifest,
    MeasuredMarginal,
    MeasuredQuestion,
    MeasuredResiduals,
    Stage,
    tool_version,
)
from factored_mwem.policy import DEFAULT_MAX_ROWS, Policy
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement

MUCH = 0.1
"""A warning says so where more than this share of a learnt column's values is lost."""


def describe(plan: Plan, fitted: Fitted, accountant: Accountant, run: Run, *, created: str) -> Manifest:
    """The manifest of a fitted model. Everything in it is public: parameters, the domain, the charges and
    facts about noisy measurements.
    """
    request, policy, domain, model = plan.request, plan.policy, plan.domain, fitted.model
    names = model.levels.names(plan.modelled.names)
    cliques = [clique for part in model.components for clique in part.tree.cliques]
    assumptions = assumptions_of(
        policy,
        request.private.form,
        learnt=plan.learnt,
        ledger=run.has_books,
        rules=bool(domain.rules),
        cluster=request.private.cluster,
    )
    return Manifest(
        tool_version=tool_version(),
        created=datetime.date.fromisoformat(created),
        guarantee=_guarantee(policy, accountant, assumptions),
        stages=_stages(accountant),
        ledger=tuple(map(charge_record, accountant.entries)),
        policy=policy.model_dump(mode="json"),
        workload=request.workload.to_dict(),
        attributes=tuple(_attribute(a, plan) for a in domain),
        domain=domain.to_dict(),
        components=tuple(sorted(tuple(names[a] for a in part.attributes) for part in model.components)),
        cliques=tuple(tuple(names[v] for v in clique) for clique in cliques),
        rounds=fitted.rounds,
        measurements=tuple(_measured(m, names) for m in fitted.measurements),
        residuals=tuple(map(_residuals, fitted.residuals)),
        noise_library=library_version(),
        estimated_rows=round(model.total),
        sample_seed=request.sample_seed,
        warnings=tuple(_warnings(plan, fitted)),
        notes=fitted.notes,
        questions=tuple(MeasuredQuestion(**asdict(q)) for q in fitted.questions),
        chain_head=run.chain_head,
    )


def _attribute(a: Attribute, plan: Plan) -> AttributeFacts:
    fate = plan.learning.fates[a.name]._asdict() if plan.learning is not None else {}
    domain = "learnt" if a.learnt else "declared"
    return AttributeFacts(name=a.name, type=a.type, codes=a.size, nullable=a.nullable, domain=domain, **fate)


def _measured(m: Measurement, names: Sequence[str]) -> MeasuredMarginal:
    attributes = tuple(names[v] for v in m.positions)
    return MeasuredMarginal(attributes=attributes, cells=len(m.noisy), scale=m.scale.value)


def _residuals(r: Residuals) -> MeasuredResiduals:
    subsets = int((r.weights > 0).sum())
    return MeasuredResiduals(order=r.order, subsets=subsets, answers=len(r.noisy), scale=r.scale.value)


def _warnings(plan: Plan, fitted: Fitted) -> Iterator[str]:
    """What a reader of the manifest should know; public facts and noisy answers only."""
    policy, records = plan.policy, fitted.model.total
    if plan.late:
        yield plan.late
    if policy.epsilon > 10:
        yield f"epsilon {policy.epsilon:g} promises little; values up to 10 are common"
    if policy.delta * records > 1:
        yield (
            f"delta {policy.delta:g} is more than one in the number of rows; a delta far below that is common"
        )
    if fitted.total.stderr > records / 2:
        yield (
            "the noise is as large as the number of rows itself: give --rows, and expect little of the values"
        )
    if records > DEFAULT_MAX_ROWS:
        yield (
            f"the noisy count of rows is {records:.3g}: more than {DEFAULT_MAX_ROWS:,} are drawn only where "
            "--rows "
            "says so"
        )
    if plan.left_out:
        yield (
            f"{plan.left_out} candidate marginals have more than {policy.cells} cells (--max-cells) and "
            "could not be "
            "measured as a whole"
        )
    for attribute in plan.domain:
        if attribute.learnt and attribute.description:
            yield f"{attribute.name!r}: {attribute.description}"
    yield from _losses(plan)


def _losses(plan: Plan) -> Iterator[str]:
    """What learning a domain could not keep."""
    if plan.learning is None:
        return
    for name in plan.learning.dropped:
        yield f"{name!r} was left out: nearly every value is its own (an identifier, or free text)"
    for attribute in plan.domain:
        fate = plan.learning.fates[attribute.name]
        if is_unique(attribute, fate):
            yield (
                f"{attribute.name!r}: nearly every value is its own (an identifier, or free text), and "
                f"became {OTHER!r}; --drop-unique leaves such columns out"
            )
        elif max(fate.other, fate.clipped) > MUCH:
            what = (
                f"became {attribute.other!r}" if fate.other > fate.clipped else "were moved to the last bin"
            )
            share = max(fate.other, fate.clipped)
            yield f"{attribute.name!r}: {share:.0%} of the rows {what}; declare its values to keep them"


def charge_record(e: Charge) -> ChargeRecord:
    """A charge as a manifest tells of it."""
    return ChargeRecord(
        stage=e.stage,
        mechanism=e.mechanism,
        target=e.target,
        scale=e.scale,
        sensitivity=e.sensitivity,
        delta=str(e.delta),
    )


def statement(policy: Policy, delta: float) -> str:
    """The promise of a policy in one sentence."""
    bound = "" if policy.privacy_id is None else f" (bounded by {policy.privacy_id!r})"
    who = f"one person with at most {policy.contributions} row{'s' * (policy.contributions > 1)}{bound}"
    change = (
        f"{who} added or removed" if policy.neighbours == "add-remove" else f"{who} exchanged for another"
    )
    kind = (
        f"({policy.epsilon:g}, {delta:g})-differential privacy"
        if delta
        else f"{policy.epsilon:g}-differential privacy"
    )
    return f"{kind} against tables with {change}, under the assumptions listed"


def _guarantee(policy: Policy, accountant: Accountant, assumptions: Assumptions) -> Guarantee:
    epsilon, delta = accountant.guarantee()
    return Guarantee(
        epsilon=policy.epsilon,
        delta=delta,
        spent_epsilon=epsilon,
        neighbours=policy.neighbours.value,
        contributions=policy.contributions,
        composition=accountant.budget.composition,
        statement=statement(policy, delta),
        assumptions=assumptions,
    )


def _stages(accountant: Accountant) -> tuple[Stage, ...]:
    names = dict.fromkeys(e.stage for e in accountant.entries)
    return tuple(
        Stage(
            stage=name,
            cost=float(accountant.stage_cost(name)),
            share=float(accountant.stage_cost(name) / accountant.budget.amount),
            delta=float(sum((e.delta for e in accountant.entries if e.stage == name), Fraction(0))),
        )
        for name in names
    )
