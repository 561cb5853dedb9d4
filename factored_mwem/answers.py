"""Answers: the model's marginals of many candidates at once, laid out for the scoring kernel. Public: derived from the model alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from factored_mwem.model import ProductModel
from factored_mwem.workload import Candidates


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Where the model's answer to each candidate in `which` lies in `parts` (shares), as `kernels.distances` reads it."""

    which: np.ndarray
    total: float
    slots: np.ndarray
    strides: np.ndarray
    starts: np.ndarray
    parts: np.ndarray


class Answerer:
    """Lays out answers, and remembers each component's small marginals until the component changes."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self._width = candidates.members.shape[1]
        self._known: dict[int, tuple[object, dict[tuple[int, ...], np.ndarray]]] = {}

    def answers(self, model: ProductModel, which: np.ndarray) -> Answers:
        """The layout for the candidates in `which: int64[k]`, at the model as it is now."""
        members = self.candidates.members[which]
        buffer, start_of = self._one_way(model)
        padded = members < 0
        starts = np.where(padded, 0, start_of[members])
        slots = np.broadcast_to(np.arange(self._width, dtype=np.int64), members.shape).copy()
        strides = np.where(padded, 0, 1).astype(np.int64)
        component = np.where(padded, -1 - np.arange(self._width), model.factor_of[members])
        ordered = np.sort(component, axis=1)
        at = sum(len(part) for part in buffer)
        known_at: dict[tuple[int, ...], int] = {}
        for row in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):
            for id_ in set(component[row][component[row] >= 0].tolist()):
                columns = np.flatnonzero(component[row] == id_)
                inside = tuple(members[row, columns].tolist())
                if inside not in known_at:
                    table = self._small(model, id_)[inside]
                    buffer.append(table)
                    known_at[inside] = at
                    at += len(table)
                starts[row, columns[0]] = known_at[inside]
                slots[row, columns] = columns[0]
                sizes = self.candidates.sizes[which[row], columns]
                strides[row, columns] = np.append(np.cumprod(sizes[:0:-1])[::-1], 1)
        return Answers(which, float(model.total), slots, strides, starts.astype(np.int64), np.concatenate(buffer))

    def _one_way(self, model: ProductModel) -> tuple[list[np.ndarray], np.ndarray]:
        """The one-way marginals of all attributes, and where each begins (a last entry stands for padding)."""
        tables = [self._small(model, int(model.factor_of[p]))[(p,)] for p in range(len(model.domain))]
        begins = np.concatenate([[0], np.cumsum([len(t) for t in tables])])
        return tables, begins

    def _small(self, model: ProductModel, id_: int) -> dict[tuple[int, ...], np.ndarray]:
        factor = model.factors[id_]
        if id_ not in self._known or self._known[id_][0] is not factor:
            self._known = {k: v for k, v in self._known.items() if k in model.factors}
            self._known[id_] = (factor, factor.small_marginals(min(self._width, len(factor.positions))))
        return self._known[id_][1]
