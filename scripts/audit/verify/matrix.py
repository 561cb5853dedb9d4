"""The configurations: every engine, kind of question, relation, number of rows a person, and kind of input,
on a slice of Adult.
"""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq

from factored_mwem import Domain, Verified, Workload, verify
from factored_mwem.mechanisms import learn, sweep
from factored_mwem.workload.queries.cuboids import CubeRequest
from factored_mwem.workload.queries.ranges import RangesRequest

DATA = Path(__file__).parents[3] / "datasets"
COLUMNS = ("age", "education-num", "race", "sex", "income")
NUMBERS = ("age", "education-num")
ROWS = 240
ID = "person"
WORKLOADS = {
    "marginals": Workload.marginals(2),
    "cube": Workload(asked=(CubeRequest.parse("race,sex,income:2"),)),
    "ranges": Workload(asked=(RangesRequest.parse("age:all"), RangesRequest.parse("age,education-num:20"))),
    "parities": Workload.parities(2),
    "label": Workload.marginals(2) + Workload.label("income"),
    "mixture": Workload(asked=(CubeRequest.parse("race,sex:2"), RangesRequest.parse("age:prefix")))
    + Workload.parities(2),
}
QUICK = {"rounds": 2, "max_cells": 2000}
CROWD = 126
"""Rows that may have a category of their own in a crowded table."""


@dataclass(frozen=True)
class Configuration:
    """One way to release the slice: how it comes, what is asked, and what else is said."""

    name: str
    source: str
    workload: str = "marginals"
    learnt: bool = False
    by_id: bool = False
    columns: tuple[str, ...] = COLUMNS
    choices: dict[str, Any] = field(default_factory=dict)

    @property
    def all_choices(self) -> dict[str, Any]:
        return {**QUICK, **self.choices, **({"privacy_id": ID} if self.by_id else {})}

    @property
    def records(self) -> Any:
        return self.choices.get("records", "checked")

    def table(self, folder: Path) -> Any:
        """The slice; in `folder`, if it must be a file."""
        return SOURCES[self.source](folder, self)

    def run(self, folder: Path, pairs: int, seed: int | None = None) -> Verified:
        domain = None if self.learnt else domain_of(self.columns)
        # a release of so few rows, half of them hostile, would end after learning, and would leave out the
        # sweep of small marginals: here it goes on
        with mock.patch.object(learn, "HOPELESS", 2.0), mock.patch.object(sweep, "ERROR", 2.0):
            return verify(
                self.table(folder),
                WORKLOADS[self.workload],
                pairs=pairs,
                seed=seed,
                domain=domain,
                **self.all_choices,
            )


@cache
def domain_of(columns: tuple[str, ...]) -> Domain:
    return Domain.load(DATA / "adult.domain.json").project(columns)


