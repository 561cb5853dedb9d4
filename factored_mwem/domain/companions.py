"""Companions: what a row knows of the row before it, of the same person, as attributes of the model alone.

Of each column that varies a companion holds its code in the person's previous row; of the column that orders
the rows, how much it has grown since. They follow from the domain, so nothing is learnt for them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.conditions import STEPS, intervals, placed
from factored_mwem.domain.domain import Domain

PREVIOUS, GAP = "previous ", "gap of "
"""How the name of a companion begins; the column's own name follows."""
FIRST = -1
"""What a companion says in the first row of a person."""
SINGLE_GAPS, MOST_GAPS = 4, 24
"""Gaps of 0, 1, ... up to so many have bins of their own; beyond, about so many bins, each wider by a ratio."""
NARROWEST = 1.5


@dataclass(frozen=True, slots=True)
class Companion:
    """`attribute`: the companion of column `of`; `gap`: whether it says how much that has grown."""

    attribute: Attribute
    of: str
    gap: bool = False

    @property
    def first(self) -> int:
        """Its code in the first row of a person."""
        return 0 if self.gap else self.attribute.size - 1


def companions_of(domain: Domain, order: str, constant: Collection[str] = ()) -> list[Companion]:
    """Those of a domain of columns whose rows `order` puts in order: of each modelled column that is neither
    the same in all rows of a person nor of a single code.
    """
    return [
        Companion(gap_of(a), a.name, gap=True)
        if a.name == order and has_units(a)
        else Companion(previous_of(a), a.name)
        for a in domain.modelled
        if a.name not in constant and a.name != ROWS_OF_PERSON and a.size > 1
    ]


def names_for(columns: Iterable[str]) -> set[str]:
    """The names that companions of columns may have."""
    return {begin + name for name in columns for begin in (PREVIOUS, GAP)}


def previous_of(a: Attribute) -> Attribute:
    """The codes of the attribute, and FIRST."""
    facts = {"name": PREVIOUS + a.name, "type": "integer", "constraints": {"required": True}}
    return Attribute.model_validate({**facts, "categories": [*range(a.size), FIRST]})


def has_units(a: Attribute) -> bool:
    """Whether its values are numbers or moments, of which there are differences."""
    return a.type in ("integer", "number", "date", "datetime") and bool(placed(a).any()) and span_of(a) > 0


def span_of(a: Attribute) -> float:
    """How far its greatest value is from its least."""
    low, high = intervals(a)
    return float(high[placed(a)].max()) - float(low[placed(a)].min())


def least_step(a: Attribute) -> float:
    """Between two values, in the unit of the attribute's cuts: as declared, a whole one, or a second; of
    numbers without decimals a 4096th of their range.
    """
    if a.type == "datetime":
        return float(STEPS[a.resolution or "second"])
    if a.type != "number":
        return float(a.multiple_of or 1)
    return 10.0**-a.decimals if a.decimals is not None else span_of(a) / 4096


def gap_of(a: Attribute) -> Attribute:
    """Bins of differences, in the unit of the attribute's cuts, FIRST, and null where a value is not known.
    They follow from its bounds and its least step alone.
    """
    step = least_step(a)
    top = max(SINGLE_GAPS, math.ceil(span_of(a) / step)) + 1
    ratio = max(NARROWEST, (top / SINGLE_GAPS) ** (1 / MOST_GAPS))
    edges = list(range(SINGLE_GAPS + 1))
    while (following := math.ceil(edges[-1] * ratio)) < top:
        edges.append(following)
    whole = a.type != "number"
    scaled = [round(edge * step) if whole else edge * step for edge in (*edges, top)]
    facts = {"name": GAP + a.name, "type": "integer" if whole else "number", "specialValues": [FIRST]}
    return Attribute.model_validate({**facts, "edges": scaled})


def units_of_codes(a: Attribute) -> np.ndarray:
    """int64 or float64[code]: a value of each, its least; of codes that stand for none any."""
    return intervals(a)[0]
