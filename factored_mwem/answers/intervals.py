"""Intervals: the basis of an answer, noisy answers or the model; its value, and its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from factored_mwem.answers.combining import student
from factored_mwem.answers.dependence import MissedDependence
from factored_mwem.answers.least_squares import least_squares
from factored_mwem.answers.linear import Linear, cross_covariance
from factored_mwem.answers.projections import Noisy
from factored_mwem.answers.resolve import Resolved
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.model.forest import Forest

Z = 1.959963984540054
"""A standard normal lies within this of 0 with probability 0.95."""
TINY, LEAST = 1e-24, 1e-3
"""No variance of a skewed count is less; nor its mean, in standard errors."""


class BootstrapErrors(Protocol):
    """The errors of the model's answers by a bootstrap."""

    def errors(self, terms: QueryTerms, population: bool) -> np.ndarray:
        """float64[replicate, query]: a replicate's answer less the true answer of the table that it was
        fitted to.
        """


class Sums(NamedTuple):
    """A sum of terms for each group: of terms `rows: int64[group, m]` times `factors: float64[group, m]`."""

    rows: np.ndarray
    factors: np.ndarray


class ErrorMoments(NamedTuple):
    """Mean, variance and excess kurtosis of the errors of sums, float64[group] each."""

    bias: np.ndarray
    variance: np.ndarray
    kurtosis: np.ndarray


