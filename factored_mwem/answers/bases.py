"""Bases: what an answer's terms rest on, noisy answers alone or the model; the errors of sums of terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from factored_mwem.answers.least_squares import least_squares
from factored_mwem.answers.linear import Linear, cross_covariance
from factored_mwem.answers.looks import Noisy
from factored_mwem.answers.terms import Terms
from factored_mwem.model.forest import Forest


class Errors(Protocol):
    """Errors that the model's answers would have: what a bootstrap knows."""

    def errors(self, terms: Terms, population: bool) -> np.ndarray:
        """float64[replicate, query]: a replicate's answer less what was true where it came from."""


class Sums(NamedTuple):
    """A sum of terms for each group: of terms `rows: int64[group, m]` times `factors: float64[group, m]`."""

    rows: np.ndarray
    factors: np.ndarray


class Spread(NamedTuple):
    """Of the errors of sums, float64[group] each: their mean, variance and excess kurtosis."""

    bias: np.ndarray
    variance: np.ndarray
    kurtosis: np.ndarray


class Measured:
    """Terms that noisy answers fix, one set after the other."""

    basis: Literal["measured", "model"] = "measured"

    def __init__(self, parts: Sequence[Linear]) -> None:
        self.parts = parts
        self.values = np.concatenate([part.values for part in parts])
        self.starts = np.cumsum([0, *(len(part.values) for part in parts)])

    def spread(self, sums: Sums) -> Spread:
        """Of the errors that noise makes."""
        rows, factors = sums
        variance = np.zeros(len(rows))
        for a in range(rows.shape[1]):
            for b in range(rows.shape[1]):
                variance += factors[:, a] * factors[:, b] * self._covariance(rows[:, a], rows[:, b])
        variance = np.maximum(variance, 0.0)
        return Spread(np.zeros(len(rows)), variance, self._kurtosis(sums, variance))

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


class Believed:
    """Terms that the model answers; `errors: float64[replicate, term]`, or None where nobody knows them."""

    basis: Literal["measured", "model"] = "model"

    def __init__(self, values: np.ndarray, errors: np.ndarray | None) -> None:
        self.values, self.errors = values, errors

    def spread(self, sums: Sums) -> Spread:
        """Of the errors of replicates; of unknown ones NaN."""
        none, unknown = np.zeros(len(sums.rows)), np.full(len(sums.rows), np.nan)
        if self.errors is None:
            return Spread(none, unknown, none)
        errors = np.einsum("bgm,gm->bg", self.errors[:, sums.rows], sums.factors)
        return Spread(errors.mean(axis=0), errors.var(axis=0, ddof=1), none)


Basis = Measured | Believed


def sampling_variance(noisy: Noisy, model: Forest, terms: Terms, sums: Sums) -> np.ndarray:
    """float64[group]: how much sums of terms vary over tables whose rows are drawn anew from the same people
    (multinomial): n (E[u^2] - E[u]^2), u what a row adds to the sum. The products of terms that this takes
    are terms, too, measured where they can be.
    """
    rows, factors = sums
    pairs = [(a, b) for a in range(rows.shape[1]) for b in range(a + 1)]
    i, j = (np.concatenate([rows[:, pair[side]] for pair in pairs]) for side in (0, 1))
    products = Terms(terms.support, tuple(w[i] * w[j] for w in terms.weights), len(i))
    both, values = (_best(noisy, model, each) for each in (products, terms))
    whole = noisy.total or max(float(_best(noisy, model, Terms((), (), 1))[0]), 1.0)
    apart = (both - values[i] * values[j] / whole).reshape(len(pairs), len(rows))
    found = np.zeros(len(rows))
    for (a, b), covariance in zip(pairs, apart, strict=True):
        found += (1.0 if a == b else 2.0) * factors[:, a] * factors[:, b] * covariance
    return np.maximum(found, 0.0)


def _best(noisy: Noisy, model: Forest, terms: Terms) -> np.ndarray:
    found = least_squares(noisy, terms)
    return terms.of_forest(model) if found is None else found.values
