"""Draft: NOT PRIVATE. A first domain read off the data, for a person to review and correct."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

from factored_mwem.domain.attribute import MAX_NUMBER, Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.grids import MICROS_A_DAY
from factored_mwem.errors import InputError
from factored_mwem.tables.kinds import KINDS, MOMENTS, NUMBERS, kind_of
from factored_mwem.tables.profile import ColumnProfile, profile
from factored_mwem.tables.source import open_table
from factored_mwem.tables.text_form import Records

MAX_CATEGORIES = 200
"""A text column with more values keeps its most frequent ones; the rest become `other`."""


def draft(source: Any, columns: Sequence[str] | None = None, *, records: Records = "checked") -> Domain:
    """NOT PRIVATE: a first domain whose categories, bounds and nulls are those of the data.

    Review every field, and widen bounds to what is publicly known. No release takes it before
    `Domain.reviewed()`, or before a person removes "draft" from its file. `records`: see Policy.

    >>> import pyarrow as pa
    >>> from factored_mwem import draft
    >>> domain = draft(pa.table({"age": [31, 45], "sex": ["F", "M"]}))
    >>> domain["sex"].categories, domain["age"].constraints.maximum  # of the data: one person's, maybe
    (('F', 'M'), 45)
    """
    table = open_table(source, records)
    for name in columns or ():
        table.check_column(name)
    names = [name for name in table.schema.names if columns is None or name in columns]
    profiles = profile(table, names)
    if not any(len(column.counts) for column in profiles.values()):
        raise InputError("the table has no rows to draft a domain from")
    attributes = (
        _attribute(name, profiles[name], None if table.text else kind_of(table.schema.field(name)))
        for name in names
    )
    return Domain(attributes, draft="the domain")


def _attribute(name: str, column: ColumnProfile, typed: str | None) -> Attribute:
    votes = dict(zip(KINDS, column.votes().tolist(), strict=True))
    kind = typed or _kind(votes)
    if kind == "number" and _kind(votes) == "integer":
        kind = "integer"
    facts: dict[str, Any] = {"name": name, "type": kind, "constraints": {"required": not votes["null"]}}
    if kind == "boolean":
        return Attribute.model_validate(facts)
    if kind == "string":
        texts = column.texts(())
        values = sorted(texts, key=lambda text: (-texts[text], text))[:MAX_CATEGORIES]
        if len(texts) > MAX_CATEGORIES or not values:
            values = [*(v for v in values if v != "other"), "other"]
            facts["other"] = "other"
        return Attribute.model_validate({**facts, "categories": sorted(values)})
    units, _ = column.numbers(NUMBERS if kind in ("integer", "number") else MOMENTS, kind)
    days = MICROS_A_DAY if kind == "datetime" else 1
    least, most = (float(units[0]) / days, float(units[-1]) / days) if len(units) else (0.0, 1.0)
    facts["constraints"] |= dict(zip(("minimum", "maximum"), _ends(kind, least, most), strict=True))
    return Attribute.model_validate(facts)


def _kind(votes: dict[str, int]) -> str:
    """The narrowest kind that covers every value."""
    seen = {kind for kind in KINDS[1:] if votes[kind]}
    narrower = {"boolean": ("boolean",), "integer": ("integer",), "number": NUMBERS, "date": ("date",),
                "datetime": MOMENTS}  # fmt: skip
    return next((kind for kind, of in narrower.items() if seen and seen <= set(of)), "string")


def _ends(kind: str, least: float, most: float) -> tuple[Any, Any]:
    if kind == "integer":
        first_whole, last_whole = (int(min(max(end, -(2**62 - 1024)), 2**62 - 1024)) for end in (least, most))
        return first_whole, last_whole
    if kind == "number":
        least, most = (min(max(end, -MAX_NUMBER / 4), MAX_NUMBER / 4) for end in (least, most))
        size = max(abs(least), abs(most), 1e-290)
        return (least, most) if most - least > 1e-9 * size else (least, least + max(size, 1.0))
    epoch = datetime.datetime(1970, 1, 1)
    first, last = (
        epoch + datetime.timedelta(days=min(max(d, -719_162), 2_932_895))
        for d in (math.floor(least), math.ceil(most))
    )
    if kind == "date":
        return first.date().isoformat(), last.date().isoformat()
    return first.isoformat(), (last + datetime.timedelta(days=1)).isoformat()
