"""PrivateRows, and PrivateCounts with the true counts of every candidate marginal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels, View, padded
from factored_mwem.errors import ResourceError
from factored_mwem.kernels.counting import MAX_COUNT
from factored_mwem.kernels.scoring import Answers, Coarser, Counts, distances
from factored_mwem.privacy.rows import SCORE_CUTOFF, SCORE_GRID, Rows, Sealed, SealedQuery, added_up
from factored_mwem.tables.backends.counting import bytes_needed
from factored_mwem.tables.backends.datavectors import CountedOnce
from factored_mwem.tables.backends.source import Source, Spill
from factored_mwem.workload.candidates import Candidates

NO_COUNTS = np.zeros(0, dtype=np.int64)
FORESEEN_CELLS = 2**26
"""Cells of all candidates, at their finest, counted in one pass where a pass is dear: half a gigabyte."""
SMALL = 2**10
"""Candidates of at most so many cells are counted, though they could be added up: it is cheaper so."""


class CandidateTables(Rows):
    """The rows, the counts of all bases among the candidates, and each one's last distance to the model."""

    __slots__ = ("also", "candidates", "distances", "held")

    def __init__(self, rows: Rows, candidates: Candidates, also: Sequence[View] = ()) -> None:
        super().__init__(rows.data, candidates.levels, rows.columns, rows.lookups)
        self._singles = rows.singles  # at other levels, too, they are over the attributes themselves
        self.candidates = candidates
        more = _beyond(candidates, [view for view in dict.fromkeys(also) if len(view) > 1])
        members, offsets = _to_count(candidates, more)
        if (members >= 0).sum(axis=1).max(initial=0) > 1:
            counts = self.counts(members, offsets)
        else:
            counts = np.concatenate([NO_COUNTS, *(Rows.marginal(self, m[:1]) for m in members)])
        ends = int(candidates.offsets[-1]) + np.cumsum([0, *map(candidates.levels.cells, more)])
        parts = zip(more, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        self.also = {view: counts[begin:end].astype(np.int64) for view, begin, end in parts}
        counts = counts[: int(candidates.offsets[-1])]
        # 32 bits are enough for a score, and one row moves what is cut off by no more than before; of people,
        # who count in grains, they are not, so nothing is cut off
        narrow = counts.dtype == np.int32 or self.data.weighted
        self.held = counts if narrow else np.minimum(counts, MAX_COUNT).astype(np.int32)
        self.distances = np.zeros(len(candidates), dtype=np.int64)

    def marginal(self, variables: Sequence[int]) -> np.ndarray:
        """int64[cells]: of a candidate, from its base; of a view counted with them; else see Rows."""
        if (view := tuple(variables)) in self.also:
            return self.also[view]
        candidate = self._find(variables) if len(variables) > 1 else None
        if candidate is None:
            return super().marginal(variables)
        base = int(self.candidates.base_of[candidate])
        counts = self.held[self.candidates.offsets[base] : self.candidates.offsets[base + 1]]
        view = self.candidates.positions(candidate)
        return added_up(self.levels, self.candidates.positions(base), view, counts)

    exact = marginal
    """What `Session.measure` adds noise to."""

    def _find(self, variables: Sequence[int]) -> int | None:
        """The number of the candidate over these variables, if there is one."""
        members = self.candidates.members
        if len(variables) > members.shape[1]:
            return None
        padded = np.array([*variables, *(-1,) * (members.shape[1] - len(variables))])
        found = np.flatnonzero(members[:, 0] == padded[0])
        found = found[(members[found] == padded).all(axis=1)]
        return int(found[0]) if len(found) else None

    def scores(self, answers: Answers) -> np.ndarray:
        """int64[candidate]: the L1 distance (SCORE_GRID a record) of each true marginal to the model's, less
        the harm that noise would do, see `kernels.scoring.distances`.

        `answers` holds the bases to compare anew; the others' distances are kept, to what the model answered
        before. That is as public, so a score moves no further from one table to its neighbour.
        """
        halves = [half for half in np.array_split(np.arange(len(answers.which)), 2) if len(half)]
        with ThreadPoolExecutor(max_workers=2) as pool:
            for job in [pool.submit(self._score, answers.part(half)) for half in halves]:
                job.result()
        return self.distances

    def _score(self, answers: Answers) -> None:
        """Bring the distances of the bases in `answers`, and of what is added up from them, up to date."""
        candidates = self.candidates
        total, harm = (float(min(amount, SCORE_CUTOFF)) for amount in (answers.total, answers.harm))
        capped = answers._replace(total=total, harm=harm)
        counts = Counts(self.held, candidates.offsets)
        coarser = Coarser(*candidates.coarse)
        distances(capped, candidates.sizes, counts, float(SCORE_GRID), coarser, self.distances)


class PrivateRows(Sealed):
    """The private table: its marginals, through `Session.measure` alone. Kinds that are made of it, each
    sealed again by its own `of`, are in files of their own.
    """

    __slots__ = ()

    @classmethod
    def coded(cls, codes: Sequence[np.ndarray], domain: Domain) -> PrivateRows:
        """Rows that are codes already: one unsigned array[row] per attribute, each below its size."""
        return cls(Rows.coded(codes, domain.shape), domain.names)

    @classmethod
    def of(cls, domain: Domain, table: Source, spill: Spill) -> PrivateRows:
        """The rows of a table, encoded and sealed at once."""
        return cls(Rows(table.encoded(domain, spill), Levels.fine(domain.shape)), domain.names)

    def recode(self, domain: Domain, codes: Mapping[str, np.ndarray]) -> PrivateRows:
        """The same rows, still sealed, in another domain, of some of the columns: `codes[name]: int64[old
        code]` are the new ones. A public function of each row.
        """
        rows, at = self._contents, [self.names.index(name) for name in domain.names]
        lookups = [
            codes[name].astype(np.uint32)[... if rows.lookups[a] is None else rows.lookups[a]]
            for name, a in zip(domain.names, at, strict=True)
        ]
        columns = [rows.columns[a] for a in at]
        return PrivateRows(Rows(rows.data, Levels.fine(domain.shape), columns, lookups), domain.names)

    def foresee(self, candidates: Candidates) -> PrivateRows:
        """The same rows, still sealed, where a pass is dear and all `candidates` together are small: their
        next pass counts all of them as fine as they are, and whatever follows is added up from that.
        """
        rows: Rows = self._contents
        if not rows.data.dear or candidates.cells.sum() > FORESEEN_CELLS:
            return self
        axes = [rows.axis(a) for a in range(len(rows.levels.shape))]
        return PrivateRows(Rows(CountedOnce(rows.data, axes, candidates.members), rows.levels), self.names)

    def count(self, candidates: Candidates, also: Sequence[View] = ()) -> PrivateCounts:
        """The same rows, still sealed, with the counts of `candidates`, and of the views `also` of the same
        levels; together they must fit `check_memory`. One pass.
        """
        return PrivateCounts(CandidateTables(self._contents, candidates, also), candidates.names)

    def public_total(self, unit: Unit) -> int | None:
        """The number of rows where all neighbouring tables share it; else None."""
        return int(self._contents.marginal(())[0]) if unit.total_is_public else None

    def query(self, variables: Sequence[int], unit: Unit) -> SealedQuery:
        """A marginal."""
        return SealedQuery.of_marginal(tuple(self.names[v] for v in variables), tuple(variables), unit)


class PrivateCounts(PrivateRows):
    """The private table with the counts of candidates, for `Session.select` and `Session.measure`."""

    __slots__ = ()

    def score_sensitivity(self, unit: Unit) -> int:
        """See Sealed."""
        return unit.l1_of_score


def _beyond(candidates: Candidates, views: Sequence[View]) -> list[View]:
    """The views that are no candidates."""
    if not views:
        return []
    rows = _below(candidates.members, padded(views))
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    known = np.isin(keys[len(candidates) :], keys[: len(candidates)])
    return [view for view, listed in zip(views, known.tolist(), strict=True) if not listed]


def _below(*parts: np.ndarray) -> np.ndarray:
    """int32[marginal, slot]: the marginals of all parts, padded alike."""
    width = max(part.shape[1] for part in parts)
    wide = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1) for part in parts]
    return np.ascontiguousarray(np.concatenate(wide), dtype=np.int32)


