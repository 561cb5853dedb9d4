"""What is sealed, and the rows as codes: nothing in it may be printed, pickled or released.

A sealed object knows what is public of every question that may be put to it (`query`); its contents know the
exact numbers. Contents leave by `reveal` alone, which `Session._unseal` calls once it has charged the
accountant, and only modules of this folder look at them, to seal them again. tests/test_architecture.py walks
the code and holds that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.levels import Levels, View, padded
from factored_mwem.tables.backends.codes import Codes
from factored_mwem.tables.backends.datavectors import Axis, Datavectors
from factored_mwem.tables.inputs.source import Private

SCORE_GRID = 2**20
"""Scores count grains of 2^-20 records: model answers become integers, the sensitivity stays exact."""
SCORE_CUTOFF = 2.0**40
"""A model's total and a penalty end here: beyond 2^42 scores would overflow, and the sensitivity."""
AHEAD_CELLS = 2**26
"""Cells of questions' marginals that are counted in one pass: half a gigabyte."""


class SealedQuery(NamedTuple):
    """What is public of one question of sealed numbers: the names that its charge lists; the attributes (or
    variables) that it is about; and the L1 norm and squared L2 norm of what one person changes in all of its
    answers together.
    """

    subject: tuple[str, ...]
    positions: tuple[int, ...]
    l1: int
    l2_squared: int

    @classmethod
    def each(
        cls, subject: tuple[str, ...], positions: tuple[int, ...], most: int, answers: int = 1
    ) -> SealedQuery:
        """For this many `answers`, each changed by one person by at most `most`."""
        return cls(subject, positions, answers * most, answers * most**2)

    @classmethod
    def of_marginal(cls, subject: tuple[str, ...], positions: tuple[int, ...], unit: Unit) -> SealedQuery:
        """Of a marginal, whatever its number of cells: they are disjoint in rows."""
        return cls(subject, positions, unit.l1_of_marginal, unit.l2_squared_of_marginal)

    def sensitivity(self, composition: Composition) -> int:
        """Squared L2 norm under zCDP, L1 norm under pure DP."""
        return self.l2_squared if composition is Composition.ZCDP else self.l1


class ExactNumbers(Private):
    """What is sealed where all is asked for at once: `counts: int64`, numbers of rows or of people."""

    __slots__ = ("counts",)

    def __init__(self, counts: np.ndarray) -> None:
        self.counts = counts

    def exact(self, what: Any) -> np.ndarray:
        return self.counts


class Sealed(Private):
    """Private numbers that are asked through a `Session`: only `reveal` gives them out. `names`: public, of
    what the numbers are about.

    What can be measured has a `query`, and contents with `exact(what) -> int64[answer]`; what can be chosen
    among a `score_sensitivity`, and contents with `scores(answers) -> int64[candidate]`; what can be tested a
    `query`, and contents with `gap(what, grains: int) -> int`, how far the true answer lies from a public one
    in grains of SCORE_GRID a record.
    """

    __slots__ = ("_contents", "names")

    def __init__(self, contents: Any, names: Sequence[str] = ()) -> None:
        self._contents, self.names = contents, tuple(names)

    def reveal(self) -> Any:
        """The private contents, for `Session._unseal` alone."""
        return self._contents

    def query(self, what: Any, unit: Unit) -> SealedQuery:
        """What is public of the question `what`."""
        raise AssertionError(f"{self!r} cannot be measured")

    def sensitivity(self, what: Any, unit: Unit, composition: Composition) -> int:
        """Squared L2 norm (pure: L1 norm) of what one person changes in the answers to `what`."""
        return self.query(what, unit).sensitivity(composition)

    def score_sensitivity(self, unit: Unit) -> int:
        """How far a score moves (records) between neighbours: the model's side of it is public."""
        raise AssertionError(f"{self!r} cannot be chosen among")


