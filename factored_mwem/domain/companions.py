"""Companions: what a row knows of the person's other rows, as attributes of the model alone.

Of each column that varies a companion holds its code in the person's previous row; of the column that orders
the rows one holds how much it has grown since, and two its code in the person's first and last row. They
follow from the domain, so nothing is learnt for them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.conditions import STEPS, intervals, placed
from factored_mwem.domain.domain import Domain

PREVIOUS, GAP, START, END = "previous ", "gap of ", "first ", "last "
"""How the name of a companion begins; the column's own name follows."""
FIRST = -1
"""What a companion says in the first row of a person."""
SINGLE_GAPS, MOST_GAPS = 4, 24
"""Gaps of 0, 1, ... up to so many have bins of their own; of more there are about so many, each wider by a
ratio.
"""
NARROWEST = 1.5


Kind = Literal["previous", "gap", "start", "end"]


@dataclass(frozen=True, slots=True)
class Companion:
    """`attribute`: the companion of column `of`; `partners`: the attributes that it is measured with."""

    kind: Kind
    attribute: Attribute
    of: str
    partners: tuple[str, ...]

    @property
    def first(self) -> int:
        """The code of FIRST, in the first row of a person."""
        return 0 if self.kind == "gap" else self.attribute.size - 1


def companions_of(domain: Domain, order: str, constant: Collection[str] = ()) -> list[Companion]:
    """Those of a domain of columns whose rows `order` puts in order: of each modelled column that is neither
    the same in all rows of a person nor of a single code.
    """
    companions: list[Companion] = []
    for a in domain.modelled:
        if a.name in constant or a.name == ROWS_OF_PERSON or a.size == 1:
            continue
        if a.name != order or not has_units(a):
            companions.append(Companion("previous", previous_of(a), a.name, (a.name,)))
            continue
        same = tuple(b.name for b in domain.modelled if b.name in constant and b.size > 1)
        companions += [
            Companion("gap", gap_of(a), a.name, (ROWS_OF_PERSON,)),
            Companion("start", code_of_person(START, a), a.name, (ROWS_OF_PERSON, *same)),
            Companion("end", code_of_person(END, a), a.name, (ROWS_OF_PERSON, START + a.name)),
        ]
    return companions


def names_for(columns: Iterable[str]) -> set[str]:
    """The names that companions of columns may have."""
    return {begin + name for name in columns for begin in (PREVIOUS, GAP, START, END)}


def previous_of(a: Attribute) -> Attribute:
    """The codes of the attribute, and FIRST."""
    facts = {"name": PREVIOUS + a.name, "type": "integer", "constraints": {"required": True}}
    return Attribute.model_validate({**facts, "categories": [*range(a.size), FIRST]})


def code_of_person(begin: str, a: Attribute) -> Attribute:
    """The codes of the attribute; `begin`: how its name does."""
    facts = {"name": begin + a.name, "type": "integer", "constraints": {"required": True}}
    return Attribute.model_validate({**facts, "categories": [*range(a.size)]})


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
