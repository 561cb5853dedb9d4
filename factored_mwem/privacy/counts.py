"""PrivateCounts: the rows as codes and the true counts of every candidate marginal. Nothing in it may be
printed, pickled or released.

Only `reveal` gives the numbers out, and only `Session._unseal` may call it, after charging the accountant,
for `discover`, `select`, `measure` and `measure_residuals`; tests/test_architecture.py walks the code and
holds that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import ResourceError
from factored_mwem.kernels.counting import MAX_COUNT
from factored_mwem.kernels.scoring import Answers, Coarser, Counts, distances
from factored_mwem.privacy.counting import bytes_needed, count_all
from factored_mwem.tables.codec import code_dtype, encode_table
from factored_mwem.tables.source import Private, Table
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.queries.base import Questions

SCORE_GRID = 2**20
"""Scores count records in units of 2^-20, so that model answers become integers and the sensitivity stays
exact.
"""
SCORE_CUTOFF = 2.0**40
"""A model's total and a penalty are cut off here before they become scores: beyond 2^42 they would overflow,
and the sensitivity with them.
"""
SMALL = 2**10
"""Candidates of at most this many cells are counted though they could be added up: larger ones are then
counted by bits, see counting.py.
"""


class Sealed(Private):
    """Base of what holds private numbers for others to ask: only `reveal` gives them out."""

    __slots__ = ("_contents",)

    def __init__(self, contents: Any) -> None:
        self._contents = contents

    def reveal(self) -> Any:
        """The private contents, for `Session._unseal` alone."""
        return self._contents


class Rows(Private):
    """What PrivateRows reveals: the rows as codes, and any marginal of them."""

    __slots__ = ("codes", "levels")

    def __init__(self, codes: Sequence[np.ndarray], levels: Levels) -> None:
        self.codes, self.levels = codes, levels

    def column(self, variable: int) -> np.ndarray:
        """uint[row]: the codes of a variable."""
        codes = self.codes[int(self.levels.attribute[variable])]
        if variable < len(self.codes):
            return codes
        group = self.levels.groups[variable]
        return group.astype(
            np.uint8 if group.max() < 2**8 else np.uint16 if group.max() < 2**16 else np.uint32
        )[codes]

    def marginal(self, variables: Sequence[int]) -> np.ndarray:
        """int64[cells]: the counts over `variables`; over none, the number of rows."""
        cells = 1
        cell = np.zeros(len(self.codes[0]), dtype=np.int64)
        for variable in variables:
            size = int(self.levels.sizes[variable])
            cell *= size
            cell += self.column(variable)
            cells *= size
        return np.bincount(cell, minlength=cells).astype(np.int64)

    exact = marginal
    """What `Session.measure` adds noise to."""


class Tables(Rows):
    """What PrivateCounts reveals: the rows, the counts of all bases among the candidates, and each
    candidate's last distance to the model.
    """

    __slots__ = ("candidates", "counts", "distances")

    def __init__(self, codes: Sequence[np.ndarray], candidates: Candidates) -> None:
        super().__init__(codes, candidates.levels)
        self.candidates = candidates
        members, offsets = _to_count(candidates)
        columns = [self.column(v) for v in range(len(candidates.levels))]
        self.counts = count_all(columns, candidates.levels.sizes, members, offsets)[
            : int(candidates.offsets[-1])
        ]
        self.distances = np.zeros(len(candidates), dtype=np.int64)

    def scores(self, answers: Answers) -> np.ndarray:
        """int64[candidate]: the L1 distance (SCORE_GRID a record) of each true marginal to the model's.

        `answers` holds the bases whose distance may have changed since the last call; the others' are kept.
        """
        halves = [half for half in np.array_split(np.arange(len(answers.which)), 2) if len(half)]
        with ThreadPoolExecutor(max_workers=2) as pool:
            for job in [pool.submit(self._score, answers.part(half)) for half in halves]:
                job.result()
        return self.distances

    def _score(self, answers: Answers) -> None:
        """Bring the distances of the bases in `answers`, and of what is added up from them, up to date."""
        candidates = self.candidates
        capped = answers._replace(total=float(min(answers.total, SCORE_CUTOFF)))
        sizes, counts = candidates.sizes[answers.which], Counts(self.counts, candidates.offsets)
        distances(capped, sizes, counts, float(SCORE_GRID), Coarser(*candidates.coarse), self.distances)


class TrueAnswers(Private):
    """What PrivateAnswers reveals: the answers to all questions, `int64[answer]`; question q has those from
    `starts[q]` to `starts[q + 1]`.
    """

    __slots__ = ("answers", "starts")

    def __init__(self, answers: np.ndarray, starts: np.ndarray) -> None:
        self.answers, self.starts = answers, starts

    def exact(self, question: int) -> np.ndarray:
        """int64: the answers to one question."""
        return self.answers[self.starts[question] : self.starts[question + 1]]

    def scores(self, answers: np.ndarray) -> np.ndarray:
        """int64[question]: the sum over its answers of |model - truth| (SCORE_GRID a record).

        `answers: float64` are the model's; they are rounded to the grid before the truth is taken off, so a
        score moves by no more than the question's answers do together.
        """
        kept = np.clip(np.nan_to_num(answers), -SCORE_CUTOFF, SCORE_CUTOFF)
        # a score adds up all cells of a table
        most = np.maximum(np.add.reduceat(np.abs(kept), self.starts[:-1]), SCORE_CUTOFF)
        scaled = kept * np.repeat(SCORE_CUTOFF / most, np.diff(self.starts)) * SCORE_GRID
        grid = np.rint(scaled).astype(np.int64)
        return np.add.reduceat(np.abs(grid - self.answers * SCORE_GRID), self.starts[:-1])


class PrivateRows(Sealed):
    """The private table: its marginals, through `Session.measure` alone."""

    __slots__ = ("names",)

    def __init__(self, codes: Sequence[np.ndarray], domain: Domain) -> None:
        """`codes`: one unsigned array[row] per attribute, each below its size."""
        super().__init__(Rows(codes, Levels.fine(domain.shape)))
        self.names = domain.names

    @classmethod
    def of(cls, domain: Domain, table: Table) -> PrivateRows:
        """The rows of a table, encoded and sealed at once."""
        return cls(encode_table(domain, table), domain)

    def recode(self, domain: Domain, codes: Mapping[str, np.ndarray]) -> PrivateRows:
        """The same rows, still sealed, in another domain, of some of the columns: `codes[name]: int64[old
        code]` are the new ones. A public function of each row.
        """
        recoded = [
            codes[a.name].astype(code_dtype(a))[self._contents.codes[self.names.index(a.name)]]
            for a in domain
        ]
        return PrivateRows(recoded, domain)

    def count(self, candidates: Candidates) -> PrivateCounts:
        """The same rows, still sealed, with the counts of `candidates`, which must fit `check_memory`."""
        return PrivateCounts(self._contents.codes, candidates)

    def answer(self, domain: Domain, kinds: Sequence[Questions]) -> PrivateAnswers:
        """The same rows' answers to all questions of these kinds, still sealed."""
        return PrivateAnswers(self._contents.codes, domain, kinds)

    def public_total(self, unit: Unit) -> int | None:
        """The number of rows where all neighbouring tables share it; else None."""
        return len(self._contents.codes[0]) if unit.total_is_public else None

    def positions(self, variables: Sequence[int]) -> tuple[int, ...]:
        """What a measurement is about: the variables themselves."""
        return tuple(variables)

    def subject(self, variables: Sequence[int]) -> tuple[str, ...]:
        """The names of what a measurement is about."""
        return tuple(self.names[v] for v in variables)

    def sensitivity(self, variables: Sequence[int], unit: Unit, composition: Composition) -> int:
        """Squared L2 norm (pure: L1 norm) of what one person changes in a marginal, whatever its number of
        cells: they are disjoint in rows.
        """
        return unit.of_marginal(composition)


