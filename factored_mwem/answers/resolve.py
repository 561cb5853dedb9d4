"""Resolve: a query as linear queries over a domain's codes, and the computation from their answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from factored_mwem.answers.people import Factor
from factored_mwem.answers.query import (
    AnyOf,
    Condition,
    Correlation,
    Count,
    Cube,
    Deviation,
    Mean,
    Quantile,
    Share,
    Single,
    Total,
    Where,
    literals,
)
from factored_mwem.answers.restriction import (
    Ends,
    Unlisted,
    average_of_codes,
    share_of_codes,
    step_of,
    taking_others,
    unlisted_in,
)
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, did_you_mean, shortened, some_names
from factored_mwem.tables.codes.decode import Label, labels_of

MAX_GROUPS = 4096
"""Most groups in one answer."""
MAX_TERMS = 2**16
"""Linear queries behind one answer: a quantile needs one for each value of its column, in each group."""
MAX_WEIGHTS = 2**24
"""Most numbers in the weights of these queries."""
ALL = "(all)"
"""The label of a column that a cube has summed out."""
CUT = "the query cuts bins of {}: the estimate spreads their rows evenly, the interval holds however they lie"
INNER = "{} is known by bins: the estimate spreads their rows evenly, the interval holds however they lie"
EVEN = "{} is known by bins: their rows are taken as spread evenly over the values in each"
MOVED = (
    "{}: values that were not found when the domain was learnt count as others; the interval holds for up to "
    "{:,.0f} such rows"
)
UNKNOWN = "{}: values that were not found when the domain was learnt count as others, nobody knows how many"
TAKEN = (
    "{}: up to {:,.0f} rows hold values not found when the domain was learnt; the mean takes them as others"
)


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """The `terms` of a query, and the `kind` of computation that each of the `groups` makes from them.

    "count": the sum of its terms with the signs `above`. "ratio": that, over the sum of those with the signs
    `below`; terms stand sign by sign, group after group. "deviation" and "correlation": moments, see
    `moments.py`. "quantile": for each
    group in turn the number of records, then those up to the end of each of `places: float64[code, 2]`, the
    least and greatest value of a code of `column`, ascending, `step` apart (0: numbers without a grid); `at`
    is the share. `proportion`: a ratio from 0
    to 1; `signed`: a sum, which may be below 0. `exact`: whether every code is wholly in
    or out, so that the answer follows from counts of codes alone.
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
    above: tuple[int, ...] = (1,)
    below: tuple[int, ...] = (1,)
    ends: tuple[Resolved, Resolved] | None = None
    vain: np.ndarray | float = 0.0
    missed: np.ndarray | float = 0.0


class Case(NamedTuple):
    """Weights by attribute, taken with a sign."""

    sign: int
    weights: dict[int, np.ndarray]


MAX_CASES = 64
"""Products that a condition may fall apart into."""


