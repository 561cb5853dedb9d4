"""Levels: every attribute at its own codes and, where those are many, at coarser ones; from noisy counts.

A *variable* is an attribute at one level. Variables 0 .. d - 1 are the attributes as they are, in the order
of the domain, so that the position of an attribute names its finest variable, too; the coarser ones follow. A
*view* is a tuple of variables in the order of their attributes, one of each: a marginal's axes at these
levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

View = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Levels:
    """`groups[v]: int64[codes of v's attribute]`: the code of variable v for each code of its attribute."""

    shape: tuple[int, ...]
    attribute: np.ndarray
    groups: tuple[np.ndarray, ...]

    @classmethod
    def fine(cls, shape: Sequence[int]) -> Levels:
        """Every attribute at its own codes only."""
        return cls.of(shape, [[] for _ in shape])

    @classmethod
    def of(cls, shape: Sequence[int], coarser: Sequence[Sequence[np.ndarray]]) -> Levels:
        """`coarser[a]`: the coarser levels of a, each nested in the one before: int64[codes of a]."""
        attribute, groups = list(range(len(shape))), [np.arange(size, dtype=np.int64) for size in shape]
        for a, levels in enumerate(coarser):
            for group in levels:
                attribute.append(a)
                groups.append(np.asarray(group, dtype=np.int64))
        return cls(tuple(int(s) for s in shape), np.array(attribute, dtype=np.int64), tuple(groups))

    def __len__(self) -> int:
        return len(self.groups)

    @cached_property
    def sizes(self) -> np.ndarray:
        """int64[variable]"""
        return np.array([int(group.max()) + 1 for group in self.groups], dtype=np.int64)

    @cached_property
    def coarser(self) -> np.ndarray:
        """int64[variable]: the next coarser variable of the same attribute, or -1."""
        return self._next(self.chains)

    @cached_property
    def finer(self) -> np.ndarray:
        """int64[variable]: the next finer variable of the same attribute, or -1."""
        return self._next([chain[::-1] for chain in self.chains])

    def _next(self, chains: Iterable[View]) -> np.ndarray:
        following = np.full(len(self), -1, dtype=np.int64)
        for chain in chains:
            following[list(chain[:-1])] = chain[1:]
        return following

    @cached_property
    def chains(self) -> tuple[View, ...]:
        """The variables of each attribute, from fine to coarse."""
        chains: list[list[int]] = [[] for _ in self.shape]
        for v, a in enumerate(self.attribute.tolist()):
            chains[a].append(v)
        return tuple(tuple(chain) for chain in chains)

    def names(self, attributes: Sequence[str]) -> tuple[str, ...]:
        """A name for each variable: the attribute's, and for a coarser level how many groups are left."""
        coarse = range(len(self.shape), len(self))
        return (*attributes, *(f"{attributes[self.attribute[v]]} in {self.sizes[v]}" for v in coarse))

    def view(self, variables: Iterable[int]) -> View:
        """The variables in the order of their attributes."""
        return tuple(sorted(variables, key=self._owner.__getitem__))

    def cells(self, view: Iterable[int]) -> int:
        size = self._size
        return math.prod([size[v] for v in view])

    def coarse_enough(self, view: View, most: int) -> View | None:
        """The view with its largest attributes at coarser levels until it has at most `most` cells; None
        if it cannot, or is a single attribute.
        """
        axes = list(view)
        while self.cells(axes) > most:
            coarser = [int(self.coarser[v]) for v in axes]
            at = max(range(len(axes)), key=lambda j: self.sizes[axes[j]] if coarser[j] >= 0 else 0)
            if coarser[at] < 0:
                return None
            axes[at] = coarser[at]
        return tuple(axes) if len(axes) > 1 else None

    def cells_of(self, views: np.ndarray) -> np.ndarray:
        """float64[view]: cells of each of `views: int64[view, slot]`, padded with -1."""
        cells: np.ndarray = np.append(self.sizes, 1)[views].astype(np.float64).prod(axis=1)
        return cells

    def all_coarse_enough(self, views: np.ndarray, most: int) -> np.ndarray:
        """`coarse_enough` of each of `views: int64[view, slot]`, padded with -1; None left out."""
        views = views[(views >= 0).sum(axis=1) > 1]
        sizes, coarser = np.append(self.sizes, 0), np.append(self.coarser, -1)
        while len(rows := np.flatnonzero(self.cells_of(views) > most)):
            at = np.where(coarser[views[rows]] >= 0, sizes[views[rows]], 0).argmax(axis=1)
            views[rows, at] = coarser[views[rows, at]]
            views = np.delete(views, rows[views[rows, at] < 0], axis=0)
        return views

    def between(self, fine: int, coarse: int) -> np.ndarray:
        """int64[codes of `fine`]: for each the code of variable `coarse` of the same attribute."""
        codes = np.zeros(int(self.sizes[fine]), dtype=np.int64)
        codes[self.groups[fine]] = self.groups[coarse]
        return codes

    def steps(self, axes: View, view: View) -> list[np.ndarray]:
        """For each of `axes`, what its codes add to the cell of `view` (row-major), which the axes fix."""
        steps, stride = [np.zeros(int(self.sizes[u]), dtype=np.int64) for u in axes], 1
        for v in reversed(view):
            u = self.holds(axes, v)
            assert u is not None
            steps[axes.index(u)] += self.between(u, v) * stride
            stride *= int(self.sizes[v])
        return steps

    def holds(self, clique: Iterable[int], v: int) -> int | None:
        """The variable of `clique` that fixes v, v itself or a finer one of its attribute, or None."""
        owner = self._owner
        attribute = owner[v]
        return next((u for u in clique if u <= v and owner[u] == attribute), None)

    def attributes_of(self, view: View) -> list[int]:
        """The attribute of each variable."""
        owner = self._owner
        return [owner[v] for v in view]

    @cached_property
    def _owner(self) -> list[int]:
        """`attribute`, `_size`: `sizes`, as lists, which are read one by one in half the time."""
        owner: list[int] = self.attribute.tolist()
        return owner

    @cached_property
    def _size(self) -> list[int]:
        size: list[int] = self.sizes.tolist()
        return size


