"""A table as every program gets it, and the errors of what they make of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from common.tables import find

from bench.peers import ORDER, Task

CATEGORICAL = (
    *("workclass", "education-num", "marital-status", "occupation", "relationship", "race", "sex"),
    *("native-country", "income>50K"),
)
MAX_CELLS = 2**22
"""A marginal of more cells is renumbered to those that are filled; below, a plain array of all cells is
faster.
"""
Clique = tuple[int, ...]


class Marginals:
    """The marginals of real rows of codes, each counted once."""

    def __init__(self, columns: Sequence[np.ndarray], sizes: Iterable[int]) -> None:
        self.columns, self.sizes = columns, tuple(sizes)
        self._counted: dict[Clique, np.ndarray] = {}

    def distance(self, theirs: Sequence[np.ndarray], clique: Clique) -> float:
        """L1 distance of a marginal of the real rows from that of others, 0 to 2."""
        shape = [self.sizes[p] for p in clique]
        cells = int(np.prod(shape))
        made = np.ravel_multi_index([theirs[p] for p in clique], shape)
        if clique in self._counted:
            return distance(self._counted[clique], np.bincount(made, minlength=cells))
        real = np.ravel_multi_index([self.columns[p] for p in clique], shape)
        if cells > MAX_CELLS:
            filled, both = np.unique(np.concatenate([real, made]), return_inverse=True)
            parts = (both[: len(real)], both[len(real) :])
            return distance(*(np.bincount(part, minlength=len(filled)) for part in parts))
        self._counted[clique] = np.bincount(real, minlength=cells).astype(np.uint32)
        return distance(self._counted[clique], np.bincount(made, minlength=cells))

    def distances(self, theirs: Sequence[np.ndarray], cliques: Iterable[Clique]) -> list[float]:
        return [self.distance(theirs, clique) for clique in cliques]


def distance(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first / first.sum() - second / second.sum()).sum())


@dataclass(frozen=True)
class Case:
    """A table of codes, as every program gets it."""

    name: str
    table: Path
    sizes: dict[str, int]
    columns: list[np.ndarray]

    @cached_property
    def marginals(self) -> Marginals:
        return Marginals(self.columns, self.sizes.values())

    def task(self, epsilon: float, delta: float, rows: int | None = None) -> Task:
        domain = self.table.with_suffix(".domain.json")
        return Task(str(self.table), str(domain), epsilon, delta, rows or len(self.columns[0]))

    def errors(self, synthetic: Path) -> dict[str, float]:
        """Mean and worst error of every order."""
        theirs, found = read_codes(synthetic, self.sizes), {}
        for order in range(1, ORDER + 1):
            cliques = itertools.combinations(range(len(self.sizes)), order)
            distances = self.marginals.distances(theirs, cliques)
            found |= {f"e{order}": float(np.mean(distances)), f"max{order}": float(np.max(distances))}
        return found


def read_codes(path: Path, sizes: dict[str, int]) -> list[np.ndarray]:
    """The columns of a CSV as codes; ValueError for what no code can be."""
    table = pyarrow.csv.read_csv(path)
    columns = [table[name].to_numpy().astype(np.int64) for name in sizes]
    for (name, size), column in zip(sizes.items(), columns, strict=True):
        if column.min() < 0 or column.max() >= size:
            raise ValueError(f"{path}: {name!r} has a code outside 0..{size - 1}")
    return columns


def whole_numbers(path: Path) -> dict[str, np.ndarray]:
    """int64[row] by column of a table of whole numbers."""
    table = pyarrow.csv.read_csv(path)
    return {name: table[name].to_numpy().astype(np.int64) for name in table.schema.names}


def prepare(name: str, folder: Path) -> Case:
    """Write the CSV and the sizes that every program gets."""
    own = Path(name).suffix in (".csv", ".gz")
    source = Path(name) if own else find("adult_discretised" if name == "adultcat" else name)
    name = Path(name).name.split(".csv")[0]
    declared = source.with_name(source.name.split(".csv")[0] + ".domain.json")
    if declared.exists():
        sizes: dict[str, int] = json.loads(declared.read_text(encoding="utf-8"))
        table = pyarrow.csv.read_csv(source)
    else:  # brfss2015: whole numbers; what values there are is taken as public here
        columns = {n: column - column.min() for n, column in whole_numbers(source).items()}
        sizes, table = {n: int(np.ptp(c)) + 1 for n, c in columns.items()}, pa.table(columns)
    sizes = {n: sizes[n] for n in CATEGORICAL} if name == "adultcat" else sizes
    written = folder / f"{name}.csv"
    pyarrow.csv.write_csv(table.select(list(sizes)), written)
    written.with_suffix(".domain.json").write_text(json.dumps(sizes), encoding="utf-8")
    return Case(name, written, sizes, read_codes(written, sizes))
