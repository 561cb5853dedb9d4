"""Spelling: the names of columns in a query as a domain spells them, whatever their case."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from factored_mwem.domain.domain import Domain

Asked = TypeVar("Asked")
NAMES, LISTS = ("column", "other"), ("by", "columns")
"""Fields of queries and conditions that name a column, or several."""


def spelt(query: Asked, domain: Domain) -> Asked:
    """A query with each name that is none of a domain's, but for its case is that of one column alone, as the
    domain has it. Names that are mistaken otherwise stay, and are refused where they are looked up.
    """
    known: dict[str, list[str]] = {}
    for name in domain.names:
        known.setdefault(name.lower(), []).append(name)

    def of_domain(name: str) -> str:
        same = known.get(name.lower(), [])
        return same[0] if name not in domain and len(same) == 1 else name

    def renamed(part: Any) -> Any:
        if not is_dataclass(part) or isinstance(part, type):
            return tuple(map(renamed, part)) if isinstance(part, tuple) else part
        changed: dict[str, Any] = {}
        for each in fields(part):
            value = getattr(part, each.name)
            if each.name in NAMES:
                changed[each.name] = of_domain(value)
            elif each.name in LISTS and isinstance(value, tuple):
                changed[each.name] = tuple(map(of_domain, value))
            else:
                changed[each.name] = renamed(value)
        return replace(part, **changed)

    return renamed(query)
