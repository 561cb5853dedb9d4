"""What a person who asks is told: how many 95 % intervals of `fmwem answer` hold what the private table says,
and how wide they are. NOT PRIVATE: it reads the table.

    python scripts/bench intervals --data brfss.csv --learn adult.csv --epsilon 0.1 1 10 --releases 2

Of every table and release the same kinds of questions, in words, about raw values: pairs and triples of
values that a row has together, ranges of two columns of numbers, means and medians of a column of numbers
where another has a value. Tables of `--data` are released over a drafted domain, those of `--learn` over one
that the release learns. `--models` keeps the releases, and uses those that are there. With `--person` tables
are released as people; every question is of the rows that are used or per person, in turn, and a further kind
counts people by what is the same in all their rows, and by how many rows they have.

`within` is the share of intervals that hold the truth, `width` the median width, `ratio` that width over the
one that 1.96 times the errors' own spread would give (their root mean square over the kind), `first` the
seconds that the first answer by the model took.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
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
    person: Annotated[str | None, "the column that says whose a row is: releases of people"] = None
    releases: int = 2
    models: Annotated[Path | None, "folder of releases, made where they are missing"] = None


def quoted(value: Any) -> str:
    return (
        "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" if isinstance(value, str) else str(value)
    )


class Asker:
    """Who asks about a table; `rows: int64[row]`: how many rows its person has, where people are counted."""

    def __init__(
        self, table: pd.DataFrame, rng: np.random.Generator, rows: np.ndarray | None, most: int = 1
    ) -> None:
        """`most`: the rows that are used of each person, drawn at random."""
        self.table, self.rng, self.rows, self.names = table, rng, rows, list(table.columns)
        self.most = most
        self.used = np.ones(len(table)) if rows is None else np.minimum(rows, most) / rows
        self.numbers = [n for n in self.names if table[n].dtype.kind in "if" and table[n].nunique() > 4]

    def questions(self) -> Iterator[Question]:
        for (order, kind), n in itertools.product(((2, "pair"), (3, "triple")), range(EACH)):
            yield kind, *self._count(*self._cell(self.rng.choice(self.names, order, replace=False)), n)
        for n in range(EACH if len(self.numbers) > 1 else 0):
            yield "range", *self._count(*self._range(), n)
        for n in range(EACH if self.numbers else 0):
            yield from self._figures(n)

    def people(self, constant: Sequence[str]) -> Iterator[Question]:
        """Counts of people, by columns that are the same in all rows of a person."""
        for _ in range(EACH if self.rows is not None else 0):
            some = self.rng.choice(constant, min(2, len(constant)), replace=False)
            where, held = self._cell(some)
            least = int(self.rng.choice(np.minimum(self.rows, self.most)))
            weights = (held & (self.rows >= least)) / self.rows
            where = [*([where] if len(some) else []), f"rows_of_person >= {least}"]
            yield "people", f"count people where {' and '.join(where)}", lambda w=weights: w.sum()

    def _unit(self, number: int) -> tuple[str, np.ndarray]:
        if self.rows is None:
            return "", np.ones(len(self.table))
        return (" rows", self.used) if number % 2 else (" per person", 1 / self.rows)

    def _cell(self, some: Any) -> tuple[str, np.ndarray]:
        row = self.table.iloc[self.rng.integers(len(self.table))]
        conditions = " and ".join(f"'{n}' = {quoted(row[n])}" for n in some)
        return conditions, (self.table[list(some)] == row[list(some)]).all(axis=1).to_numpy()

    def _range(self) -> tuple[str, np.ndarray]:
        some = self.rng.choice(self.numbers, 2, replace=False)
        ends = {n: np.sort(self.rng.choice(self.table[n].unique(), 2)) for n in some}
        conditions = " and ".join(f"'{n}' between {low} and {high}" for n, (low, high) in ends.items())
        held = [self.table[n].between(low, high) for n, (low, high) in ends.items()]
        return conditions, np.logical_and.reduce(held)

    def _count(self, conditions: str, held: np.ndarray, number: int) -> tuple[str, Callable[[], float]]:
        unit, weights = self._unit(number)
        if unit == " per person":
            return f"share per person where {conditions}", lambda: (weights * held).sum() / weights.sum()
        return f"count{unit} where {conditions}", (weights * held).sum

    def _figures(self, number: int) -> Iterator[Question]:
        unit, weights = self._unit(number)
        a = self.rng.choice(self.numbers)
        conditions, held = self._cell([self.rng.choice([n for n in self.names if n != a])])
        own, weights = self.table[a].to_numpy()[held], weights[held]
        where = f"'{a}' where {conditions}"
        yield "mean", f"mean{unit} {where}", lambda: np.average(own, weights=weights)
        yield "quantile", f"median{unit} {where}", lambda: median(own, weights)


def median(values: np.ndarray, weights: np.ndarray) -> float:
    """The least value up to which half of the weight lies."""
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(upto, upto[-1] / 2 * (1 - 1e-9))])


def outcomes(made: Release, table: pd.DataFrame, person: str | None, number: int) -> Iterator[Row]:
    first = None
    rows = table.groupby(person)[person].transform("size").to_numpy() if person is not None else None
    names = [n for n in made.domain.names if n in table]
    facts = made.manifest.people
    most = facts.most_rows if facts is not None else 1
    asker = Asker(table[names], np.random.default_rng(number), rows, most)
    asked = [*asker.questions(), *(asker.people(facts.constant) if facts is not None else ())]
    for kind, text, truth in asked:
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


def one_release(path: Path, learn: bool, epsilon: float, options: Asked, place: Path | None) -> Release:
    """A release of a table, from its place where it is there."""
    if place is not None and place.exists():
        return Release.load(place)
    settings: dict[str, Any] = {"domain": None if learn else draft(path).reviewed(), "epsilon": epsilon}
    if options.person is not None:
        most = int(pd.read_csv(path, usecols=[options.person]).value_counts().max())
        settings |= {"people": True, "privacy_id": options.person, "contributions": most}
    made = release(path, options.marginals, **settings)
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
            made = one_release(path, learn, epsilon, options, place)
            found += outcomes(made, table, options.person, number)
        for (kind, basis), some in pd.DataFrame(found).groupby(["kind", "basis"]):
            ideal = 2 * 1.96 * float((some.error**2).mean()) ** 0.5
            figures = {"asked": len(some), "within": some.hit.mean(), "width": some.width.median()}
            figures |= {"ratio": some.width.median() / max(ideal, 1e-9), "first": some["first"].max()}
            about = {"data": name, "epsilon": epsilon, "kind": kind, "basis": basis}
            yield {**about, **{key: float(value) for key, value in figures.items()}}


COLUMNS = "asked = {asked:.0f} | within = {within:.3f} | width = {width:.4g} | ratio = {ratio:.2f}"
intervals = Benchmark(Asked, asked, "data epsilon kind basis", COLUMNS + " | first = {first:.1f}")
