"""What errors do releases have beside what can be known before them? The figures that `fmwem plan` rests on.
NOT PRIVATE: it reads the tables.

    python scripts/bench planning run -o planning.jsonl --seconds 1200
    python scripts/bench planning fit planning.jsonl       # without a file: of the releases kept beside this

`run` makes small releases of parts of public tables: some rows, some columns, at an epsilon drawn at random
between .05 and 10, with Gaussian or (one in six) Laplace noise, under a declared domain or a learnt one; and
writes a line for each with the mean errors of its marginals by order (under a learnt domain, over neutral
bins). It appends, and ends after so many seconds of CPU. `fit` prints the constants of
factored_mwem/pipeline/error_law.py, and of each how many of the releases of a table that neither law nor
range had seen fell into the range.

Adult, brfss2015, transfusion, rochdale, czech and mildew are read from FMWEM_DATASETS; digits, cancer, wine
and diabetes are those that scikit-learn carries.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench.case import find
from factored_mwem import Domain, FmwemError, Policy, Workload, evaluate, release
from factored_mwem.accounting.unit import Unit
from factored_mwem.pipeline.error_law import Problem, power_of
from factored_mwem.pipeline.noise_alone import NoiseAlone, scale_of

EPSILONS = (0.05, 10.0)
BINS = 12
"""Of a column of numbers that scikit-learn's tables hold."""
WITHIN, LEAST = 0.9, 3
"""The share of releases in a range; of a table, fewer are left out."""
KEPT = Path(__file__).with_name("planning.jsonl")
"""The releases that the law was fitted to."""
LEARNABLE = 700
"""Rows from which on half of a table's releases learn its domain, not one in six."""


@dataclass(frozen=True)
class Family:
    """A table of codes, of which parts have so many rows and columns; `raw`: the values as published."""

    name: str
    sizes: dict[str, int]
    codes: pa.Table
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    raw: pa.Table


def coded(
    name: str,
    columns: dict[str, np.ndarray],
    rows: tuple[int, ...],
    widths: tuple[int, ...],
    raw: dict[str, np.ndarray] | None = None,
) -> Family:
    """Whole numbers from their least on; `raw`: where the values were others."""
    codes = {n: (column - column.min()).astype(np.int64) for n, column in columns.items()}
    sizes = {n: int(column.max()) + 1 for n, column in codes.items()}
    return Family(name, sizes, pa.table(codes), rows, widths, pa.table(raw or columns))


def adult() -> Family:
    source = find("adult_discretised")
    declared = source.with_name("adult_discretised.domain.json")
    raw = pyarrow.csv.read_csv(find("adult"), convert_options=STRINGS)
    sizes = json.loads(declared.read_text(encoding="utf-8"))
    return Family("adult", sizes, pyarrow.csv.read_csv(source), (1000, 5000, 20000, 48842), (4, 8, 14), raw)


STRINGS = pyarrow.csv.ConvertOptions(strings_can_be_null=False)


def brfss() -> Family:
    table = pyarrow.csv.read_csv(find("brfss2015"))
    columns = {n: table[n].to_numpy().astype(np.int64) for n in table.schema.names}
    return coded("brfss", columns, (1000, 10_000, 60_000, 253_680), (5, 8, 12, 22))


def transfusion() -> Family:
    table = pyarrow.csv.read_csv(find("transfusion"))
    columns = {n: table[n].to_numpy().astype(np.int64) for n in table.schema.names}
    columns["Monetary"] //= 250
    return coded("transfusion", columns, (300, 748), (3, 5))


def counted(name: str) -> Family:
    """A table of counts, one row a cell."""
    table = pyarrow.csv.read_csv(find(name))
    times = table["count"].to_numpy()
    columns = {}
    for n in table.schema.names[:-1]:
        _, codes = np.unique(np.array(table[n].to_pylist(), dtype=str), return_inverse=True)
        columns[n] = np.repeat(codes, times)
    total, width = int(times.sum()), len(columns)
    return coded(name, columns, (total,), (width - 2, width))


