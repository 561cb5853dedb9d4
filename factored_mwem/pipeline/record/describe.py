"""The manifest of a release, put together from the plan, the fitted model and the charges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction

import pyarrow as pa

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.accounting.unit import MOST_ROWS, USUAL_ROWS
from factored_mwem.domain.agreement import groupings_in
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.dialect import SHORT_YEARS
from factored_mwem.domain.rules import in_words, written
from factored_mwem.errors import quoted_names
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.result import Fitted
from factored_mwem.model.forest import Forest
from factored_mwem.pipeline.drawable import Drawable, number_of_rows
from factored_mwem.pipeline.record.manifest import (
    AttributeFacts,
    FoundRule,
    ListFacts,
    Manifest,
    MeasuredMarginal,
    MeasuredQuestion,
    MeasuredResiduals,
    PeopleFacts,
    PublicFacts,
    Stage,
)
from factored_mwem.pipeline.spending import Spent
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement
from factored_mwem.request.policy import DEFAULT_MAX_ROWS
from factored_mwem.tables.codes.parsing import value_type

CUT = 0.01
"""The share of people with about as many rows as are used by default from which a warning says so."""


def describe(plan: Plan, fitted: Fitted, spent: Spent) -> Manifest:
    """The manifest of a fitted model: parameters, domain, charges, noisy measurements; all public."""
    request, policy, domain, model = plan.request, plan.policy, plan.domain, fitted.model
    names, drawable = model.levels.names(plan.modelled.names), drawable_of(plan, fitted)
    cliques = [clique for part in model.components for clique in part.tree.cliques]
    return Manifest(
        **spent.facts(
            spent.rests_on(
                request,
                learnt=plan.learnt,
                rules=not plan.learnt and bool(domain.rules),
                public=request.public_facts,
            )
        ),
        stages=_stages(spent.accountant),
        policy=policy.model_dump(mode="json"),
        workload=request.workload.to_dict(),
        attributes=tuple(_attribute(a, plan) for a in domain),
        domain=domain.to_dict(),
        components=tuple(sorted(tuple(names[a] for a in part.attributes) for part in model.components)),
        cliques=tuple(tuple(names[v] for v in clique) for clique in cliques),
        rounds=fitted.rounds,
        # what follows from tables that were released before was not measured here, though the model fits it
        measurements=tuple(
            _measured(m, names) for m in fitted.measurements if not _is_told(m, plan, fitted.model)
        ),
        residuals=tuple(map(_residuals, fitted.residuals)),
        estimated_rows=round(drawable.of_rows.total),
        people=drawable.people,
        public=None if request.public is None else PublicFacts(**request.public.facts),
        found_rules=tuple(_found_rules(plan)),
        sample_seed=request.sample_seed,
        warnings=(
            *_warnings(plan, fitted, drawable.of_rows.total),
            *_rows_alone(plan, drawable, spent.pinned.get("seed", 0)),
        ),
        notes=(*fitted.notes, *_notes(plan)),
        questions=tuple(MeasuredQuestion(**asdict(q)) for q in fitted.questions),
    )


def drawable_of(plan: Plan, fitted: Fitted) -> Drawable:
    """What a release of this model draws its rows from."""
    people = _people(plan, fitted.model)
    return Drawable(fitted.model, plan.domain, plan.schema, plan.policy.unit, people, fitted.measurements)


def _people(plan: Plan, model: Forest) -> PeopleFacts | None:
    """The facts about the people that a release counted."""
    policy, private = plan.policy, plan.request.private
    if not policy.people or policy.privacy_id is None or plan.people is None:
        return None
    from factored_mwem.pipeline.people import people_in

    most = plan.people.most_rows
    kind = value_type(private.schema.field(policy.privacy_id).type)
    return PeopleFacts(
        column=policy.privacy_id,
        type="integer" if pa.types.is_integer(kind) else "string",
        grains=policy.unit.grains,
        most_rows=most,
        estimated=round(people_in(model, plan.domain, policy.unit, most)),
        constant=tuple(name for name in plan.people.constant if name in plan.domain),
        beyond=plan.people.beyond,
        order_by=policy.order_by,
        companions=tuple(each.attribute.name for each in plan.companions),
        agreement=dict(plan.people.agreement.shares),
        agreement_stddev=plan.people.agreement.stddev,
        shared=tuple(name for name in plan.request.shared if name in plan.domain),
    )


def _found_rules(plan: Plan) -> Iterator[FoundRule]:
    for relation in plan.learning.relations if plan.learning is not None else ():
        rule, broken, stddev = relation.rule, relation.broken, relation.stddev
        yield FoundRule(words=in_words(rule), rule=written(rule), broken=broken, stddev=stddev)


def _attribute(a: Attribute, plan: Plan) -> AttributeFacts:
    fates = plan.learning.fates if plan.learning is not None else {}
    fate = fates[a.name]._asdict() if a.name in fates else {}
    domain = "learnt" if a.learnt else "declared"
    of = plan.learning.lists.get(a.name) if plan.learning is not None else None
    known = ListFacts(name=of.name, version=of.version, sha256=of.sha256) if of is not None else None
    own = {"name": a.name, "type": a.type, "codes": a.size, "nullable": a.nullable, "domain": domain}
    return AttributeFacts(**own, public_list=known, **fate)


def _is_told(m: Measurement, plan: Plan, model: Forest) -> bool:
    return len(m.positions) == 1 and int(model.levels.attribute[m.positions[0]]) in plan.told


def _measured(m: Measurement, names: Sequence[str]) -> MeasuredMarginal:
    attributes = tuple(names[v] for v in m.positions)
    return MeasuredMarginal(attributes=attributes, cells=len(m.noisy), scale=m.scale.value)


def _residuals(r: Residuals) -> MeasuredResiduals:
    subsets = int((r.weights > 0).sum())
    return MeasuredResiduals(order=r.order, subsets=subsets, answers=len(r.noisy), scale=r.scale.value)


def _warnings(plan: Plan, fitted: Fitted, records: float) -> Iterator[str]:
    """Warnings for readers of the manifest, from public facts and noisy answers only. `records`: about how
    many rows there are.
    """
    policy = plan.policy
    if plan.late:
        yield plan.late
    if (public := plan.request.public_facts) is not None:
        names = quoted_names(public["columns"])
        yield (
            f"as in the public table {public['table']!r}: {names}; where this table differs, the rows are "
            f"wrong, as only `fmwem evaluate` shows (SHA-256 {public['sha256']})"
        )
    yield from _of_the_input(plan)
    if policy.epsilon > 10:
        yield f"epsilon {policy.epsilon:g} promises little; values up to 10 are common"
    if policy.delta * records > 1:
        yield (
            f"delta {policy.delta:g} is more than one in the number of rows; a delta far below that is common"
        )
    if fitted.total.stderr > fitted.model.total / 2:
        yield (
            "the noise is as large as the number of rows itself: give --rows, and expect little of the values"
        )
    if records > DEFAULT_MAX_ROWS:
        yield (
            f"the noisy count of rows is {records:.3g}: more than {DEFAULT_MAX_ROWS:,} are drawn only where "
            "--rows says so"
        )
    if plan.left_out:
        yield (
            f"{plan.left_out} candidate marginals have more than {policy.cells} cells (--max-cells) and "
            "could not be measured as a whole"
        )
    if plan.people is not None and plan.people.full > CUT and policy.contributions == USUAL_ROWS:
        yield (
            f"{plan.people.full:.1%} of the people, by a noisy count, have about {USUAL_ROWS} rows or more, "
            "and no more of them are used: if many have more, too few rows come out; --contributions of up "
            f"to {MOST_ROWS:,} keeps them"
        )
    for attribute in plan.domain:
        if attribute.learnt and attribute.description:
            yield f"{attribute.name!r}: {attribute.description}"
    declared = plan.request.declared
    if plan.learning is not None:
        from factored_mwem.pipeline.record.describe_learnt import warnings_of

        yield from warnings_of(plan, plan.learning)
    elif declared is not None and any(attribute.learnt for attribute in declared):  # in another run
        from factored_mwem.pipeline.record.describe_learnt import order_in_words

        yield from order_in_words(declared.project([a.name for a in plan.domain if a.name in declared]))


def _notes(plan: Plan) -> Iterator[str]:
    """What learning a domain told of how columns are read."""
    if plan.learning is not None:
        from factored_mwem.pipeline.record.describe_learnt import notes_of

        yield from notes_of(plan, plan.learning)


def _of_the_input(plan: Plan) -> Iterator[str]:
    """Warnings of the policy and the domain file about the input that the released rows do not show."""
    policy, declared = plan.policy, plan.request.declared
    if policy.left_out:
        yield f"{policy.left_out}: --contributions says how many, and --people lets a person weigh one"
    if declared is not None and declared.questions:
        yield (
            "the domain file still holds the questions of its draft, which was read off a table: ends, bins "
            'and lists that were left as drafted are not protected; remove "questions" once all are decided'
        )
    short = policy.dialect.beside(declared.dialect if declared is not None else None).short_years
    dated = (a for a in plan.domain if a.type in ("date", "datetime"))
    names = [a.name for a in dated if short or "%y" in a.format]  # said, or told by noisy counts
    if names:
        yield f"{quoted_names(names)}: {SHORT_YEARS}; an earlier one comes out a century late"


def _rows_alone(plan: Plan, drawable: Drawable, seed: int) -> Iterator[str]:
    """A warning where rows of a person do not go together as often as real ones do. Free: the model, and the
    seed of the release's rows, are public.
    """
    people, how = drawable.people, "beyond what is the same in all of them, rows of a person are independent"
    if people is None or people.order_by is not None or people.most_rows < 2:
        return
    if not people.agreement:
        if groupings_in(plan.domain, {*people.constant, *people.shared}):
            yield f"there are too few people to tell how often two rows of one agree: {how}"
        return
    from factored_mwem.pipeline import usual

    if drawable.model.cells > usual.MAX_CELLS:  # no row takes more cells than there are
        rows = number_of_rows(plan.request, round(drawable.of_rows.total))
        drawn = drawable.drawn(rows, seed, ())
        if isinstance(drawn, usual.UsualBatches) and drawn.alone:
            yield f"the model is too large to keep how often two rows of a person agree: {how}"


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
