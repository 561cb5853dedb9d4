"""PrivateCounts: the rows as codes and the true counts of every candidate marginal. Nothing in it may be printed, pickled or released.

Only `reveal` gives the numbers out, and only `Access.open` in privacy/access.py may call it, after charging the ledger, for `discover`,
`select` and `measure`; tests/test_architecture.py walks the code and holds that.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import numpy as np

from factored_mwem.candidates import Candidates
from factored_mwem.domain import Domain
from factored_mwem.errors import ResourceError
from factored_mwem.kernels.counting import count_binary, count_rows
from factored_mwem.levels import Levels

BLOCK = 2**13
"""Rows counted at a time."""


class Sealed:
    """Base of what holds private numbers: its contents show in no log, pickle or copy."""

    __slots__ = ("_contents",)

    def __init__(self, contents: Any) -> None:
        self._contents = contents

    def reveal(self) -> Any:
        """The private contents, for `Access.open` alone."""
        return self._contents

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds private numbers and cannot be pickled or copied")


class Rows:
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
        return group.astype(np.uint8 if group.max() < 2**8 else np.uint16 if group.max() < 2**16 else np.uint32)[codes]

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
    """What PrivateCounts reveals: the rows, the counts of all bases among the candidates, and each candidate's last distance to the model."""

    __slots__ = ("candidates", "counts", "distances")

    def __init__(self, codes: Sequence[np.ndarray], candidates: Candidates) -> None:
        super().__init__(codes, candidates.levels)
        self.candidates = candidates
        bases = candidates.base_of == np.arange(len(candidates))
        columns = [self.column(v) for v in range(len(candidates.levels))]
        self.counts = count_all(columns, candidates if bases.all() else candidates.keep(bases))
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
        """`codes`: one unsigned array[row] per attribute, each below its size. `candidates` must fit `check_memory`."""
        super().__init__(Tables(codes, candidates))
        self.names = candidates.names


def bytes_of(candidates: Candidates) -> float:
    """Memory of the counts, their index and the model's working tables, from public facts."""
    return 4.0 * float(candidates.cells[candidates.base_of == np.arange(len(candidates))].sum()) + 64.0 * (candidates.members.size + len(candidates))


def check_memory(candidates: Candidates, limit: float) -> None:
    """ResourceError where the candidates' counts would take more than `limit` bytes."""
    need = bytes_of(candidates)
    if need > limit:
        raise ResourceError(
            f"the counts of {len(candidates):,} candidate marginals need {need / 1e9:.1f} GB, more than the {limit / 1e9:.1f} GB allowed; "
            "lower --marginals, --max-cells or the bins of the domain, or use --columns"
        )


def count_all(codes: Sequence[np.ndarray], candidates: Candidates) -> np.ndarray:
    """int32[all cells]: the counts of every candidate, one after the other; `codes`: one unsigned array[row] for each variable."""
    offsets = candidates.offsets
    counts = np.zeros(int(offsets[-1]), dtype=np.int32)
    binary = (candidates.sizes <= 2).all(axis=1) & (candidates.cells == 2.0**candidates.orders) & (candidates.orders >= 2)
    binary &= candidates.orders <= 6  # beyond, a word of 64 rows would be read once for every cell, more often than row by row
    if binary.sum() > 100:
        _count_binary(codes, candidates, offsets, binary, counts)
    else:
        binary[:] = False
    _count_other(codes, candidates, offsets, np.flatnonzero(~binary), counts)
    return counts


def _count_binary(codes: Sequence[np.ndarray], candidates: Candidates, offsets: np.ndarray, binary: np.ndarray, counts: np.ndarray) -> None:
    rows = len(codes[0])
    words = (rows + 63) // 64
    used = np.unique(candidates.members[binary])
    used = used[used >= 0]
    bits = np.zeros((len(codes), words), dtype=np.uint64)
    for position in used:
        bits[position] = _packed(codes[position], words)
    valid = _packed(np.ones(rows, dtype=np.uint8), words)
    for order in np.unique(candidates.orders[binary]):
        which = np.flatnonzero(binary & (candidates.orders == order))
        for part in np.array_split(which, max(1, len(which) // 10_000)):
            out = np.empty(len(part) << order, dtype=np.int32)
            count_binary(bits, valid, np.ascontiguousarray(candidates.members[part]), int(order), out)
            counts[offsets[part][:, None] + np.arange(1 << order)] = out.reshape(len(part), -1)


def _packed(column: np.ndarray, words: int) -> np.ndarray:
    packed = np.zeros(words * 8, dtype=np.uint8)
    bytes_ = np.packbits(column, bitorder="little")
    packed[: len(bytes_)] = bytes_
    return packed.view(np.uint64)


def _count_other(codes: Sequence[np.ndarray], candidates: Candidates, offsets: np.ndarray, which: np.ndarray, counts: np.ndarray) -> None:
    """Block after block of rows, each small enough to stay in the cache; two workers take half of the candidates each."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        for at in range(0, len(codes[0]), BLOCK):
            columns = np.array([column[at : at + BLOCK] for column in codes], dtype=np.int32)
            halves = np.array_split(which, 2)
            jobs = [pool.submit(count_rows, columns, candidates.members, candidates.sizes, half, offsets, counts) for half in halves]
            for job in jobs:
                job.result()
