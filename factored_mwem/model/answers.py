"""A model's marginals of many candidates at once, laid out for the scoring kernel; public, as the model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from factored_mwem.kernels.scoring import Answers
from factored_mwem.model.dense import Factor, ProductModel
from factored_mwem.model.forest import Component, Forest
from factored_mwem.model.marginals import MarginalReader
from factored_mwem.workload.candidates import Candidates


class Small:
    """A dense component as a source of joint marginals: all small ones in one pass."""

    def __init__(self, factor: Factor, order: int) -> None:
        self._known = factor.small_marginals(min(order, len(factor.positions)))

    def flat(self, views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tables = [self._known[tuple(int(v) for v in view if v >= 0)] for view in views]
        return np.concatenate(tables), np.cumsum([0, *map(len, tables)], dtype=np.int64)


class ModelAnswers:
    """Lays out answers; each component's marginal reader is kept until the component changes."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self._width = candidates.members.shape[1]
        bases = candidates.base_of == np.arange(len(candidates))
        self._variables = np.setdiff1d(np.unique(candidates.members[bases]), [-1])
        self._sources: dict[int, tuple[Any, Any]] = {}
        self._singles: dict[int, tuple[Any, np.ndarray, np.ndarray, np.ndarray]] = {}

    def answers(
        self, model: ProductModel | Forest, which: np.ndarray, harm: float = 0.0, sparse: float = math.inf
    ) -> Answers:
        """The layout for the bases in `which: int64[k]`, at the model as it is now. `harm` and `sparse`: see
        Answers.
        """
        candidates = self.candidates
        members = candidates.members[which].astype(np.int64)
        component = np.append(model.part_of, -1)[candidates.attributes[which]]
        buffer, start_of = self._single(model)
        at = sum(len(part) for part in buffer)
        padded = members < 0
        starts = np.where(padded, 0, start_of[members])
        slots = np.broadcast_to(np.arange(self._width, dtype=np.int64), members.shape).copy()
        strides = np.where(padded, 0, 1).astype(np.int64)
        for id_, rows in _entangled(component).items():
            inside = component[rows] == id_
            views = np.where(inside, members[rows], -1)
            distinct, row_of = _distinct(views, len(candidates.levels))
            tables, begins = self._source(model, id_).flat(distinct)
            head = inside.argmax(axis=1)
            sizes = np.where(inside, candidates.sizes[which[rows]], 1)
            after = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1] // sizes
            starts[rows, head] = at + begins[row_of]
            slots[rows] = np.where(inside, head[:, None], slots[rows])
            strides[rows] = np.where(inside, after, strides[rows])
            buffer.append(tables)
            at += len(tables)
        starts, parts = starts.astype(np.int64), np.concatenate(buffer)
        return Answers(which, float(model.total), slots, strides, starts, parts, float(harm), float(sparse))

    def work(self, forest: Forest, which: np.ndarray) -> np.ndarray:
        """float64[k]: about how many operations the answer to each of the bases in `which` takes."""
        members, out = self.candidates.members[which].astype(np.int64), np.zeros(len(which))
        component = np.append(forest.part_of, -1)[self.candidates.attributes[which]]
        for id_, rows in _entangled(component).items():
            views = np.where(component[rows] == id_, members[rows], -1)
            source = self._source(forest, id_)
            assert isinstance(source, MarginalReader)
            out[rows] += source.work(views)
        return out

    def _single(self, model: ProductModel | Forest) -> tuple[list[np.ndarray], np.ndarray]:
        """The marginals of all single variables, and where each begins (a last entry stands for padding)."""
        parts, known = model.components_by_id, self._singles
        changed = {id_ for id_, part in parts.items() if known.get(id_, (None,))[0] is not part}
        if changed or len(known) != len(parts):
            part_of = model.part_of[self.candidates.levels.attribute[self._variables]]
            self._singles = {
                id_: (parts[id_], variables, *self._one_by_one(model, id_, variables))
                if id_ in changed
                else known[id_]
                for id_, variables in _groups(part_of, self._variables)
            }
        start_of = np.zeros(len(self.candidates.levels) + 1, dtype=np.int64)
        tables, at = [], 0
        for _, variables, table, begins in self._singles.values():
            start_of[variables] = at + begins
            tables.append(table)
            at += len(table)
        return tables, start_of

    def _one_by_one(
        self, model: ProductModel | Forest, id_: int, variables: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        views = np.full((len(variables), self._width), -1, dtype=np.int64)
        views[:, 0] = variables
        tables, begins = self._source(model, id_).flat(views)
        return tables, begins[:-1]

    def _source(self, model: ProductModel | Forest, id_: int) -> MarginalReader | Small:
        part = model.components_by_id[id_]
        known = self._sources.get(id_)
        if known is None or known[0] is not part:
            source = Small(part, self._width) if isinstance(part, Factor) else self._reader(part)
            self._sources = {k: v for k, v in self._sources.items() if k in model.components_by_id}
            self._sources[id_] = (part, source)
        return self._sources[id_][1]

    def _reader(self, part: Component) -> MarginalReader:
        """The reader of a component's marginals."""
        attribute = self.candidates.levels.attribute
        variables = self._variables[np.isin(attribute[self._variables], part.attributes)]
        return part.reader(variables)


def _entangled(component: np.ndarray) -> dict[int, np.ndarray]:
    """For each component that holds several attributes of a row (padding is -1): the rows."""
    ordered = np.sort(component, axis=1)
    twice = np.where((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0), ordered[:, 1:], -1)
    rows, columns = np.nonzero(twice >= 0)
    ids = twice[rows, columns]
    return {int(id_): np.unique(rows[ids == id_]) for id_ in np.unique(ids)}


def _distinct(views: np.ndarray, variables: int) -> tuple[np.ndarray, np.ndarray]:
    """(the distinct rows of `views: int64[view, slot]`, which of them each row is)."""
    if (variables + 1) ** views.shape[1] >= 2**63:
        distinct, row_of = np.unique(views, axis=0, return_inverse=True)
        return np.ascontiguousarray(distinct), row_of.ravel()
    numbers = np.zeros(len(views), dtype=np.int64)  # a number a row sorts ten times as fast
    for slot in range(views.shape[1]):
        numbers = numbers * (variables + 1) + views[:, slot] + 1
    _, first, row_of = np.unique(numbers, return_index=True, return_inverse=True)
    return np.ascontiguousarray(views[first]), row_of.ravel()


def _groups(part_of: np.ndarray, variables: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """(component, its variables) for each component."""
    order = np.argsort(part_of, kind="stable")
    ids, first = np.unique(part_of[order], return_index=True)
    return list(zip(ids.tolist(), np.split(variables[order], first[1:]), strict=True))
