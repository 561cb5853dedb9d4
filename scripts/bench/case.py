"""A table as every program gets it, and the errors of what they make of it."""

from __future__ import annotations

import itertools
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench.peers import ORDER

CATEGORICAL = (
    "workclass",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
    "income>50K",
)
MAX_CELLS = 2**24
"""A marginal of more cells is renumbered to those that are filled; below, a plain array of all cells is
faster.
"""


@dataclass
class Case:
    """A table of codes, as every program gets it, and its marginals once they have been counted."""

    name: str
    table: Path
    sizes_file: Path
    sizes: dict[str, int]
    columns: list[np.ndarray]
    counted: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)

    def errors(self, synthetic: Path) -> dict[str, float]:
        """Mean error of every order, and the worst of the highest."""
        theirs = read_codes(synthetic, self.sizes)
        found = {}
        for order in range(1, ORDER + 1):
            distances = [
                self._distance(theirs, clique)
                for clique in itertools.combinations(range(len(self.sizes)), order)
            ]
            found[f"e{order}"] = float(np.mean(distances))
        return {**found, f"max{ORDER}": float(np.max(distances))}

    def _distance(self, theirs: list[np.ndarray], clique: tuple[int, ...]) -> float:
        shape = [list(self.sizes.values())[p] for p in clique]
        cells = int(np.prod(shape))
        second = np.ravel_multi_index([theirs[p] for p in clique], shape)
        if cells > MAX_CELLS:
            first = np.ravel_multi_index([self.columns[p] for p in clique], shape)
            _, both = np.unique(np.concatenate([first, second]), return_inverse=True)
            return distance(
                np.bincount(both[: len(first)], minlength=both.max() + 1),
                np.bincount(both[len(first) :], minlength=both.max() + 1),
            )
        if clique not in self.counted:
            self.counted[clique] = np.bincount(
                np.ravel_multi_index([self.columns[p] for p in clique], shape), minlength=cells
            ).astype(np.uint32)
        return distance(self.counted[clique], np.bincount(second, minlength=cells))


def distance(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first / first.sum() - second / second.sum()).sum())


def read_codes(path: Path, sizes: dict[str, int]) -> list[np.ndarray]:
    """The columns of a CSV as codes; ValueError for what no code can be."""
    table = pyarrow.csv.read_csv(path)
    columns = [table[name].to_numpy().astype(np.int64) for name in sizes]
    for (name, size), column in zip(sizes.items(), columns, strict=True):
        if column.min() < 0 or column.max() >= size:
            raise ValueError(f"{path}: {name!r} has a code outside 0..{size - 1}")
    return columns


def prepare(name: str, folder: Path) -> Case:
    """Write the CSV and the sizes that every program gets."""
    source = (
        Path(name)
        if Path(name).suffix in (".csv", ".gz")
        else find("adult_discretised" if name == "adultcat" else name)
    )
    table = pyarrow.csv.read_csv(source)
    declared = source.with_name(source.name.split(".csv")[0] + ".domain.json")
    if declared.exists():
        sizes: dict[str, int] = json.loads(declared.read_text(encoding="utf-8"))
    else:  # brfss2015: whole numbers; what values there are is taken as public here
        columns = {n: table[n].to_numpy().astype(np.int64) for n in table.schema.names}
        table = pa.table({n: column - column.min() for n, column in columns.items()})
        sizes = {n: int(np.ptp(column)) + 1 for n, column in columns.items()}
    name = Path(name).name.split(".csv")[0]
    sizes = {n: sizes[n] for n in CATEGORICAL} if name == "adultcat" else sizes
    written = folder / f"{name}.csv"
    pyarrow.csv.write_csv(table.select(list(sizes)), written)
    written.with_suffix(".domain.json").write_text(json.dumps(sizes), encoding="utf-8")
    return Case(name, written, written.with_suffix(".domain.json"), sizes, read_codes(written, sizes))


def find(name: str) -> Path:
    """The table of that name in FMWEM_DATASETS; SystemExit where there is none."""
    folder = Path(os.environ.get("FMWEM_DATASETS", ".")) / name
    found = sorted(folder.glob("*.csv*")) if folder.is_dir() else []
    return (
        found[0]
        if found
        else sys.exit(
            f"no {name}/*.csv in FMWEM_DATASETS; name that folder, or give the path of a CSV of codes"
        )
    )
