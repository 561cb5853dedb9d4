"""PrivateCounts: the rows as codes and the true counts of every candidate marginal. Nothing in it may be
printed, pickled or released.

Only `reveal` gives the numbers out, and only `Access.open` in privacy/access.py may call it, after charging
the ledger, for `discover`, `select` and `measure`; tests/test_architecture.py walks the code and holds that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import ResourceError
from factored_mwem.kernels.counting import MAX_COUNT
from factored_mwem.privacy.counting import bytes_needed, count_all
from factored_mwem.tables.source import Private
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.queries.base import Questions

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
        """The private contents, for `Access.open` alone."""
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

    def marginal(self, positions: Sequence[int]) -> np.ndarray:
        """int64[cells]: the counts over the variables `positions`; over none, the number of rows."""
        cells = 1
        cell = np.zeros(len(self.codes[0]), dtype=np.int64)
        for position in positions:
            size = int(self.levels.sizes[position])
            cell *= size
            cell += self.column(position)
            cells *= size
        return np.bincount(cell, minlength=cells).astype(np.int64)


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


class PrivateRows(Sealed):
    """The private table before its candidates are known."""

    __slots__ = ("names",)

    def __init__(self, codes: Sequence[np.ndarray], domain: Domain) -> None:
        """`codes`: one unsigned array[row] per attribute, each below its size."""
        super().__init__(Rows(codes, Levels.fine(domain.shape)))
        self.names = domain.names

    def count(self, candidates: Candidates) -> PrivateCounts:
        """The same rows, still sealed, with the counts of `candidates`, which must fit `check_memory`."""
        return PrivateCounts(self._contents.codes, candidates)


class PrivateCounts(Sealed):
    """The private table as the mechanism sees it: through `select` and `measure` alone."""

    __slots__ = ("names",)

    def __init__(self, codes: Sequence[np.ndarray], candidates: Candidates) -> None:
        """`codes`: one unsigned array[row] per attribute, each below its size. `candidates` must fit
        `check_memory`.
        """
        super().__init__(Tables(codes, candidates))
        self.names = candidates.names


class PrivateAnswers(Sealed):
    """The true answers to questions of several kinds, `int64[answer]`, one after the other; which question
    begins where is public.
    """

    __slots__ = ("kinds", "names", "starts")

    def __init__(self, codes: Sequence[np.ndarray], domain: Domain, kinds: Sequence[Questions]) -> None:
        """`codes`: one unsigned array[row] per attribute, each below its size."""
        rows = Rows(codes, Levels.fine(domain.shape))
        super().__init__(np.concatenate([kind.answers(rows) for kind in kinds]).astype(np.int64))
        self.kinds, self.names = tuple(kinds), domain.names
        self.starts = np.concatenate([[0], np.cumsum(np.concatenate([kind.cells for kind in kinds]))]).astype(
            np.int64
        )

    def kind_of(self, question: int) -> tuple[Questions, int]:
        """The kind of a question and its number within it."""
        for kind in self.kinds:
            if question < len(kind.cells):
                return kind, question
            question -= len(kind.cells)
        raise IndexError(question)


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
