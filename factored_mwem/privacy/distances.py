"""Distances: how far the private marginals are from public tables, one exact number for each; private.

A table of the released rows is public, for it was made from noisy answers alone. Both sides count in grains,
SCORE_GRID of them a record, so that every distance is a whole number: of the marginal t and the public table
r it is D = sum over the cells of |SCORE_GRID t - r|.

Sensitivity. Neighbours' marginals are at most `unit.l1_of_marginal` records apart in L1 norm, k under
add-remove and 2 k under replace, whatever the marginal; r is the same for both. By the triangle inequality D
moves by at most s = SCORE_GRID times that. So
- the D of all d columns together move by d s in L1 norm, by sqrt(d) s in L2 norm;
- the sum of D over M marginals moves by M s, and the sum over M, rounded down, by s: floor((x + M s) / M) =
  floor(x / M) + s, and rounding down keeps order;
- each D of a noisy maximum moves by s.
None of these is less for neighbours that exist: one row more in cells where t is above r everywhere.

Where each person weighs one, a record is a grain of a person (`accounting/unit.py`), G of them a person. A
person's n rows weigh at most G together, and what rows of others weigh follows from their own alone: so
marginals of neighbours are at most G grains apart under add-remove and 2 G under replace, which is
`l1_of_marginal` again, and all of the above holds as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.rows import SCORE_GRID, Rows, Sealed, SealedQuery
from factored_mwem.tables.inputs.source import Private
from factored_mwem.workload.candidates import Candidates

PURE, ZCDP = Composition.PURE, Composition.ZCDP
BLOCK_CELLS = 2**22
"""Cells that are compared at a time."""


@dataclass(frozen=True, slots=True)
class ColumnDistances:
    """To be measured: the distance of every column."""


@dataclass(frozen=True, slots=True)
class MeanDistance:
    """To be measured: the mean over the candidates of `order` attributes."""

    order: int


@dataclass(frozen=True, slots=True)
class OneDistance:
    """To be measured: the distance of what `scores` lists at `number`."""

    number: int


Measurable = ColumnDistances | MeanDistance | OneDistance


def sensitivity_of(answers: int, unit: Unit, composition: Composition) -> int:
    """Squared L2 norm (pure: L1) of one person in so many distances, or means of them: `l1_of_score` each."""
    grains = unit.l1_of_score * SCORE_GRID
    return answers * (grains**2 if composition is ZCDP else grains)


class Reference(NamedTuple):
    """Public tables to compare with, in grains: of every column, `columns: int64[code]` each, and of every
    one of the `candidates` one after the other, `tables: int64[all cells]`. `asked`: the columns whose own
    marginal is asked for.
    """

    candidates: Candidates
    columns: tuple[np.ndarray, ...]
    tables: np.ndarray
    asked: tuple[int, ...]


class Distances(Private):
    """What PrivateErrors reveals: `columns: int64[column]`, `sets: int64[candidate]`, in grains.

    Exact below 2^41 rows, or grains of people. One pass over the rows, for what was not counted before.
    """

    __slots__ = ("_asked", "_orders", "columns", "sets")

    def __init__(self, rows: Rows, reference: Reference) -> None:
        candidates = reference.candidates
        pairs = zip(rows.singles, reference.columns, strict=True)
        self.columns = np.array([np.abs(t * SCORE_GRID - r).sum() for t, r in pairs], dtype=np.int64)
        self.sets = np.zeros(len(candidates), dtype=np.int64)
        if len(candidates):
            counts = rows.counts(candidates.members, candidates.offsets)
            self.sets = _distances(counts, reference.tables, candidates.offsets)
        self._orders, self._asked = candidates.orders, np.array(reference.asked, dtype=np.int64)

    def scores(self, answers: None) -> np.ndarray:
        """int64[candidate and column asked for]: what a noisy maximum is taken of."""
        return np.concatenate([self.sets, self.columns[self._asked]])

    def exact(self, what: Measurable) -> np.ndarray:
        """int64: what `Session.measure` adds noise to."""
        match what:
            case ColumnDistances():
                return self.columns
            case MeanDistance(order):
                return np.array([mean(self.sets[self._orders == order])], dtype=np.int64)
            case OneDistance(number):
                return self.scores(None)[[number]]


class PrivateErrors(Sealed):
    """The distances of the private marginals to public tables, in grains."""

    __slots__ = ("_asked", "_candidates")

    def __init__(self, contents: Distances, names: Sequence[str], reference: Reference) -> None:
        super().__init__(contents, names)
        self._candidates, self._asked = reference.candidates, reference.asked

    @classmethod
    def of(cls, rows: PrivateRows, reference: Reference) -> PrivateErrors:
        """The distances of `rows` to public tables over the domain's own levels, sealed at once."""
        return cls(Distances(rows._contents, reference), rows.names, reference)

    def query(self, what: Measurable, unit: Unit) -> SealedQuery:
        """Each distance moves by `l1_of_score` records, and so does a mean of them, see the top."""
        at = tuple(range(len(self.names)))
        if isinstance(what, OneDistance):
            column = what.number - len(self._candidates)
            at = (self._asked[column],) if column >= 0 else self._candidates.positions(what.number)
        names = tuple(self.names[a] for a in at)
        answers = len(self.names) if isinstance(what, ColumnDistances) else 1
        return SealedQuery(names, at, *(sensitivity_of(answers, unit, kind) for kind in (PURE, ZCDP)))

    def score_sensitivity(self, unit: Unit) -> int:
        """How far a distance moves (records) between neighbours: the other side of it is public."""
        return unit.l1_of_score


def mean(distances: np.ndarray) -> int:
    """The mean of `distances: int64[marginal]` rounded down, exactly, though their sum may need 80 bits."""
    total = (int((distances >> 32).sum()) << 32) + int((distances & (2**32 - 1)).sum())
    return total // len(distances)


def _distances(counts: np.ndarray, tables: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """int64[marginal]: L1 distances of `counts` (records) to `tables` (grains), a few at a time."""
    found, begin = np.zeros(len(offsets) - 1, dtype=np.int64), 0
    while begin < len(found):
        end = int(np.searchsorted(offsets, offsets[begin] + BLOCK_CELLS, side="right")) - 1
        end = min(max(end, begin + 1), len(found))
        cells = slice(int(offsets[begin]), int(offsets[end]))
        gaps = np.abs(counts[cells].astype(np.int64) * SCORE_GRID - tables[cells])
        found[begin:end] = np.add.reduceat(gaps, offsets[begin:end] - offsets[begin])
        begin = end
    return found