def padded(views: Sequence[View], width: int = 0) -> np.ndarray:
    """int32[view, slot]: the variables of each view, padded with -1 to the longest, or to `width`."""
    width = max([width, *map(len, views)])
    rows = [(*view, *(-1,) * (width - len(view))) for view in views]
    return np.array(rows, dtype=np.int32).reshape(len(views), width)


def coarsen(
    noisy: np.ndarray, stddev: float, *, ordered: bool, groups: Sequence[int], rare: float
) -> list[np.ndarray]:
    """Nested coarser levels of an attribute from its noisy counts, from fine to coarse: int64[codes] each,
    possibly none.

    Groups of about equal mass, as many as each of `groups` says (falling), over neighbouring codes where they
    are `ordered`, else over codes by falling count; before them a level that only merges, within each of the
    first groups, the codes that noise drowns (below `rare` of its standard deviations).
    """
    order = np.arange(len(noisy)) if ordered else np.argsort(-noisy, kind="stable")
    weights: np.ndarray = np.maximum(noisy[order].astype(np.float64), 0) + 1e-9
    levels: list[np.ndarray] = []
    current: np.ndarray = np.arange(len(noisy))
    for count in groups:
        if len(weights) <= 1.25 * count:
            continue
        share = np.cumsum(weights) - weights / 2
        cell = np.unique((share * (count / weights.sum())).astype(np.int64), return_inverse=True)[1].ravel()
        if cell.max() == 0 or cell.max() + 1 == len(weights):
            continue
        current, weights = cell[current], np.bincount(cell, weights)
        levels.append(current)
    first = levels[0] if levels else np.zeros(len(noisy), dtype=np.int64)
    small = noisy[order] < rare * stddev
    groups_or_codes = np.where(small, first, len(noisy) + np.arange(len(noisy)))
    merged = np.unique(groups_or_codes, return_inverse=True)[1].ravel()
    if 1 < merged.max() + 1 < len(noisy) and merged.max() > first.max():
        levels = [merged, *levels]
    back = np.argsort(order)
    return [np.asarray(level, dtype=np.int64)[back] for level in levels]