class PrivateCounts(PrivateRows):
    """The private table with the counts of candidates, for `Session.select` and `Session.measure`."""

    __slots__ = ()

    def __init__(self, codes: Sequence[np.ndarray], candidates: Candidates) -> None:
        """`codes`: one unsigned array[row] per attribute, each below its size. `candidates` must fit
        `check_memory`.
        """
        Sealed.__init__(self, Tables(codes, candidates))
        self.names = candidates.names

    def score_sensitivity(self, unit: Unit) -> int:
        """How far a score moves (records) between neighbours: the model's side of it is public."""
        return unit.l1_of_score


class PrivateAnswers(Sealed):
    """The true answers to questions of several kinds, one after the other; which question begins where is
    public.
    """

    __slots__ = ("kinds", "names", "starts")

    def __init__(self, codes: Sequence[np.ndarray], domain: Domain, kinds: Sequence[Questions]) -> None:
        """`codes`: one unsigned array[row] per attribute, each below its size."""
        rows = Rows(codes, Levels.fine(domain.shape))
        self.kinds, self.names = tuple(kinds), domain.names
        cells = np.concatenate([kind.cells for kind in kinds])
        self.starts = np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)
        answers = np.concatenate([kind.answers(rows) for kind in kinds]).astype(np.int64)
        super().__init__(TrueAnswers(answers, self.starts))

    def kind_of(self, question: int) -> tuple[Questions, int]:
        """The kind of a question and its number within it."""
        for kind in self.kinds:
            if question < len(kind.cells):
                return kind, question
            question -= len(kind.cells)
        raise IndexError(question)

    def positions(self, question: int) -> tuple[int, ...]:
        """The attributes that a question is about, ascending."""
        kind, number = self.kind_of(question)
        return kind.positions(number)

    def subject(self, question: int) -> tuple[str, ...]:
        """The names of the attributes that a question is about."""
        return tuple(self.names[a] for a in self.positions(question))

    def sensitivity(self, question: int, unit: Unit, composition: Composition) -> int:
        """Squared L2 norm (pure: L1 norm) of what one person changes in a question's answers, as its kind
        says.
        """
        kind, _ = self.kind_of(question)
        return kind.l2_squared(unit) if composition is Composition.ZCDP else kind.l1(unit)

    def score_sensitivity(self, unit: Unit) -> int:
        """The largest among the kinds counts for all: questions of several kinds compete."""
        return max(kind.l1(unit) for kind in self.kinds)


