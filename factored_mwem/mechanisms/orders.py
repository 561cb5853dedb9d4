"""Orders: which of two columns of dates or times is never after the other, found inside the budget and kept
in every row from then on. What may be in order is guessed from what is known for free; one charged vector
says how many rows are out of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.mechanisms.first_domain import First
from factored_mwem.mechanisms.functions import Relation, bound, pays, wanted
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.privacy.functions import PrivateBroken
from factored_mwem.privacy.rows import SealedQuery
from factored_mwem.privacy.session import Session, noise_for
from factored_mwem.request.policy import Policy
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.broken import ORDER, Hypothesis
from factored_mwem.tables.codes.kinds import MOMENTS

SHARE = Fraction(1, 50)
"""Of the whole budget, for all orders together."""
SURE = 2.0
"""An order is taken to hold where the number of rows that break it is within so many standard deviations of
the noise from none: one of 40 that do is not, for in doubt rows keep none.
"""
STAKE = 9
"""At least so many times that number would break it by chance. Noise hides at most two and a half times that
number, but for once in 700 times: less than a third of what rows have that keep no order.
"""
CROSSED = 2 / 3
"""At most this share of the pairs of values may be out of order, for an order to be asked about: more than a
half are so only where the values that one column lacks are not like the others.
"""
MOST = 12
"""Orders that are asked about."""
PARTS = 16
"""Points that stand for the values of a cell."""
SEEN = 2.0
"""Standard deviations of noise from which a cell counts."""


def orders_in(
    session: Session,
    table: Source,
    firsts: Sequence[First],
    policy: Policy,
    rows: float,
    relations: Sequence[Relation],
) -> list[Relation]:
    """The orders in the private `table`, the likeliest first. Cost: SHARE of the budget, nothing where there
    is no hypothesis, noise would hide too much, or less is left. `rows`: noisy, of the table; `relations`:
    what was found before: no column that is computed, or computed from by a tie, can be in order.

    Each number is one of `PrivateBroken`, whose proof holds: whether a row is out of order follows from that
    row. What is asked, and how much for, follows from names, types and noisy answers.
    """
    if not wanted(policy) or not pays(session, SHARE):
        return []
    held = {relation.target for relation in relations}
    held |= {relation.tie.of for relation in relations if relation.tie is not None}
    found = [f.found for f in firsts if f.found.column.name not in held and _is_moment(f)]
    listed = hypotheses(found, rows)
    cost = session.accountant.budget.amount * SHARE

    def noise(count: int) -> float:
        query = SealedQuery.each((), (), session.unit.linf_of_marginal, count)
        return noise_for(cost, query.sensitivity(session.composition), session.composition).stddev

    while listed and min(broken for _, broken in listed) < STAKE * bound(noise(len(listed)), rows, SURE):
        listed.pop()
    if not listed:
        return []
    asked = [each for each, _ in listed]
    known = {f.column.name: f.known for f in found if any(f.column.name in each.columns for each in asked)}
    taken = session.measure(PrivateBroken.of(table, known, asked), None, cost=cost, stage="discover")
    few = bound(taken.stddev, rows, SURE)
    numbers = zip(asked, taken.noisy.tolist(), strict=True)
    return [Relation(each.rule, n, taken.stddev) for each, n in numbers if n <= few]


def _is_moment(first: First) -> bool:
    """Whether all values of a column are dates, or times, as fine as its type can hold."""
    found = first.found
    fine = found.type == "date" or found.resolution is not None or found.tick == 1
    return found.type in MOMENTS and fine and not found.mixed and not first.attribute.sentinels


def hypotheses(found: Sequence[FoundColumn], rows: float) -> list[tuple[Hypothesis, float]]:
    """The orders that may be, each with the number of rows that would break it if its columns had nothing to
    do with each other: the most first, but after all others those that more than a half would. Public.
    """
    listed = [(share > 1 / 2, -broken, each) for each, share, broken in _orders(found, rows)]
    return [(each, -broken) for _, broken, each in sorted(listed)[:MOST]]


def _orders(found: Sequence[FoundColumn], rows: float) -> Iterator[tuple[Hypothesis, float, float]]:
    """(order, the share of pairs of values that break it, the rows that would)."""
    facts = {c.column.name: (c.column.type, c.type, c.resolution, c.zone, c.format) for c in found}
    for one, other in itertools.permutations(found, 2):
        if facts[one.column.name] == facts[other.column.name]:
            share = crossed(one, other)
            if share <= CROSSED:
                both = min(one.present / rows, 1.0) * min(other.present / rows, 1.0) * rows
                yield Hypothesis(ORDER, one.column.name, (other.column.name,)), share, share * both


def crossed(one: FoundColumn, other: FoundColumn) -> float:
    """The share of pairs of values, one of each column, of which the first is more, by noisy counts."""
    (values, weights), (others, own) = _points(one), _points(other)
    if not weights.sum() or not own.sum():
        return 0.0
    below = np.concatenate([[0.0], np.cumsum(own)])[np.searchsorted(others, values)]
    return float(weights @ below / (weights.sum() * own.sum()))


def _points(found: FoundColumn) -> tuple[np.ndarray, np.ndarray]:
    """(float64[point]: values of a column, ascending, float64[point]: about how many rows hold each)."""
    points, weights = [np.array([*found.values], dtype=np.float64)], [np.array([*found.values.values()])]
    if found.edges is not None and found.noisy is not None:
        inside = (np.arange(PARTS) + 0.5) / PARTS
        begins, widths = found.edges[:-1, None], np.diff(found.edges)[:, None]
        points.append((begins + widths * inside).ravel())
        weights.append(
            np.repeat(np.where(found.noisy > SEEN * found.cell_stddev, found.noisy, 0), PARTS) / PARTS
        )
    listed, counts = np.concatenate(points), np.concatenate(weights)
    place = np.argsort(listed, kind="stable")
    return listed[place], np.maximum(counts[place], 0.0)


def in_one_domain(domain: Domain, orders: Sequence[Relation]) -> tuple[Domain, list[Relation]]:
    """The domain with the orders that hold together, the first ones rather, and these."""
    kept: list[Relation] = []
    for order in orders:
        if {*order.rule.columns} <= {*domain.modelled.names}:
            try:
                domain = Domain(domain, rules=[*domain.rules, order.rule])
            except InputError:  # in a circle with others, or left with no values in order
                continue
            kept.append(order)
    return domain, kept
