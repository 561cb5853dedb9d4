"""Ranges: how many rows fall into a box over ordered attributes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from factored_mwem.kernels.linear import product_answer, product_step
from factored_mwem.model import Factor
from factored_mwem.privacy.neighbours import Unit
from factored_mwem.queries import Source, over_axes


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Boxes over attributes `at` (positions, ascending) of sizes `shape`: `low`, `high: int64[box, axis]` are the first and last code inside."""

    at: tuple[int, ...]
    shape: tuple[int, ...]
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def random(cls, at: tuple[int, ...], shape: tuple[int, ...], count: int, *, seed: int) -> Ranges:
        """`count` boxes, the ends of each side two codes drawn uniformly: a public workload, which its seed names."""
        ends = np.sort(np.random.default_rng(seed).integers(0, shape, size=(2, count, len(shape))), axis=0)
        return cls(at, shape, ends[0], ends[1])

    @classmethod
    def prefixes(cls, at: tuple[int, ...], shape: tuple[int, ...]) -> Ranges:
        """Every box that begins at the first codes."""
        high = np.stack(np.meshgrid(*[np.arange(k) for k in shape], indexing="ij"), axis=-1).reshape(-1, len(shape))
        return cls(at, shape, np.zeros_like(high), high)

    @classmethod
    def every(cls, at: tuple[int, ...], shape: tuple[int, ...]) -> Ranges:
        """Every box: k (k + 1) / 2 sides along each axis of k codes."""
        sides = [np.array([(i, j) for i in range(k) for j in range(i, k)]) for k in shape]
        chosen = np.stack(np.meshgrid(*[np.arange(len(s)) for s in sides], indexing="ij"), axis=-1).reshape(-1, len(shape))
        both = np.stack([side[chosen[:, a]] for a, side in enumerate(sides)], axis=-1)
        return cls(at, shape, both[:, 0], both[:, 1])

    @property
    def cells(self) -> np.ndarray:
        return np.ones(len(self.low), dtype=np.int64)

    def positions(self, question: int) -> tuple[int, ...]:
        return self.at

    def answers(self, source: Source) -> np.ndarray:
        """One pass over the marginal makes its summed-area table; each box is then 2^axes reads."""
        table = source.marginal(self.at).reshape(self.shape)
        for axis in range(len(self.shape)):
            table = np.cumsum(table, axis=axis)
        table = np.pad(table, [(1, 0)] * len(self.shape))
        found = np.zeros(len(self.low), dtype=table.dtype)
        for corner in range(2 ** len(self.shape)):
            lower = np.array([corner >> axis & 1 for axis in range(len(self.shape))], dtype=bool)
            at = np.where(lower, self.low, self.high + 1)
            found += (-1) ** int(lower.sum()) * table[tuple(at.T)]
        return found

    def l1(self, unit: Unit) -> int:
        return unit.of_counting_query

    def l2_squared(self, unit: Unit) -> int:
        return unit.of_counting_query**2

    def step(self, part: Factor, question: int, noisy: np.ndarray, total: float, *, guard: float) -> None:
        inside = {}
        for p, size, low, high in zip(self.at, self.shape, self.low[question], self.high[question], strict=True):
            inside[p] = np.zeros(size, dtype=np.int8)
            inside[p][low : high + 1] = 1
        head, tail = over_axes(part, inside)
        gap = min(max(float(noisy[0]), 0.0), total) - total * product_answer(part.weights, head, tail)
        if abs(gap) > guard:
            product_step(part.weights, head, tail, gap / (2 * total))
