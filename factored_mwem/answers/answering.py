"""Answering: by least squares if noisy answers determine a query, otherwise by the model; with error bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from factored_mwem.answers.answer import BASES, FIGURES, Answer, in_dates
from factored_mwem.answers.dependence import MissedDependence
from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.grammar import is_sql, parse
from factored_mwem.answers.intervals import (
    Basis,
    BootstrapErrors,
    ErrorMoments,
    MeasuredBasis,
    ModelBasis,
    Sums,
    Z,
    computed,
    half_width,
    quantiles,
    sampling_variance,
    widened,
    within_bins,
)
from factored_mwem.answers.least_squares import least_squares
from factored_mwem.answers.people import factors_of
from factored_mwem.answers.projections import Noisy
from factored_mwem.answers.query import Count, Counted, Difference, Distinct, Extreme, Query, Single, Top
from factored_mwem.answers.resolve import Resolved, resolve
from factored_mwem.answers.spelling import spelt
from factored_mwem.answers.summaries import distinct, extreme, top
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.answers.written import written
from factored_mwem.domain.attribute import OTHER
from factored_mwem.errors import InputError

LAPLACE = "Laplace noise: intervals follow the kurtosis of its sums (Cornish-Fisher)"
UNSURE = "how sure the model is of this is not known: it was not fitted by likelihood (engine mwem)"
BLIND = (
    "noise hides whether two of these columns say the same: the upper end of a count or share allows for it, "
    "that of other figures does not"
)
CROSSED = "rows keep {!r} <= {!r}, which the model that answers does not know: count the rows themselves"
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
        self.domain, self.evidence = evidence.domain, evidence
        self.people, self.moved = evidence.people, evidence.moved
        self._hidden = evidence.hidden
        self.model, self.noisy, self._errors = evidence.model, Noisy.of(evidence), errors

    def answer(self, query: Query | str, *, population: bool = False) -> Answer:
        """The answer to a query, or to a text that asks one; raises InputError in one line if that cannot be.

        `population`: about the population of which the table's rows are a sample, with the sampling error.
        """
        parsed = spelt(parse(query) if isinstance(query, str) else query, self.domain)
        unit: Counted | None = "rows" if self.people is not None else None
        sql = isinstance(query, str) and is_sql(query)
        if population and self.people is not None:
            raise InputError("--population: of a release of people the error of sampling is not known")
        if isinstance(parsed, Extreme):
            answers = [extreme(parsed, self.domain)]
        elif isinstance(parsed, Distinct):
            (counts,) = self._single(Count(parsed.where, (parsed.column,), unit), population)
            grains = 1 if self.people is None else int(self.people.row_weights.min())
            moved = self.moved.get(parsed.column, 0.0) / grains
            answers = [distinct(counts, self.domain[parsed.column], moved)]
        elif isinstance(parsed, Top):
            (counts,) = self._single(Count(parsed.where, parsed.columns, unit), population)
            answers = [top(counts, parsed.number, [self.domain[c].other == OTHER for c in parsed.columns])]
        elif isinstance(parsed, Difference):
            answers = [self._whole(self._sides(parsed), population)]
        else:
            answers = self._single(parsed, population, unit if sql else None)
        return joined(written(parsed), answers)

    def _single(self, query: Single, population: bool, unit: Counted | None = None) -> list[Answer]:
        """The answers to its parts: by the first factor with which noisy answers fix it, if any. `unit`: what
        is counted where the query does not say it.
        """
        factors = factors_of(query, self.domain, self.people, unit)
        for factor in factors:
            parts = resolve(query, self.domain, factor, self.moved, self._hidden)
            if all(self._fixed(end) for part in parts for end in part.ends or (part,)):
                return self._parts(parts, population)
        first = factors[0] if factors else None
        return self._parts(resolve(query, self.domain, first, self.moved, self._hidden), population)

    def _fixed(self, part: Resolved) -> bool:
        """Whether noisy answers alone give it."""
        return part.exact and least_squares(self.noisy, part.terms) is not None

    def _parts(self, parts: Sequence[Resolved], population: bool) -> list[Answer]:
        return [(self._quantile if p.kind == "quantile" else self._whole)([p], population) for p in parts]

    def _resolved(self, query: Single) -> list[Resolved]:
        factors = factors_of(query, self.domain, self.people)
        return resolve(query, self.domain, factors[0] if factors else None, self.moved, self._hidden)

    def _whole(self, sides: Sequence[Resolved], population: bool) -> Answer:
        """A count, share or mean, less a second one if there are two, however the rows of bins lie."""
        if all(side.ends is None for side in sides):
            return self._sums(sides, population)
        ways = ([side.ends or (side, side) for side in sides], [(0, 1), (1, 0)])
        least, most = (
            self._sums([ends[way[i]] for i, ends in enumerate(ways[0])], population) for way in ways[1]
        )
        sure = "model" not in (least.basis, most.basis)
        middle = self._sums([replace(side, exact=sure) for side in sides], population)
        low, high = np.fmin(least.low, middle.low), np.fmax(most.high, middle.high)
        stderr = np.fmax(middle.stderr, (high - low) / (2 * Z))
        basis: Any = "bounded" if middle.basis == "measured" else middle.basis
        notes = tuple(dict.fromkeys((*middle.notes, *least.notes, *most.notes)))
        return replace(middle, basis=basis, stderr=stderr, low=low, high=high, notes=notes)

    def _sides(self, query: Difference) -> list[Resolved]:
        sides = []
        for side in (query.first, query.second):
            sides.append(self._resolved(side))
        if any(len(side) != 1 or side[0].kind not in ("count", "ratio") for side in sides):
            raise InputError("`minus` stands between two counts, shares or means")
        (one,), (other,) = sides
        if one.kind != other.kind or one.columns != other.columns:
            raise InputError("`minus` stands between two answers of one kind, by the same columns")
        return [one, other]

    def _quantile(self, sides: Sequence[Resolved], population: bool) -> Answer:
        (resolved,) = sides
        assert resolved.column is not None
        basis = self._basis(sides)
        spread = self._spread(basis, resolved.terms, population)
        moved = self._strays(resolved, basis).sum(axis=0)
        figures: Sequence[np.ndarray] = list(quantiles(resolved, basis.values, spread, moved))
        if (type_ := self.domain[resolved.column].type) in ("date", "datetime"):
            figures = in_dates(figures, type_)
        notes = [*resolved.notes, *rough(resolved, basis), *self._crossed(resolved, basis)]
        answer = self._about(resolved, basis, population, figures, notes)
        assert resolved.places is not None
        inner = bool((resolved.places[:, 0] < resolved.places[:, 1]).any())
        return _bounded(answer) if inner or moved.any() else answer

    def _sums(self, sides: Sequence[Resolved], population: bool) -> Answer:
        """The value of a count, share or mean, less that of a second one if there are two."""
        basis, terms = self._basis(sides), together([side.terms for side in sides])
        first, second = sides[0].terms.count, sides[1:]
        values, sums = computed(sides[0], basis.values)
        for other in second:
            less, theirs = computed(other, basis.values, first)
            values = values - less
            sums = Sums(
                np.concatenate([sums.rows, theirs.rows], axis=1),
                np.concatenate([sums.factors, -theirs.factors], axis=1),
            )
        unsure = [
            note
            for i, side in enumerate(sides)
            for note in (*rough(side, basis, i * first), *self._crossed(side, basis))
        ]
        notes = dict.fromkeys([*(note for side in sides for note in side.notes), *unsure])
        errors = self._spread(basis, terms, population)(sums)
        taken = self._taken(sides, basis)
        errors = widened(errors, taken)
        inside = within_bins(sides[0], basis.values)
        less, more = self._misplaced(sides, basis) if inside is None else inside
        more = more + sides[0].hidden * np.abs(values)
        figures = self._interval(None if second else sides[0], values, errors, less, more)
        if not second and isinstance(basis, ModelBasis) and basis.errors is not None and positive(sides[0]):
            high = np.minimum(basis.high(sums, values, errors) + more, self._reach(sides[0])[1])
            figures[3] = np.fmax(figures[3], high)
        answer = self._about(sides[0], basis, population, list(figures), notes)
        return _bounded(answer) if (less + more).any() or taken.any() else answer

    def _taken(self, sides: Sequence[Resolved], basis: Basis) -> np.ndarray:
        """float64[group]: the variance of means and sums for values that are none of the domain's."""
        variance = np.zeros(len(sides[0].groups))
        for side, whole in _wholes(sides, basis):
            if side.taken is not None:
                attribute, error = side.taken
                variance += (error * self._part(side, attribute, basis) / whole) ** 2
        return variance

    def _misplaced(self, sides: Sequence[Resolved], basis: Basis) -> np.ndarray:
        """float64[2, group]: how much less and more a count or share may be for rows whose values are none of
        the domain's. Of means and sums see `_taken`.
        """
        groups = len(sides[0].groups)
        bounds = np.zeros((2, groups))
        for way, (side, whole) in enumerate(_wholes(sides, basis)):
            if positive(side):
                own = self._strays(side, basis) / whole
                bounds += own[::-1] if way else own
        return bounds

    def _strays(self, side: Resolved, basis: Basis) -> np.ndarray:
        """float64[2, group]: how many rows whose values are none of the domain's each group may hold in vain,
        and miss.
        """
        most = np.zeros((2, len(side.groups)))
        for attribute, *own in side.strays:
            part = self._part(side, attribute, basis)
            most += np.stack([each * part for each in own])
        return most

    def _part(self, side: Resolved, attribute: int, basis: Basis) -> np.ndarray:
        """float64[group]: which part of the rows whose values of an attribute are none of the domain's each
        group may hold: all, if noisy answers alone fix it. The model says which share of all rows meets the
        rest of a query. The same of those is taken to, and one standard deviation more of a beta distribution
        of that mean which weighs as much as one row.
        """
        groups = len(side.groups)
        if basis.basis != "model" or len(side.above) > 1 or self.people is not None:
            return np.ones(groups)
        step = side.terms.count // groups if side.kind == "quantile" else 1
        whole = max(self.model.total, 1.0)
        rest = side.terms.without(attribute, slice(0, groups * step, step)).of_forest(self.model)
        mean = np.clip(rest, 1.0, whole) / whole
        return np.minimum(mean + np.sqrt(mean * (1 - mean) / 2), 1.0)

    def _basis(self, sides: Sequence[Resolved]) -> Basis:
        """Noisy answers alone if they determine all terms, together or set by set; otherwise the model."""
        both = together([each.terms for each in sides])
        if all(each.exact for each in sides):
            joint = least_squares(self.noisy, both)
            parts = [joint] if joint else [least_squares(self.noisy, each.terms) for each in sides]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                return MeasuredBasis(known)
        errors = self._errors().errors(both, False) if self._errors is not None else None
        return ModelBasis(both.of_forest(self.model), errors, MissedDependence(self.evidence, both))

    def _spread(self, basis: Basis, terms: QueryTerms, population: bool) -> Callable[[Sums], ErrorMoments]:
        """The function that gives the errors of sums, with sampling errors if requested."""
        if not population:
            return basis.spread

        def with_sampling(sums: Sums) -> ErrorMoments:
            return widened(basis.spread(sums), sampling_variance(self.noisy, self.model, terms, sums))

        return with_sampling

    def _crossed(self, side: Resolved, basis: Basis) -> Iterator[str]:
        """A note for each two of its columns that rows keep in order: the model has them in any."""
        if isinstance(basis, ModelBasis):
            names = {self.domain.modelled.names[a] for a in side.terms.support}
            pairs = (pair for chain in self.domain.exchanges for pair in chain.pairs)
            yield from (CROSSED.format(*pair) for pair in pairs if names.issuperset(pair))

    def _interval(
        self,
        resolved: Resolved | None,
        values: np.ndarray,
        errors: ErrorMoments,
        less: np.ndarray,
        more: np.ndarray,
    ) -> np.ndarray:
        """float64[4, group]: they are cut at the least and the most that an answer may be. `less`,
        `more`: how much further each end lies for rows whose values are none of the domain's.
        """
        half, middle = half_width(errors), values - errors.bias
        low, high = middle - half - less, middle + half + more
        least, most = self._reach(resolved) if resolved is not None else (-np.inf, np.inf)
        if resolved is not None and resolved.kind == "ratio" and not resolved.proportion:
            # a mean; estimates of counts and shares are unbiased as they are
            values = np.clip(values, least, most)
        return np.stack(
            [
                values,
                np.sqrt(errors.variance) + (less + more) / (2 * Z),
                np.clip(low, least, most),
                np.clip(high, least, most),
            ]
        )

    def _reach(self, resolved: Resolved) -> tuple[float, float]:
        """The least and the most that an answer may be, of counts what a public number of rows leaves."""
        least, most = resolved.reach
        rows = self.noisy.total if resolved.kind == "count" and positive(resolved) else None
        return least, most if rows is None else rows

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
            remarks.append(UNSURE)
        elif isinstance(basis, ModelBasis) and basis.missed.blind:
            remarks.append(BLIND)
        if basis.basis == "measured" and not self.noisy.gaussian:
            remarks.append(LAPLACE)
        if basis.basis == "measured" and not self.noisy.continuous:
            remarks.append(NARROW)
        estimate, stderr, low, high = figures
        of = (resolved.columns, tuple(resolved.groups), estimate, stderr, low, high)
        return Answer("", *of, basis.basis, population, tuple(remarks))