class _Weights:
    """Weights by modelled attribute while a query is taken apart. `factor` is one of all of them. `moved`: by
    column, the most records whose values are none of the domain's (NaN: nobody knows).
    """

    def __init__(self, domain: Domain, factor: Factor | None, moved: Mapping[str, float] = {}) -> None:
        self.domain, self.exact, self.moved = domain, factor is None or factor.exact, moved
        self.notes = dict.fromkeys(() if factor is None else factor.notes)
        self.factor = {} if factor is None else {factor.at: factor.weights}
        self.open, self.vain, self.missed = False, np.zeros(1), np.zeros(1)
        self.told = MOVED

    def source(self, column: str) -> tuple[int, np.ndarray]:
        """(the modelled attribute from which a column follows, int64[its code]: the column's)."""
        column_of(self.domain, column)
        try:
            name, codes = self.domain.source_of(column)
        except ValueError as error:
            raise InputError(f"no answer by this model: {error}") from None
        return self.domain.modelled.index(name), codes

    def where(self, conditions: Sequence[Condition], ends: Ends = "even") -> dict[int, np.ndarray]:
        """float64[codes] by attribute: conditions of one column are taken together."""
        weights: dict[int, np.ndarray] = {}
        each = list(literals(conditions))  # `cases` takes apart what `or` joins
        for column in dict.fromkeys(c.column for c in each):
            a, codes = self.source(column)
            attribute, own = self.domain[column], [c for c in each if c.column == column]
            shares = self.shares(attribute, own, ends)
            weights[a] = weights.get(a, 1.0) * shares[codes]
            if ends != "even":
                continue
            if ((shares > 0) & (shares < 1)).any():
                self.exact = False
                self.notes[CUT.format(repr(shortened(column)))] = None
            least, most = (self.shares(attribute, own, end) for end in ("least", "most"))
            self.open |= bool((least != most).any())
            self.unlisted(column, unlisted_in(attribute, own, shares))
        return weights

    def shares(self, attribute: Attribute, own: Sequence[Condition], ends: Ends) -> np.ndarray:
        """float64[code]: as `share_of_codes`. Where no code meets conditions, and nobody knows how many rows
        hold other values, the most is all that such values count as.
        """
        shares = share_of_codes(attribute, own, ends)
        unknown = math.isnan(self.moved.get(attribute.name, 0.0))
        if ends == "most" and unknown and not shares.any() and unlisted_in(attribute, own, shares).missed:
            shares[taking_others(attribute)] = 1.0
        return shares

    def cases(self, conditions: Where, ends: Ends = "even") -> list[Case]:
        """Conditions as a sum of products: where one of several columns' has to hold, all rows less those
        where none does.
        """
        cases = [Case(1, self.where([c for c in conditions if not isinstance(c, AnyOf)], ends))]
        for either in (c for c in conditions if isinstance(c, AnyOf)):
            none: dict[int, np.ndarray] = {}
            for literal in either.parts:
                none = _times(none, {a: 1.0 - w for a, w in self.where((literal,), ends).items()})
            if len(none) == 1:
                cases = [Case(s, _times(w, {a: 1.0 - n for a, n in none.items()})) for s, w in cases]
            else:
                cases += [Case(-s, _times(w, none)) for s, w in cases]
        if len(cases) > MAX_CASES:
            raise InputError(
                "too many conditions joined by `or` over several columns; ask for fewer at a time"
            )
        return cases

    def unlisted(self, column: str, of: Unlisted, inside: np.ndarray | None = None) -> None:
        """Count what may be wrong with values of a column that are none of its domain's; `inside:
        bool[group]`: the groups that they may lie in.
        """
        most = self.moved.get(column, 0.0)
        if not most or not any(of):
            return
        name = repr(shortened(column))
        self.notes[UNKNOWN.format(name) if math.isnan(most) else self.told.format(name, most)] = None
        if not math.isnan(most):
            groups = np.ones(1) if inside is None else inside
            self.vain = self.vain + most * of.in_vain * groups
            self.missed = self.missed + most * of.missed * groups

    def groups(self, by: Sequence[str]) -> tuple[list[tuple[Label, ...]], dict[int, np.ndarray]]:
        """(the labels of each group, float64[group, codes] by attribute: 1 where a code lies in it)."""
        if len(set(by)) != len(by):
            raise InputError("a column is named twice after `by`")
        sources = [self.source(column) for column in by]
        sizes = [self.domain[column].size for column in by]
        check_groups(math.prod(sizes))
        labels = list(itertools.product(*(labels_of(self.domain[column]) for column in by)))
        cells = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
        weights: dict[int, np.ndarray] = {}
        for (a, codes), of_group in zip(sources, cells, strict=True):
            inside = (codes[None, :] == of_group[:, None]).astype(np.float64)
            weights[a] = weights[a] * inside if a in weights else inside
        for column, of_group in zip(by, cells, strict=True):
            attribute = self.domain[column]
            if not unlisted_in(attribute, (), np.ones(attribute.size)).in_vain:
                continue
            self.unlisted(column, Unlisted(True, False), np.isin(of_group, taking_others(attribute)))
        return labels, weights


def check_groups(count: int) -> None:
    """Raises InputError if an answer would have too many groups."""
    if count > MAX_GROUPS:
        raise InputError(
            f"an answer of {count:,} groups is too large; {MAX_GROUPS:,} is the most: name fewer columns"
        )


def column_of(domain: Domain, name: str) -> None:
    """InputError, with the names there are, where a domain has no such column."""
    if name not in domain:
        close = did_you_mean(name, domain.names)
        raise InputError(f"no column {shortened(name)!r}{close}; there are {some_names(domain.names)}")


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


