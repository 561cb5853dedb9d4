"""ProductModel: a distribution as a product of independent components, each a dense table.

A component is a set of attributes tied together by measurements. Merging two components multiplies their
tables out, which changes no marginal; so the model may start with every attribute alone and grow exactly as
far as the measurements demand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.kernels.dense import Measured, marginal_into, replay
from factored_mwem.model.clique_tree import arranged, halves, split
from factored_mwem.privacy.session import Measurement
from factored_mwem.workload.queries.base import Questions


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """`positions` of its attributes, ascending; their `shape`; `weights: float64[cells]`, of sum 1."""

    positions: tuple[int, ...]
    shape: tuple[int, ...]
    weights: np.ndarray

    @classmethod
    def uniform(cls, attributes: Sequence[int], shape: Sequence[int]) -> Factor:
        cells = math.prod(shape)
        return cls(tuple(attributes), tuple(shape), np.full(cells, 1.0 / cells))

    def index(self, attributes: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
        """(head, tail): the map to the marginal over `attributes`."""
        wanted = set(attributes)
        steps, stride = [], 1
        for a, size in zip(reversed(self.positions), reversed(self.shape), strict=True):
            steps.append(np.arange(size, dtype=np.int64) * (stride if a in wanted else 0))
            stride *= size if a in wanted else 1
        return halves(steps[::-1])

    def shares(self, attributes: Sequence[int]) -> np.ndarray:
        """float64[cells]: the marginal over `attributes` (ascending, inside this component), of sum 1."""
        head, tail = self.index(attributes)
        sizes = dict(zip(self.positions, self.shape, strict=True))
        out = np.zeros(math.prod(sizes[a] for a in attributes))
        marginal_into(self.weights, head, tail, out)
        return out

    def small_marginals(self, order: int) -> dict[tuple[int, ...], np.ndarray]:
        """Every marginal of at most `order` attributes, which keeps or sums out one after the other."""
        tables: dict[tuple[int, ...], np.ndarray] = {}
        pending: list[tuple[tuple[int, ...], np.ndarray, int]] = [((), self.weights.reshape(1, -1), 0)]
        while pending:
            kept, table, at = pending.pop()
            if at == len(self.shape):
                tables[kept] = np.ascontiguousarray(table[:, 0])
                continue
            rows, rest = table.shape[0], table.shape[1] // self.shape[at]
            pending.append((kept, table.reshape(rows, self.shape[at], rest).sum(axis=1), at + 1))
            if len(kept) < order:
                pending.append(
                    ((*kept, self.positions[at]), table.reshape(rows * self.shape[at], rest), at + 1)
                )
        return tables


class ProductModel:
    """Independent components over a domain, scaled to `total` records. Tables are replaced, never changed."""

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

    def factor(self, attribute: int) -> Factor:
        return self.factors[int(self.factor_of[attribute])]

    def replace(self, factor: Factor) -> None:
        """Put a component in the place of those that hold its attributes now; all of theirs must be in it."""
        for old in {int(self.factor_of[p]) for p in factor.positions}:
            del self.factors[old]
        self.factors[self._next] = factor
        self.factor_of[list(factor.positions)] = self._next
        self._next += 1

    def merge(self, attributes: Sequence[int]) -> Factor:
        """Join the components that hold `attributes` into one, exactly; returns it."""
        parts = [self.factors[id_] for id_ in sorted({int(self.factor_of[a]) for a in attributes})]
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

    def marginal(self, attributes: Sequence[int]) -> np.ndarray:
        """float64[cells]: the marginal over `attributes` (ascending), in records; exact."""
        table = np.full(1, self.total)
        order: list[int] = []
        for id_ in sorted({int(self.factor_of[a]) for a in attributes}):
            inside = [a for a in attributes if self.factor_of[a] == id_]
            table = np.multiply.outer(table, self.factors[id_].shares(inside)).ravel()
            order += inside
        return arranged(table, order, attributes, self.domain.shape)


SWEEPS = 100
"""Sweeps over the measurements, as in the paper's code."""


