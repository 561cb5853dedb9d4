"""ProductModel: a distribution kept as a product of independent components, each a dense table over its own attributes.

A component is a set of attributes tied together by measurements. Merging two components multiplies their tables out, which
changes no marginal; so the model may start with every attribute alone and grow exactly as far as the measurements demand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from factored_mwem.domain import Domain
from factored_mwem.kernels.dense import marginal_into
from factored_mwem.tree import arranged, grid, split


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """One component: `positions` of its attributes (ascending), their `shape`, and `weights: float64[cells]` with sum 1, row-major."""

    positions: tuple[int, ...]
    shape: tuple[int, ...]
    weights: np.ndarray

    @classmethod
    def uniform(cls, positions: Sequence[int], shape: Sequence[int]) -> Factor:
        cells = math.prod(shape)
        return cls(tuple(positions), tuple(shape), np.full(cells, 1.0 / cells))

    def index(self, positions: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
        """(head, tail): int64 index arrays of the marginal over `positions`, as kernels.py describes."""
        wanted = set(positions)
        strides, stride = [], 1
        for position, size in zip(reversed(self.positions), reversed(self.shape), strict=True):
            strides.append(stride if position in wanted else 0)
            stride *= size if position in wanted else 1
        strides.reverse()
        steps = [np.arange(size, dtype=np.int64) * step for size, step in zip(self.shape, strides, strict=True)]
        at = split(self.shape)
        return grid(steps[:at]), grid(steps[at:])

    def marginal(self, positions: Sequence[int]) -> np.ndarray:
        """float64[cells of the marginal]: shares over `positions` (ascending, inside this component)."""
        head, tail = self.index(positions)
        sizes = dict(zip(self.positions, self.shape, strict=True))
        out = np.zeros(math.prod(sizes[p] for p in positions))
        marginal_into(self.weights, head, tail, out)
        return out

    def small_marginals(self, order: int) -> dict[tuple[int, ...], np.ndarray]:
        """Every marginal of at most `order` attributes, all in one pass that keeps or sums out one attribute after the other."""
        found: dict[tuple[int, ...], np.ndarray] = {}
        pending = [((), self.weights.reshape(1, -1), 0)]
        while pending:
            kept, table, at = pending.pop()
            if at == len(self.shape):
                found[kept] = np.ascontiguousarray(table[:, 0])
                continue
            rows, rest = table.shape[0], table.shape[1] // self.shape[at]
            pending.append((kept, table.reshape(rows, self.shape[at], rest).sum(axis=1), at + 1))
            if len(kept) < order:
                pending.append(((*kept, self.positions[at]), table.reshape(rows * self.shape[at], rest), at + 1))  # type: ignore[arg-type]
        return found


class ProductModel:
    """Independent components over a domain, scaled to `total` records. Tables are replaced, never changed in place."""

    def __init__(self, domain: Domain, factors: Iterable[Factor], total: float) -> None:
        self.domain, self.total = domain, total
        self.factors = dict(enumerate(factors))
        self.factor_of = np.empty(len(domain), dtype=np.int64)
        self._next = len(self.factors)
        for id_, factor in self.factors.items():
            self.factor_of[list(factor.positions)] = id_

    @classmethod
    def uniform(cls, domain: Domain, total: float, *, joined: bool = False) -> ProductModel:
        """Every attribute alone, or (`joined`) all in one component; all cells equal."""
        everything = tuple(range(len(domain)))
        blocks, shape = [everything] if joined else [(p,) for p in everything], domain.shape
        return cls(domain, [Factor.uniform(block, [shape[p] for p in block]) for block in blocks], total)

    @property
    def components_by_id(self) -> dict[int, Factor]:
        return self.factors

    @property
    def part_of(self) -> np.ndarray:
        """int64[attribute]: the id of the component that holds it."""
        return self.factor_of

    @property
    def components(self) -> list[Factor]:
        return list(self.factors.values())

    def factor(self, position: int) -> Factor:
        return self.factors[int(self.factor_of[position])]

    def replace(self, factor: Factor) -> None:
        """Put a component in the place of those that hold its attributes now; all of theirs must be in it."""
        for old in {int(self.factor_of[p]) for p in factor.positions}:
            del self.factors[old]
        self.factors[self._next] = factor
        self.factor_of[list(factor.positions)] = self._next
        self._next += 1

    def merge(self, positions: Sequence[int]) -> Factor:
        """Join the components that hold `positions` into one, exactly; returns it."""
        parts = [self.factors[id_] for id_ in sorted({int(self.factor_of[p]) for p in positions})]
        if len(parts) == 1:
            return parts[0]
        order = [p for part in parts for p in part.positions]
        table = parts[0].weights
        for part in parts[1:]:
            table = np.multiply.outer(table, part.weights).ravel()
        merged, shape = tuple(sorted(order)), self.domain.shape
        factor = Factor(merged, tuple(shape[p] for p in merged), arranged(table, order, merged, shape))
        self.replace(factor)
        return factor

    def marginal(self, positions: Sequence[int]) -> np.ndarray:
        """float64[cells]: records over `positions` (ascending): the product of its components' marginals, exactly."""
        table = np.full(1, self.total)
        order: list[int] = []
        for id_ in sorted({int(self.factor_of[p]) for p in positions}):
            inside = [p for p in positions if self.factor_of[p] == id_]
            table = np.multiply.outer(table, self.factors[id_].marginal(inside)).ravel()
            order += inside
        return arranged(table, order, positions, self.domain.shape)
