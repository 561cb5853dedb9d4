"""Structural zeros: sets of attributes with combinations of codes that the rules of a domain rule out.

A set is kept as coarse as its rule allows: codes that a rule treats alike are one *class*, so that a table
over {age < 15, age >= 15} and {no occupation, any} has four cells however fine the bins are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.conditions import code_of, holds, intervals, placed
from factored_mwem.domain.functions import EQUAL, applied, has_values, points_of
from factored_mwem.domain.levels import Levels, View
from factored_mwem.domain.rules import Computed, Exclusion, Implication, Order, Rule

MAX_ORDER_CELLS = 2**24
"""Of a table of two columns in order, before codes that are alike are put together."""
MAX_TIE_CELLS = 2**14
"""Of a column and its function: larger tables are left to the drawing of rows, which keeps the rule anyway.
"""
MIN_MERGED = 1.25
"""Classes become a level of their own where they are this many times fewer than the codes."""
Source = tuple[str, np.ndarray]
"""A modelled attribute and int64[its codes]: a column's code for each of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Zeros:
    """`forbidden: bool[class, ...]`, an axis for each of `positions` (ascending); `classes[i]: int64[codes of
    positions[i]]` says which class a code is of.
    """

    positions: tuple[int, ...]
    classes: tuple[np.ndarray, ...]
    forbidden: np.ndarray

    def at(self, levels: Levels) -> tuple[View, np.ndarray]:
        """(view, bool[cells]) at the coarsest levels that tell the classes apart."""
        view, axes = [], []
        for a, classes in zip(self.positions, self.classes, strict=True):
            for v in reversed(levels.chains[a]):
                of_group = np.zeros(int(levels.sizes[v]), dtype=np.int64)
                of_group[levels.groups[v]] = classes
                if (of_group[levels.groups[v]] == classes).all():
                    break
            view.append(v)
            axes.append(of_group)
        return tuple(view), np.ascontiguousarray(self.forbidden[np.ix_(*axes)]).ravel()


def zeros_of(
    rules: Sequence[Rule],
    attributes: Mapping[str, Attribute],
    index: Mapping[str, int],
    source_of: Callable[[str], Source],
) -> tuple[Zeros, ...]:
    """What the rules rule out. `index`: positions of the modelled attributes; `source_of` gives the one from
    which a column follows, itself at the end. ValueError, with the rule's number in front, for what makes no
    sense.
    """
    zeros: list[Zeros] = []
    for i, rule in enumerate(rules):
        try:
            if isinstance(rule, Order):
                zeros += _ordered(rule, attributes, index)
            elif isinstance(rule, Computed) and rule.as_ != EQUAL:
                zeros += _tied(rule, attributes, index)
            for box in _boxes(rule, attributes):
                zeros += _zeros(box, index, source_of)
        except ValueError as error:
            raise ValueError(f"rule {i + 1}: {error}") from None
    return tuple(zeros)


def _boxes(rule: Rule, attributes: Mapping[str, Attribute]) -> Iterator[list[tuple[str, np.ndarray]]]:
    """Each conjunction of conditions that never holds, as (column, bool[its codes]) pairs."""

    def masks(conditions: Mapping[str, Any]) -> list[tuple[str, np.ndarray]]:
        return [(name, holds(attributes[name], condition)) for name, condition in conditions.items()]

    if isinstance(rule, Exclusion):
        yield masks(rule.never)
    elif isinstance(rule, Implication):
        premises = masks(rule.if_)
        for name, mask in masks(rule.then):
            yield [*premises, (name, ~mask)]


def _zeros(
    box: Iterable[tuple[str, np.ndarray]], index: Mapping[str, int], source_of: Callable[[str], Source]
) -> Iterator[Zeros]:
    """A box of forbidden cells over modelled attributes; none if it is empty."""
    masks: dict[str, np.ndarray] = {}
    for column, mask in box:
        name, codes = source_of(column)
        masks[name] = masks[name] & mask[codes] if name in masks else mask[codes]
    if not all(mask.any() for mask in masks.values()):
        return
    for name, mask in masks.items():
        if len(masks) == 1 and mask.all():
            raise ValueError(f"it leaves no value for {name!r}")
    names = sorted(masks, key=lambda name: index[name])
    forbidden = np.zeros((2,) * len(names), dtype=bool)
    forbidden[(1,) * len(names)] = True
    positions = tuple(index[name] for name in names)
    yield Zeros(positions, tuple(masks[name].astype(np.int64) for name in names), forbidden)


