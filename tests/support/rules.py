"""What rules say, written from the guide and not from the code: rows are dictionaries of Python values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def holds(condition: Any, value: Any) -> bool:
    """Whether a value fulfils a condition; texts beside numbers lie between no bounds."""
    if isinstance(condition, dict) and "not" in condition:
        return not holds(condition["not"], value)
    if isinstance(condition, dict):
        if value is None or isinstance(value, bool):
            return False
        ends = list(condition.values())
        if isinstance(ends[0], str) != isinstance(value, str):
            return False
        return bool(condition.get("min", value) <= value <= condition.get("max", value))
    if isinstance(condition, list | tuple):
        return any(holds(one, value) for one in condition)
    if condition is None or value is None:
        return condition is value
    return bool(condition == value and isinstance(condition, bool) == isinstance(value, bool))


def all_hold(conditions: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return all(holds(condition, row[name]) for name, condition in conditions.items())


def keeps(rule: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a row keeps a rule of a domain file."""
    if "never" in rule:
        return not all_hold(rule["never"], row)
    if "if" in rule:
        return not all_hold(rule["if"], row) or all_hold(rule["then"], row)
    if "order" in rule:
        first, second = (row[name] for name in rule["order"])
        numbers = not isinstance(first, str) and not isinstance(second, str)
        return first is None or second is None or not numbers or first <= second
    if "sum" in rule:
        parts, total = [row[name] for name in rule["of"]], row[rule["sum"]]
        if total is None:
            return None in parts
        return math.isclose(total, sum(part or 0 for part in parts), rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(rule["from"], list):
        given = [row[name] for name in rule["from"]]
        value = next((value for own, value in rule["map"] if own == given), rule.get("otherwise"))
        return bool(row[rule["derive"]] == value)
    pairs = rule["map"].items() if isinstance(rule["map"], dict) else rule["map"]
    for condition, value in pairs:
        if holds(condition, row[rule["from"]]):
            return bool(row[rule["derive"]] == value)
    return row[rule["from"]] is None and row[rule["derive"]] is None
