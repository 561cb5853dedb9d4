"""A count, or counts by groups, as cells of a cut, which `ask` can test and measure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from factored_mwem.answers.grammar import parse
from factored_mwem.answers.people import factors_of
from factored_mwem.answers.query import Count, Query
from factored_mwem.answers.resolve import resolve
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.answers.written import written
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.privacy.other.cuts import TableCut
from factored_mwem.tables.codes.decode import Label

MAX_CUT_CELLS = 2**16
"""Most cells of the cut of one question."""
FREE_CELLS = 512
"""Up to this many cells, a cut separates the codes before, between and after those that the question counts.
"""

NOBODY = -1
"""Stands for the cell of a group that is empty for every possible table."""


@dataclass(frozen=True, slots=True, eq=False)
class CountQuestion:
    """A count, or counts by groups: `text` in canonical form, `columns` and `groups` with their labels, the
    model's `terms`, and the `cut` of which cell `wanted[i]` is what group i counts.
    """

    text: str
    columns: tuple[str, ...]
    groups: list[tuple[Label, ...]]
    terms: QueryTerms
    cut: TableCut
    wanted: tuple[int, ...]

    @classmethod
    def of(cls, query: Query | str, domain: Domain) -> CountQuestion:
        """Raises InputError, from public facts, if the query names what is not in the domain, or does not
        count whole codes.
        """
        count = parse(query) if isinstance(query, str) else query
        if not isinstance(count, Count):
            raise InputError(
                "ask answers counts, such as `count where age >= 40 by sex`; means, shares and quantiles "
                "follow from counts, or from the model by `fmwem answer`"
            )
        factors_of(count, domain, None)  # rows are all that there is to count
        (resolved,) = resolve(count, domain)
        if not resolved.exact:
            raise InputError(f"{'; '.join(resolved.notes)}: ask for whole bins, which `fmwem domain` shows")
        return cls(written(count), resolved.columns, resolved.groups, resolved.terms, *cut_of(resolved.terms))


def cut_of(terms: QueryTerms) -> tuple[TableCut, tuple[int, ...]]:
    """The cut by which each query of `terms`, of weights 0 and 1, is one cell; these cells, NOBODY if empty.

    A class consists of codes that all queries treat alike. Codes that no query counts form classes by where
    they lie, because more cells of a marginal cost nothing.
    """
    empty = np.zeros(terms.count, dtype=bool)
    for weights in terms.weights:
        empty |= ~weights.any(axis=1)
    kept = [j for j, weights in enumerate(terms.weights) if weights.any() and not weights.all()]
    positions = tuple(terms.support[j] for j in kept)
    plain = [_classes(terms.weights[j], apart=False) for j in kept]
    finer = [_classes(terms.weights[j], apart=True) for j in kept]
    classes = finer if math.prod(int(c.max()) + 1 for c in finer) <= FREE_CELLS else plain
    cut = TableCut(positions, tuple(classes))
    if cut.cells > MAX_CUT_CELLS:
        raise InputError(
            f"a question that cuts the records into {cut.cells:,} cells is too large; {MAX_CUT_CELLS:,} is "
            "the most: name fewer columns"
        )
    wanted = np.zeros(terms.count, dtype=np.int64)
    for j, own, size in zip(kept, classes, cut.sizes, strict=True):
        wanted = wanted * size + own[terms.weights[j].argmax(axis=1)]
    return cut, tuple(np.where(empty, NOBODY, wanted).tolist())


def _classes(weights: np.ndarray, *, apart: bool) -> np.ndarray:
    """int64[code]: the class of each code, by the queries that count it, `weights: float64[query, code]` of 0
    and 1; `apart`: codes that no query counts are in one class only if they lie side by side.
    """
    counted = (weights != 0).any(axis=0)
    _, pattern = np.unique(weights.T, axis=0, return_inverse=True)
    run = np.cumsum(np.append(True, np.diff(counted.astype(np.int64)) != 0))
    keys = np.where(counted, pattern.ravel(), -1 - run * apart)
    return np.unique(keys, return_inverse=True)[1].ravel().astype(np.int64)
