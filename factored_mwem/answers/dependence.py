"""Dependence: how far off the model's answers may be, for the dependence between columns that it lacks.

Replicates cannot show it: they are drawn from the model. What is known is which marginals were measured, at
which levels, and with how much noise. Around the model the truth is taken to vary at random, in the
orthogonal parts of a query that no measurement holds: of each pair of columns the part that neither column
alone and no measured level says, of each triple the part that no pair says (the decomposition of variance).
Its size has two causes. A marginal is left unmeasured where what it would show is no more than noise, so that
what is missing grows with the noise of a measurement; and tables depend in ways that nobody asked for, by a
share of the rows. What noise hides of a column by itself comes on top. The constants were fitted to errors on
real tables; see the guide, page answers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.terms import QueryTerms

OF_NOISE = {2: 1.0, 3: 2.6}
"""Times the noise of a marginal of usual size, for what is missing of a pair and of a triple of columns."""
OF_ROWS = {2: 0.0136, 3: 0.008}
"""The same as a share of all rows."""


class MissedDependence:
    """The variance (records squared) that dependence which was not measured adds to sums of `terms`."""

    def __init__(self, evidence: Evidence, terms: QueryTerms) -> None:
        model = evidence.model
        self._levels, self._support, self._total = model.levels, terms.support, model.total
        self._weights = terms.weights
        noise = [self._noise(evidence, a) for a in terms.support]
        self._alone = [
            (each, own - own.mean(axis=1, keepdims=True))
            for each, own in zip(noise, terms.weights, strict=True)
        ]
        self._found = [model.marginal((a,)) / model.total for a in terms.support]
        self._shares = [
            _smoothed(found, each / model.total) for found, each in zip(self._found, noise, strict=True)
        ]
        self._held = [m.positions for m in evidence.measurements if len(m.positions) > 1]
        self._held += [evidence.public] if len(evidence.public) > 1 else []
        self._order = max((each.order for each in evidence.residuals), default=1)
        wide = [m for m in evidence.measurements if len(m.positions) > 1] or evidence.measurements
        deviations = [m.stddev for m in wide] or [each.stddev for each in evidence.residuals]
        cells = [len(m.noisy) for m in wide] or [1]
        self._usual_noise = float(np.median(deviations))
        noise_of_one = self._usual_noise * math.sqrt(float(np.median(cells)))
        self._amounts = {
            order: (OF_NOISE[order] * noise_of_one) ** 2 + (OF_ROWS[order] * model.total) ** 2
            for order in (2, 3)
        }

    @property
    def blind(self) -> bool:
        """Whether two of the columns may be the same thing, and no measurement of them would have shown it:
        its noise is half of all rows. Then they may depend on each other far more than is allowed for.
        """
        cells = [int(self._levels.sizes[a]) for a in self._support]
        return any(
            self._usual_noise * math.sqrt(cells[k] * cells[other]) > self._total / 2
            and self._finest(k, other) is None
            for k, other in itertools.combinations(range(len(cells)), 2)
        )

    def covariance(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """float64: of queries `i` and `j`, int64 arrays of one shape."""
        columns = range(len(self._support))
        means = [self._means(k, i) * self._means(k, j) for k in columns]
        apart = [self._products(k, i, j) - means[k] for k in columns]
        total = np.zeros(np.shape(i))
        for k, (noise, apart_from_mean) in enumerate(self._alone):
            own = np.einsum("...c,...c->...", apart_from_mean[i], apart_from_mean[j])
            total += noise**2 * own * np.prod([means[other] for other in columns if other != k], axis=0)
        for order in (2, 3):
            for some in itertools.combinations(columns, order) if self._order < order else ():
                part = np.prod([apart[k] for k in some], axis=0)
                if order == 2 and (held := self._finest(*some)):
                    known = [self._products(k, i, j, v) - means[k] for k, v in zip(some, held, strict=True)]
                    part = part - np.prod(known, axis=0)
                rest = [means[k] for k in columns if k not in some]
                total += self._amounts[order] * part * np.prod(rest, axis=0)
        return total

    def usual(self, queries: np.ndarray) -> np.ndarray:
        """float64, of `queries: int64[...]`: what independent columns answer, in records."""
        means = [self._means(k, queries) for k in range(len(self._support))]
        return np.asarray(self._total * np.prod(means, axis=0))

    def most(self, queries: np.ndarray) -> np.ndarray:
        """The most that they may be: those that one column alone leaves, and its noise."""
        greatest = [own.max(axis=1)[queries] for own in self._weights]
        left = np.full(np.shape(queries), np.inf)
        for k, (noise, _) in enumerate(self._alone):
            norm = np.sqrt((self._weights[k] ** 2).sum(axis=1))[queries]
            alone = self._total * (self._weights[k] @ self._found[k])[queries] + 2 * noise * norm
            left = np.minimum(left, alone * np.prod(greatest[:k] + greatest[k + 1 :], axis=0))
        return left

    def _noise(self, evidence: Evidence, attribute: int) -> float:
        """The least deviation of a column's counts by themselves; 0 if they were not measured."""
        alone = [m.stddev for m in evidence.measurements if m.positions == (attribute,)]
        return min(alone, default=0.0)

    def _means(self, k: int, i: np.ndarray) -> np.ndarray:
        return (self._weights[k] @ self._shares[k])[i]

    def _products(self, k: int, i: np.ndarray, j: np.ndarray, v: int | None = None) -> np.ndarray:
        """The mean product of two queries' weights of a column, of variable `v` their means in each group."""
        weights, shares = self._weights[k], self._shares[k]
        if v is not None and v != self._support[k]:
            groups, size = self._levels.groups[v], int(self._levels.sizes[v])
            into = np.zeros((len(shares), size))
            into[np.arange(len(shares)), groups] = shares
            shares = into.sum(axis=0)
            weights = (weights @ into) / np.maximum(shares, 1e-300)
        return np.einsum("...c,...c,c->...", weights[i], weights[j], shares)

    def _finest(self, k: int, other: int) -> tuple[int, int] | None:
        """The variables of two columns of most cells that were measured together."""
        found = max(self._measured(k, other), key=self._levels.cells, default=None)
        return None if found is None else (found[0], found[1])

    def _measured(self, k: int, other: int) -> Iterator[tuple[int, ...]]:
        of: Sequence[int] = (self._support[k], self._support[other])
        for view in self._held:
            pair = tuple(v for a in of for v in view if self._levels.attribute[v] == a)
            if len(pair) == 2:
                yield pair


def _smoothed(shares: np.ndarray, noise: float) -> np.ndarray:
    """float64[code]: shares of a column's codes, none of which is less than its noise leaves open."""
    return np.asarray((shares + noise) / (shares + noise).sum())
