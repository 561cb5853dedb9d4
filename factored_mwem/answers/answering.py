"""Answering: by least squares where noisy answers fix a query, else by the model; and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from factored_mwem.answers.answer import FIGURES, Answer, in_dates
from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.grammar import parse, written
from factored_mwem.answers.intervals import (
    Basis,
    BootstrapErrors,
    ErrorMoments,
    MeasuredBasis,
    ModelBasis,
    Sums,
    computed,
    half_width,
    quantiles,
    sampling_variance,
)
from factored_mwem.answers.least_squares import least_squares
from factored_mwem.answers.projections import Noisy
from factored_mwem.answers.query import Difference, Query
from factored_mwem.answers.resolve import Resolved, resolve
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError

LAPLACE = "Laplace noise: intervals follow the kurtosis of its sums (Cornish-Fisher)"
UNSURE = "how sure the model is of this is not known: it was not fitted by likelihood (engine mwem)"
SURE = 4.0
"""Standard errors that the records of a group are at least, for a ratio to them to be about normal."""
ROUGH = "some groups are hardly larger than their noise: the figures of these are rough"
NARROW = "noise below one record is discrete, and treated as continuous"


class Answering:
    """A release's model and noisy answers, from which queries are answered."""

    def __init__(self, evidence: Evidence, errors: Callable[[], BootstrapErrors] | None = None) -> None:
        """`errors` gives those of the model's answers; it is called once they are needed."""
        self.domain: Domain = evidence.domain
        self.model, self.noisy, self._errors = evidence.model, Noisy.of(evidence), errors

    def answer(self, query: Query | str, *, population: bool = False) -> Answer:
        """The answer to a query, or to a text that asks one; raises InputError in one line if that cannot be.

        `population`: about those of whom the table's rows are a sample, its error included.
        """
        parsed = parse(query) if isinstance(query, str) else query
        if isinstance(parsed, Difference):
            answers = [self._difference(parsed, population)]
        else:
            answers = [self._one(part, population) for part in resolve(parsed, self.domain)]
        return joined(written(parsed), answers)

    def _one(self, asked: Resolved, population: bool) -> Answer:
        basis = self._basis([asked], population)
        spread = self._spread(basis, asked.terms, population)
        if asked.kind == "quantile":
            assert asked.column is not None
            figures: Sequence[np.ndarray] = list(quantiles(asked, basis.values, spread))
            if (type_ := self.domain[asked.column].type) in ("date", "datetime"):
                figures = in_dates(figures, type_)
            return self._about(asked, basis, population, figures)
        values, sums = computed(asked, basis.values)
        figures = list(self._interval(asked, values, spread(sums)))
        return self._about(asked, basis, population, figures, (*asked.notes, *rough(asked, basis)))

    def _difference(self, asked: Difference, population: bool) -> Answer:
        sides = [resolve(side, self.domain) for side in (asked.first, asked.second)]
        if any(len(side) != 1 or side[0].kind == "quantile" for side in sides):
            raise InputError("`minus` stands between two counts, shares or means")
        one, other = sides[0][0], sides[1][0]
        if one.kind != other.kind or one.columns != other.columns:
            raise InputError("`minus` stands between two answers of one kind, by the same columns")
        basis, both = self._basis([one, other], population), together([one.terms, other.terms])
        values, sums = computed(one, basis.values)
        less, theirs = computed(other, basis.values, one.terms.count)
        sums = Sums(
            np.concatenate([sums.rows, theirs.rows], axis=1),
            np.concatenate([sums.factors, -theirs.factors], axis=1),
        )
        errors = self._spread(basis, both, population)(sums)
        unsure = [*rough(one, basis), *rough(other, basis, one.terms.count)]
        notes = tuple(dict.fromkeys([*one.notes, *other.notes, *unsure]))
        figures = list(self._interval(None, values - less, errors))
        return self._about(one, basis, population, figures, notes)

    def _basis(self, asked: Sequence[Resolved], population: bool) -> Basis:
        """Noisy answers alone where they fix all terms, together or one set by itself; else the model."""
        both = together([each.terms for each in asked])
        if all(each.exact for each in asked):
            joint = least_squares(self.noisy, both)
            parts = [joint] if joint else [least_squares(self.noisy, each.terms) for each in asked]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                return MeasuredBasis(known)
        errors = self._errors().errors(both, population) if self._errors is not None else None
        return ModelBasis(both.of_forest(self.model), errors)

    def _spread(self, basis: Basis, terms: QueryTerms, population: bool) -> Callable[[Sums], ErrorMoments]:
        """What gives the errors of sums; those of sampling included, where asked for."""
        return (
            partial(self._with_sampling, basis, terms)
            if population and basis.basis == "measured"
            else basis.spread
        )

    def _with_sampling(self, basis: Basis, terms: QueryTerms, sums: Sums) -> ErrorMoments:
        bias, noise, kurtosis = basis.spread(sums)
        whole = noise + sampling_variance(self.noisy, self.model, terms, sums)
        share = np.divide(noise, whole, out=np.zeros_like(whole), where=whole > 0)
        return ErrorMoments(bias, whole, kurtosis * share**2)

    def _interval(self, asked: Resolved | None, values: np.ndarray, errors: ErrorMoments) -> np.ndarray:
        """float64[4, group]: counts are cut at 0 and at a public number of rows, shares at 0 and 1."""
        half, middle = half_width(errors), values - errors.bias
        low, high = middle - half, middle + half
        least, most = -np.inf, np.inf
        if asked is not None and asked.kind == "count":
            least, most = 0.0, np.inf if self.noisy.total is None else self.noisy.total
        elif asked is not None and asked.proportion:
            least, most = 0.0, 1.0
        return np.stack(
            [values, np.sqrt(errors.variance), np.clip(low, least, most), np.clip(high, least, most)]
        )

    def _about(
        self,
        asked: Resolved,
        basis: Basis,
        population: bool,
        found: Sequence[np.ndarray],
        notes: tuple[str, ...] | None = None,
    ) -> Answer:
        remarks = list(asked.notes if notes is None else notes)
        if isinstance(basis, ModelBasis) and basis.errors is None:
            remarks.append(UNSURE)
        if basis.basis == "measured" and not self.noisy.gaussian:
            remarks.append(LAPLACE)
        if basis.basis == "measured" and not self.noisy.continuous:
            remarks.append(NARROW)
        estimate, stderr, low, high = found
        of = (asked.columns, tuple(asked.groups), estimate, stderr, low, high)
        return Answer("", *of, basis.basis, population, tuple(remarks))