def update(factor: Factor, measurements: Sequence[Measurement], total: float, *, sweeps: int) -> Factor:
    """The component after `sweeps` over `measurements` inside it, in order. Source: HLM12 Fig. 1, 2(c)."""
    index, layout, at, row = [], [], 0, 0
    for m in measurements:
        head, tail = factor.index(m.positions)
        layout.append((at, len(head), at + len(head), len(tail), row, len(m.noisy)))
        index += [head, tail]
        at += len(head) + len(tail)
        row += len(m.noisy)
    weights = factor.weights.copy()
    if measurements:
        noisy = np.concatenate([m.noisy for m in measurements]).astype(np.float64)
        laid_out = np.concatenate(index), np.array(layout, dtype=np.int64)
        replay(weights, Measured(*laid_out, noisy, float(total)), sweeps)
    return Factor(factor.positions, factor.shape, weights / weights.sum())


AnsweredQuestion = tuple[Questions, int, Measurement]
"""A question, by its kind and its number there, and its noisy answers."""


def inside(factor: Factor, answered: Sequence[AnsweredQuestion]) -> list[AnsweredQuestion]:
    """The entries of `answered` whose questions are about attributes of this component only."""
    attributes = set(factor.positions)
    return [each for each in answered if attributes.issuperset(each[0].positions(each[1]))]


def sweep(
    factor: Factor, answered: Sequence[AnsweredQuestion], total: float, *, sweeps: int, guard: float
) -> Factor:
    """The component after `sweeps` over `answered`, all inside it, in their order; fewer once nothing moves.
    A measurement takes no step where the model lies within `guard` standard deviations of it.
    """
    part = Factor(factor.positions, factor.shape, factor.weights.copy())
    for _ in range(sweeps):
        before = part.weights.copy()
        for kind, number, measured in answered:
            step(part, kind, number, measured.noisy, total, guard=guard * measured.stddev)
        if np.array_equal(before, part.weights):
            break
    return part


def step(
    part: Factor, kind: Questions, question: int, noisy: np.ndarray, total: float, *, guard: float
) -> None:
    """One step of a component towards noisy answers, in place; none if all lie within `guard` records.

    Weights times exp(q(x) (m - q(A)) / (2 n)), the measurement clipped to what the query can be. All cells of
    a whole marginal step at once: they are disjoint, so one step for each is one step for the table. Source:
    HLM12 Fig. 1, step 2(c).
    """
    values = kind.axis_values(question)
    if values is None:
        attributes = kind.positions(question)
        head, tail = part.index(attributes)
        if np.abs(noisy - total * part.shares(attributes)).max() > guard:
            layout = np.array([[0, len(head), len(head), len(tail), 0, len(noisy)]], dtype=np.int64)
            index, counts = np.concatenate([head, tail]), noisy.astype(np.float64)
            replay(part.weights, Measured(index, layout, counts, float(total)), 1)
        return
    from factored_mwem.kernels.linear import product_answer, product_step  # which other engines need not load

    head, tail = over_axes(part, values)
    gap = min(max(float(noisy[0]), kind.lowest * total), total) - total * product_answer(
        part.weights, head, tail
    )
    if abs(gap) > guard:
        product_step(part.weights, head, tail, gap / (2 * total))


def over_axes(part: Factor, values: dict[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(head, tail): int8 values of a product query over a component's cells; 1 on attributes unnamed."""
    shape = zip(part.positions, part.shape, strict=True)
    axes = [values.get(a, np.ones(size, dtype=np.int8)) for a, size in shape]
    at = split(part.shape)
    head, tail = (
        reduce(lambda a, b: np.multiply.outer(a, b).ravel(), half, np.ones(1, dtype=np.int8))
        for half in (axes[:at], axes[at:])
    )
    return head, tail
