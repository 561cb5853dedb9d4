"""The census table of codes for the other benchmarks, coded from a raw public file. NOT PRIVATE: bins and
values are read from the table itself.

    python scripts/bench tables --raw FOLDER -o FOLDER2

Writes census.csv of codes (100,000 x 41) with census.domain.json, as `--data FOLDER2/census.csv` takes them,
the same bytes every time. scripts/README.md says where the raw file, census-income.data, is had.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from common.runner import parse

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


def census(raw: Path, folder: Path) -> None:
    """99,523 rows of a fixed shuffle are left out, as is the weight that the survey gives a row."""
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
    rows, path = order[:100_000], folder / "census.csv"
    pd.DataFrame({name: codes[rows] for name, (codes, _) in coded.items()}).to_csv(path, index=False)
    sizes = {name: size for name, (_, size) in coded.items()}
    path.with_suffix(".domain.json").write_text(json.dumps(sizes), encoding="utf-8")
    print(f"{path}: {len(rows):,} rows x {len(sizes)}, codes {sorted(sizes.values())}")


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
    raw: Path = Path()
    output: Path = Path()


def main(arguments: Sequence[str]) -> None:
    options = parse(Wanted, __doc__, "bench tables", arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    census(options.raw, options.output)
