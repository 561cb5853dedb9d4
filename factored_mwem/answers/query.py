"""Queries: what can be asked of a release, as values; `grammar.py` reads and writes them as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from factored_mwem.domain.attribute import Scalar
from factored_mwem.errors import InputError

Comparison = Literal["=", "!=", "<", "<=", ">", ">="]
Value = Scalar


@dataclass(frozen=True, slots=True)
class Compare:
    """`column` compared with a value. No comparison holds for a missing value."""

    column: str
    by: Comparison
    value: Value


@dataclass(frozen=True, slots=True)
class Between:
    """`column` from `low` to `high`, both of which belong to it."""

    column: str
    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class OneOf:
    """`column` among `values`, or (`negated`) none of them and not missing."""

    column: str
    values: tuple[Value, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """`column` is missing, or (`negated`) is not."""

    column: str
    negated: bool = False


Counted = Literal["people", "rows", "per person"]
"""Of a release of people, what is counted: people, of whom only what is the same in all their rows can be
asked; rows; or one row of each person, any of hers with the same chance.
"""
MIDDLE = 0.5
"""The share of which a median is the quantile."""


OneColumn = Compare | Between | OneOf | Missing


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of `parts`, which may be of different columns."""

    parts: tuple[OneColumn, ...]


Condition = OneColumn | AnyOf
Where = tuple[Condition, ...]
"""Conditions that all hold."""


@dataclass(frozen=True, slots=True)
class Count:
    """Records by the values of the columns `by`, that meet all of `where`."""

    where: Where = ()
    by: tuple[str, ...] = ()
    unit: Counted | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """In each group of the columns `by`: the share of the records meeting all of `given` that also meet all
    of `where`. Without `where`: the share of the records that each group holds.
    """

    where: Where = ()
    given: Where = ()
    by: tuple[str, ...] = ()
    unit: Counted | None = None


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a column of numbers, over records that meet `where` and have a number there."""

    column: str
    where: Where = ()
    by: tuple[str, ...] = ()
    unit: Counted | None = None


@dataclass(frozen=True, slots=True)
class Quantile:
    """The least value that a share `at` of the records do not exceed; records without a value are left
    out.
    """

    column: str
    at: float
    where: Where = ()
    by: tuple[str, ...] = ()
    unit: Counted | None = None

    def __post_init__(self) -> None:
        if not 0 < self.at < 1:
            raise InputError(f"quantile {self.at:g}: must lie between 0 and 1, such as 0.9")


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a column of numbers, over records that meet `where` and have a number there."""

    column: str
    where: Where = ()
    by: tuple[str, ...] = ()
    unit: Counted | None = None


@dataclass(frozen=True, slots=True)
class Deviation:
    """The standard deviation of a column of numbers, over the same records, divided by their number."""

    column: str
    where: Where = ()
    by: tuple[str, ...] = ()
    unit: Counted | None = None


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's correlation of two columns of numbers, over records that have both."""

    column: str
    other: str
    where: Where = ()
    by: tuple[str, ...] = ()
    unit: Counted | None = None


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least value that the domain has for a column, or the `greatest`; what rows hold is not known."""

    column: str
    greatest: bool


@dataclass(frozen=True, slots=True)
class Distinct:
    """How many values of its domain a column has, among records that meet `where`."""

    column: str
    where: Where = ()


@dataclass(frozen=True, slots=True)
class Top:
    """The `number` largest groups of the columns."""

    number: int
    columns: tuple[str, ...]
    where: Where = ()


@dataclass(frozen=True, slots=True)
class Cube:
    """Counts by the values of every subset of the columns."""

    columns: tuple[str, ...]
    where: Where = ()
    unit: Counted | None = None


Single = Count | Share | Mean | Quantile | Cube | Total | Deviation | Correlation


@dataclass(frozen=True, slots=True)
class Difference:
    """One answer less another, group by group."""

    first: Single
    second: Single


Query = Single | Difference | Extreme | Distinct | Top


def literals(where: Sequence[Condition]) -> Iterator[OneColumn]:
    """The conditions of one column each that a query puts."""
    for each in where:
        yield from each.parts if isinstance(each, AnyOf) else (each,)


def median(
    column: str, where: Sequence[Condition] = (), by: Sequence[str] = (), unit: Counted | None = None
) -> Quantile:
    """The quantile in the middle."""
    return Quantile(column, MIDDLE, tuple(where), tuple(by), unit)


def marginal(*columns: str) -> Count:
    """Counts by the values of some columns."""
    return Count(by=columns)
