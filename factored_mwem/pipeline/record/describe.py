"""The manifest of a release, put together from the plan, the fitted model and the charges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.domain.attribute import OTHER, Attribute
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.result import Fitted
from factored_mwem.pipeline.record.manifest import (
    AttributeFacts,
    Manifest,
    MeasuredMarginal,
    MeasuredQuestion,
    MeasuredResiduals,
    Stage,
)
from factored_mwem.pipeline.spending import Spent
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement
from factored_mwem.request.policy import DEFAULT_MAX_ROWS

MUCH = 0.1
"""A warning says so where more than this share of a learnt column's values is lost."""


def describe(plan: Plan, fitted: Fitted, spent: Spent) -> Manifest:
    """The manifest of a fitted model: parameters, domain, charges, noisy measurements; all public."""
    request, policy, domain, model = plan.request, plan.policy, plan.domain, fitted.model
    names = model.levels.names(plan.modelled.names)
    cliques = [clique for part in model.components for clique in part.tree.cliques]
    return Manifest(
        **spent.facts(spent.rests_on(request, learnt=plan.learnt, rules=bool(domain.rules))),
        stages=_stages(spent.accountant),
        policy=policy.model_dump(mode="json"),
        workload=request.workload.to_dict(),
        attributes=tuple(_attribute(a, plan) for a in domain),
        domain=domain.to_dict(),
        components=tuple(sorted(tuple(names[a] for a in part.attributes) for part in model.components)),
        cliques=tuple(tuple(names[v] for v in clique) for clique in cliques),
        rounds=fitted.rounds,
        measurements=tuple(_measured(m, names) for m in fitted.measurements),
        residuals=tuple(map(_residuals, fitted.residuals)),
        estimated_rows=round(model.total),
        sample_seed=request.sample_seed,
        warnings=tuple(_warnings(plan, fitted)),
        notes=fitted.notes,
        questions=tuple(MeasuredQuestion(**asdict(q)) for q in fitted.questions),
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
    from factored_mwem.mechanisms.learn import is_unique

    rare = (
        "nearly all rows have values that fewer than about {:,.0f} rows share, too few to be told from noise"
    )
    for name in plan.learning.dropped:
        yield f"{name!r} was left out: {rare.format(plan.learning.thresholds[name])}"
    for attribute in plan.domain:
        fate = plan.learning.fates[attribute.name]
        if is_unique(attribute, fate):
            yield (
                f"{attribute.name!r}: {rare.format(plan.learning.thresholds[attribute.name])}, and became "
                f"{OTHER!r}; declare its values to keep them, or leave it out with --drop-unique"
            )
        elif max(fate.other, fate.clipped) > MUCH:
            what = (
                f"became {attribute.other!r}" if fate.other > fate.clipped else "were moved to the last bin"
            )
            share = max(fate.other, fate.clipped)
            yield f"{attribute.name!r}: {share:.0%} of the rows {what}; declare its values to keep them"


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
