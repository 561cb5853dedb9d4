"""The manifest of a release, put together from the plan, the fitted model and the charges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.accounting.unit import MOST_ROWS, USUAL_ROWS
from factored_mwem.domain.agreement import groupings_in
from factored_mwem.domain.attribute import OTHER, Attribute
from factored_mwem.domain.dialect import SHORT_YEARS
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.rules import in_words, written
from factored_mwem.errors import some_names
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
from factored_mwem.request.policy import DEFAULT_MAX_ROWS, Policy
from factored_mwem.tables.codes.parsing import value_type

if TYPE_CHECKING:
    from factored_mwem.mechanisms.learn import Learning
    from factored_mwem.mechanisms.prune import Fate

CUT = 0.01
"""The share of people with about as many rows as are used by default from which a warning says so."""
MUCH = 0.1
"""A warning says so where more than this share of a learnt column's values is lost."""
ALIKE = 0.8
"""The part of their years that two columns of dates must share, for their order to be spoken of."""
WIDER, WIDEST = 0.2, 3
"""The part by which a standard deviation may be larger from which a warning says so, and of how many columns
by name: the widest.
"""


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
        notes=(*fitted.notes, *_unseen_decimals(plan), *_formats(plan)),
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
        names = some_names([repr(name) for name in public["columns"]])
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
    yield from _unordered(plan)
    yield from _losses(plan)
    if plan.learning is not None:
        if plan.learning.hidden:
            yield plan.learning.hidden
        yield from rounded_in_words(plan.learning, plan.policy.people)
        yield from spread_in_words(plan.learning.fates)
        yield from order_in_words(plan.domain)


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
    names = [repr(a.name) for a in dated if short or "%y" in a.format]  # said, or told by noisy counts
    if names:
        yield f"{some_names(names)}: {SHORT_YEARS}; an earlier one comes out a century late"


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


def _losses(plan: Plan) -> Iterator[str]:
    """Warnings about values that learning a domain could not keep."""
    if plan.learning is None:
        return
    from factored_mwem.mechanisms.learn import LOOKS, is_unique

    few = {name: _few(enough, plan.policy) for name, enough in plan.learning.enough.items()}
    looks = plan.learning.looks
    for name in plan.learning.dropped:
        yield f"{name!r} was left out: {LOOKS.get(looks.get(name, ''), _unseen(few[name]))}"
    for attribute in plan.domain:
        if attribute.name not in plan.learning.fates:  # a companion
            continue
        fate = plan.learning.fates[attribute.name]
        if is_unique(attribute, fate):
            why = LOOKS.get(looks.get(attribute.name, ""), _unseen(few[attribute.name]))
            yield f"{attribute.name!r}: {why}; all became {OTHER!r}; --drop-unique leaves such columns out"
        elif attribute.values == (OTHER,):  # of few rows, for in most it is missing
            yield f"{attribute.name!r}: {_unseen(few[attribute.name])}; all became {OTHER!r}"
        elif attribute.categories == ():
            why = LOOKS.get(looks.get(attribute.name, ""), _unseen(few[attribute.name]))
            yield f"{attribute.name!r}: {why}; all are missing"
        elif (share := max(fate.other, fate.clipped)) > MUCH:
            what = "were moved to the last bin"
            if fate.other > fate.clipped:
                what = (
                    f"became {attribute.other!r} ({few[attribute.name]} cannot be told from noise for sure)"
                )
            rows = "the rows, each person weighing one," if plan.policy.people else "the rows"
            yield f"{attribute.name!r}: {share:.0%} of {rows} {what}; declare its values to keep them"


def spread_in_words(fates: Mapping[str, Fate]) -> Iterator[str]:
    """Warnings where noise may hide much beyond the ends of learnt columns of numbers; free."""
    from factored_mwem.mechanisms.hidden_spread import MOST

    hidden = {  # of a column that is more than noise
        name: fate.spread_hidden or 0.0 for name, fate in fates.items() if fate.kept > 2 * fate.moved_at_most
    }
    widest = sorted((name for name in hidden if WIDER < hidden[name] < MOST), key=lambda name: -hidden[name])
    if widest:
        named = some_names([f"{name!r} by {hidden[name]:.0%}" for name in widest[:WIDEST]])
        left = len(widest) - WIDEST
        more = f" (and of {left} more column{'s' * (left > 1)})" if left > 0 else ""
        yield (
            "noise may hide rare values beyond the ends of what was learnt, which would make standard "
            f"deviations larger: of {named}{more}; declare their values"
        )
    if alone := [name for name in hidden if hidden[name] >= MOST]:
        what = "hardly any value but one was found, and noise may hide rare ones"
        yield f"{what}: of {some_names([repr(name) for name in alone])}; declare their values"


