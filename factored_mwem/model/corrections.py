"""Corrections: noisy marginals that no clique holds, and the answers of a forest corrected by them. Free: the
measurements were paid for, and everything else is public.

A marginal's answer is the trees' own, raked (iterative proportional fitting) to the measured marginals that
lie inside it, and to the trees' single attributes. Each measured marginal is first shrunk towards the trees'
by how much of the difference between the two is noise (empirical Bayes).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from factored_mwem.domain.levels import Levels, View
from factored_mwem.kernels.dense import marginal_into, multiply_into
from factored_mwem.model.clique_tree import halves
from factored_mwem.privacy.session import Measurement

SWEEPS = 5
"""Sweeps of raking; with three or ten the errors of rows are the same to three digits."""


class Corrections:
    """Tables to which answers are raked: `tables[i]: float64[cells]`, in records, over `views[i]`."""

    def __init__(self, levels: Levels, views: Sequence[View] = (), tables: Sequence[np.ndarray] = ()) -> None:
        self.levels, self.views = levels, list(views)
        self._over: dict[tuple[int, ...], list[tuple[View, np.ndarray]]] = {}
        for view, table in zip(views, tables, strict=True):
            self._over.setdefault(self._attributes(view), []).append((view, table))
        self._orders = sorted({len(attributes) for attributes in self._over})

    def __bool__(self) -> bool:
        return bool(self._over)

    @classmethod
    def of(
        cls, levels: Levels, measured: Sequence[Measurement], answers: Sequence[np.ndarray]
    ) -> Corrections:
        """The corrections of the trees' own `answers` (float64[cells] each, in records) by what was
        `measured`.
        """
        tables = [shrunk(table, m.noisy, m.stddev) for m, table in zip(measured, answers, strict=True)]
        return cls(levels, [m.positions for m in measured], tables)

    def applied(self, view: View, table: np.ndarray) -> np.ndarray:
        """The marginal over `view`, float64[cells] in records, after all corrections that lie inside it."""
        inside = list(self._inside(view))
        if not inside or not table.any():
            return table
        inside += [((v,), self._marginal(view, (v,), table)) for v in view]
        maps = [(*self._maps(view, within), wanted) for within, wanted in inside]
        table = table.copy()
        for _ in range(SWEEPS if len(inside) > 1 else 1):
            for head, tail, wanted in maps:
                now = np.zeros(len(wanted))
                marginal_into(table, head, tail, now)
                ratio = np.divide(wanted, now, out=np.zeros_like(now), where=now > 0)
                multiply_into(table, head, tail, ratio)
        return table

    def apart(self, view: View) -> tuple[list[tuple[View, np.ndarray]], Corrections]:
        """(those that lie inside `view`, all others)."""
        inside = list(self._inside(view))
        taken = {within for within, _ in inside}
        left = [(v, t) for pairs in self._over.values() for v, t in pairs if v not in taken]
        return inside, Corrections(self.levels, [v for v, _ in left], [t for _, t in left])

    def _attributes(self, view: View) -> tuple[int, ...]:
        return tuple(self.levels.attribute[list(view)].tolist())

    def _inside(self, view: View) -> Iterable[tuple[View, np.ndarray]]:
        """The corrections that `view` fixes."""
        attributes = self._attributes(view)
        for order in self._orders:
            for subset in itertools.combinations(attributes, order):
                for within, table in self._over.get(subset, ()):
                    if all(self.levels.holds(view, v) is not None for v in within):
                        yield within, table

    def _maps(self, view: View, within: View) -> tuple[np.ndarray, np.ndarray]:
        """(head, tail) of the map from the cells of `view` to those of `within`."""
        return halves(self.levels.steps(view, within))

    def _marginal(self, view: View, within: View, table: np.ndarray) -> np.ndarray:
        out = np.zeros(self.levels.cells(within))
        marginal_into(table, *self._maps(view, within), out)
        return out


def shrunk(answer: np.ndarray, noisy: np.ndarray, stddev: float) -> np.ndarray:
    """float64[cells]: the mean of what a cell may be, given the trees' `answer` and `noisy` count; its sum.

    The truth is assumed to vary around the answer with a variance in proportion to the answer. The factor is
    estimated from the differences, less the variance of their noise.
    """
    gap, noise = (
        noisy - answer,
        max(stddev**2, 1e-300),
    )  # a model file may hold any number: no zero is divided by zero
    spread = answer * max(float((gap**2 - noise).sum()), 0.0) / max(float(answer.sum()), 1e-9)
    corrected = np.maximum(answer + spread / (spread + noise) * gap, 0.0)
    total = float(corrected.sum())
    return corrected * (float(answer.sum()) / total) if total > 0 else answer