def positive(resolved: Resolved) -> bool:
    """Whether it is a count or a share, which cannot be below 0."""
    return resolved.proportion or (resolved.kind == "count" and not resolved.signed)


def _bounded(answer: Answer) -> Answer:
    """The same, where noisy answers fix it but for what an interval covers besides."""
    return replace(answer, basis="bounded") if answer.basis == "measured" else answer


def rough(resolved: Resolved, basis: Basis, first: int = 0) -> list[str]:
    """A note where ratios and quantiles are of records that are hardly more than their noise."""
    groups, split = len(resolved.groups), len(resolved.above)
    if resolved.kind == "quantile":
        whole = np.arange(groups) * (resolved.terms.count // groups)
        errors = basis.spread(Sums(whole[:, None], np.ones((groups, 1))))
        return [ROUGH] if (basis.values[whole] < SURE * np.sqrt(errors.variance)).any() else []
    if resolved.kind != "ratio":
        return []
    rows = first + np.arange(groups)[:, None] + groups * (split + np.arange(len(resolved.below)))
    errors = basis.spread(Sums(rows, np.tile(np.array(resolved.below, dtype=np.float64), (groups, 1))))
    few = _below(resolved, basis.values, first) < SURE * np.sqrt(errors.variance)
    return [ROUGH] if few.any() else []


def _wholes(sides: Sequence[Resolved], basis: Basis) -> Iterator[tuple[Resolved, np.ndarray]]:
    """Of each side float64[group]: the records that its ratio is to, at least one; 1 where it is no ratio."""
    at = 0
    for side in sides:
        ratio = side.kind == "ratio"
        yield side, np.maximum(_below(side, basis.values, at), 1.0) if ratio else np.ones(len(side.groups))
        at += side.terms.count


def _below(resolved: Resolved, values: np.ndarray, first: int) -> np.ndarray:
    """float64[group]: the records that a ratio is to."""
    groups, split = len(resolved.groups), len(resolved.above)
    terms = values[first + groups * split : first + groups * (split + len(resolved.below))]
    return np.array(resolved.below, dtype=np.float64) @ terms.reshape(len(resolved.below), groups)


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
    """The answers to the parts of a query as one; its basis is the least sure one of any part."""
    figures: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in FIGURES
    }
    return replace(
        parts[0],
        query=text,
        labels=tuple(labels for part in parts for labels in part.labels),
        **figures,
        basis=max((part.basis for part in parts), key=list(BASES).index),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )
