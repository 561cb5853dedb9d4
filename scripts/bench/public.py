"""Releases of one half of a table, with and without what the other half says of some columns. NOT PRIVATE: it
reads the table.

    python scripts/bench public adult.csv --public age+sex
    python scripts/bench public adult.csv --public age+sex age+sex+race+education --epsilons 0.1 1

The rows are halved by lot, one draw a run: one half is the private table, the other the public one. `nothing`
releases the first half alone; otherwise the columns that are named are taken from the second. `2-way` and
`3-way` are the mean L1 distances of `fmwem evaluate` between the private half and the rows; `the other half`
is the second half itself: how far another sample of the same people is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from common.runner import Benchmark, Options, Row

from factored_mwem import evaluate, release

DELTA = 1e-9


@dataclass(frozen=True, kw_only=True)
class PublicOptions(Options):
    places = ("table",)
    table: Path
    public: tuple[str, ...] = ("age+sex",)
    domain: Path | None = None
    marginals: int = 3
    epsilons: tuple[float, ...] = (0.1, 1.0)
    runs: int = 3


def errors(real: pd.DataFrame, made: pd.DataFrame) -> Row:
    return {f"{order}-way": mean for order, (mean, _) in evaluate(real, made, 3).by_order.items()}


def measured(options: PublicOptions, folder: Path) -> Iterator[Row]:
    table = pd.read_csv(options.table)
    for run in range(options.runs):
        lot = np.random.default_rng(run).permutation(len(table))
        private, other = (table.iloc[half].reset_index(drop=True) for half in np.array_split(lot, 2))
        yield {"epsilon": 0.0, "public": "the other half", "run": run} | errors(private, other)
        for epsilon in options.epsilons:
            for names in ("", *options.public):
                more = {"public_columns": names.split("+"), "public": other} if names else {}
                made = release(
                    private, options.marginals, epsilon=epsilon, delta=DELTA, domain=options.domain, **more
                )
                about = {"epsilon": epsilon, "public": names or "nothing", "run": run}
                yield about | errors(private, made.to_pandas())


COLUMNS = "1-way = {1-way:.4f} | 2-way = {2-way:.4f~} | 3-way = {3-way:.4f~}"
public = Benchmark(PublicOptions, measured, "epsilon public", COLUMNS, base="nothing")
