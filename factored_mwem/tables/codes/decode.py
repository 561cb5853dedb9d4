"""Decode: codes to values of a column's own type, and to what they stand for in a word. It reads no rows."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factored_mwem.domain.attribute import Attribute, Scalar
from factored_mwem.domain.conditions import STEPS
from factored_mwem.errors import shortened
from factored_mwem.tables.codes.parsing import is_text, value_type

OWN_TYPE = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
}
"""The Arrow type of an attribute whose column came as text."""
Label = Scalar | None
"""A listed value, a whole number, or a bin in words; None stands for a value that is missing."""
MAX_STEPS = 2.0**52
"""Numbers of this many steps of their last decimal are drawn as if they had no fixed number of decimals."""


def own_type(attribute: Attribute) -> pa.DataType:
    """The type that a column of text comes back in: numbers beside texts are text."""
    if attribute.sentinels:
        return pa.string()
    return pa.timestamp("us", attribute.time_zone) if attribute.time_zone else OWN_TYPE[attribute.type]


def decode(attribute: Attribute, codes: np.ndarray, field: pa.Field, rng: np.random.Generator) -> pa.Array:
    """Values of `field`'s type for `codes: int[row]`: listed or special ones, or inside their bin: uniform,
    or its bin values by their weights.
    """
    codes = codes.astype(np.int64)
    null = codes == attribute.null_code if attribute.nullable else None
    if not attribute.categorical:
        return column_of(attribute, codes, units_within(attribute, codes, field.type, rng), null, field.type)
    listed = listed_values(attribute)
    if pa.types.is_dictionary(field.type):  # the same dictionary in every batch
        values = typed(attribute, listed, field.type.value_type, safe=False)
        return _dictionary(pa.array(codes.astype(np.int32), mask=null), values, field.type)
    return typed(attribute, listed.take(pa.array(codes, mask=null)), field.type, safe=False)


def column_of(
    attribute: Attribute, codes: np.ndarray, units: np.ndarray, null: np.ndarray | None, arrow: pa.DataType
) -> pa.Array:
    """The values of these units, and an attribute's sentinels where the codes say so, in a column's type."""
    values = from_units(attribute, units, null)
    if not attribute.sentinels:
        return typed(attribute, values, arrow, safe=False)
    values = typed(attribute, values, pa.string(), safe=False)
    sentinel = codes - (len(attribute.cuts) - 1 + len(attribute.specials))
    mask = (sentinel >= 0) & (sentinel < len(attribute.sentinels))
    texts = pa.array(attribute.sentinels, pa.string()).take(pa.array(np.where(mask, sentinel, 0)))
    return typed(attribute, pc.if_else(pa.array(mask), texts, values), arrow, safe=False)


def units_within(
    attribute: Attribute, codes: np.ndarray, arrow: pa.DataType, rng: np.random.Generator
) -> np.ndarray:
    """int64 or float64[row]: a unit for each code; of a text or of null, any."""
    bin_of, special_of = np.zeros(attribute.size, np.int64), np.full(attribute.size, -1)
    bin_of[attribute.bin_codes] = np.arange(len(attribute.bin_codes))
    special_of[attribute.special_codes] = np.arange(len(attribute.specials))
    special = special_of[codes]
    if not len(attribute.bin_codes):
        return np.append(attribute.specials, attribute.cuts[:1])[special]
    draw = _draw_numbers if attribute.type == "number" else _draw_whole
    drawn = draw(attribute, bin_of[codes], arrow, rng)
    if attribute.bin_values:
        drawn = _draw_bin_values(attribute, bin_of[codes], drawn, rng)
    return np.where(special >= 0, attribute.specials[special], drawn) if len(attribute.specials) else drawn


def _draw_bin_values(
    attribute: Attribute, inside: np.ndarray, drawn: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """int64 or float64[row]: of each row's bin a bin value, by weight; as `drawn` where it has none."""
    units, weights = attribute.drawn
    ends, total = np.searchsorted(units, attribute.cuts), np.concatenate([[0], np.cumsum(weights)])
    first, room = total[ends[:-1]][inside], np.diff(total[ends])[inside]
    place = np.searchsorted(total, first + rng.integers(0, np.maximum(room, 1)), side="right") - 1
    return np.where(room > 0, units[np.minimum(place, len(units) - 1)], drawn)


