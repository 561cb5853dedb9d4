"""Tables of codes for the other benchmarks, made up or coded from a raw public file. NOT PRIVATE: bins and
values are read from the tables themselves.

    python scripts/bench tables million flags -o FOLDER          # made up, nothing is read
    python scripts/bench tables census --raw FOLDER -o FOLDER2

Each is NAME.csv of codes with NAME.domain.json, as `--data FOLDER/NAME.csv` takes them; the same bytes every
time. Beside a made one NAME.parents.json says which columns each was drawn from.

    million   1,000,000 x 16: columns of 18 codes, each drawn given two earlier ones
    flags     100,000 x 40: ten columns drawn so, and thirty flags that one row in 200 to one in 17 has, by
              probabilities that depend on one to three of them
    census    100,000 x 41, and census_test.csv of 50,000 other rows: census-income.data; 6 % have the label

scripts/README.md says where the raw file is had.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from bench.runner import parse

Coded = tuple[np.ndarray, int]
"""int[row] below the number of codes, and that number."""

CENSUS_COLUMNS = (
    *("age", "class_worker", "det_ind_code", "det_occ_code", "education", "wage_per_hour", "hs_college"),
    *("marital_stat", "major_ind_code", "major_occ_code", "race", "hisp_origin", "sex", "union_member"),
    *("unemp_reason", "full_or_part_emp", "capital_gains", "capital_losses", "stock_dividends"),
    *("tax_filer_stat", "region_prev_res", "state_prev_res", "det_hh_fam_stat", "det_hh_summ", "weight"),
    *("mig_chg_msa", "mig_chg_reg", "mig_move_reg", "mig_same", "mig_prev_sunbelt", "num_emp"),
    *("fam_under_18", "country_father", "country_mother", "country_self", "citizenship", "own_or_self"),
    *("vet_question", "vet_benefits", "weeks_worked", "year", "label"),
)
CENSUS_EDGES = {"age": np.arange(5, 95, 5), "weeks_worked": np.arange(1, 53, 4)}
CENSUS_MONEY = ("wage_per_hour", "capital_gains", "capital_losses", "stock_dividends")


def million(raw: Path, folder: Path) -> None:
    columns, parents = network(np.random.default_rng(0), [18] * 16, 1_000_000, concentration=0.3, evenly=0.1)
    write(folder, "million", {name: (codes, 18) for name, codes in columns.items()}, parents)


def flags(raw: Path, folder: Path) -> None:
    rng, rows = np.random.default_rng(0), 100_000
    sizes = [3, 8, 20, 5, 12, 4, 15, 6, 10, 7]
    columns, parents = network(rng, sizes, rows, concentration=0.5, evenly=0.15)
    coded = {name: (codes, sizes[i]) for i, (name, codes) in enumerate(columns.items())}
    for i, rate in enumerate(rng.permutation(np.geomspace(0.005, 0.06, 30))):
        of = sorted(rng.choice(len(sizes), 1 + i % 3, replace=False).tolist())
        score = np.zeros(rows)
        for p in of:  # a slope in the codes, or an effect of its own of every code
            slope = rng.choice([-1, 1]) * np.linspace(-2.5, 2.5, sizes[p])
            score += (slope if rng.random() < 0.5 else rng.normal(0, 2, sizes[p]))[columns[f"c{p}"]]
        chance = 1 / (1 + np.exp(-score - level(score, rate)))
        coded[f"f{i}"], parents[f"f{i}"] = ((rng.random(rows) < chance).astype(int), 2), of
    write(folder, "flags", coded, parents)


def network(
    rng: np.random.Generator, sizes: list[int], rows: int, *, concentration: float, evenly: float
) -> tuple[dict[str, np.ndarray], dict[str, list[int]]]:
    """Columns c0, c1, ... of so many codes, each given two earlier ones, and the numbers of these."""
    columns: list[np.ndarray] = []
    parents = []
    for i, size in enumerate(sizes):
        of = sorted(rng.choice(i, min(i, 2), replace=False).tolist()) if i else []
        cell, cells = np.zeros(rows, dtype=np.int64), 1
        for p in of:
            cell, cells = cell * sizes[p] + columns[p], cells * sizes[p]
        chances = (1 - evenly) * rng.dirichlet(np.full(size, concentration), cells) + evenly / size
        upto, luck = np.cumsum(chances, axis=1), rng.random(rows)
        columns.append(sum((luck >= upto[cell, k]).astype(np.int64) for k in range(size - 1)))
        parents.append(of)
    names = [f"c{i}" for i in range(len(sizes))]
    return dict(zip(names, columns, strict=True)), dict(zip(names, parents, strict=True))


def level(score: np.ndarray, rate: float) -> float:
    """What must be added to log odds for a mean probability of `rate`, by halving an interval."""
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        above = np.mean(1 / (1 + np.exp(-score - middle))) > rate
        low, high = (low, middle) if above else (middle, high)
    return low


def census(raw: Path, folder: Path) -> None:
    """The last 49,523 rows of a fixed shuffle are left out, as is the weight that the survey gives a row."""
    path = raw / "census-income.data"
    if not path.exists():
        sys.exit(f"--raw: no {path}; scripts/README.md says where it is had")
    table = pd.read_csv(path, dtype=str, keep_default_na=False, header=None, names=CENSUS_COLUMNS)
    table = table.drop(columns="weight").apply(lambda column: column.str.strip())
    coded: dict[str, Coded] = {}
    for name, column in table.items():
        if name in CENSUS_EDGES:
            coded[name] = binned(column.astype(int).to_numpy(), CENSUS_EDGES[name])
        elif name in CENSUS_MONEY:
            coded[name] = money(column.astype(int).to_numpy())
        elif name == "label":
            coded[name] = column.str.startswith("50000+").astype(int).to_numpy(), 2
        else:
            coded[name] = listed(column)
    order = np.random.default_rng(0).permutation(len(table))
    for name, rows in (("census", order[:100_000]), ("census_test", order[100_000:150_000])):
        write(folder, name, {n: (codes[rows], size) for n, (codes, size) in coded.items()})


def write(
    folder: Path, name: str, coded: Mapping[str, Coded], parents: dict[str, list[int]] | None = None
) -> None:
    table = pd.DataFrame({n: codes for n, (codes, _) in coded.items()})
    table.to_csv(folder / f"{name}.csv", index=False)
    sizes = {n: size for n, (_, size) in coded.items()}
    (folder / f"{name}.domain.json").write_text(json.dumps(sizes), encoding="utf-8")
    if parents is not None:
        known = {n: [f"c{p}" for p in of] for n, of in parents.items()}
        (folder / f"{name}.parents.json").write_text(json.dumps(known), encoding="utf-8")
    print(f"{folder / name}.csv: {len(table):,} rows x {len(sizes)}, codes {sorted(sizes.values())}")


def listed(cells: pd.Series) -> Coded:
    """Every value a code, words before numbers; a column of one value has a second, empty code."""
    values = pd.Series(sorted(set(cells)))
    numbers = pd.to_numeric(values, errors="coerce").sort_values(kind="stable", na_position="first")
    rank = {value: code for code, value in enumerate(values[numbers.index])}
    return cells.map(rank).to_numpy(), max(len(rank), 2)


def binned(values: np.ndarray, edges: np.ndarray) -> Coded:
    """Code k: edges[k-1] <= value < edges[k]."""
    return np.searchsorted(edges, values, side="right"), len(edges) + 1


def money(amounts: np.ndarray) -> Coded:
    """Zero, and eight bins of as many positive amounts each."""
    cuts = np.quantile(amounts[amounts > 0], np.arange(1, 8) / 8, method="higher")
    return binned(amounts, np.unique(np.concatenate([[1], cuts])))


@dataclass(frozen=True)
class Wanted:
    places: ClassVar[tuple[str, ...]] = ("names",)
    names: tuple[Literal["million", "flags", "census"], ...]
    raw: Path = Path()
    output: Path = Path()


def main(arguments: Sequence[str]) -> None:
    options = parse(Wanted, __doc__, "bench tables", arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        {"million": million, "flags": flags, "census": census}[name](options.raw, options.output)
