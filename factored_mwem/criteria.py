"""Criteria: what the certificate must say of a release before it is released, as a person writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_FORM = re.compile(
    r"\s*(?:mean([1-9][0-9]?)|(worst)|column\s+(\S(?:.*\S)?))\s*<=\s*([0-9.eE+-]+)\s*", re.DOTALL
)
HOW = "write mean1, mean2, ..., worst or column NAME, then <= and a number above 0 and below 2"
"""What a person who wrote something else is told."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """An error of the released rows is at most `most`: the mean over the marginals of `order` attributes,
    that of one `column`, or the worst of all. It is met where the certificate's upper bound is no larger.
    """

    text: str
    what: Literal["mean", "column", "worst"]
    order: int
    column: str | None
    most: float

    @classmethod
    def parse(cls, text: str) -> Criterion:
        """What `mean3 <= 0.15`, `worst <= .8` or `column age <= .05` asks; else a ValueError."""
        found = _FORM.fullmatch(text)
        try:
            most = float(found[4]) if found else 0.0
        except ValueError:
            most = 0.0
        if found is None or not 0 < most < 2:
            raise ValueError(f"--accept {text[:80]!r}: {HOW}")
        order, worst, column, _ = found.groups()
        if column is not None:
            return cls(text, "column", 1, column, most)
        return cls(text, "worst" if worst else "mean", int(order or 0), None, most)
