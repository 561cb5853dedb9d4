"""Functions: what one column says of another, found inside the budget, and kept in every row from then on.

Copies, arithmetic, parts of times and of digits are guessed from what is known for free (hypotheses.py); one
charged vector says how many rows break each. Those that hardly any row breaks become rules of the learnt
domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.derived import ends_of
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.functions import EQUAL, applied, points_of
from factored_mwem.domain.grids import level
from factored_mwem.domain.rules import Arithmetic, Computed, Deriving, Implication, Order
from factored_mwem.errors import InputError
from factored_mwem.mechanisms.first_domain import First, edges_in_json, facts_of
from factored_mwem.mechanisms.hypotheses import SeenValues, hypotheses_of, values_of
from factored_mwem.mechanisms.prune import Pruned, most_of
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.privacy.functions import PrivateBroken
from factored_mwem.privacy.rows import Sealed, SealedQuery
from factored_mwem.privacy.session import Measurement, Session, noise_for
from factored_mwem.request.policy import Policy
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.broken import Hypothesis

T = TypeVar("T")
SHARE = Fraction(1, 100)
"""Of the whole budget, for all hypotheses together, where the second look costs no more than the first."""
COARSE, FINE, FINEST = 1 / 40, 1 / 300, 1 / 600
"""The noise may be this share of the rows at most, in a first look at all and in a second at those left: so
many hypotheses are asked about as allow it, likeliest first; where a single one is too many, none is. FINEST
is what the second look is paid for, as far as that goes: at FINE a rule that one row in a hundred breaks is
taken to hold in one case of two.
"""
DEARER = (1, 2, 4, 8)
"""What the second look costs, in parts of the first; the most only where FINE needs it."""
MOST_LOOKS = Fraction(1 + DEARER[-1], 2)
"""And the most that both cost, in parts of what they do where the second costs as much as the first."""
DIRT = 1 / 1000
"""A rule that so few rows break is taken to hold: they come out as it says."""
SURE, MAYBE = 3.0, 4.0
"""So is one whose number is within so many standard deviations of the noise from none; and one that may be,
in the first look.
"""
STAKE = 20
"""At least so many times that must be the rows that do not hold the column's most frequent value: where a
column says the same in nearly all rows, two of them agree by chance.
"""
MIN_CELLS = 2**17
"""Fewer cells may not hold the tables of columns that are tied."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A rule that was found, the noisy number of rows that `broken` it, and its standard deviation."""

    rule: Deriving | Order | Implication
    broken: int
    stddev: float

    @property
    def target(self) -> str:
        return self.rule.columns[0]

    @property
    def tie(self) -> Computed | None:
        return self.rule if isinstance(self.rule, Computed) and self.rule.as_ != EQUAL else None


def wanted(policy: Policy) -> bool:
    """Whether functions are looked for: rows of a person are drawn apart, and keep no rules."""
    return not policy.people


def pays(session: Session, share: Fraction) -> bool:
    """Whether so much of the whole budget is left: a policy may have spent more on what comes before."""
    return session.left >= session.accountant.budget.amount * share


def keeps_zeros(policy: Policy) -> bool:
    """Whether a model has room for pairs of columns that rules hold together."""
    return policy.engine == "tree" and policy.cells >= MIN_CELLS


def relations_in(
    session: Session, table: Source, firsts: Sequence[First], policy: Policy, rows: float
) -> list[Relation]:
    """The copies, sums and parts in the private `table`. Cost: what two looks do, nothing where no
    hypothesis can be made, noise would hide too much, or less is left. `rows`: noisy, of the table.
    """
    if not wanted(policy) or not pays(session, SHARE * MOST_LOOKS):
        return []
    tied = keeps_zeros(policy)
    guesses = [
        each
        for each in hypotheses_of([first.found for first in firsts], firsts)
        if tied or each.function == EQUAL or isinstance(each.rule, Arithmetic)
    ]
    by_name = {first.found.column.name: first for first in firsts}
    guesses = [
        each
        for each in guesses
        if not isinstance(each.rule, Arithmetic) or _total_of(each.rule, by_name) is not None
    ]

    def seal(asked: Sequence[Hypothesis]) -> PrivateBroken:
        names = dict.fromkeys(name for each in asked for name in each.columns)
        return PrivateBroken.of(table, {name: by_name[name].found.known for name in names}, asked)

    def stake(each: Hypothesis) -> float:
        return at_stake(by_name[each.target], rows)

    kept = sifted(session, session.accountant.budget.amount * SHARE, guesses, seal, lambda _: rows, stake)
    return [Relation(each.rule, n, stddev) for each, n, stddev in compatible(kept, lambda each: each.columns)]


