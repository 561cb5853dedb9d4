"""What a person who asks is told: how many 95 % intervals of `fmwem answer` hold what the private table says,
and how wide they are. NOT PRIVATE: it reads the table.

    python scripts/bench intervals --data brfss.csv --learn adult.csv --epsilon 0.1 1 10 --releases 2

Of every table and release the same kinds of questions, in words, about raw values: pairs and triples of
values that a row has together, ranges of two columns of numbers, means and medians of a column of numbers
where another has a value. Tables of `--data` are released over a drafted domain, those of `--learn` over one
that the release learns. `--models` keeps the releases, and uses those that are there.

`within` is the share of intervals that hold the truth, `width` the median width, `ratio` that width over the
one that 1.96 times the errors' own spread would give (their root mean square over the kind), `first` the
seconds that the first answer by the model took.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from common.runner import Benchmark, Options, Row

from factored_mwem import InputError, Release, draft, release

EACH = 24
"""Questions of a kind to a release."""
Question = tuple[str, str, Callable[[], float]]
"""The kind, the query, and what the table answers."""


@dataclass(frozen=True, kw_only=True)
class Asked(Options):
    data: Annotated[tuple[Path, ...], "CSV files, released over a drafted domain"] = ()
    learn: Annotated[tuple[Path, ...], "CSV files, released over a domain that is learnt"] = ()
    epsilon: tuple[float, ...] = (1.0,)
    marginals: Annotated[int, "all marginals of this order"] = 2
    releases: int = 2
    models: Annotated[Path | None, "folder of releases, made where they are missing"] = None


def quoted(value: Any) -> str:
    return (
        "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" if isinstance(value, str) else str(value)
    )


def questions(table: pd.DataFrame, rng: np.random.Generator) -> Iterator[Question]:
    names = list(table.columns)
    numbers = [n for n in names if table[n].dtype.kind in "if" and table[n].nunique() > 4]
    for (order, kind), _ in itertools.product(((2, "pair"), (3, "triple")), range(EACH)):
        some = rng.choice(names, order, replace=False).tolist()
        row = table.iloc[rng.integers(len(table))]
        conditions = " and ".join(f"'{n}' = {quoted(row[n])}" for n in some)
        held = (table[some] == row[some]).all(axis=1)
        yield kind, f"count where {conditions}", held.sum
    for _ in range(EACH if len(numbers) > 1 else 0):
        ends = {n: np.sort(rng.choice(table[n].unique(), 2)) for n in rng.choice(numbers, 2, replace=False)}
        conditions = " and ".join(f"'{n}' between {low} and {high}" for n, (low, high) in ends.items())
        held = np.logical_and.reduce([table[n].between(low, high) for n, (low, high) in ends.items()])
        yield "range", f"count where {conditions}", held.sum
    for _ in range(EACH if numbers else 0):
        a = rng.choice(numbers)
        b = rng.choice([n for n in names if n != a])
        value = table[b].iloc[rng.integers(len(table))]
        own, where = table[a][table[b] == value], f"'{a}' where '{b}' = {quoted(value)}"
        yield "mean", f"mean {where}", own.mean
        yield "quantile", f"median {where}", lambda own=own: own.quantile(0.5, interpolation="lower")


def outcomes(made: Release, table: pd.DataFrame, number: int) -> Iterator[Row]:
    first = None
    for kind, text, truth in questions(table[list(made.domain.names)], np.random.default_rng(number)):
        begun = time.perf_counter()
        try:
            told = made.answer(text)
        except InputError:
            yield {"kind": "refused", "basis": "-", "hit": True, "width": 0.0, "error": 0.0, "first": first}
            continue
        if first is None and told.basis == "model":
            first = time.perf_counter() - begun
        low, high, true = float(told.low[0]), float(told.high[0]), float(truth())
        row: Row = {"kind": kind, "basis": told.basis, "width": high - low, "first": first}
        yield {**row, "hit": low - 1e-9 <= true <= high + 1e-9, "error": float(told.estimate[0]) - true}


def one_release(path: Path, learn: bool, epsilon: float, order: int, place: Path | None) -> Release:
    """A release of a table, from its place where it is there."""
    if place is not None and place.exists():
        return Release.load(place)
    made = release(path, order, domain=None if learn else draft(path).reviewed(), epsilon=epsilon)
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        made.save(place)
    return made


def asked(options: Asked, _: Path) -> Iterator[Row]:
    """A row for every kind of question and basis, of all releases of a table at an epsilon."""
    tables = [*((path, False) for path in options.data), *((path, True) for path in options.learn)]
    for (path, learn), epsilon in itertools.product(tables, options.epsilon):
        name = f"{path.name.split('.')[0]} {'learnt' if learn else 'drafted'}"
        table, found = pd.read_csv(path, keep_default_na=False), list[Row]()
        for number in range(options.releases):
            place = options.models and options.models / f"{name}_{epsilon:g}" / f"{number}.fmwem"
            made = one_release(path, learn, epsilon, options.marginals, place)
            found += outcomes(made, table, number)
        for (kind, basis), some in pd.DataFrame(found).groupby(["kind", "basis"]):
            ideal = 2 * 1.96 * float((some.error**2).mean()) ** 0.5
            figures = {"asked": len(some), "within": some.hit.mean(), "width": some.width.median()}
            figures |= {"ratio": some.width.median() / max(ideal, 1e-9), "first": some["first"].max()}
            about = {"data": name, "epsilon": epsilon, "kind": kind, "basis": basis}
            yield {**about, **{key: float(value) for key, value in figures.items()}}


COLUMNS = "asked = {asked:.0f} | within = {within:.3f} | width = {width:.4g} | ratio = {ratio:.2f}"
intervals = Benchmark(Asked, asked, "data epsilon kind basis", COLUMNS + " | first = {first:.1f}")
