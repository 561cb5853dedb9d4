"""Broken: how many rows do not keep what one column is supposed to say of another. Each row is looked at
alone.

Private: `privacy/functions.py` reads it through the accountant, `draft` says NOT PRIVATE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import WIDEST
from factored_mwem.domain.functions import EQUAL, applied
from factored_mwem.domain.rules import Arithmetic, Computed, Order, Product, Sum
from factored_mwem.tables.codes.kinds import KINDS
from factored_mwem.tables.codes.parsing import plain
from factored_mwem.tables.codes.profile import ColumnProfile, Weighted
from factored_mwem.tables.codes.rest import Known
from factored_mwem.tables.inputs.table import Table

SUM, LINEAR, PRODUCT, ORDER = "sum", "linear", "product", "order"
_UNITS = (10, 100, 1000, 10**6, 60, 3600, 24, 1440, 7, 12, 2.54, 0.3048, 1.609, 1.609344, 0.4536, 0.45359237)
LINEAR_MAPS = (
    (1.8, 32.0),
    *((float(u), 0.0) for u in _UNITS),
    *((1 / u, 0.0) for u in _UNITS),
    (5 / 9, -160 / 9),
)
"""(times, plus): what people write in two units is looked for by these. Public."""
HALF = 0.5 + 2**-20
"""How far a rounded number may be from what it was rounded from, of its last digit."""
ABSENT = ("null", "marker")
"""Kinds of cells that hold nothing."""


class Hypothesis(NamedTuple):
    """That in every row column `target` is a function of `sources`: EQUAL to the only one, their SUM, their
    PRODUCT, LINEAR in the only one (`times` it, `plus` a number), or one of FUNCTIONS of it; or that it is at
    most the only one (ORDER). Public.
    """

    function: str
    target: str
    sources: tuple[str, ...]
    times: float = 1.0
    plus: float = 0.0

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target, *self.sources)

    @property
    def rule(self) -> Arithmetic | Computed | Order:
        if self.function == ORDER:
            return Order(order=(self.target, self.sources[0]), exchange=True)
        if self.function == SUM:
            return Sum(sum=self.target, of=self.sources)
        if self.function == PRODUCT:
            return Product(product=self.target, of=self.sources)
        if self.function == LINEAR:
            more = {"plus": self.plus} if self.plus else {}
            return Sum.model_validate(
                {"sum": self.target, "of": self.sources, "times": (self.times,), **more}
            )
        fields = {"compute": self.target, "as": self.function, "of": self.sources[0]}
        return Computed.model_validate(fields)


class _Cells:
    """The cells of a column in some rows, each distinct one read once."""

    def __init__(self, column: pa.Array, known: Known) -> None:
        words = plain(column).dictionary_encode()
        self.values, self.known = words.dictionary, known
        count = len(self.values)
        self.place = pc.fill_null(words.indices.cast(pa.int64()), count).to_numpy(zero_copy_only=False)
        self.part = ColumnProfile(known.format)
        self.part.add_counted(self.values, pa.array(np.ones(count, dtype=np.int64)))
        self.absent = np.append(np.isin(self.part.kinds, [KINDS.index(kind) for kind in ABSENT]), True)

    @cached_property
    def units(self) -> tuple[np.ndarray, np.ndarray]:
        """(int64[value]: whole units, bool[value]: which have one); the last stands for null."""
        units, read = (np.zeros(len(self.values) + 1, dtype=kind) for kind in (np.int64, bool))
        which, own = self.part.units(self.known.kinds, self.known.unit, self.known.scale)
        units[which], read[which] = np.clip(own, -WIDEST, WIDEST).astype(np.int64), True
        return units, read


def broken(
    columns: Mapping[str, pa.Array],
    known: Mapping[str, Known],
    hypotheses: Sequence[Hypothesis],
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """int64[hypothesis]: the rows that break each, by their `weights: int64[row]`, or one of all. `known`
    says how numbers and times are read, in whole units.

    A copy is broken by cells that differ, unless both are missing. A function is kept where all its sources
    can be read and it is what they make, and where one of them cannot be read, and it neither. An order is
    broken only where both can be read.
    """
    cells = {name: _Cells(column, known[name]) for name, column in columns.items()}
    each = np.int64(1) if weights is None else weights
    return np.array([int((_breaks(one, cells) * each).sum()) for one in hypotheses], dtype=np.int64)


def _breaks(hypothesis: Hypothesis, cells: Mapping[str, _Cells]) -> np.ndarray:
    """bool[row]"""
    target, *sources = (cells[name] for name in hypothesis.columns)
    if hypothesis.function == EQUAL:
        return _differ(target, sources[0])
    units, read = target.units
    values, present = units[target.place], read[target.place]
    if hypothesis.function == ORDER:
        own, readable = (of[sources[0].place] for of in sources[0].units)
        return present & readable & (values > own)
    if hypothesis.function in (LINEAR, PRODUCT):
        expected, complete = _calculated(hypothesis.rule, target, sources)
        return np.where(complete & present, np.abs(values - expected) > HALF, complete != present)
    if hypothesis.function == SUM:
        expected, complete = _summed(target, sources)
    else:
        own, readable = sources[0].units
        own = applied(hypothesis.function, sources[0].known.unit, own)
        expected, complete = own[sources[0].place], readable[sources[0].place]
        expected = expected * int(target.known.scale)
    return np.where(complete & present, values != expected, complete != present)


def _calculated(
    rule: Arithmetic | Computed | Order, target: _Cells, sources: Sequence[_Cells]
) -> tuple[np.ndarray, np.ndarray]:
    """(float64[row]: what the rule makes of the sources in units of the target, before it is rounded,
    bool[row]: whether all can be read).
    """
    assert not isinstance(rule, Computed | Order)
    parts, complete = list[np.ndarray](), np.ones(len(target.place), dtype=bool)
    for source in sources:
        units, read = source.units
        parts.append(units[source.place] / source.known.scale)
        complete &= read[source.place]
    return rule.total(parts) * target.known.scale, complete


def _differ(one: _Cells, other: _Cells) -> np.ndarray:
    """bool[row]: whose cells are not the same."""
    places = pc.fill_null(pc.index_in(one.values, value_set=other.values), -1)
    same = np.append(places.to_numpy(zero_copy_only=False).astype(np.int64), -1)[one.place] == other.place
    return ~(same | (one.absent[one.place] & other.absent[other.place]))


def _summed(target: _Cells, sources: Sequence[_Cells]) -> tuple[np.ndarray, np.ndarray]:
    """(int64[row]: the sum of the sources in units of the target, bool[row]: whether all can be read); what
    the target has too few decimals for is no sum of it.
    """
    total, complete = np.zeros(len(target.place), dtype=np.int64), np.ones(len(target.place), dtype=bool)
    for source in sources:
        units, read = source.units
        total += units[source.place] * int(target.known.scale / source.known.scale)
        complete &= read[source.place]
    return total, complete


def count_broken(
    table: Table,
    known: Mapping[str, Known],
    hypotheses: Sequence[Hypothesis],
    rows: Iterable[Weighted] | None = None,
) -> np.ndarray:
    """int64[hypothesis]: of the whole table, in one pass over its `rows`, which weigh one where nobody
    says.
    """
    names, total = list(known), np.zeros(len(hypotheses), dtype=np.int64)
    for batch, weights in rows or ((batch, None) for batch in table.batches(names)):
        total += broken(dict(zip(names, batch.columns, strict=True)), known, hypotheses, weights)
    return total
