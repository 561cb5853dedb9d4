"""People: what a query counts where each person weighs one, and the model's counts are in grains.

A grain of a person with n rows stands for as many rows, and as much of a person, as n says; n is an attribute
of the model, so that each is one more factor of a query's weights. Where a code of it holds several numbers,
or the query leaves n out, the factor is known between two ends alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from factored_mwem.answers.query import Count, Counted, Cube, Share, Single, Total, literals
from factored_mwem.answers.restriction import Ends
from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, shortened, some_names

NARROW = 0.02
"""So much may people's weights differ for n to be left out of a query about people."""
CLASSES = "how many rows people with many have is known by classes: {}"
SAME_IN_CLASS = "those of a class are taken to have the mean of its numbers"
ENDS = "the interval holds whatever they are"
MOST_OF_EACH = "of each person at most {:,} rows are counted"
LESS = "a person with many rows weighs up to {:.2%} less than one with few"


@dataclass(frozen=True, slots=True, eq=False)
class PeopleCounted:
    """What is known of a release of people. `columns`: those that are the same in all rows of a person, of
    whom `most` rows are used. `codes: int64[most]` of ROWS_OF_PERSON for n = 1, 2, ... rows, of `size`;
    `row_weights: int64[most]`: the grains of a row.
    """

    columns: tuple[str, ...]
    codes: np.ndarray
    size: int
    row_weights: np.ndarray

    @property
    def most(self) -> int:
        return len(self.codes)

    @property
    def numbers(self) -> np.ndarray:
        """int64[most]"""
        return np.arange(1, self.most + 1)

    def a_grain(self, unit: Counted) -> np.ndarray:
        """float64[most]: how many rows or people a grain stands for; per person, where grains are counted,
        those of a person of one row stand for one.
        """
        if unit == "per person":
            return np.full(self.most, 1 / self.row_weights[0])
        return 1 / self.row_weights if unit == "rows" else 1 / (self.row_weights * self.numbers)

    def ends(self, each: np.ndarray) -> np.ndarray:
        """float64[3, code]: the mean, least and greatest of `each: float64[most]` over the numbers of a
        code; of a code without a number, over all.
        """
        figures = np.empty((3, self.size))
        for code in range(self.size):
            own = each[self.codes == code]
            own = own if len(own) else each
            figures[:, code] = own.mean(), own.min(), own.max()
        return figures


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A factor of a query's weights: `weights: float64[code]` of the attribute `at`; `ends`: the least and
    the greatest that it may be, where it is not known.
    """

    at: int
    weights: np.ndarray
    ends: tuple[np.ndarray, np.ndarray] | None = None
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return self.ends is None

    def at_end(self, ends: Ends) -> dict[int, np.ndarray]:
        """Its weights by attribute: as they are, or the least or the greatest that they may be."""
        least, most = self.ends or (self.weights, self.weights)
        return {self.at: {"even": self.weights, "least": least, "most": most}[ends]}


def factors_of(
    query: Single, domain: Domain, people: PeopleCounted | None, unit: Counted | None = None
) -> list[Factor]:
    """What makes of grains what a query counts, the best first; none where rows are all that was counted.
    `unit`: what is counted where the query does not say it.

    Raises InputError, in one line that says what to ask instead, where it is not clear what is counted, or
    where nothing tells.
    """
    if people is None:
        if query.unit in ("people", "per person"):
            raise InputError(
                f"`{query.unit}`: the release is of rows, of nobody who is known; see release --people"
            )
        return []
    unit = query.unit or unit
    if unit is None:
        raise InputError(
            "the release is of people: say what is counted, `count people ...`, `count rows ...` or "
            "`share per person ...`; see `fmwem guide counted`"
        )
    if unit == "per person" and isinstance(query, Count | Cube | Total):
        raise InputError("`per person` goes with share, mean, median and quantile: count people, or rows")
    if unit == "people":
        _check_columns(query, domain, people)
    factors = _factors(unit, domain.modelled.index(ROWS_OF_PERSON), people)
    if unit != "rows" and ROWS_OF_PERSON not in _columns(query):
        return factors
    return [replace(each, notes=(MOST_OF_EACH.format(people.most), *each.notes)) for each in factors]


def _factors(unit: Counted, at: int, people: PeopleCounted) -> list[Factor]:
    each, notes = people.a_grain(unit), tuple[str, ...]()
    if unit == "per person":
        least = float((people.row_weights * people.numbers).min() / people.row_weights[0])
        notes = (LESS.format(1 - least),) if least < 1 else ()
    mean, low, high = people.ends(each)
    ends = None if np.array_equal(low, high) else (low, high)
    factors = [Factor(at, mean, ends, notes)]
    if unit == "people" and 0 < 1 - each.min() / each.max() <= NARROW:
        alike = [np.full(people.size, figure) for figure in (each.mean(), each.min(), each.max())]
        factors.append(Factor(at, alike[0], (alike[1], alike[2]), notes))
    return factors


def _check_columns(query: Single, domain: Domain, people: PeopleCounted) -> None:
    own = {*people.columns, ROWS_OF_PERSON}
    for column in _columns(query):
        if column in domain and column not in own:
            raise InputError(
                f"{shortened(column)!r} may differ between rows of a person: ask `count rows ...` or "
                f"`share per person ...`; people are counted by {some_names(sorted(own))}"
            )


def _columns(query: Single) -> Sequence[str]:
    """The columns that a query names."""
    given = query.given if isinstance(query, Share) else ()
    named = [each.column for each in literals((*query.where, *given))]
    named += [getattr(query, name) for name in ("column", "other") if hasattr(query, name)]
    return [*named, *(query.columns if isinstance(query, Cube) else query.by)]