@cache
def slice_of(columns: tuple[str, ...], *, by_id: bool) -> list[list[str]]:
    """Header and rows as text; with an id, persons of one row to six, none of them together, and some rows of
    nobody.
    """
    with (DATA / "adult.csv").open(newline="") as file:
        head, *rows = itertools.islice(csv.reader(file), ROWS + 1)
    found = [list(columns), *([row[head.index(name)] for name in columns] for row in rows)]
    if not by_id:
        return found
    people = np.random.default_rng(5).integers(-5, ROWS // 3, size=ROWS)
    return [
        [*row, ID if at == 0 else str(people[at - 1]) if people[at - 1] >= 0 else ""]
        for at, row in enumerate(found)
    ]


def _text(name: str, quoting: int, end: str = "\n") -> Callable[[Path, Configuration], Path]:
    def write(folder: Path, made: Configuration) -> Path:
        path = folder / name
        opened = gzip.open if name.endswith(".gz") else open
        with opened(path, "wt", newline="", encoding="utf-8") as file:
            delimiter = "\t" if ".tsv" in name else ","
            csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(
                slice_of(made.columns, by_id=made.by_id)
            )
        return path

    return write


def _arrow(_: Path, made: Configuration) -> pa.Table:
    """Text as text, numbers as numbers; two columns as dictionaries, of Arrow's own codes and of narrow
    ones.
    """
    head, *rows = slice_of(made.columns, by_id=made.by_id)
    columns = {}
    for at, name in enumerate(head):
        values = [row[at] for row in rows]
        if name in NUMBERS:
            columns[name] = pa.array([int(v) for v in values], pa.int64())
        elif name == ID:
            columns[name] = pa.array([v or None for v in values], pa.string())
        elif name in ("race", "sex"):
            codes = pa.array(values).dictionary_encode()
            narrow = codes.indices.cast(pa.int8() if name == "race" else pa.int32())
            columns[name] = pa.DictionaryArray.from_arrays(narrow, codes.dictionary)
        else:
            columns[name] = pa.array(values)
    return pa.table(columns)


def _parquet(folder: Path, made: Configuration) -> Path:
    pq.write_table(_arrow(folder, made), folder / "slice.parquet")
    return folder / "slice.parquet"


def _feather(folder: Path, made: Configuration) -> Path:
    pf.write_feather(_arrow(folder, made), str(folder / "slice.feather"))
    return folder / "slice.feather"


def _pandas(_: Path, made: Configuration) -> pd.DataFrame:
    head, *rows = slice_of(made.columns, by_id=made.by_id)
    frame = pd.DataFrame(rows, columns=head)
    for name in head:
        if name == ID:
            frame[name] = frame[name].replace("", None)
        else:
            frame[name] = frame[name].astype("int64" if name in NUMBERS else "category")
    return frame


def _crowded(folder: Path, made: Configuration) -> pd.DataFrame:
    """As many categories as the narrowest codes of pandas hold: one more, and they are wider."""
    frame = _pandas(folder, made)
    names = frame["relationship"].astype(str)
    most = 126 - names.iloc[CROWD:].nunique()
    names.iloc[:most] = [f"one of a kind {i}" for i in range(most)]
    frame["relationship"] = names.astype("category")
    return frame


SOURCES: dict[str, Callable[[Path, Configuration], Any]] = {
    "csv": _text("slice.csv", csv.QUOTE_MINIMAL),
    "csv.gz": _text("slice.csv.gz", csv.QUOTE_MINIMAL),
    "tsv, crlf": _text("slice.tsv", csv.QUOTE_MINIMAL, "\r\n"),
    "quoted csv": _text("slice.csv", csv.QUOTE_ALL),
    "arrow": _arrow,
    "parquet": _parquet,
    "feather": _feather,
    "pandas": _pandas,
    "crowded pandas": _crowded,
}
TEXT = {
    "csv": {},
    "csv.gz": {"records": "lines"},
    "tsv, crlf": {"records": "lines"},
    "quoted csv": {"records": "multiline"},
}
"""The reading that goes with each text file."""
TYPED = ("arrow", "parquet", "feather", "pandas")
RELATIONS = ("add-remove", "replace")


def matrix() -> list[Configuration]:
    """All of them; inputs and kinds of question take turns, the rest is crossed."""
    sources, kinds, found = itertools.cycle((*TEXT, *TYPED)), itertools.cycle(WORKLOADS), []
    for engine, relation, k, learnt, by_id in itertools.product(
        ("tree", "mwem"), RELATIONS, (1, 3), (False, True), (False, True)
    ):
        workload = next(kinds) if engine == "mwem" and not learnt else "marginals"
        for delta in (1e-9,) if learnt else (1e-9, 0.0):
            person = Person(relation, k, by_id)
            found.append(configuration(engine, person, next(sources), workload, learnt=learnt, delta=delta))
    for relation, delta, workload in itertools.product(
        RELATIONS, (1e-9, 0.0), ("label", "cube", "ranges", "parities", "mixture")
    ):
        found.append(configuration("mwem", Person(relation, 3), "arrow", workload, delta=delta))
    for relation, k, delta in itertools.product(RELATIONS, (1, 3), (1e-9, 0.0)):
        found.append(at_once(relation, k, next(sources), delta=delta))
    for relation, k, workload, source in (
        ("replace", 3, "cube", "csv"),
        ("replace", 3, "label", "csv"),
        ("add-remove", 1, "label", "arrow"),
    ):
        for delta in (1e-9, 0.0):
            person = Person(relation, k)
            found.append(
                configuration("tree", person, source, workload, delta=delta, rounds=None, epsilon=8.0)
            )
    for engine, relation, delta in itertools.product(("tree", "mwem"), RELATIONS, (1e-9, 0.0)):
        found.append(certified(engine, Person(relation, 3), next(sources), delta=delta))
    found.append(certified("tree", Person("add-remove", 3, by_id=True), "csv", learnt=True))
    return [*found, *crowded()]


def certified(engine: str, person: Person, source: str, **more: Any) -> Configuration:
    """With a certificate of the released rows."""
    made = configuration(engine, person, source, certificate=0.2, **more)
    return replace(made, name=f"{made.name}, certified")


def at_once(relation: str, k: int, source: str, *, delta: float = 1e-9) -> Configuration:
    """Few columns, all of whose marginals are measured at once, as residuals: at an epsilon at which no noisy
    count of rows decides otherwise.
    """
    made = configuration("tree", Person(relation, k), source, delta=delta, rounds=None)
    columns = ("race", "sex") if source in TYPED else ("sex", "income")
    return replace(
        made, name=f"{made.name}, at once", columns=columns, choices={**made.choices, "epsilon": 30.0}
    )


def crowded() -> list[Configuration]:
    """A column of as many categories as a narrow dictionary holds."""
    columns, choices = ("relationship", "sex", "income"), {"epsilon": 60.0}
    facts = {"source": "crowded pandas", "columns": columns, "choices": choices}
    return [
        Configuration(f"crowded categories, {words}", learnt=words == "learnt", **facts)
        for words in ("declared", "learnt")
    ]


class Person(NamedTuple):
    """Whose rows are protected: the neighbour relation, at most how many rows, and whether by a column."""

    relation: str
    k: int
    by_id: bool = False


def configuration(
    engine: str,
    person: Person,
    source: str,
    workload: str = "marginals",
    *,
    learnt: bool = False,
    delta: float = 1e-9,
    **more: Any,
) -> Configuration:
    """One with a name that says all of it."""
    columns = ("sex", "income") if workload == "parities" else ("age", "race", "sex") if learnt else COLUMNS
    words = [
        engine,
        person.relation,
        f"k={person.k}",
        "learnt" if learnt else "declared",
        *(["by id"] if person.by_id else []),
        "pure" if delta == 0 else "zcdp",
    ]
    choices = {
        "engine": engine,
        "neighbours": person.relation,
        "contributions": person.k,
        "delta": delta,
        "epsilon": 60.0 if learnt else 1.0,
        **TEXT.get(source, {}),
    }
    return Configuration(
        ", ".join([*words, workload, source]),
        source,
        workload,
        learnt,
        person.by_id,
        columns,
        {**choices, **more},
    )
