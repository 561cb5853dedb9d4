"""What is said of a learnt domain: what it could not keep, what noise leaves open, how its columns are read.
From public facts and noisy answers only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from factored_mwem.domain.attribute import OTHER, Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import quoted_names, shortened
from factored_mwem.mechanisms.hidden_spread import MOST
from factored_mwem.mechanisms.learn import Learning
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.prune import Fate
from factored_mwem.mechanisms.worth import LOOKS, is_unique
from factored_mwem.privacy.popular import SEEN
from factored_mwem.request.policy import Policy
from factored_mwem.tables.codes.notation import CLOCKS

MUCH = 0.1
"""A warning says so where more than this share of a learnt column's values is lost."""
ALIKE = 0.8
"""The part of their years that two columns of dates must share, for their order to be spoken of."""
WIDER, WIDEST, UNSURE = 0.2, 3, 0.01
"""The part by which a standard deviation may be larger, or twice that by which it may be smaller, from which
a warning says so, and of how many columns by name, the widest; less than the last is not worth a word.
"""
FURTHER = 10
"""Times the share of rows beyond where a column surely reaches that count as much: from .02 on."""


def warnings_of(plan: Plan, learning: Learning) -> Iterator[str]:
    """Warnings of a release about the domain that it learnt."""
    yield from _unordered(plan, learning)
    yield from _losses(plan, learning)
    if learning.hidden:
        yield learning.hidden
    yield from rounded_in_words(learning, plan.policy.people)
    yield from spread_in_words(learning.domain, learning.fates)
    yield from order_in_words(plan.domain)


def notes_of(plan: Plan, learning: Learning) -> Iterator[str]:
    """What such a release took as it may well be."""
    yield from _unseen_decimals(learning, plan.policy.people)
    yield from _unseen_missing(learning.fates)
    for attribute in plan.domain:
        if attribute.name in learning.fates and attribute.format != "default":
            yield format_in_words(attribute)


def _losses(plan: Plan, learning: Learning) -> Iterator[str]:
    """Warnings about values that learning could not keep."""
    few = {name: _few(enough, plan.policy) for name, enough in learning.enough.items()}
    why = {name: LOOKS.get(learning.looks.get(name, ""), _unseen(each)) for name, each in few.items()}
    for name in learning.dropped:
        yield f"{name!r} was left out: {why[name]}"
    for attribute in plan.domain:
        if attribute.name not in learning.fates:  # a companion
            continue
        fate = learning.fates[attribute.name]
        if is_unique(attribute, fate):
            yield (
                f"{attribute.name!r}: {why[attribute.name]}; all became {OTHER!r}; --drop-unique leaves such "
                "columns out"
            )
        elif attribute.values == (OTHER,):  # of few rows, for in most it is missing
            yield f"{attribute.name!r}: {_unseen(few[attribute.name])}; all became {OTHER!r}"
        elif attribute.categories == ():
            yield f"{attribute.name!r}: {why[attribute.name]}; all are missing"
        elif (share := max(fate.other, fate.clipped)) > MUCH:
            what = "were moved to the last bin"
            if fate.other > fate.clipped:
                what = (
                    f"became {attribute.other!r} ({few[attribute.name]} cannot be told from noise for sure)"
                )
            rows = "the rows, each person weighing one," if plan.policy.people else "the rows"
            yield f"{attribute.name!r}: {share:.0%} of {rows} {what}; declare its values to keep them"


def spread_in_words(domain: Domain, fates: Mapping[str, Fate]) -> Iterator[str]:
    """Warnings where learnt columns of numbers may be much wider or narrower than they come out; free."""
    told = {name: fate for name, fate in fates.items() if fate.kept > 2 * fate.moved_at_most}  # else noise
    hidden = {name: fate.spread_hidden or 0.0 for name, fate in told.items()}
    off = {
        name: max(hidden[name], 2 * (fate.spread_doubtful or 0.0), FURTHER * (fate.beyond_seen or 0.0))
        for name, fate in told.items()
    }
    widest = sorted(
        (name for name in off if off[name] > WIDER and hidden[name] < MOST), key=lambda name: -off[name]
    )
    if widest:
        named = "; ".join(_end_in_words(domain[name], told[name]) for name in widest[:WIDEST])
        left = len(widest) - WIDEST
        more = f"; and {left} more column{'s' * (left > 1)}" if left > 0 else ""
        yield (
            "noise leaves open where learnt columns end, so declare their values; standard deviations may "
            f"really be: {named}{more}"
        )
    if alone := [name for name in hidden if hidden[name] >= MOST]:
        what = "hardly any value but one was found, and noise may hide rare ones"
        yield f"{what}: of {quoted_names(alone)}; declare their values"


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
            f"which of {quoted_names([*names])} comes first is not kept row by row: if "
            'one never comes before another, say so by {"order": [...], "exchange": true} among the rules of '
            "a domain, such as `fmwem domain learn` writes"
        )