def _to_count(candidates: Candidates) -> tuple[np.ndarray, np.ndarray]:
    """(members, offsets) of what is counted: the bases and, after them, small candidates that make counting
    the bases cheaper.
    """
    bases = candidates.base_of == np.arange(len(candidates))
    order = np.concatenate([np.flatnonzero(bases), np.flatnonzero(~bases & (candidates.cells <= SMALL))])
    offsets = np.concatenate([[0], np.cumsum(candidates.cells[order].astype(np.int64))]).astype(np.int64)
    return np.ascontiguousarray(candidates.members[order]), offsets


def bytes_of(candidates: Candidates) -> float:
    """Memory of the counts, their index and the model's working tables, from public facts: any number of rows
    will do.
    """
    members, offsets = _to_count(candidates)
    return bytes_needed(members, candidates.levels.sizes, offsets, MAX_COUNT) + 64.0 * candidates.members.size


def check_memory(candidates: Candidates, limit: float) -> None:
    """ResourceError where the candidates' counts would take more than `limit` bytes."""
    need = bytes_of(candidates)
    if need > limit:
        raise ResourceError(
            f"the counts of {len(candidates):,} candidate marginals need {need / 1e9:.1f} GB, more than the "
            f"{limit / 1e9:.1f} GB allowed; "
            "lower --marginals, --max-cells or the bins of the domain, or use --columns"
        )