def _to_count(candidates: Candidates, also: Sequence[View] = ()) -> tuple[np.ndarray, np.ndarray]:
    """(members, offsets) counted: the bases, the views `also`, small candidates that make it cheaper."""
    bases = candidates.base_of == np.arange(len(candidates))
    small = ~bases & (candidates.cells <= SMALL)
    listed = _below(candidates.members[bases], padded(also), candidates.members[small])
    cells = np.append(candidates.levels.sizes, 1)[listed].astype(np.int64).prod(axis=1)
    return listed, np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)


def bytes_of(candidates: Candidates) -> float:
    """Memory of the counts, their index and the model's working tables, by public facts, for any rows."""
    members, offsets = _to_count(candidates)
    return bytes_needed(members, candidates.levels.sizes, offsets, MAX_COUNT) + 64.0 * candidates.members.size


def check_memory(candidates: Candidates, limit: float) -> None:
    """Raises ResourceError if the candidates' counts would take more than `limit` bytes."""
    need = bytes_of(candidates)
    if need > limit:
        raise ResourceError(
            f"the counts of {len(candidates):,} candidate marginals need {need / 1e9:.1f} GB, more than the "
            f"{limit / 1e9:.1f} GB allowed; "
            "lower --marginals, --max-cells or the bins of the domain, or use --columns"
        )
