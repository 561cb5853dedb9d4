"""Marginals, by values and not by codes of a domain: L1 distances, 0 to 2, of released rows from real ones.

Numbers and dates are cut into 20 bins of equal real mass, texts stand as they are; `exact` is the mean
distance of single columns on exact values. A word for what is missing is one value, whichever it is. This is
the project's own judge, and runs in the Python that runs the others.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from frames import answer, numbers, plain, tables

BINS = 20
POPULAR = 100
"""Texts that are told apart in a column; the others count as one."""
MARGINALS = 600
"""Most marginals of an order that are counted: a fixed choice of them, where there are more."""
ORDER = 3


class Column:
    """A real column, and how it is cut: numbers and dates into bins of equal real mass, whatever else stands
    in it as texts.
    """

    def __init__(self, cells: pd.Series, kind: str) -> None:
        self.kind = kind
        units, words = self.parts(cells)
        known = units[~np.isnan(units)]
        self.decimals = decimals(np.unique(known)) if kind == "number" else 9
        quantiles = (
            np.quantile(known, np.linspace(0, 1, BINS + 1), method="inverted_cdf") if len(known) else ()
        )
        self.cuts = np.unique(quantiles)[1:-1]
        self.words = {word: i for i, word in enumerate(words.value_counts().index[:POPULAR])}
        self.size = len(self.cuts) + 1 + len(self.words) + 1
        self.real = self.shares(cells)

    def parts(self, cells: pd.Series) -> tuple[np.ndarray, pd.Series]:
        """float64[row] of numbers or days, nan where there are none, and the texts of all other cells."""
        if self.kind == "category":
            return np.full(len(cells), np.nan), plain(cells)
        units = numbers(cells, self.kind).to_numpy()
        return units, plain(cells[np.isnan(units)])

    def codes(self, cells: pd.Series) -> np.ndarray:
        """int64[row] below `size`."""
        units, words = self.parts(cells)
        read = ~np.isnan(units)
        codes = np.empty(len(cells), dtype=np.int64)
        # how finely a program writes is not judged here
        codes[read] = np.searchsorted(self.cuts, np.round(units[read], self.decimals))
        words = words.map(self.words).fillna(len(self.words))
        codes[~read] = len(self.cuts) + 1 + words.to_numpy(int)
        return codes

    def shares(self, cells: pd.Series) -> pd.Series:
        """The share of every exact value."""
        units, words = self.parts(cells)
        values = pd.Series(np.round(units, 9), dtype=object)
        values[np.isnan(units)] = words.to_numpy()
        return values.value_counts(normalize=True)

    def exact(self, cells: pd.Series) -> float:
        """L1 distance of exact values, 0 to 2."""
        return float(self.real.sub(self.shares(cells), fill_value=0).abs().sum())


def decimals(distinct: np.ndarray) -> int:
    some = distinct[:: max(1, len(distinct) // 2000)]
    fits = (d for d in range(9) if np.allclose(np.round(some, d), some, rtol=0, atol=1e-9))
    return next(fits, 9)


def chosen(columns: int, order: int) -> list[tuple[int, ...]]:
    """All column sets of that order, or MARGINALS of them, always the same."""
    cliques = list(itertools.combinations(range(columns), order))
    if len(cliques) <= MARGINALS:
        return cliques
    some = np.random.default_rng(20_260_101).choice(len(cliques), MARGINALS, replace=False)
    return [cliques[i] for i in sorted(some)]


def errors(real: pd.DataFrame, rows: pd.DataFrame, kinds: dict[str, str]) -> dict[str, float]:
    """Mean L1 error of every order, and of single columns on exact values; rows that lack a column raise
    KeyError.
    """
    columns = {name: Column(real[name], kind) for name, kind in kinds.items()}
    exact = [column.exact(rows[name]) for name, column in columns.items()]
    codes = [[column.codes(side[name]) for name, column in columns.items()] for side in (real, rows)]
    sizes, means = [column.size for column in columns.values()], {}
    for order in range(1, min(ORDER, len(columns)) + 1):
        far = []
        for clique in chosen(len(columns), order):
            shape = [sizes[p] for p in clique]
            sides = [np.ravel_multi_index([side[p] for p in clique], shape) for side in codes]
            _, cells = np.unique(np.concatenate(sides), return_inverse=True)
            first, second = (
                np.bincount(part, minlength=cells.max() + 1) / len(part)
                for part in np.split(cells, [len(sides[0])])
            )
            far.append(np.abs(first - second).sum())
        means[f"e{order}"] = float(np.mean(far))
    return {**means, "exact": float(np.mean(exact))}


if __name__ == "__main__":
    answer(lambda task: errors(*tables(task, "real", "rows"), task["kinds"]))