def sifted(
    session: Session,
    cost: Fraction,
    listed: Sequence[T],
    seal: Callable[[Sequence[T]], Sealed],
    rows: Callable[[T], float],
    stake: Callable[[T], float],
) -> list[tuple[T, int, float]]:
    """Those of `listed` that hardly any row breaks, by two looks: a coarse one for half of the `cost`, at as
    many as can be asked about, and a finer one for up to DEARER times that, at those that few rows may
    break. Each comes with its second noisy number and the noise of that. `seal` gives one number for each,
    which a person moves by at most her weight; `rows`, `stake`: the noisy numbers of rows that one is about,
    and that could break it. Public, but for what is sealed.
    """
    half = cost / 2

    def noise(count: int, times: int = 1) -> float:
        query = SealedQuery.each((), (), session.unit.linf_of_marginal, count)
        sensitivity = query.sensitivity(session.composition)
        return noise_for(half * times, sensitivity, session.composition).stddev

    def hides(left: Sequence[tuple[T, int]], times: int) -> float:
        return noise(len(left), times) / min(rows(each) for each, _ in left)

    def matters(each: T, stddev: float) -> bool:
        return stake(each) >= STAKE * bound(stddev, rows(each))

    *usual, most = DEARER
    least = noise(1, most)
    left = [(each, 0) for each in listed if least <= FINE * rows(each) and matters(each, least)]
    while left and noise(len(left)) > COARSE * min(rows(each) for each, _ in left):
        left.pop()
    left = _few_broken(session, half, left, seal, rows, MAYBE)
    while left and hides(left, most) > FINE:
        left.remove(max(left, key=lambda pair: pair[1]))
    if not left:
        return []
    times = next((times for times in usual if hides(left, times) <= FINEST), usual[-1])
    times = times if hides(left, times) <= FINE else most
    left = [pair for pair in left if matters(pair[0], noise(len(left), times))]
    found = _few_broken(session, half * times, left, seal, rows, SURE)
    return [(each, n, noise(len(left), times)) for each, n in found]


def _few_broken(
    session: Session,
    cost: Fraction,
    asked: Sequence[tuple[T, int]],
    seal: Callable[[Sequence[T]], Sealed],
    rows: Callable[[T], float],
    sure: float,
) -> list[tuple[T, int]]:
    """Those that few rows break, each with its new noisy number; nothing is charged where none is asked."""
    if not asked:
        return []
    listed = [each for each, _ in asked]
    taken = session.measure(seal(listed), None, cost=cost, stage="discover")
    pairs = zip(listed, taken.noisy.tolist(), strict=True)
    return [(each, n) for each, n in pairs if n <= bound(taken.stddev, rows(each), sure)]


def bound(noise: float, rows: float, sure: float = SURE) -> float:
    """The noisy number of rows that may break what is taken to hold."""
    return max(sure * noise, DIRT * rows)


def at_stake(first: First, rows: float) -> float:
    """The noisy number of rows that do not hold a column's most frequent value, or none."""
    found = first.found
    counts = [n for values in (found.values, found.texts) for n in values.values()]
    return rows - max([*counts, rows - found.present])


def compatible(
    kept: Sequence[tuple[T, int, float]], columns: Callable[[T], Sequence[Hashable]]
) -> list[tuple[T, int, float]]:
    """Those of which none computes what another computes or computes from, in their order. `columns`: what
    one computes, then what it computes that from.
    """
    chosen: list[tuple[T, int, float]] = []
    targets, sources = set[Hashable](), set[Hashable]()
    for each in kept:
        target, *of = columns(each[0])
        if target in targets | sources or targets & set(of):
            continue
        chosen.append(each)
        targets.add(target)
        sources |= set(of)
    return chosen


def _total_of(rule: Arithmetic, firsts: Mapping[str, First]) -> Attribute | None:
    """An attribute for the sum or product of others, which has bins for all that theirs may come to; None if
    the column cannot hold that.
    """
    target, parts = firsts[rule.columns[0]], [firsts[name].without_beyond for name in rule.of]
    ends = ends_of(rule, parts)
    scale, (least, most) = target.found.scale, target.found.bounds
    first, last = math.floor(ends[0] * scale) - 1, math.ceil(ends[1] * scale) + 1
    if first < least or last > most:
        return None
    inside = target.edges[(first < target.edges) & (target.edges <= last)]
    edges = np.array([first, *inside.tolist(), last + 1], dtype=np.int64)
    nullable = any(part.nullable for part in parts)
    facts = facts_of(target.found, required=not nullable)
    return Attribute.model_validate({**facts, "edges": edges_in_json(target.found, edges)})