def _end_in_words(attribute: Attribute, fate: Fate) -> str:
    """How far off a column's spread may be; where rows go further, how far values very likely reach."""
    less, more = fate.spread_doubtful or 0.0, fate.spread_hidden or 0.0
    parts = [f"{less:.0%} smaller"] * (less >= UNSURE) + [f"{more:.0%} larger"] * (more >= UNSURE)
    off = f"{shortened(attribute.name)!r} {' or '.join(parts) or 'as it is'}"
    if fate.ends_seen is None or attribute.edges is None:
        return off
    (least, most), edges = fate.ends_seen, attribute.edges
    own = [value for value in attribute.special_values or () if not isinstance(value, str)]
    low, high = min(*own, edges[0], least), max(*own, edges[-1], most)
    if (low, high) == (least, most):
        return off
    rows = f"rows from {low} to {high}"
    if (fate.beyond_seen or 0.0) >= UNSURE:
        rows += f", {fate.beyond_seen:.0%} of them further out"
    return f"{off} (very likely from {least} to {most}, {rows})"


def _unordered(plan: Plan, learning: Learning) -> Iterator[str]:
    """A warning where the column that puts rows in order was learnt as text, or as dates whose form was not
    known before.
    """
    name = plan.policy.order_by
    if name is None:
        return
    kind, form = plan.domain[name].type, plan.domain[name].format
    if kind == "string":
        why = LOOKS.get(learning.looks.get(name, ""), "it was learnt as text")
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
    for name, (rows, _) in learning.rounded.items():
        if name in learning.domain and rows:
            few = f"about {rows:,.0f} of its values"
            if people:
                few = f"values whose rows weigh as much as about {rows:,.0f} people"
            yield (
                f"{name!r} was learnt as whole numbers, but {few} may have had decimals, which are lost "
                "then; declare it as a number if it has any"
            )


def _unseen_decimals(learning: Learning, people: bool) -> Iterator[str]:
    """Below how many rows decimals among whole numbers are not seen."""
    if learning.rounded:
        most = max(SEEN * stddev for _, stddev in learning.rounded.values())
        few = f"rows that weigh less than about {most:,.0f} people"
        if not people:
            few = f"fewer than about {most:,.0f} rows"
        yield (
            f"decimals in {few} of a column of whole numbers would not have been seen, and are rounded down"
        )


def _unseen_missing(fates: Mapping[str, Fate]) -> Iterator[str]:
    """Which share of a column may be missing that comes out without missing cells."""
    hidden = {name: fate.missing_at_most for name, fate in fates.items() if fate.missing_at_most}
    if hidden:
        worst = max(hidden, key=lambda name: hidden[name])
        yield (
            f"where no cell comes out missing, noise may hide missing ones: up to {hidden[worst]:.2%} of the "
            f"rows, of {shortened(worst)!r}"
        )


def format_in_words(attribute: Attribute) -> str:
    """How a column's dates or numbers are written, as noisy counts told."""
    told = f"{attribute.name!r} are read as {attribute.format}"
    if attribute.type not in ("integer", "number"):
        return (
            f"dates of {told}, as noisy counts tell; where they are written otherwise, say so with "
            "--date-format"
        )
    unit = comma = ""
    if attribute.format in CLOCKS:
        unit = f", whole {'seconds' if '%S' in attribute.format else 'minutes'} since midnight"
    if "#,##0" in attribute.format and attribute.type == "integer":  # a point would tell it
        comma = "; if the comma stands before decimals, say --decimal ,"
    return f"numbers of {told}{unit}, as noisy counts tell{comma}"


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
