"""Learning: a domain for a table that nobody described, and the first marginals over it.

Discovery is the first measurement: what it found makes a first domain with many bins; its one-way marginals
are measured; what those show to be empty is taken out again. The same noisy counts, together with those that
the popular values were found by, are what the mechanism begins from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from factored_mwem.domain.attribute import OTHER, Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.public_lists import ListedValues
from factored_mwem.mechanisms.first_domain import First
from factored_mwem.mechanisms.functions import (
    Relation,
    derived_attributes,
    relations_in,
    that_fit,
    tied_pruned,
    to_measure,
)
from factored_mwem.mechanisms.maps import Unpruned, maps_in, maps_share
from factored_mwem.mechanisms.orders import in_one_domain, orders_in
from factored_mwem.mechanisms.prune import Fate, Pruned, prune_domain, with_losses
from factored_mwem.mechanisms.public_joint import PublicJoint
from factored_mwem.mechanisms.result import told_marginal
from factored_mwem.mechanisms.shares import discovery_share, initial_shares, one_way_share
from factored_mwem.mechanisms.worth import LOOKS, Worth, is_unique
from factored_mwem.model.estimation import estimate_total
from factored_mwem.privacy.discover import discover
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.privacy.session import Measurement, Session
from factored_mwem.request.policy import Policy
from factored_mwem.request.public_columns import PublicColumns
from factored_mwem.request.request import ToldColumn
from factored_mwem.tables.backends.source import Source


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """A learnt domain, the session with the rows encoded in it, its measured one-way marginals, and by column
    what becomes of its values. `dropped`: columns left out, for hardly any value of theirs was found.
    `enough`: about how many rows, or people, a value needs to be found for sure, by column. `lists`: the
    public lists whose values were looked for. `rounded`: of columns of whole numbers, the noisy count of rows
    (or people) whose decimals were lost, too few to be seen (0 if it may be noise), and its deviation.
    `hidden`: in words, how much noise hides of the mean column, where it is much. `looks`: of columns of
    text, as FoundColumn.
    """

    domain: Domain
    session: Session
    measured: tuple[Measurement, ...]
    fates: dict[str, Fate]
    enough: dict[str, float]
    lists: dict[str, ListedValues]
    rounded: dict[str, tuple[float, float]]
    dropped: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    hidden: str = ""
    looks: Mapping[str, str] = field(default_factory=dict)


class Serves(NamedTuple):
    """What a learnt domain is for. `needed`: columns that are not dropped in any case. `known`: attributes of
    other columns whose values are public, and are measured and kept as they are. `alone`: nothing else is
    asked for. Of the known ones are not measured: those that are `public`, for their joint counts are, and
    those `told`, whose marginals follow from what was paid for before. `numbers`: see `Request.numbers`.
    """

    needed: Collection[str] = ()
    known: Sequence[Attribute] = ()
    alone: bool = False
    public: PublicColumns | None = None
    told: Mapping[str, ToldColumn] = MappingProxyType({})
    numbers: Collection[str] = ()


def learn(
    session: Session,
    table: Source,
    columns: Sequence[str] | None,
    policy: Policy,
    serves: Serves = Serves(),
) -> Learning:
    """Learn a domain, and measure its one-way marginals.

    Cost: up to the policy's domain budget, and the share of the rest that the first measurements get; where a
    domain alone is asked for, all. Raises NothingLearnt if noise hides nearly everything: as soon
    as what is paid for tells so, and no more is spent then.
    """
    needed, known, alone, public, told, numbers = serves
    budget = session.accountant.budget
    share = partial(discovery_share, policy, budget, told=bool(told))
    worth = Worth(session, policy, joined=public is not None)
    found = discover(session, table, columns, share, worth.check_glance)
    rows = max(float(np.mean([column.rows for column in found])), 1.0)
    worth.check_found(rows, found)
    firsts = [First.of(column) for column in found]
    relations = relations_in(session, table, firsts, policy, rows)
    untold = [first for first in firsts if first.attribute.name not in told]
    orders = orders_in(session, table, untold, policy, rows, relations)
    looked = to_measure(firsts, relations)
    first = Domain([*(one.attribute for one in looked), *known])
    session = session.encode(first, table)
    kept_back = budget.amount * maps_share(policy)
    cost = max(session.left - kept_back, Fraction(0))
    free = () if public is None else public.names
    if not alone:
        unpaid = first.project([name for name in first.names if name not in told and name not in free])
        cost = session.left * one_way_share(unpaid, policy, budget, rows, counted=True)
    counts = _first_marginals(session, first, cost, told, free, numbers)
    taken = PublicJoint.of(public, first).beside(counts, rows)
    settled = _settled(looked, known, taken, relations)
    apart = [a for a, one in enumerate(looked) if one.attribute.name not in told]
    better = with_losses([settled[a] for a in apart], [taken[a] for a in apart])
    for a, made in zip(apart, better, strict=True):
        settled[a] = made
    kept = [a for a, made in enumerate(settled) if not (policy.drop_unique and _left_out(made, needed))]
    if not any(first.names[a] not in free for a in kept):
        raise worth.nothing("every column is left out by --drop-unique: name what to release with --columns")
    pruned = [settled[a] for a in kept]
    measured = [
        replace(taken[a], positions=(i,), noisy=_counts(looked[a : a + 1], settled[a], taken[a].stddev))
        for i, a in enumerate(kept)
    ]
    learnt = sum(a < len(looked) for a in kept)
    own = list(zip(pruned[:learnt], measured[:learnt], strict=True))
    hidden = worth.check_settled(rows, own, relations)
    learning = replace(
        _learnt(session, found, (firsts, known), pruned, measured, (relations, orders)), hidden=hidden
    )
    before = Unpruned(session, first, dict(zip(first.names, zip(settled, taken, strict=True), strict=True)))
    learning = _with_maps(learning, before, policy, rows, free)
    return learning if public is None else _among(learning, free, table.schema.names)


def _first_marginals(
    session: Session,
    first: Domain,
    cost: Fraction,
    told: Mapping[str, ToldColumn],
    free: Collection[str],
    numbers: Collection[str],
) -> list[Measurement]:
    """The one-way marginals in the order of the domain, but for the columns `free`; measured, but for those
    that are `told`. `numbers` are measured more closely. Cost: `cost`.
    """
    own = [a for a, name in enumerate(first.names) if name not in told and name not in free]
    closer = [at for at, a in enumerate(own) if first.names[a] in numbers]
    shares = initial_shares([first.shape[a] for a in own], closer)
    taken = {
        a: session.measure(session.rows, (a,), cost=cost * share)
        for a, share in zip(own, shares, strict=True)
    }
    if told:
        records, _ = estimate_total([*taken.values()])
        for a, name in enumerate(first.names):
            if name in told:
                taken[a] = told_marginal(told[name], first[name], a, records)
    return [taken[a] for a in sorted(taken)]


def _learnt(
    session: Session,
    found: Sequence[FoundColumn],
    before: tuple[Sequence[First], Sequence[Attribute]],
    pruned: Sequence[Pruned],
    measured: Sequence[Measurement],
    held: tuple[Sequence[Relation], Sequence[Relation]],
) -> Learning:
    """What is learnt, with the columns that follow from others. `before`: the first attributes of all
    columns of the table, and others that are known. `held`: the functions, and the orders.
    """
    (firsts, known), (relations, orders) = before, held
    attributes = {made.attribute.name: made.attribute for made in pruned}
    fates = {made.attribute.name: made.fate for made in pruned}
    attributes |= derived_attributes(relations, firsts, attributes)
    names = [one.name for one in (*(one.attribute for one in firsts), *known) if one.name in attributes]
    relations = that_fit([attributes[name] for name in names], relations)
    rules = [relation.rule for relation in relations]
    domain = Domain(map(attributes.__getitem__, names), rules=rules)
    domain, orders = in_one_domain(domain, orders)
    for name, rule in domain.derived.items():
        fates[name] = min((fates[of] for of in rule.sources), key=lambda fate: fate.kept)
    grains = session.unit.grains or 1
    return Learning(
        domain,
        session.recode(domain.modelled, {made.attribute.name: made.codes for made in pruned}),
        tuple(measured),
        fates,
        {column.column.name: column.enough / grains for column in found},
        {column.column.name: column.listed for column in found if column.listed is not None},
        {
            column.column.name: (column.rounded / grains, column.rounded_stddev / grains)
            for column in found
            if column.rounded_stddev and column.type == "integer"
        },
        tuple(one.attribute.name for one in firsts if one.attribute.name not in attributes),
        (*relations, *orders),
        looks={column.column.name: column.looks for column in found if column.looks in LOOKS},
    )


def _among(learning: Learning, public: Collection[str], columns: Sequence[str]) -> Learning:
    """The same in the order of the table's `columns`, without what stood for measurements of `public`."""
    domain = learning.domain.rearranged([name for name in columns if name in learning.domain])
    names, before = domain.modelled.names, learning.domain.modelled.names
    own = [(at, before.index(name)) for at, name in enumerate(names) if name not in public]
    same = {a.name: np.arange(a.size) for a in domain.modelled}
    return replace(
        learning,
        domain=domain,
        session=learning.session.recode(domain.modelled, same),
        measured=tuple(replace(learning.measured[i], positions=(at,)) for at, i in own),
        fates={name: fate for name, fate in learning.fates.items() if name not in public},
    )


