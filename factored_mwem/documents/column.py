"""Column: what a released column may hold, as catalogues ask for it."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any

from factored_mwem.domain.attribute import Attribute, Scalar

_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the released rows. `type` is a Table Schema's.

    The domain says how the private table was read; this says what was written: a number whose domain has a
    text among its special values comes back as text.
    """

    name: str
    type: str
    required: bool
    """Whether it has no nulls."""
    minimum: Scalar | None = None
    maximum: Scalar | None = None
    values: tuple[Scalar, ...] | None = None
    """All that may appear, where it is a list."""
    title: str | None = None
    description: str | None = None

    @classmethod
    def of(cls, attribute: Attribute) -> Column:
        low, high = _ends(attribute)
        listed = attribute.categories
        if not attribute.categorical and low is None:
            listed = attribute.special_values if len(attribute.cuts) == 1 else None
        return cls(
            name=attribute.name,
            type="string" if attribute.sentinels else attribute.type,
            required=not attribute.nullable,
            minimum=low,
            maximum=high,
            values=listed,
            title=attribute.title,
            description=attribute.description,
        )

    @property
    def limits(self) -> dict[str, Any]:
        """The constraints of a Table Schema, those that there are."""
        found: dict[str, Any] = {"required": True} if self.required else {}
        ends = {"minimum": self.minimum, "maximum": self.maximum}
        found |= {key: value for key, value in ends.items() if value is not None}
        return found | ({"enum": list(self.values)} if self.values is not None else {})


def _ends(attribute: Attribute) -> tuple[Scalar | None, Scalar | None]:
    """The least and greatest value of numbers or moments in bins, special values included; else None."""
    if attribute.categorical or attribute.sentinels or len(attribute.cuts) == 1:
        return None, None
    cuts, specials = attribute.cuts, attribute.specials
    low = cuts[0]
    # the last cut lies just above the greatest value
    high = math.nextafter(cuts[-1], -math.inf) if attribute.type == "number" else cuts[-1] - 1
    if len(specials):
        low, high = min(low, specials[0]), max(high, specials[-1])
    return _value(attribute.type, low), _value(attribute.type, high)


def _value(kind: str, unit: Any) -> Scalar:
    """A value from the unit of `Attribute.cuts`: moments as texts of ISO 8601."""
    if kind == "number":
        return float(unit)
    if kind == "integer":
        return int(unit)
    if kind == "date":
        return (_EPOCH.date() + datetime.timedelta(days=int(unit))).isoformat()
    return (_EPOCH + datetime.timedelta(microseconds=int(unit))).isoformat()
