"""A table as every program gets it, and the errors of what they make of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from common.tables import find

from bench.peers import ORDER, Task
from factored_mwem import Domain, evaluate

CATEGORICAL = (
    *("workclass", "education-num", "marital-status", "occupation", "relationship", "race", "sex"),
    *("native-country", "income>50K"),
)


@dataclass(frozen=True)
class Case:
    """A table of codes, as every program gets it."""

    name: str
    table: Path
    sizes: dict[str, int]
    columns: list[np.ndarray]

    def task(self, epsilon: float, delta: float, rows: int | None = None) -> Task:
        domain = self.table.with_suffix(".domain.json")
        return Task(str(self.table), str(domain), epsilon, delta, rows or len(self.columns[0]))

    def errors(self, synthetic: Path) -> dict[str, float]:
        """Mean and worst error of every order."""
        theirs = read_codes(synthetic, self.sizes)
        tables = [pa.table(dict(zip(self.sizes, side, strict=True))) for side in (self.columns, theirs)]
        order = min(ORDER, len(self.sizes))
        by_order = evaluate(*tables, order, domain=Domain.from_dict(self.sizes)).by_order
        found = {f"e{k}": mean for k, (mean, _) in by_order.items()}
        return found | {f"max{k}": worst for k, (_, worst) in by_order.items()}


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