def _with_maps(
    learning: Learning, before: Unpruned, policy: Policy, rows: float, public: Collection[str]
) -> Learning:
    """The same without those attributes that follow from another by a table; `public` ones stay."""
    known, measured = learning.domain, learning.measured
    more, fuller = maps_in(learning.session, known, measured, before, policy, rows, public)
    if not more:
        return learning
    rules = [*known.rules, *(relation.rule for relation in more)]
    domain = Domain({each.name: each for each in (*known, *fuller)}.values(), rules=rules)
    left = [i for i, name in enumerate(known.modelled.names) if name not in domain.derived]
    same = {a.name: np.arange(a.size) for a in domain.modelled}
    return replace(
        learning,
        domain=domain,
        session=learning.session.recode(domain.modelled, same),
        measured=tuple(replace(learning.measured[i], positions=(at,)) for at, i in enumerate(left)),
        relations=(*learning.relations, *more),
    )


def _settled(
    firsts: Sequence[First],
    known: Sequence[Attribute],
    taken: Sequence[Measurement],
    relations: Sequence[Relation],
) -> list[Pruned]:
    """Each first attribute without what its marginal shows to be empty."""
    ties = {relation.target: relation.tie for relation in relations if relation.tie is not None}
    settled: dict[str, Pruned] = {}
    for one, seen in zip(firsts, taken, strict=False):
        if one.attribute.name not in ties:
            settled[one.attribute.name] = prune_domain(one, seen.noisy, seen.stddev)
    for one, seen in zip(firsts, taken, strict=False):
        if tie := ties.get(one.attribute.name):
            settled[tie.compute] = tied_pruned(tie, one, settled[tie.of].attribute, seen)
    listed = [settled[one.attribute.name] for one in firsts]
    more = zip(known, taken[len(firsts) :], strict=True)
    return [*listed, *(Pruned.whole(attribute, seen.noisy) for attribute, seen in more)]


