"""Neutral bins: NOT PRIVATE. Codes that depend on the real table alone, and on no release's domain.

So errors in them do not depend on the domain of a release, and can be compared between releases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from factored_mwem.domain.attribute import Attribute
from factored_mwem.owner.evaluation.readings import Kind, Values
from factored_mwem.tables.codes.codec import code_dtype

BINS = 20
"""Bins of an equal share of the real numbers; a number that so many rows share has a bin of its own."""
MAX_TEXTS = 200
"""The number of most frequent real texts that have a code each; all others share one."""


def neutral_codes(
    name: str, kind: Kind, real: Values, synthetic: Values
) -> tuple[Attribute, np.ndarray, np.ndarray]:
    """NOT PRIVATE. (attribute, codes, codes): a column of both tables in neutral bins.

    First the bins of numbers in order, then texts, then what is missing; none that no row fills. The
    attribute holds their number alone.
    """
    cuts = cuts_of(real.numbers[~np.isnan(real.numbers)])
    rows = np.bincount(real.index[real.index >= 0], minlength=len(real.texts))
    frequent = np.argsort(-rows, kind="stable")[:MAX_TEXTS]
    listed = real.texts.take(frequent[rows[frequent] > 0])
    absent = len(cuts) + 1 + len(listed) + 1
    both = []
    for values in (real, synthetic):
        place = pc.fill_null(pc.index_in(values.texts, value_set=listed), len(listed))
        of_text = np.append(len(cuts) + 1 + place.to_numpy(zero_copy_only=False).astype(np.int64), absent)
        binned = np.searchsorted(cuts, values.numbers, side="right")
        both.append(np.where(np.isnan(values.numbers), of_text[values.index], binned))
    filled, codes = np.unique(np.concatenate(both), return_inverse=True)
    required = filled[-1] != absent
    present = max(len(filled) - (not required), 1)
    attribute = _sized(name, present, required=bool(required), ordered=kind != "text")
    codes += present + (not required) - len(filled)  # 1 if all values are missing: a column needs a code
    codes = codes.astype(code_dtype(attribute))
    return attribute, codes[: len(real.numbers)], codes[len(real.numbers) :]


def cuts_of(numbers: np.ndarray) -> np.ndarray:
    """float64[bins - 1], ascending: bin i holds the numbers from cuts[i - 1] to below cuts[i].

    A number that at least one row in BINS has is alone in its bin, and so is each where there are at most
    BINS; what lies between it and the next real one has a bin, too.
    """
    values, rows = np.unique(numbers, return_counts=True)
    alone = rows * BINS >= len(numbers) if len(values) > BINS else np.ones(len(values), dtype=bool)
    share = (np.cumsum(rows) - rows) * BINS // max(len(numbers), 1)
    begins = np.diff(share, prepend=share[:1]) > 0
    return np.unique(np.concatenate([values[begins], values[alone], np.nextafter(values[alone], np.inf)]))


def _sized(name: str, size: int, *, required: bool, ordered: bool) -> Attribute:
    """An attribute of so many codes, and one for what is missing."""
    facts: dict[str, Any] = {"name": name, "constraints": {"required": required}}
    if not ordered:
        return Attribute.model_validate(facts | {"categories": [str(code) for code in range(size)]})
    facts["constraints"] |= {"minimum": 0, "maximum": size - 1}
    return Attribute.model_validate(facts | {"type": "integer", "bins": size})
