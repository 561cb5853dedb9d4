"""Held: rows whose marginals of interest are counted once, as fine as they are; coarser ones are added up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from factored_mwem.backends.datavectors import Axis, Datavectors
from factored_mwem.tables.source import Private


class Held(Private):
    """The columns `axes` of other rows. The first pass counts the marginals over `members`, and all that lies
    within these costs no pass any more: a rule made from public facts, see `Datavectors.dear`.
    """

    __slots__ = ("_axes", "_held", "_members", "_rows")
    dear = False

    def __init__(self, rows: Datavectors, axes: Sequence[Axis], members: np.ndarray) -> None:
        """`members: int32[marginal, slot]`: see `Datavectors.exact_counts`."""
        self._rows, self._axes, self._members = rows, tuple(axes), members
        self._held: dict[tuple[int, ...], np.ndarray] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self._axes)

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """int64[all cells]: see Datavectors. One more pass for what no held marginal is over."""
        held = self._counted()
        wanted = [[axes[m] for m in row if m >= 0] for row in members.tolist()]
        keys = [tuple(sorted(axis.column for axis in view)) for view in wanted]
        counts = np.zeros(int(offsets[-1]), dtype=np.int64)
        for m, (view, key) in enumerate(zip(wanted, keys, strict=True)):
            if key in held:
                counts[offsets[m] : offsets[m + 1]] = _coarser(held[key], key, view)
        missing = np.array([m for m, key in enumerate(keys) if key not in held], dtype=np.int64)
        if len(missing):
            sizes = np.diff(offsets)[missing]
            at = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            found = self._rows.exact_counts([self._below(a) for a in axes], members[missing], at)
            for i, m in enumerate(missing.tolist()):
                counts[offsets[m] : offsets[m + 1]] = found[at[i] : at[i + 1]]
        return counts

    def _counted(self) -> dict[tuple[int, ...], np.ndarray]:
        """int64[codes of each column]: the held marginals, by their columns."""
        if self._held is None:
            shapes = [tuple(self.sizes[m] for m in row if m >= 0) for row in self._members.tolist()]
            at = np.concatenate([[0], np.cumsum([int(np.prod(shape)) for shape in shapes])]).astype(np.int64)
            found = self._rows.exact_counts(self._axes, self._members, at)
            self._held = {
                tuple(m for m in row if m >= 0): found[at[i] : at[i + 1]].reshape(shapes[i]).astype(np.int64)
                for i, row in enumerate(self._members.tolist())
            }
        return self._held

    def _below(self, axis: Axis) -> Axis:
        """The same axis, of the rows below."""
        own = self._axes[axis.column]
        if axis.lookup is None or own.lookup is None:
            return own._replace(lookup=own.lookup if axis.lookup is None else axis.lookup, size=axis.size)
        return Axis(own.column, axis.lookup[own.lookup], axis.size)


def _coarser(table: np.ndarray, columns: tuple[int, ...], view: Sequence[Axis]) -> np.ndarray:
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