def _counts(first: Sequence[First], made: Pruned, stddev: float) -> np.ndarray:
    """int64[code]: the noisy counts of an attribute; `first`: what it was made from, if it was learnt."""
    return with_popular(first[0].found, made, stddev) if first else made.noisy


def _left_out(made: Pruned, needed: Collection[str]) -> bool:
    return is_unique(made.attribute, made.fate) and made.attribute.name not in needed


def with_popular(found: FoundColumn, made: Pruned, stddev: float) -> np.ndarray:
    """int64[code]: the noisy counts, those of popular values averaged with those found, by precision.

    A count that was found passed a threshold, so by itself it is too high on average. It takes part only
    where the other, whose noise is its own, lies far above the threshold: hardly any noise is cut off there.
    What the second look found has no count of its own.
    """
    noisy, attribute = made.noisy.copy(), made.attribute
    if not found.stddev:
        return noisy
    counts = popular_counts(found, attribute)
    weight = stddev**2 / (stddev**2 + found.stddev**2)
    for code, count in counts.items():
        if made.noisy[code] > found.threshold + 2 * (stddev + found.stddev):
            noisy[code] = round(weight * count + (1 - weight) * made.noisy[code])
    return noisy


def popular_counts(found: FoundColumn, attribute: Attribute) -> dict[int, int]:
    """The noisy count that each popular value was found by in the first look, by its code."""
    values = {value: n for value, n in found.values.items() if value not in found.rare}
    texts = {text: n for text, n in found.texts.items() if text not in found.rare}
    if found.type == "string":
        at = {value: code for code, value in enumerate(attribute.values)}
        return {at[text]: n for text, n in texts.items() if text in at and text != OTHER}
    if attribute.categorical:
        units, codes = attribute.units, np.arange(len(attribute.values))
    else:
        units, codes = attribute.specials, attribute.special_codes
    if found.type == "number" and found.unit != "number":
        units = np.rint(units * found.scale)
    by_code = {
        int(code): values[float(u)] for u, code in zip(units, codes, strict=True) if float(u) in values
    }
    begin = attribute.size - attribute.nullable - len(attribute.sentinels)
    sentinels = enumerate(attribute.sentinels)
    return by_code | {begin + i: texts[text] for i, text in sentinels if text in texts}
