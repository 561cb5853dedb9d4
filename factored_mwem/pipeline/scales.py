"""Scales: columns of numbers or moments whose rows come with a value of their own, which the next row's
follows from. Free, for the model is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.companions import least_step, steps_between
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.tables.codes.decode import OWN_TYPE, column_of, units_within


@dataclass(frozen=True, eq=False)
class Scale:
    """The values of `attribute`, at `position` of the model."""

    attribute: Attribute
    position: int

    @cached_property
    def low(self) -> np.ndarray:
        """int64 or float64[code]: the least value of each."""
        return intervals(self.attribute)[0]

    @cached_property
    def high(self) -> np.ndarray:
        return intervals(self.attribute)[1]

    @cached_property
    def known(self) -> np.ndarray:
        """bool[code]: whether it stands for values."""
        return placed(self.attribute)

    @property
    def ends(self) -> tuple[Any, Any]:
        """The least and the greatest value."""
        return self.low[self.known].min(), self.high[self.known].max()

    def begun(self, codes: np.ndarray, rng: np.random.Generator) -> np.ma.MaskedArray:
        """A value of each code, int64 or float64[row]; masked where it has none."""
        a = self.attribute
        values = self.low[codes] if a.categorical else units_within(a, codes, OWN_TYPE[a.type], rng)
        return np.ma.MaskedArray(values, mask=~self.known[codes])

    def codes(self, values: np.ma.MaskedArray) -> np.ndarray:
        """int64[row]: the codes of values that the attribute has."""
        a, units = self.attribute, values.filled(self.ends[0])
        if a.categorical:
            order = np.argsort(self.low[self.known], kind="stable")
            codes = order[np.clip(np.searchsorted(self.low[order], units), 0, len(order) - 1)]
        else:
            bins = np.clip(np.searchsorted(a.cuts, units, side="right") - 1, 0, len(a.cuts) - 2)
            codes = a.bin_codes[bins]
            if len(a.specials):
                place = np.clip(np.searchsorted(a.specials, units), 0, len(a.specials) - 1)
                codes = np.where(a.specials[place] == units, a.special_codes[place], codes)
        return np.where(np.ma.getmaskarray(values), a.missing_code, codes).astype(np.int64)

    def column(self, codes: np.ndarray, times: np.ma.MaskedArray, kind: pa.DataType) -> pa.Array:
        """The values, as the column's type has them."""
        return column_of(self.attribute, codes, times.filled(0), np.ma.getmaskarray(times), kind)

    def within(self, low: np.ndarray, high: np.ndarray, luck: np.ndarray) -> np.ndarray:
        """From `low` to `high`, by `luck` in [0, 1): a multiple of the least step, where it is whole."""
        a = self.attribute
        if a.type == "number":
            values = low + luck * (high - low)
            return values if a.decimals is None else np.round(values, a.decimals)
        values = low + (luck * (high - low + 1)).astype(np.int64)
        return values if a.categorical else values - values % int(least_step(a))

    def snapped(self, values: np.ndarray) -> np.ndarray:
        """Values that the attribute has: the nearest of listed ones, or of those that a bin stands for."""
        a = self.attribute
        listed = np.sort(self.low[self.known]) if a.categorical else a.drawn[0]
        if not len(listed):
            return values
        above = np.clip(np.searchsorted(listed, values), 1, max(len(listed) - 1, 1))
        below, above = listed[above - 1], listed[np.minimum(above, len(listed) - 1)]
        nearest = np.where(values - below <= above - values, below, above)
        if a.categorical:
            return nearest
        filled = np.diff(np.searchsorted(listed, a.cuts)) > 0
        bins = np.clip(np.searchsorted(a.cuts, values, side="right") - 1, 0, len(filled) - 1)
        return np.where(filled[bins] & ~np.isin(values, a.specials), nearest, values)


@dataclass(frozen=True, eq=False)
class Walk(Scale):
    """How a column goes on from row to row, by changes: codes of `change`, at `at` of the model."""

    change: Attribute
    at: int

    @cached_property
    def same(self) -> int:
        """The code of no change."""
        cuts = self.change.cuts
        return int(self.change.bin_codes[np.searchsorted(cuts, 0, side="right") - 1])

    def changes(self, values: np.ma.MaskedArray, begin: np.ndarray) -> np.ndarray:
        """int64[row]: the codes of how rows have changed since the row before; `begin: int64[person]`: where
        the rows of each begin.
        """
        before = values[np.maximum(np.arange(len(values)) - 1, 0)]
        steps = steps_between(self.attribute, before.filled(0), values.filled(0))
        steps[begin] = self.change.specials[0]
        unknown = np.ma.getmaskarray(before) | np.ma.getmaskarray(values)
        unknown[begin] = False
        return Scale(self.change, self.at).codes(np.ma.MaskedArray(steps, mask=unknown))

    def on(
        self, before: np.ma.MaskedArray, changes: np.ndarray, codes: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ma.MaskedArray, np.ndarray]:
        """(the values after each change, the codes of these): of `codes: int64[row]`, which were drawn with
        the changes, where one of their values is that far from the one before; where no value at all is, a
        value of the code.
        """
        least, most = self.ends
        now, step = before.filled(least), least_step(self.attribute)
        scaled = [bound[changes] * step for bound in intervals(self.change)]
        if self.attribute.type != "number":
            scaled = [each.astype(np.int64) for each in scaled]
        low, high = np.maximum(now + scaled[0], least), np.minimum(now + scaled[1], most)
        begin, end = np.maximum(low, self.low[codes]), np.minimum(high, self.high[codes])
        both = self.known[codes] & (begin <= end)
        luck = rng.random(len(codes))
        values = self.within(np.where(both, begin, low), np.where(both, end, np.maximum(low, high)), luck)
        values = np.where(changes == self.same, now, self.snapped(np.clip(values, least, most)))
        untold = (changes == self.change.special_codes[0]) | (changes == self.change.null_code)
        anew = untold | np.ma.getmaskarray(before) | (low > high)
        begun = self.begun(codes, rng)
        unknown = anew & np.ma.getmaskarray(begun)
        values = np.ma.MaskedArray(np.where(anew, begun.filled(least), values), mask=unknown)
        return values, np.where(anew, codes, self.codes(values))
