"""Resolve: a query as linear queries over a domain's codes, and the computation from their answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from factored_mwem.answers.people import Factor
from factored_mwem.answers.query import Count, Cube, Mean, Quantile, Share, Single, Where
from factored_mwem.answers.restriction import average_of_codes, share_of_codes, step_of
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, shortened, some_names
from factored_mwem.tables.codes.decode import Label, labels_of

MAX_GROUPS = 4096
"""Most groups in one answer."""
MAX_TERMS = 2**16
"""Linear queries behind one answer: a quantile needs one for each value of its column, in each group."""
MAX_WEIGHTS = 2**24
"""Most numbers in the weights of these queries."""
ALL = "(all)"
"""The label of a column that a cube has summed out."""
CUT = "the query cuts bins of {}: their rows are taken as spread evenly over the values in each"
INNER = "{} is known by bins: their rows are taken as spread evenly over the values in each"


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """The `terms` of a query, and the `kind` of computation that each of the `groups` makes from them.

    "count": its term. "ratio": terms are first all numerators, then all denominators. "quantile": for each
    group in turn the number of records, then those up to the end of each of `places: float64[code, 2]`, the
    least and greatest value of a code of `column`, ascending, `step` apart (0: numbers without a grid); `at`
    is the share. `proportion`: a ratio from 0
    to 1. `exact`: whether every code is wholly in
    or out, so that the answer follows from counts of codes alone.
    """

    terms: QueryTerms
    kind: Literal["count", "ratio", "quantile"]
    columns: tuple[str, ...]
    groups: list[tuple[Label, ...]]
    notes: tuple[str, ...]
    exact: bool
    at: float = 0.5
    places: np.ndarray | None = None
    step: float = 0.0
    column: str | None = None
    proportion: bool = False


class _Weights:
    """Weights by modelled attribute while a query is taken apart. `factor` is one of all of them."""

    def __init__(self, domain: Domain, factor: Factor | None) -> None:
        self.domain, self.exact = domain, factor is None or factor.exact
        self.notes = dict.fromkeys(() if factor is None else factor.notes)
        self.factor = {} if factor is None else {factor.at: factor.weights}

    def source(self, column: str) -> tuple[int, np.ndarray]:
        """(the modelled attribute from which a column follows, int64[its code]: the column's)."""
        column_of(self.domain, column)
        try:
            name, codes = self.domain.source_of(column)
        except ValueError as error:
            raise InputError(f"no answer by this model: {error}") from None
        return self.domain.modelled.index(name), codes

    def where(self, conditions: Where) -> dict[int, np.ndarray]:
        """float64[codes] by attribute: conditions of one column are taken together."""
        weights: dict[int, np.ndarray] = {}
        for column in dict.fromkeys(c.column for c in conditions):
            a, codes = self.source(column)
            shares = share_of_codes(self.domain[column], [c for c in conditions if c.column == column])
            if ((shares > 0) & (shares < 1)).any():
                self.exact = False
                self.notes[CUT.format(repr(shortened(column)))] = None
            weights[a] = weights.get(a, 1.0) * shares[codes]
        return weights

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
        raise InputError(f"no column {shortened(name)!r}; there are {some_names(domain.names)}")


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


def resolve(query: Single, domain: Domain, factor: Factor | None = None) -> list[Resolved]:
    """The parts of a query over a domain, one for each marginal of a cube. `factor`: of all weights, where
    the query counts something else than the model does. Raises InputError if the query does not fit the
    domain.
    """
    if isinstance(query, Cube):
        return _cube(query, domain, factor)
    weights = _Weights(domain, factor)
    labels, groups = weights.groups(query.by)
    where, k = _times(weights.factor, weights.where(query.where)), len(labels)
    if isinstance(query, Count):
        terms = terms_of(domain, [(_times(groups, where), k)])
    elif isinstance(query, Share):
        condition = weights.where(query.given)
        inside = _times(weights.factor, condition if not query.where else _times(groups, condition))
        parts = [(_times(groups, where, condition), k), (inside, k)]
        terms = terms_of(domain, parts)
    elif isinstance(query, Mean):
        terms = _mean(query, weights, _times(groups, where), k)
    else:
        return [_quantile(query, weights, _times(groups, where), labels)]
    kind: Literal["count", "ratio"] = "count" if isinstance(query, Count) else "ratio"
    resolved = Resolved(terms, kind, query.by, labels, tuple(weights.notes), weights.exact)
    return [replace(resolved, proportion=isinstance(query, Share))]


def _mean(query: Mean, weights: _Weights, inside: dict[int, np.ndarray], count: int) -> QueryTerms:
    a, codes = weights.source(query.column)
    values, has, exact = average_of_codes(weights.domain[query.column])
    if not exact:
        weights.exact = False
        weights.notes[INNER.format(repr(shortened(query.column)))] = None
    present = _times(inside, {a: has[codes].astype(np.float64)})
    return terms_of(weights.domain, [(_times(present, {a: values[codes]}), count), (present, count)])


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
        tuple(weights.notes),
        weights.exact,
        query.at,
        places,
        step_of(attribute) or 0.0,
        query.column,
    )


def _cube(query: Cube, domain: Domain, factor: Factor | None) -> list[Resolved]:
    if len(set(query.columns)) != len(query.columns):
        raise InputError("a column is named twice in a cube")
    for column in query.columns:
        column_of(domain, column)
    check_groups(math.prod(domain[column].size + 1 for column in query.columns))
    cuboids = []
    for order in range(len(query.columns) + 1):
        for by in itertools.combinations(query.columns, order):
            (counted,) = resolve(Count(query.where, by), domain, factor)
            groups = [
                tuple(group[by.index(c)] if c in by else ALL for c in query.columns)
                for group in counted.groups
            ]
            cuboids.append(replace(counted, columns=query.columns, groups=groups))
    return cuboids
