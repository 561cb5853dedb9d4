"""Errors of `fmwem statistic` beside OpenDP's private quantile and the Laplace mechanism. NOT PRIVATE: it
reads the table.

    python scripts/bench statistic                                   # the bundled Adult sample, 100 runs
    python scripts/bench statistic --table adult.csv --runs 20 --epsilons 1

All of them are told the number of rows, the same bounds and the same grid, whose values are OpenDP's
candidates (exponential noise, pure). Laplace is the value itself with noise of (upper - lower) / epsilon.
Errors are absolute, of the values on the grid, in the column's own unit; a Cauchy has no mean, so medians
and 90th percentiles are told, and the median over that of OpenDP, or over a step where that is less: below 1,
ours is less. `cauchy` and `laplace` are ours by smooth sensitivity, `exponential` our default, the
exponential mechanism by rank, which is told no number of rows. `printed`: ours with the constants that the
paper prints, 6 S / epsilon.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from common.runner import Benchmark, Options, Row
from common.tables import BUNDLED

from factored_mwem.accounting.admissible import Admissible, Shape
from factored_mwem.accounting.conversion import Composition, load_opendp
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.privacy.other.order import Ordered
from factored_mwem.sessions.statistic import statistic as ours
from factored_mwem.sessions.statistic.grid import GRAINS, MOST_CELLS, Grid

BOUNDS = {
    "age": (0.0, 120.0),
    "hours-per-week": (0.0, 168.0),
    "education-num": (1.0, 16.0),
    "fnlwgt": (0.0, 1_500_000.0),
    "capital-gain": (0.0, 100_000.0),
}
ASKED = {"q10": 0.1, "median": 0.5, "q90": 0.9}
Draw = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Quantiles(Options):
    table: Path = BUNDLED / "adult.csv"
    columns: tuple[Literal["age", "hours-per-week", "education-num", "fnlwgt", "capital-gain"], ...] = (
        *BOUNDS,
    )
    epsilons: tuple[float, ...] = (0.1, 1.0)
    runs: int = 100


def opendp_quantile(values: np.ndarray, grid: Grid, at: float, epsilon: float) -> Draw:
    """OpenDP's mechanism on a known number of rows, at the scale that costs epsilon."""
    dp = load_opendp()
    candidates = np.linspace(grid.lower, grid.upper, grid.cells).tolist()
    domain = dp.vector_domain(dp.atom_domain(T="f64", nan=False))

    def of(scale: float) -> Any:
        metric, pure = dp.symmetric_distance(), dp.max_divergence()
        return dp.m.make_private_quantile(domain, metric, pure, candidates, at, scale)

    mechanism, listed = of(of(1.0).map(1) / epsilon), values.tolist()
    return lambda: float(mechanism(listed))


def printed(cells: np.ndarray, grid: Grid, rank: int, epsilon: float) -> Draw:
    """Smooth sensitivity with the paper's constants, on the same sampler."""
    noise = Admissible.printed_cauchy(epsilon)
    ordered = Ordered(np.bincount(cells, minlength=grid.cells), GRAINS)
    bound, adapter = ordered.smooth(rank, noise.beta), OpenDPNoise(Composition.PURE)
    value = ordered.value(rank)
    return lambda: grid.at(adapter.spread(value, bound, shape=Shape.CAUCHY, scale=noise.multiplier))


def laplace(value: float, grid: Grid, epsilon: float) -> Draw:
    """Global sensitivity: any value may become any other."""
    units, adapter = round((value - grid.lower) / grid.step) * GRAINS, OpenDPNoise(Composition.PURE)
    scale = float(Fraction(grid.top) / Fraction(epsilon))
    return lambda: grid.at(int(adapter.add(np.array([units]), scale=scale)[0]))


def by_ours(frame: pd.DataFrame, column: str, **told: Any) -> Draw:
    return lambda: ours(frame, column, "quantile", **told).value


def measured(options: Quantiles, folder: Path) -> Iterator[Row]:
    for column, epsilon in itertools.product(options.columns, options.epsilons):
        lower, upper = BOUNDS[column]
        step = 1.0 if upper - lower < MOST_CELLS else None
        grid = Grid.of(lower, upper, step)
        known = pd.to_numeric(pd.read_csv(options.table, skipinitialspace=True)[column]).to_numpy(dtype=float)
        cells = np.rint((np.clip(known, lower, upper) - lower) / grid.step).astype(np.int64)
        values = np.sort(lower + cells * grid.step)
        frame = pd.DataFrame({column: known})
        told = {"lower": lower, "upper": upper, "grid": step, "epsilon": epsilon}
        for name, at in ASKED.items():
            rank = int(np.ceil(at * len(values)))
            truth = values[rank - 1]
            ways: dict[str, Draw] = {
                "cauchy": by_ours(frame, column, at=at, rows=len(values), noise="cauchy", **told),
                "laplace, 1e-9": by_ours(frame, column, at=at, rows=len(values), delta=1e-9, **told),
                "exponential": by_ours(frame, column, at=at, **told),
                "printed": printed(cells, grid, rank, epsilon),
                "opendp": opendp_quantile(values, grid, at, epsilon),
                "global": laplace(truth, grid, epsilon),
            }
            errors = {way: [abs(draw() - truth) for _ in range(options.runs)] for way, draw in ways.items()}
            base = max(float(np.median(errors["opendp"])), grid.step)
            for way, of in errors.items():
                half, most = float(np.median(of)), float(np.quantile(of, 0.9))
                about = {"column": column, "what": name, "epsilon": epsilon, "way": way}
                yield {**about, "median": half, "most": most, "ratio": half / base}


COLUMNS = "median = {median:.4g} | 90 % = {most:.4g} | ratio = {ratio:.3g}"
statistic = Benchmark(Quantiles, measured, "column what epsilon way", COLUMNS)
