"""Answering: by least squares if noisy answers determine a query, otherwise by the model; with error bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
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
from factored_mwem.answers.people import CLASSES, ENDS, SAME_IN_CLASS, factors_of
from factored_mwem.answers.projections import Noisy
from factored_mwem.answers.query import Difference, Query, Single
from factored_mwem.answers.resolve import Resolved, resolve
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError

LAPLACE = "Laplace noise: intervals follow the kurtosis of its sums (Cornish-Fisher)"
UNSURE = "how sure the model is of this is not known: it was not fitted by likelihood (engine mwem)"
UNSURE_OF_PEOPLE = (
    "how sure the model is of this is not known, for people vary as a whole: ask about fewer columns"
)
SURE = 4.0
"""Least size of a group, in standard errors of its count, for a ratio to it to be about normally
distributed.
"""
ROUGH = "some groups are hardly larger than their noise: the figures of these are rough"
NARROW = "noise below one record is discrete, and treated as continuous"


class Answering:
    """A release's model and noisy answers, from which queries are answered."""

    def __init__(self, evidence: Evidence, errors: Callable[[], BootstrapErrors] | None = None) -> None:
        """`errors` gives those of the model's answers; it is called once they are needed."""
        self.domain: Domain = evidence.domain
        self.people = evidence.people
        self.model, self.noisy, self._errors = evidence.model, Noisy.of(evidence), errors

    def answer(self, query: Query | str, *, population: bool = False) -> Answer:
        """The answer to a query, or to a text that asks one; raises InputError in one line if that cannot be.

        `population`: about the population of which the table's rows are a sample, with the sampling error.
        """
        parsed = parse(query) if isinstance(query, str) else query
        if population and self.people is not None:
            raise InputError("--population: of a release of people the error of sampling is not known")
        if isinstance(parsed, Difference):
            answers = [self._sums(self._sides(parsed), population)]
        else:
            answers = self._single(parsed, population)
        return joined(written(parsed), answers)

    def _single(self, query: Single, population: bool) -> list[Answer]:
        """The answers to its parts: by the first factor with which noisy answers fix it, if any."""
        factors = factors_of(query, self.domain, self.people)
        for factor in factors:
            parts, *ends = (resolve(query, self.domain, each) for each in (factor, *factor.fixed()))
            if self._fixed(parts):
                return self._parts(parts, population)
            if ends and all(self._fixed(each) and each[0].kind == "count" for each in ends):
                return [self._between(*each) for each in zip(parts, *ends, strict=True)]
        return self._parts(resolve(query, self.domain, *factors[:1]), population)

    def _fixed(self, parts: Sequence[Resolved]) -> bool:
        """Whether noisy answers alone give them all."""
        return all(part.exact and least_squares(self.noisy, part.terms) is not None for part in parts)

    def _between(self, middle: Resolved, least: Resolved, most: Resolved) -> Answer:
        """A count whose factor is known between two ends alone, which its interval covers with the noise."""
        figures = [self._sums([replace(part, exact=True)], False) for part in (middle, least, most)]
        notes = tuple(dict.fromkeys((*figures[0].notes, CLASSES.format(ENDS))))
        return replace(figures[0], low=figures[1].low, high=figures[2].high, notes=notes)

    def _parts(self, parts: Sequence[Resolved], population: bool) -> list[Answer]:
        return [(self._quantile if p.kind == "quantile" else self._sums)([p], population) for p in parts]

    def _sides(self, query: Difference) -> list[Resolved]:
        sides = []
        for side in (query.first, query.second):
            factors = factors_of(side, self.domain, self.people)
            sides.append(resolve(side, self.domain, *factors[:1]))
        if any(len(side) != 1 or side[0].kind == "quantile" for side in sides):
            raise InputError("`minus` stands between two counts, shares or means")
        (one,), (other,) = sides
        if one.kind != other.kind or one.columns != other.columns:
            raise InputError("`minus` stands between two answers of one kind, by the same columns")
        return [one, other]

    def _quantile(self, sides: Sequence[Resolved], population: bool) -> Answer:
        (resolved,) = sides
        assert resolved.column is not None
        basis = self._basis(sides, population)
        spread = self._spread(basis, resolved.terms, population)
        figures: Sequence[np.ndarray] = list(quantiles(resolved, basis.values, spread))
        if (type_ := self.domain[resolved.column].type) in ("date", "datetime"):
            figures = in_dates(figures, type_)
        return self._about(resolved, basis, population, figures, resolved.notes)

    def _sums(self, sides: Sequence[Resolved], population: bool) -> Answer:
        """The value of a count, share or mean, less that of a second one if there are two."""
        basis, terms = self._basis(sides, population), together([side.terms for side in sides])
        first, second = sides[0].terms.count, sides[1:]
        values, sums = computed(sides[0], basis.values)
        for other in second:
            less, theirs = computed(other, basis.values, first)
            values = values - less
            sums = Sums(
                np.concatenate([sums.rows, theirs.rows], axis=1),
                np.concatenate([sums.factors, -theirs.factors], axis=1),
            )
        unsure = [note for i, side in enumerate(sides) for note in rough(side, basis, i * first)]
        notes = dict.fromkeys([*(note for side in sides for note in side.notes), *unsure])
        errors = self._spread(basis, terms, population)(sums)
        figures = self._interval(None if second else sides[0], values, errors)
        return self._about(sides[0], basis, population, list(figures), notes)

    def _basis(self, sides: Sequence[Resolved], population: bool) -> Basis:
        """Noisy answers alone if they determine all terms, together or set by set; otherwise the model."""
        both = together([each.terms for each in sides])
        if all(each.exact for each in sides):
            joint = least_squares(self.noisy, both)
            parts = [joint] if joint else [least_squares(self.noisy, each.terms) for each in sides]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                return MeasuredBasis(known)
        errors = self._errors().errors(both, population) if self._errors is not None else None
        return ModelBasis(both.of_forest(self.model), errors)

    def _spread(self, basis: Basis, terms: QueryTerms, population: bool) -> Callable[[Sums], ErrorMoments]:
        """The function that gives the errors of sums, with sampling errors if requested."""
        if not population or basis.basis == "model":
            return basis.spread

        def with_sampling(sums: Sums) -> ErrorMoments:
            bias, noise, kurtosis = basis.spread(sums)
            whole = noise + sampling_variance(self.noisy, self.model, terms, sums)
            share = np.divide(noise, whole, out=np.zeros_like(whole), where=whole > 0)
            return ErrorMoments(bias, whole, kurtosis * share**2)

        return with_sampling

    def _interval(self, resolved: Resolved | None, values: np.ndarray, errors: ErrorMoments) -> np.ndarray:
        """float64[4, group]: counts are cut at 0 and at a public number of rows, shares at 0 and 1."""
        half, middle = half_width(errors), values - errors.bias
        low, high = middle - half, middle + half
        least, most = -np.inf, np.inf
        if resolved is not None and resolved.kind == "count":
            least, most = 0.0, np.inf if self.noisy.total is None else self.noisy.total
        elif resolved is not None and resolved.proportion:
            least, most = 0.0, 1.0
        return np.stack(
            [values, np.sqrt(errors.variance), np.clip(low, least, most), np.clip(high, least, most)]
        )

    def _about(
        self,
        resolved: Resolved,
        basis: Basis,
        population: bool,
        figures: Sequence[np.ndarray],
        notes: Iterable[str],
    ) -> Answer:
        remarks = list(notes)
        if isinstance(basis, ModelBasis) and basis.errors is None:
            remarks.append(UNSURE if self.people is None else UNSURE_OF_PEOPLE)
        if basis.basis == "model" and self.people is not None and self.people.in_classes:
            remarks.append(CLASSES.format(SAME_IN_CLASS))
        if basis.basis == "measured" and not self.noisy.gaussian:
            remarks.append(LAPLACE)
        if basis.basis == "measured" and not self.noisy.continuous:
            remarks.append(NARROW)
        estimate, stderr, low, high = figures
        of = (resolved.columns, tuple(resolved.groups), estimate, stderr, low, high)
        return Answer("", *of, basis.basis, population, tuple(remarks))


def rough(resolved: Resolved, basis: Basis, first: int = 0) -> list[str]:
    """A note where ratios are to records that are hardly more than their noise."""
    if resolved.kind != "ratio":
        return []
    below = first + np.arange(len(resolved.groups)) + len(resolved.groups)
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
    """The answers to the parts of a query as one; if the model is used for any part, the basis of all is
    "model".
    """
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
