"""Tables of codes for the other benchmarks, made up or coded from raw public files. NOT PRIVATE: bins and
values are read from the tables themselves.

    python scripts/bench tables million flags -o FOLDER          # made up, nothing is read
    python scripts/bench tables census survey kdd nltcs --raw FOLDER -o FOLDER2

Each is NAME.csv of codes with NAME.domain.json, as `--data FOLDER/NAME.csv` takes them; the same bytes every
time. Beside a made one NAME.parents.json says which columns each was drawn from.

    million   1,000,000 x 16: columns of 18 codes, each drawn given two earlier ones
    flags     100,000 x 40: ten columns drawn so, and thirty flags that one row in 200 to one in 17 has, by
              probabilities that depend on one to three of them
    census    100,000 x 41, and census_test.csv of 50,000 other rows: census-income.data; 6 % have the label
    survey    27,253 x 24: acs_national2019.csv
    kdd       100,000 x 42: kdd.csv
    nltcs     21,574 x 16: nltcs.csv, sixteen flags

scripts/README.md says where the raw files are had.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Coded = tuple[np.ndarray, int]
"""int[row] below the number of codes, and that number."""

BINS = 20
"""Most codes of a number."""
HEAVY = 0.05
"""A value that this share of the rows has is alone in its bin; so is zero."""
TEXTS = {"PUMA", "INDP", "protocol_type", "service", "flag", "label"}
"""Columns of the raw tables in which every value has a code, sorted as texts."""
SPECIAL = {"NOC": ["N"], "NPF": ["N"], "PINCP": ["N", "0.0"], "POVPIP": ["N", "501"], "WGTP": ["0"]}
"""Values among numbers that have a code of their own, before all bins."""
RAW_FILES = {"survey": "acs_national2019.csv", "kdd": "kdd.csv", "nltcs": "nltcs.csv"}
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
    return (
        {f"c{i}": column for i, column in enumerate(columns)},
        {f"c{i}": of for i, of in enumerate(parents)},
    )


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
    table = read(raw / "census-income.data", names=CENSUS_COLUMNS).drop(columns="weight")
    coded: dict[str, Coded] = {}
    for name, column in table.items():
        cells = column.to_numpy(dtype=str)
        if name in CENSUS_EDGES:
            coded[name] = binned(cells.astype(int), CENSUS_EDGES[name])
        elif name in CENSUS_MONEY:
            coded[name] = money(cells.astype(int))
        elif name == "label":
            coded[name] = np.char.startswith(cells, "50000+").astype(int), 2
        else:
            coded[name] = listed(cells, numbers_last)
    order = np.random.default_rng(0).permutation(len(table))
    for name, rows in (("census", order[:100_000]), ("census_test", order[100_000:150_000])):
        write(folder, name, {n: (codes[rows], size) for n, (codes, size) in coded.items()})


def raw_table(name: str) -> Callable[[Path, Path], None]:
    def make(raw: Path, folder: Path) -> None:
        table = read(raw / RAW_FILES[name])
        write(folder, name, {n: cut(n, column.to_numpy(dtype=str)) for n, column in table.items()})

    return make


TABLES = {"million": million, "flags": flags, "census": census} | {
    name: raw_table(name) for name in RAW_FILES
}


def read(path: Path, names: tuple[str, ...] | None = None) -> pd.DataFrame:
    """Texts without the blanks around them; with `names`, of a file without a header. SystemExit where the
    file is missing.
    """
    if not path.exists():
        raise SystemExit(f"--raw: no {path}; scripts/README.md says where it is had")
    table = pd.read_csv(path, dtype=str, keep_default_na=False, header=None if names else 0, names=names)
    return table.apply(lambda column: column.str.strip())


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


def cut(name: str, cells: np.ndarray) -> Coded:
    """A raw column of texts: every value a code where there are few; else numbers in bins."""
    if name in TEXTS:
        return listed(cells)
    if len(np.unique(cells)) <= BINS:
        return listed(cells, numbers_last)
    own = [value for value in SPECIAL.get(name, []) if (cells == value).any()]
    rest = ~np.isin(cells, own)
    codes = np.zeros(len(cells), dtype=np.int64)
    for code, value in enumerate(own):
        codes[cells == value] = code
    inner, size = numbers(cells[rest].astype(float), BINS - len(own))
    codes[rest] = inner + len(own)
    return codes, size + len(own)


def listed(cells: np.ndarray, key: Callable[[Any], Any] | None = None) -> Coded:
    """Every value a code, in the order of `key`; a column of one value has a second, empty code."""
    rank = {value: code for code, value in enumerate(sorted(set(cells.tolist()), key=key))}
    return np.array([rank[value] for value in cells.tolist()]), max(len(rank), 2)


def numbers_last(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return -np.inf, text


def binned(values: np.ndarray, edges: np.ndarray) -> Coded:
    """Code k: edges[k-1] <= value < edges[k]."""
    return np.searchsorted(edges, values, side="right"), len(edges) + 1


def money(amounts: np.ndarray) -> Coded:
    """Zero, and eight bins of as many positive amounts each."""
    cuts = np.quantile(amounts[amounts > 0], np.arange(1, 8) / 8, method="higher")
    return binned(amounts, np.unique(np.concatenate([[1], cuts])))


def numbers(values: np.ndarray, most: int) -> Coded:
    """At most so many bins in order: zero and heavy values alone, the rest in bins of equal mass."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= most:
        return listed(values)
    alone = (counts >= HEAVY * len(values)) | (distinct == 0)
    fixed = set(distinct[alone]) | set(distinct[1:][alone[:-1]])
    rest = values[~np.isin(values, distinct[alone])]
    for bins in range(most, 0, -1):
        cuts = np.quantile(rest, np.arange(1, bins) / bins, method="higher") if bins > 1 else []
        edges = np.array(sorted((fixed | set(cuts)) - {distinct[0]}))
        if len(edges) < most:
            break
    return binned(values, edges)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=TABLES, metavar="NAME", help=", ".join(TABLES))
    parser.add_argument("--raw", type=Path, default=Path(), metavar="FOLDER", help="raw files; default: here")
    parser.add_argument("-o", "--output", type=Path, default=Path(), metavar="FOLDER", help="default: here")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        TABLES[name](options.raw, options.output)
