"""Weights: the conditions and groups of a query as weights of a domain's codes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from factored_mwem.answers.people import Factor
from factored_mwem.answers.query import AnyOf, Condition, Where, literals
from factored_mwem.answers.restriction import (
    Ends,
    Unlisted,
    no_null_was_found,
    share_of_codes,
    taking_others,
    unlisted_in,
)
from factored_mwem.domain.attribute import OTHER, Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, did_you_mean, shortened, some_names
from factored_mwem.tables.codes.decode import Label, labels_of

MAX_GROUPS = 4096
"""Most groups in one answer."""
CUT = "the query cuts bins of {}: the estimate spreads their rows evenly, the interval holds however they lie"
MOVED = (
    "{}: values that were not found when the domain was learnt count as others; the interval holds for up to "
    "{:,.0f} of those counted"
)
UNKNOWN = "{}: values that were not found when the domain was learnt count as others, nobody knows how many"
TAKEN = (
    "{}: up to {:,.0f} of those counted hold values not found when the domain was learnt: the answer takes "
    "them as others, however far off they are"
)
ALLOWED = (
    "{}: up to {:,.0f} of those counted hold values not found when the domain was learnt: the interval "
    "allows for them, each off by up to the column's width"
)
ALONE = (
    "{}: up to {:,.0f} of those counted hold values not found when the domain was learnt, which has one "
    "value: how far off they are is not known"
)

WIDER = (
    "{}: up to {:,.0f} of those counted hold values not found when the domain was learnt: the upper end "
    "allows for what noise may hide beyond the ends"
)


class Case(NamedTuple):
    """Weights by attribute, taken with a sign."""

    sign: int
    weights: dict[int, np.ndarray]


class Stray(NamedTuple):
    """Rows whose values of a column are none of its domain's: the most that each of some groups may hold `in
    vain`, and have `missed`: float64[group]. `attribute`: the modelled one whose code tells.
    """

    attribute: int
    vain: np.ndarray
    missed: np.ndarray


MAX_CASES = 64
"""Products that a condition may fall apart into."""


class QueryWeights:
    """Weights by modelled attribute while a query is taken apart. `factor` is one of all of them. `moved`: by
    column, the most records whose values are none of the domain's (NaN: nobody knows).
    """

    def __init__(self, domain: Domain, factor: Factor | None, moved: Mapping[str, float] = {}) -> None:
        self.domain, self.exact, self._factor = domain, factor is None or factor.exact, factor
        self.notes = dict.fromkeys(() if factor is None else factor.notes)
        most = 1.0 if factor is None else float(factor.at_end("most")[factor.at].max())
        self.moved = {column: rows * most for column, rows in moved.items()}
        self.open, self.strays = False, list[Stray]()
        self.told = MOVED
        self.taken: tuple[int, float] | None = None

    @property
    def factor(self) -> dict[int, np.ndarray]:
        """The factor as it is."""
        return self.factor_at("even")

    def factor_at(self, ends: Ends) -> dict[int, np.ndarray]:
        """Of a column of numbers of rows in classes the least and the most of each may be asked for."""
        return {} if self._factor is None else self._factor.at_end(ends)

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
        unknown |= attribute.other == OTHER and no_null_was_found(attribute, own)
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
                none = product_of(none, {a: 1.0 - w for a, w in self.where((literal,), ends).items()})
            if len(none) == 1:
                cases = [Case(s, product_of(w, {a: 1.0 - n for a, n in none.items()})) for s, w in cases]
            else:
                cases += [Case(-s, product_of(w, none)) for s, w in cases]
        if len(cases) > MAX_CASES:
            raise InputError(
                "too many conditions joined by `or` over several columns; ask for fewer at a time"
            )
        return cases

    def unlisted(
        self, column: str, of: Unlisted, inside: np.ndarray | None = None, told: str | None = None
    ) -> None:
        """Count what may be wrong with values of a column that are none of its domain's; `inside:
        bool[group]`: the groups that they may lie in; `told`: the note about them, else that of the query.
        """
        most = self.moved.get(column, 0.0)
        if not most or not any(of):
            return
        name = repr(shortened(column))
        note = UNKNOWN if math.isnan(most) else told or self.told
        self.notes[note.format(name, most)] = None
        if not math.isnan(most):
            groups = np.ones(1) if inside is None else inside
            source, _ = self.source(column)
            self.strays.append(Stray(source, most * of.in_vain * groups, most * of.missed * groups))

    def taken_as_others(self, column: str, width: float) -> None:
        """Allow for values of a column of numbers, of such a width, that are none of its domain's: `taken` is
        (the modelled attribute, the standard error, value times records, that they give to a sum). How many
        there are is taken to be uniform up to the most there may be; how far they are off, all to one side,
        uniform up to the width.
        """
        most = self.moved.get(column, 0.0)
        self.unlisted(column, Unlisted(True, True), told=ALLOWED if width else ALONE)
        if most and not math.isnan(most):
            source, _ = self.source(column)
            self.taken = source, most * width / 3 if width else math.inf

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


def product_of(*factors: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    product: dict[int, np.ndarray] = {}
    for weights in factors:
        for a, w in weights.items():
            product[a] = product[a] * w if a in product else w
    return product