def to_measure(firsts: Sequence[First], relations: Sequence[Relation]) -> list[First]:
    """The first attributes of the columns that are modelled: none of a copy or a sum, and of a tied one a
    code for each value that the function can have.
    """
    by_name, left = {first.attribute.name: first for first in firsts}, []
    relation_of = {relation.target: relation for relation in relations}
    for first in firsts:
        relation = relation_of.get(first.attribute.name)
        if relation is None:
            left.append(first)
        elif relation.tie is not None:
            source = by_name[relation.tie.of]
            seen = SeenValues.of(source.found)
            assert seen is not None, "nothing was computed from what is not seen"
            values = values_of(relation.tie.as_, source.found, seen)
            left.append(replace(first, attribute=_listed(first.found, values, source.attribute)))
    return left


def _listed(found: FoundColumn, values: Sequence[int], source: Attribute) -> Attribute:
    facts = facts_of(found, required=not source.nullable)
    listed = {"categories": list(values), "categoriesOrdered": True}
    return Attribute.model_validate({**facts, "decimals": None, **listed})


def tied_pruned(tie: Computed, first: First, source: Attribute, seen: Measurement) -> Pruned:
    """The attribute of a tied column once that of its source is settled: with the values that stand out from
    the noise, of those that the function has there, and null where that may be. `seen`: the first's marginal.
    """
    before, noisy = first.attribute, seen.noisy
    values = np.array(before.values)
    there = np.concatenate([applied(tie.as_, source.type, points) for points in points_of(source)])
    clear = np.isin(values, there) & (noisy[: len(values)] > level(len(values)) * seen.stddev)
    if not clear.any():
        clear = np.isin(values, there) if np.isin(values, there).any() else np.ones(len(values), dtype=bool)
    left = values[clear]
    attribute = _listed(first.found, left.tolist(), source)
    codes, kept = np.argmin(np.abs(values[:, None] - left[None, :]), axis=1), clear
    if before.nullable:
        most = int(np.argmax(noisy[: len(values)][clear]))
        codes = np.append(codes, len(left) if attribute.nullable else most)
        kept = np.append(kept, attribute.nullable)
    counts = np.zeros(attribute.size, dtype=np.int64)
    counts[codes[kept]] = noisy[kept]
    lost = float(noisy[~kept].sum())
    moved_at_most = most_of(lost, seen.stddev, int((~kept).sum()))
    return Pruned(attribute, codes, kept, counts, 0.0, lost, moved_at_most)


def derived_attributes(
    relations: Sequence[Relation], firsts: Sequence[First], settled: Mapping[str, Attribute]
) -> dict[str, Attribute]:
    """The attributes of copies and sums, as those of their sources are `settled`."""
    by_name, made = {first.attribute.name: first for first in firsts}, dict[str, Attribute]()
    for relation in relations:
        rule = relation.rule
        if isinstance(rule, Arithmetic):
            attribute = _total_of(rule, by_name)
            assert attribute is not None, "what was looked for fits its column"
            nullable = any((settled.get(name) or made[name]).nullable for name in rule.of)
            constraints = attribute.constraints.model_copy(update={"required": not nullable})
            made[relation.target] = revalidated(attribute, constraints=constraints)
        elif isinstance(rule, Computed) and relation.tie is None:
            source = settled.get(rule.of) or made.get(rule.of)
            if source is not None:  # else it was left out, and so is its copy
                made[rule.compute] = revalidated(source, name=rule.compute)
    return made


def revalidated(attribute: Attribute, **other: object) -> Attribute:
    """The same with other fields."""
    fields = attribute.model_dump(by_alias=True, exclude_unset=True) | {"type": attribute.type}
    more = {
        key: value.model_dump() if hasattr(value, "model_dump") else value for key, value in other.items()
    }
    return Attribute.model_validate(fields | more)


def that_fit(attributes: Sequence[Attribute], relations: Sequence[Relation]) -> list[Relation]:
    """Those of which all columns are released; without the ties where a tied column has lost all values that
    its function has, as what noise left of both may be.
    """
    names = {attribute.name for attribute in attributes}
    left = [relation for relation in relations if set(relation.rule.columns) <= names]
    try:
        Domain(attributes, rules=[relation.rule for relation in left])
    except InputError:
        return [relation for relation in left if relation.tie is None]
    return left
