"""What `python scripts/audit verify` runs: every engine, kind of question, relation, number of rows a person,
and kind of input, on a slice of Adult.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
from common.tables import BUNDLED

from factored_mwem import Domain, Verified, Workload, verify
from factored_mwem.mechanisms import sweep, worth
from factored_mwem.workload.queries.cuboids import CubeRequest
from factored_mwem.workload.queries.ranges import RangesRequest

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
KNOT = 1.15077945
"""In miles an hour: numbers that were converted have no fixed decimals, and are multiples of a step."""
CROWD = 126
"""Rows that may have a category of their own in a crowded table."""


@dataclass(frozen=True)
class Configuration:
    """One way to release the slice: how it comes, what is asked, and the other choices."""

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
        return SOURCES[self.source](folder, slice_of(self.columns, by_id=self.by_id))

    def run(self, folder: Path, pairs: int, seed: int | None = None) -> Verified:
        table, workload = self.table(folder), WORKLOADS[self.workload]
        choices = {**self.all_choices, "domain": None if self.learnt else domain_of(self.columns)}
        # a release of so few rows, half of them hostile, would end after learning, and would leave out the
        # sweep of small marginals: here it goes on
        small = mock.patch.object(worth, "rows_for_a_text", lambda *_: -math.inf)
        with mock.patch.object(worth, "HOPELESS", 2.0), small, mock.patch.object(sweep, "ERROR", 2.0):
            return verify(table, workload, pairs=pairs, seed=seed, **choices)


@cache
def domain_of(columns: tuple[str, ...]) -> Domain:
    return Domain.load(BUNDLED / "adult.domain.json").project(columns)


@cache
def slice_of(columns: tuple[str, ...], *, by_id: bool) -> pd.DataFrame:
    """The rows as text; with an id, persons of one row to six, none of them together, and some rows of nobody
    (an empty id).
    """
    frame = pd.read_csv(BUNDLED / "adult.csv", nrows=ROWS, dtype=str, keep_default_na=False)
    both = (frame["sex"] == "Male").astype(int) + 2 * (frame["income"] == ">50K")
    months = frame["age"].astype(int) * 12
    frame = frame.assign(schooling=frame["education-num"], decade=frame["age"].str[:1], class_of_two=both % 3)
    frame = frame.assign(
        score=frame["education-num"] + ".0", months=months, area=months * frame["education-num"].astype(int)
    )
    frame["paid"] = [age if row % 10 else "30.5" for row, age in enumerate(frame["age"])]
    frame["knots"] = [repr((row + 20 if row % 4 else row // 4 % 6 + 1) * KNOT) for row in range(len(frame))]
    frame["pay"] = [f"${years}50" if years < "8" else f"${years},500" for years in frame["education-num"]]
    frame["at"] = [f"{int(age) // 4}:{int(age) % 4 * 15:02}" for age in frame["age"]]
    begun = pd.to_datetime("2020-01-01") + pd.to_timedelta(frame["age"].astype(int) * 7, unit="D")
    ended = begun + pd.to_timedelta(frame["education-num"].astype(int), unit="D")
    frame = frame.assign(begun=begun.dt.strftime("%Y-%m-%d"), ended=ended.dt.strftime("%Y-%m-%d"))
    frame["code"] = [str(row * 7919 % 99_991) for row in range(len(frame))]
    frame = frame.astype(str)[list(columns)]
    if by_id:
        people = np.random.default_rng(5).integers(-5, ROWS // 3, size=ROWS)
        frame[ID] = [str(person) if person >= 0 else "" for person in people]
    return frame


def _text(folder: Path, frame: pd.DataFrame, *, name: str, quoting: int, end: str) -> Path:
    separator = "\t" if ".tsv" in name else ","
    frame.to_csv(folder / name, index=False, sep=separator, quoting=quoting, lineterminator=end)
    return folder / name


def _arrow(_: Path, frame: pd.DataFrame) -> pa.Table:
    """Text as text, numbers as numbers; two columns as dictionaries, of Arrow's own codes and of narrow
    ones.
    """
    columns = {}
    for name in frame:
        values = pa.array(frame[name], pa.string())
        if name in NUMBERS:
            values = values.cast(pa.int64())
        elif name == ID:
            values = pa.array([v or None for v in frame[name]], pa.string())
        elif name in ("race", "sex"):
            codes = values.dictionary_encode()
            narrow = codes.indices.cast(pa.int8() if name == "race" else pa.int32())
            values = pa.DictionaryArray.from_arrays(narrow, codes.dictionary)
        columns[name] = values
    return pa.table(columns)


def _written(folder: Path, frame: pd.DataFrame, *, name: str, write: Callable[..., Any]) -> Path:
    write(_arrow(folder, frame), str(folder / name))
    return folder / name


def _pandas(_: Path, frame: pd.DataFrame) -> pd.DataFrame:
    typed = frame.astype({name: "int64" if name in NUMBERS else "category" for name in frame if name != ID})
    return typed.assign(**{ID: typed[ID].replace("", None)}) if ID in typed else typed


def _crowded(folder: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """As many categories as the narrowest codes of pandas hold: one more, and they are wider."""
    names = frame["relationship"].copy()
    most = 126 - names.iloc[CROWD:].nunique()
    names.iloc[:most] = [f"one of a kind {i}" for i in range(most)]
    return _pandas(folder, frame.assign(relationship=names))


SOURCES: dict[str, Callable[[Path, pd.DataFrame], Any]] = {
    "csv": partial(_text, name="slice.csv", quoting=csv.QUOTE_MINIMAL, end="\n"),
    "csv.gz": partial(_text, name="slice.csv.gz", quoting=csv.QUOTE_MINIMAL, end="\n"),
    "tsv, crlf": partial(_text, name="slice.tsv", quoting=csv.QUOTE_MINIMAL, end="\r\n"),
    "quoted csv": partial(_text, name="slice.csv", quoting=csv.QUOTE_ALL, end="\n"),
    "arrow": _arrow,
    "parquet": partial(_written, name="slice.parquet", write=pq.write_table),
    "feather": partial(_written, name="slice.feather", write=pf.write_feather),
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
DELTAS = (1e-9, 0.0)


class Person(NamedTuple):
    """Whose rows are protected: the neighbour relation, at most how many rows, and whether by a column."""

    relation: str
    k: int
    by_id: bool = False


def configuration(
    engine: str, person: Person, source: str, workload: str = "marginals", **more: Any
) -> Configuration:
    """One with a name that says all of it. `more`: choices of the policy, and `learnt`, `columns`, `words`
    (at the end of its name).
    """
    learnt, words, delta = more.pop("learnt", False), more.pop("words", []), more.pop("delta", 1e-9)
    columns = ("sex", "income") if workload == "parities" else ("age", "race", "sex") if learnt else COLUMNS
    name = [engine, person.relation, f"k={person.k}", "learnt" if learnt else "declared"]
    name += ["by id"] * person.by_id + ["zcdp" if delta else "pure", workload, source, *words]
    policy = {"engine": engine, "neighbours": person.relation, "contributions": person.k, "delta": delta}
    columns = more.pop("columns", columns)
    choices = {**policy, "epsilon": 60.0 if learnt else 1.0, **TEXT.get(source, {}), **more}
    return Configuration(", ".join(name), source, workload, learnt, person.by_id, columns, choices)


def certified(engine: str, person: Person, source: str, **more: Any) -> Configuration:
    """With a certificate of the released rows."""
    return configuration(engine, person, source, certificate=0.2, words=["certified"], **more)


def at_once(relation: str, k: int, source: str, *, delta: float = 1e-9) -> Configuration:
    """Few columns, all of whose marginals are measured at once, as residuals: at an epsilon at which no noisy
    count of rows decides otherwise.
    """
    more = {"delta": delta, "rounds": None, "epsilon": 30.0, "words": ["at once"]}
    columns = ("race", "sex") if source in TYPED else ("sex", "income")
    return configuration("tree", Person(relation, k), source, columns=columns, **more)


ORDER = "age"
"""The number by which rows of a person are put in order."""


def of_people(relation: str, source: str, *, order: bool = False, **more: Any) -> Configuration:
    """In which each person weighs one; with an `order`, what follows what and how a number changes, too."""
    words = ["people"] + ["in order"] * order
    other, more_of_order = ("education-num", {"order_by": ORDER}) if order else ("race", {})
    choices = {"people": True, "columns": (ORDER, other, "sex"), **more_of_order}
    return configuration("tree", Person(relation, 3, by_id=True), source, words=words, **choices, **more)


def peopled() -> list[Configuration]:
    """Each relation, price and way to a domain, once."""
    return [
        of_people("add-remove", "csv"),
        of_people("replace", "arrow", order=True),
        of_people("add-remove", "csv", order=True, delta=0.0),
        of_people("add-remove", "parquet", order=True, learnt=True),
    ]


def spelt() -> Configuration:
    """Learnt, of whole numbers that are written with zeros behind a point."""
    choices = {"epsilon": 60.0}
    return Configuration(
        "numbers with zeros, learnt", "csv", learnt=True, columns=("score", "sex"), choices=choices
    )


def noted() -> Configuration:
    """Learnt, of amounts of money and times of day."""
    columns, choices = ("pay", "at", "sex"), {"epsilon": 60.0}
    return Configuration("amounts and times, learnt", "arrow", learnt=True, columns=columns, choices=choices)


def crowded() -> list[Configuration]:
    """A column of as many categories as a narrow dictionary holds."""
    columns, choices = ("relationship", "sex", "income"), {"epsilon": 60.0}
    facts = {"source": "crowded pandas", "columns": columns, "choices": choices}
    return [
        Configuration(f"crowded categories, {words}", learnt=words == "learnt", **facts)
        for words in ("declared", "learnt")
    ]


def alike() -> Configuration:
    """Two columns that say the same: of their pairs few cells hold all rows, and stand out of the noise."""
    columns, choices = ("education", "education-num", "sex"), {"epsilon": 3.0, "rounds": 4}
    return Configuration("columns that say the same", "arrow", columns=columns, choices=choices)


FUNCTIONS = ("education", "education-num", "schooling", "decade", "age")
"""A number that follows from a text, a copy of it, and the tens of a number."""


OF_TWO = ("sex", "income", "class_of_two")
"""A number that follows from two texts together, and from neither alone."""


def related(
    relation: str, k: int, source: str, columns: tuple[str, ...] = FUNCTIONS, words: str = "functions"
) -> Configuration:
    """Learnt, of columns that say something of each other, at an epsilon at which few rows can tell."""
    more = {"epsilon": 1000.0 * k**2, "max_cells": 2**17, "words": [words]}
    return configuration("tree", Person(relation, k), source, learnt=True, columns=columns, **more)


ARITHMETIC = ("age", "education-num", "months", "area")
"""A number in two units, and a product."""


def calculated(relation: str, k: int, source: str) -> Configuration:
    """The same of what follows by arithmetic."""
    return related(relation, k, source, ARITHMETIC, "arithmetic")


def of_two(relation: str, k: int, source: str) -> Configuration:
    """The same of a column that follows from two."""
    return related(relation, k, source, OF_TWO, "functions of two")


def ordered(relation: str, k: int, source: str) -> Configuration:
    """The same of two columns of dates, of which one never comes before the other."""
    return related(relation, k, source, ("begun", "ended", "sex"), "orders")


def looked(relation: str, k: int, source: str) -> list[Configuration]:
    """Learnt, of a column of whole numbers but for some, of one of codes among a hundred thousand, which is
    looked at again, and of one of multiples of a step, of which those that are not popular have cells; at an
    epsilon at which votes cannot tell the first, and at such at which few rows can tell.
    """
    settings = (
        ("paid", 8.0, "decimals among whole numbers"),
        ("code", 1000.0, "single values, twice"),
        ("knots", 1000.0 * k, "multiples of a step"),
    )
    return [
        configuration(
            "tree", Person(relation, k), source,
            learnt=True, columns=(column, "race", "sex"), epsilon=epsilon, words=[words],
        )
        for column, epsilon, words in settings
    ]  # fmt: skip


def with_public(*, learnt: bool) -> Configuration:
    """Of columns two of which are as in a public table, other rows of the same."""
    rows = pd.read_csv(BUNDLED / "adult.csv", skiprows=range(1, ROWS + 1), dtype=str, keep_default_na=False)
    more = {"learnt": learnt, "words": ["public columns"], "rounds": None}
    more |= {"public_columns": ["race", "sex"], "public": rows[["race", "sex"]]}
    return configuration("tree", Person("add-remove", 3), "csv", columns=("age", "race", "sex"), **more)


def matrix() -> list[Configuration]:
    """All of them; inputs and kinds of question take turns, the rest is crossed."""
    sources, kinds, every = itertools.cycle((*TEXT, *TYPED)), itertools.cycle(WORKLOADS), []
    crossed = itertools.product(("tree", "mwem"), RELATIONS, (1, 3), (False, True), (False, True))
    for engine, relation, k, learnt, by_id in crossed:
        workload = next(kinds) if engine == "mwem" and not learnt else "marginals"
        person = Person(relation, k, by_id)
        every += [
            configuration(engine, person, next(sources), workload, learnt=learnt, delta=delta)
            for delta in DELTAS[: 1 if learnt else 2]
        ]
    for relation, delta, kind in itertools.product(RELATIONS, DELTAS, [*WORKLOADS][1:]):
        every.append(configuration("mwem", Person(relation, 3), "arrow", kind, delta=delta))
    for relation, k, delta in itertools.product(RELATIONS, (1, 3), DELTAS):
        every.append(at_once(relation, k, next(sources), delta=delta))
    swept = ("replace", 3, "cube", "csv"), ("replace", 3, "label", "csv"), ("add-remove", 1, "label", "arrow")
    for (relation, k, kind, source), delta in itertools.product(swept, DELTAS):
        more = {"delta": delta, "rounds": None, "epsilon": 8.0}
        every.append(configuration("tree", Person(relation, k), source, kind, **more))
    for engine, relation, delta in itertools.product(("tree", "mwem"), RELATIONS, DELTAS):
        every.append(certified(engine, Person(relation, 3), next(sources), delta=delta))
    every.append(certified("tree", Person("add-remove", 3, by_id=True), "csv", learnt=True))
    looks, ways = (related, calculated, of_two, ordered), (("add-remove", 1), ("replace", 3))
    every += [look(*way, "csv") for look in looks for way in ways]
    every += [each for way in ways for each in looked(*way, "csv")]
    every += [with_public(learnt=learnt) for learnt in (False, True)]
    return [*every, *peopled(), *crowded(), spelt(), noted(), alike()]