def bundled(name: str, rows: tuple[int, ...], widths: tuple[int, ...]) -> Family:
    """Of scikit-learn: pixels as they are, other numbers in bins of equal width."""
    from sklearn import datasets

    loaded = getattr(datasets, f"load_{'breast_cancer' if name == 'cancer' else name}")()
    columns, raw = {}, {}
    for i, column in enumerate([*loaded.data.T, loaded.target]):
        raw[f"c{i}"] = column
        low, high = column.min(), column.max()
        whole = high - low < 20 and (column == column.astype(np.int64)).all()
        scaled = (column - low) / (high - low or 1) * (BINS - 1e-6)
        columns[f"c{i}"] = (column - low if whole else scaled).astype(np.int64)
    return coded(name, {n: c for n, c in columns.items() if c.max() > c.min()}, rows, widths, raw)


def families() -> list[Family]:
    small = [counted(name) for name in ("rochdale", "czech", "mildew")]
    sklearn = [
        bundled("digits", (600, 1797), (5, 10, 20)),
        bundled("cancer", (200, 569), (5, 10, 20)),
        bundled("wine", (178,), (5, 13)),
        bundled("diabetes", (442,), (5, 10)),
    ]
    return [adult(), brfss(), transfusion(), *small, *sklearn]


def case(family: Family, chance: np.random.Generator) -> dict[str, Any]:
    """A part of the table, and what is asked of it."""
    learnt = bool(chance.random() < (1 / 2 if max(family.rows) > LEARNABLE else 1 / 6))
    names = list(family.raw.schema.names if learnt else family.sizes)
    width = int(min(chance.choice(family.columns), len(names)))
    few = [n for n in names if not learnt and family.sizes[n] == 2]
    if len(few) >= width and chance.random() < 0.25:
        names = few  # a domain that is measured at once
    low, high = np.log(EPSILONS)
    return {
        "family": family.name,
        "rows": int(chance.choice(family.rows)),
        "columns": [str(n) for n in sorted(chance.choice(names, width, replace=False))],
        "order": int(chance.choice([1, 2, 2, 2, 3, 3, 3])),
        "epsilon": float(np.exp(chance.uniform(low, high)).round(4)),
        "delta": 0.0 if not learnt and chance.random() < 1 / 6 else 1e-9,
        "learnt": learnt,
        "seed": int(chance.integers(2**32)),
    }


def measured(family: Family, of: dict[str, Any]) -> dict[str, Any]:
    """What became of a case: its errors by order, or why there are none."""
    names = of["columns"]
    whole = family.raw if of["learnt"] else family.codes
    chosen = np.random.default_rng(of["seed"]).permutation(whole.num_rows)[: of["rows"]]
    table = whole.select(names).take(np.sort(chosen))
    sizes = None if of["learnt"] else {n: family.sizes[n] for n in names}
    of = {**of, "columns": len(of["columns"])}
    try:
        made = release(table, of["order"], domain=sizes, epsilon=of["epsilon"], delta=of["delta"])
        over = None if of["learnt"] else made.domain
        errors = evaluate(table, made.to_arrow(), of["order"], domain=over).by_order
    except FmwemError as error:
        return {**of, "refused": type(error).__name__}
    budget = Policy.of(epsilon=of["epsilon"], delta=of["delta"]).budget(learn_domain=of["learnt"])
    return {
        **of,
        "sizes": sorted(a.size for a in made.domain),
        "errors": [float(f"{errors[k][0]:.4g}") for k in sorted(errors)],
        "scale": float(f"{scale_of(budget, Unit(), of['rows']):.6g}"),
        "at_once": bool(made.manifest.residuals),
    }