def _times(*factors: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    product: dict[int, np.ndarray] = {}
    for weights in factors:
        for a, w in weights.items():
            product[a] = product[a] * w if a in product else w
    return product


def resolve(
    query: Single, domain: Domain, factor: Factor | None = None, moved: Mapping[str, float] = {}
) -> list[Resolved]:
    """The parts of a query over a domain, one for each marginal of a cube. `factor`: of all weights, where
    the query counts something else than the model does. `moved`: by column, the most records whose values are
    none of the domain's (NaN: nobody knows). Raises InputError if the query does not fit the domain.
    """
    if isinstance(query, Cube):
        return _cube(query, domain, factor, moved)
    weights = _Weights(domain, factor, moved)
    weights.told = MOVED if isinstance(query, Count | Share | Quantile) else TAKEN
    labels, groups = weights.groups(query.by)
    if isinstance(query, Quantile):
        if any(isinstance(each, AnyOf) for each in query.where):
            raise InputError("a quantile takes no conditions joined by `or`: ask it of each of them")
        where = _times(weights.factor, weights.where(query.where))
        resolved = _quantile(query, weights, _times(groups, where), labels)
    elif isinstance(query, Deviation | Correlation):
        resolved = _moments(query, weights, groups, labels)
    else:
        resolved = _sums(query, weights, groups, labels)
        if weights.open and factor is None:
            least, most = (
                replace(_sums(query, weights, groups, labels, end), exact=True) for end in ("least", "most")
            )
            resolved = replace(resolved, ends=(least, most))
    vain, missed = (np.broadcast_to(most, len(labels)) for most in (weights.vain, weights.missed))
    return [replace(resolved, notes=tuple(weights.notes), exact=weights.exact, vain=vain, missed=missed)]


def _sums(
    query: Count | Share | Mean | Total,
    weights: _Weights,
    groups: dict[int, np.ndarray],
    labels: list[tuple[Label, ...]],
    ends: Ends = "even",
) -> Resolved:
    """The linear queries behind one; of a ratio to what is least where it is to be greatest."""
    count, values = len(labels), dict[int, np.ndarray]()
    where = weights.cases(query.where, ends)
    signs: dict[str, Any] = {"columns": query.by, "groups": labels, "notes": (), "exact": weights.exact}
    if isinstance(query, Mean | Total):
        values, present = _numbers(query.column, weights, ends)
        where = [Case(s, _times(w, present)) for s, w in where]
    below: list[Case] = []
    if isinstance(query, Mean):
        below = where  # whoever meets the conditions also counts below: neither end is worse for certain
    if isinstance(query, Share):
        opposite: dict[Ends, Ends] = {"even": "even", "least": "most", "most": "least"}
        given = weights.cases(query.given, ends)
        where = [Case(s * t, _times(w, v)) for s, w in where for t, v in given]
        below = given if ends == "even" else weights.cases(query.given, opposite[ends])
    outer = groups if not isinstance(query, Share) or query.where else {}
    parts = [(_times(weights.factor, groups, each.weights, values), count) for each in where]
    parts += [(_times(weights.factor, outer, each.weights), count) for each in below]
    signs |= {"above": tuple(each.sign for each in where), "below": tuple(each.sign for each in below)}
    terms = terms_of(weights.domain, parts)
    kind: Literal["count", "ratio"] = "ratio" if below else "count"
    return Resolved(
        terms, kind, **signs, proportion=isinstance(query, Share), signed=isinstance(query, Total)
    )


def _numbers(
    column: str, weights: _Weights, ends: Ends
) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """(a column's values as weights, who has one)."""
    a, codes = weights.source(column)
    values, has, exact = average_of_codes(weights.domain[column], ends)
    if not exact:
        weights.exact, weights.open = False, True
        weights.notes[INNER.format(repr(shortened(column)))] = None
    weights.unlisted(column, Unlisted(True, True))
    return {a: values[codes]}, {a: has[codes].astype(np.float64)}


def _moments(
    query: Deviation | Correlation,
    weights: _Weights,
    groups: dict[int, np.ndarray],
    labels: list[tuple[Label, ...]],
) -> Resolved:
    """Sums of 1, of each column and its square and, of two, of their product, over records that have both.
    Values are taken from the middle of their column, so that squares of large ones do not drown the rest.
    """
    cases = weights.cases(query.where)
    if len(cases) > 1:
        raise InputError("`or` over several columns goes with counts, shares, means and sums alone")
    inside, moments = _times(weights.factor, groups, cases[0].weights), list[dict[int, np.ndarray]]()
    for column in (query.column,) if isinstance(query, Deviation) else (query.column, query.other):
        (a, codes), attribute = weights.source(column), weights.domain[column]
        values, has, exact = average_of_codes(attribute)
        inside = _times(inside, {a: has[codes].astype(np.float64)})
        middle = float(np.median(values[has]))
        values, inner = np.where(has, values - middle, 0.0), np.zeros(attribute.size)
        if not exact:
            weights.exact = False
            weights.notes[EVEN.format(repr(shortened(column)))] = None
            low, high = (np.asarray(end, dtype=np.float64) for end in intervals(attribute))
            inner = np.where(has, high - low, 0.0) ** 2 / 12
        weights.unlisted(column, Unlisted(True, True))
        moments += [{a: values[codes]}, {a: (values**2 + inner)[codes]}]
    if isinstance(query, Correlation):
        moments.append(_times(moments[0], moments[2]))
    parts = [(_times(inside, each), len(labels)) for each in ({}, *moments)]
    kind: Literal["deviation", "correlation"] = "deviation" if len(parts) == 3 else "correlation"
    return Resolved(terms_of(weights.domain, parts), kind, query.by, labels, (), weights.exact)


def _quantile(
    query: Quantile, weights: _Weights, inside: dict[int, np.ndarray], labels: list[tuple[Label, ...]]
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
    terms = terms_of(domain, [(_times(spread, {a: np.tile(upto.astype(np.float64), (k, 1))}), k * each)])
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
