"""Codes: encoded rows on this machine, in memory once or, where they are too many, in mapped files."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.files.files import write_whole
from factored_mwem.tables.backends.counting import AxisCodes, count_all
from factored_mwem.tables.backends.datavectors import Axis
from factored_mwem.tables.codes.codec import code_dtype, encode
from factored_mwem.tables.inputs.input_file import full, nameless
from factored_mwem.tables.inputs.table import Private, Table

CHUNK_ROWS = 2**22
"""Rows of a part of a column in memory."""


class Codes(Private):
    """One unsigned array[row] per column, each code below its size; arrays may be mapped files."""

    __slots__ = ("columns", "sizes")
    dear = weighted = False

    def __init__(self, columns: Sequence[np.ndarray], sizes: Sequence[int]) -> None:
        self.columns, self.sizes = tuple(columns), tuple(sizes)

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """See Datavectors. On all cores, in blocks of rows: memory does not depend on how many there are."""
        columns = [AxisCodes(self.columns[axis.column], axis.lookup) for axis in axes]
        return count_all(columns, np.array([axis.size for axis in axes], np.int64), members, offsets)


def encode_table(domain: Domain, table: Table, most: float = math.inf, folder: Path | None = None) -> Codes:
    """The codes of the whole table, read batch by batch; beyond `most` bytes they are kept in files in a
    private folder inside `folder`.

    Two columns at a time, for pyarrow and numpy leave the interpreter free. Raises Busy if the disk is full.
    """
    store = _Store(domain, most, folder)
    with contextlib.closing(store), ThreadPoolExecutor(max_workers=2) as pool:
        for batch in table.batches(domain.names):
            store.add(list(pool.map(encode, domain, batch.columns)))
        return Codes(list(store.columns()), domain.shape)


class _Store:
    """Codes as they come: parts of CHUNK_ROWS in memory, until they are more than `most` bytes; then one raw
    file a column.

    Large parts, filled as batches come, for kept among what a batch needs for a moment, small ones leave
    memory full of holes (7 GB for 2 GB of codes). The files have no name: they are gone when nobody has them
    open, however the process ends.
    """

    def __init__(self, domain: Domain, most: float, folder: Path | None) -> None:
        self._types = [code_dtype(attribute) for attribute in domain]
        self._parts: list[list[np.ndarray]] = [[] for _ in domain]
        self._files: list[int] = []
        self._most, self._folder, self._bytes, self._rows = most, folder, 0, 0
        self._used = 0
        """Rows of the last parts."""

    def add(self, codes: Sequence[np.ndarray]) -> None:
        self._rows += len(codes[0])
        self._bytes += sum(part.nbytes for part in codes)
        if not self._files and self._bytes <= self._most:
            self._keep(codes)
        else:
            self._spill(codes)

    def _keep(self, codes: Sequence[np.ndarray]) -> None:
        for kind, parts, part in zip(self._types, self._parts, codes, strict=True):
            at, left = self._used, part
            while len(left):
                if at == CHUNK_ROWS or not parts:
                    parts.append(np.empty(CHUNK_ROWS, dtype=kind))
                    at = 0
                taken = left[: CHUNK_ROWS - at]
                parts[-1][at : at + len(taken)] = taken
                at, left = at + len(taken), left[len(taken) :]
        self._used = at

    def _kept(self, column: int) -> list[np.ndarray]:
        """The parts of a column, which are let go here."""
        parts, self._parts[column] = self._parts[column], []
        return [*parts[:-1], parts[-1][: self._used]] if parts else []

    def _spill(self, codes: Sequence[np.ndarray]) -> None:
        try:
            if not self._files:
                self._files = [nameless(self._folder, ".codes") for _ in codes]
            for column, (handle, more) in enumerate(zip(self._files, codes, strict=True)):
                for part in (*self._kept(column), more):
                    write_whole(handle, part.tobytes())
        except OSError as error:
            why = error.strerror
        else:
            return
        raise full("codes", self._folder, why)

    def columns(self) -> Iterable[np.ndarray]:
        """uint[row] of each column, once all are added. Parts are let go as soon as they are joined."""
        for i, kind in enumerate(self._types):
            if self._files and self._rows:
                with os.fdopen(os.dup(self._files[i]), "rb") as file:
                    yield np.memmap(file, dtype=kind, mode="r", shape=(self._rows,))
            else:
                yield np.concatenate([np.zeros(0, dtype=kind), *self._kept(i)])

    def close(self) -> None:
        for handle in self._files:
            os.close(handle)
