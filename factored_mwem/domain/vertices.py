"""Vertices: the public vertex set of a private graph, and the numbers of its pairs.

The universe of a graph is the unordered pairs of vertices, without loops. Pair (i, j) with i < j has number
i (2 n - i - 1) / 2 + (j - i - 1): row after row of the upper triangle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.errors import InputError, shown
from factored_mwem.files.files import read_text

MOST = 10**7
"""Their names are kept in memory."""
FORM = "a number of vertices, which are then 0, 1, ..., or a file with a name on each line"


@dataclass(frozen=True, eq=False)
class Vertices:
    """The names of all vertices, in the order of their numbers. Declared without looking at the edges: the
    vertices that edges name are as private as the edges.

    >>> from factored_mwem.domain.vertices import Vertices
    >>> Vertices.of(4).pairs, Vertices.of(["ann", "bob", "eve"]).numbers_of(["eve", "ann"]).tolist()
    (6, [2, 0])
    """

    names: tuple[str, ...]

    @classmethod
    def of(cls, given: Any) -> Vertices:
        """Of a count, names or a file. Raises InputError unless there are at least two vertices."""
        if isinstance(given, Vertices):
            return given
        if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 12:
            given = int(given)
        if isinstance(given, bool) or given is None:
            raise InputError(f"vertices={shown(given)}: must be {FORM}")
        if isinstance(given, int | np.integer):
            if not 2 <= given <= MOST:
                raise InputError(f"vertices={int(given)}: must be a number from 2 to {MOST:,}")
            return cls(tuple(map(str, range(int(given)))))
        where = "the list of vertices"
        if isinstance(given, str | Path):
            where = str(given)
            try:
                given = read_text(Path(given), "list of vertices").split("\n")
            except UnicodeDecodeError:
                raise InputError(f"{where} is not UTF-8 text") from None
            given = [line for line in given if line.strip()]
        try:
            names = tuple(str(name).strip() for name in given)
        except TypeError:
            raise InputError(f"vertices={shown(given)}: must be {FORM}") from None
        return cls(_checked(names, where))

    def __repr__(self) -> str:
        return f"Vertices({len(self):,})"

    def __len__(self) -> int:
        return len(self.names)

    @property
    def pairs(self) -> int:
        """How many unordered pairs there are."""
        return len(self) * (len(self) - 1) // 2

    @cached_property
    def listed(self) -> pa.Array:
        """The names as a column."""
        return pa.array(self.names, pa.string())

    @cached_property
    def digest(self) -> str:
        """What tells one vertex set from another: hex digits."""
        return sha256("\n".join(self.names).encode()).hexdigest()

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def known(self) -> frozenset[str]:
        """The names, to look one up."""
        return frozenset(self.names)

    def numbers_of(self, names: Iterable[Any]) -> np.ndarray:
        """int64[name]: of names that somebody asks about. Raises InputError if one is no vertex."""
        numbers = []
        for name in names:
            number = self._number.get(str(name).strip())
            if number is None:
                raise InputError(f"{shown(str(name))} is not in the vertex set")
            numbers.append(number)
        return np.array(numbers, dtype=np.int64)

    def pair_numbers(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """int64[pair]: the numbers of pairs of vertex numbers, low < high each."""
        low, high = low.astype(np.int64), high.astype(np.int64)
        return low * (2 * len(self) - low - 1) // 2 + high - low - 1

    def ends(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(low, high), int64 each: the vertices of pairs by their numbers."""
        begins = self.row_begins
        low = np.searchsorted(begins, pairs, side="right") - 1
        return low, pairs - begins[low] + low + 1

    @cached_property
    def row_begins(self) -> np.ndarray:
        """int64[vertex]: the number of the first pair whose lower end it is."""
        at = np.arange(len(self), dtype=np.int64)
        return at * (2 * len(self) - at - 1) // 2


def _checked(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    if not 2 <= len(names) <= MOST:
        raise InputError(f"{where}: names {len(names)} vertices; a graph needs two or more")
    if not all(names):
        raise InputError(f"{where}: the name of a vertex is empty")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InputError(f"{where}: names {shown(twice)} twice")
    return names
