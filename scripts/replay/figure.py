"""What the figures share: the words of their claims, groups of rows, and means of few runs.

A figure is NAME.py in this folder, and NAME.toml beside it with its `title`, `settings`, `source` (HLM where
left out) and its `claims`: `text`, `why` and `whose`, in which {NAME:spec} is a constant of the module or a
value of the mark. The module has

    cases(full: bool) -> list[Row]   units of work as JSON-able parameters; each can run alone, in any order
    run(case: Row) -> list[Row]      tidy rows (str, int, float) of a case; the seeds are inside, so that the
                                     same case gives the same rows. Raises InputError where a data set is
                                     not there, in one line that says where to get it
    marks(rows) -> Marks             the truth of each claim, from the rows alone, and what its `why` says
    plot(rows) -> Any                a Matplotlib figure with the paper's axes; may be left out
    tables(rows) -> list[Table]      numbers to show beside the plot; may be left out
"""

from __future__ import annotations

import itertools
import math
import string
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be compared"
PAPER, PROJECT = "paper", "project"
HLM = "Experiments of Hardt, Ligett and McSherry"
"""The source of a figure's claims where its words name no other; the page counts each source apart."""
SURE = 0.95
"""Probability of an interval, by Student's t."""

Row = dict[str, Any]
Truth = bool | None
"""None: cannot be compared, or the runs do not decide."""
Mark = tuple[Truth, Row]
"""The truth of a claim and the values of its `why`, or another `why`."""
Marks = list[Mark] | str
"""One for each claim; or one sentence why none of them can be compared."""


class Claim(NamedTuple):
    """A sentence of the paper or of the project (`whose`), its mark (HOLDS, FAILS or OPEN), and the numbers
    that decided.
    """

    text: str
    verdict: str
    why: str
    whose: str = PAPER


class Table(NamedTuple):
    """A table beside a figure: cells as they are shown."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


# ---- words


class Filled(string.Formatter):
    """Puts values into words: each of a sequence, and of a mapping "value at key", joined by commas."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, Mapping):
            named = {k if isinstance(k, str) else f"{k:g}": v for k, v in value.items()}
            return ", ".join(f"{self.format_field(v, format_spec)} at {k}" for k, v in named.items())
        if isinstance(value, list | tuple):
            return ", ".join(self.format_field(each, format_spec) for each in value)
        return str(super().format_field(value, format_spec))


def filled(text: str, values: Row) -> str:
    """The text on one line, with these values in it."""
    return Filled().vformat(" ".join(text.split()), (), values)


@cache
def words(name: str) -> Row:
    """NAME.toml as it is, before anything is put into it."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def told(figure: ModuleType, key: str) -> str:
    """The `title`, the `settings` or the `source` of a figure."""
    return filled(words(figure.__name__.rpartition(".")[2]).get(key, HLM), vars(figure))


def mark(true: Truth, **values: Any) -> Mark:
    return true, values


def judge(figure: ModuleType, rows: list[Row]) -> list[Claim]:
    """The claims beside a figure, marked from its rows."""
    claims, marks = words(figure.__name__.rpartition(".")[2])["claims"], figure.marks(rows)
    if isinstance(marks, str):
        marks = [mark(None, why=marks)] * len(claims)
    known, verdicts = vars(figure), {True: HOLDS, False: FAILS, None: OPEN}
    return [
        Claim(
            filled(claim["text"], known),
            verdicts[None if true is None else bool(true)],
            filled(values.get("why") or claim["why"], known | values),
            claim.get("whose", PAPER),
        )
        for claim, (true, values) in zip(claims, marks, strict=True)
    ]


# ---- rows


def grid(**axes: Any) -> list[Row]:
    """Every combination of the values; a text or a number stands for itself."""
    several = [[v] if isinstance(v, str | int | float) else list(v) for v in axes.values()]
    return [dict(zip(axes, at, strict=True)) for at in itertools.product(*several)]


def pick(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def by(rows: Iterable[Row], *keys: str) -> dict[Any, list[Row]]:
    """The rows that have these columns, by their values there (a tuple where there are several), sorted."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        if all(key in row for key in keys):
            at = tuple(row[key] for key in keys)
            groups.setdefault(at if len(keys) > 1 else at[0], []).append(row)
    return dict(sorted(groups.items()))


def values(rows: Iterable[Row], key: str) -> list[Any]:
    """The different values of a column, sorted."""
    return list(by(rows, key))


def mean(rows: Iterable[Row], key: str) -> float:
    """nan where there is no row."""
    column = [row[key] for row in rows]
    return float(np.mean(column)) if column else math.nan


# ---- means of few runs, and truths that stay open where what they may be off by decides


class Interval(NamedTuple):
    """A mean, its standard error, and the ends of its interval: 0 and infinity where one run alone says
    nothing about them.
    """

    mean: float
    error: float
    low: float
    high: float

    @classmethod
    def of(cls, rows: Sequence[Row], key: str) -> Interval:
        """Of runs of something that is never negative; nan where there are none."""
        runs, middle = [row[key] for row in rows], mean(rows, key)
        if len(runs) < 2:
            return cls(middle, math.nan, 0.0, math.inf)
        error = float(np.std(runs, ddof=1) / math.sqrt(len(runs)))
        reach = float(stdtrit(len(runs) - 1, (1 + SURE) / 2)) * error
        return cls(middle, error, max(middle - reach, 0.0), middle + reach)

    def below(self, limit: float) -> Truth:
        """Whether it lies below, for sure; None where the interval has the limit inside."""
        if math.isnan(self.mean) or math.isnan(limit):
            return None
        return True if self.high < limit else False if self.low >= limit else None


def at_least(number: int, truths: Sequence[Truth]) -> Truth:
    """Whether so many are true; None where those that are not decided would make the difference."""
    if truths.count(True) >= number:
        return True
    return None if truths.count(True) + truths.count(None) >= number else False


def all_of(truths: Iterable[Truth]) -> Truth:
    known = list(truths)
    return at_least(len(known), known)
