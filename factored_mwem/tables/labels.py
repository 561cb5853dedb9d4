"""Labels: what each code of an attribute stands for, in a word."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import Attribute, Scalar
from factored_mwem.tables.decode import OWN_TYPE, from_units

Label = Scalar | None
"""A listed value, a whole number, or a bin in words; None stands for a value that is missing."""


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
    labels[attribute.special_codes] = (
        from_units(attribute, attribute.specials)
        .cast(pa.string() if attribute.type in ("date", "datetime") else OWN_TYPE[attribute.type])
        .to_pylist()
    )
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
