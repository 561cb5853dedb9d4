"""Pairs of columns that go together: what released rows keep of them, and what noise would leave at all. NOT
PRIVATE: it reads the table.

    python scripts/bench pairs diamonds.csv storms.csv
    python scripts/bench pairs thefts.csv --epsilons 1 3 10 --runs 3

Columns are coded by the domain that is drafted from the table. Pairs are those whose Cramer's V (bias
corrected) is above .2. `kept` is the part of V that is that of the real rows: what departs from independence
in the made rows is projected on what does so in the real ones, each cell weighted by what independence
expects; noise makes V larger, but not that. `lost` are pairs of which less than .8 is kept.

`release` is a release. `alone` measures each pair by itself with all of the budget; `parts` with an equal
part of three fifths of it, as if somebody said for free which pairs these are. Both measure it whole, and in
128, 32 and 8 groups of about equal mass, and know the real single columns. Cells that do not stand out by
some deviations are as under independence, or all are fitted by least squares: of all these ways the one
counts that keeps most.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from common.runner import Benchmark, Options, Row

from factored_mwem import Domain, draft, release
from factored_mwem.accounting.conversion import rho_of
from factored_mwem.tables.backends.codes import encode_table
from factored_mwem.tables.inputs.source import open_table

DELTA, STRONG, LOST, PART = 1e-9, 0.2, 0.8, 0.6
MOST_CELLS = 10_000_000
"""Pairs of more are left out."""


@dataclass(frozen=True, kw_only=True)
class PairOptions(Options):
    places = ("tables",)
    tables: tuple[Path, ...]
    epsilons: tuple[float, ...] = (1.0,)
    marginals: int = 3
    runs: int = 3


def counted(path: Path, domain: Domain) -> dict[tuple[str, str], np.ndarray]:
    """The counts of every pair of columns."""
    codes = [np.asarray(column, np.int64) for column in encode_table(domain, open_table(path)).columns]
    tables = {}
    for (one, m, rows), (other, n, columns) in itertools.combinations(
        zip(domain.names, domain.shape, codes, strict=True), 2
    ):
        if m * n <= MOST_CELLS:
            tables[one, other] = np.bincount(rows * n + columns, minlength=m * n).reshape(m, n).astype(float)
    return tables


def alike(table: np.ndarray) -> np.ndarray:
    """What independence expects."""
    return np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()


def corrected_v(table: np.ndarray) -> float:
    """Cramer's V less its bias (Bergsma 2013)."""
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    (rows, columns), more = table.shape, table.sum() - 1
    if min(rows, columns) < 2:
        return 0.0
    expected = alike(table)
    phi = ((table - expected) ** 2 / expected).sum() / table.sum() - (rows - 1) * (columns - 1) / more
    least = min(size - (size - 1) ** 2 / more for size in (rows, columns))
    return math.sqrt(max(phi, 0.0) / max(least - 1, 1e-9))


def kept(real: np.ndarray, made: np.ndarray) -> float:
    """The part of what departs from independence in the real rows that is in the made ones, too; of V, as
    this grows with it. Half of the real rows and half of independent ones keep half.
    """
    expected = alike(real)
    inside = expected > 0
    ours, theirs = ((each * real.sum() / each.sum() - expected)[inside] for each in (made, real))
    weights = 1 / expected[inside]
    return float(np.clip((ours * theirs * weights).sum() / (theirs**2 * weights).sum(), 0, 1))


def scaled(table: np.ndarray, like: np.ndarray, sweeps: int = 30) -> np.ndarray:
    """With the margins of another table, by iterative proportional fitting."""
    table = np.maximum(table, 1e-12 * like)
    for _ in range(sweeps):
        for axis in (1, 0):
            table = table * like.sum(axis, keepdims=True) / np.maximum(table.sum(axis, keepdims=True), 1e-12)
    return table


def fitted(noisy: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Least squares by multiplicative steps, with the margins of `start`."""
    table, loss, step = start, ((start - noisy) ** 2).sum(), 1 / np.abs(start - noisy).max()
    for _ in range(150):
        new = scaled(table * np.exp(np.clip(step * (noisy - table), -3, 3)), start, 2)
        if (less := ((new - noisy) ** 2).sum()) < loss:
            table, loss, step = new, less, step * 1.2
        else:
            step /= 2
    return table


def groups(counts: np.ndarray, most: int) -> np.ndarray:
    """float64[group, code]: 1 where a code is in a group of about equal mass."""
    if len(counts) <= most:
        return np.eye(len(counts))
    places = (np.cumsum(counts) - counts / 2) * most / counts.sum()
    of = np.unique(places.astype(int), return_inverse=True)[1]
    return np.eye(of.max() + 1)[:, of]


def best(real: np.ndarray, deviation: float, rng: np.random.Generator) -> float:
    """The most that a measurement of this pair alone keeps, of as many rows."""
    expected, most = alike(real), 0.0
    for size in (max(real.shape), 128, 32, 8):
        left, right = groups(real.sum(axis=1), size), groups(real.sum(axis=0), size)
        start = left @ expected @ right.T
        noisy = left @ real @ right.T + rng.normal(0, deviation, start.shape)
        ways = [
            np.where(abs(noisy - start) > k * deviation, np.maximum(noisy, 0), start) for k in range(1, 6)
        ]
        for way in (*ways, fitted(noisy, start)):
            shares = expected * (left.T @ (scaled(way, start) / np.maximum(start, 1e-12)) @ right)
            made = rng.multinomial(int(real.sum()), (shares / shares.sum()).ravel()).reshape(real.shape)
            most = max(most, kept(real, made))
    return most


def measured(options: PairOptions, folder: Path) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for path in options.tables:
        domain = draft(path).reviewed()
        real = {pair: table for pair, table in counted(path, domain).items() if corrected_v(table) > STRONG}
        for run, epsilon in itertools.product(range(options.runs), options.epsilons):
            made = release(path, options.marginals, domain=domain, epsilon=epsilon, delta=DELTA)
            made.write(folder / "rows.parquet", overwrite=True)
            rows = counted(folder / "rows.parquet", domain)
            each = {"release": [kept(table, rows[pair]) for pair, table in real.items()]}
            if not run:
                all_of_it = 1 / math.sqrt(2 * rho_of(epsilon, Fraction(DELTA)))
                for of, shares in (("alone", 1.0), ("parts", len(real) / PART)):
                    deviation = all_of_it * math.sqrt(shares)
                    each[of] = [best(table, deviation, rng) for table in real.values()]
            for of, parts in each.items():
                about = {"table": path.stem, "epsilon": epsilon, "of": of, "run": run, "pairs": len(real)}
                yield about | {"kept": float(np.mean(parts)), "lost": sum(part < LOST for part in parts)}


pairs = Benchmark(
    PairOptions, measured, "table epsilon of", "pairs = {pairs} | kept = {kept:.2f} | lost = {lost:.1f}"
)
