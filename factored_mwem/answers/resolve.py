"""Resolve: a query as linear queries over a domain's codes, and the computation from their answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from factored_mwem.answers.people import CLASSES, ENDS, SAME_IN_CLASS, Factor
from factored_mwem.answers.query import (
    AnyOf,
    Correlation,
    Count,
    Cube,
    Deviation,
    Mean,
    Quantile,
    Share,
    Single,
    Total,
)
from factored_mwem.answers.restriction import (
    Ends,
    Unlisted,
    average_of_codes,
    step_of,
)
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.answers.weights import (
    MOVED,
    TAKEN,
    WIDER,
    Case,
    QueryWeights,
    Stray,
    check_groups,
    column_of,
    product_of,
)
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, shortened
from factored_mwem.tables.codes.decode import Label

MAX_TERMS = 2**16
"""Linear queries behind one answer: a quantile needs one for each value of its column, in each group."""
MAX_WEIGHTS = 2**24
"""Most numbers in the weights of these queries."""
INNER = "{} is known by bins: the estimate spreads their rows evenly, the interval holds however they lie"
ALL = "(all)"
"""The label of a column that a cube has summed out."""


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """The `terms` of a query, and the `kind` of computation that each of the `groups` makes from them.

    "count": the sum of its terms with the signs `above`. "ratio": that, over the sum of those with the signs
    `below`; terms stand sign by sign, group after group. "deviation" and "correlation": moments, see
    `moments.py`. "quantile": for each
    group in turn the number of records, then those up to the end of each of `places: float64[code, 2]`, the
    least and greatest value of a code of `column`, ascending, `step` apart (0: numbers without a grid); `at`
    is the share. `proportion`: a ratio from 0
    to 1; `signed`: a sum, which may be below 0; `reach`: the least and the most that the answer may be.
    `exact`: whether every code is wholly in or out, so that the answer follows from counts of codes alone.
    `strays`, `taken`: what values that are none of the domain's may do, see `QueryWeights`. `hidden`: by what
    part a deviation may be larger for them.
    """

    terms: QueryTerms
    kind: Literal["count", "ratio", "quantile", "deviation", "correlation"]
    columns: tuple[str, ...]
    groups: list[tuple[Label, ...]]
    notes: tuple[str, ...]
    exact: bool
    at: float = 0.5
    places: np.ndarray | None = None
    step: float = 0.0
    column: str | None = None
    proportion: bool = False
    signed: bool = False
    reach: tuple[float, float] = (-math.inf, math.inf)
    above: tuple[int, ...] = (1,)
    below: tuple[int, ...] = (1,)
    ends: tuple[Resolved, Resolved] | None = None
    strays: tuple[Stray, ...] = ()
    taken: tuple[int, float] | None = None
    hidden: float = 0.0


def terms_of(domain: Domain, parts: Sequence[tuple[dict[int, np.ndarray], int]]) -> QueryTerms:
    """Queries over the same attributes, part after part: each has weights float64[codes] or float64[count,
    codes] by attribute, and how many queries it is.
    """
    support = tuple(sorted({a for weights, _ in parts for a in weights}))
    count, shape = sum(count for _, count in parts), domain.modelled.shape
    if count > MAX_TERMS or count * sum(shape[a] for a in support) > MAX_WEIGHTS:
        raise InputError(
            f"a query of {count:,} counts is too large; name fewer columns, or one with fewer values"
        )
    stacked = []
    for a in support:
        rows = [np.broadcast_to(weights.get(a, np.ones(1)), (k, shape[a])) for weights, k in parts]
        stacked.append(np.ascontiguousarray(np.concatenate(rows)))
    return QueryTerms(support, tuple(stacked), count)


def resolve(
    query: Single,
    domain: Domain,
    factor: Factor | None = None,
    moved: Mapping[str, float] = {},
    hidden: Mapping[str, float] = {},
) -> list[Resolved]:
    """The parts of a query over a domain, one for each marginal of a cube. `factor`: of all weights, where
    the query counts something else than the model does. `moved`: by column, the most records whose values are
    none of the domain's (NaN: nobody knows). `hidden`: by column, by what part noise may hide that it spreads
    wider. Raises InputError if the query does not fit the domain.
    """
    if isinstance(query, Cube):
        return _cube(query, domain, factor, moved)
    weights = QueryWeights(domain, factor, moved)
    weights.told = MOVED if isinstance(query, Count | Share | Quantile) else TAKEN
    labels, groups = weights.groups(query.by)
    if isinstance(query, Quantile):
        if any(isinstance(each, AnyOf) for each in query.where):
            raise InputError("a quantile takes no conditions joined by `or`: ask it of each of them")
        where = product_of(weights.factor, weights.where(query.where))
        resolved = _quantile(query, weights, product_of(groups, where), labels)
    elif isinstance(query, Deviation | Correlation):
        resolved = _moments(query, weights, groups, labels, hidden)
    else:
        resolved = _sums(query, weights, groups, labels)
        classes, counted = factor is not None and not factor.exact, isinstance(query, Count)
        if weights.open or (classes and counted):
            least, most = (
                replace(
                    _sums(query, weights, groups, labels, end),
                    exact=counted or not classes,
                    taken=weights.taken,
                )
                for end in ("least", "most")
            )
            resolved = replace(resolved, ends=(least, most))
        if classes:
            weights.notes[CLASSES.format(ENDS if counted else SAME_IN_CLASS)] = None
    resolved = replace(resolved, notes=tuple(weights.notes), exact=weights.exact, taken=weights.taken)
    return [replace(resolved, strays=tuple(weights.strays))]


def _sums(
    query: Count | Share | Mean | Total,
    weights: QueryWeights,
    groups: dict[int, np.ndarray],
    labels: list[tuple[Label, ...]],
    ends: Ends = "even",
) -> Resolved:
    """The linear queries behind one; of a ratio to what is least where it is to be greatest."""
    count, values, reach = len(labels), dict[int, np.ndarray](), (0.0, math.inf)
    where = weights.cases(query.where, ends)
    signs: dict[str, Any] = {"columns": query.by, "groups": labels, "notes": (), "exact": weights.exact}
    if isinstance(query, Mean | Total):
        values, present = _numbers(query.column, weights, ends)
        where = [Case(s, product_of(w, present)) for s, w in where]
        (own,), (has,) = values.values(), present.values()
        reach = (float(own[has > 0].min()), float(own[has > 0].max()))
    if isinstance(query, Total) or (weights.taken is not None and math.isinf(weights.taken[1])):
        reach = (-math.inf, math.inf)
    below: list[Case] = []
    if isinstance(query, Mean):
        below = where  # whoever meets the conditions also counts below: neither end is worse for certain
    if isinstance(query, Share):
        opposite: dict[Ends, Ends] = {"even": "even", "least": "most", "most": "least"}
        given = weights.cases(query.given, ends)
        where = [Case(s * t, product_of(w, v)) for s, w in where for t, v in given]
        below = given if ends == "even" else weights.cases(query.given, opposite[ends])
        reach = (0.0, 1.0)
    outer = groups if not isinstance(query, Share) or query.where else {}
    factor = weights.factor_at(ends if isinstance(query, Count) else "even")
    parts = [(product_of(factor, groups, each.weights, values), count) for each in where]
    parts += [(product_of(factor, outer, each.weights), count) for each in below]
    signs |= {"above": tuple(each.sign for each in where), "below": tuple(each.sign for each in below)}
    signs["reach"] = reach
    terms = terms_of(weights.domain, parts)
    kind: Literal["count", "ratio"] = "ratio" if below else "count"
    return Resolved(
        terms, kind, **signs, proportion=isinstance(query, Share), signed=isinstance(query, Total)
    )


def _numbers(
    column: str, weights: QueryWeights, ends: Ends
) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """(a column's values as weights, who has one)."""
    a, codes = weights.source(column)
    values, has, exact = average_of_codes(weights.domain[column], ends)
    if not exact:
        weights.exact, weights.open = False, True
        weights.notes[INNER.format(repr(shortened(column)))] = None
    low, high = (np.asarray(end, dtype=np.float64) for end in intervals(weights.domain[column]))
    weights.taken_as_others(column, float(high[has].max() - low[has].min()))
    return {a: values[codes]}, {a: has[codes].astype(np.float64)}


def _moments(
    query: Deviation | Correlation,
    weights: QueryWeights,
    groups: dict[int, np.ndarray],
    labels: list[tuple[Label, ...]],
    hidden: Mapping[str, float],
) -> Resolved:
    """Sums of 1, of each column and its square and, of two, of their product, over records that have both;
    then of the squared half of the width of each column's bins. Values are taken from the middle of their
    column, so that squares of large ones do not drown the rest.
    """
    cases = weights.cases(query.where)
    if len(cases) > 1:
        raise InputError("`or` over several columns goes with counts, shares, means and sums alone")
    inside = product_of(weights.factor, groups, cases[0].weights)
    moments, widths = list[dict[int, np.ndarray]](), list[dict[int, np.ndarray]]()
    for column in (query.column,) if isinstance(query, Deviation) else (query.column, query.other):
        (a, codes), attribute = weights.source(column), weights.domain[column]
        values, has, exact = average_of_codes(attribute)
        inside = product_of(inside, {a: has[codes].astype(np.float64)})
        middle = float(np.median(values[has]))
        values, wide = np.where(has, values - middle, 0.0), np.zeros(attribute.size)
        if not exact:
            weights.notes[INNER.format(repr(shortened(column)))] = None
            low, high = (np.asarray(end, dtype=np.float64) for end in intervals(attribute))
            wide = np.where(has, high - low, 0.0) ** 2 / 4
        known = isinstance(query, Deviation) and column in hidden and np.ptp(values[has]) > 0
        weights.unlisted(column, Unlisted(True, True), told=WIDER if known else None)
        moments += [{a: values[codes]}, {a: (values**2 + wide / 3)[codes]}]
        widths.append({a: wide[codes]})
    kind: Literal["deviation", "correlation"] = "deviation"
    if isinstance(query, Correlation):
        kind = "correlation"
        moments.append(product_of(moments[0], moments[2]))
    parts = [(product_of(inside, each), len(labels)) for each in ({}, *moments, *widths)]
    reach, terms = (0.0, math.inf) if kind == "deviation" else (-1.0, 1.0), terms_of(weights.domain, parts)
    wider = hidden.get(query.column, 0.0) if kind == "deviation" else 0.0
    return Resolved(terms, kind, query.by, labels, (), weights.exact, reach=reach, hidden=wider)


def _quantile(
    query: Quantile, weights: QueryWeights, inside: dict[int, np.ndarray], labels: list[tuple[Label, ...]]
) -> Resolved:
    domain, attribute = weights.domain, weights.domain[query.column]
    a, codes = weights.source(query.column)
    ordered = placed(attribute)
    if not ordered.any() or attribute.type in ("string", "boolean"):
        raise InputError(
            f"the values of {shortened(query.column)!r} are no numbers or dates: it has no quantiles"
        )
    low, high = (np.asarray(ends, dtype=np.float64) for ends in intervals(attribute))
    order = np.flatnonzero(ordered)[np.argsort(low[ordered], kind="stable")]
    rank = np.full(attribute.size, len(order))
    rank[order] = np.arange(len(order))
    weights.unlisted(query.column, Unlisted(True, True))
    upto = rank[codes][None, :] <= np.append(len(order) - 1, np.arange(len(order)))[:, None]
    if (low[order] < high[order]).any():
        weights.notes[INNER.format(repr(shortened(query.column)))] = None
    each, k = len(order) + 1, len(labels)
    if k * each > MAX_TERMS:
        raise InputError(
            f"quantiles of {k:,} groups over {len(order):,} values are too much; name fewer columns"
        )
    spread = {b: np.repeat(w, each, axis=0) if w.ndim == 2 else w for b, w in inside.items()}
    terms = terms_of(domain, [(product_of(spread, {a: np.tile(upto.astype(np.float64), (k, 1))}), k * each)])
    places = np.stack([low[order], high[order]], axis=1)
    return Resolved(
        terms,
        "quantile",
        query.by,
        labels,
        (),
        weights.exact,
        query.at,
        places,
        step_of(attribute) or 0.0,
        query.column,
    )


def _cube(query: Cube, domain: Domain, factor: Factor | None, moved: Mapping[str, float]) -> list[Resolved]:
    if len(set(query.columns)) != len(query.columns):
        raise InputError("a column is named twice in a cube")
    for column in query.columns:
        column_of(domain, column)
    check_groups(math.prod(domain[column].size + 1 for column in query.columns))
    cuboids = []
    for order in range(len(query.columns) + 1):
        for by in itertools.combinations(query.columns, order):
            (counted,) = resolve(Count(query.where, by), domain, factor, moved)
            groups = [
                tuple(group[by.index(c)] if c in by else ALL for c in query.columns)
                for group in counted.groups
            ]
            cuboids.append(replace(counted, columns=query.columns, groups=groups))
    return cuboids
