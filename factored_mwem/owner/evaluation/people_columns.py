"""Columns of people: NOT PRIVATE. How a column's values in the rows of one person depend on each other, in
both tables. Each person weighs one; numbers are in bins where shares of values are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from factored_mwem.owner.evaluation.people_rows import PeopleRows
from factored_mwem.owner.evaluation.readings import Values
from factored_mwem.owner.evaluation.value_errors import Pair, Value, value_of

SHOWN_VALUES = 5
"""Most frequent real values of a column, of which the people who have them are counted."""


class PeopleWith(NamedTuple):
    """NOT PRIVATE. The shares of people who have a value in any of their rows, and in all of them."""

    value: Value
    any: Pair[float]
    all: Pair[float]


@dataclass(frozen=True, slots=True)
class PeopleColumn:
    """NOT PRIVATE. Distances are from 0 to 1: total variation between shares of people by the value in their
    first row, their last, and by the one that all their rows have, if they have one. `any`: between the
    shares of people with a value in any row, which add up to more than one: half their L1 distance over their
    mean sum.
    """

    name: str
    any: float
    all: float
    first: float
    last: float
    same: Pair[float]
    """Shares of the people with several rows who have the same in all of them."""
    agreement: Pair[float]
    """How often two rows of a person have the same."""
    correlation: Pair[float] | None
    """The intraclass correlation of the numbers in two rows of a person; None for text."""
    transitions: float | None
    """Total variation between pairs of values in a row and in the person's next one, each pair weighing one;
    None where no column tells the order, and of that column.
    """
    independent: float | None
    """What `transitions` would be if successive rows were independent: the distance of the real pairs from
    the product of their own shares.
    """
    popular: tuple[PeopleWith, ...]


def column_of_people(
    name: str,
    rows: Pair[PeopleRows],
    values: Pair[Values],
    codes: Pair[np.ndarray],
    unit: Any,
    *,
    ordered: bool,
) -> PeopleColumn:
    """NOT PRIVATE. `codes: int[row]`: the bins of both tables; `unit`: of the values' numbers; `ordered`:
    whether the rows of a person are in an order that means something.
    """
    size = 1 + max(int(each.max()) for each in codes)
    real, synthetic = (_CodesOfPeople.of(*each, size) for each in zip(rows, codes, strict=True))
    pairs = (real.transitions(), synthetic.transitions()) if ordered else None
    known = pairs is not None and all(len(each.cells) for each in pairs)
    return PeopleColumn(
        name,
        any=_apart(real.any, synthetic.any),
        all=_apart(real.all, synthetic.all),
        first=_apart(real.first, synthetic.first),
        last=_apart(real.last, synthetic.last),
        same=(real.same, synthetic.same),
        agreement=(real.agreement, synthetic.agreement),
        correlation=_correlations(rows, values),
        transitions=pairs[0].apart(pairs[1]) if known and pairs is not None else None,
        independent=pairs[0].independent if known and pairs is not None else None,
        popular=_popular(rows, values, unit),
    )


def _apart(first: np.ndarray, second: np.ndarray) -> float:
    """The total variation of shares; of what adds up to more, over the mean sum."""
    return float(np.abs(first - second).sum() / max(first.sum() + second.sum(), 1e-300))


class _Transitions(NamedTuple):
    """NOT PRIVATE. Pairs of a row's code and its next one's, code * size + next: `cells: int64`, ascending,
    those that occur, and `shares: float64` of all pairs.
    """

    size: int
    cells: np.ndarray
    shares: np.ndarray

    def apart(self, other: _Transitions) -> float:
        """Total variation: the sum, over all cells, of the shares that are larger here than there."""
        at = np.minimum(np.searchsorted(other.cells, self.cells), len(other.cells) - 1)
        there = np.where(other.cells[at] == self.cells, other.shares[at], 0.0)
        return float(np.maximum(self.shares - there, 0).sum())

    @property
    def independent(self) -> float:
        """The total variation from the product of the codes' own shares."""
        code, following = np.divmod(self.cells, self.size)
        before, after = (
            np.bincount(each, self.shares, minlength=self.size)[each] for each in (code, following)
        )
        return float(np.maximum(self.shares - before * after, 0).sum())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _CodesOfPeople:
    """NOT PRIVATE. `codes: int64[row, in order]` below `size`; whose `person` and how many rows of each have
    it: int64[pair of both that occurs].
    """

    rows: PeopleRows
    codes: np.ndarray
    size: int
    person: np.ndarray
    code: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, rows: PeopleRows, codes: np.ndarray, size: int) -> _CodesOfPeople:
        ordered = codes[rows.order].astype(np.int64)
        pairs, times = np.unique(rows.person * size + ordered, return_counts=True)
        return cls(rows, ordered, size, pairs // size, pairs % size, times)

    def _shares(self, codes: np.ndarray) -> np.ndarray:
        return np.bincount(codes, minlength=self.size) / len(self.rows)

    @property
    def any(self) -> np.ndarray:
        """float64[code]: the share of people with it in any row."""
        return self._shares(self.code)

    @property
    def all(self) -> np.ndarray:
        """float64[code + 1]: with it in all rows; last, those who have several."""
        shares = self._shares(self.code[self.times == self.rows.sizes[self.person]])
        return np.append(shares, 1 - shares.sum())

    @property
    def first(self) -> np.ndarray:
        return self._shares(self.codes[self.rows.begins])

    @property
    def last(self) -> np.ndarray:
        return self._shares(self.codes[np.append(self.rows.begins[1:], len(self.codes)) - 1])

    @property
    def same(self) -> float:
        """The share of people with several rows who have one value in all; 0 if nobody has several rows."""
        sizes = self.rows.sizes
        whole = (self.times == sizes[self.person]) & (self.times > 1)
        return float(whole.sum() / max((sizes > 1).sum(), 1))

    @property
    def agreement(self) -> float:
        """The mean over people with several rows of the share of pairs that agree; 0 where there are none."""
        sizes = self.rows.sizes.astype(np.float64)
        agree = np.bincount(self.person, self.times * (self.times - 1.0), minlength=len(sizes))
        several = sizes > 1
        return float((agree[several] / (sizes * (sizes - 1))[several]).sum() / max(several.sum(), 1))

    def transitions(self) -> _Transitions:
        """The pairs of a row and the next of its person."""
        following = self.rows.following
        pairs = self.codes[following - 1] * self.size + self.codes[following]
        cells, times = np.unique(pairs, return_counts=True)
        return _Transitions(self.size, cells, times / max(len(pairs), 1))


def _correlations(rows: Pair[PeopleRows], values: Pair[Values]) -> Pair[float] | None:
    if any(np.isnan(each.numbers).all() for each in values):
        return None
    real, synthetic = (_correlation(*each) for each in zip(rows, values, strict=True))
    return (real, synthetic)


def _correlation(rows: PeopleRows, values: Values) -> float:
    """The intraclass correlation: the mean over people of the mean product of two of their numbers, taken
    from the mean of all, over the variance; of the people with several numbers, 0 if these do not vary.
    """
    numbers = values.numbers[rows.order]
    known = ~np.isnan(numbers)
    numbers, person = numbers[known], rows.person[known]
    sizes = np.bincount(person, minlength=len(rows)).astype(np.float64)
    own = sizes[person] > 1
    numbers, person, several = numbers[own], person[own], sizes > 1
    if not several.any():
        return 0.0
    scale = np.abs(numbers).max() or 1.0  # no square overflows
    weight = 1 / sizes[person]
    apart = numbers / scale - np.average(numbers / scale, weights=weight)
    sums, squares = (np.bincount(person, each, minlength=len(rows))[several] for each in (apart, apart**2))
    n = sizes[several]
    variance = float((squares / n).mean())
    product = float(((sums**2 - squares) / (n * (n - 1))).mean())
    return product / variance if variance > 1e-24 else 0.0


def _popular(rows: Pair[PeopleRows], values: Pair[Values], unit: Any) -> tuple[PeopleWith, ...]:
    """The most frequent values of the real rows, and the people who have them."""
    real = values[0]
    known = real.numbers[~np.isnan(real.numbers)]
    numbers, times = np.unique(known, return_counts=True)
    of_texts = np.bincount(real.index[real.index >= 0], minlength=len(real.texts))
    best = np.argsort(-np.concatenate([times, of_texts]), kind="stable")[:SHOWN_VALUES]
    shown = []
    for at in best.tolist():
        if at < len(numbers):
            value, held = value_of(numbers[at], unit), [each.numbers == numbers[at] for each in values]
        elif of_texts[at - len(numbers)]:
            text = real.texts[at - len(numbers)]
            value, held = text.as_py(), [each.index == pc.index(each.texts, text).as_py() for each in values]
            held = [where & (each.index >= 0) for where, each in zip(held, values, strict=True)]
        else:
            continue
        (real_any, real_all), (any_, all_) = (_people_with(*each) for each in zip(rows, held, strict=True))
        shown.append(PeopleWith(value, (real_any, any_), (real_all, all_)))
    return tuple(shown)


def _people_with(rows: PeopleRows, held: np.ndarray) -> Pair[float]:
    """(the share of people with a row where `held: bool[row]`, the share of those with no other)."""
    times = np.add.reduceat(held[rows.order].astype(np.int64), rows.begins)
    return float((times > 0).mean()), float((times == rows.sizes).mean())
