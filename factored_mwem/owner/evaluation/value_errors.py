"""Value errors: NOT PRIVATE. How far a column's synthetic values are off, whatever bins a release had."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.owner.evaluation.readings import Kind, Unit, Values

T = TypeVar("T")
Pair = tuple[T, T]
"""A fact about the real table, and the same about the synthetic one."""
Value = int | float | str
"""A number, or text; a moment is a text in ISO 8601."""
PERCENTS = (0, 5, 25, 50, 75, 95, 100)
POPULAR = 5
"""Most frequent values of the real column that are shown."""
REPEATING = 0.9
"""Share of the real rows that must hold a value which another one holds, too, for values to be compared one
by one: of ids and measurements every synthetic value is new, however good it is.
"""
DAY = 86_400e6
"""Microseconds, the unit of moments."""


class Popular(NamedTuple):
    """NOT PRIVATE. A frequent value of the real column, and the shares of rows that hold it."""

    value: Value
    real: float
    synthetic: float


@dataclass(frozen=True, slots=True)
class Spread:
    """NOT PRIVATE. The numbers, or moments, of a column in both tables; other values are left out."""

    mean: Pair[Value]
    deviation: Pair[float]
    """Standard deviations; of moments in days."""
    quantiles: dict[int, Pair[Value]]
    """Quantiles by percent: 0 is the least and 100 the greatest value. Each is a value of its table."""
    kolmogorov_smirnov: float
    """The greatest distance between the two cumulative shares, from 0 to 1."""
    wasserstein: float | None
    """Wasserstein-1 (earth mover's) distance in standard deviations of the real column; None if those
    are 0.
    """


@dataclass(frozen=True, slots=True)
class ColumnErrors:
    """NOT PRIVATE. The values of a column in both tables. Shares are of all rows of a table."""

    name: str
    kind: Kind
    """What nearly all values of the real column are; mixed: numbers or moments, and text beside them."""
    repeated: float
    """Share of the real values that are in another real row, too."""
    distance: float | None
    """L1 between the shares of all values, missing ones included, from 0 to 2; None if values do not
    repeat.
    """
    unseen: float | None
    """Share of synthetic rows with a value that the real table never has; None if `distance` is."""
    missing: Pair[float]
    """Shares of rows without a value."""
    text: Pair[float]
    """Shares of rows whose value is text, in a column of numbers or moments as well."""
    popular: tuple[Popular, ...]
    """The most frequent real values that more than one row has."""
    spread: Spread | None
    """None if one of the tables has no numbers in it."""


@dataclass(frozen=True, slots=True, repr=False)
class _Tally:
    """NOT PRIVATE. Distinct values of both tables, ascending, and int64[value, table] their rows."""

    numbers: np.ndarray
    number_rows: np.ndarray
    texts: pa.Array
    text_rows: np.ndarray
    missing: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, pair: Pair[Values]) -> _Tally:
        present = [values.numbers[~np.isnan(values.numbers)] for values in pair]
        numbers, place = np.unique(np.concatenate(present), return_inverse=True)
        number_rows = _counts([place[: len(present[0])], place[len(present[0]) :]], len(numbers))
        joint = pa.concat_arrays([values.texts for values in pair])
        order = pc.unique(joint)
        order = order.take(pc.array_sort_indices(order))
        at = pc.index_in(joint, value_set=order).to_numpy(zero_copy_only=False).astype(np.int64)
        parts = at[: len(pair[0].texts)], at[len(pair[0].texts) :]
        places = [part[v.index[v.index >= 0]] for part, v in zip(parts, pair, strict=True)]
        text_rows = _counts(places, len(order))
        rows = np.array([len(values.numbers) for values in pair])
        missing = rows - number_rows.sum(axis=0) - text_rows.sum(axis=0)
        return cls(numbers, number_rows, order, text_rows, missing, rows)


def _counts(places: list[np.ndarray], size: int) -> np.ndarray:
    return np.stack([np.bincount(place, minlength=size) for place in places], axis=1)


def column_errors(name: str, kind: Kind, unit: Unit, pair: Pair[Values]) -> ColumnErrors:
    """NOT PRIVATE. The errors of a column, read alike in both tables."""
    tally = _Tally.of(pair)
    every = np.concatenate([tally.number_rows, tally.text_rows, tally.missing[None]])
    valued = every[:-1]
    present = int(valued[:, 0].sum())
    repeated = float(valued[valued[:, 0] > 1, 0].sum() / present) if present else 1.0
    distance = unseen = None
    if repeated >= REPEATING:
        shares = every / tally.rows
        distance = float(np.abs(shares[:, 0] - shares[:, 1]).sum())
        unseen = float(valued[valued[:, 0] == 0, 1].sum() / tally.rows[1])
    text = tally.text_rows.sum(axis=0)
    return ColumnErrors(
        name=name,
        kind=kind,
        repeated=repeated,
        distance=distance,
        unseen=unseen,
        missing=_pair(tally.missing / tally.rows),
        text=_pair(text / tally.rows),
        popular=_popular(tally, unit),
        spread=_spread(tally, unit),
    )


def _pair(two: np.ndarray) -> Pair[float]:
    return float(two[0]), float(two[1])


def _popular(tally: _Tally, unit: Unit) -> tuple[Popular, ...]:
    rows = np.concatenate([tally.number_rows, tally.text_rows])
    first = np.argsort(-rows[:, 0], kind="stable")[:POPULAR]
    numbers = len(tally.numbers)
    return tuple(
        Popular(
            value_of(tally.numbers[i], unit) if i < numbers else tally.texts[int(i) - numbers].as_py(),
            *_pair(rows[i] / tally.rows),
        )
        for i in first
        if rows[i, 0] > 1
    )


def _spread(tally: _Tally, unit: Unit) -> Spread | None:
    rows = tally.number_rows
    total = rows.sum(axis=0)
    if not total.all():
        return None
    size = float(np.abs(tally.numbers).max()) or 1.0  # squares of what is scaled cannot overflow
    scaled = tally.numbers / size
    mean = scaled @ rows / total
    deviation = np.sqrt([rows[:, t] @ (scaled - mean[t]) ** 2 / total[t] for t in (0, 1)])
    deviation[np.count_nonzero(rows, axis=0) == 1] = 0.0  # else the rounding of the mean would hide it
    reached = np.cumsum(rows, axis=0)
    apart = np.abs(reached[:, 0] / total[0] - reached[:, 1] / total[1])
    moved = float(apart[:-1] @ np.diff(scaled))
    days = 1.0 if unit == "number" else DAY
    return Spread(
        mean=(value_of(mean[0] * size, unit), value_of(mean[1] * size, unit)),
        deviation=_pair(deviation * (size / days)),
        quantiles={percent: _quantiles(tally.numbers, reached, percent, unit) for percent in PERCENTS},
        kolmogorov_smirnov=float(apart.max()),
        wasserstein=moved / float(deviation[0]) if deviation[0] else None,
    )


def _quantiles(numbers: np.ndarray, reached: np.ndarray, percent: int, unit: Unit) -> Pair[Value]:
    """The least value of each table that so many of its rows do not exceed."""
    needed = np.maximum(-(-reached[-1] * percent // 100), 1)
    quantiles = [numbers[np.searchsorted(reached[:, t], needed[t])] for t in (0, 1)]
    return value_of(quantiles[0], unit), value_of(quantiles[1], unit)


def value_of(number: float, unit: Unit) -> Value:
    """A number as a person writes it: whole ones as integers, moments in ISO 8601."""
    if unit == "number":
        return int(number) if number == math.floor(number) and abs(number) < 2**53 else float(number)
    limit = 2.0**63 - 1024
    micros = round(min(max(float(number), -limit), limit))
    text = str(np.datetime_as_string(np.datetime64(micros, "us")))
    text = text.rstrip("0").rstrip(".") if "." in text and not micros % 1_000_000 else text
    return text if micros % int(DAY) else text.partition("T")[0]
