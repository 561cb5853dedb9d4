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
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.tables.source import Private
from factored_mwem.workload.candidates import Candidates

if TYPE_CHECKING:
    from factored_mwem.privacy.counts import Rows

SCORE_GRID = 2**20
"""Scores and distances count records in units of 2^-20, so that model answers become integers and the
sensitivity stays exact.
"""
BLOCK_CELLS = 2**22
"""Cells that are compared at a time."""


def sensitivity_of(answers: int, unit: Unit, composition: Composition) -> int:
    """Squared L2 norm (pure: L1 norm) of what one person changes in so many distances, or means of them: each
    moves by at most `unit.l1_of_score` records.
    """
    grains = unit.l1_of_score * SCORE_GRID
    return answers * (grains**2 if composition is Composition.ZCDP else grains)


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

    Exact below 2^41 rows. One pass over the rows, for what was not counted before.
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

    def exact(self, what: tuple[str, int]) -> np.ndarray:
        """int64: what `Session.measure` adds noise to, see PrivateErrors."""
        kind, number = what
        if kind == "columns":
            return self.columns
        if kind == "mean":
            return np.array([mean(self.sets[self._orders == number])], dtype=np.int64)
        return self.scores(None)[[number]]


def mean(distances: np.ndarray) -> int:
    """The mean of `distances: int64[marginal]` rounded down, exactly, though their sum may need 80 bits."""
    total = (int((distances >> 32).sum()) << 32) + int((distances & (2**32 - 1)).sum())
    return total // len(distances)


def _distances(counts: np.ndarray, tables: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """int64[marginal]: the L1 distances of `counts` (records) to `tables` (grains), a few marginals at a
    time.
    """
    found, begin = np.zeros(len(offsets) - 1, dtype=np.int64), 0
    while begin < len(found):
        end = int(np.searchsorted(offsets, offsets[begin] + BLOCK_CELLS, side="right")) - 1
        end = min(max(end, begin + 1), len(found))
        cells = slice(int(offsets[begin]), int(offsets[end]))
        gaps = np.abs(counts[cells].astype(np.int64) * SCORE_GRID - tables[cells])
        found[begin:end] = np.add.reduceat(gaps, offsets[begin:end] - offsets[begin])
        begin = end
    return found
