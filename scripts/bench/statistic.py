"""Errors of `fmwem statistic` beside OpenDP's private quantile and the Laplace mechanism. NOT PRIVATE: it
reads the table.

    python scripts/bench statistic                                   # the bundled Adult sample, 100 runs
    python scripts/bench statistic --table adult.csv --runs 20 --epsilons 1

All of them are told the number of rows, the same bounds and the same grid, whose values are OpenDP's
candidates (exponential noise, pure). Laplace is the value itself with noise of (upper - lower) / epsilon.
Errors are absolute, of the values on the grid; a Cauchy has no mean, so medians and 90th percentiles are
told, and the median over that of OpenDP: below 1, ours is less. `cauchy` and `laplace` are ours by smooth
sensitivity, `exponential` our default, the exponential mechanism by rank, which is told no number of rows.
`printed`: ours with the constants that the paper prints, 6 S / epsilon.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from factored_mwem.accounting.admissible import Admissible, Shape
from factored_mwem.accounting.conversion import Composition, load_opendp
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.privacy.order import Ordered
from factored_mwem.statistics import statistic
from factored_mwem.statistics.grid import GRAINS, Grid

TABLE = Path(__file__).resolve().parents[2] / "datasets" / "adult.csv"
COLUMNS = {
    "age": (0.0, 120.0),
    "hours-per-week": (0.0, 168.0),
    "education-num": (1.0, 16.0),
    "fnlwgt": (0.0, 1_500_000.0),
    "capital-gain": (0.0, 100_000.0),
}
ASKED = {"q10": 0.1, "median": 0.5, "q90": 0.9}
Draw = Callable[[], float]


def opendp_quantile(values: np.ndarray, grid: Grid, at: float, epsilon: float) -> Draw:
    """OpenDP's mechanism on a known number of rows, at the scale that costs epsilon."""
    dp = load_opendp()
    candidates = np.linspace(grid.lower, grid.upper, grid.cells).tolist()
    domain = dp.vector_domain(dp.atom_domain(T="f64", nan=False))

    def of(scale: float) -> object:
        metric, pure = dp.symmetric_distance(), dp.max_divergence()
        return dp.m.make_private_quantile(domain, metric, pure, candidates, at, scale)

    unit = of(1.0).map(1)  # type: ignore[attr-defined]
    mechanism, listed = of(unit / epsilon), values.tolist()
    return lambda: float(mechanism(listed))  # type: ignore[operator]


def printed(cells: np.ndarray, grid: Grid, rank: int, epsilon: float) -> Draw:
    """Smooth sensitivity with the paper's constants, on the same sampler."""
    noise, ordered = (
        Admissible.printed_cauchy(epsilon),
        Ordered(np.bincount(cells, minlength=grid.cells), GRAINS),
    )
    bound, adapter = ordered.smooth(rank, noise.beta), OpenDPNoise(Composition.PURE)
    value = ordered.value(rank)
    return lambda: grid.at(adapter.spread(value, bound, shape=Shape.CAUCHY, scale=noise.multiplier))


def laplace(value: float, grid: Grid, epsilon: float) -> Draw:
    """Global sensitivity: any value may become any other."""
    units, adapter = round((value - grid.lower) / grid.step) * GRAINS, OpenDPNoise(Composition.PURE)
    scale = float(Fraction(grid.top) / Fraction(epsilon))
    return lambda: grid.at(int(adapter.add(np.array([units]), scale=scale)[0]))


def unsized(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "rows"}


def measure(table: Path, column: str, runs: int, epsilon: float) -> None:
    lower, upper = COLUMNS[column]
    grid = Grid.of(lower, upper)
    known = pd.to_numeric(pd.read_csv(table, skipinitialspace=True)[column]).to_numpy(dtype=float)
    frame = pd.DataFrame({column: known})
    cells = np.rint((np.clip(known, lower, upper) - lower) / grid.step).astype(np.int64)
    values = np.sort(lower + cells * grid.step)
    for name, at in ASKED.items():
        rank = int(np.ceil(at * len(values)))
        truth = values[rank - 1]
        given = {"lower": lower, "upper": upper, "rows": len(values), "epsilon": epsilon, "at": at}
        ways: dict[str, Draw] = {
            "cauchy": lambda given=given: statistic(frame, column, "quantile", noise="cauchy", **given).value,  # type: ignore[misc]
            "laplace, 1e-9": lambda given=given: (  # type: ignore[misc]
                statistic(frame, column, "quantile", delta=1e-9, **given).value
            ),
            "exponential": lambda given=given: (  # type: ignore[misc]
                statistic(frame, column, "quantile", **unsized(given)).value
            ),
            "printed": printed(cells, grid, rank, epsilon),
            "opendp": opendp_quantile(values, grid, at, epsilon),
            "global": laplace(truth, grid, epsilon),
        }
        errors = {way: np.array([abs(draw() - truth) for _ in range(runs)]) for way, draw in ways.items()}
        base = max(float(np.median(errors["opendp"])), grid.step)
        for way, found in errors.items():
            half, most = np.median(found), np.quantile(found, 0.9)
            print(
                f"{column:16}{name:8}{epsilon:<6g}{way:15}{half:12.4g}{most:12.4g}{half / base:10.3g}",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench statistic", description=__doc__.split("\n\n")[0])
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--columns", nargs="+", choices=list(COLUMNS), default=list(COLUMNS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0])
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    print("Errors in the column's own unit; ratio to OpenDP's median, or to a step where that is less")
    print(f"{'column':16}{'what':8}{'eps':6}{'way':15}{'median':>12}{'90 %':>12}{'ratio':>10}")
    for column in options.columns:
        for epsilon in options.epsilons:
            measure(options.table, column, options.runs, epsilon)
    return 0