def order_in_words(domain: Domain) -> Iterator[str]:
    """A warning about learnt dates or times of the same years that no rule ties: a row that was closed before
    it was created looks like any other to marginals over bins. Free.
    """
    dated = [a for a in domain if a.learnt and a.type in ("date", "datetime") and len(a.cuts) > 1]
    names: dict[str, None] = {}
    for one, other in itertools.combinations(dated, 2):
        (begin, after), (end, before) = (sorted(a.cuts[at].item() for a in (one, other)) for at in (0, -1))
        together = one.type == other.type and end - after > ALIKE * (before - begin)
        if together and not any({one.name, other.name} <= {*rule.columns} for rule in domain.rules):
            names |= dict.fromkeys((one.name, other.name))
    if names:
        yield (
            f"which of {some_names([repr(name) for name in names])} comes first is not kept row by row: if "
            'one never comes before another, say so by {"order": [...], "exchange": true} among the rules of '
            "a domain, such as `fmwem domain learn` writes"
        )


def _unordered(plan: Plan) -> Iterator[str]:
    """A warning where the column that puts rows in order was learnt as text, or as dates whose form was not
    known before.
    """
    name = plan.policy.order_by
    if plan.learning is None or name is None:
        return
    kind, form = plan.domain[name].type, plan.domain[name].format
    if kind == "string":
        from factored_mwem.mechanisms.learn import LOOKS

        why = LOOKS.get(plan.learning.looks.get(name, ""), "it was learnt as text")
    elif kind in ("integer", "number") and form != "default":
        why = f"its numbers are written as {form!r}, which nothing tells beforehand"
    elif form != "default":
        why = f"only --date-format {form!r} tells beforehand how its dates are written"
    else:
        return
    yield (
        f"{name!r}: {why}; --order-by reads numbers and ISO 8601 times: of other values the rows of a "
        "person stay in the order of the table"
    )


def rounded_in_words(learning: Learning, people: bool = False) -> Iterator[str]:
    """Warnings about columns of whole numbers of which some rows may have held decimals, as far as noise
    tells.
    """
    from factored_mwem.privacy.popular import DOUBT

    for name, (rows, stddev) in learning.rounded.items():
        if name in learning.domain and rows > DOUBT * stddev:
            few = f"about {rows:,.0f} of its values"
            if people:
                few = f"values whose rows weigh as much as about {rows:,.0f} people"
            yield (
                f"{name!r} was learnt as whole numbers, but {few} may have had decimals, which are lost "
                "then; declare it as a number if it has any"
            )


def _unseen_decimals(plan: Plan) -> Iterator[str]:
    """Below how many rows decimals among whole numbers are not seen."""
    rounded = plan.learning.rounded if plan.learning is not None else {}
    if rounded:
        from factored_mwem.privacy.popular import SEEN

        most = max(SEEN * stddev for _, stddev in rounded.values())
        few = f"fewer than about {most:,.0f} rows"
        if plan.policy.people:
            few = f"rows that weigh less than about {most:,.0f} people"
        yield (
            f"decimals in {few} of a column of whole numbers would not have been seen, and are rounded down"
        )


def _formats(plan: Plan) -> Iterator[str]:
    """How dates and numbers are written, where noisy counts told it."""
    learnt = plan.learning.fates if plan.learning is not None else ()
    for attribute in plan.domain:
        if attribute.name not in learnt or attribute.format == "default":
            continue
        if attribute.type in ("integer", "number"):
            from factored_mwem.tables.codes.notation import CLOCKS

            unit = ""
            if attribute.format in CLOCKS:
                unit = f", whole {'seconds' if '%S' in attribute.format else 'minutes'} since midnight"
            comma = ""
            if "," in attribute.format and attribute.type == "integer":  # a point would tell it
                comma = "; if the comma stands before decimals, say --decimal ,"
            told = f"are read as {attribute.format}{unit}, as noisy counts tell{comma}"
            yield f"numbers of {attribute.name!r} {told}"
        else:
            yield (
                f"dates of {attribute.name!r} are read as {attribute.format}, as noisy counts tell; where "
                "they are written otherwise, say so with --date-format"
            )


def _few(enough: float, policy: Policy) -> str:
    """The values that were not found. Of a person with several rows each weighs a part of one."""
    if enough == math.inf:
        return "values"
    if policy.people:
        return f"values whose rows weigh less than about {enough:,.0f} people"
    return f"values that fewer than about {enough:,.0f} rows hold"


def _unseen(few: str) -> str:
    """The warning for a column in which hardly any value was found."""
    return (
        f"{few} cannot be told from noise for sure, and it has hardly any others (an identifier, free text, "
        "or a category of many values)"
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
