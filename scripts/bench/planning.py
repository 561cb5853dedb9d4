"""What errors do releases have beside what can be known before them? The figures that `fmwem plan` rests on.
NOT PRIVATE: it reads the tables.

    python scripts/bench planning run -o planning.jsonl --seconds 1200
    python scripts/bench planning fit planning.jsonl       # without a file: of the releases kept beside this

`run` makes small releases of parts of public tables: some rows, some columns, at an epsilon drawn at random
between .05 and 10, with Gaussian or (one in six) Laplace noise, under a declared domain or a learnt one; and
writes a line for each with the mean errors of its marginals by order (under a learnt domain, over neutral
bins). It appends, and ends after so many seconds of CPU. `fit` prints the constants of
factored_mwem/pipeline/forecasts/error_law.py, and of each how many of the releases of a table that neither
law nor range had seen fell into the range.

Adult, brfss2015, transfusion, rochdale, czech and mildew are read from FMWEM_DATASETS; digits, cancer, wine
and diabetes are those that scikit-learn carries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from common.runner import Row, parse
from common.tables import find

from bench.case import whole_numbers
from factored_mwem import Domain, FmwemError, Policy, Workload, evaluate, release
from factored_mwem.accounting.unit import Unit
from factored_mwem.pipeline.forecasts.error_law import Problem, power_of
from factored_mwem.pipeline.forecasts.noise_alone import NoiseAlone, scale_of

EPSILONS = (0.05, 10.0)
BINS = 12
"""Of a column of numbers that scikit-learn's tables hold."""
WITHIN, LEAST = 0.9, 3
"""The share of releases in a range; of a table, fewer are left out."""
KEPT = Path(__file__).with_name("planning.jsonl")
"""The releases that the law was fitted to."""
LEARNABLE = 700
"""Rows from which on half of a table's releases learn its domain, not one in six."""
Columns = dict[str, np.ndarray]
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Planning:
    places: ClassVar[tuple[str, ...]] = ("what", "releases")
    what: Literal["run", "fit"]
    releases: Path = KEPT
    output: Path = Path("planning.jsonl")
    seconds: Annotated[float, "of CPU"] = 1200.0
    seed: int | None = None


@dataclass(frozen=True)
class Family:
    """A table of codes, of which parts have so many rows and columns; `raw`: the values as published."""

    name: str
    sizes: dict[str, int]
    codes: pa.Table
    rows: Sizes
    columns: Sizes
    raw: pa.Table


def coded(name: str, columns: Columns, rows: Sizes, widths: Sizes, raw: Columns | None = None) -> Family:
    """Whole numbers from their least on; `raw`: where the values were others."""
    codes = {n: (column - column.min()).astype(np.int64) for n, column in columns.items()}
    sizes = {n: int(column.max()) + 1 for n, column in codes.items()}
    return Family(name, sizes, pa.table(codes), rows, widths, pa.table(raw or columns))


def adult() -> Family:
    source, strings = find("adult_discretised"), pyarrow.csv.ConvertOptions(strings_can_be_null=False)
    raw = pyarrow.csv.read_csv(find("adult"), convert_options=strings)
    sizes = json.loads(source.with_name("adult_discretised.domain.json").read_text(encoding="utf-8"))
    return Family("adult", sizes, pyarrow.csv.read_csv(source), (1000, 5000, 20000, 48842), (4, 8, 14), raw)


def transfusion() -> Family:
    columns = whole_numbers(find("transfusion"))
    columns["Monetary"] //= 250
    return coded("transfusion", columns, (300, 748), (3, 5))


def counted(name: str) -> Family:
    """A table of counts, one row a cell."""
    table = pd.read_csv(find(name), dtype=str, keep_default_na=False)
    rows = table.loc[table.index.repeat(table.pop("count").astype(int))]
    columns = {n: np.unique(column, return_inverse=True)[1] for n, column in rows.items()}
    return coded(name, columns, (len(rows),), (len(columns) - 2, len(columns)))


def bundled(name: str, rows: Sizes, widths: Sizes) -> Family:
    """Of scikit-learn: pixels as they are, other numbers in bins of equal width."""
    from sklearn import datasets

    loaded = getattr(datasets, f"load_{'breast_cancer' if name == 'cancer' else name}")()
    columns, raw = {}, {}
    for i, column in enumerate([*loaded.data.T, loaded.target]):
        raw[f"c{i}"] = column
        low, high = column.min(), column.max()
        whole = high - low < 20 and (column == column.astype(np.int64)).all()
        scaled = (column - low) / (high - low or 1) * (BINS - 1e-6)
        if high > low:
            columns[f"c{i}"] = (column - low if whole else scaled).astype(np.int64)
    return coded(name, columns, rows, widths, raw)


def families() -> list[Family]:
    return [
        adult(),
        coded("brfss", whole_numbers(find("brfss2015")), (1000, 10_000, 60_000, 253_680), (5, 8, 12, 22)),
        transfusion(),
        *map(counted, ("rochdale", "czech", "mildew")),
        bundled("digits", (600, 1797), (5, 10, 20)),
        bundled("cancer", (200, 569), (5, 10, 20)),
        bundled("wine", (178,), (5, 13)),
        bundled("diabetes", (442,), (5, 10)),
    ]


def case(family: Family, chance: np.random.Generator) -> Row:
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


def measured(family: Family, of: Row) -> Row:
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


def run(options: Planning) -> None:
    chance, known = np.random.default_rng(options.seed), families()
    while time.process_time() < options.seconds:
        for family in (known[i] for i in chance.permutation(len(known))):
            line = measured(family, case(family, chance))
            with open(options.output, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def problem_of(made: Row) -> Problem:
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
        _, which, counts = np.unique(self.tables, return_inverse=True, return_counts=True)
        return 1 / counts[which]

    def constants(self) -> np.ndarray:
        root = np.sqrt(self.weights)
        return np.linalg.lstsq(self.facts * root[:, None], self.powers * root, rcond=None)[0]

    def misses(self, *, over_width: bool = False) -> np.ndarray:
        """float64[release]: how far each is from the law of all other tables; or else from its width."""
        missed = np.empty(len(self.powers))
        for table in np.unique(self.tables):
            own = self.tables == table
            others = self.part(~own)
            missed[own] = np.abs(self.powers[own] - self.facts[own] @ others.constants())
            missed[own] -= others.width() if over_width else 0
        return missed

    def width(self) -> float:
        """What WITHIN of the misses are at most, every table counted the same."""
        missed = self.misses()
        order = np.argsort(missed)
        share = np.cumsum(self.weights[order]) / self.weights.sum()
        return float(missed[order][np.searchsorted(share, WITHIN)])

    def coverage(self) -> float:
        """The share of releases inside a range whose law and width come from all other tables."""
        return float(np.average(self.misses(over_width=True) <= 0, weights=self.weights))


def samples_of(path: Path) -> dict[tuple[str, int], Sample]:
    """What each law is fitted to, without tables of fewer than LEAST releases."""
    samples: dict[tuple[str, int], list[tuple[tuple[float, ...], float, str]]] = {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    for made in [line for line in lines if "errors" in line]:
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


def main(arguments: Sequence[str]) -> None:
    options = parse(Planning, __doc__, "bench planning", arguments)
    if options.what == "run":
        run(options)
    else:
        fit(options.releases)
