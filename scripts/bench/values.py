"""How far rows are from the real ones, measured on values: no domain, codec or bin of any program has a part
in it. NOT PRIVATE.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

BINS = 20
"""Bins of equal real mass of a number or moment."""
POPULAR = 100
"""Texts that are told apart in a column; the others count as one."""
MARGINALS = 600
"""Most marginals of an order that are counted: a fixed choice of them, where there are more."""
MAX_CELLS = 2**21
"""A marginal of more cells is renumbered to those that are filled."""
MISSING = ("", "?", "N", "NA", "N/A", "NULL", "null", "nan", "NaN", "None", "NaT", "<NA>")
"""Words that tables write for what is missing: one value, whichever of them a program gives back."""

Cells = np.ndarray
"""A column: float64[row] of numbers, or object[row] of texts ("" is null)."""


def read(path: Path) -> dict[str, Cells]:
    """The columns of a CSV, as texts, or of a Parquet file."""
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
    else:
        names = pyarrow.csv.open_csv(path).schema.names
        table = pyarrow.csv.read_csv(
            path,
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    return {name: _cells(column) for name, column in zip(table.schema.names, table.columns, strict=True)}


def _cells(column: pa.ChunkedArray) -> Cells:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if any(kind(column.type) for kind in kinds):
        return column.cast(pa.float64(), safe=False).to_numpy()
    return pc.fill_null(column.cast(pa.string()), "").to_numpy(zero_copy_only=False).astype(object)


def _numbers(cells: Cells) -> np.ndarray:
    """float64[row], nan where a cell is no number."""
    if cells.dtype != object:
        return np.where(np.isfinite(cells), cells, np.nan)
    found = pd.to_numeric(pd.Series(cells), errors="coerce").to_numpy(np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _moments(cells: Cells) -> np.ndarray:
    """float64[row]: days since 1970, nan where a cell is no ISO date or timestamp."""
    if cells.dtype != object:
        return np.full(len(cells), np.nan)
    found = pd.to_datetime(pd.Series(cells), errors="coerce", format="ISO8601", utc=True)
    since = (found - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return since.to_numpy(np.float64)


class Column:
    """A real column, and how it is cut: numbers and moments into bins of equal real mass (a column of at most
    BINS values at each of them), whatever else stands in it as texts.
    """

    def __init__(self, cells: Cells) -> None:
        self.kind = self._kind(cells)
        self.cells = cells
        units, words = self.parts(cells)
        self.units = np.sort(units[~np.isnan(units)])
        self.cuts, self.listed = np.zeros(0), None
        if self.kind != "text":
            distinct = np.unique(self.units)
            self.decimals = 9 if self.kind == "moment" else _decimals(distinct)
            quantiles = np.quantile(self.units, np.linspace(0, 1, BINS + 1), method="inverted_cdf")
            self.cuts = np.unique(quantiles)[1:-1]
            if len(distinct) <= BINS:
                self.cuts, self.listed = distinct[:-1], distinct
        self.words = {word: i for i, word in enumerate(pd.Series(words).value_counts().index[:POPULAR])}
        self.bins = len(self.cuts) + 2 if self.kind != "text" else 0  # the last: a value that is not listed
        self.size = self.bins + len(self.words) + 1

    @staticmethod
    def _kind(cells: Cells) -> str:
        present = len(cells) if cells.dtype != object else int((~np.isin(cells.astype(str), MISSING)).sum())
        for kind, read_as in (("number", _numbers), ("moment", _moments)):
            if np.isfinite(read_as(cells)).sum() > max(present, 1) / 2:
                return kind
        return "text"

    def parts(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """float64[row] of numbers or days, nan where there are none, and the texts of all other cells."""
        if self.kind == "text":
            units = np.full(len(cells), np.nan)
        else:
            units = _numbers(cells) if self.kind == "number" else _moments(cells)
        rest = cells[np.isnan(units)]
        numbers = _numbers(rest)
        words = np.where(np.isnan(numbers), rest if rest.dtype == object else "", "")
        written = ~np.isnan(numbers)
        words[written] = [f"{number:.12g}" for number in numbers[written]]  # 1 and 1.0 are one text
        words[np.isin(words.astype(str), MISSING)] = ""
        return units, words

    def codes(self, cells: Cells) -> np.ndarray:
        """int64[row] below `size`."""
        units, words = self.parts(cells)
        found = ~np.isnan(units)
        codes = np.empty(len(cells), dtype=np.int64)
        if self.kind != "text":
            values = np.round(units[found], self.decimals)  # how finely a program writes is not judged here
            codes[found] = np.searchsorted(self.cuts, values)
            if self.listed is not None:
                codes[found] = np.where(np.isin(values, self.listed), codes[found], self.bins - 1)
        codes[~found] = self.bins + pd.Series(words).map(self.words).fillna(len(self.words)).to_numpy(int)
        return codes

    def shares(self, cells: Cells) -> pd.Series:
        """The share of every exact value."""
        units, words = self.parts(cells)
        values = np.empty(len(cells), dtype=object)
        found = ~np.isnan(units)
        values[found], values[~found] = np.round(units[found], 9), words
        return pd.Series(values).value_counts(normalize=True)

    @cached_property
    def real_shares(self) -> pd.Series:
        return self.shares(self.cells)

    def exact(self, cells: Cells) -> float:
        """L1 distance of exact values, 0 to 2."""
        return float(self.real_shares.sub(self.shares(cells), fill_value=0).abs().sum())


def _decimals(distinct: np.ndarray) -> int:
    some = distinct[:: max(1, len(distinct) // 2000)]
    fits = (d for d in range(9) if np.allclose(np.round(some, d), some, rtol=0, atol=1e-9))
    return next(fits, 9)


class Judge:
    """The real table, and the errors of what is made of it.

    >>> judge = Judge({"a": np.array(["1", "2", "2", "N"], dtype=object)})
    >>> judge.errors({"a": np.array([1.0, 2.0, np.nan, np.nan])})
    {'e1': 0.5, 'exact': 0.5}
    """

    def __init__(self, real: dict[str, Cells], order: int = 3) -> None:
        self.columns = {name: Column(cells) for name, cells in real.items()}
        self.sizes = [column.size for column in self.columns.values()]
        self.codes = self._encoded(real)
        self.cliques = [some(len(real), k) for k in range(1, min(order, len(real)) + 1)]
        self._counted: dict[tuple[int, ...], np.ndarray] = {}

    def _encoded(self, table: dict[str, Cells]) -> list[np.ndarray]:
        return [column.codes(table[name]) for name, column in self.columns.items()]

    def errors(self, table: dict[str, Cells]) -> dict[str, float]:
        """Mean L1 error of every order, and of single columns on exact values; a table that lacks a column
        raises KeyError.
        """
        exact = [column.exact(table[name]) for name, column in self.columns.items()]
        return {**self._marginals(self._encoded(table)), "exact": float(np.mean(exact))}

    def baselines(self, rng: np.random.Generator) -> dict[str, dict[str, float]]:
        """Errors of columns shuffled one by one, and of rows drawn anew from the real ones."""
        rows = rng.integers(0, len(self.codes[0]), len(self.codes[0]))
        return {
            "independent": self._marginals([rng.permutation(codes) for codes in self.codes]),
            "resampled": self._marginals([codes[rows] for codes in self.codes]),
        }

    def _marginals(self, codes: Sequence[np.ndarray]) -> dict[str, float]:
        return {
            f"e{order}": float(np.mean([self._distance(codes, clique) for clique in cliques]))
            for order, cliques in enumerate(self.cliques, start=1)
        }

    def _distance(self, codes: Sequence[np.ndarray], clique: tuple[int, ...]) -> float:
        shape = [self.sizes[p] for p in clique]
        cells = int(np.prod(shape))
        theirs = np.ravel_multi_index([codes[p] for p in clique], shape)
        if cells > MAX_CELLS:
            ours = np.ravel_multi_index([self.codes[p] for p in clique], shape)
            filled, both = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
            cells, ours, theirs = len(filled), both[: len(ours)], both[len(ours) :]
            real = np.bincount(ours, minlength=cells)
        else:
            if clique not in self._counted:
                ours = np.ravel_multi_index([self.codes[p] for p in clique], shape)
                self._counted[clique] = np.bincount(ours, minlength=cells).astype(np.uint32)
            real = self._counted[clique]
        made = np.bincount(theirs, minlength=cells)
        return float(np.abs(real / len(self.codes[0]) - made / len(theirs)).sum())

    def by_column(self, table: dict[str, Cells]) -> Iterator[str]:
        """A line a column, real > made: errors, mean, quantiles, shares of the three most popular values."""
        encoded = self._encoded(table)
        yield "| column | kind | error | exact | mean | 1, 25, 50, 75, 99 % | most | popular | not in real |"
        yield "|---|---|---|---|---|---|---|---|---|"
        for position, (name, column) in enumerate(self.columns.items()):
            shares = column.shares(table[name])
            real = column.real_shares
            top = ", ".join(
                f"{str(v)[:20] or 'missing'} {real[v]:.3f} > {shares.get(v, 0.0):.3f}" for v in real.index[:3]
            )
            errors = f"{self._distance(encoded, (position,)):.3f} | {column.exact(table[name]):.3f}"
            new = shares[~shares.index.isin(real.index)].sum()
            numbers = _numbers_side_by_side(column, table[name])
            yield f"| {name} | {column.kind} | {errors} | {numbers} | {top} | {new:.3f} |"


def _numbers_side_by_side(column: Column, cells: Cells) -> str:
    units, _ = column.parts(cells)
    made = units[~np.isnan(units)]
    if column.kind == "text" or not len(made):
        return "| |"
    real = column.units
    sides = (np.quantile(side, [0.01, 0.25, 0.5, 0.75, 0.99]) for side in (real, made))
    quantiles = ", ".join(f"{a:.5g} > {b:.5g}" for a, b in zip(*sides, strict=True))
    return f"{real.mean():.4g} > {made.mean():.4g} | {quantiles} | {real[-1]:.5g} > {made.max():.5g}"


def some(columns: int, order: int) -> list[tuple[int, ...]]:
    """All column sets of that order, or MARGINALS of them, always the same."""
    cliques = list(itertools.combinations(range(columns), order))
    if len(cliques) <= MARGINALS:
        return cliques
    chosen = np.random.default_rng(20_260_101).choice(len(cliques), MARGINALS, replace=False)
    return [cliques[i] for i in sorted(chosen)]
