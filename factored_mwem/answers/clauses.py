"""Clauses: conditions joined by `and`, `or` and `not`, as a list of which all hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from factored_mwem.answers.query import (
    AnyOf,
    Between,
    Compare,
    Comparison,
    Missing,
    OneOf,
    Where,
)
from factored_mwem.errors import InputError

Literal = Compare | Between | OneOf | Missing
Clauses = list[tuple[Literal, ...]]
"""Of each at least one condition holds."""
MAX_CLAUSES = 64
OPPOSITE: dict[str, Comparison] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def every(parts: Sequence[Clauses]) -> Clauses:
    """All of them."""
    return [clause for part in parts for clause in part]


def some(parts: Sequence[Clauses]) -> Clauses:
    """At least one of them, multiplied out. Raises InputError if that is too much."""
    if math.prod(len(part) for part in parts) > MAX_CLAUSES:
        raise InputError("too many conditions joined by `or`, `and` and `not`; ask for fewer at a time")
    return [tuple(dict.fromkeys(itertools.chain(*clauses))) for clauses in itertools.product(*parts)]


def negation(clauses: Clauses) -> Clauses:
    """The opposite. As in SQL a missing value meets neither a comparison nor its opposite."""
    return some([[_opposite(literal) for literal in clause] for clause in clauses])


def _opposite(literal: Literal) -> tuple[Literal, ...]:
    if isinstance(literal, Compare):
        return (Compare(literal.column, OPPOSITE[literal.by], literal.value),)
    if isinstance(literal, Between):
        below = Compare(literal.column, "<", literal.low)
        return below, Compare(literal.column, ">", literal.high)
    return (replace(literal, negated=not literal.negated),)


def joined(clauses: Clauses) -> Where:
    """Clauses as the conditions of a query."""
    return tuple(AnyOf(clause) if len(clause) > 1 else clause[0] for clause in clauses)