def run(output: Path, seconds: float, seed: int | None) -> None:
    chance = np.random.default_rng(seed)
    found = families()
    while time.process_time() < seconds:
        for family in (found[i] for i in chance.permutation(len(found))):
            line = measured(family, case(family, chance))
            with open(output, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The releases that were made."""
    for line in path.read_text(encoding="utf-8").splitlines():
        made = json.loads(line)
        if "errors" in made:
            yield made


def problem_of(made: dict[str, Any]) -> Problem:
    """What could be known of a release before it, as `fmwem plan` knows it."""
    scale, columns, shape, pure = made["scale"], made["columns"], made.get("sizes"), made["delta"] == 0
    if made["learnt"]:
        return Problem("learnt", scale, columns)
    codes = float(np.exp(np.log(shape).mean()))
    if not made["at_once"]:
        return Problem("rounds" if made["order"] > 1 else "columns", scale, columns, codes, pure)
    return Problem("once", scale, columns, codes, pure, alone(tuple(shape), made["order"], pure).at(scale))


@cache
def alone(shape: tuple[int, ...], order: int, pure: bool) -> NoiseAlone:
    """Of a scale, the same whatever the budget is."""
    domain = Domain.from_dict({f"c{i}": size for i, size in enumerate(shape)})
    budget = Policy.of(delta=0.0 if pure else 1e-9).budget(learn_domain=False)
    return NoiseAlone(Workload.marginals(order).candidates(domain), budget, Unit())


@dataclass(frozen=True)
class Sample:
    """What a law is fitted to: `facts: float64[release, fact]`, `powers: float64[release]` and the table that
    each release is of.
    """

    facts: np.ndarray
    powers: np.ndarray
    tables: np.ndarray

    def part(self, chosen: np.ndarray) -> Sample:
        return Sample(self.facts[chosen], self.powers[chosen], self.tables[chosen])

    @property
    def weights(self) -> np.ndarray:
        """The same for every table."""
        return np.array([1 / (self.tables == table).sum() for table in self.tables])

    def constants(self) -> np.ndarray:
        root = np.sqrt(self.weights)
        return np.linalg.lstsq(self.facts * root[:, None], self.powers * root, rcond=None)[0]

    def misses(self) -> np.ndarray:
        """How far each release is from the law of all other tables."""
        missed = np.empty(len(self.powers))
        for table in np.unique(self.tables):
            own = self.tables == table
            missed[own] = self.powers[own] - self.facts[own] @ self.part(~own).constants()
        return missed

    def width(self) -> float:
        """What WITHIN of them are at most, every table counted the same."""
        missed = np.abs(self.misses())
        order = np.argsort(missed)
        share = np.cumsum(self.weights[order]) / self.weights.sum()
        return float(missed[order][np.searchsorted(share, WITHIN)])

    def coverage(self) -> float:
        """The share of releases inside a range whose law and width come from all other tables."""
        inside = np.empty(len(self.powers))
        for table in np.unique(self.tables):
            own = self.tables == table
            others = self.part(~own)
            inside[own] = np.abs(self.powers[own] - self.facts[own] @ others.constants()) <= others.width()
        return float(np.average(inside, weights=self.weights))


def samples_of(path: Path) -> dict[tuple[str, int], Sample]:
    """What each law is fitted to, without tables of fewer than LEAST releases."""
    samples: dict[tuple[str, int], list[tuple[tuple[float, ...], float, str]]] = {}
    for made in read(path):
        problem = problem_of(made)
        for order, error in enumerate(made["errors"], 1):
            found = samples.setdefault((problem.course, order), [])
            found.append((problem.facts(order), power_of(error), made["family"]))
    made = {}
    for key, found in sorted(samples.items()):
        facts, powers, tables = (np.array(each) for each in zip(*found, strict=True))
        names, counts = np.unique(tables, return_counts=True)
        made[key] = Sample(facts, powers, tables).part(np.isin(tables, names[counts >= LEAST]))
    return made


def fit(path: Path) -> None:
    for (course, order), sample in samples_of(path).items():
        constants = ", ".join(f"{c:.3f}" for c in sample.constants())
        size = f"{len(sample.powers)}, {len(set(sample.tables))}"
        print(f'    ("{course}", {order}): Law(({constants}), {sample.width():.3f}, {size}),', end="")
        print(f"  # coverage {sample.coverage():.0%}, a factor of {np.exp(sample.width()):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_subparsers(required=True)
    make = what.add_parser("run")
    make.add_argument("-o", "--output", type=Path, default=Path("planning.jsonl"))
    make.add_argument("--seconds", type=float, default=1200.0, help="of CPU; default: 1200")
    make.add_argument("--seed", type=int, help="of the cases; noise has none")
    make.set_defaults(call=lambda options: run(options.output, options.seconds, options.seed))
    fitted = what.add_parser("fit")
    fitted.add_argument("releases", type=Path, nargs="?", default=KEPT)
    fitted.set_defaults(call=lambda options: fit(options.releases))
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    sys.exit(main())