def rough(asked: Resolved, basis: Basis, first: int = 0) -> list[str]:
    """A note where ratios are to records that are hardly more than their noise."""
    if asked.kind != "ratio":
        return []
    below = first + np.arange(len(asked.groups)) + len(asked.groups)
    errors = basis.spread(Sums(below[:, None], np.ones((len(below), 1))))
    return [ROUGH] if (basis.values[below] < SURE * np.sqrt(errors.variance)).any() else []


def together(terms: Sequence[QueryTerms]) -> QueryTerms:
    """All queries, set after set, over the attributes of any."""
    if len(terms) == 1:
        return terms[0]
    support = tuple(sorted({a for each in terms for a in each.support}))
    weights = []
    for a in support:
        own = [each.weights[each.support.index(a)] if a in each.support else None for each in terms]
        codes = next(w.shape[1] for w in own if w is not None)
        weights.append(
            [np.ones((t.count, codes)) if w is None else w for t, w in zip(terms, own, strict=True)]
        )
    return QueryTerms(support, tuple(map(np.concatenate, weights)), sum(each.count for each in terms))


def joined(text: str, parts: Sequence[Answer]) -> Answer:
    """The answers to the parts of a query as one; what any of them takes from the model, all are said to."""
    figures: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in FIGURES
    }
    return replace(
        parts[0],
        query=text,
        labels=tuple(labels for part in parts for labels in part.labels),
        **figures,
        basis="measured" if all(part.basis == "measured" for part in parts) else "model",
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )
