"""Refined: least squares where measurements have the attributes at different levels, by the normal equations.

Each attribute is cut into *atoms*: codes that neither the queries tell apart nor any measured level but the
finest or, where those are too many, but those that are fine enough to answer the queries. A finer measurement
is added up to atoms, whose noise then differs; a coarser one counts several atoms. The atoms are few, and
every measurement's design is a Kronecker product of one small matrix an attribute.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from factored_mwem.answers.linear import Influence, Linear
from factored_mwem.answers.projections import Noisy, ProjectedMarginal
from factored_mwem.answers.terms import QueryTerms, fixes
from factored_mwem.domain.levels import Levels

MAX_ATOMS = 400
"""Most atoms (the product over all attributes), so that the normal equations are solved in a few
milliseconds. Beyond it, levels that do not determine the queries are left out, and then all but the best.
"""
TOLERANCE = 1e-6
"""How far, relatively, A'h may be from q."""


class Refined(Linear):
    """Queries over atoms, `atoms[j]: int64[code]` of the j-th attribute of the support."""

    def __init__(
        self, noisy: Noisy, terms: QueryTerms, atoms: Sequence[np.ndarray], about: Sequence[int]
    ) -> None:
        super().__init__(noisy)
        self.support = terms.support
        self.atoms, self.shape = list(atoms), tuple(int(of.max()) + 1 for of in atoms)
        self._maps: dict[tuple[int, int | None], np.ndarray] = {}
        self.projections = [self._look(i) for i in about]
        self._beside = noisy.beside(about)
        queries = np.ones((terms.count, 1))
        for of, weights in zip(atoms, terms.weights, strict=True):
            each = np.zeros((terms.count, int(of.max()) + 1))
            each[:, of] = weights
            queries = (queries[:, :, None] * each[:, None, :]).reshape(terms.count, -1)
        self.queries = queries
        self.unbiased = self._solve()

    def _look(self, index: int) -> tuple[ProjectedMarginal, tuple[int | None, ...]]:
        """A measurement, and its variable of each attribute of the support; None if it is summed out."""
        variables = [self.noisy.variable(index, a) for a in self.support]
        kept = tuple(v if self._map(j, v) is not None else None for j, v in enumerate(variables))
        return self.noisy.projected(index, kept), kept

    def _map(self, j: int, v: int | None) -> np.ndarray | None:
        """float64[atom, code of v]: what a noisy answer of each code counts in the normal equations' right
        side, before precision; None if v crosses the atoms.
        """
        if v is None:
            return np.ones((self.shape[j], 1))
        if (j, v) not in self._maps:
            group = self.noisy.levels.groups[v]
            both = np.zeros((self.shape[j], int(self.noisy.levels.sizes[v])))
            both[self.atoms[j], group] = 1.0
            if (both.sum(axis=0) == 1).all():  # groups lie within atoms: an atom is a sum of several
                both /= both.sum(axis=1, keepdims=True)
            elif not (both.sum(axis=1) == 1).all():
                both = np.zeros((0, 0))
            self._maps[j, v] = both
        mapping = self._maps[j, v]
        return mapping if mapping.size else None

    def _maps_of(self, kept: Sequence[int | None]) -> list[np.ndarray]:
        maps = [self._map(j, v) for j, v in enumerate(kept)]
        return [of for of in maps if of is not None]

    def _solve(self) -> bool:
        """The solutions g of A'WA g = q, constrained by a public total; whether they are unbiased."""
        cells = math.prod(self.shape)
        precisions: dict[tuple[int | None, ...], float] = {}
        for projected, kept in self.projections:
            precisions[kept] = precisions.get(kept, 0.0) + projected.precision
        normal = np.zeros((cells, cells))
        for kept, precision in precisions.items():
            designs = [of @ of.T for of in self._maps_of(kept)]
            design = np.ones((1, 1))
            for of in designs:
                design = np.kron(design, of)
            normal += precision * design
        normal += self.noisy.of_sums(self._beside)[0]
        try:
            self.inverse = np.linalg.inv(normal)
        except np.linalg.LinAlgError:
            self.inverse = np.zeros_like(normal)
        if self.noisy.total is not None:
            ones = self.inverse.sum(axis=1)
            whole = float(ones.sum())
            self.inverse -= np.outer(ones, ones) / whole if whole > 0 else 0.0
            self.ones = ones / whole if whole > 0 else ones
        self.solutions = self.queries @ self.inverse
        back = self.solutions @ normal
        if self.noisy.total is not None:
            back += np.outer(self.queries @ self.ones, np.ones(cells))
        scale = np.abs(self.queries).max(axis=1, keepdims=True)
        return bool((np.abs(back - self.queries) <= TOLERANCE * scale).all())

    @cached_property
    def values(self) -> np.ndarray:
        """float64[k]"""
        right = np.zeros(self.shape)
        for projected, kept in self.projections:
            table = self.noisy.table(projected).reshape(
                [1 if v is None else int(self.noisy.levels.sizes[v]) for v in kept]
            )
            for j, of in enumerate(self._maps_of(kept)):
                table = np.moveaxis(np.tensordot(table, of, axes=(j, 1)), -1, j)
            right = right + projected.precision * table
        right = right + self.noisy.of_sums(self._beside)[1]
        values = self.solutions @ right.ravel()
        if self.noisy.total is not None:
            values = values + self.noisy.total * (self.queries @ self.ones)
        return values

    def covariance(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """float64: of the errors of queries `i` and `j`: q'(A'WA)^-1 q'."""
        return np.einsum("...c,...c->...", self.solutions[i], self.queries[j])

    @property
    def width(self) -> int:
        """Cells of the queries' own table."""
        return math.prod(self.shape)

    def influences(self, rows: Sequence[int]) -> Iterator[Influence]:
        """The weights h = W A g of every noisy answer."""
        tables = self.solutions[list(rows)].reshape(len(rows), *self.shape)
        for projected, kept in self.projections:
            weights = tables
            for j, of in enumerate(self._maps_of(kept)):
                weights = np.moveaxis(np.tensordot(weights, of, axes=(j + 1, 0)), -1, j + 1)
            weights = weights.squeeze(axis=tuple(j + 1 for j, v in enumerate(kept) if v is None))
            axes = tuple(a for a, v in zip(self.support, kept, strict=True) if v is not None)
            variance = float(self.noisy.variances[projected.number])
            yield Influence(
                (projected.number, 0), axes, weights * projected.precision, projected.summed, variance
            )
        yield from self.of_sums(self._beside, tables.reshape(len(rows), -1).sum(axis=1))


def refined(noisy: Noisy, terms: QueryTerms, about: Sequence[int]) -> Refined | None:
    """Queries by all that was measured about their attributes; None if too much, or not enough."""
    levels, choices, kinds = noisy.levels, [], []
    for a, weights in zip(terms.support, terms.weights, strict=True):
        used = {v for i in about if (v := noisy.variable(i, a)) is not None}
        choices.append(_kept_apart(levels, sorted(used), weights))
        kinds.append(np.unique(weights, axis=1, return_inverse=True)[1].ravel())
    for apart in zip(*choices, strict=True):
        atoms = [
            _classes([*(levels.groups[v] for v in own), kind]) for own, kind in zip(apart, kinds, strict=True)
        ]
        if math.prod(int(of.max()) + 1 for of in atoms) <= MAX_ATOMS:
            solution = Refined(noisy, terms, atoms, about)
            return solution if solution.unbiased else None
    return None


def _kept_apart(levels: Levels, variables: list[int], weights: np.ndarray) -> Iterator[list[int]]:
    """The levels of an attribute whose groups are kept apart, from the best choice to the cheapest: all but a
    finest one that fixes the queries, which loses nothing when it is added up to the others; those that are
    too coarse for the queries, for of the others little is lost; none.
    """
    yield variables[1:] if variables and fixes(levels, variables[0], weights) else variables
    yield [v for v in variables if not fixes(levels, v, weights)]
    yield []


def _classes(labels: Sequence[np.ndarray]) -> np.ndarray:
    """int64[code]: codes with the same of all `labels: int64[code]` are one class."""
    return np.unique(np.stack(labels), axis=1, return_inverse=True)[1].ravel()