class DecodeGrid(NamedTuple):
    """The multiples of a step inside each bin that are no special value, counted in steps: how many there are
    (`room: int64[bin]`), and how many lie below the bin (`first: int64[bin]`). `taken`: the special ones.
    """

    first: np.ndarray
    room: np.ndarray
    taken: np.ndarray

    @classmethod
    def of(cls, cuts: np.ndarray, specials: np.ndarray, step: int) -> DecodeGrid:
        ends = -(-cuts // step)
        taken = specials[specials % step == 0] // step
        below = np.searchsorted(taken, ends, side="left")
        return cls((ends - below)[:-1], np.diff(ends) - np.diff(below), taken)

    def value(self, inside: np.ndarray | int, rank: np.ndarray | int) -> np.ndarray:
        """int64: the free multiple of this rank, of each bin."""
        place = self.first[inside] + rank
        if not len(self.taken):
            return place
        return place + np.searchsorted(self.taken - np.arange(len(self.taken)), place, side="right")


def _draw_whole(
    attribute: Attribute, inside: np.ndarray, arrow: pa.DataType, rng: np.random.Generator
) -> np.ndarray:
    """int64[row]: uniform over the values in each row's bin that are multiples of the resolution or of what
    integers are rounded to; its begin where the resolution leaves none, any value where the latter does.
    """
    step = attribute.multiple_of or STEPS.get(attribute.resolution or "", 1)
    grid = DecodeGrid.of(attribute.cuts, attribute.specials, step)
    room = grid.room[inside]
    drawn = grid.value(inside, rng.integers(0, np.maximum(room, 1))) * step
    if attribute.multiple_of is None or (room > 0).all():
        return np.where(room > 0, drawn, attribute.cuts[inside])
    fine = DecodeGrid.of(attribute.cuts, attribute.specials, 1)
    return np.where(room > 0, drawn, fine.value(inside, rng.integers(0, fine.room[inside])))


def _draw_numbers(
    attribute: Attribute, inside: np.ndarray, arrow: pa.DataType, rng: np.random.Generator
) -> np.ndarray:
    """float64[row]: uniform over the numbers in each row's bin that the attribute's decimals and the type
    allow; where they leave none, its begin or, in a type of few digits, the next above.
    """
    arrow, cuts = value_type(arrow), attribute.cuts
    decimals = attribute.decimals
    if pa.types.is_integer(arrow) or pa.types.is_decimal(arrow):
        most = arrow.scale if pa.types.is_decimal(arrow) else 0
        decimals = most if decimals is None else min(decimals, most)
    if decimals is not None and np.abs(cuts).max() * 10.0**decimals < MAX_STEPS:
        steps = 10.0**decimals
        ends, special = np.round(cuts * steps, 3), np.round(attribute.specials * steps, 3)
        whole = np.rint(special[special == np.rint(special)]).astype(np.int64)
        ends[-1] = np.floor(ends[-1]) + 1  # the highest value lies inside the last bin
        grid = DecodeGrid.of(np.ceil(ends).astype(np.int64), whole, 1)
        room = grid.room[inside]
        drawn = grid.value(inside, rng.integers(0, np.maximum(room, 1))) / steps
        return np.where(room > 0, drawn, np.ceil(ends[inside]) / steps)
    lower, upper = cuts[inside], cuts[inside + 1]
    drawn = lower + rng.random(len(lower)) * (upper - lower)
    narrow = arrow.to_pandas_dtype() if pa.types.is_floating(arrow) else np.float64
    first = lower.astype(narrow)
    first = np.where(first < lower, np.nextafter(first, narrow(np.inf)), first)
    rounded = drawn.astype(narrow)
    return np.where((rounded >= upper) | (rounded < lower), first, drawn)


def listed_values(attribute: Attribute) -> pa.Array:
    """The listed values in the attribute's own type; Arrow takes integers for doubles up to 2^53 only."""
    if attribute.type in ("string", "boolean"):
        return pa.array(attribute.values, type=OWN_TYPE[attribute.type])
    return from_units(attribute, attribute.units)


def from_units(attribute: Attribute, units: np.ndarray, null: np.ndarray | None = None) -> pa.Array:
    if attribute.type == "date":
        return pa.array(units.astype(np.int32), mask=null).cast(pa.date32())
    own = OWN_TYPE[attribute.type]
    storage = pa.array(units.astype(np.int64 if attribute.type != "number" else np.float64), mask=null)
    return storage.cast(own) if own != storage.type else storage


def typed(attribute: Attribute, values: pa.Array, arrow: pa.DataType, *, safe: bool) -> pa.Array:
    """`values` in another type; ArrowInvalid if `safe` and they do not fit."""
    if pa.types.is_dictionary(arrow):
        encoded = typed(attribute, values, as_string(arrow.value_type), safe=safe).dictionary_encode()
        return _dictionary(encoded.indices, encoded.dictionary, arrow)
    if pa.types.is_decimal(arrow):
        return _decimals(values, arrow, safe=safe)
    if is_text(arrow) and pa.types.is_temporal(values.type) and attribute.format not in ("default", "any"):
        values = pc.strftime(values.cast(pa.timestamp("s"), safe=False), format=attribute.format)
    if pa.types.is_date(arrow) and pa.types.is_timestamp(values.type):
        safe = False
    if pa.types.is_integer(arrow) and pa.types.is_floating(values.type) and not attribute.categorical:
        values = pc.floor(values)
    if pa.types.is_timestamp(arrow) and pa.types.is_timestamp(values.type) and arrow.tz is not None:
        values = pc.assume_timezone(values, "UTC")
    elif is_text(arrow) and pa.types.is_timestamp(values.type) and attribute.time_zone:
        values = pc.assume_timezone(values, "UTC").cast(pa.timestamp("us", attribute.time_zone))
    if is_text(arrow) and attribute.zeros is not None and pa.types.is_floating(values.type):
        values = _with_zeros(values, attribute.zeros)
    if is_text(arrow):
        values = values.cast(pa.string())  # the only text that everything can be cast to
        if attribute.resolution is not None:  # a second at the finest
            values = pc.replace_substring(values, ".000000", "")
        if attribute.type in ("integer", "number") and attribute.format != "default":
            from factored_mwem.tables.codes.notation import in_notation  # here: most are plain

            values = in_notation(values, attribute.format)
    return values.cast(arrow, safe=safe)


def _dictionary(indices: pa.Array, values: pa.Array, arrow: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        indices.cast(arrow.index_type), values.cast(arrow.value_type), ordered=arrow.ordered
    )


def _decimals(values: pa.Array, arrow: pa.DataType, *, safe: bool) -> pa.Array:
    """Numbers as decimals: Arrow refuses integers of fewer digits than the type has, and cuts floats off."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.decimal128(38, 0)).cast(arrow, safe=safe)
    rounded = [None if v is None else round(v, arrow.scale) for v in values.to_pylist()]
    return pa.array(rounded, pa.float64()).cast(arrow, safe=safe)


def _with_zeros(values: pa.Array, zeros: int) -> pa.Array:
    """Numbers as text, with at least so many digits behind the point."""
    texts = values.cast(pa.string())
    if zeros > 1:
        short = pc.match_substring_regex(texts, rf"^-?[0-9]+([.][0-9]{{1,{zeros - 1}}})?$")
        padded = pc.utf8_rpad(pc.replace_substring_regex(texts, "^.*[.]|^[^.]*$", ""), zeros, "0")
        whole = pc.replace_substring_regex(texts, "[.].*$", "")
        return pc.if_else(short, pc.binary_join_element_wise(whole, padded, "."), texts)
    whole = pc.match_substring_regex(texts, "^-?[0-9]+$")
    return pc.if_else(whole, pc.binary_join_element_wise(texts, "0", "."), texts)


def as_string(arrow: pa.DataType) -> pa.DataType:
    return pa.string() if is_text(arrow) else arrow


def labels_of(attribute: Attribute) -> tuple[Label, ...]:
    """A label for each code: "20..29" is a bin with both its ends, "[0.5, 1.0)" one without the last; of a
    bin that holds special values, without those.
    """
    null = (None,) * attribute.nullable
    if attribute.categorical:
        return attribute.values + null
    labels = np.empty(attribute.size - attribute.nullable, dtype=object)
    if len(attribute.bin_codes):
        labels[attribute.bin_codes] = _labels_of_bins(attribute)
    spelt = pa.string() if attribute.type in ("date", "datetime") else OWN_TYPE[attribute.type]
    labels[attribute.special_codes] = from_units(attribute, attribute.specials).cast(spelt).to_pylist()
    if attribute.sentinels:
        labels[-len(attribute.sentinels) :] = attribute.sentinels
    return (*labels.tolist(), *null)


def _labels_of_bins(attribute: Attribute) -> list[Label]:
    cuts = attribute.cuts.tolist()
    if attribute.type == "number":
        last = math.nextafter(cuts[-1], -math.inf)  # the highest value lies inside the last bin
        bins = [f"[{low}, {high})" for low, high in itertools.pairwise(cuts[:-1])]
        return [*bins, f"[{cuts[-2]}, {last}]"]
    if attribute.type == "datetime":
        moments = np.array(cuts, dtype="datetime64[us]").astype(str)
        return [f"[{low}, {high})" for low, high in itertools.pairwise(moments)]
    ends = [(low, high - 1) for low, high in itertools.pairwise(cuts)]
    if attribute.type == "date":
        ends = np.array(ends, dtype="datetime64[D]").astype(str).tolist()
    return [low if low == high else f"{low}..{high}" for low, high in ends]


def label_text(label: Label) -> str:
    """A label in a table."""
    if label is None:
        return "(missing)"
    return shortened(str(label).lower() if isinstance(label, bool) else str(label))


def replaced(column: pa.Array, rows: np.ndarray, values: pa.Array) -> pa.Array:
    """The column with other values in these rows."""
    place = np.arange(len(column))
    place[rows] = len(column) + np.arange(len(rows))
    if pa.types.is_dictionary(column.type):
        both = pa.chunked_array([column, values]).unify_dictionaries().combine_chunks()
    else:
        both = pa.concat_arrays([column, values])
    return both.take(pa.array(place))
