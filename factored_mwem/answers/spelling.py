"""Spelling: the names of columns in a query as a domain spells them, whatever their case."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from factored_mwem.answers.query import Compare
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError

Asked = TypeVar("Asked")
NAMES, LISTS = ("column", "other"), ("by", "columns")
"""Fields of queries and conditions that name a column, or several."""


def spelt(query: Asked, domain: Domain) -> Asked:
    """A query with each name that is none of a domain's, but for its case is that of one column alone, as the
    domain has it. Names that are mistaken otherwise stay, and are refused where they are looked up. Raises
    InputError if columns are compared with each other.
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
        if isinstance(part, Compare) and isinstance(part.value, str) and of_domain(part.value) in domain:
            _check_value(part, domain)
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


def _check_value(condition: Compare, domain: Domain) -> None:
    """Raise InputError if a value is meant as a column."""
    listed = domain[condition.column].values if condition.column in domain else ()
    if str(condition.value).lower() not in {str(value).lower() for value in listed}:
        raise InputError(f"{condition.value!r} is a column: a condition compares a column with a value alone")