def _ordered(rule: Order, attributes: Mapping[str, Attribute], index: Mapping[str, int]) -> list[Zeros]:
    """The pairs of codes of which no value of the first is at most one of the second; none where values are
    exchanged.
    """
    first, second = (attributes[name] for name in rule.order)
    if first.name == second.name:
        raise ValueError(f"{first.name!r} is named twice in a rule of order")
    for a in (first, second):
        if a.name not in index:
            raise ValueError(f"{a.name!r} is computed from other columns: put those in order instead")
        if a.type in ("string", "boolean"):
            raise ValueError(f"{a.name!r} is of type {a.type}, which has no order")
    if first.type != second.type:
        raise ValueError(f"{first.name!r} is of type {first.type}, {second.name!r} of type {second.type}")
    if first.size * second.size > MAX_ORDER_CELLS:
        raise ValueError(f"{first.name!r} and {second.name!r} have too many codes together; use fewer bins")
    low, high = intervals(first)[0], intervals(second)[1]
    forbidden = (low[:, None] > high[None, :]) & placed(first)[:, None] & placed(second)[None, :]
    if forbidden[np.ix_(placed(first), placed(second))].all() and not (first.nullable or second.nullable):
        raise ValueError(f"no value of {first.name!r} is at most one of {second.name!r}")
    return [] if rule.exchange else [_merged(index[first.name], index[second.name], forbidden)]


def _tied(rule: Computed, attributes: Mapping[str, Attribute], index: Mapping[str, int]) -> Iterator[Zeros]:
    """The pairs of codes of which no value of the source has a function that lies in the other; none where
    the table would be large, or rules nothing out.
    """
    source, target = attributes[rule.of], attributes[rule.compute]
    if source.size * target.size > MAX_TIE_CELLS:
        return
    forbidden = np.ones((source.size, target.size), dtype=bool)
    for code, points in enumerate(points_of(source)):
        values = np.unique(applied(rule.as_, source.type, points))
        listed = values[has_values(target, values)].tolist()
        forbidden[code, [code_of(target, value) for value in listed]] = False
    if source.nullable and target.nullable:
        forbidden[-1, -1] = False
    if forbidden.any():
        yield _merged(index[source.name], index[target.name], forbidden)


def _merged(first: int, second: int, forbidden: np.ndarray) -> Zeros:
    """`forbidden: bool[code of first, code of second]`, with codes that are alike put together."""
    rows, of_first = np.unique(forbidden, axis=0, return_inverse=True)
    cells, of_second = np.unique(rows, axis=1, return_inverse=True)
    both = [(first, of_first.ravel()), (second, of_second.ravel())]
    if both[0][0] > both[1][0]:
        both, cells = both[::-1], cells.T
    positions, classes = zip(*both, strict=True)
    return Zeros(positions, classes, cells)


def classes_of(zeros: Sequence[Zeros], shape: Sequence[int]) -> list[np.ndarray | None]:
    """By attribute int64[code]: the coarsest classes that all of `zeros` can be told by; None if no rule
    names it, or they are hardly fewer than the codes.
    """
    classes: list[np.ndarray | None] = []
    for a, size in enumerate(shape):
        named = [z.classes[z.positions.index(a)] for z in zeros if a in z.positions]
        merged = reduce(_common, named) if named else None
        classes.append(merged if merged is not None and MIN_MERGED * (merged.max() + 1) <= size else None)
    return classes


def refined(
    coarser: Sequence[Sequence[np.ndarray]], classes: Sequence[np.ndarray | None]
) -> list[list[np.ndarray]]:
    """The `coarser` levels of each attribute with every one of them within the rules' classes, which come
    last: all levels of an attribute then tell its classes apart.
    """
    finer = []
    for levels, merged in zip(coarser, classes, strict=True):
        kept: list[np.ndarray] = []
        if merged is not None:
            count = len(merged)
            for level in (*(_common(level, merged) for level in levels), merged):
                if int(level.max()) + 1 < count:
                    kept.append(level)
                    count = int(level.max()) + 1
        finer.append(kept if merged is not None else list(levels))
    return finer


def _common(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The coarsest numbering within both."""
    return np.unique(one * (int(other.max()) + 1) + other, return_inverse=True)[1].ravel().astype(np.int64)


def tables_at(zeros: Sequence[Zeros], levels: Levels) -> dict[View, np.ndarray]:
    """All of them as bool[cells] by view, at the coarsest levels that tell them apart."""
    tables: dict[View, np.ndarray] = {}
    for each in zeros:
        view, cells = each.at(levels)
        tables[view] = tables[view] | cells if view in tables else cells
    return tables


def allowed_cells(zeros: Sequence[Zeros], shape: Sequence[int]) -> np.ndarray:
    """bool[cells of the whole domain], row-major: those that no rule rules out."""
    allowed = np.ones(tuple(shape), dtype=bool)
    for each in zeros:
        cells = each.forbidden[np.ix_(*each.classes)]
        allowed &= ~cells.reshape([s if a in each.positions else 1 for a, s in enumerate(shape)])
    return allowed.ravel()
