"""Companions: what a row knows of the person's other rows, as attributes of the model alone.

Of each column that varies one companion holds its code in the person's previous row, and one how it has
changed since: of numbers and moments the difference, of others whether it is the same. Of the column that
orders the rows one holds how much it has grown, and two its code in the person's first and last row. They
follow from the domain, so nothing is learnt for them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from factored_mwem.domain.attribute import ROWS_OF_PERSON, WIDEST, Attribute
from factored_mwem.domain.conditions import STEPS, intervals, placed
from factored_mwem.domain.domain import Domain

PREVIOUS, CHANGE, GAP, START, END = "previous ", "change of ", "gap of ", "first ", "last "
"""How the name of a companion begins; the column's own name follows."""
FIRST = -1
"""What a companion says in the first row of a person."""
FEW_CODES = 8
"""Of a column of so few no change is counted: the pairs with the row before tell it nearly as well."""
SAME, OTHERWISE = 0, 1
"""What a change says of a column of which there are no differences."""
SINGLE_GAPS, MOST_GAPS = 4, 24
"""Gaps of 0, 1, ... up to so many have bins of their own; of more there are about so many, each wider by a
ratio.
"""
NARROWEST = 1.5


Kind = Literal["previous", "change", "gap", "start", "end"]


@dataclass(frozen=True, slots=True)
class Companion:
    """`attribute`: the companion of column `of`; `partners`: what it is measured with, by marginal."""

    kind: Kind
    attribute: Attribute
    of: str
    partners: tuple[tuple[str, ...], ...]

    @property
    def first(self) -> int:
        """The code of FIRST, in the first row of a person."""
        return 0 if not self.attribute.categorical else self.attribute.size - 1


def companions_of(domain: Domain, order: str, constant: Collection[str] = ()) -> list[Companion]:
    """Those of a domain of columns whose rows `order` puts in order: of each modelled column that is neither
    the same in all rows of a person nor of a single code.
    """
    companions: list[Companion] = []
    gap = ((GAP + order,),) if order in domain and has_units(domain[order]) else ()
    for a in domain.modelled:
        if a.name in constant or a.name == ROWS_OF_PERSON or a.size == 1:
            continue
        if a.name != order or not has_units(a):
            before = previous_of(a)
            companions.append(Companion("previous", before, a.name, ((a.name,),)))
            if a.size > FEW_CODES or has_bins(a):
                companions.append(Companion("change", change_of(a), a.name, ((before.name,), *gap)))
            continue
        same = tuple((b.name,) for b in domain.modelled if b.name in constant and b.size > 1)
        companions += [
            Companion("gap", gap_of(a), a.name, ((ROWS_OF_PERSON,),)),
            Companion("start", code_of_person(START, a), a.name, ((ROWS_OF_PERSON,), *same)),
            Companion("end", code_of_person(END, a), a.name, ((ROWS_OF_PERSON,), (START + a.name,))),
        ]
    return [_by_steps(each, companions, domain) for each in companions]


def _by_steps(companion: Companion, others: Iterable[Companion], domain: Domain) -> Companion:
    """A change is measured with the steps of each column of few codes, too: how much younger a row is may
    hang on whether a child follows its parent, or its brother.
    """
    if companion.kind != "change" or not differs_by_steps(domain[companion.of]):
        return companion
    steps = tuple(
        (each.of, each.attribute.name)
        for each in others
        if each.kind == "previous" and domain[each.of].size <= FEW_CODES
    )
    return replace(companion, partners=(*companion.partners, *steps))


def names_for(columns: Iterable[str]) -> set[str]:
    """The names that companions of columns may have."""
    return {begin + name for name in columns for begin in (PREVIOUS, CHANGE, GAP, START, END)}


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


def differs_by_steps(a: Attribute) -> bool:
    """Whether a change tells by how much: of numbers and moments in bins, or of listed ones that follow each
    other at a distance of one. Of others, such as codes that happen to be numbers, a distance tells nothing.
    """
    return has_units(a) and (has_bins(a) or (a.categorical and span_of(a) + 1 == placed(a).sum()))


def has_bins(a: Attribute) -> bool:
    """Whether some of its codes may stand for many values."""
    return not a.categorical and len(a.cuts) > 1


def change_of(a: Attribute) -> Attribute:
    """Bins of differences to the row before, in least steps and signed, FIRST below all of them, and null
    where a value is not known; of columns without such steps SAME, OTHERWISE and FIRST.
    """
    facts: dict[str, Any] = {"name": CHANGE + a.name, "type": "integer"}
    if not differs_by_steps(a):
        listed = {"categories": [SAME, OTHERWISE, FIRST], "constraints": {"required": True}}
        return Attribute.model_validate({**facts, **listed})
    edges = _edges_of_steps(a)
    both = [1 - edge for edge in reversed(edges[2:])] + edges
    return Attribute.model_validate({**facts, "specialValues": [both[0] + FIRST], "edges": both})


def steps_between(a: Attribute, before: np.ndarray, now: np.ndarray) -> np.ndarray:
    """int64[row]: the difference of values of an attribute, in least steps: 0 only where they are equal."""
    apart = now - before
    steps = np.rint(np.clip(apart / least_step(a), -WIDEST, WIDEST)).astype(np.int64)
    return np.where(apart == 0, 0, np.where(steps == 0, np.sign(apart), steps)).astype(np.int64)


def gap_of(a: Attribute) -> Attribute:
    """Bins of differences, in the unit of the attribute's cuts, FIRST, and null where a value is not known.
    They follow from its bounds and its least step alone.
    """
    step, whole = least_step(a), a.type != "number"
    scaled = [round(edge * step) if whole else edge * step for edge in _edges_of_steps(a)]
    facts = {"name": GAP + a.name, "type": "integer" if whole else "number", "specialValues": [FIRST]}
    return Attribute.model_validate({**facts, "edges": scaled})


def _edges_of_steps(a: Attribute) -> list[int]:
    """The begins of bins of whole steps, from 0 on, and the end of the last, beyond all differences but those
    that no domain can hold: they count in it.
    """
    widest = WIDEST if a.type == "number" else WIDEST // round(least_step(a))
    top = min(max(SINGLE_GAPS, math.ceil(span_of(a) / least_step(a))) + 1, widest)
    ratio = max(NARROWEST, (top / SINGLE_GAPS) ** (1 / MOST_GAPS))
    edges = list(range(SINGLE_GAPS + 1))
    while (following := math.ceil(edges[-1] * ratio)) < top:
        edges.append(following)
    return [*edges, top]
