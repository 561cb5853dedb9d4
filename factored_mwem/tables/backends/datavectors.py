"""Datavectors: private rows as codes, wherever they are. The engine asks them for exact counts of a list of
marginals, and for nothing else.

Counts are sums over rows of public functions of each row, so they are the same however rows are split,
ordered, retried or counted; every implementation gives the same integers, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from factored_mwem.tables.inputs.table import Private


class Axis(NamedTuple):
    """A column of the encoded rows, as it is or at a coarser level: what a marginal may be over."""

    column: int
    """Its number among the encoded columns."""
    lookup: np.ndarray | None
    """uint32[code as encoded]: the code on this axis; None if it is the same."""
    size: int
    """Codes on this axis; `lookup` has none beyond."""


class Datavectors(Protocol):
    """Private rows, encoded; a call of `exact_counts` is one pass over them.

    Holds private rows: a subclass of `Private`, which only privacy/counts.py may ask.
    """

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes of each encoded column: public, from the domain."""

    @property
    def dear(self) -> bool:
        """Whether a pass costs so much that more should be counted than is needed, to save another."""

    @property
    def weighted(self) -> bool:
        """Whether rows weigh other than one: then counts are int64, and no number of rows."""

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """int32[all cells] or int64[all cells]: the counts of every marginal, row-major, one after the other.

        `members: int32[marginal, slot]` are numbers of `axes`, at least one each, of different columns,
        padded with -1; `offsets: int64[marginal + 1]` says where a marginal's counts begin. Raises Changed if
        the rows are not those of an earlier pass; ResourceError if a marginal has more than 2^32 cells.
        """


class CountedOnce(Private):
    """Rows whose marginals of interest are counted once; coarser ones are added up from these. The columns
    are `axes` of other rows. The first pass counts the marginals over `members`; after it, a marginal over
    the same columns at any level needs no pass. Which they are follows from public facts.
    """

    __slots__ = ("_axes", "_held", "_members", "_rows", "sizes", "weighted")
    dear = False

    def __init__(self, rows: Datavectors, axes: Sequence[Axis], members: np.ndarray) -> None:
        """`members: int32[marginal, slot]`: see `Datavectors.exact_counts`."""
        self._rows, self._axes, self._members = rows, tuple(axes), members
        self._held: dict[tuple[int, ...], np.ndarray] | None = None
        self.sizes, self.weighted = tuple(axis.size for axis in self._axes), rows.weighted

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """int64[all cells]: see Datavectors. One more pass for what no held marginal is over."""
        held = self._counted()
        wanted = [[axes[m] for m in row if m >= 0] for row in members.tolist()]
        keys = [tuple(sorted(axis.column for axis in view)) for view in wanted]
        counts = np.zeros(int(offsets[-1]), dtype=np.int64)
        for m, (view, key) in enumerate(zip(wanted, keys, strict=True)):
            if key in held:
                counts[offsets[m] : offsets[m + 1]] = coarser(held[key], key, view)
        missing = np.array([m for m, key in enumerate(keys) if key not in held], dtype=np.int64)
        if len(missing):
            sizes = np.diff(offsets)[missing]
            at = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            fresh = self._rows.exact_counts([self._below(a) for a in axes], members[missing], at)
            for i, m in enumerate(missing.tolist()):
                counts[offsets[m] : offsets[m + 1]] = fresh[at[i] : at[i + 1]]
        return counts

    def _counted(self) -> dict[tuple[int, ...], np.ndarray]:
        """int64[codes of each column]: the held marginals, by their columns."""
        if self._held is None:
            shapes = [tuple(self.sizes[m] for m in row if m >= 0) for row in self._members.tolist()]
            at = np.concatenate([[0], np.cumsum([int(np.prod(shape)) for shape in shapes])]).astype(np.int64)
            fresh = self._rows.exact_counts(self._axes, self._members, at)
            self._held = {
                tuple(m for m in row if m >= 0): fresh[at[i] : at[i + 1]].reshape(shapes[i]).astype(np.int64)
                for i, row in enumerate(self._members.tolist())
            }
        return self._held

    def _below(self, axis: Axis) -> Axis:
        """The same axis, of the rows below."""
        own = self._axes[axis.column]
        if axis.lookup is None or own.lookup is None:
            return own._replace(lookup=own.lookup if axis.lookup is None else axis.lookup, size=axis.size)
        return Axis(own.column, axis.lookup[own.lookup], axis.size)


def coarser(table: np.ndarray, columns: tuple[int, ...], view: Sequence[Axis]) -> np.ndarray:
    """int64[cells of `view`], row-major, from the counts over `columns`, which are those of its axes."""
    order = [axis.column for axis in view]
    table = np.transpose(table, [columns.index(column) for column in order])
    for j, axis in enumerate(view):
        if axis.lookup is not None:
            moved = np.moveaxis(table, j, 0)
            coarse = np.zeros((axis.size, *moved.shape[1:]), dtype=np.int64)
            np.add.at(coarse, axis.lookup, moved)
            table = np.moveaxis(coarse, 0, j)
    return table.ravel()