class MeasuredBasis:
    """Terms that noisy answers determine, one set after the other."""

    basis: Literal["measured", "model"] = "measured"

    def __init__(self, parts: Sequence[Linear]) -> None:
        self.parts = parts
        self.values = np.concatenate([part.values for part in parts])
        self.starts = np.cumsum([0, *(len(part.values) for part in parts)])

    def spread(self, sums: Sums) -> ErrorMoments:
        """The moments of the errors that noise makes."""
        variance = variance_of(sums, self._covariance)
        return ErrorMoments(np.zeros(len(sums.rows)), variance, self._kurtosis(sums, variance))

    def _covariance(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """float64[group]: all of `i` lie in one set of terms, and all of `j`."""
        p, q = (int(np.searchsorted(self.starts, k[0], side="right")) - 1 for k in (i, j))
        i, j = i - self.starts[p], j - self.starts[q]
        if p == q:
            return self.parts[p].covariance(i, j)
        return cross_covariance(self.parts[p], i.tolist(), self.parts[q], j.tolist())

    def _kurtosis(self, sums: Sums, variance: np.ndarray) -> np.ndarray:
        """0 of Gaussian noise. Of sums h'y of Laplace noise 3 times the sum of h^4 sigma^4 over the squared
        variance, which is at most 3, and taken as 3 where a sum is of two sets of terms.
        """
        if self.parts[0].noisy.gaussian:
            return np.zeros(len(variance))
        if len(self.parts) > 1:
            return np.full(len(variance), 3.0)
        fourth = self.parts[0].fourth(sums.rows, sums.factors)
        return 3 * np.divide(fourth, variance**2, out=np.zeros_like(variance), where=variance > 0)


class ModelBasis:
    """Terms that the model answers; `errors: float64[replicate, term]`, or None if they are unknown.
    `missed`: the errors that replicates cannot show.
    """

    basis: Literal["measured", "model"] = "model"

    def __init__(self, values: np.ndarray, errors: np.ndarray | None, missed: MissedDependence) -> None:
        self.values, self.errors, self.missed = values, errors, missed

    def spread(self, sums: Sums) -> ErrorMoments:
        """The moments of the errors of replicates, widened as Student's t is for how few they are, and of
        what they miss; NaN if the errors are unknown.
        """
        none, unknown = np.zeros(len(sums.rows)), np.full(len(sums.rows), np.nan)
        if self.errors is None:
            return ErrorMoments(none, unknown, none)
        errors = np.einsum("bgm,gm->bg", self.errors[:, sums.rows], sums.factors)
        count = len(errors)
        few = student(0.975, count - 1) / Z * math.sqrt(1 + 1 / count)
        variance = few**2 * errors.var(axis=0, ddof=1)
        variance += variance_of(sums, self.missed.covariance)
        return ErrorMoments(errors.mean(axis=0), variance, none)

    def high(self, sums: Sums, values: np.ndarray, errors: ErrorMoments) -> np.ndarray:
        """float64[group]: the upper ends of intervals of counts and shares, which cannot be below 0.

        What the model knows little of is skewed: most cells hold next to nothing, and some all that a column
        leaves. And who asks for a cell asks for one that has rows. So the end is the quantile of a gamma
        distribution of the same mean and variance for the cell that a random row lies in, which is a gamma
        of one degree more (its quantile: Wilson and Hilferty 1931). Where the model says less than
        independent columns do, these are the mean, up to one standard error. It is at most what one column
        leaves; and that is the end where noise would hide that two columns say the same.
        """
        factors = np.maximum(sums.factors, 0.0)
        usual, most = (
            np.einsum("gm,gm->g", factors, of(sums.rows)) for of in (self.missed.usual, self.missed.most)
        )
        error = np.sqrt(np.maximum(errors.variance, TINY))
        mean = np.maximum(np.maximum(values - errors.bias, np.minimum(usual, error)), LEAST * error)
        degrees = (mean / error) ** 2 + 1
        skewed = mean * degrees / (degrees - 1)
        skewed *= (1 - 1 / (9 * degrees) + Z / (3 * np.sqrt(degrees))) ** 3
        end = np.maximum(most, values - errors.bias + Z * error)
        return end if self.missed.blind else np.minimum(skewed, end)


def variance_of(sums: Sums, covariance: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """float64[group]: the variance of sums of terms that covary so."""
    rows, factors = sums
    variance = np.zeros(len(rows))
    for a in range(rows.shape[1]):
        for b in range(rows.shape[1]):
            variance += factors[:, a] * factors[:, b] * covariance(rows[:, a], rows[:, b])
    return np.maximum(variance, 0.0)


Basis = MeasuredBasis | ModelBasis


def widened(errors: ErrorMoments, variance: np.ndarray) -> ErrorMoments:
    """The moments with more `variance: float64[group]`, of errors that are independent and about normal."""
    whole = errors.variance + variance
    share = np.divide(
        errors.variance, whole, out=np.zeros_like(whole), where=(whole > 0) & np.isfinite(whole)
    )
    return ErrorMoments(errors.bias, whole, errors.kurtosis * share**2)


def sampling_variance(noisy: Noisy, model: Forest, terms: QueryTerms, sums: Sums) -> np.ndarray:
    """float64[group]: how much sums of terms vary over tables of people drawn anew (multinomial): n (E[u^2] -
    E[u]^2), u what a row adds. The products of terms that this takes are measured where they can be.
    """
    rows, factors = sums
    pairs = [(a, b) for a in range(rows.shape[1]) for b in range(a + 1)]
    i, j = (np.concatenate([rows[:, pair[side]] for pair in pairs]) for side in (0, 1))
    products = QueryTerms(terms.support, tuple(w[i] * w[j] for w in terms.weights), len(i))
    both, values = (_best(noisy, model, each) for each in (products, terms))
    whole = noisy.total or max(float(_best(noisy, model, QueryTerms((), (), 1))[0]), 1.0)
    apart = (both - values[i] * values[j] / whole).reshape(len(pairs), len(rows))
    variance = np.zeros(len(rows))
    for (a, b), covariance in zip(pairs, apart, strict=True):
        variance += (1.0 if a == b else 2.0) * factors[:, a] * factors[:, b] * covariance
    return np.maximum(variance, 0.0)


def _best(noisy: Noisy, model: Forest, terms: QueryTerms) -> np.ndarray:
    estimate = least_squares(noisy, terms)
    return terms.of_forest(model) if estimate is None else estimate.values


def computed(resolved: Resolved, values: np.ndarray, first: int = 0) -> tuple[np.ndarray, Sums]:
    """(float64[group]: what a query asks, the sums of terms whose errors are its errors, to first order).

    Of a ratio r of a to b these are (a - r b) / b: the delta method. `first`: the number of its first term.
    """
    groups, i = len(resolved.groups), first + np.arange(len(resolved.groups))
    if resolved.kind in ("deviation", "correlation"):
        rows = i[:, None] + groups * np.arange(resolved.terms.count // groups)
        figure, factors = (deviation if resolved.kind == "deviation" else correlation)(values[rows])
        return figure, Sums(rows[:, : factors.shape[1]], factors)
    signs = np.array([*resolved.above, *resolved.below], dtype=np.float64)
    rows = i[:, None] + groups * np.arange(len(signs))
    signs, terms = np.tile(signs, (groups, 1)), values[rows] * signs
    split = len(resolved.above)
    above = terms[:, :split].sum(axis=1)
    if resolved.kind == "count":
        return above, Sums(rows, signs)
    below = terms[:, split:].sum(axis=1)
    below = np.where(below > 0, below, np.nan)
    ratio = above / below
    by = np.where(np.arange(len(signs[0])) < split, 1.0, -ratio[:, None]) / below[:, None]
    return ratio, Sums(rows, signs * by)


def deviation(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(float64[group]: the standard deviation; float64[group, 3]: how it follows the sums to first order), of
    `moments: float64[group, 3]`, the sums of 1, x and x^2.
    """
    rows = np.where(moments[:, 0] > 0, moments[:, 0], np.nan)
    mean, square = moments[:, 1] / rows, moments[:, 2] / rows
    figure = np.sqrt(np.maximum(square - mean**2, 0.0))
    by = 1 / (2 * rows * np.where(figure > 0, figure, np.nan))
    return figure, np.stack([2 * mean**2 - square, -2 * mean, np.ones(len(rows))], axis=1) * by[:, None]


def correlation(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of the correlation of x and y, of the sums of 1, x, x^2, y, y^2 and x y."""
    rows = np.where(moments[:, 0] > 0, moments[:, 0], np.nan)
    x, xx, y, yy, xy = (moments[:, k] / rows for k in range(1, 6))
    vx, vy = (np.where(v > 0, v, np.nan) for v in (xx - x**2, yy - y**2))
    scale = np.sqrt(vx * vy)
    figure = (xy - x * y) / scale
    none, one = np.zeros(len(rows)), np.ones(len(rows))
    of_xy = np.stack([2 * x * y - xy, -y, none, -x, none, one], axis=1)
    of_xx = np.stack([2 * x**2 - xx, -2 * x, one, none, none, none], axis=1)
    of_yy = np.stack([2 * y**2 - yy, none, none, -2 * y, one, none], axis=1)
    factors = of_xy / scale[:, None] - figure[:, None] / 2 * (of_xx / vx[:, None] + of_yy / vy[:, None])
    return np.clip(figure, -1.0, 1.0), factors / rows[:, None]


def within_bins(resolved: Resolved, values: np.ndarray) -> np.ndarray | None:
    """float64[2, group]: how much less and more a standard deviation or a correlation may be, however the
    rows of bins lie in them; None of other figures.

    A column's values are a vector, less their mean, whose length is the deviation s. Moving each row from the
    middle of its bin, by up to half its width, moves the vector by at most D, the root mean square of these:
    its length by at most D, and its direction by at most arcsin(D / s). A correlation is the cosine of the
    angle between two, so the angle changes by at most the sum.
    """
    if resolved.kind not in ("deviation", "correlation"):
        return None
    moments = values.reshape(-1, len(resolved.groups)).T
    columns = 1 if resolved.kind == "deviation" else 2
    rows = np.where(moments[:, 0] > 0, moments[:, 0], np.nan)
    means = moments / rows[:, None]
    moved = np.sqrt(np.maximum(means[:, -columns:], 0.0))
    squares = means[:, 2 : 2 + 2 * columns : 2] - means[:, 1 : 1 + 2 * columns : 2] ** 2
    middle = np.sqrt(np.maximum(squares - moved**2 / 3, 0.0))
    if columns == 1:
        figure, _ = deviation(moments)
        return np.stack([figure - np.maximum(middle - moved, 0.0)[:, 0], (middle + moved)[:, 0] - figure])
    figure, _ = correlation(moments)
    share = np.divide(moved, middle, out=np.ones_like(moved), where=middle > moved)
    turned = np.where(moved > 0, np.arcsin(share), 0.0).sum(axis=1)
    alone = np.maximum(middle.prod(axis=1), TINY)
    angle = np.arccos(np.clip((means[:, 5] - means[:, 1] * means[:, 3]) / alone, -1.0, 1.0))
    low, high = np.cos(np.minimum(angle + turned, math.pi)), np.cos(np.maximum(angle - turned, 0.0))
    bounds = np.where(turned > 0, np.stack([figure - low, high - figure]), 0.0)
    return np.maximum(bounds, 0.0)


def half_width(spread: ErrorMoments) -> np.ndarray:
    """float64[group]: half of a 95 % interval, a normal's and excess kurtosis (Cornish and Fisher 1938)."""
    return np.sqrt(spread.variance) * (Z + spread.kurtosis / 24 * (Z**3 - 3 * Z))


class Steps:
    """A distribution over a column's codes that rises in steps: `upto: float64[code]`, the share up to each,
    and `places: float64[code, 2]`, the least and greatest value of each, `step` apart if that is above 0.
    """

    def __init__(self, upto: np.ndarray, places: np.ndarray, step: float) -> None:
        rising, falling = np.maximum.accumulate(upto), np.minimum.accumulate(upto[::-1])[::-1]
        self.upto = np.clip((rising + falling) / 2, 0.0, 1.0)  # noise may make shares fall
        self.places, self.step = places, step

    def code(self, share: float) -> int:
        """The code that a share of the records is reached in."""
        return min(int(np.searchsorted(self.upto, share - 1e-12)), len(self.upto) - 1)

    def at(self, share: float) -> tuple[int, float]:
        """(the code that a share of the records is reached in, the value): within a bin in proportion."""
        code = self.code(share)
        low, high = self.places[code]
        before = self.upto[code - 1] if code else 0.0
        inside = (share - before) / max(self.upto[code] - before, 1e-12)
        inside = min(max(inside, 0.0), 1.0)
        if self.step and high > low:  # the values of a bin, one after the other
            rank = math.ceil(inside * round((high - low) / self.step + 1) - 1e-9) - 1
            return code, float(min(low + max(rank, 0) * self.step, high))
        return code, float(low + inside * (high - low))


def quantiles(
    resolved: Resolved,
    values: np.ndarray,
    spread: Callable[[Sums], ErrorMoments],
    moved: np.ndarray | float = 0.0,
) -> np.ndarray:
    """float64[4, group]: (estimate, stderr, low, high) in the unit of a column's cuts; low and high are where
    the distribution reaches `at` less and plus the error of the share up to there (Woodruff 1952), at the
    ends of the bins that it is reached in. The code before counts if its error is larger: up to the last code
    the share is 1, without any error. `moved: float64[group]`: records that may lie anywhere.
    """
    assert resolved.places is not None
    groups, each = len(resolved.groups), len(resolved.places) + 1
    table = values.reshape(groups, each)
    whole, below = np.arange(groups) * each, np.where(table[:, 0] > 0, table[:, 0], np.nan)
    steps = [Steps(row[1:] / max(row[0], 1e-9), resolved.places, resolved.step) for row in table]

    def errors_upto(codes: np.ndarray) -> ErrorMoments:
        shares = np.array([step.upto[code] for step, code in zip(steps, codes, strict=True)])
        rows = np.stack([whole + 1 + codes, whole], axis=1)
        return spread(Sums(rows, np.stack([1 / below, -shares / below], axis=1)))

    reached = np.array([step.code(resolved.at) for step in steps])
    errors, before = errors_upto(reached), errors_upto(np.maximum(reached - 1, 0))
    half = np.maximum(half_width(errors), half_width(before)) + moved / below
    figures = np.full((4, groups), np.nan)
    for g, step in enumerate(steps):
        if not np.isnan(below[g]):
            figures[0, g] = step.at(resolved.at)[1]
        if np.isfinite(half[g]):
            low, high = (resolved.at + errors.bias[g] + sign * half[g] for sign in (-1, 1))
            codes = (step.code(min(max(at, 0.0), 1.0)) for at in (low, high))
            figures[2:, g] = [step.places[code, end] for end, code in enumerate(codes)]
            figures[1, g] = (figures[3, g] - figures[2, g]) / (2 * Z)
    return figures