class Rows(Private):
    """What PrivateRows reveals: exact marginals of the rows, each counted in as few passes as can be.

    `columns[a]` is the number of attribute a among the encoded columns, and `lookups[a]: uint32[code as
    encoded]` its codes, where those are others.
    """

    __slots__ = ("_singles", "columns", "data", "levels", "lookups")

    def __init__(
        self,
        data: Datavectors,
        levels: Levels,
        columns: Sequence[int] | None = None,
        lookups: Sequence[np.ndarray | None] | None = None,
    ) -> None:
        self.data, self.levels = data, levels
        self.columns = tuple(range(len(levels.shape)) if columns is None else columns)
        self.lookups = (None,) * len(levels.shape) if lookups is None else tuple(lookups)
        self._singles: list[np.ndarray] | None = None

    @classmethod
    def coded(cls, codes: Sequence[np.ndarray], shape: Sequence[int]) -> Rows:
        """Rows that are codes already: one unsigned array[row] per attribute, each below its size."""
        return cls(Codes(codes, shape), Levels.fine(shape))

    def axis(self, variable: int) -> Axis:
        """Where a variable lies among the encoded columns."""
        a = int(self.levels.attribute[variable])
        lookup, size = self.lookups[a], int(self.levels.sizes[variable])
        if variable >= len(self.levels.shape):
            group = self.levels.groups[variable]
            lookup = group.astype(np.uint32) if lookup is None else group[lookup].astype(np.uint32)
        return Axis(self.columns[a], lookup, size)

    def counts(self, members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """int32 or int64[all cells]: see `Datavectors.exact_counts`, of variables. One pass."""
        axes = [self.axis(v) for v in range(len(self.levels))]
        return self.data.exact_counts(axes, members, offsets)

    @property
    def singles(self) -> list[np.ndarray]:
        """int64[code] of each attribute: all one-way marginals, counted together when the first is asked."""
        if self._singles is None:
            ends = np.cumsum(self.levels.sizes[: len(self.levels.shape)])
            members = np.arange(len(ends), dtype=np.int32)[:, None]
            counts = self.counts(members, np.concatenate([[0], ends]).astype(np.int64))
            self._singles = np.split(counts.astype(np.int64), ends[:-1])
        return self._singles

    def marginal(self, variables: Sequence[int]) -> np.ndarray:
        """int64[cells]: the counts over `variables`; over none, the number of rows."""
        if not len(variables):
            return self.singles[0].sum(keepdims=True)
        if len(variables) == 1:
            a = int(self.levels.attribute[variables[0]])
            return added_up(self.levels, (a,), tuple(variables), self.singles[a])
        cells = self.levels.cells(variables)
        return self.counts(np.array([variables], np.int32), np.array([0, cells])).astype(np.int64)

    exact = marginal
    """What `Session.measure` adds noise to."""

    def classed(self, positions: Sequence[int], classes: Sequence[np.ndarray]) -> np.ndarray:
        """int64[cells]: the counts by classes of codes, `int64[code]` each, from 0 on. One pass."""
        lookups = [
            own.astype(np.uint32)[... if self.lookups[a] is None else self.lookups[a]]
            for a, own in zip(positions, classes, strict=True)
        ]
        shape = [int(own.max()) + 1 for own in classes]
        rows = Rows(self.data, Levels.fine(shape), [self.columns[a] for a in positions], lookups)
        return rows.marginal(range(len(shape)))


def added_up(levels: Levels, axes: View, view: View, counts: np.ndarray) -> np.ndarray:
    """int64[cells of `view`]: its counts, from those over `axes`, which fix it. Exact below 2^53 rows."""
    if axes == view:
        return counts.astype(np.int64)
    cell = np.zeros((1,) * len(axes), dtype=np.int64)
    for j, step in enumerate(levels.steps(axes, view)):
        cell = cell + step.reshape([-1 if i == j else 1 for i in range(len(axes))])
    summed = np.bincount(cell.ravel(), counts, minlength=levels.cells(view))
    return np.rint(summed).astype(np.int64)


class Ahead(Private):
    """The marginals over `cliques`, asked for in about that order: each pass counts as many as fit."""

    __slots__ = ("_cliques", "_held", "_place", "_rows")

    def __init__(self, rows: Rows, cliques: Sequence[View]) -> None:
        self._rows, self._cliques = rows, list(dict.fromkeys(cliques))
        self._place = {clique: at for at, clique in enumerate(self._cliques)}
        self._held: dict[View, np.ndarray] = {}

    def marginal(self, variables: Sequence[int]) -> np.ndarray:
        """int64[cells]: see Rows."""
        wanted = tuple(variables)
        if len(wanted) < 2 or wanted not in self._place:
            return self._rows.marginal(wanted)
        if wanted not in self._held:
            self._held = self._count(self._cliques[self._place[wanted] :])
        return self._held[wanted]

    def _count(self, cliques: Sequence[View]) -> dict[View, np.ndarray]:
        levels = self._rows.levels
        ends = np.cumsum([levels.cells(clique) for clique in cliques])
        some = max(1, int(np.searchsorted(ends, AHEAD_CELLS, side="right")))
        counts = self._rows.counts(
            padded(cliques[:some]), np.concatenate([[0], ends[:some]]).astype(np.int64)
        )
        parts = np.split(counts.astype(np.int64), ends[: some - 1])
        return dict(zip(cliques[:some], parts, strict=True))
